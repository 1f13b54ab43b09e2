"""Fits of Parquet files and mapped arrays: memory, files left behind, and plans before a fit."""

import os
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.risks.record_block import RecordBlock
from sklearn_dpwg.data.sources import ArraySource, ParquetSource, group_sizes
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.solvers import MGR
from tests.helpers.partitioned import Partitioned
from tests.helpers.relations import WITHIN_GROUP

FEATURES = ["u", "v", "w"]


@pytest.fixture
def files(binary, tmp_path):
    """A folder of two Parquet files with several row groups each, and an empty one."""
    X, y, groups = binary.data
    frame = pd.DataFrame(X, columns=FEATURES).assign(target=y, clinic=groups)
    folder = tmp_path / "records"
    folder.mkdir()
    whole = pa.Table.from_pandas(frame, preserve_index=False)  # words are no type without rows
    for name, rows in (("a", (0, 50)), ("b", (0, 0)), ("c", (50, None))):
        table = whole.slice(*rows)
        pyarrow.parquet.write_table(table, folder / f"{name}.parquet", row_group_size=20)
    return folder


def of_files(files, **parameters):
    parameters = {"features": FEATURES, "target": "target", "groups": "clinic"} | parameters
    return ParquetSource(files, **parameters)


def in_frames(binary):
    X, y, groups = binary.data
    frame = pd.DataFrame(X, columns=FEATURES)
    return frame, pd.Series(y, name="target"), pd.Series(groups, name="clinic")


@pytest.mark.parametrize("is_spooled", [False, True])
def test_parquet_files(binary, files, tmp_path, is_spooled):
    spool = tmp_path / "spool"
    spool.mkdir()
    relation = WITHIN_GROUP if is_spooled else {}
    model = binary.make(**relation).fit(*in_frames(binary))
    other = binary.make(**relation).fit(of_files(files, spool=spool if is_spooled else None))
    np.testing.assert_allclose(other.coef_, model.coef_, rtol=0, atol=1e-9)
    assert str(other.privacy_) == str(model.privacy_)
    assert ("column 'clinic'" in str(other.privacy_)) is is_spooled
    assert other.feature_names_in_.tolist() == FEATURES
    assert other.classes_.tolist() == model.classes_.tolist()
    assert list(spool.iterdir()) == []
    source = of_files(files)
    np.testing.assert_array_equal(other.predict(source), other.predict(in_frames(binary)[0]))
    assert other.score(source) == pytest.approx(other.score(*in_frames(binary)[:2]))


def test_a_plan_before_the_fit(binary, files):
    sizes = group_sizes(of_files(files))
    _, counts = np.unique(binary.data.groups, return_counts=True)
    assert sizes == dict(zip("abc", counts.tolist(), strict=True))
    model = binary.make(**WITHIN_GROUP)
    planned = model.plan(group_sizes=sizes, n_features=3)
    assert planned == model.fit(of_files(files)).plan_
    with pytest.raises(ValueError, match="source must have groups to count"):
        group_sizes(of_files(files, groups=None))
    with pytest.raises(ValueError, match="source must have at least one record"):
        group_sizes(of_files(files / "b.parquet"))


def mapped(tmp_path, n_records, n_features, *, is_sorted):
    """Return rows, targets and groups on mapped files."""
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{name}.npy" for name in ("X", "y", "groups")]
    X = np.lib.format.open_memmap(paths[0], "w+", np.float64, (n_records, n_features))
    X[:] = rng.uniform(-0.4, 0.4, X.shape)
    X.flush()
    groups = rng.integers(0, 4, n_records).astype(np.int8)
    np.save(paths[1], X[:, 0] > 0)
    np.save(paths[2], np.sort(groups) if is_sorted else groups)
    return [np.load(path, mmap_mode="r") for path in paths]


@pytest.mark.parametrize("is_sorted", [False, True])
def test_memory_does_not_grow_with_the_records(tmp_path, is_sorted, monkeypatch):
    X, y, groups = mapped(tmp_path, 1_000_000, 5, is_sorted=is_sorted)
    seen = []
    sums = RecordBlock.sums

    def watched(block, *args, **kwargs):
        seen.append(block.records)
        return sums(block, *args, **kwargs)

    monkeypatch.setattr(RecordBlock, "sums", watched)
    model = DPWorstGroupClassifier(
        delta=1e-9, solver=MGR(n_steps=2, sampling_rate=1.0), data_norm=1.0, random_state=0
    )
    model.fit(ArraySource(X[:4000], y[:4000], groups[::250], block_rows=1000))
    seen.clear()
    spool = tmp_path / "spool"
    spool.mkdir()
    source = ArraySource(X, y, groups, block_rows=2**16, spool=spool)
    tracemalloc.start()
    model.fit(source)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24e6  # of 40 MB of rows, and 16 MB of factors and targets
    n_files = len({id(records) for records in seen})
    assert n_files >= 1_000_000 / 2**16
    assert list(spool.iterdir()) == []


def test_files_without_targets_are_predicted_and_nothing_is_learned(binary, tmp_path, draws):
    X, y, groups = binary.data
    model = binary.make().fit(pd.DataFrame(X, columns=FEATURES), y, groups)
    n_draws, path = len(draws()), tmp_path / "rows.parquet"
    pd.DataFrame(X, columns=FEATURES).to_parquet(path, index=False, row_group_size=40)
    source = ParquetSource(path, features=FEATURES, target=None)
    rows = pd.DataFrame(X, columns=FEATURES)
    np.testing.assert_array_equal(model.predict(source), model.predict(rows))
    with PrivacyLedger(epsilon=5.0, delta=1e-5) as ledger:
        for refused in (binary.make().fit, model.score):
            with pytest.raises(ValueError, match=r"^target must be the column of y in a source"):
                refused(source)
        assert ledger.epsilon_spent == 0.0
    assert len(draws()) == n_draws


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="no list of open files")
def test_the_spool_has_room_for_the_rows_and_no_names(binary, tmp_path, monkeypatch):
    names, room, sums = [], [], RecordBlock.sums

    def watched(block, *args, **kwargs):
        names.extend(tmp_path.iterdir())
        room.append(room_of_deleted_files(tmp_path))
        return sums(block, *args, **kwargs)

    monkeypatch.setattr(RecordBlock, "sums", watched)
    binary.make().fit(Partitioned(*binary.data, cuts=[20], spool=tmp_path))
    assert names == []
    assert min(room) > 0
    assert room_of_deleted_files(tmp_path) == 0


def room_of_deleted_files(folder):
    """Return the bytes on disk of files that are open and have lost their names."""
    held = {}
    for link in os.listdir("/proc/self/fd"):
        try:
            path, result = os.readlink(f"/proc/self/fd/{link}"), os.stat(f"/proc/self/fd/{link}")
        except OSError:
            continue
        if path.startswith(str(folder)) and path.endswith("(deleted)"):
            held[result.st_ino] = result.st_blocks
    return sum(held.values())
