"""The total of what was fitted inside something."""

from __future__ import annotations

import copy
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, StackingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    LeaveOneOut,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_validate,
    learning_curve,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.exceptions import OutsideGuaranteeWarning, UnsupportedMechanismError
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.preprocessing import BoundedScaler, DPStandardScaler
from sklearn_dpwg.privacy import PrivacyGuarantee, Release, gdp_epsilon, gdp_mu
from sklearn_dpwg.solvers import MGR
from tests.helpers.ledger_cases import DELTA, RNG, X, Y, ones

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::sklearn_dpwg.exceptions.{name}Warning")
    for name in ("SeededNoise", "WeakPlan", "Delta")
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
        warnings.simplefilter("error", OutsideGuaranteeWarning)
        return privacy_of(fitted)


def test_one_model():
    fitted = model().fit(X, Y)
    assert silently(fitted) == fitted.privacy_


def test_groupings_of_every_fit_are_named():
    """Those of the folds too, which are gone and were planned again."""
    grid = {"group_by": [ones, lambda rows: np.arange(len(rows)) % 2]}
    search = GridSearchCV(model(), grid, cv=2, scoring="neg_mean_absolute_error").fit(X, Y)
    assert set(privacy_of(search, warn=False).groupings) == {"function ones", "function <lambda>"}
    passed = model(group_by=None).fit(X, Y, groups=ones(X))
    assert privacy_of(passed).groupings == ("groups passed to fit",)
    both = privacy_of([search.best_estimator_, passed])
    assert both.groupings == (*search.best_estimator_.privacy_.groupings, "groups passed to fit")


def test_pipeline():
    pipe = make_pipeline(
        FunctionTransformer(), BoundedScaler(), DPStandardScaler(0.5, DELTA), model()
    ).fit(X, Y)
    found = silently(pipe)
    assert found.epsilon == pytest.approx(epsilon_of_fits(0.5, 1.0), rel=1e-5)
    assert set(found.public) >= {*pipe[-1].privacy_.public, *pipe[-2].privacy_.public}
    assert PrivacyGuarantee.from_json(found.to_json()) == found


def test_a_total_is_at_the_delta_of_the_model():
    pipe = make_pipeline(DPStandardScaler(0.5, 1e-4), model()).fit(X, Y)
    assert silently(pipe).delta == DELTA
    assert silently(pipe).epsilon > pipe[-1].privacy_.epsilon


def test_what_learns_is_named():
    pipe = make_pipeline(StandardScaler(), model()).fit(X, Y)
    with pytest.warns(OutsideGuaranteeWarning, match="StandardScaler: all that it learned"):
        found = privacy_of(pipe)
    assert found.outside == ("StandardScaler: all that it learned",)
    assert found.epsilon == pipe[-1].privacy_.epsilon
    assert "Not covered here: StandardScaler: all that it learned." in str(found)
    assert PrivacyGuarantee.from_json(found.to_json()) == found


def test_columns():
    table = pd.DataFrame({"u": X[:, 0], "v": X[:, 1], "w": LABELS})

    def fitted(encoder):
        parts = [("n", BoundedScaler(), ["u", "v"]), ("c", encoder, ["w"])]
        return make_pipeline(ColumnTransformer(parts), model()).fit(table, Y)

    stated = OneHotEncoder(categories=[["no", "yes"]])
    assert silently(fitted(stated)).outside == ()
    for encoder in (OneHotEncoder(), OneHotEncoder(categories=[["no", "yes"]], max_categories=2)):
        found = privacy_of(fitted(encoder), warn=False)
        assert found.outside == ("OneHotEncoder: all that it learned",)


@pytest.mark.parametrize(
    "search",
    [
        GridSearchCV(model(), {"epsilon": [0.5, 1.0]}, cv=3),
        RandomizedSearchCV(model(), {"epsilon": [0.5, 1.0]}, cv=3, n_iter=2),
        GridSearchCV(make_pipeline(BoundedScaler(), model()),
                     {"dpworstgroupregressor__epsilon": [0.5, 1.0]}, cv=3),
    ],
)  # fmt: skip
def test_a_search_costs_what_a_ledger_counts(search):
    with PrivacyLedger(100.0, DELTA) as book:
        search.fit(X, Y)
    with pytest.warns(OutsideGuaranteeWarning, match="SearchCV: the choice by scores of held-out"):
        found = privacy_of(search)
    best = privacy_of(search.best_estimator_).requested_epsilon
    expected = epsilon_of_fits(*[0.5, 1.0] * 3, best)
    assert found.epsilon == pytest.approx(expected, rel=1e-4)
    assert found.epsilon == pytest.approx(book.epsilon_spent, rel=1e-6)


@pytest.mark.parametrize(
    ("wrap", "n_fits", "name"),
    [
        (lambda m: CalibratedClassifierCV(m, cv=2), 2, "CalibratedClassifierCV: the calibration"),
        (lambda m: TunedThresholdClassifierCV(m, cv=2), 3, "the choice of the threshold"),
        (lambda m: TunedThresholdClassifierCV(m, cv=0.5), 2, "the choice of the threshold"),
    ],
)
def test_what_is_learned_around(wrap, n_fits, name):
    with PrivacyLedger(100.0, DELTA) as book:
        fitted = wrap(model(DPWorstGroupClassifier)).fit(X, LABELS)
    found = privacy_of(fitted, warn=False)
    assert any(name in said for said in found.outside)
    assert found.epsilon == pytest.approx(book.epsilon_spent, rel=1e-6)
    assert found.epsilon == pytest.approx(epsilon_of_fits(*[1.0] * n_fits), rel=1e-4)


def scaled(final):
    """Return a pipeline with a private step below the surface."""
    columns = ColumnTransformer(
        [("one", DPStandardScaler(0.7, DELTA), [0])], remainder=DPStandardScaler(0.6, DELTA)
    )
    return Pipeline([("columns", columns), ("model", final)])


def grid(final, **settings):
    return GridSearchCV(scaled(final), {"model__epsilon": [0.5, 1.0]}, cv=2, **settings)


def halving(final):
    return HalvingGridSearchCV(
        scaled(final), {"model__epsilon": [0.5, 1.0]}, cv=2, min_resources=200, random_state=0
    )


def folds(fitted):
    return cross_validate(fitted, X, LABELS, cv=2, return_estimator=True)["estimator"]


def fit(wrap):
    return lambda final: wrap(final).fit(X, LABELS)


def calibrated(final, **settings):
    return CalibratedClassifierCV(scaled(final), cv=2, **settings)


def tuned(final):
    return TunedThresholdClassifierCV(scaled(final), cv=2)


def bagged(final):
    return BaggingClassifier(scaled(final), n_estimators=2, bootstrap=False, random_state=0)


def searched(wrap, **values):
    return lambda final: GridSearchCV(wrap(final), values, cv=2)


# what is left of a fit with every meta-estimator of the page, and with some in each other
FITS = {
    "Pipeline": fit(lambda m: make_pipeline(DPStandardScaler(0.7, DELTA), m)),
    "Pipeline with a ColumnTransformer": fit(scaled),
    "GridSearchCV": fit(grid),
    "RandomizedSearchCV": fit(
        lambda m: RandomizedSearchCV(scaled(m), {"model__epsilon": [0.5, 1.0]}, cv=2, n_iter=2)
    ),
    "HalvingGridSearchCV": fit(halving),
    "cross_validate": lambda m: folds(scaled(m)),
    "nested cross-validation": lambda m: folds(grid(m)),
    "CalibratedClassifierCV": fit(calibrated),
    "TunedThresholdClassifierCV": fit(tuned),
    "BaggingClassifier(bootstrap=False)": fit(bagged),
    "CalibratedClassifierCV(ensemble=False)": fit(lambda m: calibrated(m, ensemble=False)),
    "grid in grid": fit(searched(grid, estimator__model__radius=[1.0, 2.0])),
    "calibration in grid": fit(searched(calibrated, ensemble=[True, False])),
    "threshold in grid": fit(searched(tuned, cv=[2, 3])),
    "bagging in grid": fit(searched(bagged, n_estimators=[1, 2])),
    "threshold of a union": fit(
        lambda m: TunedThresholdClassifierCV(
            make_pipeline(FeatureUnion([("one", DPStandardScaler(0.7, DELTA))]), m), cv=2
        )
    ),
    "a step that is replaced": fit(
        searched(scaled, columns=[DPStandardScaler(0.9, DELTA), "passthrough"])
    ),
}
# functions that give back no models to add up
NOTHING_KEPT = {"cross_val_predict", "learning_curve"}


@pytest.mark.parametrize("name", FITS)
def test_no_fit_is_left_out(name):
    with PrivacyLedger(100.0, DELTA) as book:
        fitted = FITS[name](model(DPWorstGroupClassifier))
    found = privacy_of(fitted, warn=False)
    assert found.epsilon >= book.epsilon_spent * (1 - 1e-5)
    assert found.epsilon <= book.epsilon_spent * 1.35  # an inner refit counts as the dearest
    assert not any("not counted" in text for text in found.outside)


@pytest.mark.parametrize(("ensemble", "n_fits"), [(True, 6), (False, 9)])
def test_every_fit_of_a_calibration_in_a_search_counts(ensemble, n_fits):
    """One on each inner fold, and one on all records where no ensemble of those is kept."""
    inner = CalibratedClassifierCV(model(DPWorstGroupClassifier), cv=2, ensemble=ensemble)
    with PrivacyLedger(100.0, DELTA) as book:
        fitted = GridSearchCV(inner, {}, cv=2).fit(X, LABELS)
    found = privacy_of(fitted, warn=False)
    assert found.epsilon == pytest.approx(epsilon_of_fits(*[1.0] * n_fits), rel=1e-4)
    assert found.epsilon == pytest.approx(book.epsilon_spent, rel=1e-6)


def test_private_searches_on_folds():
    """Their cost follows from the parameters alone, though their releases are not Gaussian."""
    private = DPSearchCV(
        model(DPWorstGroupClassifier, group_by=None), {"radius": [1.0, 2.0]}, group_by=ones
    )
    inner = Pipeline([("scale", DPStandardScaler(0.7, DELTA)), ("search", private)])
    with PrivacyLedger(100.0, DELTA) as book:
        fitted = GridSearchCV(inner, {"search__epsilon": [0.5, 1.0]}, cv=2).fit(X, LABELS)
    found = privacy_of(fitted, warn=False)
    assert found.epsilon == pytest.approx(book.epsilon_spent, rel=1e-4)
    # which of them an inner search fitted again is not known, nor which is dearer at every delta
    nested = GridSearchCV(GridSearchCV(private, {"n_iter": [2.0]}, cv=2), {}, cv=2).fit(X, LABELS)
    with pytest.raises(UnsupportedMechanismError, match="run the search inside a PrivacyLedger"):
        privacy_of(nested, warn=False)


def test_the_dearest_refit_is_not_the_one_of_the_largest_epsilon():
    candidates = {1e-9: gdp_mu(1.0, 1e-9), 1e-4: gdp_mu(0.9, 1e-4)}  # the second has less noise
    assert candidates[1e-9] < candidates[1e-4]
    grid = [{"epsilon": [1.0], "delta": [1e-9]}, {"epsilon": [0.9], "delta": [1e-4]}]
    fitted = GridSearchCV(GridSearchCV(model(), grid, cv=2), {}, cv=2).fit(X, Y)
    last = candidates[fitted.best_estimator_.best_params_["delta"]]
    mu = math.hypot(*candidates.values(), *candidates.values())
    total = math.hypot(mu, mu, mu, candidates[1e-4], candidates[1e-4], last)
    found = privacy_of(fitted, warn=False)
    assert found.epsilon == pytest.approx(gdp_epsilon(found.delta, total), rel=1e-4)


def test_every_meta_estimator_of_the_page_is_held_against_a_ledger():
    page = Path(__file__).parents[2] / "docs" / "guide" / "pipelines.md"
    rows = re.findall(r"^\| `?([^|`]+?)`? \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(rows) - {"meta-estimator"} <= {*FITS, *NOTHING_KEPT}


@pytest.mark.parametrize("function", [cross_val_predict, learning_curve])
def test_where_no_model_is_kept_there_is_no_total(function):
    with pytest.raises(ValueError, match="fitted holds no private fit"):
        privacy_of(function(model(DPWorstGroupClassifier), X, LABELS, cv=2), warn=False)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda m: RFE(m, n_features_to_select=1),
        lambda m: StackingClassifier([("a", m)], LogisticRegression(), cv=2),
    ],
)
def test_what_may_have_fitted_more_is_said(wrap):
    outer = wrap(model(DPWorstGroupClassifier))
    fitted = outer.fit(X, LABELS)
    found = privacy_of(fitted, warn=False)
    name = type(outer).__name__
    assert f"not counted: what {name} fitted or learned beside what it kept" in found.outside
    search = GridSearchCV(wrap(model(DPWorstGroupClassifier)), {}, cv=2).fit(X, LABELS)
    with pytest.raises(UnsupportedMechanismError, match=rf"^the fits that {name} made on folds"):
        privacy_of(search, warn=False)


@pytest.mark.parametrize(
    ("inner", "n_records"),
    [
        (BaggingRegressor(model(), n_estimators=2), 400),
        (GridSearchCV(model(), {}, cv=LeaveOneOut(), scoring="neg_mean_absolute_error"), 8),
        (RandomizedSearchCV(model(), {"epsilon": [0.5, 1.0]}, cv=2, n_iter=1), 400),
    ],
)
def test_inner_fits_that_cannot_be_known(inner, n_records):
    """Bootstraps in folds, folds that follow from records, and candidates that were drawn."""
    search = GridSearchCV(inner, {}, cv=2).fit(X[:n_records], Y[:n_records])
    with pytest.raises(UnsupportedMechanismError, match="run the search inside a PrivacyLedger"):
        privacy_of(search, warn=False)


def test_a_frozen_model_is_not_fitted_again():
    once = model(DPWorstGroupClassifier).fit(X, LABELS)
    tuned = TunedThresholdClassifierCV(FrozenEstimator(once), cv=2).fit(X, LABELS)
    assert privacy_of(tuned, warn=False).epsilon == pytest.approx(once.privacy_.epsilon)


def test_several_models():
    bag = BaggingRegressor(model(), n_estimators=3, bootstrap=False).fit(X, Y)
    assert silently(bag).epsilon == pytest.approx(epsilon_of_fits(1.0, 1.0, 1.0), rel=1e-4)
    assert silently(bag).seeded  # bagging seeds its estimators
    twice = BaggingRegressor(model(), n_estimators=2, bootstrap=True, random_state=0).fit(X, Y)
    times = [np.bincount(samples).max() for samples in twice.estimators_samples_]
    assert min(times) > 1
    mu = gdp_mu(1.0, DELTA) * math.hypot(*times)
    assert silently(twice).epsilon == pytest.approx(gdp_epsilon(DELTA, mu), rel=1e-4)
    folds = cross_validate(model(), X, Y, cv=3, return_estimator=True)["estimator"]
    assert silently(folds).epsilon == pytest.approx(epsilon_of_fits(1.0, 1.0, 1.0), rel=1e-4)


def test_noise_of_other_kinds_adds_up_too():
    fitted, other = model().fit(X, Y), model()
    loud = [Release("a", "laplace", 2.0, max_count=3), Release("b", "gaussian", 5.0, 2, None, 0.1)]
    other.privacy_ = PrivacyGuarantee.from_releases(loud, DELTA)
    found = silently([fitted, other])
    expected = PrivacyGuarantee.from_releases([*fitted.plan_.releases, *loud], DELTA)
    assert found.epsilon == pytest.approx(expected.epsilon, rel=1e-3)
    assert found.epsilon_at(1e-5) == pytest.approx(expected.epsilon_at(1e-5), rel=1e-3)


def test_non_private():
    found = privacy_of([model().fit(X, Y), model(epsilon=math.inf).fit(X, Y)], warn=False)
    assert not found.is_private


def test_fits_that_cannot_be_known(monkeypatch):
    search = GridSearchCV(model(), {"epsilon": [1.0]}, cv=2).fit(X, Y)
    sampled = PrivacyGuarantee.from_releases([Release("r", "laplace", 2.0, max_count=3)], DELTA)

    class Plan:
        guarantee = sampled

    monkeypatch.setattr(DPWorstGroupRegressor, "plan", lambda self, **facts: Plan)
    with pytest.raises(UnsupportedMechanismError, match="run the search inside a PrivacyLedger"):
        privacy_of(search, warn=False)


NOTHING = (LinearRegression().fit(X, Y), 5, [], None, "model")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        *((each, "fitted holds no private fit, got ") for each in NOTHING),
        (GridSearchCV(model(), {"epsilon": [1.0]}, cv=2, refit=False).fit(X, Y), ".*refit=False"),
    ],
)
def test_nothing_private_inside(other, said):
    with pytest.raises(ValueError, match=f"^{said}"):
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
    audit = GroupAudit(0.5, DELTA, group_labels=[1.0, 2.0], mechanism="gaussian")
    return audit.run(labels, labels, ones(X), **facts)


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
    later = model(DPWorstGroupClassifier, start=first).fit(X, LABELS)
    assert thresholds(later, held_out=True).privacy_ == thresholds(later).privacy_


def test_of_two_costs_of_one_fit_the_dearer_counts():
    first = model(epsilon=0.5).fit(X, Y)
    later = model(start=first).fit(X, Y)
    (cheap,) = later._start_costs
    dear = cheap._replace(guarantee=model(epsilon=3.0).fit(X, Y).privacy_)
    for starts, total in (([cheap], 0.5), ([cheap, dear], 3.0), ([dear, cheap], 3.0)):
        later._start_costs = starts
        for fitted in ([first, later], [later, first], later):
            found = privacy_of(fitted)
            assert found.epsilon == pytest.approx(epsilon_of_fits(total, 1.0), rel=1e-4)


def test_a_copy_made_while_its_original_is_fitted_again_is_a_fit_of_its_own(monkeypatch):
    fitted, copies = model(DPWorstGroupClassifier).fit(X, LABELS), []
    encode = RecordEncoder.encode

    def copied(*args):
        copies.append(copy.copy(fitted))
        return encode(*args)

    monkeypatch.setattr(RecordEncoder, "encode", copied)
    fitted.fit(X, LABELS)
    found = privacy_of([copies[0], fitted], warn=False)
    assert found.epsilon == pytest.approx(epsilon_of_fits(1.0, 1.0), rel=1e-4)


def test_a_private_search_that_a_fit_began_with_counts_once():
    base = model(DPWorstGroupClassifier, group_by=None)
    search = DPSearchCV(base, {"radius": [1.0, 2.0]}, group_by=ones, epsilon=1.0, delta=DELTA)
    with PrivacyLedger(100.0, DELTA) as book:
        search.fit(X, LABELS)
        for start in (search.best_estimator_, search.best_estimator_):
            later = model(DPWorstGroupClassifier, start=start).fit(X, LABELS)
    assert len(book.rows) == 3
    found = privacy_of([search, later])
    assert found.epsilon < book.epsilon_spent
    assert privacy_of(later).epsilon == pytest.approx(found.epsilon)
    assert not [said for said in (*found.outside, *book.guarantee.outside) if "began" in said]


@pytest.mark.parametrize(
    "fitted",
    [
        lambda: DPAUCClassifier(1.0, DELTA, data_norm=1.0).fit(X, LABELS),
        lambda: thresholds(LogisticRegression().fit(X, LABELS)),
        lambda: FrozenEstimator(model(DPWorstGroupClassifier).fit(X, LABELS)),
    ],
)
def test_an_audit_asks_whether_a_model_of_as_many_records_saw_these(fitted):
    with pytest.raises(ValueError, match="same_records_as must be the model where it was fitted"):
        audit_of(model=fitted())
    assert audit_of(model=fitted(), same_records_as=False).model_privacy_ is None


def test_no_grouping_restricts_what_covers_any_record():
    stated = thresholds(model(DPWorstGroupClassifier).fit(X, LABELS), group_labels=[1.0, 2.0])
    assert stated.privacy_.relation.short_name == "replace-in-group"  # that of the model
    alone = thresholds(LogisticRegression().fit(X, LABELS), group_labels=[1.0, 2.0])
    assert alone.privacy_.relation.short_name == "replace-any"
    assert alone.privacy_.groupings == ()
