"""Small seeded fits of everything that draws noise, for `tests/test_replay.py`.

Every case is named after what it varies: ``solver | loss | storage | relation``, or by a sentence.
Only public names of packages are imported, so that files may move behind them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.frozen import FrozenEstimator

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.oracles import InMemoryOracle
from sklearn_dpwg.data.sources import ArraySource, ParquetSource
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.losses import Huber, Quantile
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPCalibratedClassifier, DPThresholdClassifier
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.solvers import (
    AGS,
    GDA,
    MGR,
    OCO,
    SOLVERS,
    Moments,
    OnlineToBatch,
    PhasedERM,
)
from tests.helpers.relations import WITHIN_GROUP

Fit = Callable[[], Any]

LABELS = ["a", "b", "c"]
N = 240
RNG = np.random.default_rng(29)
GROUPS = RNG.permutation(np.repeat(LABELS, [140, 70, 30]))
ROWS = RNG.uniform(-0.5, 0.5, (N, 4))
ROWS[RNG.random((N, 4)) < 0.3] = 0.0
SIGNAL = ROWS[:, 0] + np.where(GROUPS == "a", 0.4, -0.4) * ROWS[:, 1]
TARGETS = {
    "numbers": np.clip(SIGNAL + 0.1 * RNG.normal(size=N), -1.0, 1.0),
    "two": (SIGNAL + 0.1 * RNG.normal(size=N) > 0.0).astype(int),
    "three": np.digitize(SIGNAL + 0.1 * RNG.normal(size=N), [-0.15, 0.15]),
}
KINDS = {"log_loss": "two", "hinge": "two", "smoothed_hinge": "two", "multinomial": "three"}

VARIANTS: dict[str, Any] = {
    "ags paper": AGS(schedule="paper", n_steps=20),
    "gda paper": GDA(schedule="paper", n_steps=20),
    "mgr 12 steps": MGR(n_steps=12, risk_fraction=0.2, step_size=0.5),
    "mgr batches": MGR(n_steps=30, sampling_rate=0.3),
    "mgr centred": MGR(centring=True),
    "mgr not centred": MGR(centring=False),
    "mgr paper": MGR(schedule="paper", n_steps=20),
    "moments 2 rounds": Moments(n_rounds=2, ridge=0.5),
    "oco paper": OCO(schedule="paper"),
    "oco sampled": OCO(play="sampled"),
    "oco 40 rounds": OCO(n_rounds=40),
    "online-to-batch paper": OnlineToBatch(schedule="paper"),
    "phased-erm paper": PhasedERM(schedule="paper"),
    "phased-erm 4 phases": PhasedERM(n_phases=4, sharpening=3.0),
    "phased-erm centred": PhasedERM(centring=True),
    "oco optimistic": OCO(learner="optimistic"),
    **{
        f"online-to-batch {learner}": OnlineToBatch(learner=learner)
        for learner in ("ftrl", "parameter-free")
    },
    "online-to-batch tree": OnlineToBatch(noise="tree"),
    **{f"oco {noise}": OCO(noise=noise) for noise in ("tree", "independent")},
}
# Solvers that learn where groups are protected, and the one without privacy.
HIDING = ("auto", "exact", "mgr", "moments", "phased-erm")
FRESH: dict[str, Any] = {
    "oco": partial(OCO),
    "oco sampled": partial(OCO, play="sampled"),
    "oco tree": partial(OCO, noise="tree"),
    "online-to-batch": partial(OnlineToBatch),
    "phased-erm": partial(PhasedERM),
    "fresh phased-erm": partial(PhasedERM, schedule="paper"),
}


def make(solver: Any, loss: Any, *, hides: bool = False, **parameters: Any) -> Any:
    """Return an unfitted estimator; the solver "exact" comes without privacy."""
    known = {
        "solver": solver,
        "loss": "log_loss" if loss == "multinomial" else loss,
        "epsilon": np.inf if solver == "exact" else 4.0,
        "data_norm": 1.0,
        "random_state": 29,
    }
    known |= {"group_labels": LABELS} if hides else WITHIN_GROUP
    if kind_of(loss) == "numbers":
        return DPWorstGroupRegressor(**known | {"target_bounds": (-1.0, 1.0)} | parameters)
    return DPWorstGroupClassifier(**known | {"radius": 5.0} | parameters)


def kind_of(loss: Any) -> str:
    return KINDS.get(loss, "numbers") if isinstance(loss, str) else "numbers"


# --- where the records are ------------------------------------------------------------------------


def _in_parquet(model: Any, y: Any) -> Any:
    columns = [f"x{number}" for number in range(ROWS.shape[1])]
    frame = pd.DataFrame(ROWS, columns=columns).assign(y=y, group=GROUPS)
    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate((frame[:100], frame[100:])):
            part.to_parquet(Path(folder) / f"{number}.parquet")
        source = ParquetSource(folder, features=columns, target="y", groups="group")
        return model.fit(source)


STORAGES: dict[str, Callable[[Any, Any], Any]] = {
    "dense": lambda model, y: model.fit(ROWS, y, groups=GROUPS),
    "csr": lambda model, y: model.fit(csr_array(ROWS), y, groups=GROUPS),
    "float32": lambda model, y: model.fit(ROWS.astype(np.float32), y, groups=GROUPS),
    "csr of float32": lambda model, y: model.fit(
        csr_array(ROWS.astype(np.float32)), y, groups=GROUPS
    ),
    "two partitions": lambda model, y: model.fit(ArraySource(ROWS, y, GROUPS, block_rows=150)),
    "parquet": _in_parquet,
}


def fit(
    solver: Any, loss: Any, storage: str = "dense", *, hides: bool = False, **parameters: Any
) -> Any:
    return STORAGES[storage](make(solver, loss, hides=hides, **parameters), TARGETS[kind_of(loss)])


# --- other doors ----------------------------------------------------------------------------------


def from_oracle(solver: Any, loss: str) -> Any:
    y = TARGETS[kind_of(loss)]
    classes = {} if kind_of(loss) == "numbers" else {"classes": np.unique(y)}
    oracle = InMemoryOracle(ROWS, y, GROUPS, random_state=3)
    sizes = {label: int(np.sum(label == GROUPS)) for label in LABELS}
    return make(solver(), loss).fit_oracle(oracle, group_sizes=sizes, n_features=4, **classes)


def in_calls(solver: Any, loss: str) -> Any:
    y = TARGETS[kind_of(loss)]
    classes = {} if kind_of(loss) == "numbers" else {"classes": np.unique(y)}
    model = make(solver(horizon=2), loss)
    order = np.lexsort((np.arange(N) % 2, GROUPS))
    for part in (np.sort(order[::2]), np.sort(order[1::2])):
        model.partial_fit(ROWS[part], y[part], groups=GROUPS[part], **classes)
    return model


def after_a_start(solver: Any, loss: str) -> Any:
    start = (np.array([[0.8, 0.2, 0.0, -0.1]]), np.array([0.1]))
    if kind_of(loss) == "numbers":
        start = (start[0][0], 0.1)
    return make(solver, loss).fit(ROWS, TARGETS[kind_of(loss)], groups=GROUPS, start=start)


def overlapping(solver: str, loss: str, overlap: str = "both", **parameters: Any) -> Any:
    groups = pd.DataFrame({"place": GROUPS, "side": np.where(ROWS[:, 1] > 0.0, "l", "r")})
    if overlap == "membership":
        groups = pd.DataFrame({"a": groups["place"] == "a", "l": groups["side"] == "l"})
    made = MGR(**parameters) if parameters else VARIANTS.get(solver, solver)
    return make(made, loss, overlap=overlap).fit(ROWS, TARGETS[kind_of(loss)], groups=groups)


def ranking(storage: str = "dense", **parameters: Any) -> Any:
    known = {"epsilon": 4.0, "data_norm": 1.0, "random_state": 29}
    rows = csr_array(ROWS) if storage == "csr" else ROWS
    return DPAUCClassifier(**known | parameters).fit(rows, TARGETS["two"])


def shifted(kind: Any, *, hides: bool = False, frozen: bool = False, **parameters: Any) -> Any:
    model = make(MGR(n_steps=10), "log_loss", hides=hides)
    if frozen:
        model = FrozenEstimator(model.fit(ROWS, TARGETS["two"], groups=GROUPS))
    made = kind(model, epsilon=4.0, random_state=29, group_labels=LABELS, **parameters)
    return made.fit(ROWS, TARGETS["two"], groups=GROUPS)


def audit(**parameters: Any) -> Any:
    scores = 1.0 / (1.0 + np.exp(-6.0 * ROWS[:, 0]))
    known = {"epsilon": 2.0, "group_labels": LABELS, "random_state": 29}
    planned = GroupAudit(**known | parameters)
    result = planned.run(TARGETS["two"], scores, GROUPS)
    # the result's own text carries a date
    return SimpleNamespace(counts=result.counts, privacy_=result.privacy_, plan_=planned.plan())


def search(hides: bool = False) -> Any:
    model = make(MGR(n_steps=5), "log_loss", hides=hides, random_state=None)
    result = DPSearchCV(model, {"radius": [1.0, 5.0]}, epsilon=4.0, n_iter=3, random_state=29)
    return result.fit(ROWS, TARGETS["two"], groups=GROUPS)


OTHERS: dict[str, Fit] = {
    "a search": search,
    "a search over hidden groups": partial(search, hides=True),
    "audit": audit,
    "audit of bins": partial(audit, score_edges=[0.25, 0.5]),
    "audit of public sizes": partial(audit, sizes="public"),
    "auc": ranking,
    "auc | csr": partial(ranking, "csr"),
    "auc | exact": partial(ranking, epsilon=np.inf),
    "calibration": partial(shifted, DPCalibratedClassifier),
    "calibration in all groups, held out": partial(
        shifted, DPCalibratedClassifier, frozen=True, per_group=False, held_out=True
    ),
    "calibration of hidden groups": partial(shifted, DPCalibratedClassifier, hides=True),
    "scaler": lambda: DPStandardScaler(epsilon=2.0, random_state=29).fit(ROWS),
    "thresholds": partial(shifted, DPThresholdClassifier),
    "thresholds of hidden groups": partial(shifted, DPThresholdClassifier, hides=True),
    "thresholds of a frozen model": partial(shifted, DPThresholdClassifier, frozen=True),
    **{
        f"thresholds, {constraint}": partial(shifted, DPThresholdClassifier, constraint=constraint)
        for constraint in ("selection_rate", "true_positive_rate")
    },
    "mgr | one group": lambda: make("mgr", "log_loss").fit(
        ROWS, TARGETS["two"], groups=np.repeat("a", N)
    ),
    "mgr | groups by a column of rows": lambda: make(
        "mgr", "log_loss", group_by=lambda X: np.where(X[:, 1] > 0.0, "a", "b")
    ).fit(ROWS, TARGETS["two"]),
    **{
        f"{solver} | attributes that overlap": partial(overlapping, solver, loss)
        for solver, loss in {
            "ags": "log_loss",
            "auto": "log_loss",
            "exact": "log_loss",
            "gda": "squared_error",
            "mgr": "multinomial",
            "moments": "squared_error",
            "phased-erm": "hinge",
        }.items()
    },
    "mgr | memberships that overlap": partial(
        overlapping, "mgr", "squared_error", overlap="membership", centring=False
    ),
    "mgr | batches of attributes that overlap": partial(
        overlapping, "mgr", "log_loss", n_steps=10, sampling_rate=0.5
    ),
    "mgr | three rows a person": partial(fit, "mgr", "log_loss", rows_per_person=3),
    "mgr | no intercept": partial(fit, "mgr", "log_loss", fit_intercept=False),
    "mgr | equal prior": partial(fit, "mgr", "squared_error", prior="uniform"),
    "ags | one group": lambda: make(AGS(), "log_loss").fit(
        ROWS, TARGETS["two"], groups=np.repeat("a", N)
    ),
}


def _name(solver: str, loss: Any, storage: str, hides: bool) -> str:
    relation = "replace-one" if hides else "replace-one-within-group"
    words = loss if isinstance(loss, str) else f"{type(loss).__name__} of its own"
    return f"{solver} | {words} | {storage} | {relation}"


def _of_solvers() -> dict[str, Fit]:
    """Every solver by name: losses, storages and relations, and a start."""
    asked = []
    for name in SOLVERS:
        own = "squared_error" if name == "moments" else "log_loss"
        asked += [
            (name, loss, "dense", hides)
            for loss in ("log_loss", "squared_error", "hinge")
            for hides in ((False, True) if loss == "log_loss" or name in HIDING else (False,))
        ]
        asked += [
            (name, own, storage, False)
            for storage in STORAGES
            if storage != "csr of float32" or name in ("exact", "mgr", "phased-erm")
        ]
    asked += [
        (name, "squared_error" if name == "moments" else "log_loss", storage, True)
        for name in HIDING
        for storage in ("csr", "float32", "two partitions")
    ]
    asked += [
        (name, loss, "dense", False)
        for name in ("auto", "exact", "mgr", "oco")
        for loss in ("multinomial", "huber", "absolute_error")
    ]
    asked += [
        ("mgr", Quantile(level=0.8), "dense", False),
        ("mgr", Huber(threshold=0.1), "two partitions", False),
        ("mgr", "multinomial", "csr", False),
    ]
    starts = {
        f"{name} | {loss} | start": partial(after_a_start, name, loss)
        for name in SOLVERS
        for loss in (["squared_error"] if name == "moments" else ["log_loss", "squared_error"])
    }
    # where noise is small, other limits bind: of smoothness on steps, of passes on their number
    quiet = {
        f"{name} | {loss} | epsilon 1000": partial(fit, name, loss, epsilon=1000.0)
        for name in SOLVERS
        for loss in ("log_loss", "squared_error")
        if name != "exact" and (name, loss) != ("moments", "log_loss")
    }
    fits = {
        _name(solver, loss, storage, hides): partial(fit, solver, loss, storage, hides=hides)
        for solver, loss, storage, hides in asked
    }
    return fits | starts | quiet


def _of_variants() -> dict[str, Fit]:
    """Other settings of solvers, in memory; batches on all storages that they know."""
    asked = [
        (name, loss, "dense", False) for name in VARIANTS for loss in ("log_loss", "squared_error")
    ]
    asked += [
        ("mgr batches", "log_loss", "csr", False),
        ("mgr batches", "log_loss", "two partitions", False),
        ("mgr batches", "log_loss", "dense", True),
    ]
    return {
        _name(name, loss, storage, hides): partial(fit, VARIANTS[name], loss, storage, hides=hides)
        for name, loss, storage, hides in asked
    }


def _of_fresh_records() -> dict[str, Fit]:
    return {
        f"{name} | {loss} | {door}": partial(learn, solver, loss)
        for name, solver in FRESH.items()
        for loss in ("log_loss", "squared_error")
        for door, learn in {"oracle": from_oracle, "two calls": in_calls}.items()
    }


CASES: dict[str, Fit] = _of_solvers() | _of_variants() | _of_fresh_records() | OTHERS
