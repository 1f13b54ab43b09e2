"""Group risks and their derivatives: what solvers see of the records.

`Risks` adds up, wherever an engine holds them, what blocks of records answer; `GroupRisks` is the
case of one block in memory. An optimiser needs less, `RiskFunctions`, which quadratics or a known
population meet as well.
"""

from sklearn_dpwg.data.risks.risks import GroupRisks, RiskFunctions, Risks

__all__ = ["GroupRisks", "RiskFunctions", "Risks"]
