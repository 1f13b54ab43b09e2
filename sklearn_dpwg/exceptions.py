"""Errors and warning categories, each its own class so that a caller can filter it."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


class DPWGError(Exception):
    """Base of the errors of this package."""


class InputError(DPWGError, ValueError):
    """Records or parameters are wrong."""


class InputTypeError(DPWGError, TypeError):
    """Records or parameters are of a type that is not taken."""


class PlanExceededError(DPWGError, RuntimeError):
    """More would be released than the plan has paid for."""


class UnsupportedMechanismError(DPWGError, ValueError):
    """No accountant states the privacy of this mechanism tightly."""


class BudgetExceededError(DPWGError, RuntimeError):
    """A fit would cost more than what is left in a `PrivacyLedger`."""


class OracleError(DPWGError, RuntimeError):
    """A sample oracle failed, ran dry, or gave something else than fresh records."""


class ChangedDataError(DPWGError, RuntimeError):
    """Records that were read once more, as a file or a lost partition, are not what they were."""


class ClusterError(DPWGError, RuntimeError):
    """A pass on a cluster was not done: its workers or scheduler went away, or time was up."""


class NoProtectionWarning(UserWarning):
    """The guarantee protects nobody, or not from what learned from the records without noise."""


class SeededNoiseWarning(UserWarning):
    """The noise is drawn from a seed, so whoever knows the seed can subtract it."""


class DataNormWarning(UserWarning):
    """Nobody said how long a row can be, so longer ones than 1 are shortened to norm 1."""


class UngroupedWarning(UserWarning):
    """No groups reach a fit, where the average risk is learned then, a record or a scorer."""


class GroupsWarning(UserWarning):
    """Groups may not be what is meant, as others than the model's, or one has no score."""


class WeakPlanWarning(UserWarning):
    """A plan promises no more than predicting nothing, or a group may be too small."""


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to the nearest caller outside of this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


__all__ = [
    "BudgetExceededError",
    "ChangedDataError",
    "ClusterError",
    "DPWGError",
    "GroupsWarning",
    "InputError",
    "NoProtectionWarning",
    "OracleError",
    "PlanExceededError",
    "SeededNoiseWarning",
    "UngroupedWarning",
    "UnsupportedMechanismError",
    "WeakPlanWarning",
]
