"""Sample oracles: sources of fresh records of a group.

A fresh solver never holds the records. It asks a `SampleOracle` for a few of one group, uses each
once, and forgets them. They may lie in memory (`InMemoryOracle`), or be made on demand or fetched
from a database by a function (`GeneratorOracle`); a class of your own needs one method and has to
keep the promises of `SampleOracle`.
"""

from sklearn_dpwg.data.oracles.base import GeneratorOracle, InMemoryOracle, SampleOracle

__all__ = ["GeneratorOracle", "InMemoryOracle", "SampleOracle"]
