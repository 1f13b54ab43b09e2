"""Public numbers of the online solver, and the rule by which its strength follows the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sklearn_dpwg._short_repr import short_repr
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.solvers.group_player import shown

# The plan's step is at most this over H: gradient descent on a loss of curvature H is stable up to
# there, and may swing for ever beyond.
LONGEST_STEP = 2.0


@dataclass(frozen=True)
class StrengthRule:
    """Strength of the weights player's regularisation, given the noise of its sums.

    With a step size η = 1/strength the weights reach a bound of ``a²/(2 η T)``, and noise of
    standard deviation s on every coordinate of a sum costs ``H q (η s)²/2`` for a smooth loss and
    ``L √q η s`` for any, with q the share of the variance that averages keep. The rule takes the η
    that makes the total least.
    """

    n_rounds: int  # T
    aim: float  # norm a of the weights that are aimed at
    smoothness: float  # H of the loss in the weights, times the outputs; may be infinite
    lipschitz: float  # constant L of the loss in the weights
    fixed: float | None = None  # a strength that does not follow the noise

    # what is left of the variance of the last sum's noise in the averaged weights: 0.28 to 0.38
    # for the square-root Toeplitz mechanism with 8 to 1024 rounds
    # (tests/solvers/oco/test_planning.py)
    averaged_variance = 0.35

    def strength(self, noise_std: float) -> float:
        """Return the strength γ for the deviation of a coordinate of the noisiest sum."""
        if self.fixed is not None:
            return self.fixed
        variance = self.averaged_variance * noise_std**2
        general = self.n_rounds * (self.lipschitz**2 + 2.0 * self.lipschitz * math.sqrt(variance))
        if math.isinf(self.smoothness):
            return math.sqrt(general) / self.aim
        curved = (2.0 * self.n_rounds * variance * self.smoothness / self.aim**2) ** (1.0 / 3.0)
        return max(curved, self.smoothness / LONGEST_STEP)

    def bounds(self, noise_stds: FloatArray, n_rounds: FloatArray) -> FloatArray:
        """Return the weights' part of planning bounds, each where so many rounds are played."""
        # groups of one size have one bound
        distinct, which = np.unique(noise_stds, return_inverse=True)
        step = (1.0 / np.array([self.strength(float(std)) for std in distinct]))[which]
        moved = step * noise_stds * math.sqrt(self.averaged_variance)
        noise = self.lipschitz * moved
        plain = 0.5 * step * self.lipschitz**2
        if not math.isinf(self.smoothness):
            noise, plain = np.minimum(noise, 0.5 * self.smoothness * moved**2), 0.0 * plain
        return np.asarray(self.aim**2 / (2.0 * step * n_rounds) + noise + plain)


@dataclass(frozen=True)
class OCOSchedule:
    """Everything that a game needs besides the records and the noise."""

    # whether a round takes records of every group, or of one group drawn from the group weights
    play: Literal["weighted", "sampled"]
    n_rounds: int  # at most
    noise: str  # name of the prefix-sum mechanism
    gradient_multiplier: float  # noise per unit of sensitivity on the sums
    feedback_multiplier: float  # the same on the losses; 0 where none are released
    gradient_diameter: float  # Γ, by which a record moves its own gradient at most, and rounding
    ceiling: float  # a record's loss counts for at most this in the feedback,
    infimum: float  # and what exceeds this
    # by how much one record moves the sum of losses that the group player is told: ceiling minus
    # infimum, and rounding
    feedback_range: float
    prior: tuple[float, ...]  # first group weights
    # records of each group that the weights player reads in a round, on average; the gradients of
    # a round are summed and divided by it
    weight_rates: tuple[float, ...]
    feedback_rates: tuple[float, ...]  # the same for the group player
    group_rate: float  # step size η of the group player
    # U of a sampled game, whose group player is told U minus the noisy loss, clipped to [0, 2U]
    feedback_bound: float
    noise_correction: tuple[float, ...]  # of a weighted game: log E exp(η N) of each loss's noise N
    strength_rule: StrengthRule
    averaging: float  # round t counts in the averages in proportion to t to this power
    worst_std: float  # deviation of the noisiest sum, per unit of noise and sensitivity
    remark: str = ""

    __repr__ = short_repr

    def __str__(self) -> str:
        """Return a few lines for people."""
        one_group = len(self.prior) == 1
        weighted = self.play == "weighted"
        own = sum(self.weight_rates) if weighted else self.weight_rates[0]
        other = sum(self.feedback_rates) if weighted else self.feedback_rates[0]
        whose = "all groups" if weighted else "one group, drawn from the group weights"
        lines = [
            f"up to {self.n_rounds:,} rounds, each of {own:,.4g} fresh records for the weights"
            + ("" if one_group else f" and {other:,.4g} for the group weights, of {whose}")
        ]
        lines.append(
            f"{self.noise} noise on gradient sums, at most {self.worst_std:.3g} times that of one "
            f"release; round t counts by t^{self.averaging:g} in the averages"
        )
        if not one_group:
            lines.append(
                f"group weights start at {shown(self.prior)}, rate {self.group_rate:.3g}, "
                f"losses counted up to {self.ceiling:.3g}"
            )
        if self.remark:
            lines.append(self.remark)
        return "\n".join(lines)
