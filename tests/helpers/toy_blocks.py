"""Blocks of whole numbers, whose sums are exact in any order."""

import gc
import os
import signal
import time

import numpy as np


def make(start, size):
    return np.arange(start, start + size, dtype=np.float64)


def sums(block, scale=1.0):
    return (np.array([scale * block.sum(), float(len(block))]), np.array([block @ block]))


def slow_sums(block, seconds):
    time.sleep(seconds)
    return sums(block)


def size(block):
    return len(block)


def shape(partition):
    table = partition.read_labels()
    return len(table.y), table.X.shape, None if table.groups is None else list(table.groups)


def encode(partition):
    table = partition.read()
    return np.concatenate([np.asarray(table.X, dtype=np.float64).ravel(), table.y])


def kill_first(block, path):
    """Return the sums, after the process that comes first has killed itself."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return sums(block)
    return kill_always(block)


def kill_always(block):
    os.kill(os.getpid(), signal.SIGKILL)


def stop_first(block, path):
    """Return the sums; the process that comes first stops, as a machine does that vanishes."""
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return sums(block)
    os.write(file, b"%d\n" % os.getpid())
    os.kill(os.getpid(), signal.SIGSTOP)
    return sums(block)


def fail(block, message):
    return float(message)


def note(block, path):
    """Return the block, and count that it was made."""
    with open(path, "ab") as file:
        file.write(b".")
    return block


def wait_until_held(client, n_blocks, prefix=""):
    """Wait until workers hold so many results and no more: dask forgets a little later."""

    def held(dask_scheduler):
        tasks = dask_scheduler.tasks.items()
        return sum(task.state == "memory" and str(key).startswith(prefix) for key, task in tasks)

    deadline = time.monotonic() + 20.0
    while client.run_on_scheduler(held) != n_blocks:
        assert time.monotonic() < deadline, "more stays on the workers than what was derived"
        gc.collect()  # what earlier tests left in circles
        time.sleep(0.02)
