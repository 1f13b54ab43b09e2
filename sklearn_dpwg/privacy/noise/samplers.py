"""Samplers of noise: OpenDP's exact ones, and NumPy's seeded ones."""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_dpwg._checks import FloatArray, whole_number
from sklearn_dpwg.exceptions import InputError, InputTypeError, UnsupportedMechanismError
from sklearn_dpwg.privacy.noise.integer_noise import MAX_SCALE, IntegerNoise
from sklearn_dpwg.privacy.release import Release

# The grid step is at most 2⁻⁴⁰ of σ or b, and rounding all coordinates to it moves the value by at
# most 2⁻³⁰ of Δ; a coarser grid is no faster (docs/theory/noise.md).
_LOG2_SCALE_OVER_GRID = 40
_LOG2_SENSITIVITY_OVER_ROUNDING = 30
_MIN_EXPONENT = -1000
_MARGIN = 1.0 + 2.0**-40  # for the rounding of the scale, and of OpenDP's privacy map
_MAX_CACHED = 64


class SecureSampler:
    """Discrete noise on a fine grid, sampled exactly, from the operating system's entropy."""

    def __init__(self) -> None:
        self._measurement = lru_cache(maxsize=_MAX_CACHED)(_measurement)

    def add_noise(
        self, values: FloatArray, sensitivity: float, release: Release, n_rows: int = 1
    ) -> FloatArray:
        """Return the vector rounded to a grid, with discrete noise on that grid.

        If ``n_rows`` is above 1, the vector is one row of a matrix with so many rows.
        """
        measurement = self._measurement(
            mechanism=release.mechanism,
            multiplier=release.noise_multiplier,
            sensitivity=sensitivity,
            size=values.size,
            is_sampled=release.sampling_rate < 1.0,
            n_rows=n_rows,
        )
        return np.array(measurement(values.tolist()), dtype=np.float64)

    def add_integers(
        self, values: NDArray[np.int64], noise: IntegerNoise, release: Release
    ) -> NDArray[np.int64]:
        """Return the whole numbers with discrete noise, sampled exactly."""
        measurement = _measurement_on_integers(noise, values.size)
        return np.array(measurement(values.tolist()), dtype=np.int64)


class SeededSampler:
    """NumPy noise from a seed; releases of different names draw from independent streams."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._seed = seed
        self._streams: dict[str, np.random.Generator] = {}

    def stream(self, name: str) -> np.random.Generator:
        """Return the generator of a name, whose start depends only on the name and the seed."""
        if name not in self._streams:
            digest = np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype=np.uint32)
            child = np.random.SeedSequence(
                self._seed.entropy, spawn_key=(*self._seed.spawn_key, *map(int, digest))
            )
            self._streams[name] = np.random.default_rng(child)
        return self._streams[name]

    def add_noise(
        self, values: FloatArray, sensitivity: float, release: Release, n_rows: int = 1
    ) -> FloatArray:
        """Return the vector with continuous noise; ``n_rows`` makes no difference here."""
        name = f"noise of {release.name}"
        stream = self._streams.get(name) or self.stream(name)
        draw = stream.normal if release.mechanism == "gaussian" else stream.laplace
        return values + draw(0.0, release.noise_multiplier * sensitivity, values.size)

    def add_integers(
        self, values: NDArray[np.int64], noise: IntegerNoise, release: Release
    ) -> NDArray[np.int64]:
        """Return the whole numbers with discrete noise, of the same law as the secure noise."""
        stream = self.stream(f"noise of {release.name}")
        if noise.mechanism == "laplace":  # the difference of two geometric variables
            p = -math.expm1(-1.0 / noise.scale)
            return values + (stream.geometric(p, values.size) - stream.geometric(p, values.size))
        numbers, probabilities = noise.law()  # sampled by inversion of the distribution function
        cdf = np.cumsum(probabilities)
        indices = np.searchsorted(cdf, stream.random(values.size) * cdf[-1], side="right")
        return values + numbers[np.minimum(indices, len(numbers) - 1)]


def grid_exponent(
    mechanism: str, multiplier: float, sensitivity: float, size: int, is_sampled: bool = False
) -> int:
    """Return k, where the grid consists of the multiples of 2^k; ``size`` counts coordinates."""
    exponent = math.floor(
        min(
            math.log2(multiplier) + math.log2(sensitivity) - _LOG2_SCALE_OVER_GRID,
            math.log2(sensitivity / _rounding(mechanism, size, is_sampled))
            - _LOG2_SENSITIVITY_OVER_ROUNDING,
        )
    )
    if exponent < _MIN_EXPONENT:
        raise InputError(
            f"sensitivity = {sensitivity!r} is too small to add noise to floats; rescale the value."
        )
    return exponent


def _rounding(mechanism: str, size: int, is_sampled: bool = False) -> float:
    """Return by how much the grid increases Δ, in grid steps.

    Rounding two vectors of d = ``size`` coordinates changes each coordinate of their difference by
    at most one step: √d in L2 and d in L1. A sampled record is compared with its absence, so C =
    Δ/2 grows by √d steps, and Δ by twice that. Discrete Laplace noise is, in each coordinate, as
    private as continuous noise with Δ two steps larger: 3d in all.
    """
    if mechanism == "laplace":
        return 3.0 * size
    return (2.0 if is_sampled else 1.0) * math.sqrt(size)


def _measurement(
    mechanism: str,
    multiplier: float,
    sensitivity: float,
    size: int,
    is_sampled: bool = False,
    n_rows: int = 1,
) -> Any:
    """Return OpenDP's measurement: a function that adds noise to a list of ``size`` floats.

    OpenDP's own privacy map checks that the noise is enough for the multiplier. Rows of a matrix
    are rounded one by one, on grids that may grow with their sensitivities; that counts as rounding
    four times as many coordinates (docs/theory/prefix-sums.md, Lemma 2).
    """
    domain, metrics, make = _opendp("float", size)
    n_rounded = size if n_rows == 1 else 4 * n_rows * size
    exponent = grid_exponent(mechanism, multiplier, sensitivity, n_rounded, is_sampled)
    rounding = _rounding(mechanism, n_rounded, is_sampled) * 2.0**exponent
    scale = multiplier * (sensitivity + rounding) * _MARGIN
    if mechanism == "gaussian":
        measurement = make.make_gaussian(domain, metrics.l2_distance(T=float), scale, exponent)
        promised = 0.5 / multiplier**2  # zero-concentrated differential privacy ρ
    else:
        measurement = make.make_laplace(domain, metrics.l1_distance(T=float), scale, exponent)
        promised = 1.0 / multiplier  # pure ε
    claimed = measurement.map(sensitivity)
    _check_promise(claimed, promised, f"{mechanism} noise")
    return measurement


@lru_cache(maxsize=_MAX_CACHED)
def _opendp(kind: str, size: int) -> tuple[Any, Any, Any]:
    """Return OpenDP's domain of vectors, and its modules of metrics and of measurements.

    OpenDP's prelude is not imported, because it takes half a second.
    """
    from opendp import domains, measurements, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    kinds: dict[str, Any] = {"T": float, "nan": False} if kind == "float" else {"T": kind}
    domain = domains.vector_domain(domains.atom_domain(**kinds), size=size)
    return domain, metrics, measurements


def _check_promise(claimed: float, promised: float, what: str) -> None:
    """Raise an error if OpenDP's privacy loss exceeds the loss that the accounting assumes."""
    if not claimed <= promised:
        raise AssertionError(
            f"OpenDP states a privacy loss of {claimed!r} for {what}, above the promised "
            f"{promised!r}."
        )


def _measurement_on_integers(noise: IntegerNoise, size: int) -> Any:
    """Return OpenDP's measurement of ``size`` whole numbers, checked as in `_measurement`."""
    domain, metrics, make = _opendp("i64", size)
    scale = noise.scale
    if noise.mechanism == "gaussian":
        measurement = make.make_gaussian(domain, metrics.l2_distance(T=float), scale=scale)
        claimed, promised = measurement.map(1.0), 0.5 / scale**2
    else:
        measurement = make.make_laplace(domain, metrics.l1_distance(T="i64"), scale=scale)
        claimed, promised = measurement.map(1), 1.0 / scale
    _check_promise(claimed, promised * _MARGIN, f"{noise.mechanism} noise on whole numbers")
    return measurement


Sampler = SecureSampler | SeededSampler
Seed = int | np.integer | np.random.RandomState | np.random.Generator | np.random.SeedSequence


def seed_sequence(random_state: Seed) -> np.random.SeedSequence:
    """Return the seed of all streams; a generator is advanced, so the next seed differs."""
    if isinstance(random_state, np.random.SeedSequence):
        return random_state.spawn(1)[0]
    if isinstance(random_state, np.random.Generator):
        words = random_state.integers(2**32, size=4, dtype=np.uint32)
    elif isinstance(random_state, np.random.RandomState):
        words = random_state.randint(2**32, size=4, dtype=np.uint32)
    else:
        return np.random.SeedSequence(whole_number(random_state, "random_state", least=0))
    return np.random.SeedSequence([int(word) for word in words])


# Sensitivity of a value in units of its sensitivities, with a margin for rounding quotients up to
# `MAX_QUOTIENT`; plans with such releases refuse public facts that allow larger ones.
UNIT_SENSITIVITY = 1.0 + 2.0**-24
MAX_QUOTIENT = 2.0**28

# Largest count: with noise a larger one could leave the range of 64 bits.
MAX_INTEGER = 2.0**61


def check_value(values: FloatArray, bounds: FloatArray | None = None) -> None:
    """Refuse a value that is empty or not finite, and sensitivities ``bounds`` that do not fit."""
    if values.size == 0:
        raise InputError("value must have at least one entry.")
    if not np.isfinite(values).all():
        raise InputError("value must be finite, got NaN or infinity.")
    if bounds is None:
        return
    if bounds.ndim and bounds.shape != values.shape:
        raise InputError(
            f"sensitivity must be a number or have the shape of the value, {values.shape}, "
            f"got shape {bounds.shape}."
        )
    is_allowed = bounds >= 0.0 if bounds.ndim else bounds > 0.0
    if not (is_allowed & (bounds < np.inf)).all():
        allowed = "at least 0 and finite everywhere" if bounds.ndim else "positive and finite"
        raise InputError(f"sensitivity must be {allowed}, got {bounds!r}.")


def check_integers(counts: ArrayLike) -> NDArray[np.int64]:
    """Return counts as an array; refuse an empty array, other than integers, and huge numbers."""
    values = np.asarray(counts)
    if values.dtype.kind not in "iu":
        raise InputTypeError(f"counts must be whole numbers, got {values.dtype}.")
    if values.size == 0:
        raise InputError("counts must have at least one entry.")
    if abs(float(values.max())) + abs(float(values.min())) > MAX_INTEGER:
        raise InputError(f"counts must be within {MAX_INTEGER:.3g}, got {values.max()!r}.")
    return values.astype(np.int64)


# Extra variance of discrete Gaussian noise, which makes it as private as continuous noise up to a
# factor below exp(2e-12): docs/theory/noise.md.
_SPARE_VARIANCE = 1.5625


def noise_on_integers(release: Release) -> IntegerNoise:
    """Return the law of the noise that a release adds to counts of disjoint cells.

    A record moves two counts by one: by 2 in L1, √2 in L2. So with noise multiplier z the scale is
    2z for discrete Laplace noise, and √(2z² + 1.5625) for Gaussian noise, which is accounted for
    as if it were continuous. Both scales are increased by a relative 2⁻⁴⁰.
    """
    if release.sampling_rate < 1.0 or release.mechanism == "laplace":
        raise UnsupportedMechanismError(
            f"Counts need an unsampled discrete-laplace or gaussian release, got {release!r}."
        )
    z, is_gaussian = release.noise_multiplier, release.mechanism == "gaussian"
    scale = (math.sqrt(z * z * 2.0 + _SPARE_VARIANCE) if is_gaussian else 2.0 * z) * _MARGIN
    if scale > MAX_SCALE:
        raise InputError(
            f"epsilon must be larger for counts of records: noise of scale {scale:,.0f} would hide "
            f"them, and at most {MAX_SCALE:,.0f} is allowed."
        )
    return IntegerNoise("gaussian" if is_gaussian else "laplace", scale)
