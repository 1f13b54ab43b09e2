"""Group risks and their derivatives: what solvers see of the records.

`Risks` is the contract, `GroupRisks` meets it for records in memory. An optimiser needs less,
`RiskFunctions`, which quadratics or a known population meet as well.
"""

from sklearn_dpwg.risks._group_risks import BLOCK_ROWS, GroupRisks
from sklearn_dpwg.risks._protocols import RiskFunctions, Risks

__all__ = ["BLOCK_ROWS", "GroupRisks", "RiskFunctions", "Risks"]
