"""Minimax phased empirical risk minimisation with output perturbation."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.objective import project_to_ball
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import Risks, keyed_parts
from sklearn_dpwg.solvers.centring.problem import CentredProblem, centred_problem
from sklearn_dpwg.solvers.centring.releases import release_centre
from sklearn_dpwg.solvers.group_player import LEAST_PRIOR, heard, normalised
from sklearn_dpwg.solvers.mixture import Calls, MixturePlan, MixtureSolver
from sklearn_dpwg.solvers.phased_erm import mixture
from sklearn_dpwg.solvers.phased_erm.paper import paper_plan
from sklearn_dpwg.solvers.phased_erm.parameters import RULES, PhasedERMParameters
from sklearn_dpwg.solvers.phased_erm.planning import (
    is_centred,
    least_bound_plan,
    numbers_of_phases,
)
from sklearn_dpwg.solvers.phased_erm.releases import (
    RISKS,
    WEIGHTS,
    release_risks,
    release_weights,
)
from sklearn_dpwg.solvers.phased_erm.schedule import PhasedERMSchedule
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.solver import Solution

# A phase takes Hessians apart, which with more weights takes longer than all steps of `MGR`.
MOST_WEIGHTS_OF_PHASES = 500


class PhasedERM(PhasedERMParameters, MixtureSolver):
    """Minimax phased ERM: exact regularised minimax solutions, released with Gaussian noise.

    Each phase finds the saddle point of the worst-group risk, regularised towards the weights that
    the phase before released and towards a prior over groups, and releases its weights with noise
    for the most that one record can move them. Between phases the group risks are released too,
    and move the prior of the next phase towards the groups that do badly. ``None`` means planned
    from public facts.

    Parameters
    ----------
    n_phases : int, optional
        Number of phases T, from 1 to 128. Planned: at most what `max_passes` pays for.
    schedule : {"planned", "paper"}, default="planned"
        "paper" is Algorithm 1 of Zhou and Bassily with the constants of their Theorem 2 (the noise
        larger where theirs would break the budget); it sets everything else but `smoothing_width`.
        `FreshPhasedERM` is the same for an oracle or a stream.
    mu_weights : float, optional
        Regularisation μ_w of the weights in the last phase. Planned: by the noise.
    sharpening : float, optional
        Regularisation of each phase over that of the one before, from 1 to 10; phases that read
        fewer records have more in proportion.
    mu_groups : float, optional
        Regularisation μ_λ of the group weights within a phase; infinity keeps them at the prior.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.
    averaging : float, optional
        Share of the phases, the last ones, that is averaged; above 0, at most 1.
    aim : float, default=0.3
        Distance from the first weights, 0 or a start, that the bound compares with, as a share of
        the radius.
    smoothing_width : float, optional
        For a loss with kinks: how far from a kink, in the score, the loss that is minimised differs
        from it.
    max_passes : int, default=300
        Passes over the rows that a planned number of phases may take; 16 phases with 40 weights.
    centring : bool, optional
        Whether rows are taken relative to a released mean row, with a limit on each record's
        gradient. Planned: for the log loss of two classes or the squared error with an intercept.

    Notes
    -----
    A record of group i moves the minimiser of a phase by at most
    ``saddle_point_sensitivity(...)``, whatever the records are, and the noise multipliers are fixed
    in advance. The strengths μ_w follow from the noise, that is from earlier releases.
    The best response of the group player inside a phase is not private and is never kept.
    `docs/theory/phased-erm.md` proves the privacy and derives the bound.

    References
    ----------
    Zhou and Bassily (2024), Algorithm 1, Lemma 3, Theorem 2.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import PhasedERM
    >>> PhasedERM(n_phases=1)
    PhasedERM(n_phases=1)
    """

    name: ClassVar[str] = "phased-erm"

    def _check_parameters(self) -> None:
        RULES.check(self)

    def _check_hidden_groups(self) -> None:
        if self.schedule == "paper":
            raise ValueError(
                "solver 'phased-erm' with neighbours='replace-any' needs schedule='planned', got "
                "'paper'."
            )

    def suits(self, problem: Problem) -> bool:
        return problem.n_weights <= MOST_WEIGHTS_OF_PHASES

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        if self.schedule == "paper":
            return paper_plan(problem, budget, smoothing_width=self.smoothing_width)
        return least_bound_plan(problem, budget, self)

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        schedule, problem = plan.schedule, plan.problem
        assert isinstance(schedule, PhasedERMSchedule)
        parallel = schedule.composition == "parallel"
        if parallel:
            parts = keyed_parts(problem.group_sizes, schedule.sizes, noise.rng)
        releases = {(release.name, release.part): release for release in plan.releases}
        weights = np.zeros(problem.n_weights)
        if start is not None:
            weights = project_to_ball(start.weights, problem.radius)
        centring = None
        if isinstance(schedule.solved, CentredProblem):
            centring = release_centre(problem, data, noise, plan.releases[0], plan.releases[1])
            data, weights = centring.view(data), centring.to_centred(weights, problem)
            schedule = replace(schedule, solved=replace(schedule.solved, clip=centring.clip))
        log_prior = np.log(np.asarray(schedule.prior))
        total = np.zeros_like(weights)
        for t in range(schedule.n_phases):
            read = data.part(parts[t]) if parallel else data
            part = t if parallel else None
            if t > 0 and schedule.risks_multiplier > 0.0:
                # what stands for the sizes of hidden groups
                divisors = () if problem.hidden is None else (problem.group_sizes,)
                noisy_risks = release_risks(
                    data, weights, schedule, noise, releases[RISKS, None], *divisors
                )
                noisy_risks, _ = heard(noisy_risks, np.zeros_like(noisy_risks), problem)
                log_prior = log_prior + schedule.group_rate * noisy_risks
                log_prior = log_prior - schedule.noise_correction
            prior = normalised(log_prior, least=LEAST_PRIOR)
            noisy_weights = release_weights(
                read,
                weights,
                prior,
                schedule.phase(t, prior),
                schedule,
                noise,
                releases[WEIGHTS, part],
            )
            weights = project_to_ball(noisy_weights, problem.radius)
            if t >= schedule.n_phases - schedule.averaged:
                total += weights
        learned = total / schedule.averaged
        if centring is not None:
            learned = centring.from_centred(learned, problem)
        return Solution(learned, None, schedule.n_phases)

    def _set_by_caller(self) -> dict[str, tuple[object, ...]]:
        return mixture.SET_BY_CALLER

    def mixture_problem(self, problem: Problem) -> Problem:
        return centred_problem(problem) if is_centred(problem, self) else problem

    def numbers_of_calls(self, problem: Problem) -> tuple[int, ...]:
        return numbers_of_phases(problem, self.max_passes)

    def plan_mixture(self, problem: Problem, calls: Calls) -> MixturePlan:
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
        schedule = mixture.schedule_of(plan)
        phase = schedule.phase(call, group_weights)
        noisy = release_weights(data, center, group_weights, phase, schedule, noise, plan.release)
        return project_to_ball(noisy, plan.problem.radius)
