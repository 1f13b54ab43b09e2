"""One Gaussian release of a matrix, row by row."""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.privacy.noise.samplers import Sampler, SeededSampler
from sklearn_dpwg.privacy.release import Release

# Seeded noise is drawn ahead: a call of NumPy costs more than a row of noise.
_NUMBERS_DRAWN_AHEAD = 2**15


class GaussianRows:
    """Adds Gaussian noise to the rows of a matrix, of which one record moves several.

    The release is about the whole matrix: it is one Gaussian mechanism, however its rows follow
    from earlier noisy rows. Made by `NoiseSource.gaussian_rows`.

    Parameters
    ----------
    sampler : Sampler
        Where the noise comes from.
    release : Release
        The release that the matrix is.
    shape : tuple of int
        Rows and columns.

    Notes
    -----
    Fewer rows than planned cost as much as all of them. What is held between two rows is secret
    where the noise is seeded, so copying and pickling are refused.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import NoiseSource, Release
    >>> sums = Release("sums", "gaussian", noise_multiplier=4.0, max_count=1)
    >>> noise = NoiseSource(releases=[sums])
    >>> rows = noise.gaussian_rows((3, 2), release=sums)
    >>> rows.add([0.5, 0.7], sensitivity=0.1).shape
    (2,)
    >>> [draw.shape for draw in noise.draws]
    [(3, 2)]
    """

    def __init__(self, sampler: Sampler, release: Release, shape: tuple[int, int]) -> None:
        self._sampler = sampler
        self._seeded = isinstance(sampler, SeededSampler)
        self._release = release
        self._n_rows, self._n_columns = shape
        self._row_shape = (self._n_columns,)
        self._n_left = self._n_rows
        self._sensitivity = math.nan  # equal to no number, so that the first one is checked
        self._scale = math.nan
        self._ahead = np.empty((0, self._n_columns))
        self._next = 0

    @property
    def seeded(self) -> bool:
        """Whether the noise comes from a seed."""
        return self._seeded

    def add(self, row: FloatArray, sensitivity: float) -> FloatArray:
        """Return the next row with noise.

        Parameters
        ----------
        row : array-like of shape (n_columns,)
            The row, finite. It may depend on the noisy rows before it.
        sensitivity : float
            By how much a record that moves this row and none before it moves all rows together,
            in the L2 norm. It may follow from the noisy rows before it; it must not decrease.

        Returns
        -------
        ndarray of shape (n_columns,)
            The row with noise of standard deviation ``release.noise_multiplier * sensitivity``.

        Raises
        ------
        PlanExceededError
            If all rows were released.
        ValueError
            If the row or the sensitivity is out of range. Nothing is drawn then.
        """
        row = np.asarray(row, dtype=np.float64)
        if row.shape != self._row_shape:
            raise ValueError(f"row must have shape {self._row_shape}, got shape {row.shape}.")
        # one product sees NaN and infinity in less time than numpy.isfinite takes
        if not math.isfinite(row.dot(row)):
            raise ValueError("row must be finite, got NaN, infinity or numbers near it.")
        if sensitivity != self._sensitivity:
            self._raise_to(sensitivity)
        if self._n_left == 0:
            self._refuse()
        self._n_left -= 1
        if not self._seeded:
            return self._sampler.add_noise(row, self._sensitivity, self._release, self._n_rows)
        if self._next == len(self._ahead):
            n_ahead = max(1, _NUMBERS_DRAWN_AHEAD // self._n_columns)
            self._ahead = self._draw(min(self._n_left + 1, n_ahead))
            self._next = 0
        noisy: FloatArray = self._ahead[self._next] * self._scale
        noisy += row
        self._next += 1
        return noisy

    def draw_all(self, sensitivity: float) -> FloatArray:
        """Return the seeded noise of all rows at once, for a caller that adds it.

        Parameters
        ----------
        sensitivity : float
            As for `add`, the same for all rows.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            Noise; what `add` would have added to one row after another.

        Raises
        ------
        TypeError
            If the noise is not seeded: secure noise is on a grid and hides only a value that
            OpenDP rounds to that grid, so nobody else may add it.
        PlanExceededError
            If rows were released already.
        ValueError
            If the sensitivity is out of range.
        """
        if not self._seeded:
            raise TypeError("Secure noise cannot be drawn ahead of the rows that it is added to.")
        self._raise_to(sensitivity)
        if self._n_left < self._n_rows:
            self._refuse()
        self._n_left = 0
        noise = self._draw(self._n_rows)
        noise *= self._scale
        return noise

    def _draw(self, n_rows: int) -> FloatArray:
        """Return unit noise of the seeded stream."""
        assert isinstance(self._sampler, SeededSampler)
        return self._sampler.unit_normals(self._release, (n_rows, self._n_columns))

    def _raise_to(self, sensitivity: float) -> None:
        sensitivity = float(sensitivity)
        if not 0.0 < sensitivity < math.inf:
            raise ValueError(f"sensitivity must be positive and finite, got {sensitivity!r}.")
        if sensitivity < self._sensitivity:
            raise ValueError(
                f"sensitivity must not decrease from row to row, got {sensitivity!r} after "
                f"{self._sensitivity!r}."
            )
        self._sensitivity = sensitivity
        self._scale = self._release.noise_multiplier * sensitivity

    def _refuse(self) -> NoReturn:
        raise PlanExceededError(
            f"The plan pays for {self._n_rows} row{'s' * (self._n_rows > 1)} of "
            f"{self._release.name!r}, and all were released."
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "GaussianRows cannot be copied or pickled: the copy would repeat their noise."
        )
