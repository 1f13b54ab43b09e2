"""Group risks and their derivatives: what solvers see of the records.

`Risks` is the contract. `BlockRisks` meets it for blocks of records wherever an `Engine` holds
them: a `RecordBlock` returns sums, and the risks divide what was added up. `GroupRisks` is the case
of one block in memory. A `Selection` says by a key which records take part. An optimiser needs
less than `Risks`: `RiskFunctions`, which quadratics or a known population meet as well.
"""

from sklearn_dpwg.data.risks.block_risks import MAX_BLOCKS, BlockRisks, GroupRisks
from sklearn_dpwg.data.risks.engine import Engine, LocalEngine
from sklearn_dpwg.data.risks.protocols import Block, RiskFunctions, Risks
from sklearn_dpwg.data.risks.record_block import BLOCK_ROWS, RecordBlock
from sklearn_dpwg.data.risks.selection import (
    ByGroup,
    EveryRecord,
    KeyedPart,
    Selection,
    keyed_parts,
)

__all__ = [
    "BLOCK_ROWS",
    "MAX_BLOCKS",
    "Block",
    "BlockRisks",
    "ByGroup",
    "Engine",
    "EveryRecord",
    "GroupRisks",
    "KeyedPart",
    "LocalEngine",
    "RecordBlock",
    "RiskFunctions",
    "Risks",
    "Selection",
    "keyed_parts",
]
