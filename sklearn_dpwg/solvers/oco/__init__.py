"""OCO."""

from sklearn_dpwg.solvers.oco.oco import OCO

__all__ = ["OCO"]
