"""Blocks on the workers of a cluster."""

import gc
import os
import signal
import time

from dask import delayed


def on_workers(engine, blocks):
    """Return handles of blocks that workers hold, each of a partition of its own."""
    lazy = delayed(itself, pure=False, traverse=False)
    return engine.derive([lazy(block) for block in blocks], itself)


def itself(block):
    return block


def slowly(block):
    time.sleep(1.5)


def fail(block):
    raise ValueError("row 52.25")


def kill(client, n_workers=1):
    """Kill workers, and return when the scheduler knows."""
    victims = client.run(os.getpid)
    for address in sorted(victims)[:n_workers]:
        os.kill(victims[address], signal.SIGKILL)
    while set(sorted(victims)[:n_workers]) & set(client.nthreads()):
        time.sleep(0.01)


def wait_until_held(client, n_blocks):
    """Wait until workers hold so many results and no more: dask forgets a little later."""

    def held(dask_scheduler):
        return sum(task.state == "memory" for task in dask_scheduler.tasks.values())

    deadline = time.monotonic() + 20.0
    while client.run_on_scheduler(held) != n_blocks:
        assert time.monotonic() < deadline, "more stays on the workers than what was derived"
        gc.collect()  # what earlier tests left in circles
        time.sleep(0.02)
