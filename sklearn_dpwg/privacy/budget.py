"""The budget of one fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sklearn_dpwg.privacy._checks import open_unit, real_number
from sklearn_dpwg.privacy.gaussian import gdp_mu


@dataclass(frozen=True)
class Budget:
    """An (ε, δ) budget: how much one record may show in everything that is released.

    Parameters
    ----------
    epsilon : float
        ε, positive; infinity stands for no privacy at all.
    delta : float
        δ, strictly between 0 and 1; should be far below one over the number of records.

    Raises
    ------
    ValueError
        If a parameter is out of range or NaN.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import Budget
    >>> round(Budget(epsilon=1.0, delta=1e-6).mu, 4)
    0.2367
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = real_number(self.epsilon, "epsilon")
        if epsilon <= 0.0:
            raise ValueError(
                f"epsilon must be positive (infinity means no privacy), got {epsilon!r}."
            )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", open_unit(self.delta, "delta"))

    @cached_property
    def mu(self) -> float:
        """Largest Gaussian-DP parameter within the budget, rounded down; infinite with ε."""
        return gdp_mu(self.epsilon, self.delta)
