"""Errors and warning categories, each its own class so that a caller can filter it.

What others say of records, in warnings and errors, is silenced here or said anew.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from threading import Lock, local
from typing import Any, TypeVar, cast

import numpy as np

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


class MembershipWarning(UserWarning):
    """Columns of 0 and 1 with several ones in a row are taken for combinations of groups."""


class WeakPlanWarning(UserWarning):
    """The noise may drown what a group says: its bound is no less than predicting nothing costs."""


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


class StoredFormatError(DPWGError, ValueError):
    """A stored model, plan, guarantee, audit or ledger is in a format of another version."""


class DeadlineError(DPWGError, RuntimeError):
    """A pass over records on a cluster was not done in time."""


class WorkerLostError(DPWGError, RuntimeError):
    """Workers of a cluster, or its scheduler, went away more often than a pass can mend."""


class ForeignError(DPWGError, RuntimeError):
    """Code of others failed on records, in words that may show them, so they are not repeated."""


class WorkerError(ForeignError):
    """A task failed on a worker, in words that may show records, so they are not repeated."""


class OutsideGuaranteeWarning(UserWarning):
    """Something around a private model learned from the records without noise."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that led here, however deep the call is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    _silence.speaking.now = True
    try:
        warnings.warn(message, category, stacklevel=level)
    finally:
        _silence.speaking.now = False


# What others say of records: warnings are silenced, and errors said anew without their text.

Function = TypeVar("Function", bound=Callable[..., Any])

_shows: ContextVar[bool] = ContextVar("_shows", default=False)

# Sentences of scikit-learn with names of classes and columns and with counts, and no value.
_PLAIN = re.compile(
    r"This \w+ instance is not fitted yet\."
    r"|Found array with (0 |dim \d)"
    r"|Found input variables with inconsistent numbers of samples: "
    r"|X has \d+ features, but "
    r"|The feature names should match "
    r"|Feature names are only supported if "
    r"|Sparse data was passed"
    r"|Unknown label type: [\w-]+\. Maybe "
    r"|This \w+ estimator requires y to be passed"
    r"|y should be a 1d array, got an array of shape \([\d, ]*\) instead"
    r"|Invalid parameter '\w+' for estimator "
    r"|float\(\) argument must be a string or a (real )?number, not '\w+'$"
    r"|Input ([Xy] )?contains (NaN|infinity or a value too large for dtype\('float\d+'\))\."
)
_OF_ROOM = re.compile(r"(Unable to allocate [\d.]+ \w+ for an array with shape \([\d, ]*\) .*)?")
# Of calls with wrong arguments, which have no frame of their own.
_PLAIN_CALLS = re.compile(r"[\w.<>]+\(\) (got an unexpected|got multiple|missing|takes) ")
_PLAIN_WARNINGS = re.compile(
    r"A column-vector y was passed when a 1d array was expected"
    r"|X (does not have valid|has) feature names, but "
)
# Beginnings of sentences that quote values, and what is said in their place.
_ANEW = {
    "Complex data not supported": "Complex data not supported: all values must be real numbers.",
    "Expected 2D array, got": "X must have rows and columns. Reshape your data: reshape(-1, 1) "
    "makes one column of it, reshape(1, -1) one record.",
    "could not convert string": "X must hold numbers, and some values cannot be read as such.",
}
# How to see what was not repeated.
TO_SEE = "run it inside `with sklearn_dpwg.exceptions.show_records():` to see them"


@contextmanager
def show_records() -> Iterator[None]:
    """Let errors and warnings show what records hold, as whoever raised them worded it.

    By default they name a class, a parameter or a column, and quote no value of a record.

    Yields
    ------
    None
        Inside, in this thread, words are shown; do not open it where others read what is written.

    Examples
    --------
    >>> from sklearn_dpwg.exceptions import show_records
    >>> from sklearn_dpwg.metrics import group_table
    >>> with show_records():
    ...     group_table([0, 7], [0, 1], groups=["a", "a"], metrics="f1", classes=[0, 1])
    Traceback (most recent call last):
    ...
    sklearn_dpwg.exceptions.InputError: classes must hold every class of y_true and predictions, ...
    """
    token = _shows.set(True)
    try:
        yield
    finally:
        _shows.reset(token)


def shown(value: object, instead: str) -> str:
    """Return what a record holds where `show_records` is open, and else other words."""
    return repr(value) if _shows.get() else instead


class Note(str):
    """A note of this package on an error; those of others go with their words."""

    __slots__ = ()


class _Silence:
    """Text of a warning filter that matches what others say while something is being silenced."""

    everything = "(?#sklearn_dpwg)"

    def __init__(self, n_open: int = 0) -> None:
        self.n_open, self.lock, self.speaking = n_open, Lock(), local()

    def match(self, text: str) -> bool:
        own = getattr(self.speaking, "now", False)
        return self.n_open > 0 and not own and _PLAIN_WARNINGS.match(text) is None

    @property
    def pattern(self) -> str:
        """The same for scikit-learn, which sends filters to its workers as regular expressions."""
        return self.everything if self.n_open else "(?!)"

    def __reduce__(self) -> Any:
        return _Silence, (min(self.n_open, 1),)


_silence = _Silence()
# of the whole process, as models start threads of their own
_FILTERS: tuple[Any, ...] = (("ignore", _silence, Warning, None, 0),)


@contextmanager
def silenced() -> Iterator[None]:
    """Silence what others warn of, in any thread: `warnings.catch_warnings` is for one alone."""
    with _silence.lock:
        _silence.n_open += 1
        _filters()[:0] = _FILTERS
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        with _silence.lock:
            _silence.n_open -= 1
            if not _silence.n_open:
                # also those that scikit-learn's threads have left behind
                left = [each for each in _filters() if each not in _FILTERS]
                everything = _silence.everything
                _filters()[:] = [
                    each for each in left if getattr(each[1], "pattern", "") != everything
                ]


def _filters() -> list[Any]:
    find = getattr(warnings, "_get_filters", None)  # Python 3.14 has one list a context
    filters: list[Any] = warnings.filters if find is None else find()  # type: ignore[assignment]
    return filters


@contextmanager
def in_own_words(what: str, advice: str = "") -> Iterator[None]:
    """Silence the warnings of others inside, and say their errors anew, without their text."""
    if _shows.get():
        yield
        return
    with silenced():
        try:
            yield
        except Exception as error:
            if is_told(error):
                raise
            raise _anew(error, what, advice) from None


def own_words(function: Function) -> Function:
    """Let no word of others about records leave a function: no warning, error, note or cause."""

    @wraps(function)
    def door(*args: Any, **kwargs: Any) -> Any:
        if _shows.get():
            return function(*args, **kwargs)
        before = sys.exception()
        try:
            place, name = function.__qualname__, function.__name__
            if "." in place and args and hasattr(args[0], name):  # by the class that is used
                place = f"{type(args[0]).__name__}.{name}"
            with in_own_words(place):
                return function(*args, **kwargs)
        except Exception as error:
            error.__cause__, error.__context__, error.__suppress_context__ = None, before, False
            _keep_own_notes(error, error)
            raise

    return cast(Function, door)


def is_told(error: BaseException) -> bool:
    """Return whether an error is in words that show no record: ours, or known ones of others."""
    if isinstance(error, ImportError) or _is_of_room(error):
        return True
    module, _ = place_of(error)
    package = module.partition(".")[0]
    if package == _PACKAGE:
        is_own = type(error).__module__.partition(".")[0] == _PACKAGE
        return is_own or _PLAIN_CALLS.match(_text(error)) is not None
    known = _PLAIN_WARNINGS if isinstance(error, Warning) else _PLAIN
    return package == "sklearn" and known.match(_text(error)) is not None


def _is_of_room(error: BaseException) -> bool:
    """Return whether memory ran out, which NumPy tells by shapes."""
    return isinstance(error, MemoryError) and _OF_ROOM.fullmatch(str(error)) is not None


def _text(error: BaseException) -> str:
    said: Any = error.args[0] if error.args else ""
    return said if isinstance(said, str) else ""


def place_of(error: BaseException) -> tuple[str, int]:
    """Return the module and the line in which an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "", 0
    return trace.tb_frame.f_globals.get("__name__", ""), trace.tb_lineno


def _anew(error: Exception, what: str, advice: str) -> DPWGError:
    """Return an error in other words, of a kind that whoever expects the first one catches too."""
    text = next((said for known, said in _ANEW.items() if _text(error).startswith(known)), None)
    if text is None:
        module, line = place_of(error)
        text = (
            f"{what} failed with {type(error).__name__} in {module}, line {line}, whose words may "
            f"show values of records and are not repeated: {advice}{TO_SEE}."
        )
    said: DPWGError = ForeignError(text)
    if isinstance(error, ValueError | TypeError):
        said = InputError(text) if isinstance(error, ValueError) else InputTypeError(text)
    _keep_own_notes(error, said)
    return said


def _keep_own_notes(error: Exception, said: Exception) -> None:
    given: list[str] = getattr(error, "__notes__", [])
    notes = [note for note in given if type(note) is Note]
    if notes or hasattr(said, "__notes__"):
        said.__notes__ = [*notes]


_ERRORS = [each for each in list(vars().values()) if isinstance(each, type)]
__all__ = ["show_records"]
__all__ += [each.__name__ for each in _ERRORS if issubclass(each, (DPWGError, UserWarning))]
