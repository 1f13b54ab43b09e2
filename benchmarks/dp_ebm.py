"""Lines and bends beside DP-EBM and boosted trees, on held-out people of the same splits.

`python benchmarks/dp_ebm.py [choosing|checking] [ε …] [--splits N] [--tasks NAME …]` measures tasks
with two numbers or more among their columns. What another run measured is not measured again.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from shapes import FOLDER, SHAPES, asked_of, names_asked, on_pieces
from utility import held_out
from utility.peers import ebm
from utility.population import load_by_name
from utility.report import table

LINES, BENDS, EBM = "ours", "ramps", "DP-EBM"
BLIND = {LINES: "group-blind", BENDS: "ramps, group-blind"}
TREES, FAIR_TREES = "boosted trees", "boosted trees, groups alike"
METHODS = [LINES, BENDS, *BLIND.values(), EBM, TREES, FAIR_TREES]


def over_records(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with mean losses of records, not of the worst group."""
    shares = {}
    for name in frame.name.unique():
        task = load_by_name(name)
        codes = np.concatenate([task.train.codes, task.test.codes])
        sizes = np.bincount(codes, minlength=len(task.group_labels))
        shares[name] = sizes / sizes.sum()
    losses = [each.test.mean(axis=0) @ shares[each.name] for each in frame.itertuples()]
    return frame.assign(loss=losses)


def means(frame: pd.DataFrame, start: str, end: str) -> str:
    """Return means over tasks, and which share of the way from a method to trees others go."""
    budgets = sorted(set(frame.epsilon) - {np.inf})
    mean = {
        (method, epsilon): own.loss.mean()
        for (method, epsilon), own in frame.groupby(["method", "epsilon"])
    }
    rows = []
    for method in METHODS:
        row = {"method": method}
        for epsilon in budgets:
            loss = mean.get((method, epsilon), mean.get((method, np.inf)))
            gap = mean[start, epsilon] - mean[end, np.inf]
            share = (mean[start, epsilon] - loss) / gap
            row[f"ε = {epsilon:g}"] = f"{loss:.4f} ({100 * share:+.0f} %)"
        rows.append(row)
    return table(rows)


def verdicts(frame: pd.DataFrame) -> str:
    """Return how often one method is clearly better and worse than another."""
    budgets = sorted(set(frame.epsilon) - {np.inf})
    rows = []
    for method, other in [(BENDS, LINES), (LINES, EBM), (BENDS, EBM), (BLIND[BENDS], EBM)]:
        row = {"method": f"{method} less {other}"}
        for epsilon in budgets:
            found = held_out.compare(frame, (method, epsilon), (other, epsilon))
            row[f"ε = {epsilon:g}"] = held_out.said(found)
        rows.append(row)
    return table(rows)


def main() -> None:
    """Measure and print."""
    asked = asked_of(__doc__)
    held_out.METHODS[BENDS] = on_pieces(SHAPES[BENDS])
    held_out.METHODS[BLIND[BENDS]] = on_pieces(SHAPES[BENDS], grouped=False)
    held_out.PEERS[EBM] = ebm.fit
    names, n_splits = names_asked(asked), asked.splits
    held_out.measure(names, METHODS, asked.epsilons, n_splits=n_splits, folder=FOLDER)
    frame = held_out.collect(FOLDER, methods=METHODS, names=names, n_splits=n_splits)
    frame = frame[frame.epsilon.isin([*asked.epsilons, np.inf])]
    for kind, own in frame.groupby("kind"):
        of = f"**{kind.capitalize()}**, {own.name.nunique()} tasks"
        print(f"{of}. Worst group, and share of the way from *{LINES}* to *{FAIR_TREES}*:\n")
        print(means(own, LINES, FAIR_TREES))
        print(f"\n{of}. All records, and share of the way from *{BLIND[LINES]}* to *{TREES}*:\n")
        print(means(over_records(own), BLIND[LINES], TREES))
        least = f"{held_out.LEAST[kind]:g} and two standard errors"
        print(f"\n{of}. Worst group: difference, 95 % interval by source, tasks clearly better")
        print(f"and worse, by {least}:\n\n{verdicts(own)}\n")


if __name__ == "__main__":
    main()
