"""A guess of the noise that a budget will ask of sampled releases."""

from __future__ import annotations

import math

from sklearn_dpwg.privacy.budget import Budget


def predict_multiplier(n_draws: int, sampling_rate: float, budget: Budget) -> float:
    """Predict the noise multiplier that `calibrate` will find for one Gaussian release.

    Parameters
    ----------
    n_draws : int
        Number of draws T.
    sampling_rate : float
        Rate q of Poisson sampling, above 0 and at most 1; 1 for a release that is not sampled.
    budget : Budget
        Budget with finite ε.

    Returns
    -------
    float
        About σ/Δ, in the units of `Release`.

    Notes
    -----
    For comparing plans only: it is no bound, and noise is always calibrated afterwards. In units
    of C = Δ/2, with deviation s = σ/C, the two sides of one draw are N(0, s²) times
    1 - q + q exp(±x/s² - 1/(2s²)), and for small q the log of their quotient has variance
    4q² sinh(1/s²). By the central limit theorem T draws cost μ² ≈ 4 T q² sinh(1/s²), which is
    solved for s. Without sampling μ² = T Δ²/σ² is exact.

    References
    ----------
    Dong, Roth and Su (2022), Gaussian differential privacy, section 5, and Bu, Dong, Long and Su
    (2020), Deep learning with Gaussian differential privacy, for neighbours of another size.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import Budget, Release, calibrate, predict_multiplier
    >>> budget = Budget(1.0, 1e-6)
    >>> round(predict_multiplier(1000, 0.05, budget), 2)
    6.68
    >>> calibrated = calibrate([Release("g", "gaussian", 1.0, 1000, sampling_rate=0.05)], budget)
    >>> round(calibrated[0].noise_multiplier, 2)
    6.68
    """
    if sampling_rate == 1.0:
        return math.sqrt(n_draws) / budget.mu
    in_units_of_norm = math.asinh((budget.mu / (2.0 * sampling_rate)) ** 2 / n_draws) ** -0.5
    return in_units_of_norm / 2.0
