"""How far a fit is: callbacks of scikit-learn, and ``verbose``."""

import math

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV
from sklearn.utils.fixes import parse_version

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.oracles import GeneratorOracle
from sklearn_dpwg.solvers import MGR, OCO, PhasedERM
from tests.helpers.relations import WITHIN_GROUP

has_callbacks = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"),
    reason="scikit-learn has callbacks from 1.9 on",
)


def records(n=400):
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (n, 3))
    return X, (X[:, 0] > 0).astype(int), rng.integers(0, 2, n)


class Listener:
    """Writes down what it is told."""

    def __init__(self):
        self.events = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, **payload):
        self.hear(estimator, payload, ("begin", context.task_name, context.max_subtasks))

    def on_fit_task_end(self, estimator, context, **payload):
        self.hear(estimator, payload, ("end", context.task_name, context.task_id))
        return True  # "stop"

    def hear(self, estimator, payload, event):
        self.events.append(event)
        if not isinstance(estimator, DPWorstGroupClassifier):
            return  # scikit-learn's own searches hand out all they have
        assert all(each is None for each in payload.values())
        arrays = [value for value in vars(estimator).values() if isinstance(value, np.ndarray)]
        assert all(array.size < 10 for array in arrays)  # the estimator holds no records either

    @property
    def ends(self):
        return [event for event in self.events if event[:2] == ("end", "releases")]


class Wide(Listener):
    """Is handed on to the estimators inside a search."""

    max_propagation_depth = None


@has_callbacks
@pytest.mark.parametrize(
    ("solver", "n_stages"),
    [(MGR(n_steps=7), 16), (MGR(n_steps=120), 100), (PhasedERM(n_phases=3), 7), ("exact", 0)],
    ids=repr,
)
def test_callbacks_hear_of_the_releases_and_get_no_records(solver, n_stages):
    listener = Listener()
    epsilon = float("inf") if solver == "exact" else 1.0
    model = DPWorstGroupClassifier(epsilon, solver=solver, data_norm=1.0).set_callbacks(listener)
    model.fit(*records())
    root = ("begin", "fit", n_stages)
    stages = [
        event
        for index in range(n_stages)
        for event in [("begin", "releases", 0), ("end", "releases", index)]
    ]
    assert listener.events == ["setup", root, *stages, ("end", "fit", 0), "teardown"]
    # nothing of it stays, and the answer "stop" has not been heard
    assert [name for name in vars(model) if "callback" in name] == ["_skl_callbacks"]
    if solver != "exact":
        assert model.n_iter_ == model.plan_.n_steps


@has_callbacks
def test_a_fit_that_fails_tears_down_and_leaves_the_estimator_as_it_was():
    listener, solver = Listener(), OCO(n_rounds=20, batch_size=4)

    def broken(group, size, rng):
        if len(listener.events) > 8:
            raise RuntimeError("the database is gone")
        return rng.uniform(-0.5, 0.5, (size, 3)), rng.integers(0, 2, size)

    model = DPWorstGroupClassifier(solver=solver, data_norm=1.0, **WITHIN_GROUP)
    model.set_callbacks(listener)
    facts = {"group_sizes": {"a": np.inf, "b": np.inf}, "n_features": 3, "classes": [0, 1]}
    with pytest.raises(RuntimeError, match=r"RuntimeError|the database is gone") as caught:
        model.fit_oracle(GeneratorOracle(broken), **facts)
    assert "epsilon = 1" in caught.value.__notes__[0]
    assert listener.events[-1] == "teardown"
    assert ("end", "fit", 0) not in listener.events
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "_callback_fit_ctx")


@has_callbacks
def test_a_search_hands_its_callbacks_on():
    listener = Wide()
    X, y, groups = records()
    with sklearn.config_context(enable_metadata_routing=True):
        model = DPWorstGroupClassifier(solver=MGR(n_steps=3), data_norm=1.0)
        search = GridSearchCV(model, {"radius": [1.0, 2.0]}, cv=2)
        search.set_callbacks(listener).fit(X, y, groups=groups)
    assert len(listener.ends) == (2 * 2 + 1) * 8


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
def test_verbose_prints_planned_steps_and_no_data(capsys):
    X, y, groups = records()
    model = DPWorstGroupClassifier(solver=MGR(n_steps=30), random_state=0, data_norm=1.0)
    model.fit(X, y, groups)
    assert capsys.readouterr().out == ""
    model.set_params(verbose=1).fit(X, y, groups)
    printed = capsys.readouterr().out
    assert printed.startswith("[DPWorstGroupClassifier] Plan of solver 'mgr': 400 records")
    assert "gradient: 30 x gaussian" in printed
    assert "Differential privacy" not in printed  # the guarantee is in privacy_
    assert [line for line in printed.splitlines() if "draws of noise" in line] == [
        f"[DPWorstGroupClassifier] {math.ceil(6.2 * tenth)} of 62 planned draws of noise"
        for tenth in range(1, 11)
    ]
    # the same public facts print the same lines, whatever the records are
    model.fit(-X, 1 - y, groups)
    assert capsys.readouterr().out == printed


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_calls_of_partial_fit_go_on_where_the_one_before_ended(capsys):
    X, y, _ = records(600)
    listener = Listener()
    solver = OCO(batch_size=4, horizon=3)
    model = DPWorstGroupClassifier(solver=solver, verbose=True, data_norm=1.0, **WITHIN_GROUP)
    if hasattr(model, "set_callbacks"):
        model.set_callbacks(listener)
    lines = []
    for rows in map(slice, (0, 200, 400), (200, 400, 600)):
        # every call has as many records of each group
        model.partial_fit(X[rows], y[rows], np.tile([0, 1], 100))
        lines.append(capsys.readouterr().out)
    assert "Plan of solver 'oco'" in lines[0]
    assert "Plan of" not in lines[1] + lines[2]
    told = [line for line in "".join(lines).splitlines() if "planned draws of noise" in line]
    done = [int(line.split()[1].replace(",", "")) for line in told]
    assert len(done) == 10
    assert done == sorted(done)
    if listener.events:
        assert listener.events.count("teardown") == 3
        n_planned = sum(release.max_count for release in model.plan_.releases)
        assert len(listener.ends) == min(n_planned, 100)
