"""Passes over records that memory does not hold.

Makes records in a directory that is named, and prints what reading them costs beside the same
records in memory, both sides in one run: processor time of a pass over mapped arrays and over the
spool, and that of writing the spool once.
``python benchmarks/out_of_core.py DIRECTORY --rows 1e7 --columns 20``. With ``--fit SOLVER`` a
classifier is fitted to the Parquet file instead, in a process of its own, and its time and memory
are printed. What was made is removed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from common import PUBLIC, quartiles, row, turn_by_turn
from pyarrow import parquet

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.groups import encode_groups
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks, Risks
from sklearn_dpwg.data.risks.record_block import RecordBlock
from sklearn_dpwg.data.risks.risks import LocalEngine
from sklearn_dpwg.data.sources import ArraySource, ParquetSource
from sklearn_dpwg.data.sources.source import spooled
from sklearn_dpwg.losses import BinaryLogLoss

LABELS = np.array(["east", "north", "south", "west", "islands"])
CHUNK = 2**20


def make_records(directory, n_rows, n_columns, row_group, *, are_mapped):
    """Write rows as Parquet, and where wanted arrays in order of groups to be mapped."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(
        directory / "X.npy",
        mode="w+",
        dtype=np.float32,
        shape=(n_rows if are_mapped else CHUNK, n_columns),
    )
    y = np.empty(n_rows, dtype=bool)
    codes = np.sort(rng.integers(0, len(LABELS), n_rows, dtype=np.int8))
    names = [f"x{column}" for column in range(n_columns)]
    schema = pa.schema(
        [(name, pa.float32()) for name in names]
        + [("y", pa.bool_()), ("region", pa.dictionary(pa.int8(), pa.string()))]
    )
    with parquet.ParquetWriter(
        directory / "rows.parquet", schema, use_dictionary=["region"], compression="none"
    ) as writer:
        for start in range(0, n_rows, CHUNK):
            stop = min(start + CHUNK, n_rows)
            rows = rng.standard_normal((stop - start, n_columns), dtype=np.float32)
            if are_mapped:
                X[start:stop] = rows
            y[start:stop] = rows[:, 0] + 0.5 * rows[:, 1] > 0
            regions = rng.integers(0, len(LABELS), stop - start, dtype=np.int8)
            cells = [*np.ascontiguousarray(rows.T), y[start:stop]]
            columns = [*map(pa.array, cells), pa.DictionaryArray.from_arrays(regions, LABELS)]
            table = pa.table(columns, schema)
            writer.write_table(table, row_group_size=row_group)
    X.flush()
    np.save(directory / "y.npy", y)
    np.save(directory / "codes.npy", codes)
    return names


def encoded(X, y, codes):
    """Return some records sorted by group."""
    encoder = RecordEncoder(len(LABELS), np.sqrt(X.shape[1]))
    return encoder.encode(X, np.where(y, 1.0, -1.0), codes)


def parquet_source(directory, names):
    """Return the Parquet file as a source."""
    return ParquetSource(
        directory / "rows.parquet", features=names, target="y", groups="region", spool=directory
    )


def held(directory, names, spool, what):
    """Return risks block by block, on mapped arrays or on Parquet that is encoded and kept."""
    if what == "mapped":
        arrays = (np.load(directory / f"{name}.npy", "r") for name in ("X", "y", "codes"))
        source = ArraySource(*arrays)
    else:
        source = parquet_source(directory, names)
    blocks = []
    for partition in source.partitions():
        table = partition.read()
        X, codes = table.X, table.groups
        if what != "mapped":
            X = X.to_numpy()
            codes, _ = encode_groups(codes, len(table.y), LABELS.tolist(), may_be_empty=True)
        records = spool.write(encoded(X, table.y, codes))
        blocks.append(RecordBlock(records, BinaryLogLoss(), 0.5))
    return Risks(
        LocalEngine(),
        blocks,
        loss=BinaryLogLoss(),
        intercept_scaling=0.5,
        group_sizes=tuple(np.sum([block.group_sizes for block in blocks], axis=0).tolist()),
        n_features=blocks[0].n_features,
    )


def anonymous():
    """Return this process's anonymous memory in bytes, which Linux tells."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition("RssAnon:")[2].split()[0])


@contextlib.contextmanager
def peak(result):
    """Note the largest anonymous memory meanwhile."""
    done = threading.Event()

    def watch():
        while not done.wait(0.002):
            result["peak"] = max(result["peak"], anonymous())

    result["before"] = result["peak"] = anonymous()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        result["after"] = anonymous()


def measure_fit(directory, names, solver):
    """Fit to the Parquet file, and print the time and the memory of this process."""
    source = parquet_source(directory, names)
    data_norm = float(np.sqrt(len(names)))
    model = DPWorstGroupClassifier(1.0, 1e-9, data_norm=data_norm, solver=solver, **PUBLIC)
    result = {}
    start, wall = time.process_time(), time.perf_counter()
    with peak(result):
        model.fit(source)
    seconds, waited = time.process_time() - start, time.perf_counter() - wall
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"fit of solver {model.plan_.solver!r}, {model.n_iter_:,} steps: {seconds:,.0f} s of "
        f"processors, {waited:,.0f} s of wall\n"
        f"anonymous memory before {result['before'] / 2**30:.3f}, at most "
        f"{result['peak'] / 2**30:.3f} GiB; with mapped files at most {whole / 2**30:.2f} GiB"
    )


def compare(directory, names, n_turns):
    """Print processor times of passes, in turns, and of writing the spool once."""
    weights = np.random.default_rng(1).standard_normal(len(names) + 1)
    X, y, codes = (np.load(directory / f"{name}.npy") for name in ("X", "y", "codes"))
    risks = {"in memory": GroupRisks(encoded(X, y, codes), BinaryLogLoss(), 0.5)}
    room = partial(spooled, directory, len(y), len(names))
    with room() as spool, room() as other:
        risks["mapped"] = held(directory, names, other, "mapped")
        start, wall = time.process_time(), time.perf_counter()
        risks["spool"] = held(directory, names, spool, "spool")
        once, waited = time.process_time() - start, time.perf_counter() - wall
        sides = [partial(each.risks_and_gradients, weights) for each in risks.values()]
        times = turn_by_turn(sides, n_turns, clock=time.process_time)
    row("one pass", ("cpu s", "over in memory", "quartiles"), 17, 24)
    for (name, each), taken in zip(risks.items(), times, strict=True):
        ratio, spread = quartiles(taken / times[0])
        cells = (f"{np.median(taken):.3f}", f"{ratio:.3f}", spread)
        row(f"{name} ({len(each.handles)} blocks)", cells, 17, 24)
    cells = (f"{once:.2f}", f"{once / np.median(times[0]):.1f}", f"{waited:.2f} s of wall")
    row("Parquet to spool, once", cells, 17, 24)


def run():
    """Make records, and print what there is to compare."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("directory", type=Path, help="an existing directory for the records")
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--row-group", type=int, default=2**18)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--fit", metavar="SOLVER", help="fit, with this solver, and nothing else")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = [f"x{column}" for column in range(options.columns)]
    if options.child:
        measure_fit(options.directory, names, options.fit)
        return
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        directory = Path(folder)
        make_records(
            directory,
            int(options.rows),
            options.columns,
            options.row_group,
            are_mapped=options.fit is None,
        )
        n_bytes = int(options.rows) * options.columns * 4
        print(
            f"{int(options.rows):,} records of {options.columns} columns, {n_bytes / 2**30:.2f} "
            f"GiB in memory, row groups of {options.row_group:,}, {os.cpu_count()} processors"
        )
        if options.fit:
            command = [sys.executable, __file__, str(directory), "--fit", options.fit, "--child"]
            command += ["--columns", str(options.columns)]
            subprocess.run(command, check=True)
            return
        compare(directory, names, options.turns)


if __name__ == "__main__":
    run()
