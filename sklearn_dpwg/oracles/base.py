"""The contract of every sample oracle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any

from numpy.typing import ArrayLike


class SampleOracle(ABC):
    """Gives fresh records of a group on demand.

    Notes
    -----
    The guarantee of whoever learns from an oracle is about records that are drawn *once*. Two
    things are up to the oracle, and nobody can check them from outside:

    - No record is given twice, in one draw or in two. One that was given k times pays k times.
    - Which record is given, and when, does not depend on what other records hold: positions,
      public keys and independent coins may decide, values may not.
    """

    @abstractmethod
    def draw(self, group: Hashable, size: int) -> tuple[Any, ArrayLike]:
        """Return records of one group that were never given before.

        Parameters
        ----------
        group : hashable
            Label of the group.
        size : int
            How many, at least 1.

        Returns
        -------
        X : array-like of shape (size, n_features)
            Rows.
        y : array-like of shape (size,)
            Targets.

        Raises
        ------
        OracleError
            If there are not as many left; any other error will do too.
        """
