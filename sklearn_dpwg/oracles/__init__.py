"""Sample oracles: where fresh records of a group come from.

A fresh solver never holds the records. It asks a `SampleOracle` for a few of one group, uses each
once, and forgets them. They may lie in memory (`InMemoryOracle`), be made on demand
(`GeneratorOracle`), or stay in a database (`DatabaseOracle`); a class of your own needs one method.
"""

from sklearn_dpwg.oracles.base import SampleOracle
from sklearn_dpwg.oracles.database import DatabaseOracle
from sklearn_dpwg.oracles.encoding import EncodingOracle
from sklearn_dpwg.oracles.generator import GeneratorOracle
from sklearn_dpwg.oracles.in_memory import InMemoryOracle
from sklearn_dpwg.oracles.records import RecordOracle

__all__ = [
    "DatabaseOracle",
    "EncodingOracle",
    "GeneratorOracle",
    "InMemoryOracle",
    "RecordOracle",
    "SampleOracle",
]
