"""What logs say about a fit, at any level: nothing of records, sums or keys."""

from __future__ import annotations

import logging
import re
from base64 import b64encode
from functools import partial

import dask.array as da
import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.distributed import DaskEngine
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers import MGR

NUMBER = re.compile(r"\d*\.\d+(?:e[-+]?\d+)?")


OPEN = []  # what this process writes to: dask may take a handler off its loggers, and leave it open


def write_all(path, mode="w"):
    """Let everything that anybody logs go into a file, which no late line opens again for "w"."""
    handler = logging.FileHandler(path, mode)
    OPEN.append(handler)
    for name in [None, "sklearn_dpwg", *list(logging.root.manager.loggerDict)]:
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG)
        if name is None or not logger.propagate:
            logger.addHandler(handler)


@pytest.fixture
def levels():
    """Put this process's loggers back."""

    def loggers():
        return [logging.getLogger(name) for name in [None, *logging.root.manager.loggerDict]]

    before = {logger: (logger.level, list(logger.handlers)) for logger in loggers()}
    yield
    for logger in loggers():
        level, handlers = before.get(logger, (logging.NOTSET, []))
        for handler in logger.handlers[:]:
            if handler not in handlers:
                logger.removeHandler(handler)
                handler.close()
        logger.setLevel(level)
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def logs(processes, tmp_path, levels):
    """Return what reads all logs: of the client and the scheduler, and of both workers."""
    files = [tmp_path / "client_and_scheduler", tmp_path / "workers"]
    write_all(files[0])
    processes.wait_for_workers(2)  # others' tests kill some
    processes.run(write_all, str(files[1]), "a")  # of two workers
    return lambda: [file.read_text() for file in files]


class Seen:
    """Numbers and keys that nobody is to see, and where they are shown nevertheless."""

    def __init__(self, X):
        self.numbers = [np.ravel(X)]
        self.keys = []

    def leaks(self, text):
        """Return which of them a text shows, in the forms in which Python and NumPy do."""
        values = np.unique(np.abs(np.concatenate(self.numbers)))
        values = values[values != np.round(values, 3)]
        shown = {form for value in values.tolist() for form in (repr(value), f"{value:.8f}")}
        shown |= {f"{value:.8f}".rstrip("0") for value in values.tolist()}
        shown |= {str(value) for value in values.astype(np.float32)}
        result = shown & set(NUMBER.findall(text))
        words = [form for key in self.keys for form in _forms_of_bytes(key)]
        return [*result, *(word for word in words if word in text)]


def _forms_of_bytes(key):
    return key.hex(), repr(key)[2:-1], b64encode(key).decode(), str(list(key))[1:-1]


@pytest.fixture
def seen(monkeypatch):
    """Return what notes the sums that come from workers, and the keys that go there."""
    rng = np.random.default_rng(11)
    # whole numbers, which encoding leaves as they are
    noted = Seen(rng.integers(-(2**15), 2**15, (90, 2)) / 2.0**16)
    reduce, sample = DaskEngine.reduce, NoiseSource.poisson_sample

    def noted_reduce(engine, handles, function):
        sums = reduce(engine, handles, function)
        noted.numbers += [np.ravel(each) for each in sums]
        return sums

    def noted_sample(source, *args, **kwargs):
        drawn = sample(source, *args, **kwargs)
        noted.keys.append(drawn.key)
        return drawn

    monkeypatch.setattr(DaskEngine, "reduce", noted_reduce)
    monkeypatch.setattr(NoiseSource, "poisson_sample", noted_sample)
    return noted


@pytest.fixture
def parts(seen):
    X = seen.numbers[0].reshape(90, 2)
    groups = np.arange(90) % 2
    return [
        da.from_array(each, chunks=(30, *each.shape[1:]))
        for each in (X, (X[:, 0] > 0).astype(int), groups)
    ]


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")
def test_logs_of_a_fit_show_no_rows_sums_or_keys(seen, parts, logs):
    solver = MGR(n_steps=3, sampling_rate=0.4)
    DPWorstGroupClassifier(data_norm=1.0, solver=solver).fit(*parts)
    assert len(seen.numbers) > 3  # or no sum was noted
    assert seen.keys
    for text in logs():
        assert "dpwg_pass-" in text
        assert seen.leaks(text) == []


def log_a_row(block):
    logging.getLogger("sklearn_dpwg.data.risks").debug("rows %r", block.records.rows.astype(float))
    return ()


def log_a_key(block, key):
    logging.getLogger("distributed.worker").debug("key %s", key.hex())
    return ()


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning")
@pytest.mark.parametrize("leak", ["row", "sum", "key"])
def test_a_leak_that_is_planted_is_found(seen, parts, logs, monkeypatch, leak):
    reduce = DaskEngine.reduce

    def leaking(engine, handles, function):
        sums = reduce(engine, handles, function)
        if leak == "row":
            engine.collect(handles, log_a_row)
        elif leak == "sum":
            logging.getLogger("sklearn_dpwg").debug("sums %s", sums[0])
        elif seen.keys:
            engine.collect(handles, partial(log_a_key, key=seen.keys[-1]))
        return sums

    monkeypatch.setattr(DaskEngine, "reduce", leaking)
    solver = MGR(n_steps=2, sampling_rate=0.4)
    DPWorstGroupClassifier(data_norm=1.0, solver=solver).fit(*parts)
    assert seen.leaks("".join(logs()))
