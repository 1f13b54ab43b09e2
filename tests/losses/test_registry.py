"""Names become losses; what does not fit the targets is refused in one sentence."""

from __future__ import annotations

import math

import pytest
from sklearn.base import clone

from sklearn_dpwg.losses import (
    LOSSES,
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    Loss,
    MultinomialLogLoss,
    Quantile,
    SmoothedHinge,
    SquaredError,
    make_loss,
)

DESIGN = {
    "binary": {"log_loss", "hinge", "smoothed_hinge", "squared_hinge"},
    "multiclass": {"log_loss"},
    "regression": {"squared_error", "huber", "absolute_error", "quantile"},
}


@pytest.mark.parametrize("task", DESIGN)
def test_every_name_makes_its_loss(task):
    names = {known.name for known in LOSSES if known.task == task}
    assert names == DESIGN[task]
    for name in names:
        kind = "regressor" if task == "regression" else "classifier"
        n_classes = 5 if task == "multiclass" else 2
        loss = make_loss(name, kind=kind, n_classes=n_classes)
        assert isinstance(loss, Loss)
        assert (loss.name, loss.task) == (name, task)
        assert loss.n_outputs == (5 if task == "multiclass" else 1)


def test_an_instance_is_copied():
    loss = Quantile(0.9)
    made = make_loss(loss, kind="regressor")
    assert made == loss
    loss.set_params(level=0.1)
    assert made == Quantile(0.9)
    given = MultinomialLogLoss(4)
    assert make_loss(given, kind="classifier", n_classes=4) == given


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge", "squared_hinge"])
def test_margins_need_two_classes(loss):
    message = rf"^Only binary classification is supported by loss='{loss}', got 3 classes: use one"
    with pytest.raises(ValueError, match=message):
        make_loss(loss, kind="classifier", n_classes=3)


@pytest.mark.parametrize(
    ("loss", "kind", "n_classes", "message"),
    [
        (
            Hinge(),
            "classifier",
            4,
            r"supported by loss=Hinge\(\), got 4 classes: use one of",
        ),
        (Huber(), "classifier", 2, r"^loss of a classifier must be one for a classifier, got Hub"),
        (Huber(), "classifier", 3, r"^loss of a classifier must be one for a classifier, got Hub"),
        (Hinge(), "regressor", 2, r"^loss of a regressor must be one for a regressor, got Hinge"),
        (MultinomialLogLoss(3), "classifier", 4, r"is for 3 classes, more than two, got 4\.$"),
        (MultinomialLogLoss(2), "classifier", 2, r"is for 2 classes, more than two, got 2\.$"),
        (Huber(0.1, 0.9), "regressor", 2, r"^target_bound of a regressor's loss must be 1, as"),
        ("log_loss", "regressor", 2, r"^loss of a regressor must be one of \['absolute_error', "),
    ],
)
def test_what_does_not_fit(loss, kind, n_classes, message):
    with pytest.raises(ValueError, match=message):
        make_loss(loss, kind=kind, n_classes=n_classes)


@pytest.mark.parametrize("value", [-1.0, math.nan, "1"])
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (SquaredError, "target_bound of SquaredError must be positive and finite"),
        (BinaryLogLoss, r"largest_slope of BinaryLogLoss must be above 0\.5 and at most 1"),
        (SmoothedHinge, "width of SmoothedHinge must be positive and finite"),
        (Huber, "threshold of Huber must be positive and finite"),
        (AbsoluteError, "target_bound of AbsoluteError must be positive"),
        (Quantile, "level of Quantile must be strictly between 0 and 1"),
        (MultinomialLogLoss, "n_outputs of MultinomialLogLoss must be a whole number, at least 2"),
    ],
)
def test_parameters_out_of_range(kind, said, value):
    with pytest.raises(ValueError, match=f"^{said}"):
        kind(value)


@pytest.mark.parametrize(
    "make", [lambda: BinaryLogLoss(0.5), lambda: MultinomialLogLoss(1), lambda: Quantile(1.0)]
)
def test_the_ends_of_a_range_are_out_of_it(make):
    with pytest.raises(ValueError, match=" must be "):
        make()


def test_parameters_as_scikit_learn_wants_them():
    loss = Quantile(0.9)
    assert loss.get_params() == {"level": 0.9, "target_bound": 1.0}
    copied = clone(loss)
    assert copied == loss
    assert copied is not loss
    assert copied.set_params(level=0.2) is copied
    assert copied == Quantile(0.2)
    assert loss == Quantile(0.9)
    with pytest.raises(ValueError, match=r"level of Quantile must be strictly between"):
        copied.set_params(level=2.0)
    with pytest.raises(ValueError, match=r"^Quantile has no parameter 'width', only \["):
        copied.set_params(width=2.0)
    assert copied == Quantile(0.2)
    assert Hinge().set_params() == Hinge()
