"""Which types a model file may hold: ours, all of them, and no others."""

from __future__ import annotations

import datetime
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline
from skops import io

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.cli.models import load_model, save_model
from sklearn_dpwg.cli.tables import WrongInput
from sklearn_dpwg.losses import LOSSES
from sklearn_dpwg.preprocessing import Boolean, Category, Date, Number, Ordered, PublicSchema
from sklearn_dpwg.serving import trusted_types
from sklearn_dpwg.solvers import MGR, SOLVERS

ZONE = datetime.timezone(datetime.timedelta(hours=1))
KINDS = {
    "age": Number(0, 1),
    "day": Date(datetime.date(2020, 1, 1), datetime.datetime(2021, 1, 1, tzinfo=ZONE)),
    "level": Ordered((1, 2)),
    "flag": Boolean(),
    "town": Category(("A",)),
}
N_RECORDS = 400


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.uniform(size=N_RECORDS),
            "day": pd.Timestamp("2020-05-01"),
            "level": rng.integers(1, 3, N_RECORDS),
            "flag": True,
            "town": "A",
        }
    )


def cases() -> list[tuple[str, str]]:
    """Return every solver with a loss that it takes, and every loss with the default solver."""
    named = [each.name for each in LOSSES]
    solvers = [(name, "squared_error") for name in sorted(SOLVERS) if name != "auto"]
    return [*solvers, ("auto", "log_loss"), ("auto", "three classes")] + [
        ("auto", name) for name in dict.fromkeys(named) if name != "log_loss"
    ]


def fitted(solver: str, loss: str) -> Pipeline:
    """Return a pipeline that was fitted as `fit` does it."""
    X = table()
    y = X["age"].to_numpy()
    epsilon = float("inf") if solver == "exact" else 1.0
    given = {"solver": solver, "data_norm": 1.0, "group_labels": ["a", "b"]}
    groups = np.where(np.arange(N_RECORDS) % 2, "a", "b")
    regression = {each.name for each in LOSSES if each.task == "regression"}
    if loss in regression:
        model = DPWorstGroupRegressor(epsilon, loss=loss, target_bounds=(0.0, 1.0), **given)
    else:
        edges = [0.5] if loss != "three classes" else [0.3, 0.6]
        y = np.array(["l", "m", "n"])[np.digitize(y, edges)]
        name = "log_loss" if loss == "three classes" else loss
        model = DPWorstGroupClassifier(epsilon, loss=name, **given)
    pipeline = Pipeline([("schema", PublicSchema(KINDS)), ("model", model)])
    return pipeline.fit(X, y, model__groups=groups)


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")
def test_every_solver_and_loss_is_saved_and_read_by_the_types_that_are_trusted(tmp_path):
    seen = set()
    for number, (solver, loss) in enumerate(cases()):
        model = fitted(solver, loss)
        path = tmp_path / f"{number}.skops"
        save_model(model, path)
        seen |= set(io.get_untrusted_types(file=path))
        again = load_model(path)
        assert (again.predict(table()) == model.predict(table())).all(), (solver, loss)
        assert again[-1].privacy_ == model[-1].privacy_
        assert again[-1].plan_ == model[-1].plan_
    assert seen <= set(trusted_types())
    # every schedule has been seen, but for one that others are made from
    ends = ("Schedule", "rounds.rounds.Rounds", "Phases")
    schedules = {name for name in trusted_types() if name.endswith(ends)}
    assert schedules - seen == {"sklearn_dpwg.solvers.descent.rule.DescentSchedule"}


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")
@pytest.mark.parametrize(
    "parameters",
    [{"solver": MGR(sampling_rate=0.2, n_steps=5)}, {"neighbours": "replace-any"}],
    ids=["Poisson batches", "hidden groups"],
)
def test_what_the_solvers_plan_beside_their_schedules_is_trusted(parameters, tmp_path):
    """Batches and hidden groups are in the plan that is kept, and were not on the list."""
    X, groups = table(), np.where(np.arange(N_RECORDS) % 2, "a", "b")
    given = {"solver": "mgr", "data_norm": 1.0, "group_labels": ["a", "b"], **parameters}
    model = DPWorstGroupClassifier(4.0, **given)
    pipeline = Pipeline([("schema", PublicSchema(KINDS)), ("model", model)])
    pipeline.fit(X, X["age"] > 0.5, model__groups=groups)
    # the command line names solvers, and keeps none of its own
    pipeline.set_params(model__solver="mgr")
    save_model(pipeline, tmp_path / "m.skops")
    assert load_model(tmp_path / "m.skops")[-1].plan_ == pipeline[-1].plan_


def test_a_trusted_type_holds_values_alone():
    """A class of the package that is kept holds no noise and no open ledger."""
    ours = [name for name in trusted_types() if name.startswith("sklearn_dpwg.")]
    names = {name.rpartition(".")[2] for name in ours}
    secrets = {"NoiseSource", "PoissonSample", "PrivacyLedger", "LedgerRow", "LedgerFile"}
    assert names.isdisjoint(secrets)


class Stranger:
    """A type that a file may name and nobody asked for."""


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        (Stranger(), "types of this package and of scikit-learn alone, and holds .*Stranger: it"),
        (np.ones(3), "a fitted pipeline of a PublicSchema and a private estimator, .* got ndarray"),
        (DPWorstGroupClassifier(), "a fitted pipeline of .*, got DPWorstGroupClassifier"),
        (Pipeline([("schema", PublicSchema(KINDS)), ("model", DPWorstGroupClassifier())]),
         "a fitted pipeline of .*, got Pipeline"),
    ],
)  # fmt: skip
def test_other_files_of_skops_are_refused(thing, says, tmp_path):
    path = tmp_path / "m.skops"
    io.dump(thing, path)
    with pytest.raises(WrongInput, match=says):
        load_model(path)


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")
def test_a_model_that_was_edited_says_how_tables_are_written_or_is_refused(tmp_path):
    model, path = fitted("mgr", "log_loss"), tmp_path / "m.skops"
    for file in ({"delimiter": "\\t"}, {"encoding": "cp1252", "missing_values": ("NA",)}):
        model[0].file = file
        save_model(model, path)
        assert load_model(path)[0].file == file
    for file in ({"delimiter": ";;"}, {"encoding": "\0"}, ["sheet"], {"path": "/etc/passwd"}):
        model[0].file = file
        save_model(model, path)
        with pytest.raises(WrongInput, match="holds a schema that cannot be used: file must hold"):
            load_model(path)


def test_what_is_no_file_of_skops_is_refused(tmp_path):
    path = tmp_path / "m.skops"
    with pytest.raises(WrongInput, match="must be a file that is there"):
        load_model(path)
    path.write_text("no archive")
    with pytest.raises(WrongInput, match="must be a model that `fit` or skops wrote"):
        load_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", "{}")
    with pytest.raises(WrongInput, match="must be a model that"):
        load_model(path)
