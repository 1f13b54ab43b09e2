from __future__ import annotations

import math
import pickle
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import beta, uniform
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler, TargetEncoder

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import (
    BudgetExceededError,
    DataNormWarning,
    SeededNoiseWarning,
    UnsupportedMechanismError,
)
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.ledger.charge import paid_for
from sklearn_dpwg.ledger.learning_steps import learning_steps
from sklearn_dpwg.metrics import worst_group_scorer
from sklearn_dpwg.model_selection import DPSearchCV, dp_search_cv
from sklearn_dpwg.model_selection._search_steps import noisy_score, record_scores, split
from sklearn_dpwg.model_selection.search_plan import count_runs, plan_search
from sklearn_dpwg.preprocessing import BoundedScaler, DPStandardScaler
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Release
from sklearn_dpwg.solvers import MGR

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::sklearn_dpwg.exceptions.{name}")
    for name in ("SeededNoiseWarning", "WeakPlanWarning", "DeltaWarning")
]

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(600, 2))
GROUPS = np.where(X[:, 1] > 0.2, "a", "b")
Y = np.where(X[:, 0] + 0.1 * RNG.normal(size=600) > 0, "yes", "no")
GRID = {"radius": [0.5, 5.0]}


def model(**parameters):
    return DPWorstGroupClassifier(**{"solver": MGR(n_steps=2), "data_norm": 1.0} | parameters)


def search(estimator=None, grid=None, **parameters):
    return DPSearchCV(
        model() if estimator is None else estimator,
        GRID if grid is None else grid,
        **{"epsilon": 2.0, "n_iter": 3} | parameters,
    )


@pytest.mark.parametrize("distribution", ["geometric", "logarithmic"])
@pytest.mark.parametrize(("epsilon", "mean"), [(0.3, 2.0), (1.0, 5.0), (4.0, 20.0), (1.0, 1.0)])
def test_a_plan_that_anyone_can_compute_again(distribution, epsilon, mean):
    budget = Budget(epsilon, 1e-6)
    plan = plan_search(budget, mean_runs=mean, distribution=distribution)
    shape = {"geometric": 1.0, "logarithmic": 0.0}[distribution]
    mu = Budget(plan.run_epsilon, plan.run_delta).mu
    runs = [dp_event.GaussianDpEvent(1 / mu), dp_event.LaplaceDpEvent(plan.score_multiplier)]
    for run in runs:
        accountant = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
        total = accountant.compose(dp_event.RepeatAndSelectDpEvent(run, mean, shape))
        # dp_accounting's default orders are fewer
        assert 0.99 * epsilon < total.get_epsilon(1e-6) < 1.05 * epsilon
    assert plan.guarantee.epsilon <= epsilon
    assert plan.run_epsilon < epsilon
    assert f"{plan.run_epsilon:.4g}" in str(plan)
    assert "RdpAccountant(neighboring_relation=" in str(plan)


def test_more_runs_leave_less_for_each():
    epsilons = [
        plan_search(Budget(1.0, 1e-6), mean_runs=mean, distribution="geometric").run_epsilon
        for mean in (1, 2, 5, 20, 100)
    ]
    assert epsilons == sorted(epsilons, reverse=True)


@pytest.mark.parametrize("distribution", ["geometric", "logarithmic"])
@pytest.mark.parametrize("mean", [1.0, 1.5, 6.0])
def test_number_of_runs(distribution, mean):
    plan = plan_search(Budget(1.0, 1e-6), mean_runs=mean, distribution=distribution)
    rng = np.random.default_rng(1)
    counts = np.array([count_runs(plan, rng) for _ in range(4000)])
    assert counts.min() == 1
    assert counts.mean() == pytest.approx(mean, abs=5 * counts.std() / math.sqrt(4000) + 1e-9)
    if mean > 1.0:  # the truncated negative binomial of Papernot and Steinke, Definition 1
        success = brentq(lambda g: (g - 1.0) / (g * math.log(g)) - mean, 1e-9, 1.0 - 1e-9)
        of_one = {"geometric": 1.0 / mean, "logarithmic": success * mean}[distribution]
        assert np.mean(counts == 1) == pytest.approx(of_one, abs=0.04)


def test_search():
    found = search(random_state=0).fit(X, Y, GROUPS)
    assert found.best_params_ in [{"radius": 0.5}, {"radius": 5.0}]
    assert found.best_estimator_.radius == found.best_params_["radius"]
    assert found.best_estimator_.epsilon == found.plan_.run_epsilon
    assert found.privacy_.seeded
    assert found.privacy_.epsilon == found.plan_.guarantee.epsilon <= 2.0
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.n_features_in_ == 2
    assert np.array_equal(found.predict(X), found.best_estimator_.predict(X))
    assert found.predict_proba(X).shape == (600, 2)
    assert found.decision_function(X).shape == (600,)
    assert found.score(X, Y) == np.mean(found.predict(X) == Y)
    again = search(random_state=0).fit(X, Y, GROUPS)
    assert again.best_score_ == found.best_score_
    assert pickle.loads(pickle.dumps(found)).best_score_ == found.best_score_


def test_what_the_model_says_it_cost_is_the_whole_search():
    found = search().fit(X, Y, GROUPS)
    assert found.best_estimator_.privacy_ == found.privacy_
    assert privacy_of(found) == privacy_of(found.best_estimator_) == found.privacy_
    assert PrivacyGuarantee.from_json(found.privacy_.to_json()) == found.privacy_


def test_only_the_winner_is_released():
    found = search().fit(X, Y, GROUPS)
    with pytest.raises(AttributeError, match=r"^DPSearchCV has no cv_results_: the budget pays"):
        _ = found.cv_results_
    public = {name for name in vars(found) if name.endswith("_")}
    assert public == {"best_score_", "best_params_", "best_estimator_", "plan_", "privacy_"}


def test_every_run_draws_what_it_planned(monkeypatch):
    draws, runs = [], []
    laplace, count = NoiseSource.laplace, dp_search_cv.count_runs

    def watched(self, value, *, sensitivity, release):
        draws.append((value, sensitivity, release))
        return laplace(self, value, sensitivity=sensitivity, release=release)

    monkeypatch.setattr(NoiseSource, "laplace", watched)
    monkeypatch.setattr(
        dp_search_cv, "count_runs", lambda *args: runs.append(count(*args)) or runs[-1]
    )
    found = search(n_iter=6, random_state=1).fit(X, Y, GROUPS)
    assert len(draws) == runs[0] > 1
    held_out = math.ceil(0.2 * np.count_nonzero(GROUPS == "a"))
    for value, sensitivity, release in draws:
        assert 0.0 <= value <= 1.0
        assert sensitivity == 1.0 / held_out
        assert release.noise_multiplier == found.plan_.score_multiplier


def test_warnings_do_not_tell_the_number_of_runs(monkeypatch):
    for n_runs in (1, 7):
        monkeypatch.setattr(dp_search_cv, "count_runs", lambda *args, n=n_runs: n)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            search(random_state=0).fit(X, Y, GROUPS)
        assert [warning.category for warning in caught] == [SeededNoiseWarning]


class Known:
    """A model whose scores are known."""

    def fit(self, *args, **kwargs):
        return self

    def predict(self, X):
        return np.asarray(X)[:, 0]


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_no_record_moves_a_score_by_more_than_its_sensitivity(data):
    n_groups = data.draw(st.integers(1, 3))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=n_groups, max_size=n_groups))
    codes = np.repeat(np.arange(n_groups), sizes)
    scores = np.array(
        data.draw(st.lists(st.floats(0, 1), min_size=len(codes), max_size=len(codes)))
    )
    index = data.draw(st.integers(0, len(codes) - 1))
    plan = plan_search(Budget(1.0, 1e-6), mean_runs=1, distribution="geometric")
    values, bounds = [], []

    def seen(self, value, *, sensitivity, release):
        values.append(value)
        bounds.append(sensitivity)
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoiseSource, "laplace", seen)
        for replacement in (scores[index], data.draw(st.floats(-9, 9))):
            scores[index] = replacement
            noisy_score(
                lambda model, X, y: scores, Known(), plan, None, scores[:, None], scores, codes
            )
    assert abs(values[0] - values[1]) <= bounds[0] * (1 + 1e-12)
    assert bounds[0] == bounds[1] == 1.0 / min(sizes)


@given(st.lists(st.integers(2, 30), min_size=1, max_size=4), st.floats(0.05, 0.5))
def test_parts_are_disjoint_and_hold_every_group(sizes, test_size):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    train, held_out = split(codes, np.arange(len(sizes)), test_size, np.random.default_rng(0))
    assert sorted([*train, *held_out]) == list(range(len(codes)))
    for code, size in enumerate(sizes):
        assert np.count_nonzero(codes[held_out] == code) == math.ceil(test_size * size)


def test_the_better_candidate_is_found():
    grid = {"radius": [0.01, 8.0]}
    big = np.repeat(X, 20, axis=0)
    y, groups = np.repeat(Y, 20), np.repeat(GROUPS, 20)
    estimator = model(solver="auto", loss="log_loss")
    found = [
        search(estimator, grid, epsilon=8.0, n_iter=8, random_state=seed).fit(big, y, groups)
        for seed in range(4)
    ]
    assert sum(one.best_params_["radius"] == 8.0 for one in found) >= 3


def test_regression_and_a_scoring_of_ones_own():
    y = X[:, 0]
    estimator = DPWorstGroupRegressor(solver=MGR(n_steps=2), data_norm=1.0, target_bounds=(-1, 1))
    found = search(estimator, random_state=0).fit(X, y, GROUPS)
    assert 0.5 < found.best_score_ < 1.5
    assert not hasattr(found, "predict_proba")
    mine = search(estimator, scoring=lambda m, X, y: np.full(len(y), 0.25), epsilon=50.0)
    assert mine.fit(X, y, GROUPS).best_score_ == pytest.approx(0.25, abs=0.2)
    with pytest.raises(ValueError, match=r"^scoring must return one number a record, shape"):
        search(estimator, scoring=lambda m, X, y: 0.5).fit(X, y, GROUPS)


def test_pipelines_groups_by_column_and_routing():
    pipe = make_pipeline(BoundedScaler((-0.5, 0.5)), model())
    grid = {"dpworstgroupclassifier__radius": [0.5, 5.0]}
    by_column = search(pipe, grid, group_by=lambda X: np.where(X[:, 1] > 0.2, "a", "b"))
    assert by_column.fit(X, Y).best_estimator_[-1].group_labels_.tolist() == ["a", "b"]
    with config_context(enable_metadata_routing=True):
        outer = make_pipeline(BoundedScaler((-0.5, 0.5)), search(pipe, grid))
        fitted = outer.fit(X, Y, groups=GROUPS)
    assert fitted[-1].best_estimator_[-1].group_labels_.tolist() == ["a", "b"]


def test_a_ledger_counts_the_search_once():
    with PrivacyLedger(3.0, 1e-6) as ledger:
        search(n_iter=6).fit(X, Y, GROUPS)
        assert [row.what for row in ledger.rows] == ["DPSearchCV"]
        assert ledger.epsilon_spent == pytest.approx(2.0, rel=1e-4)
        with pytest.raises(BudgetExceededError):
            search().fit(X, Y, GROUPS)
        model(epsilon=0.5).fit(X, Y, GROUPS)  # and fits outside are counted again
    assert len(ledger.rows) == 2


def test_what_a_scoring_fits_is_charged():
    def scoring(fitted, X, y):
        model(epsilon=50.0, group_by=lambda X: np.ones(len(X)), classes=["no", "yes"]).fit(X, y)
        return fitted.predict(X) == y

    with PrivacyLedger(3.0, 1e-6) as ledger:
        with pytest.raises(BudgetExceededError):
            search(scoring=scoring).fit(X, Y, GROUPS)
        assert not ledger.rows  # it is tried before the first run
    with PrivacyLedger(1000.0, 1e-6) as ledger:
        search(scoring=scoring, n_iter=1.0).fit(X, Y, GROUPS)
        assert {row.what for row in ledger.rows} == {"DPSearchCV", "DPWorstGroupClassifier"}


def test_what_a_step_of_a_candidate_fits_is_charged():
    """Nor does a fit that is paid for pay for a second one of the same object."""

    fitted = []

    def fits_inside(rows):
        again = model(epsilon=50.0, group_by=lambda X: np.ones(len(X)))
        fitted.append(again.fit(rows, (rows[:, 0] > 0).astype(int)))
        return rows

    estimator = make_pipeline(FunctionTransformer(fits_inside), model())
    with PrivacyLedger(3.0, 1e-6) as ledger:
        with pytest.raises(BudgetExceededError):
            search(estimator, grid={"dpworstgroupclassifier__radius": [1.0, 2.0]}, n_iter=1.0).fit(
                X, Y, GROUPS
            )
        assert fitted == []  # what is paid for is the model's own fit, not the first that comes
        assert {row.what for row in ledger.rows} <= {"DPSearchCV"}

    twice = model()
    with PrivacyLedger(50.0, 1e-6) as ledger, paid_for(twice):
        twice.fit(X, Y, groups=GROUPS)
        assert len(ledger.rows) == 0
        twice.fit(X, Y, groups=GROUPS)
        assert len(ledger.rows) == 1


def test_distributions():
    found = search(grid=[{"radius": uniform(1.0, 2.0)}, {"data_norm": [0.5]}]).fit(X, Y, GROUPS)
    assert set(found.best_params_) <= {"radius", "data_norm"}


class Laplacian:
    guarantee = PrivacyGuarantee.from_releases([Release("r", "laplace", 2.0, max_count=1)], 1e-6)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n_iter": 0.5}, ValueError, "^n_iter must be"),
        ({"epsilon": math.inf}, ValueError, "^epsilon must be finite"),
        ({"epsilon": -1}, ValueError, "^epsilon must be positive"),
        ({"distribution": "poisson"}, ValueError, "^distribution must be one of"),
        ({"scoring": "r2"}, ValueError, "^scoring must be"),
        ({"test_size": 1.0}, ValueError, "^test_size must be a share"),
        ({"test_size": 0.999}, ValueError, "^group 'a' has .* too few to hold out"),
        ({"group_by": 0}, ValueError, "^groups were passed and group_by is set"),
        ({"estimator": LogisticRegression()}, TypeError, "^estimator must be a private estimator"),
        ({"estimator": make_pipeline(StandardScaler(), model())}, ValueError,
         "got one with StandardScaler"),
        ({"estimator": make_pipeline(DPStandardScaler(), model())}, ValueError,
         "got one with DPStandardScaler"),
        ({"estimator": model(group_by=0)}, ValueError, "^group_by of the estimator must be None"),
        ({"grid": {"epsilon": [1.0]}}, ValueError, "must leave epsilon and delta to the search"),
        ({"grid": {"no": [1.0]}}, ValueError, "Invalid parameter 'no'"),
    ],
)  # fmt: skip
def test_what_is_refused_before_anything_is_spent(changes, error, message):
    with PrivacyLedger(100.0, 1e-6) as ledger, pytest.raises(error, match=message):
        search(**changes).fit(X, Y, GROUPS)
    assert not ledger.rows


def test_without_groups():
    with pytest.raises(ValueError, match=r"^groups must be given to fit, or group_by set"):
        search().fit(X, Y)


def test_candidates_that_cannot_be_accounted_for_are_refused_by_name(monkeypatch):
    monkeypatch.setattr(DPWorstGroupClassifier, "plan", lambda self, **facts: Laplacian)
    with pytest.raises(UnsupportedMechanismError, match=r"^the candidate \{'radius': 0.5\} has"):
        search().fit(X, Y, GROUPS)


def test_one_group_with_few_records_is_named():
    with pytest.raises(ValueError, match=r"^group 'c' has 1 record\(s\), too few"):
        search().fit(X, Y, np.where(np.arange(600) == 3, "c", GROUPS))


@pytest.mark.parametrize("seed", range(8))
def test_classes_are_those_of_all_records_not_of_the_part_fitted_on(seed):
    rare = Y.astype(object)
    rare[0] = "rare"  # held out, or fitted on: a coin decides
    found = search(random_state=seed, n_iter=1).fit(X, rare, GROUPS)
    assert found.classes_.tolist() == ["no", "rare", "yes"]
    lonely = np.where(np.arange(600) == 5, "yes", "no")
    assert search(random_state=seed, n_iter=1).fit(X, lonely, GROUPS).classes_.size == 2


def test_an_encoder_of_targets_learns_whatever_its_categories():
    front = TargetEncoder(categories=[["a"], ["b"]])
    with pytest.raises(ValueError, match=r"learn nothing .* got one with TargetEncoder"):
        search(make_pipeline(front, model()), {"dpworstgroupclassifier__radius": [1.0]}).fit(
            X, Y, GROUPS
        )
    assert learning_steps(OneHotEncoder(categories=[["a"], ["b"]])) == []
    assert learning_steps(OneHotEncoder()) == ["OneHotEncoder"]


def test_nothing_tells_the_number_of_runs(capsys):
    class Listener:
        heard = 0

        def setup(self, estimator, context):
            type(self).heard += 1

        teardown = on_fit_task_begin = on_fit_task_end = setup

    loud = make_pipeline(BoundedScaler((-1, 1)), model(verbose=True), verbose=True)
    for each in (loud, loud[-1]):
        if hasattr(each, "set_callbacks"):
            each.set_callbacks(Listener())
    search(loud, {"dpworstgroupclassifier__radius": [1.0, 2.0]}, n_iter=8).fit(X, Y, GROUPS)
    assert capsys.readouterr().out == ""
    assert Listener.heard == 0
    search(model(verbose=3), {"verbose": [1, 2]}).fit(X, Y, GROUPS)
    assert capsys.readouterr().out == ""


def test_a_record_that_no_prediction_survives_scores_nothing():
    class Broken:
        target_bounds = (-1, 1)

        def predict(self, X):
            return np.array([np.nan, 0.5, np.inf])

    scores = record_scores("absolute_error", Broken(), None, np.array([0.5, 0.5, 1.0]))
    assert scores.tolist() == [0.0, 1.0, 1.0]


@pytest.mark.audit
@pytest.mark.parametrize("planted", [False, True])
def test_audit_of_the_selection(planted, monkeypatch, capsys):
    """Attack the best of many noisy scores with the record that moves it most."""
    unfitted = SimpleNamespace(guarantee=None)
    monkeypatch.setattr(
        DPSearchCV, "_fit", lambda self, candidate, *args: setattr(candidate, "plan_", unfitted)
    )
    # what a candidate is does not matter to its score
    monkeypatch.setattr(DPSearchCV, "_candidate", lambda self, *args: SimpleNamespace())
    monkeypatch.setattr(dp_search_cv, "check_releases", lambda *args: None)
    monkeypatch.setattr(dp_search_cv, "final_step", lambda estimator: estimator)
    monkeypatch.setattr(dp_search_cv, "split", lambda codes, *rest: (np.arange(1), np.arange(1, 2)))
    multiplier = 0.2 if planted else 1.0
    plan = plan_search(Budget(1.0, 1e-6), mean_runs=10, distribution="geometric")
    plan = replace(plan, score_multiplier=multiplier * plan.score_multiplier)
    monkeypatch.setattr(dp_search_cv, "plan_search", lambda *args, **kwargs: plan)
    n_trials, best = 3000, {}
    for score in (0.0, 1.0):
        chosen = search(epsilon=1.0, n_iter=10, scoring=lambda m, X, y, s=score: np.full(len(y), s))
        best[score] = np.array(
            [chosen.fit(X[:2], Y[:2], np.array(["a", "a"])).best_score_ for _ in range(n_trials)]
        )
    bound = 0.0
    for threshold in np.quantile(np.concatenate([*best.values()]), np.linspace(0.02, 0.98, 25)):
        for hits, misses in ((best[1.0] > threshold, best[0.0] > threshold),
                             (best[0.0] <= threshold, best[1.0] <= threshold)):  # fmt: skip
            low = beta.ppf(5e-4, hits.sum(), n_trials - hits.sum() + 1)
            high = beta.ppf(1 - 5e-4, misses.sum() + 1, n_trials - misses.sum())
            if low > 1e-6:
                bound = max(bound, math.log((low - 1e-6) / high))
    with capsys.disabled():
        kind = "planted fault" if planted else "sound code"
        sys.stdout.write(f"\n  private search, {kind}: epsilon >= {bound:.2f}, claimed 1")
    assert (bound > 1.0) is planted


def test_runs_and_candidates_follow_from_no_other_randomness(monkeypatch):
    """Whoever knew who is held out, all that the public generator gives, would know no run."""

    def runs_after(n_public, seed=None):
        """How many runs there are and which candidates they take, without fitting any."""
        asked, drawn = [], []

        def spoil(codes, labels, test_size, rng):
            parts = split(codes, labels, test_size, rng)
            rng.random(n_public)
            return parts

        def count(plan, coins):
            drawn.append([count_runs(plan, coins), *coins.integers(2**32, size=20)])
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("secrets.randbits", lambda bits: asked.append(bits) or 5)
            patch.setattr(dp_search_cv, "split", spoil)
            patch.setattr(dp_search_cv, "count_runs", count)
            with pytest.raises(KeyboardInterrupt):
                search(random_state=seed).fit(X, Y, GROUPS)
        assert asked.count(256) == (seed is None)
        return drawn

    assert runs_after(0) == runs_after(7)
    assert runs_after(0, seed=3) == runs_after(7, seed=3) != runs_after(0, seed=4)


def test_lists_are_searched_like_arrays():
    listed = search(random_state=0).fit(X.tolist(), Y.tolist(), GROUPS.tolist())
    expected = search(random_state=0).fit(X, Y, GROUPS)
    assert listed.best_score_ == expected.best_score_
    np.testing.assert_array_equal(listed.best_estimator_.coef_, expected.best_estimator_.coef_)


# --- tried before anything is spent ---------------------------------------------------------------


def failing(fitted, X, y):
    raise ZeroDivisionError("of a scoring")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"scoring": worst_group_scorer()}, ValueError, "^no groups reached the scorer"),
        (
            {"scoring": worst_group_scorer(group_by=lambda rows: np.asarray(rows)[:, 1] > 0.2)},
            ValueError,
            r"^scoring must return one number a record, shape \(\d+,\), got shape \(\)",
        ),
        ({"scoring": lambda fitted, X, y: 0.5}, ValueError, "^scoring must return one number"),
        ({"scoring": lambda fitted, X: np.ones(len(X))}, TypeError, "takes 2 positional arguments"),
        ({"scoring": failing}, ZeroDivisionError, "of a scoring"),
        ({"grid": {"radius": [1.0, -2.0]}}, ValueError, "^radius must be a positive finite number"),
        ({"grid": {"radius": uniform(-3.0, 1.0)}}, ValueError, "^radius must be a positive finite"),
    ],
)
def test_what_shows_in_a_run_is_refused_before_the_first(changes, error, message):
    with PrivacyLedger(100.0, 1e-6) as ledger:
        with pytest.raises(error, match=message) as caught:
            search(**changes).fit(X, Y, GROUPS)
        assert not ledger.rows
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("wrap", [lambda model: model, make_pipeline])
def test_wrong_rows_are_refused_before_the_first_run(wrap):
    rows = pd.DataFrame(X, columns=["u", "v"]).assign(day=pd.Timestamp("2020-01-01"))
    with PrivacyLedger(100.0, 1e-6) as ledger:
        with pytest.raises(ValueError, match=r"^X must hold numbers, got dates or times in colum"):
            search(wrap(model()), grid={}).fit(rows, Y, GROUPS)
        assert not ledger.rows


def test_an_unsaid_data_norm_warns_before_the_first_run():
    with PrivacyLedger(100.0, 1e-6) as ledger:
        with pytest.raises(DataNormWarning):
            search(model(data_norm=None)).fit(X, Y, GROUPS)
        assert not ledger.rows
        search(model(data_norm=None), grid={"data_norm": [0.5, 1.0]}).fit(X, Y, GROUPS)


def test_an_error_in_a_later_run_says_that_the_budget_is_spent():
    calls = []

    def scoring(fitted, X, y):
        calls.append(fitted.coef_.any())
        if len(calls) > 1:
            raise ZeroDivisionError
        return fitted.predict(X) == y

    with PrivacyLedger(100.0, 1e-6) as ledger:
        with pytest.raises(ZeroDivisionError) as caught:
            search(scoring=scoring).fit(X, Y, GROUPS)
        assert [row.what for row in ledger.rows] == ["DPSearchCV"]
    assert calls == [False, True]  # the first model learned nothing
    assert caught.value.__notes__ == [
        "Noisy values had been released before this error: count the budget of this search, "
        "epsilon=2 and delta=1e-06, as spent."
    ]
