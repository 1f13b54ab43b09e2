"""The losses, and the choice of one by name or instance."""

from __future__ import annotations

from copy import copy
from typing import Literal

from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.losses import classification, regression
from sklearn_dpwg.losses.base import Loss

# one line a loss; of each kind the first is the estimators' default
LOSSES: tuple[type[Loss], ...] = (
    classification.BinaryLogLoss,
    classification.Hinge,
    classification.SmoothedHinge,
    classification.SquaredHinge,
    classification.MultinomialLogLoss,
    regression.SquaredError,
    regression.Huber,
    regression.AbsoluteError,
    regression.Quantile,
)


def make_loss(
    loss: str | Loss, *, kind: Literal["classifier", "regressor"], n_classes: int = 2
) -> Loss:
    """Return the named loss, or a copy of an instance; refuse one that does not fit the task."""
    task = "regression" if kind == "regressor" else "binary" if n_classes == 2 else "multiclass"
    is_regression = kind == "regressor"
    candidates = [known for known in LOSSES if (known.task == "regression") == is_regression]
    suitable = {known.name: known for known in candidates if known.task == task}
    names = sorted({known.name for known in candidates})
    if isinstance(loss, str):
        if loss in suitable:
            return suitable[loss](**{"n_outputs": n_classes} if task == "multiclass" else {})
        if loss not in names:
            raise InputError(
                f"loss of a {kind} must be one of {names} or a Loss instance, got {loss!r}."
            )
    elif not isinstance(loss, Loss):
        raise InputTypeError(f"loss of a {kind} must be a name or a Loss instance, got {loss!r}.")
    elif (loss.task == "regression") != (kind == "regressor"):
        raise InputError(f"loss of a {kind} must be one for a {kind}, got {loss!r}.")
    elif task == "regression" and getattr(loss, "target_bound", 1.0) < 1.0:
        raise InputError(
            f"target_bound of a regressor's loss must be 1, as target_bounds are mapped to "
            f"[-1, 1], got {loss!r}."
        )
    elif loss.task == task and (task != "multiclass" or loss.n_outputs == n_classes):
        try:
            hash(loss)  # constants are looked up by the loss
        except TypeError:
            raise InputTypeError(
                f"loss must be hashable, a dataclass with frozen=True and no list among its "
                f"parameters, got {loss!r}."
            ) from None
        return copy(loss)
    elif loss.task == "multiclass":
        raise InputError(
            f"loss {loss!r} is for {loss.n_outputs} classes, more than two, got {n_classes}."
        )
    # scikit-learn's common checks look for these first words
    raise InputError(
        f"Only binary classification is supported by loss={loss!r}, got {n_classes} classes: use "
        f"one of {sorted(suitable)} for more than two."
    )
