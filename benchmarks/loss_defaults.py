"""
Why the parameters of the losses have their defaults
====================================================

Huber's threshold, the width of the smoothed hinge and the quantile's level are varied: epsilon = 1,
delta = 1e-5, five seeds. *Excess* is worst-group risk in the loss that was trained, above its exact
optimum over radius 20, as a share of what predicting nothing is above it; as every parameter
makes another loss, a yardstick that is the same for all stands beside it. A star marks the
default. Other losses follow for comparison, and what the yardstick would be without privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import load_dataset, make_estimator, unit_risks, worst_risk
from sklearn.utils import Bunch

from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    Loss,
    Quantile,
    SmoothedHinge,
    SquaredError,
    SquaredHinge,
)
from sklearn_dpwg.metrics import worst_group_score
from sklearn_dpwg.optimum import worst_group_optimum

N_SEEDS = 5
CLASSIFICATION = ("adult", "law-school", "minneapolis-stops", "compas")
REGRESSION = ("cps-hourly-earnings", "cps-weekly-wages")

THRESHOLDS = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
WIDTHS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)

Yardstick = Callable[[Any, Bunch], float]


def absolute_error(model: Any, data: Bunch) -> float:
    """Return the mean absolute error of the group where it is largest, in the target's unit."""
    predicted = model.predict(data.data)
    return worst_group_score(
        data.target, predicted, groups=data.groups, metric="mean_absolute_error"
    )


def error_rate(model: Any, data: Bunch) -> float:
    """Return the share of wrong predictions, in percent, of the group where it is largest."""
    return 100 * worst_group_score(
        data.target, model.predict(data.data), groups=data.groups, metric="zero_one_loss"
    )


def miscoverage(model: Any, data: Bunch) -> float:
    """Return how far, in percent, the share of targets not above the quantile is off its level."""
    covered = data.target <= model.predict(data.data)
    shares = [np.mean(covered[data.groups == label]) for label in data.group_labels]
    return float(100 * np.abs(np.array(shares) - model.loss.level).max())


def fits(data: Bunch, loss: Loss, yardstick: Yardstick) -> tuple[np.ndarray, np.ndarray]:
    """Return the excess in percent, and the yardstick, of every seeded fit."""
    risks = unit_risks(data).with_loss(loss)
    optimum = risks.risks(worst_group_optimum(risks, radius=20.0, tolerance=1e-6).weights).max()
    nothing = risks.risks(np.zeros(risks.n_weights)).max()
    excess, measured = [], []
    for seed in range(N_SEEDS):
        model = make_estimator(data, random_state=seed, loss=loss)
        model.fit(data.data, data.target, groups=data.groups)
        excess.append(100 * (worst_risk(model, risks, data) - optimum) / (nothing - optimum))
        measured.append(yardstick(model, data))
    return np.array(excess), np.array(measured)


def spread(values: np.ndarray) -> str:
    """Return mean and standard deviation over the seeds."""
    return f"{values.mean():.3f} ± {values.std(ddof=1):.3f}"


def table(
    title: str,
    names: tuple[str, ...],
    losses: tuple[Loss, ...],
    yardstick: Yardstick,
    without_privacy: Loss | None = None,
) -> None:
    """Print excess and yardstick of every loss on every data set."""
    data = [load_dataset(name) for name in names]
    print(f"\n{title}")
    print(f"{'':<26}" + "".join(f"{name:>34}" for name in names))
    print(f"{'loss':<26}" + f"{'excess %':>17}{yardstick.__name__:>17}" * len(names))
    for loss in losses:
        public = {key: value for key, value in loss.get_params().items() if key != "target_bound"}
        star = "*" if public and loss == type(loss)() else " "
        cells = "".join(
            f"{spread(values):>17}" for one in data for values in fits(one, loss, yardstick)
        )
        shown = " ".join([type(loss).__name__, *(f"{value:g}" for value in public.values())])
        print(f"{shown + star:<26}{cells}", flush=True)
    if without_privacy is not None:
        best = [
            make_estimator(
                one, float("inf"), loss=without_privacy, radius=20.0, intercept_scaling=1.0
            ).fit(one.data, one.target, groups=one.groups)
            for one in data
        ]
        cells = "".join(
            f"{'':>17}{yardstick(model, one):>17.3f}" for model, one in zip(best, data, strict=True)
        )
        print(f"{'exact ' + type(without_privacy).__name__:<26}{cells}")


if __name__ == "__main__":
    for name in REGRESSION:
        entry = load_dataset(name).entry
        low, high = entry.target_bounds
        unit = (high - low) / 2
        print(f"{name}: threshold 0.25 is {0.25 * unit:g} {entry.target_unit}")
    table(
        "threshold of Huber",
        REGRESSION,
        (*map(Huber, THRESHOLDS), SquaredError(), AbsoluteError()),
        absolute_error,
        AbsoluteError(),
    )
    table(
        "width of SmoothedHinge",
        CLASSIFICATION,
        (*map(SmoothedHinge, WIDTHS), Hinge(), SquaredHinge(), BinaryLogLoss()),
        error_rate,
        BinaryLogLoss(),
    )
    table("level of Quantile", REGRESSION, tuple(map(Quantile, LEVELS)), miscoverage)
