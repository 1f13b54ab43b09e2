"""The report of the population, as Markdown and JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from utility.compared import FLOORS, HALVES, KINDS, Compared, having, in_means
from utility.in_advance_summary import InAdvance, in_advance_rows, in_advance_table
from utility.ours import DELTA
from utility.population_summary import (
    Choice,
    above,
    choice,
    curse,
    gap_of,
    held_out,
    row_of,
    rows,
    seconds,
    worst_of,
)
from utility.report import ALARM, table
from utility.settings import ours_path
from utility.store import ROOT, read_cells

N_WORST = 8


def full_report(
    compared: Sequence[Compared], missing: Sequence[str], definitions: Iterable[Any]
) -> str:
    """Return all there is to say.

    Parameters
    ----------
    compared : sequence of Compared
        The cells.
    missing : sequence of str
        Cells that lack our fits or a peer.
    definitions : iterable of Definition
        Of the tasks.

    Returns
    -------
    str
        Markdown.
    """
    return "\n\n".join((short_report(compared, missing), tasks_text(compared, definitions)))


def short_report(
    compared: Sequence[Compared], missing: Sequence[str], half: str | None = None
) -> str:
    """Return the summary, or what a page shows of it beside the chart of one half."""
    parts = [_not_compared(missing)] if missing else []
    if compared:
        parts += [
            *([summary_table(compared)] if half is None else []),
            *_gap_sentences(compared),
            *_in_advance(compared),
            "Beside the means, over all cells:",
            beside_table(compared),
            *_named_lines(compared),
            *(["The worst cells:", worst_table(compared)] if half is None else []),
            _seeds_and_seconds(compared),
        ]
    return "\n\n".join(parts)


def _not_compared(missing: Sequence[str]) -> str:
    """Return the sentence about cells without everything."""
    shown = ", ".join(missing[:N_WORST]) + (", …" if len(missing) > N_WORST else "")
    return f"Not compared, as not every method has been run: {counted(len(missing))} ({shown})."


def counted(number: int) -> str:
    """Return a number of cells in words."""
    return "no cell" if not number else f"{number} cell" + "s" * (number > 1)


def summary_table(compared: Sequence[Compared]) -> str:
    """Return geometric means by half, kind and ε."""
    titles = (
        *("half", "kind", "ε", "cells", "left out", "geometric mean", "won", "lost"),
        *(f"wholly above {ALARM:g}", "worst cell"),
    )
    return table(
        titles,
        [
            (
                row.half,
                row.kind,
                "all" if row.epsilon is None else f"{row.epsilon:g}",
                row.n_cells,
                row.n_left_out,
                row.mean,
                row.n_won,
                row.n_lost,
                row.n_above,
                f"{row.worst.at if row.epsilon is None else row.worst.name}: {row.worst.ratio}",
            )
            for row in rows(compared)
        ],
    )


def _in_advance(compared: Sequence[Compared]) -> list[str]:
    """Return the table beside peers that were fixed in advance, where they were run."""
    found = in_advance_table(compared)
    if not found:
        return []
    return [
        "Beside the same peers at one setting of their parameters for each ε and kind, that of the "
        "least geometric mean on the choosing half, in all cells:",
        found,
    ]


def _gap_sentences(compared: Sequence[Compared]) -> list[str]:
    """Return what the halves differ by, for each kind that is in both."""
    gaps = [(kind, gap_of(compared, kind)) for kind in KINDS]
    return [
        f"{kind.capitalize()}, geometric mean of the checking half less that of the choosing half: "
        f"{found[0]:+.2f} ± {found[1]:.2f}."
        for kind, found in gaps
        if found is not None
    ]


def beside_table(compared: Sequence[Compared]) -> str:
    """Return held-out losses, and how `auto` chooses, by half and kind."""
    lines = []
    for half, kind, every in _by_half_and_kind(compared):
        loss, chosen = held_out(every), choice(every)
        row: list[Any] = [half, kind, len(every)]
        row += [
            f"{loss.mean.mean:+.4f} ± {loss.mean.half:.4f}",
            f"{loss.n_lower} / {loss.n_higher}",
        ]
        if chosen is None:
            row += ["–"] * 3
        else:
            share = chosen.n_within / chosen.n_cells
            row += [f"{chosen.n_within} of {chosen.n_cells} ({share:.0%})", chosen.mean]
            row.append("–" if chosen.hindsight is None else chosen.hindsight)
        lines.append(row)
    titles = (
        *("half", "kind", "cells", "held-out worst-group loss, ours less best peer's"),
        *("lower / higher beyond noise", f"`auto` within {ALARM:g} × better own solver"),
        *("geometric mean of that quotient", "ours / best peer with the better own solver"),
    )
    return table(titles, lines)


def _by_half_and_kind(
    compared: Sequence[Compared],
) -> Iterator[tuple[str, str, list[Compared]]]:
    """Yield halves and kinds that have cells, with these."""
    for half in HALVES:
        for kind in KINDS:
            every = having(compared, half=half, kind=kind)
            if every:
                yield half, kind, every


def _named_lines(compared: Sequence[Compared]) -> list[str]:
    """Return which cells are above the alarm, worse than nothing, or chosen badly."""
    kept, left_out = in_means(compared), having(compared, is_under_floor=True)
    lines = [
        f"Whole interval above {ALARM:g}: {_named(above(kept))}.",
        "Worse than predicting nothing, beyond the interval: "
        f"{_named(having(compared, is_worse_than_nothing=True))}.",
    ]
    bad = above(left_out)
    if left_out:
        lines.append(
            f"Left out, as the best peer is under the floor: {counted(len(left_out))}; with a "
            f"ratio to the floor that is wholly above {ALARM:g}: {_named(bad)}."
        )
    chosen = choice(compared)
    if chosen is not None and chosen.worst:
        worst = [
            f"{each.at} (chose {each.solver}, {each.own} better, {each.own_ratio.value:.2f})"
            for each in chosen.worst[:N_WORST]
            if each.own_ratio is not None
        ]
        more = ", …" if len(chosen.worst) > N_WORST else ""
        lines.append(
            f"`auto` furthest above the better own solver, {counted(len(chosen.worst))} beyond "
            f"{ALARM:g} times: {', '.join(worst)}{more}."
        )
    return lines


def _named(compared: Sequence[Compared]) -> str:
    """Return how many cells there are, and which."""
    return counted(len(compared)) + (f" ({_cells(compared)})" if compared else "")


def _cells(compared: Sequence[Compared]) -> str:
    """Return cells by name, the budgets of a task together."""
    tasks = dict.fromkeys(each.name for each in compared)
    return "; ".join(
        f"{name} at ε = {', '.join(f'{e:g}' for e in sorted(x.epsilon for x in cells))}"
        for name in tasks
        if (cells := having(compared, name=name))
    )


def worst_table(compared: Sequence[Compared]) -> str:
    """Return the worst cells of each half and kind."""
    found = [
        each
        for half in HALVES
        for kind in KINDS
        for each in worst_of(in_means(compared, half=half, kind=kind), N_WORST // 2)
    ]
    titles = ("half", "kind", "task", "ε", "ours", "solver", "best peer", "which", "ratio")
    return table(
        titles,
        [
            (
                *(each.half, each.kind, each.name, f"{each.epsilon:g}", each.ours, each.solver),
                *(each.theirs, each.peer, each.ratio),
            )
            for each in found
        ],
    )


def _seeds_and_seconds(compared: Sequence[Compared]) -> str:
    """Return the sentence about what all figures are made of."""
    ours, theirs = (
        sorted({number[k] for number in (each.n_seeds for each in compared)}) for k in (0, 1)
    )
    time = seconds(compared)
    beside = curse(compared)
    more = (
        f" On seeds they were not chosen by, best peers from NumPy grids have {beside.value:.2f} "
        "times the excess shown."
        if beside is not None
        else ""
    )
    return (
        f"Seeds of a cell: ours {_span(ours)}, best peers {_span(theirs)}. Intervals of means are "
        f"by source (delta method), those of cells by seed. Seconds of a default fit, seeded: "
        f"median {time.median:.2f}, most {time.most:.2f} ({time.slowest}).{more}"
    )


def _span(numbers: Sequence[int]) -> str:
    """Return one number, or from which to which."""
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def tasks_text(compared: Sequence[Compared], definitions: Iterable[Any]) -> str:
    """Return a table of ratios by task and ε for each half and kind."""
    known = {each.name: each for each in definitions}
    epsilons = sorted({each.epsilon for each in compared})
    titles = ("task", "what it asks", *(f"ε = {each:g}" for each in epsilons), "best peers")
    parts = []
    for half in HALVES:
        for kind in KINDS:
            names = sorted({each.name for each in having(compared, half=half, kind=kind)})
            lines = []
            for name in names:
                cells = {each.epsilon: each for each in having(compared, name=name)}
                peers = dict.fromkeys(cells[each].peer for each in epsilons if each in cells)
                ratios = [_ratio_in_table(cells.get(each)) for each in epsilons]
                lines.append((name, known[name].asks, *ratios, ", ".join(peers)))
            if lines:
                parts += [f"{kind.capitalize()}, {half} half:", table(titles, lines)]
    return "\n\n".join(parts)


def _ratio_in_table(cell: Compared | None) -> str:
    """Return a ratio, in brackets where it counts in no mean."""
    if cell is None:
        return "–"
    return f"({cell.ratio})" if cell.is_under_floor else str(cell.ratio)


def as_json(compared: Sequence[Compared], missing: Sequence[str]) -> dict[str, Any]:
    """Return all figures as JSON has them."""
    summary = []
    for row in rows(compared):
        entry = row._asdict() | {"mean": row.mean._asdict(), "worst": row.worst.at}
        if row.epsilon is None:
            every = having(compared, half=row.half, kind=row.kind)
            chosen = choice(every)
            entry |= {
                "above": [each.at for each in above(in_means(every))],
                "worse_than_nothing": [
                    each.at for each in having(every, is_worse_than_nothing=True)
                ],
                "held_out": held_out(every)._asdict(),
                "choice": chosen and _choice_as_json(chosen),
                "seconds": seconds(every)._asdict(),
            }
        summary.append(entry)
    return {
        "delta": DELTA,
        "floors": FLOORS,
        "summary": summary,
        "gap": {kind: gap_of(compared, kind) for kind in KINDS},
        "in_advance": [_in_advance_as_json(each) for each in in_advance_rows(compared)],
        "missing": list(missing),
        "cells": [_cell_as_json(each) for each in compared],
    }


def _choice_as_json(chosen: Choice) -> dict[str, Any]:
    """Return how `auto` chose."""
    return chosen._asdict() | {
        "mean": chosen.mean._asdict(),
        "hindsight": chosen.hindsight and chosen.hindsight._asdict(),
        "worst": [each.at for each in chosen.worst],
    }


def _in_advance_as_json(row: InAdvance) -> dict[str, Any]:
    """Return a row beside peers that were fixed in advance."""
    means = {name: each._asdict() for name, each in row.means.items()}
    return row._asdict() | {"means": means, "best_mean": row.best_mean._asdict()}


def _cell_as_json(cell: Compared) -> dict[str, Any]:
    """Return a cell with its means and intervals by name."""
    found = {
        name: value._asdict() if hasattr(value, "_asdict") else value
        for name, value in vars(cell).items()
    }
    found["in_advance"] = {name: each._asdict() for name, each in cell.in_advance.items()}
    return found


def write_population(
    compared: Sequence[Compared],
    missing: Sequence[str],
    definitions: Sequence[Any],
    folder: Path,
    which: str,
) -> str:
    """Write population-<which>.md and .json, and return the Markdown."""
    text = full_report(compared, missing, definitions)
    versions = {read_cells(ours_path(each.name, folder))[0].get("sources") for each in compared}
    if len(versions) > 1:
        text = f"Our fits are of {len(versions)} versions of the sources.\n\n{text}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"population-{which}.md").write_text(text + "\n")
    content = json.dumps(_finite(as_json(compared, missing)), indent=1, allow_nan=False)
    (folder / f"population-{which}.json").write_text(content)
    return text


def _finite(value: Any) -> Any:
    """Return what JSON can hold: None for what is not a finite number."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


def look(compared: Sequence[Compared], today: date | None = None) -> str:
    """Return the row that a look at the checking half puts into docs/utility.md."""
    found = [
        f"{kind} {row.mean} ({row.n_above} of {row.n_cells} wholly above {ALARM:g})"
        for kind in KINDS
        if (row := row_of(compared, "checking", kind)) is not None
    ]
    if not found:
        return ""
    commit = subprocess.run(
        ("git", "describe", "--always", "--dirty"), cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    cells = (today or date.today(), commit or "–", "what had changed", "; ".join(found))
    return "| " + " | ".join(map(str, cells)) + " |"
