"""Source of all noise, which refuses every draw that the plan has not paid for."""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_dpwg._checks import FloatArray, whole_number
from sklearn_dpwg.exceptions import (
    InputError,
    InputTypeError,
    PlanExceededError,
    SeededNoiseWarning,
    UnsupportedMechanismError,
    warn,
)
from sklearn_dpwg.privacy.noise.poisson import PoissonSample
from sklearn_dpwg.privacy.noise.samplers import (
    UNIT_SENSITIVITY,
    Sampler,
    SecureSampler,
    Seed,
    SeededSampler,
    check_integers,
    check_value,
    noise_on_integers,
    seed_sequence,
)
from sklearn_dpwg.privacy.release import Draw, Mechanism, Release

# The group that alone pays for a draw, if any.
Payer = int | None
Shape = tuple[int, ...]


class PaidDraws:
    """Counts draws against the releases of a plan, and refuses those beyond it."""

    def __init__(self, releases: Sequence[Release]) -> None:
        self._allowed: Counter[Release] = Counter()
        for release in releases:
            if type(release) is not Release:
                raise InputTypeError(
                    f"releases must hold Releases and nothing else, got {release!r}."
                )
            self._allowed[release] += release.max_count
        self._spent: Counter[Release] = Counter()
        self._spent_by: Counter[tuple[Release, int]] = Counter()
        self._samples: Counter[Release] = Counter()
        self.draws: list[Draw] = []

    def add_sample(self, release: Release) -> None:
        """Count a sample, which the next draw of a sampled release uses up."""
        if type(release) is not Release or release not in self._allowed:
            self._refuse(release)
        self._samples[release] += 1

    def spend(
        self, release: Release, mechanism: Mechanism, shape: Shape, payer: Payer = None
    ) -> None:
        """Count a draw against the plan before the noise exists, or refuse it."""
        # a subclass could claim to equal what was paid for
        if type(release) is not Release or release not in self._allowed:
            self._refuse(release)
        if release.mechanism != mechanism:
            raise PlanExceededError(
                f"The plan pays for {release.mechanism} noise on {release.name!r}, not {mechanism}."
            )
        n_allowed = self._allowed[release]
        if self._spent[release] >= n_allowed:
            raise PlanExceededError(
                f"The plan pays for {n_allowed} draw{'s' * (n_allowed > 1)} of {release.name!r}, "
                "and all were made."
            )
        # Laplace releases of batches, each of which is read once, need no count by group
        if release.draws_per_record is not None and release.mechanism == "gaussian":
            self._check_payer(release, payer, n_allowed)
        if release.sampling_rate < 1.0 and self._samples[release] == 0:
            raise PlanExceededError(
                f"The plan pays for draws of {release.name!r} from samples of their own, and no "
                "sample was drawn for this one."
            )
        self._spent[release] += 1
        if payer is not None:
            self._spent_by[release, int(payer)] += 1
        if release.sampling_rate < 1.0:
            self._samples[release] = 0
        self.draws.append(Draw(release, shape))

    def _check_payer(self, release: Release, payer: Payer, n_allowed: int) -> None:
        """Refuse a draw without a payer, or of one who has paid for as many as a record may."""
        if release.paid_count == release.max_count:
            return
        if payer is None:
            raise PlanExceededError(
                f"The plan pays for draws of {release.name!r} of which a record moves "
                f"{release.paid_count}, so each must name its payer, got None."
            )
        payer = whole_number(payer, "payer", least=0)
        # a plan may hold the same release several times
        most = release.paid_count * (n_allowed // release.max_count)
        if self._spent_by[release, payer] >= most:
            raise PlanExceededError(
                f"The plan pays for {most} draw{'s' * (most > 1)} of {release.name!r} by a group, "
                f"and group {payer} has paid for all of them."
            )

    def _refuse(self, release: Release) -> NoReturn:
        """Refuse a release that the plan does not hold."""
        known = sorted({repr(allowed.name) for allowed in self._allowed}) or ["nothing"]
        raise PlanExceededError(
            f"The plan does not hold {release!r}; it pays for {', '.join(known)}."
        )


class NeverCopied:
    """What cannot be copied or pickled, as a copy would repeat noise that is yet to be drawn."""

    def __reduce__(self) -> NoReturn:
        raise InputTypeError(
            f"{type(self).__name__} cannot be copied or pickled: the copy would repeat its noise."
        )


class GaussianRows(NeverCopied):
    """Adds Gaussian noise to the rows of a matrix, of which one record moves several.

    Made by `NoiseSource.gaussian_rows`. The release is about the whole matrix: it is one Gaussian
    mechanism, however its rows follow from earlier noisy rows, and fewer rows cost as much as all.
    """

    def __init__(self, sampler: Sampler, release: Release, shape: tuple[int, int]) -> None:
        self._sampler = sampler
        self._release = release
        self._n_rows, self._row_shape = shape[0], shape[1:]
        self._n_left = self._n_rows
        self._sensitivity = 0.0  # of the last row

    def add(self, row: FloatArray, sensitivity: float) -> FloatArray:
        """Return the next row, which may depend on the noisy rows before it, with noise.

        The sensitivity says by how much a record that moves this row and none before it moves all
        rows together, in the L2 norm. It may follow from the noisy rows before it; it must not
        decrease. Where the row or the sensitivity is refused nothing is drawn.
        """
        row = np.asarray(row, dtype=np.float64)
        if row.shape != self._row_shape:
            raise InputError(f"row must have shape {self._row_shape}, got shape {row.shape}.")
        # one product sees NaN and infinity in less time than numpy.isfinite takes
        if not math.isfinite(row.dot(row)):
            raise InputError("row must be finite, got NaN, infinity or numbers near it.")
        sensitivity = float(sensitivity)
        if not 0.0 < sensitivity < math.inf:
            raise InputError(f"sensitivity must be positive and finite, got {sensitivity!r}.")
        if sensitivity < self._sensitivity:
            raise InputError(
                f"sensitivity must not decrease from row to row, got {sensitivity!r} after "
                f"{self._sensitivity!r}."
            )
        self._sensitivity = sensitivity
        if self._n_left == 0:
            raise PlanExceededError(
                f"The plan pays for {self._n_rows} row{'s' * (self._n_rows > 1)} of "
                f"{self._release.name!r}, and all were released."
            )
        self._n_left -= 1
        return self._sampler.add_noise(row, self._sensitivity, self._release, self._n_rows)


class NoiseSource(NeverCopied):
    """Adds noise to values, and refuses what the plan has not paid for.

    Parameters
    ----------
    random_state : int, RandomState, Generator or SeedSequence, optional
        The default None draws from the operating system's entropy with OpenDP's samplers, which
        are proof against floating-point attacks. Anything else makes the noise repeatable and is
        for tests and demonstrations only: the guarantee is void for whoever knows the seed, sees
        two results drawn from the same seed (clones, folds, refits), or holds the estimator.
    releases : sequence of Release, default=()
        What the plan has paid for. A draw that matches none of them is refused, so nothing can
        be drawn with the default.

    Raises
    ------
    PlanExceededError
        By every method, if the plan holds no such release, or no more of them.
    ValueError
        By every method, if an argument is out of range. Nothing is drawn in either case.

    Warns
    -----
    SeededNoiseWarning
        Once, at construction, if a seed was given.

    Notes
    -----
    A copy would draw the same seeded noise again and forget what was drawn, so copying and
    pickling are refused.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import NoiseSource, Release
    >>> risks = Release("risks", "gaussian", noise_multiplier=4.0, max_count=1)
    >>> noise = NoiseSource(releases=[risks])
    >>> noisy = noise.gaussian([0.5, 0.7], sensitivity=[0.01, 0.002], release=risks)
    >>> [draw.release.name for draw in noise.draws]
    ['risks']
    >>> noise.gaussian([0.5, 0.7], sensitivity=[0.01, 0.002], release=risks)
    Traceback (most recent call last):
    sklearn_dpwg.exceptions.PlanExceededError: The plan pays for 1 draw of 'risks'...
    """

    def __init__(self, random_state: Seed | None = None, releases: Sequence[Release] = ()) -> None:
        if hasattr(self, "_paid"):
            raise RuntimeError("a NoiseSource is made once: what it may draw was fixed then.")
        self._paid = PaidDraws(releases)
        # called with the number of draws before each, itself included: for progress
        self.on_draw: Callable[[int], None] | None = None
        self._sampler: Sampler
        if random_state is None:
            self._sampler = SecureSampler()
            self._rng = np.random.default_rng()
        else:
            self._sampler = SeededSampler(seed_sequence(random_state))
            self._rng = self._sampler.stream("public randomness")
            warn(
                "The noise is drawn from a seed: results repeat, and the privacy guarantee is "
                "void for anyone who knows the seed, holds the estimator, or sees two results of "
                "the same seed (clones, folds, refits). Use random_state=None on real data.",
                SeededNoiseWarning,
            )

    @property
    def seeded(self) -> bool:
        """Whether the noise comes from a seed."""
        return isinstance(self._sampler, SeededSampler)

    @property
    def draws(self) -> tuple[Draw, ...]:
        """Every draw so far, in order; each names the release it was counted against."""
        return tuple(self._paid.draws)

    @property
    def rng(self) -> np.random.Generator:
        """Randomness that may become known, as who joins a sample must not: groups, splits."""
        return self._rng

    def secret_rng(self, purpose: str) -> np.random.Generator:
        """Return a generator of its own for choices that must stay secret.

        Parameters
        ----------
        purpose : str
            What is chosen; a seeded source has one generator a purpose.

        Returns
        -------
        numpy.random.Generator
            Without a seed one of 256 bits of the operating system's entropy.
        """
        if isinstance(self._sampler, SeededSampler):
            return self._sampler.stream(purpose)
        return np.random.default_rng(secrets.randbits(256))

    def poisson_sample(self, release: Release, *, by_place: bool = False) -> PoissonSample:
        """Draw who joins the next draw of a sampled release; the coins stay secret.

        Parameters
        ----------
        release : Release
            A release of the plan; its ``sampling_rate`` is each record's probability.
        by_place : bool, default=False
            Whether a record's coin is that of its place among all, not of its rank in its group.

        Returns
        -------
        PoissonSample
            A coin for every record; a draw of a sampled release uses one up, or is refused.
        """
        self._paid.add_sample(release)
        if isinstance(self._sampler, SeededSampler):
            key = self._sampler.stream("coins of samples").bytes(32)
        else:
            key = secrets.randbits(256).to_bytes(32, "little")
        return PoissonSample(release.sampling_rate, key, by_place)

    def gaussian(
        self,
        value: ArrayLike,
        *,
        sensitivity: ArrayLike,
        release: Release,
        payer: Payer = None,
    ) -> FloatArray:
        """Add Gaussian noise, independent in every coordinate.

        Parameters
        ----------
        value : array-like
            What to release, finite, of any shape.
        sensitivity : float or array-like
            A number: by how much one record can move the value in the L2 norm. An array of the
            value's shape: one record can move only one coordinate, whichever, and coordinate j by
            at most ``sensitivity[j]``; then every coordinate has noise in proportion to its own.
        release : Release
            The release of the plan that this draw is, with ``mechanism="gaussian"``.
        payer : int, optional
            Number of the group whose records alone the value is computed from. A release whose
            ``draws_per_record`` is below ``max_count`` needs it, and any payer's draws are at most
            that many.

        Returns
        -------
        ndarray or float
            The value with noise of standard deviation ``release.noise_multiplier * sensitivity``,
            a float for a scalar.

        Notes
        -----
        A coordinate whose sensitivity is exactly 0 is returned as it is (docs/theory/noise.md); a
        single sensitivity of 0 is refused, as it is a bug more often than a fact.

        For a release with ``sampling_rate`` below 1 the sensitivity is that without sampling, 2C
        with C the largest norm of one record's contribution (see `Release`), and the value is
        computed from the last sample that `poisson_sample` drew for the release.
        """
        return self._add_noise(value, sensitivity, release, "gaussian", payer)

    def gaussian_in_units(
        self, value: ArrayLike, *, units: ArrayLike, sensitivity: float, release: Release
    ) -> FloatArray:
        """Add Gaussian noise in proportion to a unit of each coordinate.

        Parameters
        ----------
        value : array-like
            What to release, finite, at least one-dimensional.
        units : array-like
            Positive and finite, of the value's shape.
        sensitivity : float
            By how much one record can move ``value / units`` in the L2 norm; for a sampled release
            2C with C the largest norm of what one record adds.
        release : Release
            The Gaussian release of the plan that this draw is.

        Returns
        -------
        ndarray
            The value with noise of standard deviation
            ``units * release.noise_multiplier * sensitivity``.
        """
        values, scales = np.array(value, dtype=np.float64), np.array(units, dtype=np.float64)
        check_value(values, np.array(sensitivity, dtype=np.float64))
        is_unit = (scales > 0.0) & (scales < np.inf)
        if values.ndim == 0 or scales.shape != values.shape or not is_unit.all():
            raise InputError(
                f"units must be positive and finite and have the shape of the value, "
                f"{values.shape}, got {units!r}."
            )
        self._spend(release, "gaussian", values.shape)
        moved = UNIT_SENSITIVITY * float(sensitivity)
        noisy = self._sampler.add_noise((values / scales).reshape(-1), moved, release)
        return np.asarray(noisy.reshape(values.shape) * scales)

    def laplace(self, value: ArrayLike, *, sensitivity: ArrayLike, release: Release) -> FloatArray:
        """Add Laplace noise, independent in every coordinate.

        Parameters
        ----------
        value : array-like
            What to release, finite, of any shape.
        sensitivity : float or array-like
            As for `gaussian`, the number in the L1 norm.
        release : Release
            The release of the plan that this draw is, with ``mechanism="laplace"``.

        Returns
        -------
        ndarray or float
            The value with noise of scale ``release.noise_multiplier * sensitivity``, a float for
            a scalar.
        """
        return self._add_noise(value, sensitivity, release, "laplace")

    def integers(self, counts: ArrayLike, *, release: Release) -> NDArray[np.int64]:
        """Add noise on the whole numbers to counts, independent in every coordinate.

        Parameters
        ----------
        counts : array-like of int
            Numbers of records in disjoint cells, of which a record moves at most two, each by one;
            of any shape.
        release : Release
            The release of the plan that this draw is, with ``mechanism="discrete-laplace"`` or
            ``"gaussian"``, not sampled.

        Returns
        -------
        ndarray of int64
            The numbers with discrete noise; an `IntegerNoise` is its law.
        """
        whole, law = check_integers(counts), noise_on_integers(release)
        self._spend(release, release.mechanism, whole.shape)
        noisy = self._sampler.add_integers(whole.reshape(-1), law, release)
        return noisy.reshape(whole.shape)

    def gaussian_rows(self, shape: tuple[int, int], *, release: Release) -> GaussianRows:
        """Begin one Gaussian release of a matrix whose rows become known one after another.

        Parameters
        ----------
        shape : tuple of int
            Rows and columns of the matrix, both at least 1. Rows may be left out at the end.
        release : Release
            The release of the plan that the whole matrix is, with ``mechanism="gaussian"``.

        Returns
        -------
        GaussianRows
            Adds noise to the rows; it counts as one draw, spent here, of all rows.
        """
        n_rows = whole_number(shape[0], "the number of rows", least=1)
        n_columns = whole_number(shape[1], "the number of columns", least=1)
        if release.sampling_rate < 1.0:
            raise UnsupportedMechanismError(
                f"The rows of a matrix cannot be a sampled release, got sampling_rate = "
                f"{release.sampling_rate!r}."
            )
        self._spend(release, "gaussian", (n_rows, n_columns))
        return GaussianRows(self._sampler, release, (n_rows, n_columns))

    def _spend(
        self, release: Release, mechanism: Mechanism, shape: Shape, payer: Payer = None
    ) -> None:
        self._paid.spend(release, mechanism, shape, payer)
        if self.on_draw is not None:
            self.on_draw(len(self._paid.draws))

    def _add_noise(
        self,
        value: ArrayLike,
        sensitivity: ArrayLike,
        release: Release,
        mechanism: Mechanism,
        payer: Payer = None,
    ) -> FloatArray:
        values = np.array(value, dtype=np.float64)
        bounds = np.array(sensitivity, dtype=np.float64)
        check_value(values, bounds)
        self._spend(release, mechanism, values.shape, payer)
        flat = values.reshape(-1)
        if bounds.ndim == 0:
            flat = self._sampler.add_noise(flat, float(bounds), release)
        elif (moves := bounds.reshape(-1) > 0.0).any():
            units = bounds.reshape(-1)[moves]
            noisy = self._sampler.add_noise(flat[moves] / units, UNIT_SENSITIVITY, release)
            flat[moves] = noisy * units
        if values.ndim == 0:
            return float(flat[0])  # type: ignore[return-value]
        return flat.reshape(values.shape)
