"""MGR."""

from sklearn_dpwg.solvers.mgr.mgr import MGR

__all__ = ["MGR"]
