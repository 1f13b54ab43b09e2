"""Statistical checks of a noise source, strict enough to see noise that is too small."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from sklearn_dpwg.privacy import Release

# A right source fails a check once in a billion runs.
FALSE_ALARM = 1e-9


def noise_faults(source: Any, release: Release, sensitivity: float, n_draws: int) -> list[str]:
    """Return what is wrong with the noise of one big draw around 0; empty if all is well."""
    draw = source.gaussian if release.mechanism == "gaussian" else source.laplace
    noise = draw(np.zeros(n_draws), sensitivity=sensitivity, release=release)
    return scale_faults(noise, release, sensitivity)


def scale_faults(noise: np.ndarray, release: Release, sensitivity: float) -> list[str]:
    """Compare noise with the law that the release promises: scale, shape, mean, independence."""
    scale = release.noise_multiplier * sensitivity
    n = noise.size
    law: Any
    if release.mechanism == "gaussian":
        law = stats.norm(scale=scale)
        statistic, null = np.sum(noise**2) / scale**2, stats.chi2(n)
    else:
        law = stats.laplace(scale=scale)
        statistic, null = 2.0 * np.sum(np.abs(noise)) / scale, stats.chi2(2 * n)
    signs = stats.binomtest(int(np.sum(noise > 0.0)), n)
    lag = np.corrcoef(noise[:-1], noise[1:])[0, 1] * np.sqrt(n)
    levels = {
        "too small": null.cdf(statistic),
        "too large": null.sf(statistic),
        "another shape": stats.kstest(noise, law.cdf).pvalue,
        "not centred": signs.pvalue,
        "dependent": 2.0 * stats.norm.sf(abs(lag)),
    }
    return [fault for fault, level in levels.items() if level < FALSE_ALARM]
