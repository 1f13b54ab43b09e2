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
    The guarantee of whoever learns from an oracle is about records that are drawn *once*, in an
    order that no record decides. Both are up to the oracle; `check_sample_oracle` attacks them:

    - No record is given twice, in one draw or in two. One that was given k times pays k times.
    - The records of a group come in one order. Positions, public keys and independent coins may
      decide it; what a record holds may not, not even for its own place.
    - Neither the sizes of draws nor draws of other groups change that order.
    - A record is given as it is: nothing in it is computed from other records.
    - What is not there is an error, never fewer records, and its text tells no value.

    Records that are made on demand, as by a simulator, have no order: there it is enough that each
    is made once and independently.
    """

    @abstractmethod
    def draw(self, group: Hashable, size: int) -> tuple[Any, ArrayLike]:
        """Return records of one group that were never given before.

        Parameters
        ----------
        group : hashable
            Label of the group.
        size : int
            Number of records, at least 1.

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
