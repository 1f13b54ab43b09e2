"""Public numbers of the phased solver: objective of each phase and how far a record moves it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from sklearn_dpwg._short_repr import short_repr
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.privacy import (
    SumGrid,
    hidden_group_sensitivities,
    saddle_point_sensitivities,
)
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.centring.problem import CentredProblem, in_words
from sklearn_dpwg.solvers.group_player import CORRECTION, heard, shown
from sklearn_dpwg.solvers.phased_erm.certificate import capped, certified, total_weight
from sklearn_dpwg.solvers.phased_erm.descent_bound import STRENGTHS, DescentBound
from sklearn_dpwg.solvers.sum_sensitivity import on_step, record_errors

# With a finite μ_λ a sensitivity takes a search, so it is computed at every so many strengths.
_STRIDE = 6


class Phase(NamedTuple):
    """Objective of one phase, the gap that it is solved to, and its sensitivity."""

    mu_weights: float  # regularisation μ_w
    mu_groups: float  # regularisation μ_λ
    tolerance: float  # gap that is reached on every data set
    sensitivity: float  # largest distance that one record moves what is found
    total_weight: float = 1.0  # bound on how often records count together, in units of their mean
    sizes: tuple[int, ...] = ()  # numbers of records, or what stands for them


@dataclass(frozen=True)
class PhasedERMSchedule:
    """Everything that a run of `PhasedERM` needs besides the records and the noise."""

    # whether every phase reads all records, or each a part of its own
    composition: Literal["sequential", "parallel"]
    sizes: tuple[tuple[int, ...], ...]  # for each phase, the records of each group that it reads
    solved: Problem  # with the smooth loss that the phases minimise
    smoothing_width: float  # of the smooth stand-in for a loss with kinks; 0 for a smooth loss
    prior: tuple[float, ...]  # group weights π of the first phase
    weights_multipliers: tuple[float, ...]  # for each phase, noise per unit of sensitivity
    risks_multiplier: float  # the same on the group risks; 0 where none are released
    mu_groups: tuple[float, ...]  # regularisation μ_λ of the group player in each phase
    averaged: int  # how many of the last phases are averaged
    # regularisation μ_w in each phase; None where the bound chooses it by the noise
    mu_weights: tuple[float, ...] | None = None
    bound: DescentBound | None = None
    ceiling: float = math.inf  # a record's loss counts for at most this much in the group risks
    feedback_range: float = 0.0  # a record moves the sum of its group's losses by at most this
    grid: SumGrid | None = None  # blocks and steps of these sums
    lowest_loss: float = 0.0  # infimum of the losses that the group risks count
    group_rate: float = 0.0  # step size η of the group weights between phases
    remark: str = ""

    __repr__ = short_repr

    @property
    def n_phases(self) -> int:
        """Number of phases T."""
        return len(self.sizes)

    def phase(self, index: int, prior: FloatArray) -> Phase:
        """Return a phase from public facts and its prior, which earlier releases led to."""
        sizes, mu_groups = self.sizes[index], self.mu_groups[index]
        if self.mu_weights is not None:
            mu_weights = self.mu_weights[index]
        else:
            assert self.bound is not None
            ratio = self.bound.strength_ratios[index]
            stds = noise_stds(
                self.solved,
                sizes,
                prior,
                mu_groups=mu_groups,
                multiplier=self.weights_multipliers[index],
                ratio=ratio,
            )
            # what the last phase's would be if all phases had this prior
            mu_weights = ratio * self.bound.best(stds * ratio).strength
        return solved_phase(self.solved, sizes, prior, mu_weights=mu_weights, mu_groups=mu_groups)

    @property
    def noise_correction(self) -> FloatArray:
        """What is subtracted from the exponents: half of log E exp(ηN) of the noise N."""
        stds = self.risks_multiplier * self.feedback_range / np.asarray(self.sizes[0])
        if self.solved.hidden is not None:
            stds = np.sqrt(heard(stds, stds**2, self.solved)[1])
        return np.asarray(CORRECTION * (self.group_rate * stds) ** 2 / 2.0)

    @property
    def center(self) -> float:
        """What losses are taken relative to in the group risks: 0 where groups are public."""
        if self.solved.hidden is None or self.grid is None:
            return 0.0
        lowest = self.lowest_loss
        return on_step(lowest + (self.ceiling - lowest) / 2.0, self.grid.loss_step)

    @property
    def _rise(self) -> float:
        """Regularisation of the last phase over that of the first, for the same group weights."""
        if self.mu_weights is not None:
            return self.mu_weights[-1] / self.mu_weights[0]
        assert self.bound is not None
        return 1.0 / self.bound.strength_ratios[0]

    def __str__(self) -> str:
        """Return a few lines for people."""
        records = "all records" if self.composition == "sequential" else "a part of its own"
        lines = [
            f"{self.n_phases} phase(s), each reads {records}; output is the average of the last "
            f"{self.averaged}"
        ]
        if isinstance(self.solved, CentredProblem):
            lines.append(in_words(self.solved.loss))
        first = self.phase(0, np.asarray(self.prior))
        std = self.weights_multipliers[0] * first.sensitivity
        lines.append(
            f"first phase: regularisation {first.mu_weights:.3g}, one record moves the weights by "
            f"at most {first.sensitivity:.3g}, noise {std:.3g}"
        )
        if self.n_phases > 1:
            lines.append(f"the last phase has {self._rise:.3g} times the first's regularisation")
        if self.composition == "parallel" and self.n_phases > 1:
            totals = ", ".join(f"{sum(sizes):,}" for sizes in self.sizes[:8])
            lines.append(f"records of the phases: {totals}{', ...' * (self.n_phases > 8)}")
        if len(self.prior) > 1:
            strength = "fixed within a phase"
            if self.mu_groups[0] < math.inf:
                strength = f"regularisation {self.mu_groups[0]:.3g} within a phase"
            lines.append(f"group weights start at {shown(self.prior)}, {strength}")
            if self.risks_multiplier > 0.0:
                lines.append(
                    f"between phases their rate is {self.group_rate:.3g}, losses counted up to "
                    f"{self.ceiling:.3g}"
                )
        if self.smoothing_width > 0.0:
            lines.append(f"kinks of the loss rounded off within {self.smoothing_width:.3g}")
        if self.remark:
            lines.append(self.remark)
        return "\n".join(lines)


def solved_phase(
    solved: Problem,
    sizes: Sequence[int],
    prior: FloatArray | Sequence[float],
    *,
    mu_weights: float,
    mu_groups: float,
) -> Phase:
    """Return a phase with the gap that it must certify and the sensitivity that follows.

    The gap is a public number that floating point can show on every data set. The sensitivity pays
    for the gap and for the rounding of its certificate.
    """
    exact = sensitivity(solved, sizes, prior, mu_weights=mu_weights, mu_groups=mu_groups)
    tolerance, paid = certified(
        solved, sizes, exact, mu_weights=mu_weights, mu_groups=mu_groups, prior=prior
    )
    total = total_weight(solved, sizes, mu_groups, prior)
    return Phase(
        mu_weights, mu_groups, float(tolerance), float(capped(solved, paid)), total, tuple(sizes)
    )


def sensitivity(
    solved: Problem,
    sizes: Sequence[int],
    prior: FloatArray | Sequence[float],
    *,
    mu_weights: float,
    mu_groups: float,
) -> float:
    """Return how far replacing one record moves the exact minimiser of a phase."""
    at = [mu_weights]
    return float(sensitivities(solved, sizes, prior, mu_weights=at, mu_groups=mu_groups)[0])


def sensitivities(
    solved: Problem,
    sizes: Sequence[int],
    prior: FloatArray | Sequence[float],
    *,
    mu_weights: Sequence[float] | FloatArray,
    mu_groups: float,
) -> FloatArray:
    """Return the same at several strengths."""
    of_gradient, of_loss = record_errors(solved, solved.constants.supremum)
    if solved.hidden is not None:
        return hidden_group_sensitivities(
            normalisers=sizes,
            lipschitz=solved.lipschitz + of_gradient,
            gradient_diameter=solved.gradient_diameter + 2.0 * of_gradient,
            loss_range=solved.loss_range + 2.0 * of_loss,
            strong_convexities=mu_weights,
            entropy_weight=mu_groups,
            prior=prior,
        )
    return saddle_point_sensitivities(
        group_sizes=sizes,
        lipschitz=solved.lipschitz + of_gradient,
        gradient_diameter=solved.gradient_diameter + 2.0 * of_gradient,
        loss_range=solved.loss_range + 2.0 * of_loss,
        strong_convexities=mu_weights,
        entropy_weight=mu_groups,
        prior=prior,
    )


def noise_stds(
    solved: Problem,
    sizes: Sequence[int],
    prior: FloatArray | Sequence[float],
    *,
    mu_groups: float,
    multiplier: float,
    ratio: float = 1.0,
) -> FloatArray:
    """Return the noise of a phase at each of `STRENGTHS` times its ratio to the last one's."""
    strengths = ratio * STRENGTHS
    if mu_groups == math.inf:
        # inversely proportional to the strength
        at_one = sensitivities(solved, sizes, prior, mu_weights=[1.0], mu_groups=mu_groups)
        exact = at_one / strengths
    else:
        some = strengths[::_STRIDE]
        found = sensitivities(solved, sizes, prior, mu_weights=some, mu_groups=mu_groups)
        exact = np.exp(np.interp(np.log(strengths), np.log(some), np.log(found)))
    _, paid = certified(
        solved, sizes, exact, mu_weights=strengths, mu_groups=mu_groups, prior=prior
    )
    return np.asarray(multiplier * paid)
