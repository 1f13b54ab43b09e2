"""Why the parameters of the losses have their defaults.

Huber's threshold, the width of the smoothed hinge and the quantile's level are varied: epsilon = 1,
delta = 1e-5, five seeds. *Excess* is worst-group risk in the loss that was trained, above its exact
optimum over radius 20, as a fraction of what predicting nothing is above it; as every parameter
makes another loss, a yardstick that is the same for all stands beside it. A star marks the
default. Other losses follow for comparison, and what the yardstick would be without privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import fits, make_estimator, row, run_tables, unit_risks, worst_risk
from sklearn.utils import Bunch

from sklearn_dpwg import losses
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.metrics import worst_group_score
from sklearn_dpwg.optimum import worst_group_optimum

N_SEEDS = 5
CLASSIFICATION = ("adult", "law-school", "minneapolis-stops", "compas")
REGRESSION = ("cps-hourly-earnings", "cps-weekly-wages")

THRESHOLDS = (0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
WIDTHS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)

Yardstick = Callable[[Any, Bunch], float]


def absolute_error(model: Any, data: Bunch, metric: str = "mean_absolute_error") -> float:
    """Return the mean absolute error of the group where it is largest, in the target's unit."""
    predicted = model.predict(data.data)
    return worst_group_score(data.target, predicted, groups=data.groups, metric=metric)


def error_rate(model: Any, data: Bunch) -> float:
    """Return the fraction of wrong predictions, in percent, of the group where it is largest."""
    return 100 * absolute_error(model, data, "zero_one_loss")


def miscoverage(model: Any, data: Bunch) -> float:
    """Return how far, in percent, targets not above the quantile are off its level."""
    covered = data.target <= model.predict(data.data)
    fractions = [np.mean(covered[data.groups == label]) for label in data.group_labels]
    return float(100 * np.abs(np.array(fractions) - model.loss.level).max())


def measured(data: Bunch, loss: losses.Loss, yardstick: Yardstick) -> list[str]:
    """Return mean and standard deviation of the excess in percent, and of the yardstick."""
    risks = unit_risks(data).with_loss(loss)
    optimum = risks.risks(worst_group_optimum(risks, radius=20.0, tolerance=1e-6).weights).max()
    nothing = risks.risks(np.zeros(risks.n_weights)).max()
    models = list(fits(data, N_SEEDS, loss=loss))
    excess = [100 * (worst_risk(m, risks, data) - optimum) / (nothing - optimum) for m in models]
    result = np.array([excess, [yardstick(model, data) for model in models]])
    return [f"{each.mean():.3f} ± {each.std(ddof=1):.3f}" for each in result]


def table(
    title: str,
    names: tuple[str, ...],
    tried: tuple[losses.Loss, ...],
    yardstick: Yardstick,
    without_privacy: losses.Loss | None = None,
) -> None:
    """Print excess and yardstick of every loss on every data set."""
    data = [load_dataset(name) for name in names]
    print(f"\n{title}")
    row("", names, 34, 26)
    row("loss", ("excess %", yardstick.__name__) * len(names), 17, 26)
    for loss in tried:
        public = {key: value for key, value in loss.get_params().items() if key != "target_bound"}
        star = "*" if public and loss == type(loss)() else " "
        shown = " ".join([type(loss).__name__, *(f"{value:g}" for value in public.values())])
        row(shown + star, [each for d in data for each in measured(d, loss, yardstick)], 17, 26)
    if without_privacy is not None:
        facts = {"loss": without_privacy, "radius": 20.0}
        best = [
            make_estimator(one, float("inf"), **facts).fit(one.data, one.target, groups=one.groups)
            for one in data
        ]
        exact = [f"{yardstick(model, one):.3f}" for model, one in zip(best, data, strict=True)]
        row(f"exact {type(without_privacy).__name__}", exact, 34, 26)


def huber() -> None:
    """Print the table of Huber's thresholds, and what they are in the targets' units."""
    for name in REGRESSION:
        entry = load_dataset(name).entry
        low, high = entry.target_bounds
        print(f"{name}: threshold 0.25 is {0.25 * (high - low) / 2:g} {entry.target_unit}")
    tried = (*map(losses.Huber, THRESHOLDS), losses.SquaredError(), losses.AbsoluteError())
    table("threshold of Huber", REGRESSION, tried, absolute_error, losses.AbsoluteError())


def hinges() -> None:
    """Print the table of widths."""
    tried = (*map(losses.SmoothedHinge, WIDTHS), losses.Hinge(), losses.SquaredHinge())
    log = losses.BinaryLogLoss()
    table("width of SmoothedHinge", CLASSIFICATION, (*tried, log), error_rate, log)


def quantiles() -> None:
    """Print the table of levels."""
    table("level of Quantile", REGRESSION, tuple(map(losses.Quantile, LEVELS)), miscoverage)


if __name__ == "__main__":
    run_tables({"Huber": huber, "SmoothedHinge": hinges, "Quantile": quantiles})
