"""One Gaussian release of a matrix, row by row."""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.exceptions import InputError, InputTypeError, PlanExceededError
from sklearn_dpwg.privacy.noise.samplers import Sampler
from sklearn_dpwg.privacy.release import Release


class GaussianRows:
    """Adds Gaussian noise to the rows of a matrix, of which one record moves several.

    Made by `NoiseSource.gaussian_rows`. The release is about the whole matrix: it is one Gaussian
    mechanism, however its rows follow from earlier noisy rows, and fewer rows cost as much as all.
    Copying and pickling are refused, as copies of seeded rows would repeat their noise.
    """

    def __init__(self, sampler: Sampler, release: Release, shape: tuple[int, int]) -> None:
        self._sampler = sampler
        self._release = release
        self._n_rows, self._row_shape = shape[0], shape[1:]
        self._n_left = self._n_rows
        self._sensitivity = math.nan  # equal to no number, so that the first one is checked

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
            raise PlanExceededError(
                f"The plan pays for {self._n_rows} row{'s' * (self._n_rows > 1)} of "
                f"{self._release.name!r}, and all were released."
            )
        self._n_left -= 1
        return self._sampler.add_noise(row, self._sensitivity, self._release, self._n_rows)

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

    def __reduce__(self) -> NoReturn:
        raise InputTypeError(
            "GaussianRows cannot be copied or pickled: the copy would repeat their noise."
        )
