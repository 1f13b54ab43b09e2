"""Private audits: time and memory of one on a million rows, and widths of its intervals.

python benchmarks/audit.py speed       a run of 10^6 rows and 40 groups, and its table
python benchmarks/audit.py widths      law school and Adult, epsilon 1, held-out rows
python benchmarks/audit.py losses      deviation of mean losses by their share of epsilon
"""

from __future__ import annotations

import math
import sys
import time
import tracemalloc
import warnings

import numpy as np
import pandas as pd

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.inspection import audit_plan as _planned_releases

ROWS, GROUPS = 1_000_000, 40
SHOWN = ("selection_rate", "error_rate", "true_positive_rate", "false_positive_rate")


def speed() -> None:
    """Print time and peak memory of a run beside the size of what it reads."""
    rng = np.random.default_rng(0)
    labels = [f"group {i}" for i in range(GROUPS)]
    names = np.array(labels, dtype=object)[rng.integers(0, GROUPS, ROWS)]
    y, scores = rng.integers(0, 2, ROWS), rng.random(ROWS)
    size = y.nbytes + scores.nbytes + names.nbytes
    for kind, groups in (
        ("strings", names),
        ("frame of two columns", pd.DataFrame({"one": names, "two": np.where(y, "f", "m")})),
    ):
        known = labels
        if kind != "strings":
            known = [(label, sex) for label in labels[: GROUPS // 2] for sex in "fm"]
            groups["one"] = np.array(labels, dtype=object)[rng.integers(0, GROUPS // 2, ROWS)]
            size += names.nbytes
        for options in ({}, {"losses": ("log_loss",), "score_edges": (0.25, 0.5, 0.75)}):
            audit = GroupAudit(1.0, group_labels=known, **options)
            audit.plan()  # imports and calibration
            start = time.perf_counter()
            result = audit.run(y, scores, groups)
            ran = time.perf_counter() - start
            result.table()
            shown = time.perf_counter() - start - ran
            tracemalloc.start()
            audit.run(y, scores, groups)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            print(
                f"{kind:22s} {', '.join(options) or 'counts':22s} run {ran:5.2f} s, table "
                f"{shown:5.2f} s, peak {peak / size:.2f} x the {size / 1e6:.0f} MB read"
            )


def widths() -> None:
    """Print widths of intervals on real data, in brackets without privacy."""
    for name in ("law-school", "adult"):
        data = load_dataset(name)
        rng = np.random.default_rng(0)
        held = rng.random(len(data.target)) < 0.5
        model = DPWorstGroupClassifier(
            epsilon=1.0, data_norm=data.data_norm, group_labels=sorted(set(data.groups))
        )
        model.fit(data.data[~held], data.target[~held], groups=data.groups[~held])
        scores = model.predict_proba(data.data[held])[:, 1]
        known = {"group_labels": sorted(set(data.groups)), "classes": model.classes_}
        rows = (data.target[held], scores, data.groups[held])
        exact = GroupAudit(math.inf, **known).run(*rows)
        for sizes in ("public", "hidden"):
            private = GroupAudit(1.0, sizes=sizes, **known).run(*rows)
            print(f"\n{name}, sizes {sizes}: {private.verdict()}")
            for metric in SHOWN:
                pairs = zip(private.rates(metric), exact.rates(metric), strict=True)
                cells = [f"{one.group} {one.width:.3f} ({two.width:.3f})" for one, two in pairs]
                print(f"  {metric}: {'; '.join(cells)}")
            ratios = private.impact_ratios()
            shown = [f"{r.group} {r.estimate:.2f} [{r.low:.2f}, {r.high:.2f}]" for r in ratios]
            print(f"  impact ratio: {'; '.join(shown)}")
            print(f"  may be worst by error: {private.worst_groups().groups}")


def losses() -> None:
    """Print the noise of counts and of mean losses by the share of a loss."""
    for share in (0.25, 0.5, 1.0, 2.0):
        _planned_releases._SHARE_OF_A_LOSS = share
        _planned_releases.plan_releases.cache_clear()
        rng = np.random.default_rng(0)
        y, groups = rng.integers(0, 2, 1000), np.repeat(["a", "b"], 500)
        audit = GroupAudit(1.0, group_labels=["a", "b"], losses=("squared_error",))
        result = audit.run(y, rng.beta(2.0, 2.0, 1000), groups)
        (loss,) = result.losses
        print(
            f"share {share:4.2f}: a count {result.noise.std:5.2f}, selection rate "
            f"{result.rates('selection_rate')[0].width:.3f} wide, mean of 500 losses "
            f"{loss.sum_noise_std / 500:.4f}, {result.rates('squared_error')[0].width:.3f} wide"
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"speed": speed, "widths": widths, "losses": losses}[sys.argv[1]]()
