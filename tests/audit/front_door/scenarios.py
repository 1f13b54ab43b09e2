"""Everything that a user can fit, each with a canary that gives away as much as one record can."""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
from scipy.sparse import csr_array
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.learners import FTRL
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.oracles import DatabaseOracle, InMemoryOracle
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.solvers import MGR, OCO, Moments, PhasedERM
from tests.audit.front_door.attack import Run, Spent

EPSILON, DELTA = 8.0, 1e-6
N_OTHERS = 30

# One short step from zero, far inside the ball: the model is the released gradient, times a number.
STEP = MGR(n_steps=1, averaging=1.0, step_size=1e-6, risk_share=0.02)
PHASE = PhasedERM(n_phases=1, mu_weights=1e3, mu_groups=np.inf, averaging=1.0)
FAR = 1e-2  # radius; scores are so small that slopes are those at zero
SLOW = FTRL(strength=1e6)


def table(canary, *, long=1.0, n_classes=2, values=None):
    """Return rows, targets and groups; the first record, alone in its group, is the canary."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(N_OTHERS + 1, 2))
    y = rng.integers(0, n_classes, size=N_OTHERS + 1)
    X[0], y[0] = np.multiply((0.6, 0.8), long), int(canary)
    groups = np.ones(N_OTHERS + 1, dtype=int)
    groups[0] = 0
    if values is not None:
        y = rng.uniform(-0.5, 0.5, size=N_OTHERS + 1)
        y[0] = values[int(canary)]
    return X, y, groups


def released(model):
    """Return all numbers of a model that anybody may see; of group weights the logarithms."""
    group_weights = np.maximum(getattr(model, "group_weights_", ()), 1e-300)
    parts = [model.coef_, model.intercept_, np.log(group_weights)]
    return np.concatenate([np.ravel(part) for part in parts])


def classifier(**parameters):
    parameters = {"solver": STEP, "radius": FAR, "fit_intercept": False, **parameters}
    return DPWorstGroupClassifier(EPSILON, DELTA, **{"classes": [0, 1], **parameters})


def regressor(**parameters):
    parameters = {"solver": STEP, "radius": FAR, "fit_intercept": False, **parameters}
    return DPWorstGroupRegressor(EPSILON, DELTA, **parameters)


def plainly(model, form=np.asarray, **of_table):
    def run(canary):
        X, y, groups = table(canary, **of_table)
        model.fit(form(X), y, groups=groups)
        return released(model), model.privacy_

    return run


def one_group(canary, n_records=8):
    X, y, _ = table(canary)
    return X[:n_records], y[:n_records], np.zeros(n_records, dtype=int)


def online(**parameters):
    return classifier(solver=OCO(SLOW, averaging=0.0, **parameters))


def fit_one_group(model, canary):
    X, y, groups = one_group(canary)
    model.fit(X, y, groups=groups)
    return released(model), model.privacy_


def in_two_calls(canary):
    model = online(n_rounds=4, batch_size=2, horizon=2)
    X, y, groups = one_group(canary)
    for half in (slice(0, 4), slice(4, 8)):
        model.partial_fit(X[half], y[half], groups=groups[half])
    return released(model), model.privacy_


def from_memory(canary):
    X, y, groups = one_group(canary)
    return from_oracle(InMemoryOracle(X, y, groups, random_state=0), 8)


def from_oracle(oracle, size, label=0):
    model = online(n_rounds=size // 2, batch_size=2)
    model.fit_oracle(oracle, group_sizes={label: size}, n_features=2)
    return released(model), model.privacy_


# one row's feature decides where it stands in the index, and so where a scan finds all others
SCANNED = 40


def from_database(canary, oracle=DatabaseOracle):
    rng = np.random.default_rng(1)
    connection = sqlite3.connect(":memory:")
    connection.execute("create table visits (id integer primary key, age, dose, cured, clinic)")
    ages = np.linspace(-0.5, 0.5, SCANNED)
    doses, cured = rng.uniform(-0.5, 0.5, size=SCANNED), rng.integers(0, 2, size=SCANNED)
    ages[0], doses[0], cured[0] = (0.6 if canary else -0.6), 0.8, int(canary)
    rows = zip(range(SCANNED), ages.tolist(), doses.tolist(), cured.tolist(), strict=True)
    connection.executemany("insert into visits values (?, ?, ?, ?, 'east')", rows)
    connection.execute("create index by_age on visits (clinic, age, dose, cured, id)")
    drawn = oracle(
        connection,
        "visits",
        features=["age", "dose"],
        target="cured",
        groups="clinic",
        key="id",
        random_state=0,
    )
    found = from_oracle(drawn, SCANNED, "east")
    connection.close()
    return found


def scaled(canary):
    X, _, _ = table(False)
    X[0] = (1.0, 1.0) if canary else (-1.0, -1.0)
    scaler = DPStandardScaler(EPSILON, DELTA, bounds=(-1.0, 1.0)).fit(X)
    return np.concatenate([scaler.mean_, scaler.scale_]), scaler.privacy_


def scaled_from_outside(canary):
    """A value far beyond the bounds, which are to clip it."""
    X, _, _ = table(False)
    X[0] = (9.0, 9.0) if canary else (1.0, 1.0)
    scaler = DPStandardScaler(EPSILON, DELTA, bounds=(-1.0, 1.0)).fit(X)
    return np.concatenate([scaler.mean_, scaler.scale_]), scaler.privacy_


def in_ledger(fits: Callable[[bool], list[np.ndarray]], canary: bool):
    with PrivacyLedger(1e3, DELTA) as ledger:
        seen = fits(canary)
    return np.concatenate(seen), Spent(ledger.epsilon_spent, DELTA)


def scaler_and_model(canary):
    X, y, groups = table(canary)
    X[0] = (1.0, 1.0) if canary else (-1.0, -1.0)
    scaler = DPStandardScaler(EPSILON, DELTA, bounds=(-1.0, 1.0)).fit(X)
    model = classifier(data_norm=scaler.row_norm_).fit(scaler.transform(X), y, groups=groups)
    return [scaler.mean_, scaler.scale_, released(model)]


def fit_twice(canary):
    X, y, groups = table(canary)
    model = classifier()
    return [released(model.fit(X, y, groups=groups)) for _ in range(2)]


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
                found = model.set_params(epsilon=epsilon).fit(X, y, groups=groups)
                os.write(of_parent, pickle.dumps(released(found)))
                status = 0
            finally:
                os._exit(status)
        os.close(of_parent)
        with os.fdopen(of_child, "rb") as pipe:
            seen.append(pickle.loads(pipe.read()))
        os.waitpid(process, 0)
    return seen


def searched(canary):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(41, 2))
    y, groups = rng.integers(0, 2, size=41), np.zeros(41, dtype=int)
    X[0], y[0] = (0.6, 0.8), int(canary)
    model = DPWorstGroupClassifier(solver=STEP, radius=FAR, fit_intercept=False, classes=[0, 1])
    search = DPSearchCV(
        model, {"prior": ["uniform", "proportional"]}, epsilon=EPSILON, delta=DELTA, n_iter=2
    )
    search.fit(X, y, groups)
    chosen = float(search.best_params_["prior"] == "uniform")
    seen = [released(search.best_estimator_), [search.best_score_, chosen]]
    return np.concatenate(seen), search.privacy_


LONG = {"long": 10.0}
POLARS = partial(pl.DataFrame, schema=["a", "b"], orient="row")
SINGLE = partial(np.asarray, dtype=np.float32)

SCENARIOS: dict[str, Run] = {
    "MGR, a pass": plainly(classifier()),
    "MGR, a drawn group": plainly(
        classifier(
            solver=MGR(n_steps=1, averaging=1.0, step="sampled", step_size=1e-6), prior="uniform"
        )
    ),
    "MGR, many passes": plainly(classifier(solver=MGR(n_steps=20), radius=1.0)),
    "MGR, group risks": plainly(
        regressor(
            solver=MGR(n_steps=1, averaging=1.0, step_size=1e-6, risk_share=0.9, loss_ceiling=0.1),
            loss="absolute_error",
        ),
        values=(0.0, 1.0),
    ),
    "MGR, Laplace": plainly(
        regressor(
            solver=MGR(
                n_steps=1, averaging=1.0, step_size=1e-6, risk_share=0.9, risk_noise="laplace"
            ),
            loss="absolute_error",
        ),
        values=(0.0, 1.0),
    ),
    "MGR, batches": plainly(
        classifier(solver=MGR(n_steps=4, sampling_rate=0.25, averaging=1.0, step_size=1e-6))
    ),
    "MGR, three classes": plainly(classifier(classes=[0, 1, 2]), n_classes=3),
    "MGR, regression": plainly(regressor(), values=(-1.0, 1.0)),
    "MGR, targets outside": plainly(regressor(), values=(1.0, 50.0)),
    "MGR, large intercept": plainly(classifier(fit_intercept=True, intercept_scaling=5.0)),
    "MGR, long rows, dense": plainly(classifier(), **LONG),
    "MGR, long rows, CSR": plainly(classifier(), csr_array, **LONG),
    "MGR, long rows, float32": plainly(classifier(), SINGLE, **LONG),
    "MGR, long rows, pandas": plainly(classifier(), pd.DataFrame, **LONG),
    "MGR, long rows, polars": plainly(classifier(), POLARS, **LONG),
    "phased ERM, one phase": plainly(classifier(solver=PHASE)),
    "phased ERM, three phases": plainly(
        classifier(solver=PhasedERM(n_phases=3, mu_weights=1e3, risk_share=0.1, averaging=1.0))
    ),
    "phased ERM, disjoint parts": partial(
        fit_one_group,
        classifier(
            solver=PhasedERM(n_phases=2, mu_weights=1e3, composition="parallel", averaging=1.0)
        ),
    ),
    "moments": plainly(regressor(solver=Moments(1), radius=3.0), values=(-1.0, 1.0)),
    "moments, three rounds": plainly(regressor(solver=Moments(3), radius=3.0), values=(-1.0, 1.0)),
    "auto, classifier": plainly(classifier(solver="auto", radius=20.0, fit_intercept=True)),
    "auto, regressor": plainly(
        regressor(solver="auto", radius=20.0, fit_intercept=True), values=(-1.0, 1.0)
    ),
    "OCO, weighted": partial(fit_one_group, online(n_rounds=4)),
    "OCO, sampled": partial(fit_one_group, online(n_rounds=4, batch_size=2, play="sampled")),
    "OCO, tree": partial(fit_one_group, online(n_rounds=4, noise="tree")),
    "OCO, two calls of partial_fit": in_two_calls,
    "OCO, InMemoryOracle": from_memory,
    "OCO, DatabaseOracle": from_database,
    "DPStandardScaler": scaled,
    "DPStandardScaler, values outside": scaled_from_outside,
    "ledger: scaler and model": partial(in_ledger, scaler_and_model),
    "ledger: a model fitted twice": partial(in_ledger, fit_twice),
    "ledger: clones": partial(in_ledger, clones),
    "ledger: forked processes": partial(in_ledger, forks),
    "DPSearchCV": searched,
}
