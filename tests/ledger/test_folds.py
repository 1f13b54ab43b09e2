"""What is text of folds that more than public facts decide."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import model_selection as known
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import NoProtectionWarning, UnsupportedMechanismError
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.ledger.folds import folds_inside
from sklearn_dpwg.model_selection import DPSearchCV, PublicKFold
from sklearn_dpwg.solvers import MGR
from tests.helpers.ledger_cases import DELTA, X, Y, ones
from tests.helpers.relations import WITHIN_GROUP

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")


class Unlike(PublicKFold):
    """Might split by anything."""


CLASSIFIER = DPWorstGroupClassifier(
    data_norm=1.0, solver=MGR(n_steps=3), classes=[False, True], group_by=ones, **WITHIN_GROUP
)
MODEL = DPWorstGroupClassifier(
    2.0, DELTA, data_norm=1.0, solver=MGR(n_steps=3), group_by=ones, **WITHIN_GROUP
)
LABELS = (X[:, 0] > 0).astype(int)
PUBLIC = [
    *(KFold(3), KFold(3, shuffle=True), known.RepeatedKFold(), known.ShuffleSplit()),
    *(known.LeaveOneOut(), known.TimeSeriesSplit(), PublicKFold(3), PublicKFold(3, key=0)),
]
BY_LABEL = [
    *(None, 3, np.int64(3), StratifiedKFold(3), known.RepeatedStratifiedKFold()),
    *(known.StratifiedShuffleSplit(), known.StratifiedGroupKFold()),
]
UNKNOWN = [
    *(known.GroupKFold(3), known.PredefinedSplit([0, 1]), [([0], [1])], iter([]), Unlike()),
]
CASES = (
    [(cv, None) for cv in PUBLIC]
    + [(cv, "which labels decide") for cv in BY_LABEL]
    + [(cv, "is public, which is not known") for cv in UNKNOWN]
)


@pytest.mark.parametrize(("cv", "decided"), CASES)
def test_what_decides_who_is_in_which_fold(cv, decided):
    for owner in (
        GridSearchCV(CLASSIFIER, {}, cv=cv),
        CalibratedClassifierCV(CLASSIFIER, cv=cv),
        TunedThresholdClassifierCV(CLASSIFIER, cv=cv),
        SequentialFeatureSelector(CLASSIFIER, cv=cv),
    ):
        outside, _ = folds_inside(make_pipeline(owner, LogisticRegression()))
        assert len(outside) == (decided is not None)
        assert decided is None or decided in outside[0]
        assert decided is None or outside[0].startswith(f"{type(owner).__name__}: who is in")


@pytest.mark.parametrize(
    ("part", "n_entries"),
    [
        (TunedThresholdClassifierCV(CLASSIFIER, cv=0.5), 1),
        (TunedThresholdClassifierCV(FrozenEstimator(CLASSIFIER), cv=3), 0),  # none is fitted
        (FrozenEstimator(CalibratedClassifierCV(CLASSIFIER)), 1),  # was fitted
        (GridSearchCV(DPWorstGroupRegressor(), {}, cv=3), 0),
        (GridSearchCV(LogisticRegression(), {}, cv=3), 0),  # named for all that it learned
        (GridSearchCV(CalibratedClassifierCV(CLASSIFIER), {}), 2),
        (
            known.RandomizedSearchCV(
                CalibratedClassifierCV(CLASSIFIER, cv=KFold()),
                [{"cv": [KFold(), StratifiedKFold()]}],
                cv=KFold(),
            ),
            1,
        ),
        (
            GridSearchCV(
                make_pipeline(StandardScaler(), CLASSIFIER),
                {"dpworstgroupclassifier": [CLASSIFIER, CalibratedClassifierCV(CLASSIFIER)]},
                cv=KFold(),
            ),
            1,
        ),
        ([CLASSIFIER, [GridSearchCV(CLASSIFIER, {}), CalibratedClassifierCV(CLASSIFIER)]], 2),
        (DPSearchCV(CLASSIFIER, {}), 0),
    ],
)
def test_every_splitter_inside_is_found(part, n_entries):
    assert len(folds_inside(part)[0]) == n_entries


def folds_outside_of(fitted, **parameters):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        outside = privacy_of(fitted, **parameters).outside
    assert [one.category for one in seen] == [NoProtectionWarning] * bool(outside)
    assert all(text in str(seen[0].message) for text in outside)
    return [text for text in outside if "who is in which" in text]


def test_the_total_names_folds_that_labels_decide_and_no_others():
    labels = Y > 0
    for cv, n_entries in ((2, 1), (PublicKFold(2), 0)):
        calibrated = CalibratedClassifierCV(CLASSIFIER, cv=cv).fit(X, labels)
        assert len(folds_outside_of(calibrated)) == n_entries
        assert len(folds_outside_of(FrozenEstimator(calibrated))) == n_entries
        search = GridSearchCV(CLASSIFIER, {"radius": [1.0]}, cv=cv).fit(X, labels)
        assert len(folds_outside_of([search, calibrated])) == 2 * n_entries
        folds = known.cross_validate(CLASSIFIER, X, labels, cv=cv, return_estimator=True)[
            "estimator"
        ]
        assert (
            "2 fits of DPWorstGroupClassifier: who is in which fold" in folds_outside_of(folds)[0]
        )
        assert len(folds_outside_of(folds, cv=cv)) == n_entries
        assert folds_outside_of(folds[:1]) == []


def test_what_decides_public_folds_is_named_among_the_groupings():
    """A key is public, and groups that folds are checked for decide nothing."""
    by_key, grid = PublicKFold(2, key=1), {"radius": [1.0, 2.0]}
    search = GridSearchCV(clone(MODEL), grid, cv=by_key).fit(X, LABELS)
    listed = [clone(MODEL).fit(X, LABELS), clone(MODEL).fit(X, LABELS)]
    for total in (privacy_of(search, warn=False), privacy_of(listed, warn=False, cv=by_key)):
        assert "key of folds: column 1" in total.groupings
    by_place = GridSearchCV(clone(MODEL), grid, cv=PublicKFold(2)).fit(X, LABELS, groups=LABELS)
    assert privacy_of(by_place, warn=False).groupings == listed[0].privacy_.groupings


def test_what_folds_cost_is_not_read_off_parameters_that_were_changed():
    model = clone(MODEL)
    search = GridSearchCV(model, {"radius": [1.0, 2.0]}, cv=PublicKFold(2)).fit(X, LABELS)
    assert privacy_of(search, warn=False).epsilon > 4.0
    model.set_params(epsilon=0.01)
    with pytest.raises(UnsupportedMechanismError, match="epsilon was changed since GridSearchCV"):
        privacy_of(search, warn=False)
