"""One frame of cells: a row a task and budget, beside its best peer and our own better solver."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from utility.ours import OURS, methods_of
from utility.peers.run import GRIDS, METHODS, NOTHING, REFERENCES, applies
from utility.population import kind_of
from utility.store import FOLDER, ours_path, peer_path, read_cells
from utility.summary import FLOOR, Ratio, gap, geometric_mean, interval, ratio

DEFAULT = next(iter(OURS))
PEERS = tuple(method for method in METHODS if method not in REFERENCES)

# Below these excesses of the best peer a cell is counted, and left out of the means.
FLOORS = {"classification": 1e-3, "regression": 1e-4}

# The most that any cell may be above the best peer.
ALARM = 1.2

KINDS = tuple(FLOORS)
# The package's own data sets are in no half: some of them had a part in choosing defaults.
OWN = "own"
HALVES = ("choosing", "checking", OWN)

Cells = dict[tuple[str, float], dict[str, dict[str, Any]]]


def in_advance(grid: str) -> str:
    """Return the name of a grid's run that was fixed in advance."""
    return f"{grid}, fixed in advance"


IN_ADVANCE = tuple(map(in_advance, GRIDS))


def collect(
    names: Sequence[str], epsilons: Sequence[float], n_seeds: int, folder: Path = FOLDER
) -> Cells:
    """Return what has been measured of the cells asked for, by task and ε, then method."""
    cells: Cells = {}
    for name in names:
        _, own = read_cells(ours_path(name, folder))
        of_peers = {
            method: read_cells(peer_path(name, method, folder))[1]
            for method in (*METHODS, *IN_ADVANCE)
        }
        for epsilon in epsilons:
            found = cells[name, epsilon] = {}
            for method in OURS:
                keys = [f"{method}|{epsilon:g}|{seed}" for seed in range(n_seeds)]
                fits = [own[key] for key in keys if key in own]
                if fits:
                    found[method] = {
                        figure: [fit[figure] for fit in fits]
                        for figure in ("train_excess", "test_loss", "test_accuracy", "seconds")
                    }
                    # all fits of a cell have one plan
                    found[method] |= {
                        "predicted_excess": fits[0].get("predicted_excess"),
                        "parameters": {"solver": fits[0]["solver"]},
                    }
            for method, by_epsilon in of_peers.items():
                if f"{epsilon:g}" in by_epsilon:
                    found[method] = by_epsilon[f"{epsilon:g}"]
    return cells


# A row a cell: its task and budget, what was measured, and whether that is the default and every
# peer that is run on the task. Then what is said of the default, and of complete cells beside
# `peer`, the best one; `in_advance` are ratios to peers with fixed parameters, that which did best
# on the choosing half first, and to predicting nothing.
COLUMNS = (
    *("name", "epsilon", "at", "source", "half", "kind", "cell", "is_complete"),
    *("solver", "excess", "seconds", "own", "own_ratio", "is_worse_than_nothing"),
    *("peer", "theirs", "ratio", "is_won", "is_lost", "is_above", "is_under_floor", "fresh"),
    *("n_seeds", "in_advance"),
)
FLAGS = tuple(name for name in COLUMNS if name.startswith("is_"))


def frame_of(cells: Cells, definitions: Iterable[Any] = ()) -> pd.DataFrame:
    """Return the frame of cells; tasks without a definition are the package's own."""
    known = {each.name: each for each in definitions}
    rows = []
    for (name, epsilon), cell in cells.items():
        about = known.get(name) or SimpleNamespace(source=name, half=OWN, kind=kind_of(name))
        row = {"name": name, "epsilon": epsilon, "at": f"{name} at ε = {epsilon:g}", "cell": cell}
        row |= {fact: getattr(about, fact) for fact in ("source", "half", "kind")}
        row |= dict.fromkeys(FLAGS, False)
        row["is_complete"] = DEFAULT in cell and all(
            method in cell for method in PEERS if applies(method, name, about.kind)
        )
        if DEFAULT in cell:
            row |= _of_default(row)
        if row["is_complete"]:
            row |= _beside_peers(row)
        rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(FLAGS, bool))


def _of_default(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of the default's fits."""
    cell, default = row["cell"], row["cell"][DEFAULT]
    excess = interval(default["train_excess"])
    own = [method for method in methods_of(row["name"], row["kind"]) if method != DEFAULT]
    if row["half"] == OWN:
        own = [method for method in own if method in cell]
    # the better own solver is not known while one of them is missing
    better = best(cell, own) if all(method in cell for method in own) else None
    return {
        "solver": default["parameters"].get("solver"),
        "excess": excess,
        "seconds": tuple(default["seconds"]),
        "own": better,
        "own_ratio": _over(row, better) if better else None,
        # beyond half the interval
        "is_worse_than_nothing": NOTHING in cell
        and excess.mean > interval(cell[NOTHING]["train_excess"]).mean + excess.half,
    }


def _beside_peers(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is said of a complete cell."""
    cell, default = row["cell"], row["cell"][DEFAULT]
    peer = best(cell, PEERS)
    assert peer is not None
    other, against, floor = cell[peer], _over(row, peer), _floor(row)
    fixed = [name for name in IN_ADVANCE if name in cell]
    fixed.sort(key=lambda name: cell[name]["choosing_excess"])
    theirs = interval(other["train_excess"])
    return {
        "peer": peer,
        "theirs": theirs,
        "ratio": against,
        "is_won": against.high < 1.0,
        "is_lost": against.low > 1.0,
        "is_above": against.low > ALARM,
        # of the package's own data sets none is left out
        "is_under_floor": row["half"] != OWN and theirs.mean < floor,
        # the best peer's excess on seeds that it was not chosen by, over that shown
        "fresh": (
            ratio(other["fresh_excess"], other["train_excess"], floor)
            if "fresh_excess" in other
            else None
        ),
        "n_seeds": (len(default["train_excess"]), len(other["train_excess"])),
        "in_advance": {method: _over(row, method) for method in [*fixed, NOTHING] if fixed},
    }


def _floor(row: dict[str, Any]) -> float:
    return FLOOR if row["half"] == OWN else FLOORS[row["kind"]]


def _over(row: dict[str, Any], method: str) -> Ratio:
    """Return the default's excess over that of a method, each seed's at least the floor."""
    ours, theirs = (row["cell"][each]["train_excess"] for each in (DEFAULT, method))
    return ratio(ours, theirs, _floor(row))


def best(cell: dict[str, Any], methods: Sequence[str]) -> str | None:
    """Return the method with the least mean excess among those that were measured."""
    means = {
        method: interval(cell[method]["train_excess"]).mean for method in methods if method in cell
    }
    return min(means, key=means.__getitem__) if means else None


def complete(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the cells that are compared."""
    return frame[frame.is_complete]


def in_means(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the compared cells whose best peer is not under the floor."""
    return frame[~frame.is_under_floor]


def worst_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Return cells by their ratio, the largest first."""
    return frame.sort_values("ratio", key=lambda each: -each.str[0], kind="stable")


def mean_of(frame: pd.DataFrame, ratios: Iterable[Ratio] | None = None) -> Ratio:
    """Return the geometric mean of ratios, ours to the best peer's, with its interval by source."""
    values = [each.value for each in (frame.ratio if ratios is None else ratios)]
    return geometric_mean(values, frame.source.tolist())


class Summary(NamedTuple):
    """Compared cells of one half and kind, at one ε or at all (None)."""

    half: str
    kind: str
    epsilon: float | None
    # Cells in the mean, cells whose best peer is under the floor, and sources of the former.
    n_cells: int
    n_left_out: int
    n_sources: int
    # Geometric mean of ours over the best peer, with its interval by source.
    mean: Ratio
    # The cell with the largest ratio.
    worst: str
    worst_ratio: Ratio
    # Cells with the whole interval below 1, above 1, and above the alarm.
    n_won: int
    n_lost: int
    n_above: int
    n_left_out_above: int


def summary_of(frame: pd.DataFrame, epsilon: float | None = None) -> Summary | None:
    """Return what compared cells of one half and kind come to, None without one in the mean."""
    chosen = frame if epsilon is None else frame[frame.epsilon == epsilon]
    kept, left_out = in_means(chosen), chosen[chosen.is_under_floor]
    if kept.empty:
        return None
    worst = worst_first(kept).iloc[0]
    counts = (len(kept), len(left_out), kept.source.nunique())
    marked = (int(kept[each].sum()) for each in ("is_won", "is_lost", "is_above"))
    return Summary(
        *(worst.half, worst.kind, epsilon, *counts, mean_of(kept)),
        *(worst["name"] if epsilon else worst["at"], worst.ratio, *marked),
        int(left_out.is_above.sum()),
    )


def by_half_and_kind(frame: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield halves and kinds with their cells, if there are any."""
    for half, kind in itertools.product(HALVES, KINDS):
        chosen = frame[(frame.half == half) & (frame.kind == kind)]
        if len(chosen):
            yield half, kind, chosen


def summaries(frame: pd.DataFrame) -> list[Summary]:
    """Return a summary for each half, kind and ε with cells in the mean, all budgets first."""
    found = [
        summary_of(chosen, epsilon)
        for _, _, chosen in by_half_and_kind(frame)
        for epsilon in (None, *sorted(chosen.epsilon.unique()))
    ]
    return [each for each in found if each is not None]


def gap_of(frame: pd.DataFrame, kind: str) -> tuple[float, float] | None:
    """Return checking less choosing of the geometric means, and half its interval."""
    kept = in_means(frame[frame.kind == kind])
    halves = [kept[kept.half == half] for half in ("checking", "choosing")]
    if any(each.empty for each in halves):
        return None
    checking, choosing = (([r.value for r in each.ratio], each.source.tolist()) for each in halves)
    return gap(checking, choosing)


class Choice(NamedTuple):
    """`auto` beside the better of our own solvers, chosen in hindsight."""

    # Cells where it has at most 1.2 times the other's mean excess, and all.
    n_within: int
    n_cells: int
    # Geometric mean of its excess over the other's.
    mean: Ratio
    # What the mean of ours over the best peer would be with the better solver in every cell.
    hindsight: Ratio | None


def choice_of(frame: pd.DataFrame) -> Choice | None:
    """Return how `auto` chooses in compared cells, None where no other solver was measured."""
    known = frame[frame.own.notna()]
    if known.empty:
        return None
    kept = in_means(known)
    better = [
        Ratio(a.value / b.value, 0, 0) for a, b in zip(kept.ratio, kept.own_ratio, strict=True)
    ]
    return Choice(
        sum(each.value <= ALARM for each in known.own_ratio),
        len(known),
        mean_of(known, known.own_ratio),
        mean_of(kept, better) if better else None,
    )


class InAdvance(NamedTuple):
    """Cells of the checking half of one kind beside fixed peers, at one ε or at all (None)."""

    kind: str
    epsilon: float | None
    # All of them, as which peer is good in hindsight is no matter here.
    n_cells: int
    # Geometric mean of ours over each peer, with its interval by source.
    means: dict[str, Ratio]
    # The peer that did best on the choosing half; None where it is not the same in all cells.
    best: str | None
    # Beside the peer that did best on the choosing half at each cell's ε.
    best_mean: Ratio
    n_won: int
    n_lost: int


def in_advance_rows(frame: pd.DataFrame) -> list[InAdvance]:
    """Return a row for each kind and ε that has such peers, all budgets first."""
    has_all = [set(IN_ADVANCE) <= set(each) for each in frame.in_advance]
    kept = frame[np.array(has_all, dtype=bool) & (frame.half == "checking")]
    found = []
    for _, kind, of_kind in by_half_and_kind(kept):
        for epsilon in (None, *sorted(of_kind.epsilon.unique())):
            cells = of_kind if epsilon is None else of_kind[of_kind.epsilon == epsilon]
            first = [next(iter(each.items())) for each in cells.in_advance]
            names = {name for name, _ in first}
            means = {
                name: mean_of(cells, [each[name] for each in cells.in_advance])
                for name in (*IN_ADVANCE, NOTHING)
            }
            found.append(
                InAdvance(
                    *(kind, epsilon, len(cells), means),
                    *(
                        names.pop() if len(names) == 1 else None,
                        mean_of(cells, [each for _, each in first]),
                    ),
                    *(
                        sum(each.high < 1.0 for _, each in first),
                        sum(each.low > 1.0 for _, each in first),
                    ),
                )
            )
    return found
