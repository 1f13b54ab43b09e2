from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context, metrics
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    TunedThresholdClassifierCV,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import GroupsWarning, UngroupedWarning
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.metrics import worst_group_scorer
from sklearn_dpwg.model_selection import DPSearchCV, PublicKFold
from sklearn_dpwg.postprocessing import DPCalibratedClassifier, DPThresholdClassifier
from sklearn_dpwg.solvers import MGR

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
GROUPS = np.repeat(["a", "b", "c"], [30, 20, 10])
Y = (X[:, 0] + np.where(GROUPS == "c", -1.0, 1.0) * X[:, 1] > 0).astype(int)
MODEL = LogisticRegression().fit(X, Y)


def worst(function):
    return [function(group == GROUPS) for group in "abc"]


def test_lowest_of_the_groups():
    by_hand = worst(
        lambda in_group: metrics.accuracy_score(Y[in_group], MODEL.predict(X[in_group]))
    )
    assert min(by_hand) < max(by_hand)
    assert worst_group_scorer()(MODEL, X, Y, groups=GROUPS) == min(by_hand)
    plain = worst_group_scorer(lambda model, X, y: model.score(X, y))
    assert plain(MODEL, X, Y, groups=GROUPS) == min(by_hand)


def test_errors_come_with_a_sign_and_a_group_may_lack_a_class():
    model = LinearRegression().fit(X, X[:, 2] ** 2)
    by_hand = worst(lambda g: -metrics.mean_squared_error(X[g, 2] ** 2, model.predict(X[g])))
    scorer = worst_group_scorer("neg_mean_squared_error")
    assert scorer(model, X, X[:, 2] ** 2, groups=GROUPS) == min(by_hand)
    y = np.where(GROUPS == "c", 1, Y)
    by_hand = worst(lambda g: -metrics.log_loss(y[g], MODEL.predict_proba(X[g]), labels=[0, 1]))
    scorer = worst_group_scorer("neg_log_loss")
    assert scorer(MODEL, X, y, groups=GROUPS) == pytest.approx(min(by_hand))


class Labelled(DummyClassifier):
    """A model that knows which groups there are."""

    def fit(self, X, y, groups=None):
        self.group_labels_ = np.array(["a", "b", "c"], dtype=object)
        return super().fit(X, y)


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: make_pipeline(MaxAbsScaler(), m)])
def test_a_group_that_is_missing(wrap):
    known, some = wrap(Labelled()).fit(X, Y), GROUPS != "c"
    with pytest.raises(ValueError, match=r"^group 'c' has 0 of the records to score"):
        worst_group_scorer()(known, X[some], Y[some], groups=GROUPS[some])
    # a model that knows no groups is scored in those present; a list of labels decides
    present = worst_group_scorer()(MODEL, X[some], Y[some], groups=GROUPS[some])
    assert np.isfinite(present)
    with pytest.raises(ValueError, match=r"^group 'd' has 0"):
        worst_group_scorer(group_labels=["a", "d"])(MODEL, X, Y, groups=GROUPS)


WORDS = np.array(["no", "yes"])
ONE_CLASS = np.where(GROUPS == "c", 0, Y)


@pytest.mark.parametrize("classes", [np.array([0, 1]), WORDS])
@pytest.mark.parametrize(
    "scoring",
    ["recall", "roc_auc", "f1_macro", "matthews_corrcoef",
     metrics.make_scorer(metrics.fbeta_score, beta=2.0),
     lambda model, X, y: np.nan if len(y) == 10 else 1.0],
)  # fmt: skip
def test_the_worst_is_that_of_the_groups_that_have_a_score(scoring, classes):
    y = classes[ONE_CLASS]
    model = LogisticRegression().fit(X, y)
    with pytest.warns(GroupsWarning, match=r"undefined in the groups \['c'\]"):
        result = worst_group_scorer(scoring)(model, X, y, groups=GROUPS)
    only = GROUPS == "c"
    assert result == worst_group_scorer(scoring)(model, X[~only], y[~only], groups=GROUPS[~only])
    with pytest.warns(GroupsWarning, match=r"undefined in the groups \['c'\]"):
        assert np.isnan(worst_group_scorer(scoring)(model, X[only], y[only], groups=GROUPS[only]))


def test_the_positive_class_is_that_of_the_scorer():
    y, predicted = WORDS[Y], WORDS[MODEL.predict(X)]
    model = LogisticRegression().fit(X, y)
    for pos_label in WORDS:
        scorer = worst_group_scorer(metrics.make_scorer(metrics.recall_score, pos_label=pos_label))
        by_hand = worst(
            lambda g, p=pos_label: metrics.recall_score(y[g], predicted[g], pos_label=p)
        )
        assert scorer(model, X, y, groups=GROUPS) == pytest.approx(min(by_hand))


def test_what_is_refused():
    with pytest.raises(ValueError, match="acuracy"):
        worst_group_scorer("acuracy")
    with pytest.raises(ValueError, match=r"^scoring must be"):
        worst_group_scorer(None)
    with pytest.raises(ValueError, match=r"^groups were passed and group_by is set"):
        worst_group_scorer(group_by=0)(MODEL, X, Y, groups=GROUPS)
    with pytest.warns(UngroupedWarning, match=r"^nothing hands groups to this scorer"):
        worst_group_scorer()
    with pytest.raises(RuntimeError, match="enable_metadata_routing=True"):
        worst_group_scorer().set_score_request(groups=True)


# --- metadata -----------------------------------------------------------------------------------


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_folds_by_person_and_scores_by_group():
    scorer = worst_group_scorer().set_score_request(groups="sex", sample_weight="trust")
    params = {"groups": np.arange(60) // 2, "sex": GROUPS, "trust": RNG.uniform(size=60)}
    given = {"cv": GroupKFold(3), "params": params, "error_score": "raise"}
    result = cross_validate(
        LogisticRegression(), X, Y, scoring={"worst": scorer, "all": "accuracy"},
        return_indices=True, return_estimator=True, **given,
    )  # fmt: skip
    for score, model, test in zip(
        result["test_worst"], result["estimator"], result["indices"]["test"], strict=True
    ):
        by_hand = worst_group_scorer()(
            model, X[test], Y[test], groups=GROUPS[test], sample_weight=params["trust"][test]
        )
        assert score == by_hand


@pytest.mark.parametrize("classes", [np.array([0, 1]), WORDS])
@pytest.mark.usefixtures("routing")
def test_thresholds_are_tuned_for_the_worst_group(classes):
    y = classes[Y]
    scorer = worst_group_scorer("balanced_accuracy")
    model = TunedThresholdClassifierCV(
        LogisticRegression(), scoring=scorer, cv="prefit", refit=False, thresholds=20,
        store_cv_results=True,
    )  # fmt: skip
    model.set_params(estimator=LogisticRegression().fit(X, y)).fit(X, y, groups=GROUPS)
    predicted = model.predict(X)
    by_hand = worst(lambda g: metrics.balanced_accuracy_score(y[g], predicted[g]))
    assert model.best_score_ == pytest.approx(min(by_hand))
    with pytest.raises(ValueError, match="no groups reached the scorer"):
        model.fit(X, y)


def private(wrapper, **parameters):
    base = DPWorstGroupClassifier(solver=MGR(n_steps=2), data_norm=4.0, classes=[0, 1])
    return wrapper(base, epsilon=100.0, delta=1e-3, group_labels=list("abc"), **parameters)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: make_pipeline(MaxAbsScaler(), model),
        lambda model: GridSearchCV(model, {"epsilon": [100.0]}, cv=PublicKFold(2)),
    ],
)
@pytest.mark.parametrize(
    ("model", "scoring"),
    [
        (private(DPThresholdClassifier, constraint="selection_rate"), "accuracy"),
        (private(DPCalibratedClassifier), "neg_log_loss"),
    ],
)
@pytest.mark.usefixtures("routing")
def test_models_whose_predictions_take_groups_get_them_by_their_name(model, scoring, wrap):
    for method in ("fit", "predict", "score"):
        getattr(model, f"set_{method}_request")(groups="sex")
    scorer = worst_group_scorer(scoring).set_score_request(groups="sex")
    params = {"groups": np.arange(60) // 2, "sex": GROUPS}
    result = cross_validate(
        wrap(model), X, Y, cv=GroupKFold(2), scoring=scorer, params=params, error_score="raise",
        return_estimator=True, return_indices=True,
    )  # fmt: skip
    assert np.isfinite(result["test_score"]).all()
    if scoring == "accuracy":
        test, fitted = result["indices"]["test"][0], result["estimator"][0]
        inner = getattr(fitted, "best_estimator_", fitted)
        name = "sex" if hasattr(inner, "steps") else "groups"
        hits = inner.predict(X[test], **{name: GROUPS[test]}) == Y[test]
        by_hand = [hits[GROUPS[test] == each].mean() for each in "abc"]
        assert result["test_score"][0] == pytest.approx(min(by_hand))


# --- groups that the model finds ----------------------------------------------------------------


def north(rows):
    return np.where(np.asarray(rows)[:, 1] > 0.0, "north", "south")


class Private(LogisticRegression):
    """A model that finds its groups in the rows that it gets."""

    def __init__(self, group_by=north, C=1.0):
        super().__init__(C=C)
        self.group_by = group_by


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: make_pipeline(model),
        lambda model: make_pipeline(FunctionTransformer(lambda rows: rows[:, [0, 2, 1]]), model),
        lambda model: GridSearchCV(model, {"C": [1.0]}, cv=2),
    ],
)
def test_groups_are_found_as_the_fitted_model_does(wrap):
    model = wrap(Private()).fit(X, Y)
    column = 2 if hasattr(model, "steps") and len(model.steps) == 2 else 1
    groups = np.where(X[:, column] > 0.0, "north", "south")
    expected = worst_group_scorer()(Private().fit(X, Y), X, Y, groups=groups)
    if column == 2:
        expected = worst_group_scorer()(model, X, Y, groups=groups)
    assert worst_group_scorer()(model, X, Y) == expected
    # what is passed or set is taken first
    other = worst_group_scorer()(model, X, Y, groups=GROUPS)
    assert other == worst_group_scorer(group_by=lambda rows: GROUPS)(model, X, Y) != expected


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")
@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
def test_a_search_that_it_cannot_score_stops_after_one_fit():
    private = DPWorstGroupClassifier(solver=MGR(n_steps=2), data_norm=1.0, classes=[0, 1])
    search = GridSearchCV(
        private, {"radius": [1.0, 2.0]}, cv=2, scoring=worst_group_scorer(), error_score="raise"
    )
    with PrivacyLedger(100.0, 1e-4) as ledger:
        with pytest.raises(ValueError, match=r"^no groups .*the fit that it was to score is paid"):
            search.fit(X, Y)
        assert len(ledger.rows) == 1
        search = DPSearchCV(private, {"radius": [1.0, 2.0]}, scoring=worst_group_scorer())
        with pytest.raises(ValueError, match=r"^no groups reached the scorer"):
            search.fit(X, Y, GROUPS)
        assert len(ledger.rows) == 1


# --- records of none of the groups that the model was fitted with -------------------------------


class Placed(Private):
    """A model that knows its groups and finds them."""

    def fit(self, X, y):
        self.group_labels_ = np.unique(self.group_by(X)).astype(object)
        return super().fit(X, y)


SOUTH = X[:, 1] <= 0.0
WRAPS = [
    lambda model: model,
    lambda model: make_pipeline(MaxAbsScaler(), model),
    lambda model: CalibratedClassifierCV(model, cv=2),
    lambda model: BaggingClassifier(model, 2, random_state=0),
    lambda model: GridSearchCV(model, {"C": [1.0]}, cv=2),
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_fold_of_one_unknown_group_is_not_scored_in_silence(wrap):
    """As in the folds of LeaveOneGroupOut."""
    model = wrap(Placed()).fit(X[~SOUTH], Y[~SOUTH])
    for scorer in (worst_group_scorer(), worst_group_scorer(group_by=north)):
        with pytest.raises(ValueError, match=r"^group 'north' has 0 of the records to score"):
            scorer(model, X[SOUTH], Y[SOUTH])


def test_other_groups_than_those_of_the_model_are_scored_with_a_warning():
    model = Labelled().fit(X, Y)
    other = np.where(SOUTH, "south", "north")
    with pytest.warns(GroupsWarning, match=r"^no record to score is .* such as 'a'"):
        result = worst_group_scorer()(model, X, Y, groups=other)
    stated = worst_group_scorer(group_labels=["north", "south"])(model, X, Y, groups=other)
    assert result == stated
    # passed groups may be others than those that the model finds
    with pytest.warns(GroupsWarning):
        worst_group_scorer()(Placed().fit(X, Y), X, Y, groups=GROUPS)
