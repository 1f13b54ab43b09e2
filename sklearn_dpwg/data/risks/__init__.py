"""Group risks and their derivatives: what solvers see of the records.

`Risks` adds up sums over blocks of records, which an engine holds; `GroupRisks` is the case of one
block in memory. An optimiser needs only the protocol `RiskFunctions`, which quadratics or a known
population implement, too.
"""

from sklearn_dpwg.data.risks.risks import GroupRisks, RiskFunctions, Risks

__all__ = ["GroupRisks", "RiskFunctions", "Risks"]
