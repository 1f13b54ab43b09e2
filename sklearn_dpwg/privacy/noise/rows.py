"""One Gaussian release of a matrix, row by row."""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.exceptions import InputError, InputTypeError, PlanExceededError
from sklearn_dpwg.privacy.noise.samplers import Sampler, SeededSampler
from sklearn_dpwg.privacy.release import Release

# Seeded noise is drawn ahead: a call of NumPy costs more than a row of noise.
_NUMBERS_DRAWN_AHEAD = 2**15


class GaussianRows:
    """Adds Gaussian noise to the rows of a matrix, of which one record moves several.

    Made by `NoiseSource.gaussian_rows`. The release is about the whole matrix: it is one Gaussian
    mechanism, however its rows follow from earlier noisy rows, and fewer rows cost as much as all.
    What is held between two rows is secret where the noise is seeded, so copying and pickling are
    refused.
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
        """Return the seeded noise of all rows at once, what `add` would add to one after another.

        Secure noise is on a grid and hides only a value that OpenDP rounds to that grid, so nobody
        else may add it.
        """
        if not self._seeded:
            raise InputTypeError(
                "Secure noise cannot be drawn ahead of the rows that it is added to."
            )
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
            raise InputError(f"sensitivity must be positive and finite, got {sensitivity!r}.")
        if sensitivity < self._sensitivity:
            raise InputError(
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
        raise InputTypeError(
            "GaussianRows cannot be copied or pickled: the copy would repeat their noise."
        )
