"""Runs on Poisson batches whose coins and answers are fixed: what does one record move?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.privacy import Budget, SumGrid
from sklearn_dpwg.solvers import MGR, Solution
from sklearn_dpwg.solvers.descent import releases
from sklearn_dpwg.solvers.descent.schedule import Batches
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.mgr_cases import LOSSES, Case, bad_rows, random_data, random_targets
from tests.helpers.replay import Instead, Recorder
from tests.helpers.selections import Listed, chosen


def batch_problems(seed: int, n_plans: int):
    """Yield plans of random problems on random rates, and the solvers that made them."""
    rng = np.random.default_rng(seed)
    for index in range(n_plans):
        n_groups = int(rng.integers(1, 5))
        problem = make_problem(
            rng.choice([1, 2, 3, 4, 25], size=n_groups),
            loss=LOSSES[index % len(LOSSES)],
            n_features=int(rng.integers(1, 4)),
            radius=float(rng.choice([1.0, 3.0, 20.0])),
            prior=rng.dirichlet(np.full(n_groups, 0.5)) * 0.999 + 0.001 / n_groups,
            scaling=float(rng.choice([0.0, 0.5, 1.0])),
        )
        rates = rng.choice([0.1, 0.3, 0.9, 1.0], size=n_groups)
        rates[rng.integers(n_groups)] = rng.choice([0.1, 0.3, 0.9])
        constants = problem.constants
        low, high = constants.infimum, constants.supremum
        ceiling: Any = rng.choice([None, np.inf, low + 0.1 * (high - low)])  # type: ignore[list-item]
        solver = MGR(
            n_steps=3,
            sampling_rate=tuple(float(rate) for rate in rates),
            loss_ceiling=ceiling,
            risk_share=float(rng.choice([0.05, 0.5, 0.95])),
        )
        yield solver.plan(problem, Budget(0.5, 1e-5)), solver


class Canary(NamedTuple):
    """Neighbours, and which record differs."""

    case: Case
    group: int
    position: int


def canary_case(plan, solver, seed: int) -> Canary:
    """Return neighbours that differ in the last record of one group, chosen to move much."""
    problem = plan.problem
    rng = np.random.default_rng([seed, 2])
    weights = rng.standard_normal(problem.n_weights)
    weights *= problem.radius * rng.choice([0.0, 0.5, 1.0, 1.0]) / np.linalg.norm(weights)
    group = int(rng.integers(problem.n_groups))
    group_weights = [
        rng.dirichlet(np.ones(problem.n_groups)),
        np.eye(problem.n_groups)[group],
        1e-300 + np.eye(problem.n_groups)[rng.integers(problem.n_groups)],
    ][int(rng.integers(3))]
    rows, targets = random_data(problem, [seed, 3])
    other_rows, other_targets = rows.copy(), targets.copy()
    record = sum(problem.group_sizes[: group + 1]) - 1
    rows[record], other_rows[record] = bad_rows(problem, weights, rng)
    targets[record], other_targets[record] = random_targets(rng, problem.loss, 2)
    case = Case(
        plan,
        solver,
        make_data(problem, rows, targets),
        make_data(problem, other_rows, other_targets),
        Solution(weights, group_weights, 0),
    )
    return Canary(case, group, problem.group_sizes[group] - 1)


def run_with_coins(canary: Canary, data, seed: int, *, joins: bool):
    """Run on answers and coins that depend on their place alone, the canary's coin forced."""
    case, (plan, *_) = canary.case, canary.case
    answers, coins = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 5])
    parts = plan.schedule.batches.parts
    scale = 10.0 ** np.random.default_rng([seed, 4]).uniform(-2, 3)

    def sample(release):
        joined = [np.zeros(0, dtype=int)] * len(parts)
        for group, size in enumerate(plan.problem.group_sizes):
            if plan.releases[parts[group]] == release:
                heads = coins.random(size) < max(release.sampling_rate, 0.3)
                if group == canary.group:
                    heads[canary.position] = joins
                joined[group] = np.flatnonzero(heads)
        return Listed(joined)

    def answer(releases, value, units):
        return scale * answers.standard_normal(value.shape)

    source = Recorder(answer, rng=seed, sample_with=sample)
    return source, case.solver.run(plan, data, source, start=case.start)


def moves(canary: Canary, seed: int) -> dict[str, float]:
    """Return how far one record moves a step, over what is stated; infinity where it may not.

    "replaced" compares neighbours that both join, over the sensitivity stated for the group's
    part; "joined" compares with absence, over half of it, for a group that is sampled.
    """
    case, plan = canary.case, canary.case.plan
    part = plan.schedule.batches.parts[canary.group]
    runs = {
        name: run_with_coins(canary, data, seed, joins=joins)
        for name, data, joins in (
            ("here", case.data, True),
            ("replaced", case.neighbour, True),
            ("joined", case.data, False),
        )
    }
    is_sampled = plan.releases[part].sampling_rate < 1.0
    asked, solution = runs["here"][0].asked, runs["here"][1]
    found = {}
    for name, allowed in (("replaced", 1.0), ("joined", 0.5))[: 1 + is_sampled]:
        others, other = runs[name][0].asked, runs[name][1]
        worst = 0.0 if np.array_equal(solution.weights, other.weights) else math.inf
        for one, two in zip(asked, others, strict=True):
            same = one.releases == two.releases == plan.releases
            same &= np.array_equal(one.units, two.units)
            same &= np.array_equal(one.sensitivities, two.sensitivities)
            distance = np.linalg.norm((one.value - two.value) / one.units)
            # in noise that is drawn, which is that of the part that needs most
            drawn = max(np.array([r.noise_multiplier for r in one.releases]) * one.sensitivities)
            least = drawn / plan.releases[part].noise_multiplier
            worst = max(worst, float(distance / (allowed * least)) if same else math.inf)
        found[name] = worst
    return found


def _batch_beside_the_noise(honest, plan, data, *others):
    seen = []

    def sampled(*arguments, **facts):
        seen.append(data.sampled_sums(*arguments, **facts))
        return seen[-1]

    found = honest(plan, Instead(data, sampled_sums=sampled), *others)
    return found._replace(gradient=found.gradient + 1e-9 * seen[0][1][0])


def _stds(name: str, wrong: Callable[..., np.ndarray]) -> Callable[[pytest.MonkeyPatch], None]:
    """Plant ``wrong(batches, right)`` for the noise that batches state."""
    right = vars(Batches)[name].fget
    return lambda patch: patch.setattr(
        Batches, name, property(lambda batches: wrong(batches, right(batches)))
    )


def _gradient_std(wrong: Callable[..., float]) -> Callable[[pytest.MonkeyPatch], None]:
    """Plant ``wrong(needed by group)`` for the noise of the group that needs most."""
    return lambda patch: patch.setattr(
        Batches,
        "gradient_std",
        lambda batches, coefficients: wrong(coefficients, coefficients * batches.gradient_stds),
    )


def _reads(**wrong: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Plant other facts in what is asked of a batch."""
    right = GroupRisks.sampled_sums

    def read(risks, weights, batch, **facts):
        joined = chosen(batch, risks.group_sizes)
        facts |= {name: of_batch(joined) for name, of_batch in wrong.items()}
        return right(risks, weights, batch, **facts)

    return lambda patch: patch.setattr(GroupRisks, "sampled_sums", read)


def _means_of_the_batch(patch: pytest.MonkeyPatch) -> None:
    """Divide sums by how many joined: each record changes the weight of all."""
    right = GroupRisks.sampled_sums

    def read(risks, weights, batch, **facts):
        losses, gradients = right(risks, weights, batch, **facts)
        joined = chosen(batch, risks.group_sizes)
        shares = risks.group_sizes / np.maximum([len(of_group) for of_group in joined], 1)
        return losses * shares, gradients * shares[:, None]

    patch.setattr(GroupRisks, "sampled_sums", read)


def estimates(risks, weights, batch, *, expected_sizes, ceiling, center):
    """Return the group risks and gradients that a batch shows, without noise or a grid."""
    losses, gradients = risks.sampled_sums(
        weights, batch, ceiling=ceiling, center=center, grid=SumGrid(0.0, 0.0)
    )
    expected_sizes = np.asarray(expected_sizes)
    return center + losses / expected_sizes, gradients / expected_sizes[:, None]


# Each plants a fault in what a step on batches releases.
FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "noise for n_i, not for q_i n_i": _stds("gradient_stds", lambda b, right: right * b.rates),
    "the mean group": _gradient_std(lambda coefficients, needed: needed.mean()),
    "the weighted mean group": _gradient_std(lambda coefficients, needed: coefficients @ needed),
    "gradient spends the whole": _stds(
        "gradient_stds", lambda b, right: right * np.sqrt(1.0 - b.risk_share)
    ),
    "risks spend the whole": _stds("risk_stds", lambda b, right: right * np.sqrt(b.risk_share)),
    "half the noise on risks": _stds("risk_stds", lambda b, right: right / 2.0),
    "no ceiling": _reads(ceiling=lambda batch: np.inf),
    "risks that are not centred": _reads(center=lambda batch: 0.0),
    "the same coins tell the divisor": _means_of_the_batch,
    "the batch beside the noise": lambda patch: patch.setattr(
        releases, "from_batch", partial(_batch_beside_the_noise, releases.from_batch)
    ),
}


def with_batches(plan, **changes: Any):
    """Return a plan with other numbers in its batches."""
    batches = dataclasses.replace(plan.schedule.batches, **changes)
    return dataclasses.replace(plan, schedule=dataclasses.replace(plan.schedule, batches=batches))
