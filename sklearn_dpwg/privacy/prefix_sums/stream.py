"""Stream that takes vectors and gives noisy sums."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._checks import positive_finite
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.exceptions import PlanExceededError


class PrefixSumStream(ABC):
    """Noisy prefix sums of the vectors added so far; made by `PrefixSums.open`.

    Parameters
    ----------
    n_steps : int
        Largest number of vectors.
    n_dimensions : int
        Numbers in a vector.
    column_norm : float
        How far all noisy values move together if one vector moves by 1.
    sensitivity : float or None
        By how much one record moves one vector, or None if every step states its own.

    Attributes
    ----------
    n_added : int
        Vectors added so far.

    Notes
    -----
    Exact sums, and noise that is yet unused, are secrets: a stream cannot be copied or pickled.
    """

    def __init__(
        self, n_steps: int, n_dimensions: int, column_norm: float, sensitivity: float | None
    ) -> None:
        self.n_added = 0
        self._n_steps = n_steps
        self._shape = (n_dimensions,)
        self._column_norm = column_norm
        self._is_fixed = sensitivity is not None
        self._scale = 0.0 if sensitivity is None else column_norm * sensitivity

    def add(self, vector: ArrayLike, sensitivity: float | None = None) -> FloatArray:
        """Add a vector and return the noisy sum of all so far.

        Parameters
        ----------
        vector : array-like of shape (n_dimensions,)
            What to add, finite. It may depend on the noisy sums before it.
        sensitivity : float, optional
            By how much one record can move this vector in the L2 norm, if the stream was opened
            without one. It may follow from public facts and the noisy sums before. The noise never
            falls: a number below an earlier one counts as that one.

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
        ValueError
            If the vector or the sensitivity is out of range. Nothing is added then.
        """
        values = np.asarray(vector, dtype=np.float64)
        if values.shape != self._shape:
            raise ValueError(f"vector must have shape {self._shape}, got shape {values.shape}.")
        # one product sees NaN and infinity in less time than numpy.isfinite takes
        if not math.isfinite(values.dot(values)):
            raise ValueError("vector must be finite, got NaN, infinity or numbers near it.")
        if (sensitivity is None) != self._is_fixed:
            raise TypeError(
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
        raise TypeError(
            "A PrefixSumStream cannot be copied or pickled: it holds exact sums and unused noise."
        )
