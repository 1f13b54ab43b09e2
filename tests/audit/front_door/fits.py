"""Fits of estimators and scalers, as a user would make them, on one of two neighbours."""

from __future__ import annotations

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.solvers import MGR, OCO
from sklearn_dpwg.solvers.learners import FTRL
from tests.audit.front_door.data import DELTA, EPSILON, bounded, one_group, released, table
from tests.helpers.relations import WITHIN_GROUP

# One short step from zero, far inside the ball: the model is the released gradient, times a number.
STEP = MGR(n_steps=1, averaging=1.0, step_size=1e-6, risk_fraction=0.02)
FAR = 1e-2  # radius; scores are so small that slopes are those at zero
SLOW = FTRL(strength=1e6)  # its weights are the released sum of gradients, times a number


def classifier(**parameters):
    parameters = {"solver": STEP, "radius": FAR, "fit_intercept": False, **parameters}
    return DPWorstGroupClassifier(
        EPSILON, DELTA, **{"classes": [0, 1], "data_norm": 1.0, **WITHIN_GROUP, **parameters}
    )


def regressor(**parameters):
    known = {"data_norm": 1.0, "target_bounds": (-1, 1), "solver": STEP, "radius": FAR}
    known |= {"fit_intercept": False} | WITHIN_GROUP | parameters
    return DPWorstGroupRegressor(EPSILON, DELTA, **known)


def online(**parameters):
    """Return a classifier that learns online; the last round alone is released."""
    return classifier(solver=OCO(SLOW, **{"averaging": 100.0, **parameters}))


def fitted(model, make=table, form=np.asarray, **of_data):
    """Return a run that fits a model to what `make` makes, rows in a form."""

    def run(canary):
        X, y, groups = make(canary, **of_data)
        model.fit(form(X), y, groups=groups)
        return released(model), model.privacy_

    return run


def membership(canary):
    """Learn where groups are hidden; the canary is alone in its group, or there is none in it."""
    X, y, groups = table(True)
    groups[0] = int(not canary)
    hidden = {"neighbours": "replace-one", "group_labels": [0, 1], "fit_intercept": True}
    model = classifier(solver=MGR(n_steps=2, centring=False), radius=3.0, **hidden)
    model.fit(X, y, groups=groups)
    seen = [released(model), model.group_sizes_, np.log(model.plan_.predicted_excess_if_worst)]
    return np.concatenate(seen), model.privacy_


def in_two_calls(canary, **parameters):
    """Learn in two calls of a round each, the canary in the first."""
    model = online(n_rounds=2, batch_size=4, horizon=2, **parameters)
    X, y, groups = one_group(canary)
    for half in (slice(0, 4), slice(4, 8)):
        model.partial_fit(X[half], y[half], groups=groups[half])
    return released(model), model.privacy_


def ranked(canary, form=np.asarray, **of_data):
    """Rank by class moments; with so much of a ridge the weights are the difference of means."""
    X, y, _ = one_group(canary) if not of_data else table(canary, **of_data)
    model = DPAUCClassifier(EPSILON, DELTA, data_norm=1.0, ridge=1e6, classes=[0, 1])
    model.fit(form(X), y)
    seen = np.concatenate([model.coef_.ravel(), model.intercept_, model.class_counts_])
    return seen, model.privacy_


def fit_scaler(X):
    scaler = DPStandardScaler(EPSILON, DELTA, bounds=(-1.0, 1.0)).fit(X)
    return np.concatenate([scaler.mean_, scaler.scale_]), scaler


def scaled(canary, ends=(-1.0, 1.0)):
    seen, scaler = fit_scaler(bounded(canary, ends))
    return seen, scaler.privacy_


def scores_counted(canary, around=DPThresholdClassifier):
    """Count the scores of a public model; the canary changes its class."""
    X, y, groups = table(canary)
    public = FrozenEstimator(LogisticRegression(C=1e-6).fit([[-1.0, 0.0], [1.0, 0.0]], [0, 1]))
    # Laplace noise of a large ε takes more runs to tell from a smaller one
    model = around(public, epsilon=1.0, delta=DELTA, group_labels=[0, 1], held_out=True, n_bins=2)
    model.fit(X, y, groups)
    return model.histogram_.ravel().astype(float), model.privacy_


def with_thresholds(canary):
    """Learn a model and its thresholds within one budget."""
    X, y, groups = table(canary)
    model = DPThresholdClassifier(classifier(), epsilon=EPSILON, delta=DELTA, n_bins=2)
    model.fit(X, y, groups)
    seen = [released(model.estimator_), model.histogram_.ravel(), model.histogram_.sum(axis=0)[1]]
    return np.concatenate(seen), model.privacy_
