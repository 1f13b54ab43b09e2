"""Moments."""

from sklearn_dpwg.solvers.moments.moments import Moments

__all__ = ["Moments"]
