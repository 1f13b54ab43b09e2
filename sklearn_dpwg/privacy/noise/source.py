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

# Number of the group whose records alone a draw reads; None if it may read several groups.
Payer = int | None
Shape = tuple[int, ...]


class PaidDraws:
    """Counts draws of noise, and refuses a draw that the releases of the plan do not pay for."""

    def __init__(self, releases: Sequence[Release]) -> None:
        self._allowed: Counter[Release] = Counter()  # numbers of draws that the plan pays for
        for release in releases:
            if type(release) is not Release:
                raise InputTypeError(
                    f"releases must hold Releases and nothing else, got {release!r}."
                )
            self._allowed[release] += release.max_count
        self._n_draws: Counter[Release] = Counter()
        self._n_draws_of_payer: Counter[tuple[Release, int]] = Counter()
        self._n_unused_samples: Counter[Release] = Counter()
        self.draws: list[Draw] = []

    def add_sample(self, release: Release) -> None:
        """Count a Poisson sample; the next draw of the release uses up all samples before it."""
        if type(release) is not Release or release not in self._allowed:
            self._refuse_unplanned(release)
        self._n_unused_samples[release] += 1

    def spend(
        self, release: Release, mechanism: Mechanism, shape: Shape, payer: Payer = None
    ) -> None:
        """Count a draw before its noise is drawn; raise an error if the plan does not allow it."""
        # a subclass could override equality, and so pass for a planned release
        if type(release) is not Release or release not in self._allowed:
            self._refuse_unplanned(release)
        if release.mechanism != mechanism:
            raise PlanExceededError(
                f"The plan pays for {release.mechanism} noise on {release.name!r}, not {mechanism}."
            )
        n_allowed = self._allowed[release]
        if self._n_draws[release] >= n_allowed:
            raise PlanExceededError(
                f"The plan pays for {n_allowed} draw{'s' * (n_allowed > 1)} of {release.name!r}, "
                "and all were made."
            )
        # batches are disjoint, so Laplace releases of batches need no count for each group
        if release.draws_per_record is not None and release.mechanism == "gaussian":
            self._check_payer(release, payer, n_allowed)
        if release.sampling_rate < 1.0 and self._n_unused_samples[release] == 0:
            raise PlanExceededError(
                f"The plan pays for draws of {release.name!r} from samples of their own, and no "
                "sample was drawn for this one."
            )
        self._n_draws[release] += 1
        if payer is not None:
            self._n_draws_of_payer[release, int(payer)] += 1
        if release.sampling_rate < 1.0:
            self._n_unused_samples[release] = 0
        self.draws.append(Draw(release, shape))

    def _check_payer(self, release: Release, payer: Payer, n_allowed: int) -> None:
        """Refuse a draw if records pay for only some draws and no payer has a draw left."""
        if release.paid_count == release.max_count:
            return
        if payer is None:
            raise PlanExceededError(
                f"The plan pays for draws of {release.name!r} of which a record moves "
                f"{release.paid_count}, so each must name its payer, got None."
            )
        payer = whole_number(payer, "payer", least=0)
        # a plan may hold the same release several times
        max_draws = release.paid_count * (n_allowed // release.max_count)
        if self._n_draws_of_payer[release, payer] >= max_draws:
            raise PlanExceededError(
                f"The plan pays for {max_draws} draw{'s' * (max_draws > 1)} of {release.name!r} by "
                f"a group, and group {payer} has paid for all of them."
            )

    def _refuse_unplanned(self, release: Release) -> NoReturn:
        """Refuse a release that the plan does not hold."""
        planned_names = sorted({repr(planned.name) for planned in self._allowed}) or ["nothing"]
        raise PlanExceededError(
            f"The plan does not hold {release!r}; it pays for {', '.join(planned_names)}."
        )


class NeverCopied:
    """Base class that refuses copies and pickles: a copy would draw the same noise again."""

    def __reduce__(self) -> NoReturn:
        raise InputTypeError(
            f"{type(self).__name__} cannot be copied or pickled: the copy would repeat its noise."
        )


class GaussianRows(NeverCopied):
    """Adds Gaussian noise to a matrix row by row, where one record may move several rows.

    `NoiseSource.gaussian_rows` makes it. The whole matrix is one Gaussian mechanism, also if rows
    are computed from earlier noisy rows, and fewer rows cost as much as all.
    """

    def __init__(self, sampler: Sampler, release: Release, shape: tuple[int, int]) -> None:
        self._sampler = sampler
        self._release = release
        self._n_rows, self._row_shape = shape[0], shape[1:]
        self._n_rows_left = self._n_rows
        self._sensitivity = 0.0  # that of the last row

    def add(self, row: FloatArray, sensitivity: float) -> FloatArray:
        """Return the next row of the matrix with Gaussian noise.

        The sensitivity bounds, in the L2 norm, how far a record moves all rows together if it
        moves this row and none before it. It must not decrease from row to row. The row and the
        sensitivity may depend on earlier noisy rows. No noise is drawn if either is refused.
        """
        row = np.asarray(row, dtype=np.float64)
        if row.shape != self._row_shape:
            raise InputError(f"row must have shape {self._row_shape}, got shape {row.shape}.")
        # the product is not finite if an entry is not; this is faster than numpy.isfinite
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
        if self._n_rows_left == 0:
            raise PlanExceededError(
                f"The plan pays for {self._n_rows} row{'s' * (self._n_rows > 1)} of "
                f"{self._release.name!r}, and all were released."
            )
        self._n_rows_left -= 1
        return self._sampler.add_noise(row, self._sensitivity, self._release, self._n_rows)


class NoiseSource(NeverCopied):
    """Adds noise to values, and refuses draws that the plan does not pay for.

    Parameters
    ----------
    random_state : int, RandomState, Generator or SeedSequence, optional
        The default None draws from the operating system's entropy with OpenDP's samplers, which
        are proof against floating-point attacks. Anything else makes the noise repeatable and is
        for tests and demonstrations only: the guarantee is void for whoever knows the seed, sees
        two results drawn from the same seed (clones, folds, refits), or holds the estimator.
    releases : sequence of Release, default=()
        The releases that the plan pays for. A draw for any other release is refused, so the
        default allows no draw.

    Raises
    ------
    PlanExceededError
        By every method, if the plan does not hold the release or all its draws were made.
    ValueError
        By every method, if an argument is out of range. After either error no noise was drawn.

    Warns
    -----
    SeededNoiseWarning
        Once, at construction, if a seed was given.

    Notes
    -----
    Copying and pickling are refused: a copy would draw the same seeded noise again, and draws of
    the original would not count for it.

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
        # for progress: called before each draw with the number of draws, this one included
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
        """All draws so far, in order; a draw names the release that paid for it."""
        return tuple(self._paid.draws)

    @property
    def rng(self) -> np.random.Generator:
        """Generator for choices that may become public (groups, splits), never for samples."""
        return self._rng

    def secret_rng(self, purpose: str) -> np.random.Generator:
        """Return a separate generator for choices that must stay secret.

        Parameters
        ----------
        purpose : str
            What is chosen. A seeded source has one generator for each purpose.

        Returns
        -------
        numpy.random.Generator
            Without a seed a new one, from 256 bits of the operating system's entropy.
        """
        if isinstance(self._sampler, SeededSampler):
            return self._sampler.stream(purpose)
        return np.random.default_rng(secrets.randbits(256))

    def poisson_sample(self, release: Release, *, by_place: bool = False) -> PoissonSample:
        """Draw which records the next draw of a sampled release reads; they stay secret.

        Parameters
        ----------
        release : Release
            A release of the plan; each record joins with probability ``sampling_rate``.
        by_place : bool, default=False
            Whether a record's position among all records decides, not its rank in its group.

        Returns
        -------
        PoissonSample
            Tells which records join. The next draw of the release uses the sample up, and is
            refused without one.
        """
        self._paid.add_sample(release)
        if isinstance(self._sampler, SeededSampler):
            key = self._sampler.stream("coins of samples").bytes(32)
        else:
            key = secrets.randbits(256).to_bytes(32, "little")
        return PoissonSample(rate=release.sampling_rate, key=key, by_place=by_place)

    def gaussian(
        self, value: ArrayLike, *, sensitivity: ArrayLike, release: Release, payer: Payer = None
    ) -> FloatArray:
        """Add Gaussian noise, independent in every coordinate.

        Parameters
        ----------
        value : array-like
            What to release, finite, of any shape.
        sensitivity : float or array-like
            A number bounds how far one record moves the value in the L2 norm. An array of the
            value's shape is for a value of which one record moves only one coordinate, any one:
            coordinate j by at most ``sensitivity[j]``, to which its noise is proportional.
        release : Release
            The release of the plan that pays for this draw, with ``mechanism="gaussian"``.
        payer : int, optional
            Number of the group whose records alone the value is computed from. Required if the
            ``draws_per_record`` of the release is below ``max_count``: it bounds the draws of
            each payer.

        Returns
        -------
        ndarray or float
            The value with noise of standard deviation ``release.noise_multiplier * sensitivity``,
            a float for a scalar.

        Notes
        -----
        In an array, a coordinate with sensitivity exactly 0 gets no noise (docs/theory/noise.md).
        A number 0 is refused, because it is more often a bug than a fact.

        For a release with ``sampling_rate`` below 1 the sensitivity is that without sampling: 2C,
        with C the largest norm of one record's contribution (see `Release`). The value must be
        computed from the last sample that `poisson_sample` drew for the release.
        """
        return self._add_noise(value, sensitivity, release, "gaussian", payer)

    def gaussian_in_units(
        self, value: ArrayLike, *, units: ArrayLike, sensitivity: float, release: Release
    ) -> FloatArray:
        """Add Gaussian noise that is proportional, in each coordinate, to a unit.

        Parameters
        ----------
        value : array-like
            What to release, finite, at least one-dimensional.
        units : array-like
            Unit of each coordinate, positive and finite, of the value's shape.
        sensitivity : float
            Bound on how far one record moves ``value / units`` in the L2 norm; for a sampled
            release 2C, with C the largest norm of one record's contribution.
        release : Release
            The release of the plan that pays for this draw, with ``mechanism="gaussian"``.

        Returns
        -------
        ndarray
            The value with noise of standard deviation
            ``units * release.noise_multiplier * sensitivity``.
        """
        values, unit_array = np.array(value, dtype=np.float64), np.array(units, dtype=np.float64)
        check_value(values, np.array(sensitivity, dtype=np.float64))
        is_allowed = (unit_array > 0.0) & (unit_array < np.inf)
        if values.ndim == 0 or unit_array.shape != values.shape or not is_allowed.all():
            raise InputError(
                f"units must be positive and finite and have the shape of the value, "
                f"{values.shape}, got {units!r}."
            )
        self._spend(release, "gaussian", values.shape)
        quotients = (values / unit_array).reshape(-1)
        # with room for the rounding of the division
        padded_sensitivity = UNIT_SENSITIVITY * float(sensitivity)
        noisy_quotients = self._sampler.add_noise(quotients, padded_sensitivity, release)
        return np.asarray(noisy_quotients.reshape(values.shape) * unit_array)

    def laplace(self, value: ArrayLike, *, sensitivity: ArrayLike, release: Release) -> FloatArray:
        """Add Laplace noise, independent in every coordinate.

        Parameters
        ----------
        value : array-like
            What to release, finite, of any shape.
        sensitivity : float or array-like
            As for `gaussian`, but a number is in the L1 norm.
        release : Release
            The release of the plan that pays for this draw, with ``mechanism="laplace"``.

        Returns
        -------
        ndarray or float
            The value with noise of scale ``release.noise_multiplier * sensitivity``, a float for
            a scalar.
        """
        return self._add_noise(value, sensitivity, release, "laplace")

    def integers(self, counts: ArrayLike, *, release: Release) -> NDArray[np.int64]:
        """Add whole-number noise to counts, independent in every coordinate.

        Parameters
        ----------
        counts : array-like of int
            Numbers of records in disjoint cells, of any shape. Replacing a record changes at most
            two counts, each by one.
        release : Release
            The release of the plan that pays for this draw, with ``mechanism="discrete-laplace"``
            or ``"gaussian"``, not sampled.

        Returns
        -------
        ndarray of int64
            The counts with discrete noise, of the same shape.
        """
        integers, noise = check_integers(counts), noise_on_integers(release)
        self._spend(release, release.mechanism, integers.shape)
        noisy_counts = self._sampler.add_integers(integers.reshape(-1), noise, release)
        return noisy_counts.reshape(integers.shape)

    def gaussian_rows(self, shape: tuple[int, int], *, release: Release) -> GaussianRows:
        """Begin one Gaussian release of a matrix whose rows are computed one after another.

        Parameters
        ----------
        shape : tuple of int
            Numbers of rows and columns, both at least 1. The last rows may be left out.
        release : Release
            The release of the plan that pays for the matrix, with ``mechanism="gaussian"``.

        Returns
        -------
        GaussianRows
            Adds noise to the rows. All rows together are one draw, which is counted here.
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
        """Count a draw, or refuse it, and report progress; call this before noise is drawn."""
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
        """Return the value with noise; the arguments are those of `gaussian` and `laplace`."""
        values = np.array(value, dtype=np.float64)
        sensitivities = np.array(sensitivity, dtype=np.float64)
        check_value(values, sensitivities)
        self._spend(release, mechanism, values.shape, payer)
        flat = values.reshape(-1)
        if sensitivities.ndim == 0:
            flat = self._sampler.add_noise(flat, float(sensitivities), release)
        elif (is_sensitive := sensitivities.reshape(-1) > 0.0).any():
            # coordinates in units of their own sensitivities have a common one
            units = sensitivities.reshape(-1)[is_sensitive]
            noisy = self._sampler.add_noise(flat[is_sensitive] / units, UNIT_SENSITIVITY, release)
            flat[is_sensitive] = noisy * units
        if values.ndim == 0:
            return float(flat[0])  # type: ignore[return-value]
        return flat.reshape(values.shape)
