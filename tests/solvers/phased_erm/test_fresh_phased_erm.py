"""The paper's phases on fresh records: the fixed-data run, told by where the records come from."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.oracles import GeneratorOracle
from sklearn_dpwg.exceptions import OracleError
from sklearn_dpwg.losses import Hinge, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import FreshPhasedERM, PhasedERM, Solution
from sklearn_dpwg.solvers.rounds import phased_erm
from tests.helpers import selections
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_records
from tests.helpers.relations import WITHIN_GROUP
from tests.helpers.replay import Recorder, distances, fixed_transcript, recorded, silent
from tests.helpers.sources import seeded
from tests.solvers.oco.test_oco import Listed

BUDGET = Budget(1.0, 1e-6)


def parts_in_the_order_of_an_oracle(sizes, sizes_of_parts, rng):
    """Cut permutations, which an oracle draws by the same coins, into parts."""
    orders = [rng.permutation(size) for size in sizes]
    ends = np.cumsum([[0] * len(sizes), *sizes_of_parts], axis=0)
    return [
        selections.Listed(
            [np.sort(order[a:b]) for order, a, b in zip(orders, first, last, strict=True)]
        )
        for first, last in itertools.pairwise(ends)
    ]


@pytest.mark.parametrize("loss", [None, SquaredError(), Hinge()], ids=repr)
@pytest.mark.parametrize("sizes", [(90, 40), (33,), (7, 9, 300)])
def test_it_is_the_papers_run_on_the_same_parts(loss, sizes, monkeypatch):
    """The same coins deal the same records to the same phases, and the noise is the same."""
    problem = make_problem(sizes, loss=loss)
    fresh, fixed = FreshPhasedERM(), PhasedERM(schedule="paper")
    plan = fresh.plan(problem, BUDGET)
    assert plan == fixed.plan(problem, BUDGET)
    data = make_data(problem, *random_records(problem, np.random.default_rng(0)))
    source = recorded(seeded(3, plan.releases))
    found = fresh.run(plan, data, source)
    monkeypatch.setattr(phased_erm, "keyed_parts", parts_in_the_order_of_an_oracle)
    answers = iter(source.asked)
    again = Recorder(lambda release, value, sensitivity: next(answers).answer)
    again.rng = seeded(3, plan.releases).rng
    expected = fixed.run(plan, data, again)
    assert [asked.release for asked in again.asked] == [asked.release for asked in source.asked]
    for one, other in zip(source.asked, again.asked, strict=True):
        assert np.allclose(one.value, other.value, atol=1e-5 * float(one.sensitivity) + 1e-9)
        assert one.sensitivity == other.sensitivity
    assert np.allclose(found.weights, expected.weights)
    assert found.n_iter == expected.n_iter == plan.n_steps


def test_a_record_in_two_phases_is_seen(monkeypatch):
    """Planted: phases that do not take turns, and a wrong share of the records."""

    class Again(Listed):
        def draw(self, group, size):
            self.next[group] = int(self.data.records.starts[group])
            return super().draw(group, size)

    problem = make_problem((60, 60), loss=SquaredError())
    solver = FreshPhasedERM()
    plan = solver.plan(problem, BUDGET)
    rows, targets = random_records(problem, np.random.default_rng(0))
    other = rows.copy()
    other[0] = -rows[0]
    moved = []
    for kind in (Listed, Again):
        asked = []
        for which in (rows, other):
            data, source = make_data(problem, which, targets), fixed_transcript(0, {})
            oracle = kind(data)
            oracle.data = data
            solver.run(plan, oracle, source)
            asked.append(source.asked)
        moved.append(sum(distance > 1e-3 for _, distance in distances(*asked)))
    assert moved == [1, plan.n_steps]


def test_phases_wait_for_their_records():
    """Calls with too few records for a phase play none; whole phases are played, and no more."""
    problem = make_problem((90, 90))
    solver = FreshPhasedERM()
    plan = solver.plan(problem, BUDGET)
    read = plan.schedule.solved.group_sizes[0]
    data = make_data(problem, *random_records(problem, np.random.default_rng(0)))
    oracle, game = Listed(data), solver.begin(plan, silent())
    start = Solution(np.full(3, 0.1), None, 0)
    assert np.allclose(solver.begin(plan, silent(), start=start).finish().weights, 0.1)
    assert game.advance(oracle, [90, read - 1]) == 0
    assert game.finish().n_iter == 0
    assert game.advance(oracle, [2 * read + 1, 3 * read]) == 2
    assert list(oracle.next - data.records.starts[:-1]) == [2 * read, 2 * read]
    assert game.advance(oracle, [math.inf, math.inf]) == plan.n_steps - 2
    assert game.is_over
    assert game.advance(oracle, [math.inf, math.inf]) == 0


def test_an_oracle_and_parts_of_a_stream():
    """`fit_oracle` and `partial_fit`, with what they cost."""

    def generate(group, size, rng):
        X = rng.uniform(-0.7, 0.7, size=(size, 2))
        return X, (X[:, 0] > (0.1 if group == "a" else -0.1)).astype(int)

    model = DPWorstGroupClassifier(
        4.0, 1e-5, solver=FreshPhasedERM(horizon=2), data_norm=1.0, classes=[0, 1], **WITHIN_GROUP
    )
    facts = {"group_labels": ["a", "b"], "group_sizes": [3000, 3000], "n_features": 2}
    model.fit_oracle(GeneratorOracle(generate, random_state=0), **facts)
    assert model.n_iter_ == model.plan_.n_steps == 11
    assert model.plan_.solver == "phased-erm"
    assert model.privacy_.epsilon <= 4.0
    with pytest.raises(AttributeError, match="does not release group weights"):
        _ = model.group_weights_
    dry = GeneratorOracle(lambda group, size, rng: generate(group, size // 2, rng))
    with pytest.raises(OracleError, match="ran dry"):
        model.fit_oracle(dry, **facts)
    X, y = generate("a", 4000, np.random.default_rng(0))
    groups = np.tile(["a", "b"], 2000)
    model.partial_fit(X[:2000], y[:2000], groups=groups[:2000])
    first = model.n_iter_
    model.partial_fit(X[2000:], y[2000:], groups=groups[2000:])
    assert first < model.n_iter_ <= model.plan_.n_steps


def test_what_cannot_be_planned():
    problem = make_problem((90, 40))
    with pytest.raises(ValueError, match="horizon of FreshPhasedERM must be a positive whole"):
        FreshPhasedERM(horizon=0).plan(problem, BUDGET)
    with pytest.raises(ValueError, match="smoothing_width of FreshPhasedERM must be positive"):
        FreshPhasedERM(smoothing_width=-1.0).plan(problem, BUDGET)
    endless = replace(problem, group_sizes=(math.inf, 40))
    with pytest.raises(ValueError, match=r"^group_sizes must be finite for FreshPhasedERM"):
        FreshPhasedERM().plan(endless, BUDGET)
    with pytest.raises(AttributeError, match="needs all records at once"):
        _ = DPWorstGroupClassifier(solver=PhasedERM(schedule="paper")).fit_oracle
