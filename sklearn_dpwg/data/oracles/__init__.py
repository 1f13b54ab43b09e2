"""Sample oracles: sources of fresh records of a group.

A fresh solver never holds the records. It asks a `SampleOracle` for a few of one group, uses each
once, and forgets them. They may lie in memory (`InMemoryOracle`), be made on demand
(`GeneratorOracle`), or stay in a database (`DatabaseOracle`); a class of your own needs one method
and has to keep the promises of `SampleOracle`, which `check_sample_oracle` attacks.
"""

from sklearn_dpwg.data.oracles.base import GeneratorOracle, InMemoryOracle, SampleOracle
from sklearn_dpwg.data.oracles.check import check_sample_oracle
from sklearn_dpwg.data.oracles.database import DatabaseOracle

__all__ = [
    "DatabaseOracle",
    "GeneratorOracle",
    "InMemoryOracle",
    "SampleOracle",
    "check_sample_oracle",
]
