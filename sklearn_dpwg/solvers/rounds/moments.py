"""Regression for the worst-off group from noisy second moments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import FloatArray, Rules, at_least_zero, positive, whole
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource, Release, calibrate
from sklearn_dpwg.privacy.sensitivity.sums import moment_sensitivity
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.rounds.noisy_moments import (
    MomentsSchedule,
    mixed_optimum,
    robust_optimum,
    shrunk,
)
from sklearn_dpwg.solvers.rounds.releases import (
    MOMENTS,
    release_moments,
)
from sklearn_dpwg.solvers.solver import Solution, Solver
from sklearn_dpwg.solvers.steps import GainOfGroups

RULES = Rules(
    "Moments",
    n_rounds=whole(1, 20),
    growth=positive(),
    clip=positive(),
    aim=positive(),
    ridge=at_least_zero(),
    smoothing=at_least_zero(),
)


# Entries of a record's vector beside its row of norm 1: the constant, and the largest residual.
# With the latter √(1 + constant²) residuals have the least noise; both are exact in binary, and
# constants from a half to 1 do equally well (benchmarks/moments.py constant).
CONSTANT, LENGTH = 0.75, 1.25

# What the sensitivity is larger by to pay for rounding.
ROUNDING = 5e-3

# Records of a group up to which both parts of its sums are exact (docs/theory/sums.md).
LARGEST_GROUP = 2**38

# What planning assumes that residuals, and weights from those of the round before, are in the last
# of several rounds, over the target bound and the aim.
LEFT_BY_ROUNDS = 0.5


def _schedule(
    problem: Problem, parameters: Moments, multipliers: Sequence[float]
) -> MomentsSchedule:
    """Return a schedule with the noise multiplier of each round."""
    assert isinstance(problem.loss, SquaredError)
    has_constant = problem.intercept_scaling > 0.0
    constant, length = (CONSTANT, LENGTH) if has_constant else (0.0, 1.0)
    norm = math.sqrt(1.0 + constant**2 + length**2)
    _check_rounding(problem, norm)
    return MomentsSchedule(
        multipliers=tuple(multipliers),
        sensitivity=(1.0 + ROUNDING) * moment_sensitivity(norm) * problem.group_moves,
        constant=constant,
        length=length,
        target_bound=problem.loss.target_bound,
        clip=float(parameters.clip),
        ridge=float(parameters.ridge),
        smoothing=float(parameters.smoothing),
    )


def _check_rounding(problem: Problem, norm: float) -> None:
    """Refuse groups so large that rounding their sums, and their products with √2, would show."""
    # a record that changes its group moves the rounding of two sums
    n_sums, largest = 1 if problem.hidden is None else 2, problem.most_in_a_group
    rounding = n_sums * largest * norm**2 * 2.0**-50
    if rounding > ROUNDING / 5.0 * norm**2 or largest > LARGEST_GROUP:
        raise InputError(
            f"solver 'moments' cannot add up {largest:,} records of a group with "
            f"{problem.n_weights:,} weights exactly: choose 'mgr', or split the group."
        )


def excess_bound_by_group(problem: Problem, schedule: MomentsSchedule, *, aim: float) -> FloatArray:
    """Return the planning bound on the excess risk for each group as the worst-off one.

    It is ``a √g_i + √(2 log p) (h_i + Σ_j π_j h_j)`` with a the norm `aim` of the weights, and of
    what they miss the optimum by, the variance g_i of the gradient and the standard deviation h_i
    of the risk that the last round's noise adds to group i; at most what predicting nothing costs.

    docs/theory/moments.md, section 4, derives it. That the last of several rounds has a vector half
    as long, as it is about residuals, is an assumption.
    """
    sizes = problem.sizes_to_plan_for
    stds = schedule.sensitivity * schedule.multipliers[-1] / sizes
    ratio = 1.0
    if schedule.constant > 0.0:
        ratio = max(1.0, problem.intercept_scaling / schedule.constant)
    target = schedule.target_bound / schedule.length
    square = (aim * ratio) ** 2 + target**2
    if schedule.n_rounds > 1:
        square *= LEFT_BY_ROUNDS**2
    bound = aim * ratio * stds * math.sqrt(square * (problem.n_columns + 1) / 2.0)
    if problem.n_groups > 1:
        levels = stds * square / 2.0
        spread = levels + float(np.asarray(problem.prior) @ levels)
        bound = bound + math.sqrt(2.0 * math.log(problem.n_groups)) * spread
    return np.asarray(np.minimum(bound, problem.constants.zero_score))


# Residuals are never clipped to less than this share of the target bound.
LEAST_CLIP = 0.05


def _reach(schedule: MomentsSchedule, std: float, mean_square: float) -> float:
    """Return how large residuals of a mean square may count, beside noise so loud."""
    # noise is about this large beside what is clipped, in groups of average loudness
    quiet = max(1.0, -math.log(min(1.0, std)))
    return max(schedule.clip, math.sqrt(quiet)) * math.sqrt(max(mean_square, 0.0))


# Moments have an entry for each pair of weights, and noise on each takes 20 μs.
MOST_WEIGHTS_OF_MOMENTS = 200


@dataclass(eq=False, repr=False)
class Moments(Solver):
    """Noisy second moments of every group, and the exact minimax optimum of what they show.

    For the squared error a group's risk is a quadratic function of the weights, whose coefficients
    are means of products of features and target. A round releases them for all groups with
    Gaussian noise, once: everything else is computed from that. Groups are disjoint, so that each
    has the whole budget. A later round does the same with the residuals of the weights found
    so far, clipped to a few times their root mean square, so that their noise is smaller in
    proportion; or with the targets again, where residuals are no smaller.

    Parameters
    ----------
    n_rounds : int, default=3
        Number of rounds, from 1 to 20.
    growth : float, default=2.0
        Share of the budget (of μ²) of each round over that of the one before.
    clip : float, default=2.0
        Least bound on residuals over their root mean square, after the first round. It grows with
        the root of the logarithm of how quiet the noise is.
    ridge : float, default=0.25
        Regularisation of the weights, over the norm of the noise of all groups' Hessian together.
    smoothing : float, default=3.0
        How unwilling the largest group risk is to rest on one group alone, over about what noise
        costs where it does.
    aim : float, default=0.3
        Norm of the weights that the planning bound is for, as a share of the radius, of 20 at
        most; nothing else depends on it.

    Notes
    -----
    Groups with few records have loud moments. Theirs are pulled towards those of all groups as
    far as noise explains the difference (James and Stein), and the smoothed maximum spreads what is
    left. `docs/theory/moments.md` proves the privacy, and says what of the bound is a model;
    ``benchmarks/moments.py`` prints why the defaults are what they are. Noise does not depend on
    the radius. `group_weights` are those of the released quadratics' solution.

    References
    ----------
    D. Vu and A. Slavkovic (2009), Differential Privacy for Clinical Trial Data: noise on sufficient
    statistics. Y.-X. Wang (2018), Revisiting differentially private linear regression,
    arXiv:1803.02596: a ridge that follows the noise. The rounds and the groups are ours.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import Moments
    >>> Moments(n_rounds=2)
    Moments(n_rounds=2)
    """

    n_rounds: int = 3
    _: KW_ONLY
    growth: float = 2.0
    clip: float = 2.0
    ridge: float = 0.25
    smoothing: float = 3.0
    aim: float = 0.3

    name: ClassVar[str] = "moments"
    uses_start: ClassVar[bool] = False
    knows_overlap: ClassVar[bool] = True

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _check_hidden_groups(self) -> None:
        """Accept: all of it is proved for hidden groups too."""

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if not isinstance(problem.loss, SquaredError):
            raise InputError(
                f"solver {self.name!r} is for loss 'squared_error' alone, whose risks are "
                f"quadratic, got {problem.loss!r}."
            )
        shares = float(self.growth) ** np.arange(self.n_rounds)
        shares = shares / shares.sum()
        wanted = [Release(MOMENTS, "gaussian", 1.0 / math.sqrt(share), 1) for share in shares]
        releases = calibrate(wanted, budget)
        schedule = _schedule(problem, self, [release.noise_multiplier for release in releases])
        return Plan.of(
            self.name,
            problem,
            budget,
            releases=releases,
            schedule=schedule,
            bounds=excess_bound_by_group(problem, schedule, aim=self.aim * problem.reach),
            n_steps=self.n_rounds,
        )

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        assert isinstance(schedule, MomentsSchedule)
        sizes = np.asarray(problem.group_sizes, dtype=float)
        n_columns = problem.n_columns + 1
        weights, group_weights = np.zeros(problem.n_weights), np.asarray(problem.prior)
        center, clip = weights, schedule.target_bound
        mean = np.zeros((problem.n_groups, n_columns, n_columns))
        precision = np.zeros((n_columns, n_columns))
        for release in plan.releases:
            moments = release_moments(plan, release, data, center, clip, noise)
            # products of rows are the same in all rounds, those with residuals where the centre is
            share = release.noise_multiplier**-2
            mean = (precision * mean + share * moments) / (precision + share)
            precision += share
            stds = schedule.sensitivity / np.sqrt(precision[-1, -1]) / sizes
            stds_of_rows = schedule.sensitivity / np.sqrt(precision[0, 0]) / sizes
            heard, stds, stds_of_rows = _heard(mean, stds, stds_of_rows, problem)
            weights, group_weights, mean_square, gain = _learned(
                heard,
                stds,
                stds_of_rows,
                problem,
                schedule,
                center=center,
                clip=clip,
            )
            reach = _reach(schedule, float(stds.mean()), mean_square)
            if reach < schedule.target_bound:
                center, clip = weights, max(reach, LEAST_CLIP * schedule.target_bound)
                precision[-1, :] = precision[:, -1] = 0.0
            elif center.any():
                # residuals that are no shorter than the targets are no better to know
                center, clip = np.zeros_like(weights), schedule.target_bound
                precision[-1, :] = precision[:, -1] = 0.0
        return Solution(weights, group_weights, schedule.n_rounds, **gain.released)


def _units(problem: Problem, schedule: MomentsSchedule, clip: float) -> FloatArray:
    """Return what columns of the release are multiplied by to be in the units of the weights."""
    units = np.ones(problem.n_columns + 1)
    units[-1] = clip / schedule.length
    if schedule.constant > 0.0:
        units[-2] = problem.intercept_scaling / schedule.constant
    return units


def _heard(
    moments: FloatArray, stds: FloatArray, stds_of_rows: FloatArray, problem: Problem
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return moments and deviations, those of the mean for hidden groups that may be empty."""
    is_heard = problem.is_heard
    if is_heard.all():
        return moments, stds, stds_of_rows
    shares = np.asarray(problem.group_sizes, dtype=float) * (is_heard if is_heard.any() else 1.0)
    shares = shares / shares.sum()
    mean = np.tensordot(shares, moments, 1)
    return (
        np.where(is_heard[:, None, None], moments, mean),
        np.where(is_heard, stds, np.linalg.norm(shares * stds)),
        np.where(is_heard, stds_of_rows, np.linalg.norm(shares * stds_of_rows)),
    )


def _learned(
    moments: FloatArray,
    stds: FloatArray,
    stds_of_rows: FloatArray,
    problem: Problem,
    schedule: MomentsSchedule,
    *,
    center: FloatArray,
    clip: float,
) -> tuple[FloatArray, FloatArray, float, GainOfGroups]:
    """Return weights, mixture, the mean square of the residuals, and the gain of groups."""
    sizes = np.asarray(problem.group_sizes, dtype=float)
    shares = sizes / sizes.sum()
    of_rows = np.zeros(moments.shape[1:], dtype=bool)
    of_rows[:-1, :-1] = True
    # the square of the constant is no release
    free = np.ones_like(of_rows)
    if schedule.constant > 0.0:
        free[-2, -2] = False
    released = moments
    moments = shrunk(moments, stds_of_rows, of_rows & free)
    moments = shrunk(moments, stds, ~of_rows)
    units = _units(problem, schedule, clip)
    pooled = 1.0 / math.sqrt(float((stds_of_rows**-2).sum()))
    weights, group_weights = robust_optimum(
        moments,
        units,
        center=center,
        mean_noise=float((stds**2).mean()),
        pooled_noise=pooled,
        ridge=schedule.ridge,
        smoothing=schedule.smoothing,
        shares=shares,
        radius=problem.radius,
    )

    def squares(weights: FloatArray, moments: FloatArray) -> tuple[FloatArray, float]:
        along = np.append(center - weights, 1.0) * units
        return (moments @ along) @ along, float(along @ along)

    def mixed(mixture: FloatArray) -> FloatArray:
        facts = {"center": center, "stds": stds_of_rows}
        return mixed_optimum(
            moments, units, mixture, **facts, ridge=schedule.ridge, radius=problem.radius
        )

    mean_square = float(shares @ squares(weights, moments)[0])
    prior = np.asarray(problem.prior)
    nothing = float(prior @ squares(np.zeros_like(weights), released)[0]) / 2.0
    gain = GainOfGroups(problem, risk_of_nothing=nothing)
    found, length = squares(mixed(prior), released)
    gain.push(found / 2.0, (stds * length / 2.0) ** 2)
    if gain.share < 1.0:
        group_weights = gain.played(group_weights)
        weights = mixed(group_weights)
    return weights, group_weights, mean_square, gain
