"""Lines and bends beside DP-EBM and boosted trees, on held-out people of the same splits.

`python benchmarks/dp_ebm.py [choosing|checking] [ε …] [--splits N] [--tasks NAME …]` measures tasks
with two numbers or more among their columns. What another run measured is not measured again.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from shapes import FOLDER, asked_of, names_asked, on_pieces
from utility import held_out
from utility.held_out import table
from utility.peers import ebm
from utility.population import load_by_name

LINES, BENDS, EBM = "ours", "ramps", "DP-EBM"
BLIND = {LINES: "group-blind", BENDS: "ramps, group-blind"}
TREES, FAIR_TREES = "boosted trees", "boosted trees, groups alike"
METHODS = [LINES, BENDS, *BLIND.values(), EBM, TREES, FAIR_TREES]


def over_records(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with mean losses of records, not of the worst group."""
    fractions = {}
    for name in frame.name.unique():
        task = load_by_name(name)
        codes = np.concatenate([task.train.codes, task.test.codes])
        sizes = np.bincount(codes, minlength=len(task.group_labels))
        fractions[name] = sizes / sizes.sum()
    losses = [each.test.mean(axis=0) @ fractions[each.name] for each in frame.itertuples()]
    return frame.assign(loss=losses)


def means(frame: pd.DataFrame, start: str, end: str) -> str:
    """Return mean losses, how far from a method to trees they are, and tasks better than EBM."""
    losses = frame.pivot_table(index="name", columns=["method", "epsilon"], values="loss")
    rows = []
    for method in METHODS:
        row = {"method": method}
        for epsilon in sorted(set(frame.epsilon) - {np.inf}):
            loss = losses[method, np.inf if method in (TREES, FAIR_TREES) else epsilon]
            line, trees = losses[start, epsilon].mean(), losses[end, np.inf].mean()
            way = f"{100.0 * (line - loss.mean()) / (line - trees):+.0f} %" if line > trees else "–"
            better = (loss < losses[EBM, epsilon]).sum()
            row[f"ε = {epsilon:g}"] = f"{loss.mean():.4f}; {way}; {better}"
        rows.append(row)
    return table(rows)


def verdicts(frame: pd.DataFrame) -> str:
    """Return how often one method is clearly better and worse than another."""
    budgets = sorted(set(frame.epsilon) - {np.inf})
    rows = []
    for method, other in [(BENDS, LINES), (LINES, EBM), (BENDS, EBM), (BLIND[BENDS], EBM)]:
        row = {"method": f"{method} less {other}"}
        for epsilon in budgets:
            result = held_out.compare(frame, (method, epsilon), (other, epsilon))
            row[f"ε = {epsilon:g}"] = held_out.described(result)
        rows.append(row)
    return table(rows)


def main() -> None:
    """Measure and print."""
    asked = asked_of(__doc__)
    held_out.METHODS[BENDS] = on_pieces()
    held_out.METHODS[BLIND[BENDS]] = on_pieces(grouped=False)
    held_out.PEERS[EBM] = ebm.fit
    names, n_splits = names_asked(asked), asked.splits
    held_out.measure(names, METHODS, asked.epsilons, n_splits=n_splits, folder=FOLDER)
    frame = held_out.collect(FOLDER, methods=METHODS, names=names, n_splits=n_splits)
    frame = frame[frame.epsilon.isin([*asked.epsilons, np.inf])]
    for kind, own in frame.groupby("kind"):
        of = f"**{kind.capitalize()}**, {own.name.nunique()} tasks"
        facts = f"and on how many tasks it is less than that of {EBM}"
        print(f"{of}. Mean loss of the worst group, fraction of the way from *{LINES}* to")
        print(f"*{FAIR_TREES}*, {facts}:\n")
        print(means(own, LINES, FAIR_TREES))
        print(f"\n{of}. Mean loss of all records, fraction of the way from *{BLIND[LINES]}* to")
        print(f"*{TREES}*, {facts}:\n")
        print(means(over_records(own), BLIND[LINES], TREES))
        least = f"{held_out.LEAST[kind]:g} and two standard errors"
        print(f"\n{of}. Worst group: difference, 95 % interval by source, tasks clearly better")
        print(f"and worse, by {least}:\n\n{verdicts(own)}\n")


if __name__ == "__main__":
    main()
