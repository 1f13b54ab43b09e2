"""A fingerprint tells tables apart by any value, type, name or order, and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import csr_array

from sklearn_dpwg.data.sources.table import Table, fingerprint


def tables() -> dict[str, Table]:
    """Return tables that all differ in something small."""
    X, y, g = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1]), np.array(["a", "b", "a"])
    frame = pd.DataFrame(X, columns=["u", "v"])
    mixed = pd.DataFrame({"u": [1, 2, 3], "v": pd.Categorical(["p", "q", "p"])})
    plain = Table(X, y, g)
    return {
        "plain": plain,
        "no groups": replace(plain, groups=None),
        "other shape": replace(plain, X=X.reshape(2, 3)),
        "single": replace(plain, X=X.astype(np.float32)),
        "whole": replace(plain, X=X.astype(int)),
        "frame": replace(plain, X=frame),
        "renamed": replace(plain, X=frame.rename(columns={"v": "w"})),
        "swapped names": replace(plain, X=frame.rename(columns={"u": "v", "v": "u"})),
        "name of a number": replace(plain, X=frame.rename(columns={"v": 1})),
        "name of that text": replace(plain, X=frame.rename(columns={"v": "1"})),
        "mixed": replace(plain, X=mixed),
        "other code": replace(plain, X=mixed.assign(v=pd.Categorical(["p", "q", "q"]))),
        "other level": replace(plain, X=mixed.assign(v=pd.Categorical(["p", "r", "p"]))),
        "text for levels": replace(plain, X=mixed.assign(v=["p", "q", "p"])),
        "polars": replace(plain, X=pl.DataFrame(X, schema=["u", "v"])),
        "sparse": replace(plain, X=csr_array(X)),
        "held zero": replace(plain, X=csr_array((np.zeros(1), [0], [0, 1, 1, 1]), shape=(3, 2))),
        "no zero": replace(plain, X=csr_array((3, 2))),
        "negative zero": replace(plain, X=np.where(X == 0.0, -0.0, X)),
        "NaN": replace(plain, X=np.where(X == 0.0, np.nan, X)),
        "y as bool": replace(plain, y=y.astype(bool)),
        "y of objects": replace(plain, y=y.astype(object)),
        "y of texts": replace(plain, y=y.astype(str).astype(object)),
        "y in two texts": replace(plain, y=np.array(["01", "1", "1"], dtype=object)),
        "y cut elsewhere": replace(plain, y=np.array(["0", "11", "1"], dtype=object)),
        "order": replace(plain, y=y[::-1]),
        "groups as text": replace(plain, groups=g.astype(object)),
        "groups of dates": replace(plain, groups=np.array([date(2020, 1, 1)] * 3)),
        "groups of times": replace(plain, groups=np.array(["2020-01-01"] * 3, "M8[D]")),
        "one missing": replace(plain, groups=np.array(["a", None, "a"], dtype=object)),
        "series": replace(plain, groups=pd.Series(g, dtype=object)),
        "named series": replace(plain, groups=pd.Series(g, name="g", dtype=object)),
        "column": replace(plain, groups=pd.DataFrame({"g": pd.Series(g, dtype=object)})),
    }


def test_all_tables_differ_and_each_is_itself_again():
    first, second = tables(), tables()
    found = {name: fingerprint(table) for name, table in first.items()}
    assert len(set(found.values())) == len(found)
    assert {name: fingerprint(table) for name, table in second.items()} == found
    assert {len(value) for value in found.values()} == {32}


def test_where_values_lie_in_memory_makes_no_difference():
    X = np.arange(12.0).reshape(4, 3)
    wide = np.zeros((8, 6))
    wide[::2, ::2] = X
    y = np.array(["a", "b", "a", "b"], dtype=object)
    same = [X, np.asfortranarray(X), wide[::2, ::2]]
    assert len({fingerprint(Table(rows, y)) for rows in same}) == 1
    frames = [
        pd.DataFrame(X, columns=list("uvw")),
        pd.DataFrame({name: X[:, place] for place, name in enumerate("uvw")}),
    ]
    assert len({fingerprint(Table(frame, y)) for frame in frames}) == 1
    other_objects = np.array(["".join(["a"]), "".join(["b"]), "a", "b"], dtype=object)
    assert fingerprint(Table(X, y)) == fingerprint(Table(X, other_objects))


@given(
    X=arrays(
        st.sampled_from([np.float32, np.float64, np.int16]),
        array_shapes(min_dims=2, max_dims=2, max_side=5),
    ),
    place=st.integers(0, 2**20),
    bit=st.integers(0, 7),
    as_frame=st.booleans(),
)
def test_any_bit_changes_it(X, place, bit, as_frame):
    changed = X.copy()
    changed.view(np.uint8).ravel()[place % X.nbytes] ^= np.uint8(1 << bit)
    y = np.zeros(len(X))
    form = pd.DataFrame if as_frame else np.asarray
    assert fingerprint(Table(form(X), y)) != fingerprint(Table(form(changed), y))
    assert fingerprint(Table(form(X), y)) == fingerprint(Table(form(X.copy()), y))


@given(
    values=st.lists(st.one_of(st.text(max_size=3), st.integers(), st.none()), max_size=5),
    others=st.lists(st.one_of(st.text(max_size=3), st.integers(), st.none()), max_size=5),
)
def test_labels_are_told_apart(values, others):
    digests = []
    for labels in (values, others):
        y = np.empty(len(labels), dtype=object)
        y[:] = labels
        digests.append(fingerprint(Table(np.zeros((len(labels), 0)), y)))
    assert (digests[0] == digests[1]) == (values == others)


def test_it_does_not_depend_on_the_process():
    # hashes of text differ from process to process, and so would whatever rests on them
    expected = "982be991ba72cd88e24c4118a9c7a0fb3102a7a9bfd59552a6628c039736e084"
    assert fingerprint(tables()["plain"]).hex() == expected
