"""Passes over blocks on workers, some of which die."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest

from sklearn_dpwg.data.distributed.dask_engine import DaskEngine
from sklearn_dpwg.exceptions import ClusterError
from tests.helpers import toy_blocks as toy

SIZES = (5, 1, 7, 0, 3, 11, 2, 4)


@pytest.fixture
def client(processes):
    processes.wait_for_workers(1, timeout=120)
    return processes


@pytest.fixture(params=[0, pytest.param(3, marks=pytest.mark.audit)], ids="{} failures".format)
def allowed_failures(request, client):
    """How often dask takes up a task again whose worker died."""

    def allow(number, dask_scheduler):
        before, dask_scheduler.allowed_failures = dask_scheduler.allowed_failures, number
        return before

    before = client.run_on_scheduler(allow, request.param)
    yield
    client.run_on_scheduler(allow, before)


@pytest.fixture
def engine(client):
    return DaskEngine(client, pass_timeout=120.0)


def hold_blocks(engine, sizes=SIZES):
    return engine.derive(engine.hold(range(len(sizes))), toy.make, [(size,) for size in sizes])


def expected(sizes=SIZES):
    return tuple(
        map(sum, zip(*(toy.sums(toy.make(i, n)) for i, n in enumerate(sizes)), strict=True))
    )


def assert_same_bits(sums, others):
    assert len(sums) == len(others)
    for one, other in zip(sums, others, strict=True):
        assert one.tobytes() == other.tobytes()


def kill(client, n):
    """Kill workers, and return when the scheduler knows."""
    victims = client.run(os.getpid)
    for address in sorted(victims)[:n]:
        os.kill(victims[address], signal.SIGKILL)
    while set(sorted(victims)[:n]) & set(client.nthreads()):
        time.sleep(0.01)


def test_a_pass_sums_over_all_blocks(engine):
    handles = hold_blocks(engine)
    sums = engine.reduce(handles, toy.sums)
    assert all(isinstance(one, np.ndarray) for one in sums)
    assert_same_bits(sums, expected())
    doubled = engine.reduce(handles, partial(toy.sums, scale=2.0))
    assert doubled[0][0] == 2.0 * expected()[0][0]


def test_a_step_is_one_task_a_worker(engine, client):
    handles = hold_blocks(engine)
    engine.reduce(handles, toy.sums)

    def count(dask_scheduler):
        return dask_scheduler.task_prefixes["dpwg_pass"].state_counts["memory"]

    before = client.run_on_scheduler(count)
    for _ in range(3):
        engine.reduce(handles, toy.sums)
    assert client.run_on_scheduler(count) - before == 3 * 2


def test_bits_are_the_same_permuted(engine, client):
    handles = hold_blocks(engine)
    flat = engine.reduce(handles, toy.sums)
    assert_same_bits(engine.reduce(handles[::-1], toy.sums), flat)
    places = [next(iter(client.who_has([one]).values()))[0] for one in handles]
    assert len(set(places)) == 2  # or there is nothing to add
    one_worker = [one for one, place in zip(handles, places, strict=True) if place == places[0]]
    assert len(engine.collect(one_worker, toy.size)) < len(handles)


def test_a_deadline_ends_a_pass_and_its_tasks(client):
    engine = DaskEngine(client, pass_timeout=0.6)
    patient = DaskEngine(client, pass_timeout=120.0)
    handles = hold_blocks(patient)
    before = patient.reduce(handles, toy.sums)
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"pass_timeout=0.6 seconds.*the cluster has 2 workers"):
        engine.reduce(handles, partial(toy.slow_sums, seconds=0.4))
    assert time.monotonic() - began < 8.0
    assert_same_bits(patient.reduce(handles, toy.sums), before)

    def pending(dask_scheduler):
        return [key for key in dask_scheduler.tasks if str(key).startswith("dpwg_pass")]

    while client.run_on_scheduler(pending):
        assert time.monotonic() - began < 20.0
        time.sleep(0.05)


def test_an_interrupted_pass_leaves_nothing_behind(engine, client):
    handles = hold_blocks(engine)
    engine.reduce(handles, toy.sums)
    heard, main = threading.Event(), threading.main_thread().ident

    def interrupt():
        # to the main thread, which it wakes; again where a callback of a library swallows it
        while not heard.wait(0.4):
            signal.pthread_kill(main, signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    # a shell's background job ignores interrupts
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.reduce(handles, partial(toy.slow_sums, seconds=0.5))
    finally:  # else the next tests are interrupted
        heard.set()
        sender.join()
        signal.signal(signal.SIGINT, before)
    assert_same_bits(engine.reduce(handles, toy.sums), expected())


def test_blocks_on_two_workers_count_once(engine, client):
    """As after a task that was stolen, or a block that dask copied."""
    handles = hold_blocks(engine)
    engine.reduce(handles, toy.sums)
    client.replicate(handles)
    assert {len(places) for places in client.who_has(handles).values()} == {2}
    assert_same_bits(DaskEngine(client).reduce(handles, toy.sums), expected())
    twice = zip(expected(), toy.sums(toy.make(0, SIZES[0])), strict=True)
    assert_same_bits(engine.reduce([*handles, handles[0]], toy.sums), tuple(map(sum, twice)))


def test_errors_of_a_task_come_to_the_client_as_they_are(engine):
    handles = hold_blocks(engine)
    with pytest.raises(ValueError, match=r"row 52\.25"):
        engine.reduce(handles, partial(toy.fail, message="row 52.25"))
    broken = engine.derive(handles, toy.fail, [("row 52.25",)] * len(handles))
    with pytest.raises(ValueError, match=r"row 52\.25"):
        engine.collect(broken, toy.size)


def test_a_worker_killed_between_passes_changes_no_bit(engine, client):
    handles = hold_blocks(engine)
    before = engine.reduce(handles, toy.sums)
    kill(client, 1)
    assert_same_bits(engine.reduce(handles, toy.sums), before)
    kill(client, 1)  # in succession: the first is hardly back
    assert_same_bits(engine.reduce(handles, toy.sums), before)


@pytest.mark.usefixtures("allowed_failures")
def test_a_worker_killed_within_a_pass_changes_no_bit(engine, tmp_path):
    """Also where dask has had enough of the task: it is sent again."""
    handles = hold_blocks(engine)
    died = partial(toy.kill_first, path=os.fspath(tmp_path / "died"))
    assert_same_bits(engine.reduce(handles, died), expected())
    assert (tmp_path / "died").exists()


def test_all_workers_killed_and_every_step_is_taken_again(engine, client, tmp_path):
    """So a check that was derived looks again at whatever is read again."""
    path = tmp_path / "made"
    blocks = hold_blocks(engine)
    handles = engine.derive(blocks, toy.note, [(os.fspath(path),)] * len(SIZES))
    before = engine.reduce(handles, toy.sums)
    assert len(path.read_bytes()) == len(SIZES)
    engine.release(blocks)
    kill(client, len(client.nthreads()))
    assert_same_bits(engine.reduce(handles, toy.sums), before)
    assert len(path.read_bytes()) == 2 * len(SIZES)


@pytest.mark.parametrize("is_noticed", [False, pytest.param(True, marks=pytest.mark.audit)])
def test_a_machine_that_vanishes_changes_no_bit(client, tmp_path, is_noticed):
    """A deadline ends the pass; a scheduler that misses its heartbeats lets others do the work."""
    patient = DaskEngine(client, pass_timeout=120.0)
    handles = hold_blocks(patient)
    patient.reduce(handles, toy.sums)
    path = tmp_path / "stopped"
    stopped = partial(toy.stop_first, path=os.fspath(path))
    if not is_noticed:
        began = time.monotonic()
        try:
            with pytest.raises(ClusterError, match="was not done after pass_timeout=2 seconds"):
                DaskEngine(client, pass_timeout=2.0).reduce(handles, stopped)
            assert time.monotonic() - began < 10.0
        finally:
            os.kill(int(path.read_bytes()), signal.SIGCONT)
        assert_same_bits(patient.reduce(handles, toy.sums), expected())
        return
    addresses = {pid: address for address, pid in client.run(os.getpid).items()}

    def give_up():
        while not (path.exists() and path.read_bytes().endswith(b"\n")):
            time.sleep(0.05)
        client.run_on_scheduler(miss, addresses[int(path.read_bytes())])

    async def miss(address, dask_scheduler):
        dask_scheduler.workers[address].last_seen = 0.0
        await dask_scheduler.check_worker_ttl()

    observer = threading.Thread(target=give_up)
    observer.start()
    assert_same_bits(patient.reduce(handles, stopped), expected())
    observer.join()


@pytest.mark.audit
def test_a_pass_that_kills_every_worker_is_given_up(client):
    engine = DaskEngine(client, pass_timeout=6.0)
    handles = hold_blocks(engine, (3, 3))
    with pytest.raises(ClusterError, match="given up and nothing of it is rel"):
        engine.reduce(handles, toy.kill_always)
