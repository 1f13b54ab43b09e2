"""Names of the learners."""

from __future__ import annotations

from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.solvers.stream.learners.base import Learner
from sklearn_dpwg.solvers.stream.learners.weights import (
    FTRL,
    OnlineGradientDescent,
    OptimisticFTRL,
    ParameterFree,
)

# one line a learner
LEARNERS: dict[str, type[Learner]] = {
    "ftrl": FTRL,
    "gradient-descent": OnlineGradientDescent,
    "optimistic": OptimisticFTRL,
    "parameter-free": ParameterFree,
}


def make_learner(learner: str | Learner) -> Learner:
    """Return the learner that a name or an instance asks for.

    Parameters
    ----------
    learner : str or Learner
        A name of `LEARNERS`, or an instance for parameters other than the defaults.

    Returns
    -------
    Learner
        The instance itself, or a new one with default parameters.

    Raises
    ------
    ValueError
        If the name is unknown.
    TypeError
        If `learner` is neither a name nor a learner.
    """
    if isinstance(learner, str):
        if learner not in LEARNERS:
            raise InputError(
                f"learner must be one of {sorted(LEARNERS)} or a Learner instance, got {learner!r}."
            )
        return LEARNERS[learner]()
    if not isinstance(learner, Learner):
        raise InputTypeError(f"learner must be a name or a Learner instance, got {learner!r}.")
    return learner
