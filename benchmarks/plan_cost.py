"""What many cells cost.

`python benchmarks/plan_cost.py cells`, on a quiet machine. Processor time is shown. Memory is the
most that a process of its own has held (Linux).
"""

from __future__ import annotations

import multiprocessing
import re
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import PUBLIC, row, run_tables

from sklearn_dpwg import DPWorstGroupClassifier

# of ten attributes: processor seconds of `plan`, and memory of a fit over that for one attribute
PLAN_OF_CELLS, MEMORY_OF_CELLS = 2.0, 1.5


def processor_seconds(function: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def fit_of_cells(n_records: int, skew: float, overlap: str) -> tuple[int, float, float, float]:
    """Return cells of ten attributes, seconds of plan and fit, and the most megabytes held."""
    warnings.simplefilter("ignore")
    DPWorstGroupClassifier().plan(group_sizes=[500, 500], n_features=5)  # imports
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.2, 0.2, (n_records, 20)), rng.integers(0, 2, n_records)
    share = np.exp(-skew * np.arange(5.0))
    values = rng.choice(list("abcde"), p=share / share.sum(), size=(n_records, 10))
    groups: Any = pd.DataFrame(values, columns=[f"attribute {place}" for place in range(10)])
    if overlap == "one attribute":
        groups, overlap = groups["attribute 0"], "cells"
    model = DPWorstGroupClassifier(data_norm=1.0, overlap=overlap, **PUBLIC)
    sizes = groups.value_counts()
    planned = processor_seconds(partial(model.plan, group_sizes=sizes, n_features=20))
    fitted = processor_seconds(partial(model.fit, X, y, groups=groups))
    (most,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return len(sizes), planned, fitted, int(most) / 1024


def cells() -> None:
    """Print what groups are of ten attributes of five values, and what they cost."""
    row("records", ("skew", "groups", "cells", "plan, s", "fit, s", "most, MB", "ratio"), 15, 11)
    for n_records, skew in ((10_000, 0.0), (50_000, 0.0), (50_000, 1.0), (50_000, 3.0)):
        least = 0.0
        for overlap in ("one attribute", "attributes", "both"):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                asked = n_records, skew, overlap
                n_cells, planned, fitted, most = pool.submit(fit_of_cells, *asked).result()
            least = least or most
            told = [f"{planned:.2f}", f"{fitted:.1f}", f"{most:.0f}", f"{most / least:.2f}"]
            told += ["above a limit"] * (planned > PLAN_OF_CELLS or most > MEMORY_OF_CELLS * least)
            row(f"{n_records:,}", (f"{skew:g}", overlap, f"{n_cells:,}", *told), 15, 11)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    DPWorstGroupClassifier().plan(group_sizes=[500, 500], n_features=5)  # imports
    run_tables({"cells": cells})
