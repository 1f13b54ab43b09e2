"""Wrong records in partitions: the sentences of memory, before any draw; nothing is left."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.risks.record_block import RecordBlock
from sklearn_dpwg.data.sources import ArraySource
from sklearn_dpwg.exceptions import ChangedDataError
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.metrics import group_table, worst_group_scorer
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPThresholdClassifier
from sklearn_dpwg.preprocessing import (
    DPStandardScaler,
    Number,
    PublicSchema,
    bound_rows_per_person,
)
from sklearn_dpwg.solvers import MGR
from tests.helpers.partitioned import Partitioned
from tests.helpers.relations import WITHIN_GROUP

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")


def spoiled(values, value):
    values = values.astype(float if isinstance(value, float) else object)
    values[-1] = value
    return values


def named(X, names="uvw", **others):
    frame = pd.DataFrame(X)
    frame.columns = [*names]
    return frame.assign(**others)


# What is wrong of X, y and groups of a classifier; each wrong value is in the last record alone.
WRONG = {
    "NaN": lambda X, y, g: (spoiled(X, np.nan), y, g),
    "infinite": lambda X, y, g: (spoiled(X, np.inf), y, g),
    "dates": lambda X, y, g: (named(X, v=np.datetime64("2020-01-01")), y, g),
    "names twice": lambda X, y, g: (named(X, "uvu"), y, g),
    "no records": lambda X, y, g: (X[:0], y[:0], g[:0]),
    "no class": lambda X, y, g: (X, spoiled(y, None), g),
    "one class": lambda X, y, g: (X, np.full(len(y), "no"), g),
    "measured classes": lambda X, y, g: (X, X[:, 0], g),
    "no group": lambda X, y, g: (X, y, spoiled(g, None)),
    "measured groups": lambda X, y, g: (X, y, X[:, 0]),
}


def cut(data):
    return Partitioned(*data, cuts=[20, 80] if len(data[1]) else [0])


def refused_alike(task, draws, data, **parameters):
    """Expect one error from records in memory and in partitions, which count their own rows."""
    errors = []
    for given in (data, [cut(data)]):
        with pytest.raises(Exception) as error:  # noqa: PT011 - whichever it is in memory
            task.make(**parameters).fit(*given)
        text = re.sub(r"row \d+", "row", str(error.value))
        errors.append((type(error.value), text, getattr(error.value, "__notes__", [])))
    assert errors[0] == errors[1]
    assert draws() == []


@pytest.mark.parametrize("name", WRONG)
def test_what_memory_refuses_is_refused_in_the_same_words(binary, draws, name):
    refused_alike(binary, draws, WRONG[name](*binary.data))


def test_other_columns_in_one_partition(binary, draws):
    source = cut(binary.data._replace(X=named(binary.data.X)))
    table = source.parts[2].table
    source.parts[2].table = replace(table, X=table.X[["v", "u", "w"]])
    with pytest.raises(ValueError, match="same columns in every partition, in one order"):
        binary.make().fit(source)
    assert draws() == []


def test_groups_that_change_before_rows_are_read(binary, draws):
    source = cut(binary.data)
    source.parts[1].change = lambda table, n_reads: (
        table if n_reads == 1 else replace(table, groups=np.full_like(table.groups, "a"))
    )
    with pytest.raises(ChangedDataError, match="partition 1 of the records must be the same"):
        binary.make().fit(source)
    assert draws() == []


def test_an_interrupted_fit_says_what_is_spent(binary, tmp_path, monkeypatch, draws):
    n_passes, sums = [], RecordBlock.sums

    def interrupted(block, *args, **kwargs):
        n_passes.append(block)
        if len(n_passes) > 8:
            raise KeyboardInterrupt
        return sums(block, *args, **kwargs)

    monkeypatch.setattr(RecordBlock, "sums", interrupted)
    source = Partitioned(*binary.data, cuts=[20, 80], spool=tmp_path)
    model = binary.make(solver=MGR(n_steps=5, sampling_rate=1.0))
    with pytest.raises(KeyboardInterrupt) as error:
        model.fit(source)
    assert "count the budget of this fit" in error.value.__notes__[0]
    assert 0 < len(draws()) < 12
    assert not hasattr(model, "coef_")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fit", [lambda m, X: m.fit(X), lambda m, X: m.partial_fit(X)])
def test_what_needs_memory_is_refused(binary, fit):
    with pytest.raises((ValueError, TypeError), match=r"not in memory|must be in memory"):
        fit(binary.make(solver="oco"), Partitioned(*binary.data))


@pytest.mark.parametrize("error_score", [0.0, "raise"])
def test_searches_refuse_sources_and_spend_nothing(binary, error_score):
    search = GridSearchCV(binary.make(), {"radius": [1.0, 2.0]}, error_score=error_score)
    with PrivacyLedger(epsilon=5.0, delta=1e-5) as ledger:
        for y in (None, binary.data.y):
            with pytest.raises(TypeError, match="X must be in memory here, got ArraySource: fit"):
                search.fit(ArraySource(*binary.data), y)
        assert ledger.epsilon_spent == 0.0


def dask_data():
    import dask.array as da

    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (40, 2))

    def never(block):
        raise AssertionError("it was computed")

    # chunks of known size that nobody may look at
    return tuple(
        da.from_array(part, chunks=20).map_blocks(never, dtype=part.dtype, meta=part[:0])
        for part in (X, np.tile([0, 1], 20), np.repeat([0, 1], 20))
    )


TAKERS = {
    "auc": lambda X, y, g: DPAUCClassifier(data_norm=1.0).fit(X, y),
    "partial_fit": lambda X, y, g: DPWorstGroupClassifier(solver="oco", **WITHIN_GROUP).partial_fit(
        X, y, g
    ),
    "threshold": lambda X, y, g: DPThresholdClassifier(DPWorstGroupClassifier()).fit(X, y, g),
    "search": lambda X, y, g: DPSearchCV(DPWorstGroupClassifier(), {"radius": [1.0, 2.0]}).fit(
        X, y, g
    ),
    "table": lambda X, y, g: group_table(y, y, groups=g),
    "scorer": lambda X, y, g: worst_group_scorer("accuracy")(None, X, y, groups=g),
    "audit": lambda X, y, g: GroupAudit(classes=[0, 1], group_labels=[0, 1], score_edges=None).run(
        y, y, g, kind="decisions"
    ),
    "DPStandardScaler": lambda X, y, g: DPStandardScaler(bounds=(-1, 1)).fit(X),
    "PublicSchema": lambda X, y, g: PublicSchema({0: Number(-1, 1), 1: Number(-1, 1)}).fit(X),
    "rows of persons": lambda X, y, g: bound_rows_per_person(X, y, g, person=y, k=1),
    "targets alone": lambda X, y, g: DPWorstGroupRegressor(target_bounds=(0, 1)).fit(
        np.zeros((40, 2)), y
    ),
}


@pytest.mark.parametrize("name", TAKERS)
def test_whoever_cannot_take_dask_refuses_it_and_computes_nothing(name):
    with pytest.raises(TypeError, match=r"must be (in memory|a collection of dask)"):
        TAKERS[name](*dask_data())
