"""A model among others, by what it costs in privacy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class UtilityPoint:
    """A model: its ε, and how its worst group fares.

    Parameters
    ----------
    name : str
        Name of the model; models of one name are of one kind.
    epsilon : float
        ε of the model.
    value : float
        Metric of its worst group.
    low, high : float
        Limits of that metric.
    """

    name: str
    epsilon: float
    value: float
    low: float
    high: float
