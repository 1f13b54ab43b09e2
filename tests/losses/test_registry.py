"""Names become losses; what does not fit the targets is refused in one sentence."""

from __future__ import annotations

import math

import pytest

from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    MultinomialLogLoss,
    Quantile,
    SmoothedHinge,
    SquaredError,
)
from sklearn_dpwg.losses.registry import LOSSES, make_loss


@pytest.mark.parametrize("known", LOSSES, ids=lambda known: known.__name__)
def test_every_name_makes_its_loss(known):
    kind = "regressor" if known.task == "regression" else "classifier"
    n_classes = 5 if known.task == "multiclass" else 2
    loss = make_loss(known.name, kind=kind, n_classes=n_classes)
    assert type(loss) is known
    assert loss.n_outputs == (5 if known.task == "multiclass" else 1)


def test_an_instance_is_copied():
    loss = Quantile(0.9)
    made = make_loss(loss, kind="regressor")
    assert made == loss
    loss.set_params(level=0.1)
    assert made == Quantile(0.9)
    given = MultinomialLogLoss(4)
    assert make_loss(given, kind="classifier", n_classes=4) == given


def test_a_loss_without_a_hash_is_refused_before_a_fit():
    class Mine(SmoothedHinge):
        __hash__ = None

    with pytest.raises(TypeError, match=r"^loss must be hashable"):
        make_loss(Mine(), kind="classifier")


@pytest.mark.parametrize(
    ("loss", "kind", "n_classes"),
    [
        ("hinge", "classifier", 3),
        (Hinge(), "classifier", 4),
        (Huber(), "classifier", 3),
        (Hinge(), "regressor", 2),
        (MultinomialLogLoss(3), "classifier", 4),
        (MultinomialLogLoss(2), "classifier", 2),
        (Huber(0.1, 0.9), "regressor", 2),
        ("log_loss", "regressor", 2),
    ],
)
def test_what_does_not_fit(loss, kind, n_classes):
    with pytest.raises(ValueError, match="loss"):
        make_loss(loss, kind=kind, n_classes=n_classes)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (SquaredError, "target_bound", -1.0),
        (BinaryLogLoss, "largest_slope", 0.5),
        (SmoothedHinge, "width", math.nan),
        (Huber, "threshold", "1"),
        (AbsoluteError, "target_bound", 0.0),
        (Quantile, "level", 1.0),
        (MultinomialLogLoss, "n_outputs", 1),
    ],
)
def test_parameters_out_of_range(kind, name, value):
    with pytest.raises(ValueError, match=f"^{name} of {kind.__name__} must be"):
        kind(value)
