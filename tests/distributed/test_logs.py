"""What dask writes into its logs about a fit: at any level nothing of records, sums or keys."""

from __future__ import annotations

import logging
from functools import partial

import dask.array as da
import numpy as np
import pytest

from sklearn_dpwg.distributed import DaskEngine, hold_collections
from sklearn_dpwg.exceptions import WorkerError
from tests.helpers import toy_blocks as toy

KEY = b"\x07a secret key of 32 bytes, all of"
SECRETS = ("987654", "654321", "secret", "a98e")


def write_all(path):
    """Let dask write everything it says into a file."""
    handler = logging.FileHandler(path)
    logger = logging.getLogger("distributed")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.DEBUG)


def work(engine):
    X = da.from_array(np.full((6, 2), 98765.4), chunks=(3, 2)) * 10.0
    y = da.from_array(np.full(6, 654321.0), chunks=3)
    handles = hold_collections(engine, X, y, da.from_array(np.full(6, "secret"), chunks=3))
    engine.collect(handles, toy.shape)
    blocks = engine.derive(handles, toy.encode)
    engine.reduce(blocks, partial(toy.keyed_sums, key=KEY))
    for function in (partial(toy.fail, message="secret 987654"), partial(toy.keyed_fail, key=KEY)):
        with pytest.raises(WorkerError):
            engine.collect(blocks, function)
    broken = engine.derive(blocks, toy.fail, [("secret",)] * len(blocks))
    with pytest.raises(WorkerError):
        engine.collect(broken, toy.size)
    engine.collect(engine.derive(blocks, toy.shift, [(987654.0,)] * len(blocks)), toy.size)


@pytest.fixture
def levels():
    """Put this process's loggers back."""
    logger = logging.getLogger("distributed")
    handlers = list(logger.handlers)
    before = {name: logging.getLogger(name).level for name in logging.root.manager.loggerDict}
    yield
    for handler in logger.handlers[:]:
        if handler not in handlers:
            logger.removeHandler(handler)
            handler.close()
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.usefixtures("levels")
def test_logs_show_no_rows_sums_or_keys(processes, tmp_path):
    files = [tmp_path / "client_and_scheduler", tmp_path / "worker"]
    write_all(files[0])
    processes.run(write_all, str(files[1]))
    work(DaskEngine(processes, pass_timeout=120.0))
    for file in files:
        text = file.read_text()
        assert "dpwg_pass-" in text  # or nothing was looked at
        assert [secret for secret in SECRETS if secret in text] == []
        assert "Compute Failed" not in text


def test_a_value_in_a_log_would_be_seen(processes, tmp_path):
    file = tmp_path / "worker"
    processes.run(write_all, str(file))
    future = processes.submit(toy.fail, None, "secret 987654")
    assert isinstance(future.exception(), ValueError)
    assert {"987654", "secret"} <= {secret for secret in SECRETS if secret in file.read_text()}
