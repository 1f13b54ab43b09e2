"""Phases on fresh records: the paper's, and planned ones."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from sklearn_dpwg.losses import Hinge, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import PhasedERM, Solution, phased_erm
from tests.helpers import selections
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_records
from tests.helpers.replay import silent
from tests.solvers.oco.test_oco import Listed

BUDGET = Budget(1.0, 1e-6)


def fresh(sizes, calls=1, **facts):
    """Return a problem, and an oracle that gives its records in their order."""
    problem = replace(make_problem(sizes, **facts), fresh_calls=calls)
    rows, targets = random_records(problem, np.random.default_rng(0))
    data = make_data(problem, rows, targets)
    return problem, data, Listed(data)


@pytest.mark.parametrize(
    ("loss", "sizes"),
    [(None, (7, 9, 300)), (SquaredError(), (33,)), (Hinge(), (90, 40))],
    ids=repr,
)
def test_it_is_the_papers_run_on_the_same_parts(loss, sizes, monkeypatch):
    """Parts that an oracle deals, and such of fixed data, on one transcript."""

    def in_order(sizes, sizes_of_parts, rng):
        ends = np.cumsum([[0] * len(sizes), *sizes_of_parts], axis=0)
        return [
            selections.Listed([np.arange(*borders) for borders in zip(*pair, strict=True)])
            for pair in itertools.pairwise(ends)
        ]

    monkeypatch.setattr(phased_erm, "keyed_parts", in_order)
    problem, data, oracle = fresh(sizes, loss=loss)
    solver, runs = PhasedERM(schedule="paper"), []
    for calls, records in ((1, oracle), (0, data)):
        plan, source = solver.plan(replace(problem, fresh_calls=calls), BUDGET), silent()
        runs.append((solver.run(plan, records, source), source.asked, str(plan)))
    (result, asked, shown), (expected, others, same) = runs
    assert shown == same
    for one, other in zip(asked, others, strict=True):
        assert (one.release, one.sensitivity) == (other.release, other.sensitivity)
        assert np.allclose(one.value, other.value, atol=1e-5 * float(one.sensitivity) + 1e-9)
    assert np.allclose(result.weights, expected.weights, atol=1e-6)


def test_the_papers_phases_wait_for_their_records():
    """Calls with too few records for a phase play none; whole phases are played, and no more."""
    problem, data, oracle = fresh((90, 90))
    solver = PhasedERM(schedule="paper")
    plan = solver.plan(problem, BUDGET)
    read = plan.schedule.solved.group_sizes[0]
    game = solver.begin(plan, silent())
    start = Solution(np.full(3, 0.1), None, 0)
    assert np.allclose(solver.begin(plan, silent(), start=start).finish().weights, 0.1)
    assert game.advance(oracle, [90, read - 1]) == 0
    assert game.finish().n_iter == 0
    assert game.advance(oracle, [2 * read + 1, 3 * read]) == 2
    assert list(oracle.next - data.records.starts[:-1]) == [2 * read, 2 * read]
    assert game.advance(oracle, [math.inf, math.inf]) == plan.n_steps - 2
    assert game.is_over
    assert game.advance(oracle, [math.inf, math.inf]) == 0


def test_planned_phases_read_what_a_call_has():
    """The records of a call are divided among its phases, and noise is for as many as there are."""
    problem, data, oracle = fresh((300, 90), calls=3)
    solver = PhasedERM(6, mu_weights=0.5, sharpening=1.0)
    plan = solver.plan(problem, BUDGET)
    assert plan.schedule.solved.group_sizes == (50, 15)
    source = silent()
    game = solver.begin(plan, source)
    assert game.advance(oracle, [300, 7]) == 0
    for sizes, n_phases in (((100, 30), 2), ((90, 40), 2), ((40, 9), 1), ((70, 11), 1)):
        source.asked.clear()
        assert game.advance(oracle, sizes) == n_phases
        released = [asked for asked in source.asked if asked.release.name == "phase weights"]
        moved = problem.gradient_diameter / 0.5
        for (
            asked
        ) in released:  # at least what the smaller group moves by its fraction of the weight
            assert float(asked.sensitivity) >= moved / sum(sizes) * n_phases
    assert list(oracle.next - data.records.starts[:-1]) == [300, 30 + 40 + 9 + 11]
    assert game.is_over
    assert game.finish().n_iter == 6


@pytest.mark.parametrize("calls", [1, 10, 40])
def test_planned_phases_have_the_whole_budget(calls):
    problem, *_ = fresh((2800, 1200), calls=calls)
    plan = PhasedERM().plan(problem, BUDGET)
    assert plan.n_steps % calls == 0
    assert plan.guarantee.epsilon == pytest.approx(BUDGET.epsilon, rel=1e-4)
    weights, risks = plan.releases
    assert (weights.paid_count, risks.paid_count) == (1, 1)
    spent = weights.noise_multiplier**-2 + risks.noise_multiplier**-2
    assert math.sqrt(spent) == pytest.approx(BUDGET.mu, rel=1e-5)


def test_what_cannot_be_planned():
    problem, _, oracle = fresh((90, 40))
    plan = PhasedERM().plan(replace(problem, fresh_calls=0), BUDGET)
    with pytest.raises(ValueError, match="fresh records"):
        PhasedERM().run(plan, oracle, silent())
    with pytest.raises(ValueError, match="group_sizes must be finite for PhasedERM"):
        PhasedERM().plan(replace(problem, group_sizes=(math.inf, 40)), BUDGET)
    with pytest.raises(ValueError, match="centring of PhasedERM"):
        PhasedERM(centring=True).plan(problem, BUDGET)
