"""How fast, how lean: what the hardware allows, and what a fit takes of it.

Both sides of each comparison are measured in one run, turn by turn; a line gives the median of the
repetitions, the quartiles, and the target. Memory is the peak of a fresh process.

    python benchmarks/fit_speed.py              # everything; some minutes
    python benchmarks/fit_speed.py pass memory  # some of it
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import ignore_warnings, quartiles, risks_of, run_tables, turn_by_turn
from scipy.sparse import random as sparse_random
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.data.threads import n_threads
from sklearn_dpwg.losses import BinaryLogLoss, Loss
from sklearn_dpwg.losses.registry import LOSSES
from sklearn_dpwg.preprocessing import PublicShapes
from sklearn_dpwg.solvers import MGR

ignore_warnings()
N_GROUPS = 10


def report(what: str, target: str, measured: float, spread: str, *, holds: bool) -> None:
    """Print one line."""
    verdict = "holds" if holds else "MISSED"
    print(f"{what:<58}{target:>12}{measured:>10.2f}  {spread:<22}{verdict}", flush=True)


def ratios(one: Callable[[], object], other: Callable[[], object], n: int) -> tuple[float, str]:
    """Return the median of one's time over the other's, turn by turn, and the quartiles."""
    times = turn_by_turn([one, other], n)
    return quartiles(times[0] / times[1])


def random_risks(rows: Any, loss: Loss) -> GroupRisks:
    """Return group risks of rows in equal groups, with random targets."""
    rng = np.random.default_rng(1)
    n_records = rows.shape[0]
    targets = rng.choice([-1.0, 1.0], size=n_records)
    if loss.task == "multiclass":
        targets = rng.integers(0, loss.n_outputs, n_records).astype(float)
    codes = np.repeat(np.arange(N_GROUPS), n_records // N_GROUPS)
    return risks_of(rows, targets, codes, loss, data_norm=4.0, scaling=0.5)


def measure_pass() -> None:
    """Measure a full pass for risks and gradients against ``X.sum()`` of the same matrix."""
    X = np.random.default_rng(0).uniform(-1.0, 1.0, size=(1_000_000, 50))

    def line(name: str, rows, loss: Loss, least: float | None = None) -> None:
        risks = random_risks(rows, loss)
        weights = np.random.default_rng(2).standard_normal(risks.n_weights)
        fraction, spread = ratios(rows.sum, lambda: risks.risks_and_gradients(weights), 15)
        target = "" if least is None else f">= {least:.2f}"
        report(f"bandwidth over that of X.sum(): {name}", target, fraction, spread,
               holds=least is None or fraction >= least)  # fmt: skip

    line("log loss, 10^6 x 50", X, BinaryLogLoss(), 0.5)
    line("the same, by columns", np.asfortranarray(X), BinaryLogLoss())
    line("the same, float32", X.astype(np.float32), BinaryLogLoss())
    for known in LOSSES[1:]:
        loss = known(3) if known.task == "multiclass" else known()
        line(f"{loss.name}{' of 3 classes' if loss.n_outputs > 1 else ''}", X, loss)


def measure_sparse() -> None:
    """Measure rows of 1 % density, compressed against dense."""
    rng = np.random.default_rng(0)
    rows = sparse_random(200_000, 500, density=0.01, format="csr", rng=rng)
    dense = rows.toarray()
    of_sparse, of_dense = (random_risks(each, BinaryLogLoss()) for each in (rows, dense))
    weights = rng.standard_normal(501)
    faster, spread = ratios(
        lambda: of_dense.risks_and_gradients(weights),
        lambda: of_sparse.risks_and_gradients(weights),
        15,
    )
    report("a pass, CSR 2*10^5 x 500 at 1 %: times faster than dense", ">= 5", faster, spread,
           holds=faster >= 5.0)  # fmt: skip
    y, groups = rng.integers(0, 2, 200_000), rng.integers(0, N_GROUPS, 200_000)
    model = DPWorstGroupClassifier(data_norm=4.0, random_state=0)
    faster, spread = ratios(
        lambda: model.fit(dense, y, groups=groups), lambda: model.fit(rows, y, groups=groups), 3
    )
    report("a default fit, the same (seeded noise)", ">= 5", faster, spread, holds=faster >= 5.0)


PROCESS = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, size=({size}, 20))
y = (X[:, 0] + 0.3 * rng.standard_normal({size}) > 0).astype(int)
{fit}
"""
FITS = (
    """from sklearn_dpwg import DPWorstGroupClassifier
groups = rng.integers(0, 10, {size})
DPWorstGroupClassifier(delta=1e-7, data_norm=20**0.5).fit(X, y, groups=groups)""",
    "from sklearn.linear_model import LogisticRegression; LogisticRegression().fit(X, y)",
)


def measure_default() -> None:
    """Measure a process that imports and fits by default beside one with LogisticRegression."""
    for size in (10_000, 100_000, 1_000_000):
        codes = [PROCESS.format(size=size, fit=fit.format(size=size)) for fit in FITS]
        sides = [partial(subprocess.run, [sys.executable, "-W", "ignore", "-c", code], check=True)
                 for code in codes]  # fmt: skip
        ours, other = turn_by_turn(sides, 5)
        took, spread = quartiles(ours)
        report(f"seconds of a process with a default fit, {size:,} x 20", "<= 2" * (size < 1e5),
               took, spread, holds=size > 1e4 or took <= 2.0)  # fmt: skip
        ratio, spread = quartiles(ours / other)
        report("  over one with LogisticRegression", "<= 3" * (size > 1e4), ratio, spread,
               holds=size < 1e5 or ratio <= 3.0)  # fmt: skip


def measure_bends() -> None:
    """Measure a default fit, secure noise, of numbers that bend, beside one of lines."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, size=(50_000, 27))
    y, groups = X[:, 0] ** 2 + 0.3 * rng.standard_normal(50_000) > 0.4, rng.integers(0, 6, 50_000)
    fits = [
        partial(
            make_pipeline(
                PublicShapes((0.0, 1.0), resolution=pieces), DPWorstGroupClassifier(data_norm=1.0)
            ).fit,
            *(X, y),
            dpworstgroupclassifier__groups=groups,
        )
        for pieces in (8, 1)
    ]
    bent, lines = turn_by_turn(fits, 5)
    took, spread = quartiles(bent)
    report("seconds, 50,000 x 27 numbers that bend", "<= 3", took, spread, holds=took <= 3.0)
    report("  times as long as lines", "", *quartiles(bent / lines), holds=True)


MEMORY = {
    # name: rows, columns, precision, layout, sorted, target
    "float64, unsorted": (1_000_000, 50, "float64", "C", False, 2.2),
    "float64, by columns, unsorted": (1_000_000, 50, "float64", "F", False, 2.2),
    "float64, sorted": (1_000_000, 50, "float64", "C", True, 1.3),
    "float32, sorted": (1_000_000, 50, "float32", "C", True, 1.3),
    "float32, by columns, sorted": (1_000_000, 50, "float32", "F", True, 1.3),
    "CSR at 10 % of 500, unsorted": (400_000, 500, "float64", "csr", False, 2.2),
    "float64, 10^7 x 20, unsorted": (10_000_000, 20, "float64", "C", False, None),
}


def peak_of_fit(name: str) -> None:
    """Print the peak of this process over the size of X, and in GiB; run in a fresh one."""
    n_rows, n_columns, precision, layout, is_sorted, _ = MEMORY[name]
    rng = np.random.default_rng(0)
    facts = {"solver": MGR(n_steps=5), "delta": 1e-8, "neighbours": "replace-one-within-group"}
    model = DPWorstGroupClassifier(data_norm=float(n_columns), random_state=0, **facts)

    def draw(n: int):
        y, groups = rng.integers(0, 2, n), rng.integers(0, N_GROUPS, n)
        if is_sorted:
            groups.sort()
        if layout == "csr":
            return y, groups, sparse_random(n, n_columns, density=0.1, format="csr", rng=rng)
        shape = (n_columns, n) if layout == "F" else (n, n_columns)
        X = rng.random(shape, dtype=np.dtype(precision))
        return y, groups, X.T if layout == "F" else X

    y, groups, X = draw(20_000)
    model.fit(X, y, groups=groups)  # loads
    y, groups, X = draw(n_rows)
    arrays = (X.data, X.indices, X.indptr) if layout == "csr" else (X,)
    n_bytes = sum(array.nbytes for array in arrays)
    before = status("VmRSS") - n_bytes
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak counts from here
    model.fit(X, y, groups=groups)
    peak = status("VmHWM")
    print(json.dumps([(peak - before) / n_bytes, peak / 2**30]))


def status(name: str) -> int:
    """Return a size that Linux keeps of this process, in bytes."""
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith(name))


def measure_memory() -> None:
    """Measure the peak of a process during a fit, X included, each in a fresh one."""
    print("  X and what the fit adds, over X; y and groups are the caller's")
    for name, (*_, target) in MEMORY.items():
        command = [sys.executable, __file__, "--peak-of-fit", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        over_x, gibibytes = json.loads(done.stdout)
        most = f"<= {target}" if target else "<= 24 GiB"
        holds = over_x <= target if target else gibibytes <= 24.0
        report(f"peak memory: {name}", most, over_x, f"({gibibytes:.2f} GiB in all)", holds=holds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak-of-fit"]:
        peak_of_fit(sys.argv[2])
    else:
        print(f"{n_threads()} threads\n{'':<58}{'target':>12}{'median':>10}  quartiles")
        parts = {"pass": measure_pass, "default": measure_default, "memory": measure_memory}
        parts |= {"sparse": measure_sparse, "bends": measure_bends}
        run_tables(parts)
