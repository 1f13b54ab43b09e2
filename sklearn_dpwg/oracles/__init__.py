"""Sample oracles: sources of fresh records of a group.

A fresh solver never holds the records. It asks a `SampleOracle` for a few of one group, uses each
once, and forgets them. They may lie in memory (`InMemoryOracle`), be made on demand
(`GeneratorOracle`), or stay in a database (`DatabaseOracle`); a class of your own needs one method
and has to keep the promises of `SampleOracle`, which `check_sample_oracle` attacks.
"""

from sklearn_dpwg.oracles._check_sample_oracle import check_sample_oracle
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
    "check_sample_oracle",
]
