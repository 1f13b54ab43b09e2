"""Errors and warning categories, each its own class so that a caller can filter it."""

from __future__ import annotations

import sys
import warnings

_PACKAGE = __name__.partition(".")[0]


class DPWGError(Exception):
    """An error in this package's own words, which may leave a worker; those of others may not."""


class InputError(DPWGError, ValueError):
    """Records or parameters are wrong, told without the values of a record."""


class InputTypeError(DPWGError, TypeError):
    """Records or parameters are of a type that is not taken."""


class FileError(DPWGError, OSError):
    """Files are not there, or cannot be made or written."""


class ContractError(DPWGError, RuntimeError):
    """Something is called out of its order, or does not act as its contract says."""


class SeededNoiseWarning(UserWarning):
    """The noise is drawn from a seed, so whoever knows the seed can subtract it."""


class DeltaWarning(UserWarning):
    """Delta is so large that publishing one whole record at random would be allowed."""


class PlanExceededError(DPWGError, RuntimeError):
    """More would be released than the plan has paid for."""


class CalibrationError(DPWGError, RuntimeError):
    """No noise was found that keeps the budget."""


class UnsupportedMechanismError(DPWGError, ValueError):
    """No accountant states the privacy of this mechanism tightly."""


class NoProtectionWarning(UserWarning):
    """Epsilon is so large that the guarantee protects nobody."""


class DataNormWarning(UserWarning):
    """Nobody said how long a row can be, so longer ones than 1 are shortened to norm 1."""


class PublicTargetWarning(UserWarning):
    """The target is among the groups, which are public."""


class MissingGroupsWarning(UserWarning):
    """No record to score is in a group that the model was fitted with."""


class UnreachedScorerWarning(UserWarning):
    """Nothing hands groups to a scorer inside a search, but for a model that finds its own."""


class UngroupedWarning(UserWarning):
    """No groups were given, so the average risk of all records is learned."""


class WeakPlanWarning(UserWarning):
    """The plan's bound promises no more than a model that predicts nothing."""


class ChangedDataError(DPWGError, RuntimeError):
    """Records that were read once more, as a file or a lost partition, are not what they were."""


class OracleError(DPWGError, RuntimeError):
    """A sample oracle failed, ran dry, or gave something else than fresh records."""


class UnusedRecordsWarning(UserWarning):
    """No record of a call of ``partial_fit`` was used."""


class BudgetExceededError(DPWGError, RuntimeError):
    """A fit would cost more than what is left in a `PrivacyLedger`."""


class LedgerUnreachableError(DPWGError, RuntimeError):
    """A worker cannot reach the ledger that should count its fits."""


class MachineError(DPWGError, RuntimeError):
    """A library of this machine would round one record by who else is there."""


class DeadlineError(DPWGError, RuntimeError):
    """A pass over records on a cluster was not done in time."""


class WorkerLostError(DPWGError, RuntimeError):
    """Workers of a cluster, or its scheduler, went away more often than a pass can mend."""


class WorkerError(DPWGError, RuntimeError):
    """A task failed on a worker, in words that may show records, so they are not repeated."""


class OutsideGuaranteeWarning(UserWarning):
    """Something around a private model learned from the records without noise."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that led here, however deep the call is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
