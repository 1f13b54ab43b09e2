"""Cost of a pass on a dask cluster.

Holds random records on the worker processes of a cluster on this machine and makes passes, one task
a block each, in turns with passes over the same records in memory. Prints processor time of the
kernel on the workers over that in memory, that of all processes over the kernel's, and the wall
time of one worker over that of two. Wall times need two idle cores: what the machine does besides
is printed with them. ``--help`` lists the sizes.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import partial

# each worker has one thread, so memory gets one too; libraries look when they are loaded
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
from dask import delayed
from distributed import Client, LocalCluster

from sklearn_dpwg.data.distributed import DaskEngine
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks.record_block import RecordBlock
from sklearn_dpwg.losses import BinaryLogLoss


def make_block(seed, n_records, n_columns, n_groups):
    """Return a block of random records, made where it is called."""
    rng = np.random.default_rng(seed)
    rows = rng.random((n_records, n_columns), dtype=np.float32) - np.float32(0.5)
    targets = rng.choice([-1.0, 1.0], n_records)
    codes = np.sort(rng.integers(0, n_groups, n_records))
    return RecordBlock(RecordEncoder(n_groups, 1.0).encode(rows, targets, codes), BinaryLogLoss())


def timed_sums(block, weights):
    """Return a block's sums and the processor time they took."""
    start = time.thread_time()
    losses, slopes = block.sums(weights[None, :-1], weights[-1:], loss_clip=1.0)
    return losses, slopes, np.array([time.thread_time() - start])


def in_memory(blocks, weights):
    """Return the processor time of a pass over blocks in this process, on one thread."""
    return float(sum(timed_sums(block, weights)[2][0] for block in blocks))


def measure(n_workers, sizes, weights, n_passes):
    """Return mean seconds of the kernel and of all, the median of wall seconds, and the sums."""
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        engine = DaskEngine()
        seeds = [delayed(seed) for seed in range(len(sizes))]
        handles = engine.derive(seeds, make_block, sizes)
        pass_over = partial(timed_sums, weights=weights)
        sums = engine.reduce(handles, pass_over)[:2]
        kernel, walls = 0.0, []
        before = sum(client.run(time.process_time).values()) + time.process_time()
        for _ in range(n_passes):
            start = time.perf_counter()
            kernel += engine.reduce(handles, pass_over)[2][0]
            walls.append(time.perf_counter() - start)
        after = sum(client.run(time.process_time).values()) + time.process_time()
    return kernel / n_passes, (after - before) / n_passes, float(np.median(walls)), sums


def main():
    """Print the ratios."""
    parser = argparse.ArgumentParser(description="Cost of a pass on a dask cluster.")
    sizes = {"rows": 10_000_000, "columns": 20, "groups": 5, "blocks": 8, "passes": 9}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    sizes = [(given.rows // given.blocks, given.columns, given.groups)] * given.blocks
    weights = np.random.default_rng(0).standard_normal(given.columns + 1)
    print(f"{given.rows:,} x {given.columns} float32, {given.blocks} blocks, {given.passes} passes")
    load = os.getloadavg()[0]
    blocks = [make_block(seed, *size) for seed, size in enumerate(sizes)]
    in_memory(blocks, weights)
    local = np.mean([in_memory(blocks, weights) for _ in range(given.passes)])
    del blocks
    print(f"{'':>12}{'kernel s':>10}{'all s':>10}{'wall s':>10}")
    print(f"{'in memory':>12}{local:10.3f}")
    walls, bits = [], []
    for n_workers in (1, 2):
        kernel, everything, wall, sums = measure(n_workers, sizes, weights, given.passes)
        walls.append(wall)
        bits.append([one.tobytes() for one in sums])
        print(f"{n_workers:>4} workers{kernel:10.3f}{everything:10.3f}{wall:10.3f}")
        print(f"  kernel on workers / in memory {kernel / local:.2f}")
        print(f"  all processes / kernel {everything / kernel:.2f}")
    print(f"wall, one worker / two {walls[0] / walls[1]:.2f} (load {load:.1f} at the start)")
    print(f"same bits on one worker and on two: {bits[0] == bits[1]}")


if __name__ == "__main__":
    main()
