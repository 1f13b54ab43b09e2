"""Group risks and their derivatives: what solvers see of the records.

`Risks` adds up, wherever an engine holds them, what blocks of records (`RecordBlock`) answer.
`GroupRisks` is the case of one block in memory. A `Selection` says by a key which records take
part. An optimiser needs less than `Risks`: `RiskFunctions`, which quadratics or a known population
meet as well.
"""

from sklearn_dpwg.data.risks.record_block import RecordBlock
from sklearn_dpwg.data.risks.risks import GroupRisks, RiskFunctions, Risks
from sklearn_dpwg.data.risks.selection import Selection

__all__ = [
    "GroupRisks",
    "RecordBlock",
    "RiskFunctions",
    "Risks",
    "Selection",
]
