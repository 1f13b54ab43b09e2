"""Encoded rows on disk: the same bits, without a name, gone whatever happens to the run."""

from __future__ import annotations

import errno

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sklearn_dpwg.data.records import GroupedRecords, RecordEncoder
from sklearn_dpwg.data.sources import ArraySource, ParquetSource
from sklearn_dpwg.data.sources.source import spooled


def records_of(n_records: int, *, kind: str, seed: int = 0) -> GroupedRecords:
    rng = np.random.default_rng(seed)
    rows, codes = rng.normal(size=(n_records, 3)), rng.integers(0, 4, n_records)
    if kind == "columns":
        rows, codes = np.asfortranarray(rows), np.sort(codes)
    if kind == "sparse":
        rows = csr_array(np.where(rows > 0, rows, 0.0))
    encoder = RecordEncoder(4, 1.0, hides_groups=kind == "hidden")
    return encoder.encode(rows, np.where(rng.random(n_records) < 0.5, 1.0, -1.0), codes)


def dense(records: GroupedRecords) -> np.ndarray:
    return records.rows.toarray() if isinstance(records.rows, csr_array) else records.rows


@given(
    kind=st.sampled_from(["rows", "columns", "sparse", "hidden"]),
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_comes_back_has_the_same_bits(tmp_path_factory, kind, sizes, seed):
    folder = tmp_path_factory.mktemp("spool")
    blocks = [records_of(size, kind=kind, seed=seed + i) for i, size in enumerate(sizes)]
    with spooled(folder, sum(sizes), 3) as kept:
        mapped = [kept.write(records) for records in blocks]
        assert list(folder.iterdir()) == []
        for one, other in zip(blocks, mapped, strict=True):
            assert dense(one).tobytes() == dense(other).tobytes()
            assert one.targets.tobytes() == other.targets.tobytes()
            assert (one.places is None) == (other.places is None)
            assert one.places is None or one.places.tolist() == other.places.tolist()
            assert not other.targets.flags.writeable
    if kind == "rows":
        assert not any(dense(records).any() for records in mapped)  # its room is given back


def test_nothing_is_left_of_a_fit_that_fails(tmp_path):
    with pytest.raises(KeyboardInterrupt), spooled(tmp_path, 9, 3) as kept:  # noqa: PT012
        kept.write(records_of(9, kind="rows"))
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_too_little_room_is_told_before_a_byte_is_written(tmp_path):
    sentence = rf"spool must have .* GiB free .*, got .* in '{tmp_path}'\.$"
    with pytest.raises(OSError, match=sentence) as error, spooled(tmp_path, 2**56, 3):
        pass
    assert error.value.errno == errno.ENOSPC


@pytest.mark.parametrize("spool", ["", "gone", True])
def test_a_wrong_spool_is_refused_when_the_source_is_made(tmp_path, monkeypatch, spool):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError), match=r"^spool must be"):
        ArraySource(np.zeros((2, 1)), np.zeros(2), spool=spool)
    with pytest.raises((TypeError, ValueError), match=r"^spool must be"):
        ParquetSource(tmp_path, features=["x"], target="y", spool=spool)
