"""Every way of groups to every fit, in every meta-estimator, as the table of the docs says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_validate,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import UngroupedWarning
from sklearn_dpwg.metrics import worst_group_scorer
from sklearn_dpwg.preprocessing import BoundedScaler
from sklearn_dpwg.solvers import MGR

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.NoProtectionWarning")

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "pipelines.md"

RNG = np.random.default_rng(0)
GROUPS = np.where(np.arange(240) % 3, "white", "black")
X = pd.DataFrame(RNG.uniform(-0.5, 0.5, size=(240, 2)), columns=["v", "w"]).assign(
    u=np.where(GROUPS == "white", 0.5, -0.5),
    race=GROUPS,
    town=np.where(np.arange(240) % 2, "A", "B"),
)
Y = np.where(X["v"] + 0.1 * RNG.normal(size=240) > 0, "yes", "no")


class Checked(DPWorstGroupClassifier):
    """Holds the groups that reach fit against a column that knows them."""

    def fit(self, X, y, groups=None):
        if self.group_by is None:
            assert groups is not None, "no groups"
            known = X["u"] if hasattr(X, "columns") else X[:, 0]
            assert np.array_equal(np.asarray(groups) == "white", known > 0), "groups of other rows"
        fitted = super().fit(X, y, groups=groups)
        assert "race" not in getattr(fitted, "feature_names_in_", ())
        return fitted


PUBLIC = {
    "solver": MGR(n_steps=2), "group_labels": ["black", "white"], "random_state": 0,
    "data_norm": 2.0, "neighbours": "replace-one",
}  # fmt: skip


def model(**parameters):
    return Checked(**PUBLIC | parameters)


def pipe(final):
    """Return a pipeline over columns of text, of which the groups reach a model that asks."""
    towns = OneHotEncoder(categories=[["A", "B"]], sparse_output=False)
    parts = [
        ("numbers", BoundedScaler(bounds=(-1, 1)), ["u", "v", "w"]),
        ("town", towns, ["town"]),
        ("race", "drop" if final.group_by is None else "passthrough", ["race"]),
    ]
    front = ColumnTransformer(parts, verbose_feature_names_out=False)
    return Pipeline([("columns", front.set_output(transform="pandas")), ("model", final)])


def nested(final):
    return Pipeline([("same", "passthrough"), *pipe(final).steps])


GRID = {"model__epsilon": [1.0, 2.0]}
SCORER = worst_group_scorer(group_by="race")


class Recipe(NamedTuple):
    """A meta-estimator: what is fitted, and how it takes metadata by name."""

    wrap: Callable[[Any], Any]
    call: Callable[..., Any] = lambda fitted, **metadata: fitted.fit(X, Y, **metadata)


def with_params(function):
    return lambda fitted, **metadata: function(
        fitted, X, Y, cv=2, n_jobs=2, params=metadata or None
    )


def strictly(function):
    return lambda fitted, X, y, **settings: function(fitted, X, y, error_score="raise", **settings)


def search(kind, **settings):
    return lambda final: kind(
        pipe(final), GRID, cv=2, n_jobs=2, error_score="raise", scoring=SCORER, **settings
    )


def inner(final):
    return GridSearchCV(pipe(final), GRID, cv=2, error_score="raise", scoring=SCORER)


def important(fitted, **metadata):
    permutation_importance(fitted.fit(X, Y, **metadata), X, Y, scoring=SCORER, n_repeats=1)


RECIPES = {
    "Pipeline": Recipe(nested),
    "Pipeline with a ColumnTransformer": Recipe(pipe),
    "GridSearchCV": Recipe(search(GridSearchCV)),
    "RandomizedSearchCV": Recipe(search(RandomizedSearchCV, n_iter=2)),
    "HalvingGridSearchCV": Recipe(search(HalvingGridSearchCV, random_state=0, min_resources=120)),
    "cross_validate": Recipe(pipe, with_params(strictly(cross_validate))),
    "cross_val_predict": Recipe(pipe, with_params(cross_val_predict)),
    "learning_curve": Recipe(pipe, with_params(strictly(learning_curve))),
    "nested cross-validation": Recipe(inner, with_params(strictly(cross_validate))),
    "permutation_importance": Recipe(pipe, important),
    "CalibratedClassifierCV": Recipe(lambda m: CalibratedClassifierCV(pipe(m), cv=2, n_jobs=2)),
    "TunedThresholdClassifierCV": Recipe(
        lambda m: TunedThresholdClassifierCV(pipe(m), cv=2, n_jobs=2)
    ),
    "TunedThresholdClassifierCV with worst_group_scorer": Recipe(
        lambda m: TunedThresholdClassifierCV(
            pipe(m), cv=2, scoring=SCORER if m.group_by else worst_group_scorer()
        )
    ),
    "VotingClassifier": Recipe(lambda m: VotingClassifier([("one", pipe(m)), ("two", pipe(m))])),
    "StackingClassifier": Recipe(lambda m: StackingClassifier([("one", pipe(m))], cv=2)),
    "OneVsRestClassifier": Recipe(lambda m: OneVsRestClassifier(pipe(m))),
    "MultiOutputClassifier": Recipe(
        lambda m: MultiOutputClassifier(pipe(m)),
        lambda fitted, **metadata: fitted.fit(X, np.column_stack([Y, Y[::-1]]), **metadata),
    ),
    "BaggingClassifier(bootstrap=False)": Recipe(
        lambda m: BaggingClassifier(m, 2, max_samples=0.5, bootstrap=False, n_jobs=2),
        lambda fitted, **metadata: fitted.fit(X[["u", "v", "w"]], Y, **metadata),
    ),
}
# What scikit-learn says itself, and what follows from what it hands on; others are failures.
REFUSALS = (
    "got unexpected argument|enable_metadata_routing=True|not supported|unexpected keyword|"
    "thresholds are tuned on predictions alone|group_by must name columns|nothing hands groups"
)
WAYS = ("`groups=`, routed", "`model__groups=`", "`group_by`")


def outcome(recipe: Recipe, way: str) -> str:
    """Return "yes" where every fit got its own groups, and "no" where scikit-learn refuses."""
    final = model(group_by="race") if way == "`group_by`" else model()
    metadata = {
        "`groups=`, routed": {"groups": GROUPS},
        "`model__groups=`": {"model__groups": GROUPS},
        "`group_by`": {},
    }[way]
    with (
        config_context(enable_metadata_routing="routed" in way),
        joblib.parallel_config("threading"),
    ):
        try:
            recipe.call(recipe.wrap(final), **metadata)
        except (AttributeError, TypeError, ValueError, UngroupedWarning) as error:
            if re.search(REFUSALS, str(error)) and "groups must be given" not in str(error):
                return "no"
            raise
    return "yes"


def table() -> dict[str, tuple[str, ...]]:
    """Return the cells of the page."""
    rows = re.findall(r"^\| `?([^|`]+)`? \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name.strip(): tuple(cell.strip() for cell in cells.split("|")) for name, cells in rows}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RECIPES)
def test_the_table_of_the_page(name, way):
    page = table()
    assert page["meta-estimator"] == WAYS
    assert page[name][WAYS.index(way)] == outcome(RECIPES[name], way)


def test_the_table_has_no_other_rows():
    assert set(table()) == {*RECIPES, "meta-estimator"}


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_fit_asks_for_groups(task):
    estimator = task.make()
    assert estimator.get_metadata_routing().fit.requests["groups"] is True
    other = estimator.set_fit_request(groups="race")
    assert other.get_metadata_routing().fit.requests["groups"] == "race"


def test_groups_that_stop_at_the_splitter_are_missed(task):
    X, y, groups = task.data
    search = GridSearchCV(task.make(), {"epsilon": [1.0]}, cv=GroupKFold(3))
    with pytest.warns(UngroupedWarning):
        assert search.fit(X, y, groups=groups).best_estimator_.group_labels_.tolist() == [0]
    search.set_params(estimator__group_labels=["a", "b", "c"], error_score="raise")
    with pytest.raises(ValueError, match=r"^groups must be given where group_labels is set"):
        search.fit(X, y, groups=groups)
