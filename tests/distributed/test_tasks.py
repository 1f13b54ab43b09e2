"""What travels to workers and back shows nothing of the records."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
from sklearn.utils import check_array

from sklearn_dpwg.data.distributed.cluster import (
    Add,
    Derive,
    Failure,
    Held,
    Hold,
    Pass,
    Result,
    without_values,
)
from sklearn_dpwg.data.distributed.collections import MakeTable, TablePartition
from sklearn_dpwg.data.groups import find_groups
from sklearn_dpwg.estimators.elsewhere import checked_targets
from sklearn_dpwg.estimators.encode import advice_on_missing_values
from sklearn_dpwg.exceptions import InputError, WorkerError


def error_of(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return without_values(error)
    return None


def test_reprs_are_bare():
    secret = np.array([31415.0])
    shown = [Held(secret), Failure(ValueError("31415")), Hold(secret), Result((secret,), "here")]
    shown += [Derive(np.add, (secret,)), Pass(np.sum, adds=True), Add(), MakeTable(0)]
    shown += [TablePartition(secret, secret, secret)]
    for one in shown:
        assert "31415" not in repr(one) + str(one)
        assert len(repr(one)) < 20


def test_sentences_of_this_package_come_through():
    error = error_of(find_groups, None, [1], "sex")
    assert type(error) is InputError
    assert str(error) == "groups were passed and group_by is set: use one of them, not both."
    assert error.__traceback__ is None
    assert pickle.loads(pickle.dumps(error)).args == error.args


def test_words_of_others_stay():
    error = error_of(lambda: np.array(["31415 words"]).astype(float))
    assert type(error) is WorkerError
    assert "31415" not in str(error)
    assert "ValueError" in str(error)
    assert error_of(check_array, [["31415 words"]]).__class__ is WorkerError


def test_words_of_c_code_called_from_this_package_stay():
    """Nothing but a line that raises is ours; NumPy has no frames of its own."""
    table = TablePartition(np.zeros((1, 1)), np.zeros(1))
    error = error_of(MakeTable(0)._table, table.X, Explodes(), None)
    assert type(error) is WorkerError
    assert "31415" not in str(error)
    ragged = error_of(MakeTable(0)._table, table.X, [[31415], [1, 2]], None)
    assert type(ragged) is WorkerError
    assert "ValueError in sklearn_dpwg.data.distributed.collections" in str(ragged)


class Explodes:
    def __array__(self, dtype=None, copy=None):
        raise ValueError("31415")


def test_missing_and_infinite_targets_are_told_of():
    for wrong in (np.nan, np.inf):
        error = error_of(partial(checked_targets, is_classifier=False), np.array([31415.0, wrong]))
        assert type(error) is InputError
        assert str(error).startswith("Input y contains")
        assert "31415" not in str(error)


def test_only_the_beginning_that_is_known_is_repeated():
    def others(text):
        with advice_on_missing_values(None):
            raise ValueError(text)

    assert str(error_of(others, "Input y contains NaN.31415")) == "Input y contains NaN."
    assert type(error_of(others, "Input y contains 31415.")) is WorkerError
    assert type(error_of(others, "could not convert 31415")) is WorkerError


def test_errors_that_cannot_be_pickled_come_as_words():
    class OddError(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} {two}")

    from sklearn_dpwg.data.distributed.cluster import _bare

    assert str(_bare(OddError("a", "b"))) == "OddError: a b"


def test_dask_is_told_how_large_an_object_is():
    rows = np.zeros((1000, 10))
    assert rows.nbytes <= Held(TablePartition(rows, rows[:, 0])).__sizeof__() < 2 * rows.nbytes
    assert rows.nbytes <= Held([rows, {"same": rows}]).__sizeof__() < rows.nbytes + 1000


def test_failures_pass_through_every_task():
    failure = Failure(ValueError("x"))
    assert Derive(np.sum, ())(failure) is failure
    assert Add()(Result((np.ones(1),), "a"), failure) is failure
