"""Where a fit begins: units, refusals, what it saves and costs, and what is counted."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge

from sklearn_dpwg import DPWorstGroupRegressor
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import BudgetExceededError
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.losses import Huber
from sklearn_dpwg.privacy import Budget, joint_guarantee
from sklearn_dpwg.solvers import AGS, MGR, OCO, PhasedERM, Solution
from tests.helpers.group_data import make_data
from tests.helpers.sources import seeded

pytestmark = pytest.mark.filterwarnings("ignore")


def public_model(task):
    """Return a model of other, public rows in the units of the task's."""
    rng = np.random.default_rng(11)
    X = rng.uniform(-0.5, 0.5, size=(200, 3))
    if task.estimator is DPWorstGroupRegressor:
        return Ridge().fit(X, X @ [1.0, -0.3, 0.1] + 0.2)
    signal = X @ [1.0, -0.3, 0.1]
    classes = np.unique(task.data.y)
    cuts = np.quantile(signal, np.linspace(0, 1, len(classes) + 1)[1:-1])
    return LogisticRegression(C=100.0).fit(X, classes[np.digitize(signal, cuts)])


# A run that cannot move: what comes out is where it began.
STILL = {
    "mgr": MGR(n_steps=2, step_size=1e-12, centring=False),
    "mgr, centred": MGR(n_steps=2, step_size=1e-12, centring=True),
    "ags": AGS(n_steps=2, initial_distance=1e-12),
    "phased-erm": PhasedERM(1, mu_weights=1e7, centring=False),
}


@pytest.mark.parametrize(("norm", "fit_intercept"), [(1.0, False), (7.0, True)])
@pytest.mark.parametrize("solver", STILL.values(), ids=STILL)
def test_a_fit_begins_at_the_start_in_the_units_of_the_caller(task, solver, norm, fit_intercept):
    if not fit_intercept and getattr(solver, "centring", None):
        solver = MGR(n_steps=2, step_size=1e-12, centring=False)  # or else needs an intercept
    start = public_model(task)
    if not fit_intercept:
        start = start.coef_, 0.0 * start.intercept_
    fitted = task.fit(
        solver=solver, start=start, data_norm=norm, radius=1e3, fit_intercept=fit_intercept,
        epsilon=100.0,
    )  # fmt: skip
    coef, intercept = (start.coef_, start.intercept_) if fit_intercept else start
    np.testing.assert_allclose(fitted.coef_, coef, atol=2e-3)
    np.testing.assert_allclose(fitted.intercept_, intercept, atol=2e-3)
    assert "begins at the weights of start, of norm" in fitted.plan_.remark


@pytest.mark.parametrize(
    "solver", [AGS(3), MGR(3), PhasedERM(1, mu_weights=1.0), OCO(n_rounds=2)], ids=repr
)
def test_every_solver_that_uses_it_begins_there(binary, solver):
    """With next to no noise other starts have other ends, and the same one the same."""
    start = public_model(binary)
    fits = [
        binary.fit(solver=solver, start=each, epsilon=50.0, delta=1e-3).coef_
        for each in (None, start, (start.coef_, start.intercept_), (-start.coef_, [0.0]))
    ]
    np.testing.assert_allclose(fits[1], fits[2])
    assert np.abs(fits[0] - fits[1]).max() > 1e-3
    assert np.abs(fits[1] - fits[3]).max() > 1e-3


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (np.ones(3), "a fitted linear model with coef_ and intercept_, or a pair"),
        (LogisticRegression(), "a fitted linear model .* got LogisticRegression"),
        ((np.ones(4), 0.0), r"coef of shape \(1, 3\) and one intercept or 1, got shapes \(4,\)"),
        ((np.ones((3, 1)), 0.0), r"coef of shape \(1, 3\)"),
        ((np.ones(3), [0.0, 1.0]), r"shapes \(3,\) and \(2,\)"),
        ((np.array([1.0, np.nan, 0.0]), 0.0), "finite in the units of the fit"),
        ((np.ones(3), math.inf), "finite in the units of the fit"),
        ((np.full(3, 1e300), 0.0), "finite in the units of the fit"),
    ],
)
def test_a_wrong_start_is_refused_before_anything_is_spent(binary, draws, start, words):
    model = binary.make(data_norm=1e50 if "units" in words else 1.0)
    with pytest.raises(ValueError, match=f"^start must .*{words}"):
        model.fit(*binary.data, start=start)
    with pytest.raises(ValueError, match=r"^start must"):
        model.plan(group_sizes=[30, 60], n_features=3, classes=["no", "yes"], start=start)
    assert draws() == []
    assert not hasattr(model, "coef_")


def test_classes_names_and_kind_must_be_the_same(binary, regressor):
    X, y, groups = binary.data
    start, frame = public_model(binary), pd.DataFrame(X, columns=["u", "v", "w"])
    named = LogisticRegression().fit(frame, y)
    binary.make().fit(frame, y, groups, start=named)
    ayes = np.where(y == "yes", "aye", "no")
    for task, rows, targets, begin, words in (
        (binary, X, ayes, start, r"know the classes \['aye', 'no'\], .* got \['no', 'yes"),
        (binary, frame[["w", "u", "v"]], y, named, r"the names \['w', 'u', 'v'\], got \['u', 'v'"),
        (regressor, X, X[:, 0], start, "know no classes, got"),
    ):
        with pytest.raises(ValueError, match=f"^start must.* {words}"):
            task.make().fit(rows, targets, groups, start=begin)


# --- pipelines, forms ---------------------------------------------------------------------------


# --- what is counted ---------------------------------------------------------------------------


def test_a_private_start_is_told_and_counted(binary):
    first = binary.fit(epsilon=0.5)
    second = binary.fit(epsilon=1.0, start=first)
    third = binary.fit(epsilon=2.0, start=FrozenEstimator(second))
    words = " ".join(str(second.privacy_).split())
    assert "Not covered here: the weights that the fit began with" in words
    assert "a private fit of epsilon = 0.5 at delta = 1e-06 learned" in words
    assert str(third.privacy_).count("began") == 2
    assert second.privacy_.events == second.plan_.guarantee.events
    for fitted, parts in ((second, [first, second]), (third, [first, second, third])):
        total = joint_guarantee([each.privacy_ for each in parts], fitted.delta)
        assert privacy_of(fitted).epsilon == pytest.approx(total.epsilon, rel=1e-9)
        assert privacy_of(fitted).outside == ()
        assert privacy_of(pickle.loads(pickle.dumps(fitted))).epsilon == privacy_of(fitted).epsilon
    assert privacy_of([first, second]).epsilon == privacy_of(second).epsilon  # each once
    # one that promises nothing leaves nothing to promise
    exact = binary.fit(epsilon=math.inf, solver="exact")
    assert privacy_of(binary.fit(start=exact)).epsilon == math.inf
    # another fit of the same object begins without
    assert privacy_of(second.fit(*binary.data)).epsilon <= 1.0


def test_a_ledger_counts_a_start_once_wherever_it_was_fitted(binary, tmp_path):
    before = binary.fit(epsilon=0.5)
    path = tmp_path / "ledger"
    with PrivacyLedger(5.0, 1e-6, path=path) as ledger:
        inside = binary.fit(epsilon=0.7)
        binary.fit(epsilon=0.3, start=inside)
        assert [row.what for row in ledger.rows] == ["DPWorstGroupClassifier"] * 2
        binary.fit(epsilon=0.3, start=before)
        binary.fit(epsilon=0.3, start=FrozenEstimator(before))
        whats = [row.what for row in ledger.rows]
        assert whats.count("start: DPWorstGroupClassifier") == 1
        assert len(whats) == 5
        binary.fit(epsilon=0.3, start=(before.coef_, before.intercept_))
        assert len(ledger.rows) == 6
        assert all(row.state == "spent" for row in ledger.rows)
    other = pickle.loads(pickle.dumps(before))
    with PrivacyLedger(5.0, 1e-6, path=path) as ledger:
        binary.fit(epsilon=0.3, start=other)
        assert len(ledger.rows) == 7
    with PrivacyLedger(0.6, 1e-6) as small:
        with pytest.raises(BudgetExceededError, match="Nothing was spent"):
            binary.fit(epsilon=0.5, start=before)
        assert small.rows == []


# --- what a bad start costs --------------------------------------------------------------------


def far_world(slope, radius=0.5, size=4000):
    """Return one group with a linear loss: the optimum is at the end of the ball."""
    problem = Problem(Huber(0.5), (size,), 1, radius, (1.0,), 0.0)
    return problem, make_data(problem, np.full((size, 1), slope), np.ones(size))


@pytest.mark.parametrize("make", [MGR, AGS, PhasedERM], ids=lambda make: make.name)
def test_a_bad_start_costs_no_more_than_is_stated(make):
    """(D/a)² times the planning bound, for the worst slope of a linear loss and D = 2R."""
    worst, solver = 0.0, make()
    for slope in np.geomspace(0.02, 0.3, 6):
        problem, data = far_world(slope)
        plan = solver.plan(problem, Budget(1.0, 1e-6))
        end, excess = np.array([problem.radius]), []
        for seed in range(3):
            noise = seeded(seed, plan.releases)
            result = solver.run(plan, data, noise, start=Solution(-end, None, 0))
            excess.append(0.5 * slope * float((end - result.weights)[0]))
        worst = max(worst, np.mean(excess) / plan.predicted_excess)
    # the bound of phased ERM is a model, and up to twice as much was seen
    factor = (2.0 / 0.3) ** 2 * (2.0 if make is PhasedERM else 1.0)
    assert worst <= factor
    assert worst > 2.0  # a bad start does cost more than a plan promises for a good one
