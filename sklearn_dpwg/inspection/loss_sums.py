"""Sums of a clipped loss in every group, as they were released."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LossSums:
    """What was released of a loss: its mean follows.

    Parameters
    ----------
    name : str
        The loss.
    bound : float
        The losses are clipped to the interval from 0 to this.
    sums : tuple of float
        For each group the sum of what the clipped losses are above half the bound.
    squares : tuple of float
        For each group the sum of what the squares of these are above an eighth of the squared
        bound.
    sum_noise_std, square_noise_std : float
        Standard deviations of the noise in each; 0 without privacy.
    """

    name: str
    bound: float
    sums: tuple[float, ...]
    squares: tuple[float, ...]
    sum_noise_std: float = 0.0
    square_noise_std: float = 0.0
