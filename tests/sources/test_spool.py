"""Encoded rows on disk: the same bits, for their owner alone, gone whatever happens to the run."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sklearn_dpwg.data.records import GroupedRecords, RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.data.sources import Spool, spool
from sklearn_dpwg.losses import BinaryLogLoss

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a spool needs the locks of POSIX")


def records_of(n_records: int = 50, *, kind: str = "rows", seed: int = 0) -> GroupedRecords:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_records, 3)).astype(np.float32 if kind == "single" else np.float64)
    codes = rng.integers(0, 4, n_records)
    if kind == "columns":
        rows, codes = np.asfortranarray(rows), np.sort(codes)
    if kind == "sparse":
        rows = csr_array(np.where(rows > 0, rows, 0.0))
    encoder = RecordEncoder(4, 1.0, hides_groups=kind == "hidden")
    return encoder.encode(rows, np.where(rng.random(n_records) < 0.5, 1.0, -1.0), codes)


def arrays_of(records: GroupedRecords) -> dict[str, np.ndarray]:
    found = {field.name: getattr(records, field.name) for field in fields(records)}
    if isinstance(found["rows"], csr_array):
        rows = found.pop("rows")
        found |= {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return found


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


KINDS = ["rows", "single", "columns", "sparse", "hidden"]


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    n_records=st.integers(0, 70),
    limited=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_comes_back_has_the_same_bits(tmp_path_factory, kind, n_records, limited, seed):
    folder = tmp_path_factory.mktemp("spool")
    records = records_of(n_records, kind=kind, seed=seed)
    if limited:
        records = replace(records, slope_limits=np.linspace(0.1, 0.9, n_records))
    with Spool(folder) as kept:
        mapped = kept.write(seed % 2**20, records)
        assert left_in(folder) == [kept.path.name, f"{kept.path.name}.lock"]
    assert left_in(folder) == []
    expected = arrays_of(records)
    for name, array in arrays_of(mapped).items():
        if expected[name] is None:
            assert array is None
            continue
        assert array.dtype == expected[name].dtype
        assert array.strides == expected[name].strides or not array.size
        assert array.tobytes("A") == expected[name].tobytes("A")
        assert not array.flags.writeable or name == "starts" or not array.size


@pytest.mark.parametrize("kind", KINDS)
def test_risks_of_mapped_rows_have_the_same_bits(tmp_path, kind):
    records = records_of(kind=kind)
    weights = np.array([0.3, -0.2, 0.5, 0.1])
    with Spool(tmp_path) as kept:
        mapped = kept.write(0, records)
        for method in ("risks", "risks_and_gradients"):
            of_mapped, of_memory = (
                getattr(GroupRisks(each, BinaryLogLoss(), 0.5), method)(weights)
                for each in (mapped, records)
            )
            np.testing.assert_array_equal(np.vstack(of_mapped), np.vstack(of_memory))


def test_rows_on_a_mapped_file_stay_where_they_are(tmp_path):
    np.save(tmp_path / "X.npy", np.full((8, 2), 0.5))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    records = RecordEncoder(1, 1.0).encode(np.asarray(X), np.ones(8), np.zeros(8, dtype=np.intp))
    with Spool(tmp_path) as kept:
        mapped = kept.write(0, records)
        assert np.shares_memory(mapped.rows, X)
        assert not np.shares_memory(mapped.targets, records.targets)
        again = kept.write(1, mapped)
    assert again.rows.tobytes() == X.tobytes()
    assert again.row_scale.tobytes() == records.row_scale.tobytes()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_the_owner_may_read_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        with Spool(tmp_path) as kept:
            with kept.create("rows") as file:
                assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
            assert os.stat(kept.path).st_mode & 0o777 == 0o700
            assert os.stat(f"{kept.path}.lock").st_mode & 0o777 == 0o600
            kept.write(0, records_of())
    finally:
        os.umask(before)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_removes_the_folder(tmp_path, error):
    def fail() -> None:
        with Spool(tmp_path) as kept:
            kept.write(0, records_of())
            raise error

    with pytest.raises(error):
        fail()
    assert left_in(tmp_path) == []


def test_a_spool_that_is_forgotten_is_removed(tmp_path):
    kept = Spool(tmp_path)
    kept.create("rows").close()
    assert len(left_in(tmp_path)) == 3
    del kept
    gc.collect()
    assert left_in(tmp_path) == []


# writes one block and, where it is asked to, a file that keeps its name, then does as it is told
RUN = """
import os, sys
import numpy as np
from sklearn_dpwg.records import RecordEncoder
from sklearn_dpwg.sources import Spool
kept = Spool(sys.argv[1])
records = RecordEncoder(1, 1.0).encode(np.ones((9, 2)), np.ones(9), np.zeros(9, dtype=np.intp))
kept.write(0, records)
kept.create("block-00000001").close()
print("ready", flush=True)
word = sys.stdin.readline().strip()
if word == "raise":
    raise RuntimeError
if word == "fork":
    child = os.fork()
    if not child:
        sys.exit()  # a clean end of the child must not remove what its parent needs
    os.waitpid(child, 0)
    assert kept.path.exists()
"""


def start_run(folder: Path) -> subprocess.Popen:
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n"
    return run


def test_runs_of_one_directory_do_not_disturb_each_other(tmp_path):
    runs = [start_run(tmp_path) for _ in range(2)]
    names = left_in(tmp_path)
    assert len(names) == 6
    with Spool(tmp_path) as kept:  # begins by cleaning up
        kept.write(0, records_of())
        assert set(names) < set(left_in(tmp_path))
    assert left_in(tmp_path) == names
    for run, word in zip(runs, ("raise", "fork"), strict=True):
        run.communicate(f"{word}\n", timeout=60)
    assert [run.returncode for run in runs] == [1, 0]
    assert left_in(tmp_path) == []


def test_the_next_run_removes_what_a_killed_one_has_left(tmp_path):
    alive, killed = start_run(tmp_path), start_run(tmp_path)
    names = left_in(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert left_in(tmp_path) == names
    with Spool(tmp_path):
        pass
    assert len(left_in(tmp_path)) == 3
    alive.communicate("end\n", timeout=60)
    assert alive.returncode == 0
    assert left_in(tmp_path) == []


def test_cleaning_up_follows_no_link(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    folder = tmp_path / "spool"
    folder.mkdir()
    (folder / "dpwg-spool-0.lock").symlink_to(outside / "kept")
    (folder / "dpwg-spool-0").symlink_to(outside)
    (folder / "dpwg-spool-1.lock").touch()
    (folder / "dpwg-spool-1").symlink_to(outside)
    (folder / "others").touch()
    alone = folder / "dpwg-spool-2.lock"
    alone.symlink_to(outside / "kept")
    with Spool(folder):
        pass
    assert alone.is_symlink()
    assert (outside / "kept").exists()
    assert (folder / "others").exists()


def test_a_lock_that_another_run_cleans_up_is_not_used(tmp_path, monkeypatch):
    """Between the making of a lock file and its lock another run may take it for a left one."""
    lock = spool._is_locked_here
    calls = []

    def slow(descriptor: int) -> bool:
        calls.append(descriptor)
        if len(calls) == 1:
            (path,) = tmp_path.glob("*.lock")
            path.unlink()
        return lock(descriptor)

    monkeypatch.setattr(spool, "_is_locked_here", slow)
    with Spool(tmp_path) as kept:
        assert len(calls) == 2
        assert Path(f"{kept.path}.lock").exists()


def test_too_little_room_is_told_before_a_byte_is_written(tmp_path, monkeypatch):
    with Spool(tmp_path) as kept:
        sentence = rf"spool must have .* GiB free .*, got .* in '{tmp_path}'\.$"
        with pytest.raises(OSError, match=sentence) as error:
            kept.reserve(2**62)
        assert error.value.errno == errno.ENOSPC
        kept.reserve(1)
        usage = spool.shutil.disk_usage(tmp_path)
        monkeypatch.setattr(spool.shutil, "disk_usage", lambda _: usage._replace(free=8))
        with pytest.raises(OSError, match="free for encoded rows"):
            kept.write(0, records_of())
        assert list(kept.path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_disk_that_runs_full_is_told_and_what_was_written_is_removed(tmp_path, monkeypatch):
    with Spool(tmp_path) as kept, open("/dev/full", "wb") as full:
        kept.write(0, records_of())
        monkeypatch.setattr(kept, "_blocks", full.fileno())
        with pytest.raises(OSError, match=r"the disk of .* is full: what was written is removed"):
            kept.write(1, records_of(10_000))
        assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    ("directory", "words"),
    [
        ("gone", "^spool must be an existing directory, got '.*gone'"),
        ("file", "^spool must be an existing directory, got '.*file'"),
        ("", "^spool must be an existing directory, got ''"),
        (None, "^spool must be the path of a directory, got NoneType"),
        (7, "^spool must be the path of a directory, got int"),
    ],
)
def test_wrong_directories_are_refused(tmp_path, directory, words):
    (tmp_path / "file").touch()
    path = tmp_path / directory if isinstance(directory, str) and directory else directory
    with pytest.raises((TypeError, ValueError), match=words):
        Spool(path)


def test_systems_without_locks_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "fcntl", None)
    with pytest.raises(OSError, match=r"needs the file locks of POSIX .* leave spool=None"):
        Spool(tmp_path)


def test_a_repr_shows_the_directory_alone(tmp_path):
    with Spool(tmp_path) as kept:
        assert repr(kept) == f"Spool({str(tmp_path)!r})"
