"""Encoded rows on disk: the same bits, without a name, gone whatever happens to the run."""

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
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sklearn_dpwg.data.records import GroupedRecords, RecordEncoder
from sklearn_dpwg.data.sources import spool
from sklearn_dpwg.data.sources.spool import Spool

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a spool needs files without names")


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
        mapped = kept.write(records)
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


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_no_name_leads_to_the_rows_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        with Spool(tmp_path) as kept:
            kept.write(records_of())
            facts = os.fstat(kept._file.fileno())
            assert facts.st_mode & 0o077 == 0
            assert facts.st_nlink == 0
            assert left_in(tmp_path) == []
    finally:
        os.umask(before)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_closes_the_file(tmp_path, error):
    def fail(spools: list[Spool]) -> None:
        with Spool(tmp_path) as kept:
            spools.append(kept)
            kept.write(records_of())
            raise error

    spools: list[Spool] = []
    with pytest.raises(error):
        fail(spools)
    assert spools[0]._file.closed


def test_a_spool_that_is_forgotten_is_closed(tmp_path):
    kept = Spool(tmp_path)
    file = kept._file
    del kept
    gc.collect()
    assert file.closed


def test_blocks_that_are_dropped_take_no_room_and_read_as_zeros(tmp_path):
    with Spool(tmp_path) as kept:
        mapped = kept.write(records_of())
        child = os.fork()
        if not child:
            kept.drop()  # a child must not remove what its parent needs
            os._exit(0)
        os.waitpid(child, 0)
        assert mapped.rows.any()
        kept.drop()
        assert os.fstat(kept._file.fileno()).st_blocks == 0
        assert not mapped.rows.any()


RUN = """
import sys
import numpy as np
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.sources.spool import Spool
kept = Spool(sys.argv[1])
records = RecordEncoder(1, 1.0).encode(np.ones((9, 2)), np.ones(9), np.zeros(9, dtype=np.intp))
mapped = kept.write(records)
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_killed_run_leaves_nothing(tmp_path):
    arguments = [sys.executable, "-c", RUN, str(tmp_path)]
    run = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    assert run.stdout.readline() == "ready\n"
    assert left_in(tmp_path) == []
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=60)
    assert left_in(tmp_path) == []


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
            kept.write(records_of())
        assert os.fstat(kept._file.fileno()).st_size == 0


class FullDisk:
    """A file on a disk without room for another byte."""

    def __init__(self, file):
        self.file = file

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_of_a_disk_that_runs_full_what_was_written_is_removed(tmp_path):
    with Spool(tmp_path) as kept:
        kept.write(records_of())
        room = os.dup(kept._file.fileno())
        kept._file = FullDisk(kept._file)
        with pytest.raises(OSError, match="No space left"):
            kept.write(records_of())
        assert os.fstat(room).st_blocks == 0
        os.close(room)
    assert kept._file.closed


def test_a_repr_shows_the_directory_alone(tmp_path):
    with Spool(tmp_path) as kept:
        assert repr(kept) == f"Spool({str(tmp_path)!r})"
