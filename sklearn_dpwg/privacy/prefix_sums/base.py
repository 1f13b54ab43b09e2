"""The contract of every prefix-sum mechanism."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._checks import FloatArray, positive_finite, whole_number
from sklearn_dpwg.exceptions import InputError, InputTypeError, PlanExceededError
from sklearn_dpwg.privacy.noise.rows import GaussianRows
from sklearn_dpwg.privacy.noise.source import NoiseSource
from sklearn_dpwg.privacy.release import Release


class PrefixSumStream(ABC):
    """Noisy prefix sums of the vectors added so far; made by `PrefixSums.open`.

    Parameters
    ----------
    mechanism : PrefixSums
        Whose sums they are.
    rows : GaussianRows
        Adds the noise to the rows of C G.
    sensitivity : float or None
        By how much one record moves one vector, or None if every step states its own.

    Notes
    -----
    Exact sums, and noise that is yet unused, are secrets: a stream cannot be copied or pickled.
    """

    def __init__(
        self, mechanism: PrefixSums, rows: GaussianRows, sensitivity: float | None
    ) -> None:
        self.n_added = 0  # vectors so far
        self._rows = rows
        self._n_steps = mechanism.n_steps
        self._shape = (mechanism.n_dimensions,)
        self._column_norm = mechanism.column_norm
        self._is_fixed = sensitivity is not None
        self._scale = 0.0 if sensitivity is None else self._column_norm * sensitivity

    def add(self, vector: ArrayLike, sensitivity: float | None = None) -> FloatArray:
        """Add a vector and return the noisy sum of all so far.

        Parameters
        ----------
        vector : array-like of shape (n_dimensions,)
            What to add, finite. It may depend on the noisy sums before it.
        sensitivity : float, optional
            By how much one record can move this vector in the L2 norm, if the stream was opened
            without one. It may follow from the noisy sums before; one below an earlier one counts
            as that one.

        Returns
        -------
        ndarray of shape (n_dimensions,)
            The sum with noise, a new array.

        Raises
        ------
        PlanExceededError
            If all steps were taken.
        TypeError
            If the sensitivity was stated both here and at the opening, or nowhere.
        """
        values = np.asarray(vector, dtype=np.float64)
        if values.shape != self._shape:
            raise InputError(f"vector must have shape {self._shape}, got shape {values.shape}.")
        # one product sees NaN and infinity in less time than numpy.isfinite takes
        if not math.isfinite(values.dot(values)):
            raise InputError("vector must be finite, got NaN, infinity or numbers near it.")
        if (sensitivity is None) != self._is_fixed:
            raise InputTypeError(
                "sensitivity must be stated once, where the stream is opened or at every step."
            )
        if self.n_added == self._n_steps:
            raise PlanExceededError(
                f"The stream was planned for {self._n_steps} steps, and all were taken."
            )
        if sensitivity is not None:
            stated = self._column_norm * positive_finite(sensitivity, "sensitivity")
            self._scale = max(self._scale, stated)
        self.n_added += 1
        return self._add(values)

    @abstractmethod
    def _add(self, vector: FloatArray) -> FloatArray:
        """Return the noisy sum; ``n_added`` counts this vector, ``_scale`` is for its rows."""

    def __reduce__(self) -> NoReturn:
        raise InputTypeError(
            "A PrefixSumStream cannot be copied or pickled: it holds exact sums and unused noise."
        )


# Roundings of the rows of C G for each doubling of the steps, in units of these; a margin for FFTs.
_ROUNDINGS = 256.0


class PrefixSums(ABC):
    """A way to release all prefix sums of a stream of vectors, known from public facts.

    Parameters
    ----------
    n_steps : int
        Largest number of vectors T. A stream may end earlier, at no lower cost.
    n_dimensions : int
        Numbers in a vector.

    Notes
    -----
    C is lower triangular in time: a row of C G is known when it is released. So the stream may be
    adaptive (Denisov et al. 2022; `docs/theory/prefix-sums.md`).
    """

    name: ClassVar[str]
    _stream: ClassVar[type[PrefixSumStream]]

    def __init__(self, n_steps: int, n_dimensions: int) -> None:
        self.n_steps = whole_number(n_steps, "n_steps", least=1)
        self.n_dimensions = whole_number(n_dimensions, "n_dimensions", least=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_steps={self.n_steps}, n_dimensions={self.n_dimensions})"

    @property
    @abstractmethod
    def column_norm(self) -> float:
        """Largest column norm of C: how far C G moves if one vector moves by 1 in the L2 norm."""

    @abstractmethod
    def row_norms(self) -> FloatArray:
        """Return the row norms of B: the noise of every sum per unit of noise in Z.

        Returns
        -------
        ndarray of shape (n_steps,)
            Standard deviation of a coordinate of each released sum.
        """

    @abstractmethod
    def increment_norms(self) -> FloatArray:
        """Return the noise of the differences of successive sums per unit of noise in Z.

        Returns
        -------
        ndarray of shape (n_steps,)
            Standard deviation of a coordinate of each difference; the first is that of the first
            sum itself.
        """

    @abstractmethod
    def factors(self) -> tuple[FloatArray, FloatArray]:
        """Return B and C written out, for a reader or a test of few steps.

        Returns
        -------
        decoder : ndarray of shape (n_steps, n_steps)
            The matrix B.
        encoder : ndarray of shape (n_steps, n_steps)
            The matrix C; the product B C is the all-ones lower triangle.
        """

    @property
    def worst_standard_deviation(self) -> float:
        """Largest noise of a sum per unit of the steps' sensitivity at noise multiplier 1."""
        return float(self.standard_deviations().max())

    @property
    def rounding(self) -> float:
        """What computing C G in floating point costs, over the norm of the vectors.

        `docs/theory/prefix-sums.md`, section 5, says by how much sensitivities have to be larger.
        """
        n_roundings = _ROUNDINGS * (math.log2(self.n_steps) + 8.0)
        return 2.0 * n_roundings * 2.0**-53 * self.n_steps / self.column_norm

    def standard_deviations(self) -> FloatArray:
        """Return the noise of every sum per unit of the steps' sensitivity.

        Returns
        -------
        ndarray of shape (n_steps,)
            Standard deviation of a coordinate of each released sum if a record moves one vector
            by at most 1 and the noise multiplier is 1, which is 1-GDP.
        """
        return self.row_norms() * self.column_norm

    def release(
        self, name: str, noise_multiplier: float = 1.0, *, part: int | None = None
    ) -> Release:
        """Return what the plan pays for: all sums are one Gaussian release.

        Parameters
        ----------
        name : str
            What is summed.
        noise_multiplier : float, default=1.0
            Standard deviation of Z over the largest column norm times the steps' sensitivity.
        part : int, optional
            Index of the disjoint part of the records that is read.

        Returns
        -------
        Release
            A Gaussian release, drawn once.
        """
        return Release(name, "gaussian", noise_multiplier, max_count=1, part=part)

    def open(
        self, noise: NoiseSource, release: Release, *, sensitivity: float | None
    ) -> PrefixSumStream:
        """Begin a stream; the release is spent here.

        Parameters
        ----------
        noise : NoiseSource
            Source of the plan's releases.
        release : Release
            What `release` returned, calibrated.
        sensitivity : float or None
            By how much one record can move one vector in the L2 norm, the one vector that it
            can move at all; or None if every step states its own.

        Returns
        -------
        PrefixSumStream
            Takes the vectors, gives the noisy sums.
        """
        if sensitivity is not None:
            sensitivity = positive_finite(sensitivity, "sensitivity")
        rows = noise.gaussian_rows((self.n_steps, self.n_dimensions), release=release)
        return self._stream(self, rows, sensitivity)
