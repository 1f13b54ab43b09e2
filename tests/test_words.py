"""No warning, error, note, cause, log or output shows what a record holds, unless one asks."""

from __future__ import annotations

import datetime
import re
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor, exceptions
from sklearn_dpwg.data.oracles import InMemoryOracle
from sklearn_dpwg.data.sources import ArraySource
from sklearn_dpwg.exceptions import ForeignError, InputError, show_records
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.metrics import (
    group_disparities,
    group_table,
    worst_group_score,
    worst_group_scorer,
)
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPCalibratedClassifier, DPThresholdClassifier
from sklearn_dpwg.preprocessing import (
    BoundedScaler,
    Date,
    DPStandardScaler,
    Number,
    Ordered,
    PublicSchema,
    bound_rows_per_person,
)
from sklearn_dpwg.solvers import MGR, OCO

N = 400
NAME, NUMBER, YEAR = "Mr Smith", 48151623.5, 1851
SECRETS = re.compile(f"Smith|48151623|{YEAR}")


class Patient:
    """Shows who it is however it is asked."""

    def __repr__(self):
        return NAME

    def __float__(self):
        raise ValueError(NAME)


POISON = {
    "string": NAME,
    "number": NUMBER,
    "number as text": str(NUMBER),
    "huge": int(NUMBER) * 10**400,
    "complex": complex(NUMBER, 1.0),
    "date": datetime.date(YEAR, 1, 1),
    "missing": np.nan,
    "object": Patient(),
    "bytes": NAME.encode(),
    "unhashable": [NAME],
}

NUMBERS = ("number", "missing")  # which rows of numbers can hold


def told(error):
    """Raise what others would, with all that Python shows of an error."""
    error.add_note(NAME)
    try:
        raise KeyError(NAME)
    except KeyError as cause:
        raise error from cause


class Telling(ClassifierMixin, BaseEstimator):
    """A model of others that warns of records, and refuses some."""

    def __init__(self, error=None):
        self.error = error

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X):
        warnings.warn(f"found {NAME}", UserWarning, stacklevel=1)
        with ThreadPoolExecutor(1) as pool:  # a thread of its own, as joblib's
            pool.submit(np.multiply, np.full(2, 1e308), NUMBER).result()
        if self.error is not None:
            told(self.error(NAME))
        return np.full((len(X), 2), 0.5)

    transform = predict_proba


rng = np.random.default_rng(0)
ROWS = rng.uniform(0.0, 0.5, (N, 2))
Y, GROUPS = (ROWS[:, 0] > 0.25).astype(int), np.where(np.arange(N) % 2 == 0, "a", "b")
COMMON = {"data_norm": 1.0, "group_labels": ["a", "b"], "delta": 1e-4}
quick = {**COMMON, "solver": MGR(n_steps=2)}


def classifier(**changed):
    return DPWorstGroupClassifier(**{**quick, "classes": [0, 1], **changed})


def regressor():
    return DPWorstGroupRegressor(**quick, target_bounds=(-1, 1))


def thresholds(model=None, **changed):
    frozen = FrozenEstimator(Telling().fit(0, 0) if model is None else model)
    return DPThresholdClassifier(frozen, group_labels=["a", "b"], delta=1e-4, **changed)


def search(model=None, **changed):
    return DPSearchCV(model or classifier(), {}, delta=1e-4, n_iter=1, **changed)


def audited(X, y, g):
    audit = GroupAudit(group_labels=["a", "b"], delta=1e-4)
    return audit.run(y, y, g), audit.run(Y, X[:, 0], GROUPS)


def of_oracle(X, y, g):
    oracle = InMemoryOracle(X, y, GROUPS)
    model = classifier(solver=OCO(n_rounds=2, batch_size=100))  # every record is drawn
    return model.fit_oracle(oracle, group_sizes={"a": N // 2, "b": N // 2}, n_features=2)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    FITTED, REGRESSOR = classifier().fit(ROWS, Y, GROUPS), regressor().fit(ROWS, Y, GROUPS)
    THRESHOLDS = thresholds(FITTED).fit(ROWS, Y, GROUPS)
    SCALERS = [each((-1, 1)).fit(ROWS) for each in (BoundedScaler,)]
DAY = Date("2000-01-01", "2020-01-01")

# Each takes X, y and groups, of which one holds a poisoned value.
ENTRIES = {
    "fit": lambda X, y, g: classifier().fit(X, y, g),
    "fit a regressor": lambda X, y, g: regressor().fit(X, y, g),
    "fit AUC": lambda X, y, g: DPAUCClassifier(data_norm=1.0, classes=[0, 1]).fit(X, y),
    "partial_fit": lambda X, y, g: classifier(solver=OCO()).partial_fit(X, y, g),
    "fit_oracle": of_oracle,
    "a source": lambda X, y, g: classifier().fit(ArraySource(X, y, groups=g)),
    "check_rows": lambda X, y, g: FITTED.check_rows(X),
    "decide": lambda X, y, g: FITTED.decision_function(X),
    "predict": lambda X, y, g: REGRESSOR.predict(X),
    "probabilities": lambda X, y, g: FITTED.predict_log_proba(X),
    "score": lambda X, y, g: FITTED.score(X, y),
    "score a regressor": lambda X, y, g: REGRESSOR.score(X, y),
    "thresholds": lambda X, y, g: thresholds().fit(X, y, g),
    "predict by thresholds": lambda X, y, g: THRESHOLDS.score(X, y, g),
    "calibration": lambda X, y, g: DPCalibratedClassifier(classifier(), epsilon=9.0).fit(X, y, g),
    "search": lambda X, y, g: search().fit(X, y, g),
    "scalers": lambda X, y, g: [each.transform(X) for each in SCALERS],
    "fit a scaler": lambda X, y, g: DPStandardScaler(delta=1e-4).fit(X),
    "back": lambda X, y, g: SCALERS[0].inverse_transform(X),
    "a number": lambda X, y, g: transformed(Number(-1, 1), 0.5, X),
    "a level": lambda X, y, g: transformed(Ordered((1, 2)), 1, X),
    "a day": lambda X, y, g: transformed(DAY, "2010-01-01", X),
    "persons": lambda X, y, g: bound_rows_per_person(X, y, g, person=g, k=1),
    "table": lambda X, y, g: group_table(y, Y, groups=g, metrics=["f1", "r2"]),
    "disparities": lambda X, y, g: group_disparities(Y, y, groups=GROUPS, classes=[0, 1]),
    "worst score": lambda X, y, g: worst_group_score(y, Y, groups=g, metric="recall"),
    "scorer": lambda X, y, g: worst_group_scorer()(FITTED, X, y, groups=g),
    "audit": audited,
}


def transformed(kind, clean, X):
    pairs = zip(X[:, 0], ROWS[:, 0], strict=True)
    values = [clean if each is known or each == known else each for each, known in pairs]
    return PublicSchema({"u": kind}).fit_transform(pd.DataFrame({"u": values}))


def said(capfd, caplog, call, *args):
    """Return whatever a call says, and the error it ends in."""
    error = None
    with warnings.catch_warnings(record=True) as seen, caplog.at_level(0):
        warnings.simplefilter("always")
        try:
            call(*args)
        except Exception as raised:
            error = raised
    shown = "" if error is None else "".join(traceback.format_exception(error))
    heard = [str(each.message) for each in seen]
    return "\n".join([shown, *heard, *capfd.readouterr(), caplog.text]), error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_takes_records_without_poison(name):
    """Or the error of a poisoned one may be about something else."""
    with show_records():
        ENTRIES[name](ROWS, Y, GROUPS)


@pytest.mark.parametrize("where", ["X", "y", "groups"])
@pytest.mark.parametrize("name", ENTRIES)
def test_no_value_is_shown(name, where, capfd, caplog):
    every = 3 if name == "fit_oracle" else 1  # a game takes long to plan
    for kind, poison in list(POISON.items())[::every]:
        given = {"X": ROWS, "y": Y, "groups": GROUPS}
        given[where] = given[where].astype(float if where == "X" and kind in NUMBERS else object)
        given[where][(5, 0) if where == "X" else 5] = poison
        text, _ = said(capfd, caplog, ENTRIES[name], *given.values())
        assert not SECRETS.search(text), (kind, text)


def refuses(*_):
    told(ZeroDivisionError(NAME))


# Code of others that sees records inside of ours, with what an error names.
FOREIGN = {
    "a frozen model": (
        lambda: thresholds(Telling(ValueError).fit(0, 0)).fit(ROWS, Y, GROUPS),
        "^predict_proba of the estimator Telling failed with ValueError in .*: pass rows that it",
    ),
    "group_by": (
        lambda: classifier(group_by=refuses).fit(ROWS, Y),
        "fit failed with ZeroDivisionError",
    ),
    "a step": (
        lambda: search(
            make_pipeline(BoundedScaler(), classifier()).set_params(boundedscaler__bounds=(0, 1)),
            scoring=refuses,
        ).fit(ROWS, Y, GROUPS),
        "fit failed with ZeroDivisionError",
    ),
    "a scoring": (lambda: search(scoring=refuses).fit(ROWS, Y, GROUPS), "ZeroDivisionError"),
    "a metric": (lambda: group_table(Y, Y, groups=GROUPS, metrics=refuses), "group_table failed"),
    "a scorer": (
        lambda: worst_group_scorer(refuses, group_by=refuses)(FITTED, ROWS, Y),
        "ZeroDivisionError",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_words_of_others_are_not_repeated_unless_one_asks(name, capfd, caplog):
    call, sentence = FOREIGN[name]
    text, error = said(capfd, caplog, call)
    assert isinstance(error, exceptions.DPWGError)
    assert re.search(sentence, str(error))
    assert not SECRETS.search(text)
    assert error.__context__ is error.__cause__ is None
    with show_records():
        text, _ = said(capfd, caplog, call)
    assert SECRETS.search(text)


def listed_filters():
    """Return the filters with patterns as text, which scikit-learn's threads compile."""
    return [tuple(getattr(part, "pattern", part) for part in each[:4]) for each in warnings.filters]


def test_warnings_of_others_are_silenced_and_ours_are_not(capfd, caplog):
    before = listed_filters()
    fit = thresholds(random_state=0).fit
    text, error = said(capfd, caplog, fit, ROWS, Y, GROUPS)
    assert error is None
    assert "random_state" in text  # that noise is seeded is ours to say
    assert not SECRETS.search(text)
    assert "overflow" not in text
    with show_records():
        text, _ = said(capfd, caplog, fit, ROWS, Y, GROUPS)
    assert SECRETS.search(text)
    # scikit-learn's own threads are handed the filters, as patterns
    forest = RandomForestClassifier(2, n_jobs=2, random_state=0).fit(ROWS, Y)
    said(capfd, caplog, thresholds(forest).fit, ROWS, Y, GROUPS)
    assert listed_filters() == before
    with pytest.warns(UserWarning, match="heard again"):
        warnings.warn("heard again", UserWarning, stacklevel=1)


def test_a_label_is_shown_to_whoever_asks():
    groups = GROUPS.astype(object)
    groups[5] = NAME
    with show_records(), pytest.raises(InputError, match=f"some differ, as '{NAME}'"):
        classifier().fit(ROWS, Y, groups)
    with show_records(), pytest.raises(ZeroDivisionError, match=NAME):
        classifier(group_by=refuses).fit(ROWS, Y)
    with pytest.raises(ForeignError):
        classifier(group_by=refuses).fit(ROWS, Y)
