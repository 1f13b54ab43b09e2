"""BestResponse: rounds of released group risks against any private solver for a fixed mixture.

In every round a base solver answers for the group weights of that round, and released group risks
move them towards the groups that do badly. Theory: docs/theory/best-response.md. A reader for
privacy opens `releases.py`, and that of the base.
"""

from sklearn_dpwg.solvers.best_response.best_response import BestResponse

__all__ = ["BestResponse"]
