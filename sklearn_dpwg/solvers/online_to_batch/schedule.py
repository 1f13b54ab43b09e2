"""Public numbers of the online-to-batch solver."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sklearn_dpwg._short_repr import short_repr
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.solvers.group_player import shown
from sklearn_dpwg.solvers.online_to_batch.sensitivity import DifferenceSensitivity, round_weights


@dataclass(frozen=True)
class Regulariser:
    """What a parameter-free learner's losses have on top: ξ_t‖w - w_1‖ + ν_t‖w - w_1‖².

    With rounds worth b records of the mixture, ξ_t = L t^{k-1/2}/√b + √d s_t, s_t the noise
    of a coordinate of the sum, and ν_t = H t^{k-1/2}/√b: what sampling and noise add to gradients.
    """

    lipschitz: float  # L
    smoothness: float  # H
    batch_size: float  # b

    def of_round(self, step: int, power: float, noise_norm: float) -> tuple[float, float]:
        """Return ξ_t and ν_t."""
        sampled = float(step) ** (power - 0.5) / math.sqrt(self.batch_size)
        return self.lipschitz * sampled + noise_norm, self.smoothness * sampled

    def of_rounds(
        self, n_rounds: int, power: float, noise_norms: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ξ_1, … and ν_1, …."""
        sampled = round_weights(n_rounds, power - 0.5) / math.sqrt(self.batch_size)
        return self.lipschitz * sampled + noise_norms, self.smoothness * sampled


@dataclass(frozen=True)
class OnlineToBatchSchedule:
    """Everything that a game needs besides the records and the noise."""

    n_rounds: int  # rounds that read records; one more set of weights follows from the last
    power: float  # k: round t counts in the averages by t^k
    noise: str  # name of the prefix-sum mechanism
    multiplier: float  # noise per unit of sensitivity on the sums
    sensitivity: DifferenceSensitivity
    mixture: tuple[float, ...]  # weights of the groups in the risk that is minimised
    # records of each group in a round, on average; sums are divided by it
    rates: tuple[float, ...]
    strength: float  # of the learner
    convexity: float  # μ_c: the risk has μ_c/2 ‖w - w_1‖² on top
    regulariser: Regulariser | None  # of a parameter-free learner
    # constant L + H‖w_i - x_{i-1}‖ and factor of the paper's sensitivity; 0 for the exact one
    papers_factor: float
    lipschitz: float  # L of the loss in the weights
    worst_std: float  # deviation of the noisiest sum, per unit of noise and sensitivity
    remark: str = ""

    __repr__ = short_repr

    def papers_sensitivity(self, step: int, farthest: float) -> float:
        """Return what the paper's formula for the noise takes for the sensitivity of a record."""
        reach = self.lipschitz + self.sensitivity.smoothness * farthest
        return self.papers_factor * reach * float(step) ** (self.power - 1.0)

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = [
            f"{self.n_rounds:,} rounds, each of {sum(self.rates):,.4g} fresh records, read once; "
            f"round t counts by t^{self.power:g} in the output",
            f"{self.noise} noise on sums of gradient differences, at most {self.worst_std:.3g} "
            f"times that of one release; a record moves a difference by what its gradient can "
            f"change, not by its gradient",
        ]
        if len(self.mixture) > 1:
            lines.append(
                f"minimises the risk of the fixed mixture {shown(self.mixture)}, not that of the "
                f"worst group: the bound is for groups with the same best weights"
            )
        if self.convexity:
            lines.append(
                f"the risk has {self.convexity:.3g}/2 times the squared distance from the start "
                f"on top"
            )
        if self.remark:
            lines.append(self.remark)
        return "\n".join(lines)
