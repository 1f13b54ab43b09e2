"""What protecting who is in which group costs new people, and whether fits warn rightly.

    python benchmarks/small_groups.py choosing    # or checking; 10 minutes for two splits

Worst-group losses on held-out records with neighbours="replace-one", less those with
"replace-one-within-group"; then for how many fits the warning about small groups speaks, and what
a group loses beyond the exact minimax model, over what predicting nothing costs, against
what was expected.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
from utility import held_out
from utility.ours import make_model
from utility.population import load_by_name

from sklearn_dpwg.estimators.planning import loss_of_privacy

RELATIONS, EPSILONS, N_SPLITS, EXACT = (
    ("replace-one", "replace-one-within-group"), (1.0, 4.0), 2, "exact minimax",
)  # fmt: skip


def expected(name: str, epsilon: float) -> float:
    """Return what a fit expects its worst-off group to lose, 0 where it does not warn."""
    task = load_by_name(name)
    sizes = np.bincount(np.concatenate([task.train.codes, task.test.codes]))
    model = make_model(task, "auto", epsilon).set_params(neighbours="replace-one")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        facts = {"n_features": task.train.X.shape[1], "group_labels": list(task.group_labels)}
        plan = model.set_params(group_labels=None).plan(
            group_sizes=np.rint(held_out.TRAIN_FRACTION * sizes).astype(int).tolist(), **facts
        )
    losses = np.where(plan.problem.is_active, loss_of_privacy(plan), 0.1)
    return float(losses.max()) * (losses.max() >= 0.1)


if __name__ == "__main__":
    half = (sys.argv[1:] or ["choosing"])[0]
    for relation in RELATIONS:
        held_out.METHODS[relation] = held_out.estimator(neighbours=relation)
    methods = [*RELATIONS, EXACT]
    held_out.measure(held_out.names_of_half(half), methods, EPSILONS, n_splits=N_SPLITS)
    frame = held_out.collect(methods=methods, n_splits=N_SPLITS)
    cells = frame[frame.half == half].set_index(["kind", "name", "method", "epsilon"])
    for kind, epsilon in ((k, e) for k in ("classification", "regression") for e in EPSILONS):
        one, within = (cells.loss.xs((kind, m, epsilon), level=(0, 2, 3)) for m in RELATIONS)
        gaps = one - within
        title = f"{half}, {kind}, epsilon = {epsilon:g}, {len(gaps)} tasks"
        moments = f"mean {gaps.mean():+.4f} ± {gaps.std():.4f}, median {gaps.median():+.4f}"
        ends = f"{gaps.min():+.4f} to {gaps.max():+.4f} ({gaps.idxmax()})"
        print(f"{title}: replace-one less within-group {moments}, {ends}")
        settings = pd.Series({name: expected(name, epsilon) for name in gaps.index})
        exact = cells.test.xs((kind, EXACT, np.inf), level=(0, 2, 3))
        lost = pd.Series({
            name: (test.mean(axis=0) - exact[name].mean(axis=0)).max()
            for name, test in cells.test.xs((kind, "replace-one", epsilon), level=(0, 2, 3)).items()
        }) / (np.log(2.0) if kind == "classification" else 0.125)  # fmt: skip
        ratio = (lost / settings)[settings > 0]
        right, more = int(ratio.between(0.5, 2).sum()), int((ratio > 2).sum())
        missed = int((lost[settings == 0] > 0.2).sum())
        print(f"    warns in {len(ratio)}: {right} within a factor of two, {more} lose more; ")
        print(f"    of the others {missed} lose more than two tenths", flush=True)
