"""Noise on the whole numbers that a release pays for."""

from __future__ import annotations

import math

from sklearn_dpwg._checks import whole_number
from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.privacy.noise.integer_noise import LARGEST_SCALE, IntegerNoise
from sklearn_dpwg.privacy.release import Release

# What discrete Gaussian noise has of variance beyond what is paid for, so that it is no worse than
# continuous noise but for a factor below exp(2e-12): docs/theory/noise.md.
_SPARE_VARIANCE = 1.5625
# Discrete Laplace noise is no worse than continuous noise of a shift that is so much longer.
_SPARE_SHIFT = 2
# For the last digit of the scale.
_MARGIN = 1.0 + 2.0**-40


def noise_on_integers(release: Release, *, sensitivity: int | None = None) -> IntegerNoise:
    """Return the law of the noise that `NoiseSource.integers` adds.

    Parameters
    ----------
    release : Release
        The release, not sampled.
    sensitivity : int, optional
        As for `NoiseSource.integers`.

    Returns
    -------
    IntegerNoise
        With the noise multiplier z its scale is 2z for discrete Laplace noise. For Laplace and
        Gaussian noise, which are accounted for as if they were continuous, it is z(Δ + 2) and
        √(z²Δ² + 1.5625), with Δ the sensitivity, for counts 2 and √2. All are larger by a relative
        2⁻⁴⁰.

    Raises
    ------
    UnsupportedMechanismError
        If the release is sampled.
    ValueError
        If the sensitivity is not a positive whole number, or the noise too large for a law.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import Budget, Release, calibrate, noise_on_integers
    >>> (counts,) = calibrate([Release("counts", "discrete-laplace", 1.0, 1)], Budget(1.0, 1e-6))
    >>> round(noise_on_integers(counts).std, 2)
    2.8
    """
    law = "gaussian" if release.mechanism == "gaussian" else "laplace"
    scale = scale_on_integers(release, sensitivity)
    if scale > LARGEST_SCALE:
        raise ValueError(
            f"epsilon must be larger for counts of records: noise of scale {scale:,.0f} would hide "
            f"them, and at most {LARGEST_SCALE:,.0f} is allowed."
        )
    return IntegerNoise(law, scale)  # type: ignore[arg-type]


def scale_on_integers(release: Release, sensitivity: int | None) -> float:
    """Return the scale of the noise, at any size of the sensitivity."""
    if release.sampling_rate < 1.0:
        raise UnsupportedMechanismError(
            f"Whole numbers cannot be a sampled release, got sampling_rate = "
            f"{release.sampling_rate!r}."
        )
    z = release.noise_multiplier
    if sensitivity is not None:
        sensitivity = whole_number(sensitivity, "sensitivity", least=1)
    if release.mechanism == "discrete-laplace":
        if sensitivity is not None:
            raise ValueError(
                f"sensitivity must be None for a discrete-laplace release, of which a record moves "
                f"two counts by one each, got {sensitivity}."
            )
        return 2.0 * z * _MARGIN
    if release.mechanism == "laplace":
        return z * ((2 if sensitivity is None else sensitivity) + _SPARE_SHIFT) * _MARGIN
    square = 2.0 if sensitivity is None else float(sensitivity) ** 2
    return math.sqrt(z * z * square + _SPARE_VARIANCE) * _MARGIN
