"""The record of one draw of noise."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_dpwg.privacy.release import Release


@dataclass(frozen=True)
class Draw:
    """One noisy value that was released.

    Parameters
    ----------
    release : Release
        The release of the plan that it was counted against.
    shape : tuple of int
        Shape of the value; empty for a scalar.
    """

    release: Release
    shape: tuple[int, ...]
