"""The frame of cells as Markdown and JSON, and the page that shows it."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from utility import frame as frames
from utility.chart import chart
from utility.ours import DELTA, OURS
from utility.peers.run import METHODS, REFERENCES
from utility.pictures import EPSILON_FIGURE, TASK_FIGURE, draw_by_epsilon, draw_tasks
from utility.store import ROOT, ours_path, read_cells
from utility.summary import Ratio, interval, ratio

N_WORST = 8

PAGE = Path(__file__).with_name("results.md")
MARKS = ("<!-- printed by make bench -->", "<!-- end of what is printed -->")

# The half that the page draws: on the other, defaults were chosen.
HALF = "checking"

# Planning bounds and fits stand side by side at this ε; excess below the least is the yardstick's
# own error.
BOUND_EPSILON, LEAST = 1.0, 1e-6


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table of rows with the same titles, nothing of none."""
    if not rows:
        return ""
    lines = [rows[0], ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def counted(number: int) -> str:
    """Return a number of cells in words."""
    return "no cell" if not number else f"{number} cell" + "s" * (number > 1)


def named(frame: pd.DataFrame, most: int | None = None) -> str:
    """Return how many cells there are, and which, the budgets of a task together."""
    cells = "; ".join(
        f"{name} at ε = {', '.join(f'{e:g}' for e in sorted(of_task.epsilon))}"
        for name, of_task in frame[:most].groupby("name", sort=False)
    )
    more = ", …" if most is not None and len(frame) > most else ""
    return counted(len(frame)) + (f" ({cells}{more})" if cells else "")


def mean_or_dash(epsilon: float | None) -> str:
    """Return a budget, or that it is all of them."""
    return "all" if epsilon is None else f"{epsilon:g}"


# --- the population and the package's own data sets ----------------------------------------------


def short_report(frame: pd.DataFrame, *, is_beside_chart: bool = False) -> str:
    """Return what cells come to, or what a page shows of it beside the chart of one half."""
    compared, parts = frames.complete(frame), _not_compared(frame)
    if len(compared):
        means = [table([_summary(each) for each in frames.summaries(compared)])]
        worst = ["The worst cells:", table(_worst(compared))]
        parts += [
            *([] if is_beside_chart else means),
            *_gaps(compared),
            *_in_advance(compared),
            "Beside the means, over all cells:",
            table([_beside(*each) for each in frames.by_half_and_kind(compared)]),
            *_named_lines(frame, compared),
            *([] if is_beside_chart else worst),
            _seeds_and_seconds(compared),
        ]
    return "\n\n".join(parts)


def _not_compared(frame: pd.DataFrame) -> list[str]:
    """Return the sentence about cells without everything, if there are any."""
    missing = frame[~frame.is_complete]
    said = f"Not compared, as not every method has been run: {named(missing, N_WORST)}."
    return [said] if len(missing) else []


def _summary(row: frames.Summary) -> dict[str, Any]:
    """Return geometric means and counts of one half, kind and ε."""
    return {
        "half": row.half,
        "kind": row.kind,
        "ε": mean_or_dash(row.epsilon),
        "cells": row.n_cells,
        "left out": row.n_left_out,
        "geometric mean": row.mean,
        "won": row.n_won,
        "lost": row.n_lost,
        f"wholly above {frames.ALARM:g}": row.n_above,
        "worst cell": f"{row.worst}: {row.worst_ratio}",
    }


def _gaps(compared: pd.DataFrame) -> list[str]:
    """Return what the halves differ by, for each kind that is in both."""
    gaps = {kind: frames.gap_of(compared, kind) for kind in frames.KINDS}
    return [
        f"{kind.capitalize()}, geometric mean of the checking half less that of the choosing half: "
        f"{found[0]:+.2f} ± {found[1]:.2f}."
        for kind, found in gaps.items()
        if found is not None
    ]


def _in_advance(compared: pd.DataFrame) -> list[str]:
    """Return the table beside peers that were fixed in advance, where they were run."""

    def grid(name: str) -> str:
        return name.partition(",")[0]

    rows = [
        {
            "kind": row.kind,
            "ε": mean_or_dash(row.epsilon),
            "cells": row.n_cells,
            "ours / the one that did best on the choosing half": row.best_mean,
            "which": grid(row.best) if row.best else "by ε",
            "won": row.n_won,
            "lost": row.n_lost,
        }
        | {f"ours / {grid(name)}": f"{mean.value:.2f}" for name, mean in row.means.items()}
        for row in frames.in_advance_rows(compared)
    ]
    said = (
        "Beside the same peers at one setting of their parameters for each ε and kind, that of the "
        "least geometric mean on the choosing half, in all cells:"
    )
    return [said, table(rows)] if rows else []


def _beside(half: str, kind: str, cells: pd.DataFrame) -> dict[str, Any]:
    """Return how `auto` chooses."""
    chosen = frames.choice_of(cells)
    within = hindsight = mean = "–"
    if chosen is not None:
        share = chosen.n_within / chosen.n_cells
        within = f"{chosen.n_within} of {chosen.n_cells} ({share:.0%})"
        mean, hindsight = str(chosen.mean), str(chosen.hindsight or "–")
    return {
        "half": half,
        "kind": kind,
        "cells": len(cells),
        f"`auto` within {frames.ALARM:g} × better own solver": within,
        "geometric mean of that quotient": mean,
        "ours / best peer with the better own solver": hindsight,
    }


def _badly_chosen(frame: pd.DataFrame) -> pd.DataFrame:
    """Return cells where `auto` is beyond the alarm above the better own solver, worst first."""
    known = frame[frame.own.notna()]
    beyond = known[[each.value > frames.ALARM for each in known.own_ratio]]
    return beyond.sort_values("own_ratio", key=lambda each: -each.str[0], kind="stable")


def _named_lines(frame: pd.DataFrame, compared: pd.DataFrame) -> list[str]:
    """Return which cells are above the alarm, worse than nothing, or chosen badly."""
    kept, left_out = frames.in_means(compared), compared[compared.is_under_floor]
    above, below = (frames.worst_first(each[each.is_above]) for each in (kept, left_out))
    lines = [
        f"Whole interval above {frames.ALARM:g}: {named(above)}.",
        "Worse than predicting nothing, beyond the interval: "
        f"{named(frame[frame.is_worse_than_nothing])}.",
    ]
    if len(left_out):
        lines.append(
            f"Left out, as the best peer is under the floor: {counted(len(left_out))}; with a "
            f"ratio to the floor that is wholly above {frames.ALARM:g}: {named(below)}."
        )
    beyond = _badly_chosen(compared)
    if len(beyond):
        worst = ", ".join(
            f"{each.at} (chose {each.solver}, {each.own} better, {each.own_ratio.value:.2f})"
            for each in beyond[:N_WORST].itertuples()
        )
        lines.append(
            f"`auto` furthest above the better own solver, {counted(len(beyond))} beyond "
            f"{frames.ALARM:g} times: {worst}{', …' if len(beyond) > N_WORST else ''}."
        )
    return lines


def _worst(compared: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the worst cells of each half and kind."""
    return [
        {
            "half": each.half,
            "kind": each.kind,
            "task": each.name,
            "ε": f"{each.epsilon:g}",
            "ours": each.excess,
            "solver": each.solver,
            "best peer": each.theirs,
            "which": each.peer,
            "ratio": each.ratio,
        }
        for _, _, cells in frames.by_half_and_kind(compared)
        for each in frames.worst_first(frames.in_means(cells))[: N_WORST // 2].itertuples()
    ]


def _curse(compared: pd.DataFrame) -> Ratio | None:
    """Return what best peers have on seeds they were not chosen by over what is shown."""
    known = frames.in_means(compared)
    known = known[known.fresh.notna()]
    return frames.mean_of(known, known.fresh) if len(known) else None


def _seconds(compared: pd.DataFrame) -> tuple[float, float, str]:
    """Return the median of all default fits' seconds, the most, and whose it is."""
    slowest = max(compared.itertuples(), key=lambda each: max(each.seconds))
    every = [value for each in compared.seconds for value in each]
    return statistics.median(every), max(slowest.seconds), slowest.at


def _seeds_and_seconds(compared: pd.DataFrame) -> str:
    """Return the sentence about what all figures are made of."""
    ours, theirs = (sorted(set(numbers)) for numbers in zip(*compared.n_seeds, strict=True))
    median, most, slowest = _seconds(compared)
    beside = _curse(compared)
    more = (
        f" On seeds they were not chosen by, best peers from NumPy grids have {beside.value:.2f} "
        "times the excess shown."
        if beside is not None
        else ""
    )
    return (
        f"Seeds of a cell: ours {_span(ours)}, best peers {_span(theirs)}. Intervals of means are "
        f"by source (delta method), those of cells by seed. Seconds of a default fit, seeded: "
        f"median {median:.2f}, most {most:.2f} ({slowest}).{more}"
    )


def _span(numbers: Sequence[int]) -> str:
    """Return one number, or from which to which."""
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def tasks_text(compared: pd.DataFrame, definitions: Iterable[Any]) -> str:
    """Return a table of ratios by task and ε for each half and kind."""
    asks = {each.name: each.asks for each in definitions}
    epsilons = sorted(compared.epsilon.unique())
    parts = []
    for half, kind, cells in frames.by_half_and_kind(compared):
        rows = []
        for name, of_task in cells.sort_values("epsilon").groupby("name"):
            # in brackets where it counts in no mean
            ratios = {
                each.epsilon: f"({each.ratio})" if each.is_under_floor else str(each.ratio)
                for each in of_task.itertuples()
            }
            rows.append(
                {"task": name, "what it asks": asks[name]}
                | {f"ε = {epsilon:g}": ratios.get(epsilon, "–") for epsilon in epsilons}
                | {"best peers": ", ".join(of_task.peer.unique())}
            )
        parts += [f"{kind.capitalize()}, {half} half:", table(rows)]
    return "\n\n".join(parts)


# --- the package's own data sets -----------------------------------------------------------------


def cells_text(frame: pd.DataFrame) -> str:
    """Return every cell in full: excess of every method, losses on test, and planning bounds."""
    compared = frames.complete(frame)
    return "\n\n".join(
        (
            "Excess worst-group loss on the training records:",
            table([_excess(each) for each in frame.itertuples()]),
            "Worst-group loss on test records, and accuracy of the group with the least:",
            table([_test(each) for each in compared.itertuples()]),
            "Planning bounds beside fits:",
            bounds_table(frame),
        )
    )


def _excess(row: Any) -> dict[str, Any]:
    """Return the mean excess of every method, and the best peer with its parameters."""
    shown = {
        method: interval(row.cell[method]["train_excess"]) if method in row.cell else "–"
        for method in (*OURS, *METHODS)
    }
    which = described(row.peer, row.cell[row.peer]) if row.is_complete else "–"
    against = row.ratio if row.is_complete else "–"
    return {
        "task": row.name,
        "ε": f"{row.epsilon:g}",
        **shown,
        "best peer": which,
        "ours / best peer": against,
    }


def described(method: str, cell: dict[str, Any]) -> str:
    """Return a method with the parameters of the grid that won."""
    shown = ", ".join(
        f"{name} {value}"
        for name, value in cell["parameters"].items()
        if name not in ("solver", "stated_epsilon")
    )
    return f"{method} ({shown})" if shown else method


def _test(row: Any) -> dict[str, Any]:
    """Return worst-group loss and accuracy on test, and seconds."""
    shown = {}
    for title, method in (
        (frames.DEFAULT, frames.DEFAULT),
        ("best peer", row.peer),
        *((reference, reference) for reference in REFERENCES),
    ):
        shown[title] = "–"
        if method in row.cell:
            accuracy = interval(row.cell[method]["test_accuracy"])
            loss = interval(row.cell[method]["test_loss"])
            shown[title] = str(loss) if math.isnan(accuracy.mean) else f"{loss}; {accuracy}"
    seconds = f"{interval(row.seconds).mean:.2f}"
    return {"task": row.name, "ε": f"{row.epsilon:g}", **shown, "seconds of a fit": seconds}


def bounds_table(frame: pd.DataFrame) -> str:
    """Return bound and measured excess of default fits, and how many times one is the other."""
    bounds = [cell.get(frames.DEFAULT, {}).get("predicted_excess") for cell in frame.cell]
    # what was measured before bounds were kept has none
    known = frame.assign(bound=bounds)[[bool(bound) for bound in bounds]]
    if known.empty:
        return "No bounds were kept: `make bench` measures again once the sources have changed."
    times = [row.bound / max(row.excess.mean, LEAST) for row in known.itertuples()]
    known = known.assign(times=times)
    at = f"at ε = {BOUND_EPSILON:g}"
    rows = []
    for name, of_task in known.groupby("name", sort=False):
        shown = of_task[of_task.epsilon == BOUND_EPSILON]
        pair = [(f"{each.bound:.3g}", each.excess) for each in shown.itertuples()] or [("–", "–")]
        row = {"task": name, f"bound {at}": pair[0][0], f"measured {at}": pair[0][1]}
        rows.append(row | dict(zip(of_task.epsilon, of_task.times, strict=True)))
    means = {e: statistics.geometric_mean(each.times) for e, each in known.groupby("epsilon")}
    rows.append(dict.fromkeys(rows[0], "") | {"task": "geometric mean"} | means)
    titles = {f"ratio at ε = {epsilon:g}": epsilon for epsilon in means}
    text = table(
        [
            {name: value for name, value in row.items() if isinstance(name, str)}
            | {t: f"{row[e]:.1f}" if row.get(e) else "–" for t, e in titles.items()}
            for row in rows
        ]
    )
    above = ", ".join(known["at"][known.times < 1.0]) or "no cell"
    return f"{text}\n\nMeasured above its bound: {above}."


def own_means(frame: pd.DataFrame) -> list[str]:
    """Return what the package's own data sets come to from ε = 1 on, a sentence a kind."""
    compared, lines = frames.complete(frame), []
    for _, kind, cells in frames.by_half_and_kind(compared[compared.epsilon >= 1.0]):
        found = frames.summary_of(cells)
        assert found is not None
        theirs = (each.cell[each.peer]["train_excess"] for each in cells.itertuples())
        least = frames.mean_of(cells, [ratio([0.0] * len(each), each) for each in theirs])
        lines.append(
            f"{kind.capitalize()}, ε ≥ 1: ours / best peer has geometric mean "
            f"**{found.mean.value:.2f}** over {found.n_cells} cells; worst cell "
            f"{found.worst}: {found.worst_ratio}; won {found.n_won}, lost {found.n_lost} beyond "
            f"the 95 % interval. With no excess at all the mean would be {least.value:.2f}, by the "
            "floor."
        )
    return lines


# --- files ---------------------------------------------------------------------------------------


def write_report(frame: pd.DataFrame, definitions: Sequence[Any], folder: Path, stem: str) -> str:
    """Write <stem>.md and <stem>.json, and return the Markdown."""
    compared = frames.complete(frame)
    if definitions:
        parts = [short_report(frame), tasks_text(compared, definitions)]
    else:
        parts = [*own_means(frame), short_report(frame), cells_text(frame)]
    sources = {read_cells(ours_path(name, folder))[0].get("sources") for name in set(compared.name)}
    if len(sources) > 1:
        parts.insert(0, f"Our fits are of {len(sources)} versions of the sources.")
    text = "\n\n".join(filter(None, parts))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.md").write_text(text + "\n")
    kept = frame.drop(columns="cell") if definitions else frame
    content = json.dumps(plain(as_json(kept)), indent=1, allow_nan=False)
    (folder / f"{stem}.json").write_text(content)
    return text


def as_json(frame: pd.DataFrame) -> dict[str, Any]:
    """Return all figures."""
    compared = frames.complete(frame)
    return {
        "delta": DELTA,
        "floors": frames.FLOORS,
        "summary": frames.summaries(compared),
        "gap": {kind: frames.gap_of(compared, kind) for kind in frames.KINDS},
        "in_advance": frames.in_advance_rows(compared),
        "missing": frame.loc[~frame.is_complete, "at"].tolist(),
        "cells": frame.to_dict("records"),
    }


def plain(value: Any) -> Any:
    """Return what JSON can hold: named tuples as mappings, None for what is not finite."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def look(frame: pd.DataFrame, today: date | None = None) -> str:
    """Return the row that a look at the checking half puts into results.md."""
    compared = frames.complete(frame)
    found = [
        f"{kind} {row.mean} ({row.n_above} of {row.n_cells} wholly above {frames.ALARM:g})"
        for half, kind, cells in frames.by_half_and_kind(compared)
        if half == "checking" and (row := frames.summary_of(cells)) is not None
    ]
    if not found:
        return ""
    commit = subprocess.run(
        ("git", "describe", "--always", "--dirty"), cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    cells = (today or date.today(), commit or "–", "what had changed", "; ".join(found))
    return "| " + " | ".join(map(str, cells)) + " |"


def write_page(frame: pd.DataFrame, own: pd.DataFrame, page: Path = PAGE) -> None:
    """Refresh the page of results and its figures."""
    draw_by_epsilon(frames.complete(frame), page.parent / "figures")
    draw_tasks(frames.complete(frame), HALF, page.parent / "figures")
    replace_between_marks(page, results_text(frame, own))


def results_text(frame: pd.DataFrame, own: pd.DataFrame) -> str:
    """Return chart, figures and sentences of the population, and those of the own data sets."""
    of_own = [*_not_compared(own), *own_means(own), *_named_lines(own, frames.complete(own))[:2]]
    return "\n\n".join(
        (
            f"```text\n{chart(frames.complete(frame), frames.complete(own), HALF)}\n```",
            "Geometric mean of ours / best peer by ε, with the 95 % interval by source; grey: "
            f"tasks of the {HALF} half.",
            f"![Geometric means by ε](figures/{EPSILON_FIGURE})",
            short_report(frame, is_beside_chart=True),
            f"All cells of the {HALF} half:",
            f"![Ratios by task and ε](figures/{TASK_FIGURE.format(half=HALF)})",
            *(["On the package's own data sets:", *of_own] if own.is_complete.any() else []),
        )
    )


def replace_between_marks(page: Path, text: str, marks: tuple[str, str] = MARKS) -> None:
    """Replace what stands between two marks of a page."""
    content = page.read_text(encoding="utf-8")
    before, start, rest = content.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (start and end) or any(content.count(mark) > 1 for mark in marks):
        raise ValueError(f"{page.name} must have the marks {marks} once, in this order.")
    page.write_text(f"{before}{marks[0]}\n\n{text}\n\n{marks[1]}{after}", encoding="utf-8")
