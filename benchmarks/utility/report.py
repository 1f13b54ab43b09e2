"""Cells gathered, and written as Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from utility.ours import DELTA, OURS
from utility.peers.run import GRIDS, METHODS, NOTHING, REFERENCES, applies
from utility.population import kind_of
from utility.relations import RELATIONS
from utility.settings import ours_path, peer_path
from utility.store import FOLDER, read_cells
from utility.summary import FLOOR, Ratio, interval, ratio, verdict
from utility.tasks import REGRESSIONS, task_names

DEFAULT = next(iter(OURS))
PEERS = tuple(method for method in METHODS if method not in REFERENCES)


def in_advance(grid: str) -> str:
    """Return the name of a grid's run that was fixed in advance."""
    return f"{grid}, fixed in advance"


IN_ADVANCE = tuple(map(in_advance, GRIDS))

# The promise, and the most that any cell may be above the best peer.
ALARM = 1.2

Cells = dict[tuple[str, float], dict[str, dict[str, Any]]]


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
            found = {}
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
            cells[name, epsilon] = found
    return cells


def best(cell: dict[str, Any], methods: Sequence[str]) -> str | None:
    """Return the method with the least mean excess among those that were measured."""
    known = [method for method in methods if method in cell]
    if not known:
        return None
    return min(known, key=lambda method: interval(cell[method]["train_excess"]).mean)


def is_complete(name: str, kind: str, cell: dict[str, Any]) -> bool:
    """Return whether the default and every peer that is run on the task have been measured."""
    return DEFAULT in cell and all(
        method in cell for method in PEERS if applies(method, name, kind)
    )


def against_peers(cells: Cells) -> dict[tuple[str, float], tuple[str, Ratio]]:
    """Return, for every complete cell, the best peer and the default's ratio to it."""
    found = {}
    for (name, epsilon), cell in cells.items():
        peer = best(cell, PEERS)
        if peer is not None and is_complete(name, kind_of(name), cell):
            of = cell[DEFAULT]["train_excess"], cell[peer]["train_excess"]
            found[name, epsilon] = (peer, ratio(*of))
    return found


def write_report(cells: Cells, folder: Path) -> str:
    """Write table.md and table.json, and return the Markdown."""
    compared = against_peers(cells)
    text = "\n\n".join((docs_text(cells), "All peers:", peers_table(cells)))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.md").write_text(text + "\n")
    content = {
        "delta": DELTA,
        "floor": FLOOR,
        "made_by": {
            name: {
                "ours": read_cells(ours_path(name))[0],
                "peers": {method: read_cells(peer_path(name, method))[0] for method in METHODS},
            }
            for name in {name for name, _ in cells}
        },
        "cells": [
            {"task": name, "epsilon": epsilon, "methods": cell}
            for (name, epsilon), cell in cells.items()
        ],
        "ratios": [
            {"task": name, "epsilon": epsilon, "best_peer": peer, **each._asdict()}
            for (name, epsilon), (peer, each) in compared.items()
        ],
    }
    (folder / "table.json").write_text(json.dumps(content, indent=1))
    return text


def docs_text(cells: Cells) -> str:
    """Return what the docs show."""
    compared = against_peers(cells)
    return "\n\n".join(
        (
            summary_lines(cells, compared),
            summary_table(compared),
            "Excess worst-group loss on the training records:",
            excess_table(cells, compared),
            "Worst-group loss on test records, and accuracy of the group with the least:",
            test_table(cells, compared),
            "Neighbouring relations:",
            relations_table(),
        )
    )


def table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def summary_lines(cells: Cells, compared: dict[tuple[str, float], tuple[str, Ratio]]) -> str:
    """Return the summary in sentences."""
    lines = []
    missing = [
        f"{name} at ε = {epsilon:g}" for name, epsilon in cells if (name, epsilon) not in compared
    ]
    if missing:
        lines.append(f"Not compared, as not every method has been run: {', '.join(missing)}.")
    for kind, names in kinds().items():
        ratios = {
            f"{name} at ε = {epsilon:g}": each
            for (name, epsilon), (_, each) in compared.items()
            if name in names and epsilon >= 1.0
        }
        if ratios:
            found = verdict(ratios)
            least = verdict(
                {
                    f"{name} at ε = {epsilon:g}": ratio(
                        [0.0] * len(cells[name, epsilon][peer]["train_excess"]),
                        cells[name, epsilon][peer]["train_excess"],
                    )
                    for (name, epsilon), (peer, _) in compared.items()
                    if name in names and epsilon >= 1.0
                }
            )
            lines.append(
                f"{kind.capitalize()}, ε ≥ 1: ours / best peer has geometric mean "
                f"**{found.geometric_mean:.2f}** over {found.n_cells} cells; worst cell "
                f"{found.worst_cell}: {found.worst}; won {found.won}, lost {found.lost} beyond "
                f"the 95 % interval. With no excess at all the mean would be "
                f"{least.geometric_mean:.2f}, by the floor."
            )
    curses = [
        ratio(cells[key][peer]["fresh_excess"], cells[key][peer]["train_excess"])
        for key, (peer, _) in compared.items()
        if "fresh_excess" in cells[key][peer]
    ]
    if curses:
        curse = verdict({str(k): each for k, each in enumerate(curses)})
        lines.append(
            f"On seeds they were not chosen by, best peers from NumPy grids have "
            f"{curse.geometric_mean:.2f} times the excess shown (geometric mean of "
            f"{curse.n_cells} cells)."
        )
    alarms = [
        f"{name} at ε = {epsilon:g}"
        for (name, epsilon), (_, each) in compared.items()
        if each.low > ALARM
    ]
    lines.append(f"Interval wholly above {ALARM:g}: {', '.join(alarms) or 'no cell'}.")
    below = [
        f"{name} at ε = {epsilon:g}"
        for (name, epsilon), cell in cells.items()
        if DEFAULT in cell and NOTHING in cell and is_worse_than_nothing(cell)
    ]
    lines.append(
        f"Worse than predicting nothing, beyond the interval: {', '.join(below) or 'no cell'}."
    )
    behind = [
        f"{name} at ε = {epsilon:g} ({own}, {each.value:.2f})"
        for name, epsilon, own, each in against_own(cells)
        if each.value > ALARM
    ]
    lines.append(
        f"Own backend better than `auto` by more than {ALARM:g}×: {', '.join(behind) or 'no cell'}."
    )
    return "\n\n".join(lines)


def is_worse_than_nothing(cell: dict[str, Any]) -> bool:
    """Return whether the default's mean is above the baseline by more than half its interval."""
    ours = interval(cell[DEFAULT]["train_excess"])
    return ours.mean > interval(cell[NOTHING]["train_excess"]).mean + ours.half


def against_own(cells: Cells) -> list[tuple[str, float, str, Ratio]]:
    """Return task, ε, the best own backend and the default's ratio to it."""
    found = []
    for (name, epsilon), cell in cells.items():
        own = best(cell, [method for method in OURS if method != DEFAULT])
        if own is not None and DEFAULT in cell:
            of = cell[DEFAULT]["train_excess"], cell[own]["train_excess"]
            found.append((name, epsilon, own, ratio(*of)))
    return found


def kinds() -> dict[str, list[str]]:
    """Return the names of the tasks by kind."""
    return {
        "classification": [name for name in task_names() if name not in REGRESSIONS],
        "regression": [name for name in task_names() if name in REGRESSIONS],
    }


def summary_table(compared: dict[tuple[str, float], tuple[str, Ratio]]) -> str:
    """Return ratios by kind and ε."""
    rows = []
    for kind, names in kinds().items():
        for epsilon in sorted({epsilon for _, epsilon in compared}):
            ratios = {
                name: each
                for (name, own), (_, each) in compared.items()
                if own == epsilon and name in names
            }
            if ratios:
                found = verdict(ratios)
                rows.append(
                    (
                        kind,
                        f"{epsilon:g}",
                        found.n_cells,
                        f"{found.geometric_mean:.2f}",
                        f"{found.worst_cell}: {found.worst}",
                        found.won,
                        found.lost,
                    )
                )
    titles = ("kind", "ε", "cells", "geometric mean", "worst cell", "won", "lost")
    return table(titles, rows)


def excess_table(cells: Cells, compared: dict[tuple[str, float], tuple[str, Ratio]]) -> str:
    """Return excess on the training records of ours and the best peer."""
    rows = []
    for (name, epsilon), cell in cells.items():
        row = [name, f"{epsilon:g}"]
        row += [
            str(interval(cell[method]["train_excess"])) if method in cell else "–"
            for method in OURS
        ]
        if (name, epsilon) in compared:
            peer, each = compared[name, epsilon]
            row += [str(interval(cell[peer]["train_excess"])), described(peer, cell[peer]), each]
        else:
            row += ["–"] * 3
        row.append(str(interval(cell[NOTHING]["train_excess"])) if NOTHING in cell else "–")
        rows.append(row)
    titles = ("task", "ε", *OURS, "best peer", "which", "ours / best peer", NOTHING)
    return table(titles, rows)


def described(method: str, cell: dict[str, Any]) -> str:
    """Return a method with the parameters of the grid that won."""
    parameters = {
        name: value
        for name, value in cell["parameters"].items()
        if name not in ("solver", "stated_epsilon")
    }
    shown = ", ".join(f"{name} {value}" for name, value in parameters.items())
    return f"{method} ({shown})" if shown else method


def peers_table(cells: Cells) -> str:
    """Return the mean excess of every peer and reference line."""
    rows = [
        (
            name,
            f"{epsilon:g}",
            *(
                str(interval(cell[method]["train_excess"])) if method in cell else "–"
                for method in METHODS
            ),
        )
        for (name, epsilon), cell in cells.items()
    ]
    return table(("task", "ε", *METHODS), rows)


def test_table(cells: Cells, compared: dict[tuple[str, float], tuple[str, Ratio]]) -> str:
    """Return worst-group loss and accuracy on test, and seconds."""
    rows = []
    for key, (peer, _) in compared.items():
        cell = cells[key]
        row: list[Any] = [key[0], f"{key[1]:g}"]
        for method in (DEFAULT, peer, *REFERENCES):
            if method not in cell:
                row.append("–")
                continue
            accuracy = interval(cell[method]["test_accuracy"])
            shown = str(interval(cell[method]["test_loss"]))
            row.append(shown if accuracy.mean != accuracy.mean else f"{shown}; {accuracy}")
        seconds = interval(cell[DEFAULT]["seconds"]).mean
        rows.append([*row, f"{seconds:.2f}"])
    titles = ("task", "ε", DEFAULT, "best peer", *REFERENCES, "seconds of a default fit")
    return table(titles, rows)


def relations_table() -> str:
    """Return the neighbouring relation of every method."""
    return table(
        ("method", "neighbours", "conversion"), [(name, *each) for name, each in RELATIONS.items()]
    )
