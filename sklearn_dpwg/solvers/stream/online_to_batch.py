"""The average risk of a stream, by noisy sums of gradient differences."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import FreshSolver, Solution
from sklearn_dpwg.solvers.stream.games import OnlineToBatchGame
from sklearn_dpwg.solvers.stream.learners import (
    Learner,
    OptimisticFTRL,
    ParameterFree,
    make_learner,
)
from sklearn_dpwg.solvers.stream.planning import effective_batch, least_batch_plan, planned_schedule
from sklearn_dpwg.solvers.stream.releases import batch_plan, planned_release
from sklearn_dpwg.solvers.stream.schedule import (
    BATCH_RULES,
    OnlineToBatchParameters,
    OnlineToBatchSchedule,
    opened,
    refuse_no_end,
    round_weights,
)

# More rounds of single records would take minutes, and a plan for them gigabytes.
MOST_ROUNDS = 2_000_000


def paper_plan(problem: Problem, budget: Budget, parameters: OnlineToBatchParameters) -> Plan:
    """Return the plan of the paper's parameters, whose noise is accounted for exactly.

    `docs/theory/online-to-batch.md`, section 5, has them. Of T rounds the last reads none, as its
    sum would never be used. (Zhang, Tran and Cutkosky 2022, Algorithm 1, equation (6), Theorems 4,
    6, 8 and 10)
    """
    own = 1 if parameters.batch_size is None else int(parameters.batch_size)
    refuse_no_end(parameters, problem.n_records)
    horizon = problem.n_records / own
    if math.isfinite(horizon):
        horizon = int(horizon)
    if parameters.n_rounds is not None:
        horizon = min(horizon, parameters.n_rounds + 1)
    n_rounds = max(1, int(horizon) - 1)
    if n_rounds > MOST_ROUNDS:
        raise InputError(
            f"batch_size or n_rounds of OnlineToBatch must be set with schedule='paper' where a "
            f"round a record is more than {MOST_ROUNDS:,} rounds, got {n_rounds:,}."
        )
    sizes = np.asarray(problem.group_sizes, dtype=float)
    if math.isfinite(problem.n_records):
        rates = min(own, problem.n_records) * sizes / problem.n_records
    else:  # what a group that ends cannot give, those without end do
        prior = np.asarray(problem.prior)
        rates, endless = np.minimum(own * prior, sizes / n_rounds), prior * np.isinf(sizes)
        rates += (own - rates.sum()) * endless / endless.sum()
    release = planned_release(budget)
    bound, schedule = planned_schedule(problem, release, parameters, n_rounds, rates)
    mechanism = opened(parameters, problem, n_rounds)
    power = parameters.exponent
    factor = 2.0 * (power + 1.0) * math.sqrt(math.log2(2.0 * (n_rounds + 1)))
    schedule = replace(schedule, papers_factor=factor / mechanism.column_norm)
    learner = make_learner(parameters.learner)
    remark = "the paper's parameters, with noise accounted for exactly"
    if isinstance(learner, ParameterFree):
        remark += "; its constants of the regulariser hold an unstated one, and are not used"
    else:
        stds = _noise_stds(problem, schedule, mechanism.standard_deviations())
        bound, strength = papers_bound(problem, learner, schedule, stds)
        schedule = replace(schedule, strength=strength)
    share = _proved_share(schedule, problem.diameter)
    release = replace(release, noise_multiplier=release.noise_multiplier / share)
    schedule = replace(
        schedule,
        multiplier=release.noise_multiplier,
        papers_factor=schedule.papers_factor * share,
        remark=remark,
    )
    return batch_plan(problem, budget, release, schedule, bound)


def _proved_share(schedule: OnlineToBatchSchedule, diameter: float) -> float:
    """Return the largest proved sensitivity of a round over the paper's, wherever weights go.

    For a round it is the quotient of a concave function of ‖w_t - x_{t-1}‖ in two linear pieces and
    a linear one, so it is largest at an end of a piece.
    """
    sensitivity, power = schedule.sensitivity, schedule.power
    weights = round_weights(schedule.n_rounds, power)
    before, part = np.append(0.0, weights[:-1]), weights / np.cumsum(weights)
    capped = 2.0 * sensitivity.gradient_diameter / np.maximum(sensitivity.smoothness * part, 1e-200)
    declining = round_weights(schedule.n_rounds, power - 1.0)
    largest = 0.0
    for farthest in (np.zeros_like(part), np.minimum(capped, diameter), diameter + 0.0 * part):
        papers = schedule.papers_sensitivity(1, farthest) * declining
        proved = sensitivity.of_rounds(weights, before, part * farthest)
        largest = max(largest, float((proved / papers).max()))
    return min(1.0, largest * (1.0 + 1e-9))


def _noise_stds(
    problem: Problem, schedule: OnlineToBatchSchedule, deviations: FloatArray
) -> FloatArray:
    """Return the noise of a coordinate of each sum if weights are a diameter apart."""
    influence = float((np.asarray(schedule.mixture) / np.asarray(schedule.rates)).max())
    first = schedule.papers_sensitivity(1, problem.diameter)
    units = first * round_weights(schedule.n_rounds, schedule.power - 1.0)
    stds = schedule.multiplier * influence * np.maximum.accumulate(units) * deviations
    return np.asarray(stds, dtype=np.float64)


def papers_bound(
    problem: Problem, learner: Learner, schedule: OnlineToBatchSchedule, noise_stds: FloatArray
) -> tuple[float, float]:
    """Return the theorem's bound on the excess risk, and the strength that makes it least.

    `docs/theory/online-to-batch.md`, section 4, with nothing known of σ_G and σ_H but L and H.
    """
    n_rounds, radius, diameter = schedule.n_rounds, problem.radius, problem.diameter
    convexity = schedule.convexity
    weights = np.arange(1.0, n_rounds + 2) ** schedule.power
    totals = np.cumsum(weights)
    before = np.append(0.0, weights[:-1])
    moved = diameter * weights / totals
    steps = (weights - before) * problem.lipschitz + before * problem.smoothness * moved
    batch = effective_batch(np.asarray(schedule.mixture), np.asarray(schedule.rates))
    sampled = np.sqrt(np.cumsum(steps[:-1] ** 2) / batch)
    noise = math.sqrt(problem.n_weights) * noise_stds
    errors = sampled + noise
    # of the public regulariser, half of which is curvature
    norms = 1.5 * weights * convexity * diameter
    if isinstance(learner, OptimisticFTRL):
        norms += steps + np.append(0.0, noise) + np.append(noise, sampled[-1])
    else:
        norms += weights * problem.lipschitz + np.append(errors, 0.0)
    curved = 0.5 * convexity * totals
    if learner.strength is not None:
        strengths = np.array([float(learner.strength)])
    else:
        middle = math.sqrt(float((norms**2).sum())) / radius
        # where the learner's own convexity regularises, hardly any strength may be the best
        strengths = middle * 2.0 ** np.arange(0.0 if not convexity else -30.0, 0.25, 0.25)
    regret = np.array([(norms**2 / (2.0 * (each + curved))).sum() for each in strengths])
    total = float(totals[-1])
    if convexity:
        rest = float((2.0 * errors**2 / (weights[:-1] * convexity)).sum()) / total
        rest += 0.5 * convexity * radius**2
    else:
        rest = diameter * float(errors.sum()) / total
    bounds = (0.5 * strengths * radius**2 + regret) / total + rest
    best = int(np.argmin(bounds))
    return float(bounds[best]), float(strengths[best])


class OnlineToBatch(OnlineToBatchParameters, FreshSolver):
    """Minimises the risk of one distribution, or of a fixed mixture of groups, in one pass.

    Every record is used once, so records may come from a stream, a simulator or a database as well
    as from arrays. An online learner is told the gradient of the whole risk at an average of its
    weights, which noisy prefix sums of gradient differences keep up to date. The groups' `prior` is
    the mixture: with the default, the average risk of all records. It is *not* for the worst
    group, and never chosen by ``"auto"``. ``None`` means planned from public facts.

    Parameters
    ----------
    learner : str or Learner, default="optimistic"
        Who plays the weights: "optimistic" (its regret follows how much gradients differ between
        records), "ftrl", "parameter-free" (its regret follows the distance from
        the start, but it needs tens of thousands of rounds), or an instance such as
        ``FTRL(strength=50.0)``.
    noise : {"toeplitz", "tree", "independent"}, optional
        Mechanism of the prefix sums. Planned: Toeplitz, which has the least noise. The paper's
        is the tree.
    n_rounds : int, optional
        Most rounds that read records; the output is the weights after the last.
    batch_size : int, optional
        Records of a round, of all groups together. Where groups have no end, 1.
    schedule : {"planned", "paper"}, default="planned"
        "paper" takes batches of 1 unless `batch_size` says more, the binary tree unless `noise`
        does, and the paper's formula for the noise with exact accounting.
    aim : float, default=0.4
        Norm of the weights that the learner's strength is planned for, as a share of the radius, of
        20 at most.
    max_rounds : int, default=256
        Largest number of rounds that a plan may choose by itself.
    horizon : int, default=10
        For ``partial_fit``: the plan is made on the first call, for this many calls with as many
        records of each group as the first.
    power : float, optional
        Round t counts in the output by t to this power k, from 0 to 10. Planned: 1. The paper's is
        3 for a parameter-free learner.
    convexity : float, default=0.0
        Strong convexity μ_c: what is minimised is the risk plus μ_c/2 times the squared distance
        from the start, and the learner is told so. 0 for none.

    Notes
    -----
    With β_t = t^k and the average x_t of the learner's weights, a record of group i in a round of
    b_i moves that round's difference by at most λ_i/b_i times
    (β_t - β_{t-1}) Γ + β_{t-1} min(H ‖x_t - x_{t-1}‖, 2Γ), known before the round is read; all sums
    are one Gaussian release. `docs/theory/online-to-batch.md` proves it, and
    `docs/theory/replace-one.md` for ``neighbours="replace-one"``. The loss must be smooth.

    References
    ----------
    Zhang, Tran and Cutkosky (2022), *Differentially private online-to-batch for smooth losses*,
    Algorithm 1.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import OnlineToBatch
    >>> OnlineToBatch("ftrl", n_rounds=20)
    OnlineToBatch(learner='ftrl', n_rounds=20)
    """

    name: ClassVar[str] = "online-to-batch"

    def _check_parameters(self) -> None:
        BATCH_RULES.check(self)

    def _check_hidden_groups(self) -> None:
        if self.schedule == "paper":
            raise InputError(
                "solver 'online-to-batch' needs schedule='planned' with neighbours='replace-one', "
                "as the paper's takes groups in turn: neighbours='replace-one-within-group' takes "
                "both."
            )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if not math.isfinite(problem.smoothness):
            raise InputError(
                f"loss must be smooth for solver 'online-to-batch', whose noise follows how much "
                f"gradients change, got {problem.loss!r}, which has kinks."
            )
        if self.schedule == "paper":
            return paper_plan(problem, budget, self)
        return least_batch_plan(problem, budget, self)

    def begin(
        self, plan: Plan, noise: NoiseSource, *, start: Solution | None = None
    ) -> OnlineToBatchGame:
        schedule = plan.schedule
        assert isinstance(schedule, OnlineToBatchSchedule)
        return OnlineToBatchGame(plan, schedule, make_learner(self.learner), noise, start)
