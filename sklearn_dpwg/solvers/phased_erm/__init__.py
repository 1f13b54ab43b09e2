"""PhasedERM."""

from sklearn_dpwg.solvers.phased_erm.phased_erm import PhasedERM

__all__ = ["PhasedERM"]
