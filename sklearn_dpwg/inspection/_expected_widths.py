"""Widths of intervals to expect of a group of a size."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg.inspection._counted_rates import CountedRates
from sklearn_dpwg.privacy import IntegerNoise

# What a preview lists; other rates are as wide as these.
METRICS = ("selection_rate", "error_rate", "true_positive_rate", "false_positive_rate")


def expected_widths(
    size: int,
    base_rate: float,
    noise: IntegerNoise | None,
    n_bins: tuple[int, int],
    *,
    is_public: bool,
    confidence: float,
) -> tuple[tuple[str, float, float], ...]:
    """Return metric, width and width without noise.

    They are those at the counts of a model that selects as many as are positive and is wrong half
    as often as by chance.
    """
    wrong = 0.5 * base_rate * (1.0 - base_rate)
    shares = [[1.0 - base_rate - wrong, wrong], [wrong, base_rate - wrong]]
    cells = np.rint(size * np.array([shares])).astype(np.int64)
    sizes = (int(cells.sum()),) if is_public else None
    noisy = CountedRates(cells, n_bins, noise, sizes)
    exact = noisy.with_noise(None)
    return tuple(
        (
            metric,
            noisy.interval(metric, 0, confidence).width,
            exact.interval(metric, 0, confidence).width,
        )
        for metric in METRICS
    )
