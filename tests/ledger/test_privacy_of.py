"""The total of what was fitted inside something."""

from __future__ import annotations

import copy
import math
import re
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sklearn import clone
from sklearn import model_selection as of_sklearn
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV, cross_validate
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import NoProtectionWarning, UnsupportedMechanismError
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.ledger.costs import learning_steps
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.preprocessing import BoundedScaler, DPStandardScaler
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.privacy.gaussian import gdp_epsilon, gdp_mu
from sklearn_dpwg.solvers import MGR
from tests.helpers.ledger_cases import DELTA, RNG, X, Y, ones
from tests.helpers.relations import WITHIN_GROUP

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::sklearn_dpwg.exceptions.{name}Warning")
    for name in ("SeededNoise", "WeakPlan", "NoProtection")
]

LABELS = np.where(X[:, 0] + 0.2 * RNG.normal(size=400) > 0, "yes", "no")


def model(kind=DPWorstGroupRegressor, **parameters):
    bounds = {"target_bounds": (-1, 1)} if kind is DPWorstGroupRegressor else {}
    public = {"data_norm": 1.0, "solver": MGR(n_steps=3), "delta": DELTA, "group_by": ones}
    return kind(**public | bounds | parameters)


def epsilon_of_fits(*epsilons):
    return gdp_epsilon(DELTA, math.hypot(*(gdp_mu(epsilon, DELTA) for epsilon in epsilons)))


def silently(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoProtectionWarning)
        return privacy_of(fitted)


def test_groupings_of_every_fit_are_named():
    """Those of the folds too, which are gone and were planned again."""
    grid = {"group_by": [ones, lambda rows: np.arange(len(rows)) % 2]}
    search = GridSearchCV(model(**WITHIN_GROUP), grid, cv=2, scoring="neg_mean_absolute_error")
    search.fit(X, Y)
    assert set(privacy_of(search, warn=False).groupings) == {"function ones", "function <lambda>"}
    hidden = search.set_params(estimator__neighbours="replace-one").fit(X, Y)
    assert privacy_of(hidden, warn=False).groupings == ()
    search.set_params(estimator__neighbours="replace-one-within-group").fit(X, Y)
    passed = model(group_by=None, **WITHIN_GROUP).fit(X, Y, groups=ones(X))
    assert privacy_of(passed).groupings == ("groups passed to fit",)
    both = privacy_of([search.best_estimator_, passed])
    assert both.groupings == (*search.best_estimator_.privacy_.groupings, "groups passed to fit")


def test_pipeline():
    steps = FunctionTransformer(), BoundedScaler(), DPStandardScaler(0.5, DELTA), model()
    pipe = make_pipeline(*steps).fit(X, Y)
    stated = silently(pipe)
    assert stated.epsilon == pytest.approx(epsilon_of_fits(0.5, 1.0), rel=1e-5)
    pipe.set_params(dpstandardscaler__delta=1e-4).fit(X, Y)
    assert silently(pipe).delta == DELTA  # that of the model
    assert silently(pipe).epsilon > stated.epsilon
    assert set(stated.public) >= {*pipe[-1].privacy_.public, *pipe[-2].privacy_.public}
    assert PrivacyGuarantee.from_json(stated.to_json()) == stated


def test_targets_that_a_public_function_transforms():
    made = TransformedTargetRegressor(model(target_bounds=(0, 1)), func=np.exp, inverse_func=np.log)
    fitted = made.set_params(check_inverse=False).fit(X, Y)
    assert silently(fitted).epsilon == pytest.approx(1.0, rel=1e-5)
    learned = TransformedTargetRegressor(model(), transformer=StandardScaler()).fit(X, Y)
    assert privacy_of(learned, warn=False).outside == ("StandardScaler: all that it learned",)


def scaled(final):
    """Return a pipeline with a private step below the surface."""
    columns = ColumnTransformer(
        [("one", DPStandardScaler(0.7, DELTA), [0])], remainder=DPStandardScaler(0.6, DELTA)
    )
    return Pipeline([("columns", columns), ("model", final)])


def folds(fitted):
    return cross_validate(fitted, X, LABELS, cv=2, return_estimator=True)["estimator"]


def searched(final, kind=GridSearchCV, **settings):
    return kind(scaled(final), {"model__epsilon": [0.5, 1.0]}, cv=2, **settings)


def calibrated(final, **settings):
    return CalibratedClassifierCV(scaled(final), cv=2, **settings)


def tuned(final):
    return TunedThresholdClassifierCV(scaled(final), cv=2)


def bagged(final):
    return BaggingClassifier(scaled(final), n_estimators=2, bootstrap=False, random_state=0)


def outer(inner, **values):
    return GridSearchCV(inner, values, cv=2)


def halving(final):
    kind = of_sklearn.HalvingGridSearchCV
    return searched(final, kind, min_resources=200, random_state=0)


UNION = FeatureUnion([("one", DPStandardScaler(0.7, DELTA))])
# every meta-estimator of the page, and some in each other
FITS = {
    "Pipeline": lambda m: make_pipeline(DPStandardScaler(0.7, DELTA), m),
    "Pipeline with a ColumnTransformer": scaled,
    "GridSearchCV": searched,
    "RandomizedSearchCV": lambda m: searched(m, of_sklearn.RandomizedSearchCV, n_iter=2),
    "HalvingGridSearchCV": halving,
    "CalibratedClassifierCV": calibrated,
    "TunedThresholdClassifierCV": tuned,
    "BaggingClassifier(bootstrap=False)": bagged,
    "CalibratedClassifierCV(ensemble=False)": lambda m: calibrated(m, ensemble=False),
    "calibration in grid": lambda m: outer(calibrated(m), ensemble=[True, False]),
    "threshold in grid": lambda m: outer(tuned(m), cv=[2]),
    "bagging in grid": lambda m: outer(bagged(m), n_estimators=[1, 2]),
    "threshold of a frozen model": lambda m: tuned(FrozenEstimator(m.fit(X, LABELS))),
    "a private search in grid": lambda m: outer(
        DPSearchCV(m.set_params(group_by=None), {"radius": [1.0, 2.0]}, group_by=ones),
        epsilon=[0.5, 1.0],
    ),
    "threshold of a union": lambda m: TunedThresholdClassifierCV(make_pipeline(UNION, m), cv=2),
    "VotingClassifier": lambda m: VotingClassifier([("a", scaled(m)), ("b", clone(m))]),
    "OneVsRestClassifier": lambda m: OneVsRestClassifier(scaled(m)),
    "MultiOutputClassifier": lambda m: MultiOutputClassifier(scaled(m)),
    "a step that is replaced": lambda m: outer(
        scaled(m), columns=[DPStandardScaler(0.9, DELTA), "passthrough"]
    ),
}
ON_FOLDS = {"cross_validate": scaled, "nested cross-validation": searched}
# functions that give back no models to add up
NOTHING_KEPT = {"cross_val_predict", "learning_curve", "permutation_importance"}
# `privacy_of` refuses it, and a scorer changes nothing of what was fitted
ELSEWHERE = {"StackingClassifier", "TunedThresholdClassifierCV with worst_group_scorer"}


@pytest.mark.parametrize("name", [*FITS, *ON_FOLDS])
def test_no_fit_is_left_out(name):
    made = {**FITS, **ON_FOLDS}[name](model(DPWorstGroupClassifier))
    with PrivacyLedger(100.0, DELTA) as book:
        labels = np.column_stack([LABELS, LABELS[::-1]]) if "Output" in name else LABELS
        fitted = folds(made) if name in ON_FOLDS else made.fit(X, labels)
    stated = privacy_of(fitted, warn=False)
    assert stated.epsilon >= book.epsilon_spent * (1 - 1e-5)
    assert stated.epsilon <= book.epsilon_spent * 1.35  # an inner refit counts as the dearest
    assert not any("not counted" in text for text in stated.outside)


def test_every_meta_estimator_of_the_page_is_held_against_a_ledger():
    page = Path(__file__).parents[2] / "docs" / "guide" / "pipelines.md"
    rows = re.findall(r"^\| `?([^|`]+?)`? \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) - {"meta-estimator"} <= {*FITS, *ON_FOLDS, *NOTHING_KEPT, *ELSEWHERE}


@pytest.mark.parametrize(
    "inner",
    [
        BaggingRegressor(model(), n_estimators=2),  # a bootstrap in folds
        GridSearchCV(model(), {"epsilon": [0.5, 1.0]}, cv=2),
        of_sklearn.RandomizedSearchCV(model(), {"epsilon": [0.5, 1.0]}, cv=2, n_iter=1),
    ],
)
def test_inner_fits_that_cannot_be_known(inner):
    search = GridSearchCV(inner, {}, cv=2).fit(X, Y)
    with pytest.raises(UnsupportedMechanismError, match="run the search inside a PrivacyLedger"):
        privacy_of(search, warn=False)


@pytest.mark.parametrize("final", [None, LinearRegression()])
def test_private_fits_on_folds_count_where_the_best_did_without(final):
    """Of two searches each, though no key of the winner tells them apart."""
    frozen = final or FrozenEstimator(model(DPWorstGroupClassifier).fit(X, LABELS))
    steps = Pipeline([("scale", "passthrough"), ("model", frozen)])
    grid = {"scale": [DPStandardScaler(0.5, DELTA), "passthrough"]}
    public_is_best = {"scoring": lambda fitted, X, y: -float(hasattr(fitted[0], "privacy_"))}
    searches = [
        GridSearchCV(steps, grid, cv=2, **public_is_best).fit(X, Y if final else LABELS)
        for _ in "ab"
    ]
    total = privacy_of(searches, warn=False).epsilon
    before = () if final else (1.0,)
    assert total == pytest.approx(epsilon_of_fits(*before, *[0.5] * 4), rel=1e-4)
    if final is None:
        twice = [searches[0], copy.deepcopy(searches[0])]
        assert privacy_of(twice, warn=False).epsilon < total


class LookAlike(BaseEstimator):
    """Another library's: it has an attribute of one that is known, and fits what it likes."""

    def __init__(self, name=None, value=None):
        self.name, self.value = name, value

    def fit(self, X, y=None):
        setattr(self, self.name, self.value)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X


NAMES = [
    *("steps", "transformers", "transformers_", "transformer_list", "cv_results_", "privacy_"),
    *("calibrated_classifiers_", "best_threshold_", "estimators_samples_", "estimators_"),
    *("best_estimator_", "estimator_", "plan", "categories", "_learns_from_records"),
]


def test_what_looks_like_something_known_has_learned_all_the_same():
    inner = model().fit(X, Y)
    values = ([], False, [("one", BoundedScaler())], BoundedScaler())
    for name, value in product(NAMES, values):
        step = LookAlike(name, value).fit(X)
        assert learning_steps(step) == ["LookAlike"]
        fitted = Pipeline([("step", step), ("model", inner)])
        assert privacy_of(fitted, warn=False).outside == ("LookAlike: all that it learned",)


@pytest.mark.parametrize(
    "around",
    [
        lambda m: StackingClassifier([("a", m)], cv=2),
        lambda m: OneVsOneClassifier(m),
        lambda m: RFE(m),
        lambda m: LookAlike("estimator_", m),
        # derived classes may fit more than they keep
        lambda m: type("TwicePipeline", (Pipeline,), {})([("model", m)]),
        lambda m: type("TwiceSearch", (GridSearchCV,), {})(m, {"epsilon": [1.0]}, cv=2),
        lambda m: type("ThawedEstimator", (FrozenEstimator,), {})(m),
        lambda m: type("TwiceVoting", (VotingClassifier,), {})([("model", m)]),
    ],
)
def test_what_cannot_be_counted_is_refused_and_not_understated(around):
    one = model(DPWorstGroupClassifier, group_by=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = around(one.fit(X, LABELS)).fit(X, LABELS)
    for each in (fitted, [one, fitted], make_pipeline(fitted)):
        with pytest.raises(UnsupportedMechanismError, match="run it inside a PrivacyLedger"):
            privacy_of(each, warn=False)


NOTHING = (LinearRegression().fit(X, Y), 5, [], None, "model")


@pytest.mark.parametrize(
    ("other", "text"),
    [
        *((each, "fitted holds no private fit, got ") for each in NOTHING),
        (GridSearchCV(model(), {"epsilon": [1.0]}, cv=2, refit=False).fit(X, Y), ".*refit=False"),
    ],
)
def test_nothing_private_inside(other, text):
    with pytest.raises(ValueError, match=f"^{text}"):
        privacy_of(other)


def thresholds(of, **parameters):
    facts = {"epsilon": 0.5, "delta": DELTA, "group_by": ones} | parameters
    return DPThresholdClassifier(FrozenEstimator(of), **facts).fit(X, LABELS)


LEARNED = "LogisticRegression: all that it learned"


@pytest.mark.parametrize(
    "around",
    [
        lambda inner: inner,
        lambda inner: [model(DPWorstGroupClassifier).fit(X, LABELS), inner],
        lambda inner: make_pipeline(BoundedScaler(), FrozenEstimator(inner)).fit(X, LABELS),
        thresholds,
        lambda inner: audit_of(same_records_as=inner),
        lambda inner: audit_of(same_records_as=inner.privacy_),
    ],
    ids=["itself", "list", "pipeline", "wrapper", "audit", "audit by its guarantee"],
)
def test_what_a_part_leaves_outside_stays_outside(around):
    inner = thresholds(LogisticRegression().fit(X, LABELS))
    assert inner.privacy_.outside == (LEARNED,)
    fitted = around(inner)
    assert LEARNED in privacy_of(fitted, warn=False).outside
    assert LEARNED in getattr(fitted, "privacy_", inner.privacy_).outside


def audit_of(**facts):
    labels = (LABELS == "yes").astype(int)
    audit = GroupAudit(0.5, DELTA, group_labels=[1.0, 2.0])
    return audit.run(labels, labels, ones(X), kind="decisions", **facts)


def test_a_fit_that_stands_in_two_places_counts_once():
    first = model(DPWorstGroupClassifier).fit(X, LABELS)
    audited = audit_of(same_records_as=first)
    assert privacy_of([first, audited]) == audited.privacy_
    around = thresholds(first)
    assert privacy_of([first, around, FrozenEstimator(around)]).epsilon == around.privacy_.epsilon
    # each record is in one of two parts, by the caller's word: what else was fitted adds to that
    held_out = thresholds(first, held_out=True)
    assert privacy_of(held_out).epsilon == held_out.privacy_.epsilon
    assert privacy_of([first, held_out]).epsilon > first.privacy_.epsilon
    # but what the model began with may have learned from the other part
    later = model(DPWorstGroupClassifier).fit(X, LABELS, start=first)
    assert thresholds(later, held_out=True).privacy_ == thresholds(later).privacy_


def test_of_two_costs_of_one_fit_the_dearer_counts():
    first = model(epsilon=0.5).fit(X, Y)
    later = model().fit(X, Y, start=first)
    (cheap,) = later._start_costs
    dear = cheap._replace(guarantee=model(epsilon=3.0).fit(X, Y).privacy_)
    for starts, total in (([cheap], 0.5), ([cheap, dear], 3.0), ([dear, cheap], 3.0)):
        later._start_costs = starts
        for fitted in ([first, later], [later, first], later):
            stated = privacy_of(fitted)
            assert stated.epsilon == pytest.approx(epsilon_of_fits(total, 1.0), rel=1e-4)


QUIET, LOUD = PolynomialFeatures(), OneHotEncoder()
STATED = OneHotEncoder(categories=[["no", "yes"]])
COLUMNS = ColumnTransformer([("a", BoundedScaler(), [0]), ("b", LOUD, [1])], remainder="drop")


@pytest.mark.parametrize(
    ("step", "learned"),
    [
        (make_pipeline(BoundedScaler(), QUIET, STATED), []),
        (make_pipeline(QUIET, StandardScaler(), LOUD), ["StandardScaler", "OneHotEncoder"]),
        (clone(STATED).set_params(max_categories=2), ["OneHotEncoder"]),
        (COLUMNS, ["OneHotEncoder"]),
        (clone(COLUMNS).fit(X), ["OneHotEncoder"]),
        (FeatureUnion([("a", "passthrough"), ("b", make_pipeline(LOUD))]), ["OneHotEncoder"]),
    ],
)
def test_what_learns_is_named_and_not_what_holds_it(step, learned):
    assert learning_steps(step) == learned
