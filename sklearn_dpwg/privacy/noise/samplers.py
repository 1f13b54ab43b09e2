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

# The grid is finer than σ or b by 2⁴⁰ and, with the rounding of all coordinates, than Δ by 2³⁰;
# a coarser grid is no faster (docs/theory/noise.md).
_LOG2_SCALE_OVER_GRID = 40
_LOG2_SENSITIVITY_OVER_ROUNDING = 30
_MIN_EXPONENT = -1000
_MARGIN = 1.0 + 2.0**-40
_MAX_CACHED = 64


class SecureSampler:
    """Discrete noise on a fine grid, sampled exactly, from the operating system's entropy."""

    def __init__(self) -> None:
        self._measurement = lru_cache(maxsize=_MAX_CACHED)(_measurement)

    def add_noise(
        self, values: FloatArray, sensitivity: float, release: Release, n_rows: int = 1
    ) -> FloatArray:
        """Round the vector to a grid, and add discrete noise on that grid.

        With ``n_rows`` the vector is one row of a matrix that the release is about.
        """
        is_sampled, multiplier = release.sampling_rate < 1.0, release.noise_multiplier
        measurement = self._measurement(
            release.mechanism, multiplier, sensitivity, values.size, is_sampled, n_rows
        )
        return np.array(measurement(values.tolist()), dtype=np.float64)

    def add_integers(
        self, values: NDArray[np.int64], noise: IntegerNoise, release: Release
    ) -> NDArray[np.int64]:
        """Return the numbers with discrete noise, sampled exactly."""
        measurement = _measurement_on_integers(noise, values.size)
        return np.array(measurement(values.tolist()), dtype=np.int64)


class SeededSampler:
    """NumPy noise; every release name has a stream of its own, so no two share noise."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._seed = seed
        self._streams: dict[str, np.random.Generator] = {}

    def stream(self, name: str) -> np.random.Generator:
        """Return the stream of a name, which depends on the name and the seed alone."""
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
        """Return the vector with continuous noise."""
        name = f"noise of {release.name}"
        stream = self._streams.get(name) or self.stream(name)
        draw = stream.normal if release.mechanism == "gaussian" else stream.laplace
        return values + draw(0.0, release.noise_multiplier * sensitivity, values.size)

    def add_integers(
        self, values: NDArray[np.int64], noise: IntegerNoise, release: Release
    ) -> NDArray[np.int64]:
        """Return the numbers with discrete noise of the law that the secure one has."""
        stream = self.stream(f"noise of {release.name}")
        if noise.mechanism == "laplace":  # two geometric times apart
            leave = -math.expm1(-1.0 / noise.scale)
            after = stream.geometric(leave, values.size) - stream.geometric(leave, values.size)
            return values + after
        numbers, probabilities = noise.law()
        levels = np.cumsum(probabilities)
        places = np.searchsorted(levels, stream.random(values.size) * levels[-1], side="right")
        return values + numbers[np.minimum(places, len(numbers) - 1)]


def grid_exponent(
    mechanism: str, multiplier: float, sensitivity: float, size: int, is_sampled: bool = False
) -> int:
    """Return k where the grid of the noise is the multiples of 2^k."""
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
    """Return what the grid adds to Δ, in grid steps.

    Two roundings move a coordinate by at most one step against each other: √d in L2 and d in L1.
    A sampled record is compared with its absence, so its norm C = Δ/2 may grow by as much and Δ
    by twice that. Discrete Laplace noise is, in each coordinate, as good as continuous noise with
    Δ two steps larger.
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
    """Return OpenDP's measurement, its own privacy map checked against the multiplier.

    The rows of a matrix are rounded one by one, on grids that may grow with their sensitivities;
    four times the coordinates pay for that (docs/theory/prefix-sums.md, Lemma 2).
    """
    domain, metrics, make = _opendp("float", size)
    n_rounded = size if n_rows == 1 else 4 * n_rows * size
    exponent = grid_exponent(mechanism, multiplier, sensitivity, n_rounded, is_sampled)
    rounding = _rounding(mechanism, n_rounded, is_sampled) * 2.0**exponent
    scale = multiplier * (sensitivity + rounding) * _MARGIN
    if mechanism == "gaussian":
        measurement = make.make_gaussian(domain, metrics.l2_distance(T=float), scale, exponent)
        promised = 0.5 / multiplier**2
    else:
        measurement = make.make_laplace(domain, metrics.l1_distance(T=float), scale, exponent)
        promised = 1.0 / multiplier
    claimed = measurement.map(sensitivity)
    _check_promise(claimed, promised, f"{mechanism} noise")
    return measurement


@lru_cache(maxsize=_MAX_CACHED)
def _opendp(kind: str, size: int) -> tuple[Any, Any, Any]:
    """Return OpenDP's domain of vectors, and its modules of metrics and of measurements.

    Its prelude loads plugins for much else, in half a second.
    """
    from opendp import domains, measurements, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    kinds: dict[str, Any] = {"T": float, "nan": False} if kind == "float" else {"T": kind}
    domain = domains.vector_domain(domains.atom_domain(**kinds), size=size)
    return domain, metrics, measurements


def _check_promise(claimed: float, promised: float, what: str) -> None:
    if not claimed <= promised:
        raise AssertionError(
            f"OpenDP states a privacy loss of {claimed!r} for {what}, above the promised "
            f"{promised!r}."
        )


def _measurement_on_integers(noise: IntegerNoise, size: int) -> Any:
    """Return OpenDP's measurement of whole numbers, its privacy map checked against the scale."""
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
    """Return the root of all streams; a generator is advanced, so that it never repeats them."""
    if isinstance(random_state, np.random.SeedSequence):
        return random_state.spawn(1)[0]
    if isinstance(random_state, np.random.Generator):
        words = random_state.integers(2**32, size=4, dtype=np.uint32)
    elif isinstance(random_state, np.random.RandomState):
        words = random_state.randint(2**32, size=4, dtype=np.uint32)
    else:
        return np.random.SeedSequence(whole_number(random_state, "random_state", least=0))
    return np.random.SeedSequence([int(word) for word in words])


# Pays for the rounding of the division by the sensitivities, for quotients up to 2²⁸; whoever plans
# a per-coordinate release refuses public facts that allow for more.
UNIT_SENSITIVITY = 1.0 + 2.0**-24
MAX_QUOTIENT = 2.0**28

# Beyond it a sum with noise could leave the range of 64 bits.
MAX_INTEGER = 2.0**61


def check_value(values: FloatArray, bounds: FloatArray | None = None) -> None:
    """Refuse a value that is empty or not finite, and sensitivities that do not fit it."""
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
    is_enough = bounds >= 0.0 if bounds.ndim else bounds > 0.0
    if not (is_enough & (bounds < np.inf)).all():
        allowed = "at least 0 and finite everywhere" if bounds.ndim else "positive and finite"
        raise InputError(f"sensitivity must be {allowed}, got {bounds!r}.")


def check_integers(counts: ArrayLike) -> NDArray[np.int64]:
    """Return whole numbers as an array, empty ones and those that are none refused."""
    values = np.asarray(counts)
    if values.dtype.kind not in "iu":
        raise InputTypeError(f"counts must be whole numbers, got {values.dtype}.")
    if values.size == 0:
        raise InputError("counts must have at least one entry.")
    if abs(float(values.max())) + abs(float(values.min())) > MAX_INTEGER:
        raise InputError(f"counts must be within {MAX_INTEGER:.3g}, got {values.max()!r}.")
    return values.astype(np.int64)


# What discrete Gaussian noise has of variance beyond what is paid for, so that it is no worse than
# continuous noise but for a factor below exp(2e-12): docs/theory/noise.md.
_SPARE_VARIANCE = 1.5625


def noise_on_integers(release: Release) -> IntegerNoise:
    """Return the law of the noise on counts of disjoint cells, of which a record moves two.

    With the noise multiplier z its scale is 2z for discrete Laplace noise. For Gaussian noise,
    which is accounted for as if it were continuous, it is √(2z² + 1.5625). Both are larger by a
    relative 2⁻⁴⁰.
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
