"""Public numbers of the phased solver: what each phase minimises and how far a record moves it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.saddle_point import attainable_gap
from sklearn_dpwg.privacy import saddle_point_sensitivity
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.phased_erm.descent_bound import STRENGTHS, DescentBound

# The certified distance to the exact solution may add this share to a sensitivity, where floating
# point can show so small a gap.
SLACK = 0.01

# With a finite μ_λ a sensitivity takes a search, so it is computed at every so many strengths.
_STRIDE = 6


class Phase(NamedTuple):
    """What one phase minimises, to which gap, and how far one record moves its minimiser.

    Parameters
    ----------
    mu_weights : float
        Regularisation μ_w.
    mu_groups : float
        Regularisation μ_λ.
    tolerance : float
        Gap that is reached on every data set.
    sensitivity : float
        Largest distance that one record moves what is found.
    """

    mu_weights: float
    mu_groups: float
    tolerance: float
    sensitivity: float


@dataclass(frozen=True)
class PhasedERMSchedule:
    """Everything that `PhasedERM.run` needs besides the records and the noise.

    Parameters
    ----------
    composition : {"sequential", "parallel"}
        Whether every phase reads all records, or each a part of its own.
    sizes : tuple of tuple of int
        For each phase, how many records of each group it reads.
    solved : Problem
        The problem with the smooth loss that the phases minimise.
    smoothing_width : float
        Width of the smooth stand-in for a loss with kinks; 0 for a loss that is smooth.
    prior : tuple of float
        Group weights π of the first phase.
    weights_multipliers : tuple of float
        For each phase, noise per unit of sensitivity on its weights.
    risks_multiplier : float
        The same on the group risks; 0 where none are released.
    mu_groups : tuple of float
        Regularisation μ_λ of the group player in each phase.
    averaged : int
        How many of the last phases are averaged.
    mu_weights : tuple of float, optional
        Regularisation μ_w in each phase; None where `bound` chooses it by the noise.
    bound : DescentBound, optional
        Bound that the regularisation of the weights minimises.
    ceiling : float, default=inf
        A record's loss counts for at most this much in the group risks.
    feedback_range : float, default=0
        A record of group i moves its group's risk by at most this over n_i.
    group_rate : float, default=0
        Step size η of the group weights between phases.
    remark : str, default=""
        What else a reader of the plan should know.
    """

    composition: Literal["sequential", "parallel"]
    sizes: tuple[tuple[int, ...], ...]
    solved: Problem
    smoothing_width: float
    prior: tuple[float, ...]
    weights_multipliers: tuple[float, ...]
    risks_multiplier: float
    mu_groups: tuple[float, ...]
    averaged: int
    mu_weights: tuple[float, ...] | None = None
    bound: DescentBound | None = None
    ceiling: float = math.inf
    feedback_range: float = 0.0
    group_rate: float = 0.0
    remark: str = ""

    @property
    def n_phases(self) -> int:
        """Number of phases T."""
        return len(self.sizes)

    def phase(self, index: int, prior: FloatArray) -> Phase:
        """Return what a phase minimises, given the group weights that earlier releases led to.

        Parameters
        ----------
        index : int
            Index of the phase, from 0.
        prior : ndarray of shape (n_groups,)
            Its prior over groups, a function of public facts and earlier releases.

        Returns
        -------
        Phase
            A function of public facts and the prior.
        """
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
            stds = stds * ratio / self.bound.noise_ratios[index]
            mu_weights = ratio * self.bound.best(stds).strength
        return solved_phase(self.solved, sizes, prior, mu_weights=mu_weights, mu_groups=mu_groups)

    def noise_correction(self, index: int) -> FloatArray:
        """Return what is subtracted from each group's exponent before a phase.

        Parameters
        ----------
        index : int
            Index of the phase, from 0.

        Returns
        -------
        ndarray of shape (n_groups,)
            log E exp(ηN) of the noise N on the group's risk, so that noise alone does not raise a
            group's expected weight.
        """
        stds = self.risks_multiplier * self.feedback_range / np.asarray(self.sizes[index])
        return np.asarray((self.group_rate * stds) ** 2 / 2.0)

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
            shown = ", ".join(f"{weight:.2g}" for weight in self.prior[:6])
            shown += ", ..." * (len(self.prior) > 6)
            strength = "fixed within a phase"
            if self.mu_groups[0] < math.inf:
                strength = f"regularisation {self.mu_groups[0]:.3g} within a phase"
            lines.append(f"group weights start at ({shown}), {strength}")
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

    Parameters
    ----------
    solved : Problem
        The problem with a smooth loss.
    sizes : sequence of int
        Records of each group that the phase reads.
    prior : ndarray of shape (n_groups,)
        Prior over groups.
    mu_weights, mu_groups : float
        Regularisation of the two players; an infinite μ_λ fixes the group weights.

    Returns
    -------
    Phase
        Its tolerance is a public number that floating point can show on every data set.
    """
    exact = sensitivity(solved, sizes, prior, mu_weights=mu_weights, mu_groups=mu_groups)
    # a gap α is two distances √(2α/μ_w)
    wanted = mu_weights * (SLACK * exact / 2.0) ** 2 / 2.0
    tolerance = max(
        wanted,
        attainable_gap(
            solved.radius, solved.lipschitz, mu_weights, solved.radius, mu_groups=mu_groups
        ),
    )
    with_slack = sensitivity(
        solved, sizes, prior, mu_weights=mu_weights, mu_groups=mu_groups, slack=tolerance
    )
    return Phase(mu_weights, mu_groups, tolerance, with_slack)


def sensitivity(
    solved: Problem,
    sizes: Sequence[int],
    prior: FloatArray | Sequence[float],
    *,
    mu_weights: float,
    mu_groups: float,
    slack: float = 0.0,
) -> float:
    """Return how far one record moves the minimiser of a phase.

    Parameters
    ----------
    solved : Problem
        The problem with a smooth loss.
    sizes : sequence of int
        Records of each group that the phase reads.
    prior : ndarray of shape (n_groups,)
        Prior over groups.
    mu_weights, mu_groups : float
        Regularisation of the two players.
    slack : float, default=0
        Certified gap of the minimiser.

    Returns
    -------
    float
        L2 sensitivity to replacing one record of one group.
    """
    return saddle_point_sensitivity(
        group_sizes=sizes,
        lipschitz=solved.lipschitz,
        gradient_diameter=solved.gradient_diameter,
        loss_range=solved.loss_range,
        strong_convexity=mu_weights,
        entropy_weight=mu_groups,
        prior=[float(weight) for weight in prior],
        solver_slack=slack,
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
    """Return the noise of a phase for every strength that a plan may choose.

    Parameters
    ----------
    solved : Problem
        The problem with a smooth loss.
    sizes : sequence of int
        Records of each group that the phase reads.
    prior : ndarray of shape (n_groups,)
        Prior over groups.
    mu_groups : float
        Regularisation of the group player.
    multiplier : float
        Noise per unit of sensitivity.
    ratio : float, default=1
        Strength of this phase over that of the last one.

    Returns
    -------
    ndarray of shape (n_strengths,)
        Standard deviations at the strengths of `STRENGTHS` times `ratio`.
    """
    if mu_groups == math.inf:
        # inversely proportional to the strength
        at_one = sensitivity(solved, sizes, prior, mu_weights=1.0, mu_groups=mu_groups)
        return np.asarray(multiplier * (1.0 + SLACK) * at_one / (ratio * STRENGTHS))
    some = STRENGTHS[::_STRIDE]
    found = [
        sensitivity(solved, sizes, prior, mu_weights=ratio * strength, mu_groups=mu_groups)
        for strength in some
    ]
    between = np.interp(np.log(STRENGTHS), np.log(some), np.log(found))
    return np.asarray(multiplier * (1.0 + SLACK) * np.exp(between))
