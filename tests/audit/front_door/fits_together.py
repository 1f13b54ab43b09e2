"""Several fits on the same records: in a ledger, in forks, and in a search."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.model_selection import DPSearchCV, PublicKFold
from tests.audit.front_door.data import DELTA, EPSILON, bounded, released, table
from tests.audit.front_door.fits import FAR, STEP, classifier, fit_scaler
from tests.helpers.relations import WITHIN_GROUP


def in_ledger(fits: Callable[[bool], list[np.ndarray]], canary: bool):
    """Return what several fits show, and what the ledger says that they promise together."""
    with TemporaryDirectory() as folder:  # forks open the same file
        with PrivacyLedger(1e3, DELTA, path=f"{folder}/ledger") as ledger:
            seen = fits(canary)
        return np.concatenate(seen), ledger.guarantee


def scaler_and_model(canary):
    _, y, groups = table(True)
    X = bounded(canary)
    seen, scaler = fit_scaler(X)
    model = classifier(data_norm=scaler.row_norm_).fit(scaler.transform(X), y, groups=groups)
    return [seen, released(model)]


def fit_twice(canary):
    X, y, groups = table(canary)
    model = classifier()
    return mean_of([released(model.fit(X, y, groups=groups)) for _ in range(2)])


def fit_scaler_often(canary):
    X = bounded(canary)
    return mean_of([fit_scaler(X)[0] for _ in range(6)])


def mean_of(seen):
    """Return what an attacker makes of equal fits: nothing that tells more than their mean."""
    return [np.mean(seen, axis=0)]


def clones(canary):
    X, y, groups = table(canary)
    model = classifier()
    # another budget has other noise in other units: noise that is drawn once cancels out
    other = clone(model).set_params(epsilon=EPSILON / 2.0)
    return [released(each.fit(X, y, groups=groups)) for each in (model, other)]


def forks(canary):
    """Fit in two children of one process, which share all that was drawn before they began."""
    X, y, groups = table(canary)
    model = classifier()
    seen = []
    for epsilon in (EPSILON, EPSILON / 2.0):
        of_child, of_parent = os.pipe()
        process = os.fork()
        if process == 0:
            status = 1
            try:
                result = model.set_params(epsilon=epsilon).fit(X, y, groups=groups)
                os.write(of_parent, pickle.dumps(released(result)))
                status = 0
            finally:
                os._exit(status)
        os.close(of_parent)
        with os.fdopen(of_child, "rb") as pipe:
            seen.append(pickle.loads(pipe.read()))
        os.waitpid(process, 0)
    return seen


def search(canary):
    X, y, _ = table(canary)
    known = {"fit_intercept": False, "classes": [0, 1], "data_norm": 1.0} | WITHIN_GROUP
    model = DPWorstGroupClassifier(solver=STEP, **known)
    # of thirty-one records one or two are held out: the canary seldom is
    result = DPSearchCV(
        model,
        {"radius": [FAR, 2.0 * FAR]},
        epsilon=EPSILON,
        delta=DELTA,
        n_iter=2,
        test_size=0.05,
    )
    result.fit(X, y, np.zeros(len(y), dtype=int))
    seen = [result.best_score_, result.best_params_["radius"]]
    return np.append(released(result.best_estimator_), seen), result.privacy_


def folds():
    return PublicKFold(2, shuffle=True, random_state=0)


def folds_by_label():
    return StratifiedKFold(2, shuffle=True, random_state=0)


def calibrated(canary):
    """Release the models of two folds, whose total `privacy_of` states.

    Whoever is in another fold by label where the canary is of the other class has a long row, of
    the sign that moves a model the same way as all the others do.
    """
    y = np.arange(50) % 2
    X = np.zeros((50, 2))
    for sign in (-1, 1):
        y[0] = sign > 0
        first, _ = folds_by_label().split(X, y)
        X[first[1], 0] += sign
    X[:, 0] *= 2 * y - 1
    X[0], y[0] = (0.6, 0.8), int(canary)
    model = classifier(group_by=lambda rows: np.zeros(len(rows))).set_params(epsilon=EPSILON / 2.0)
    result = CalibratedClassifierCV(model, cv=folds()).fit(X, y)
    models = [each.estimator for each in result.calibrated_classifiers_]
    return np.concatenate([released(each) for each in models]), privacy_of(result, warn=False)
