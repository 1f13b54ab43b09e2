"""Regression for the worst-off group from noisy second moments."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks
from sklearn_dpwg.solvers.mixture import Calls, MixturePlan, MixtureSolver
from sklearn_dpwg.solvers.moments import mixture, releases
from sklearn_dpwg.solvers.moments.noisy_moments import robust_optimum, shrunk
from sklearn_dpwg.solvers.moments.parameters import RULES, MomentsParameters
from sklearn_dpwg.solvers.moments.planning import plan_of_rounds
from sklearn_dpwg.solvers.moments.schedule import MomentsSchedule
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution

# Moments have an entry for each pair of weights, and noise on each takes 20 μs.
MOST_WEIGHTS_OF_MOMENTS = 200


class Moments(MomentsParameters, MixtureSolver):
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
        Norm of the weights that the planning bound is for, as a share of the radius; nothing else
        depends on it.

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

    name: ClassVar[str] = "moments"
    uses_start: ClassVar[bool] = False

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _check_hidden_groups(self) -> None:
        """Accept: all of it is proved for hidden groups too."""

    def suits(self, problem: Problem) -> bool:
        is_quadratic = isinstance(problem.loss, SquaredError)
        return is_quadratic and problem.n_weights <= MOST_WEIGHTS_OF_MOMENTS

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        self._refuse_other_losses(problem)
        return plan_of_rounds(problem, budget, self)

    def _refuse_other_losses(self, problem: Problem) -> None:
        """Refuse risks that are not quadratic."""
        if not isinstance(problem.loss, SquaredError):
            raise ValueError(
                f"solver {self.name!r} is for loss 'squared_error' alone, whose risks are "
                f"quadratic, got {problem.loss!r}."
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
            moments = releases.from_pass(plan, release, data, center, clip, noise)
            # products of rows are the same in all rounds, those with residuals where the centre is
            share = release.noise_multiplier**-2
            mean = (precision * mean + share * moments) / (precision + share)
            precision += share
            stds = schedule.sensitivity / np.sqrt(precision[-1, -1]) / sizes
            stds_of_rows = schedule.sensitivity / np.sqrt(precision[0, 0]) / sizes
            heard, stds, stds_of_rows = _heard(mean, stds, stds_of_rows, problem)
            weights, group_weights, mean_square = _learned(
                heard,
                stds,
                stds_of_rows,
                problem,
                schedule,
                center=center,
                clip=clip,
            )
            # noise is about this large beside what is clipped, in groups of average loudness
            reach = mixture.reach(schedule, float(stds.mean()), mean_square)
            if reach < schedule.target_bound:
                center, clip = weights, max(reach, mixture.LEAST_CLIP * schedule.target_bound)
                precision[-1, :] = precision[:, -1] = 0.0
            elif center.any():
                # residuals that are no shorter than the targets are no better to know
                center, clip = np.zeros_like(weights), schedule.target_bound
                precision[-1, :] = precision[:, -1] = 0.0
        return Solution(weights, group_weights, schedule.n_rounds)

    def _set_by_caller(self) -> dict[str, tuple[object, ...]]:
        return mixture.SET_BY_CALLER

    def numbers_of_calls(self, problem: Problem) -> tuple[int, ...]:
        return mixture.CALLS

    def plan_mixture(self, problem: Problem, calls: Calls) -> MixturePlan:
        self._refuse_other_losses(problem)
        return mixture.plan_of_calls(problem, calls, self)

    def run_mixture(
        self,
        plan: MixturePlan,
        group_weights: FloatArray,
        center: FloatArray,
        data: Risks,
        noise: NoiseSource,
        *,
        call: int,
        risks: FloatArray | None = None,
    ) -> FloatArray:
        return mixture.run_call(plan, group_weights, center, data, noise, risks)


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
) -> tuple[FloatArray, FloatArray, float]:
    """Return weights, mixture and the mean square of the residuals that noisy moments show."""
    sizes = np.asarray(problem.group_sizes, dtype=float)
    shares = sizes / sizes.sum()
    of_rows = np.zeros(moments.shape[1:], dtype=bool)
    of_rows[:-1, :-1] = True
    # the square of the constant is no release
    free = np.ones_like(of_rows)
    if schedule.constant > 0.0:
        free[-2, -2] = False
    moments = shrunk(moments, stds_of_rows, of_rows & free)
    moments = shrunk(moments, stds, ~of_rows)
    units = np.ones(len(of_rows))
    units[-1] = clip / schedule.length
    if schedule.constant > 0.0:
        units[-2] = problem.intercept_scaling / schedule.constant
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
    along = np.append(center - weights, 1.0) * units
    return weights, group_weights, float(shares @ ((moments @ along) @ along))
