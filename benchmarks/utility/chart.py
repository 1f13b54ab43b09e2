"""The result in one look: a chart of text, for a page and a terminal."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence

import pandas as pd

from utility import frame as frames
from utility.summary import Ratio

# Ratios fall into bins between these.
EDGES = (0.25, 0.5, 0.7, 1.0, frames.ALARM, 2.0)

LABEL_WIDTH, COLUMN_WIDTH, BAR_WIDTH, WIDTH = 24, 18, 12, 100
N_WORST = {"classification": 5, "regression": 2}
FEW = 25

# Glyphs that the usual monospaced fonts have, each one column wide.
BLOCK, HALF_BLOCK = "█", "▌"


def chart(frame: pd.DataFrame, own: pd.DataFrame | None = None, half: str = "checking") -> str:
    """Return the chart of a half's compared cells; at most 100 columns for up to four budgets.

    It says how ratios are distributed at each ε and what they come to; below stand the geometric
    means of the package's own data sets, where these are given.
    """
    shown = frame[frame.half == half]
    epsilons = sorted(shown.epsilon.unique())
    of_kinds = {kind: cells for _, kind, cells in frames.by_half_and_kind(shown)}
    numbers = " and ".join(f"{cells.name.nunique()} {kind}" for kind, cells in of_kinds.items())
    unseen = " that no default was chosen on" if half == "checking" else ""
    lines = [
        "Excess worst-group loss: default parameters / best other method, its parameters chosen by",
        f"this very result, on {numbers} tasks{unseen}.",
        "Tasks by ratio; below 1 the defaults are better.",
        "",
    ]
    for kind, cells in of_kinds.items():
        # few tasks of a kind have no distribution to speak of
        if cells.name.nunique() >= FEW:
            lines += distribution(frames.in_means(cells), kind, epsilons)
        else:
            lines.append(line(kind, [f"ε = {each:g}" for each in epsilons]))
        lines += [*means_lines(cells, kind, epsilons), ""]
    lines += worst_lines(shown)
    if own is not None:
        lines += own_lines(own, epsilons)
    return "\n".join(line.rstrip() for line in lines)


def distribution(kept: pd.DataFrame, kind: str, epsilons: Sequence[float]) -> list[str]:
    """Return a histogram by ε of cells of one kind and half."""
    counts = [counts_of([r.value for r in kept.ratio[kept.epsilon == each]]) for each in epsilons]
    unit = max(1, -(-max(number for each in counts for number in each) // BAR_WIDTH))
    title = kind if unit == 1 else f"{kind} ({BLOCK} = {unit})"
    lines = [line(title, [f"ε = {epsilon:g}" for epsilon in epsilons])]
    for place, name in enumerate(bin_names()):
        lines.append(line(f"  {name}", [bar(each[place], unit) for each in counts]))
    return lines


def means_lines(cells: pd.DataFrame, kind: str, epsilons: Sequence[float]) -> list[str]:
    """Return what the cells of one kind and half come to at each ε."""
    found = [frames.summary_of(cells, epsilon) for epsilon in epsilons]
    above = [f"{row.n_above} of {row.n_cells}" if row else "–" for row in found]
    lines = [
        line("  geometric mean", [f"{row.mean.value:.2f}" if row else "–" for row in found]),
        line("    95 % interval", [interval_of(row and row.mean) for row in found]),
        line("  won, lost *", [f"{row.n_won}, {row.n_lost}" if row else "–" for row in found]),
        line(f"  wholly above {frames.ALARM:g}", above),
    ]
    if cells.is_under_floor.any():
        left_out = [int(cells.is_under_floor[cells.epsilon == each].sum()) for each in epsilons]
        lines.append(line(f"  other < {frames.FLOORS[kind]:g} †", list(map(str, left_out))))
    if fixed := {row.epsilon: row.best_mean for row in frames.in_advance_rows(cells)}:
        means = [fixed.get(each) for each in epsilons]
        lines += [
            line("  fixed in advance ‡", [f"{mean.value:.2f}" if mean else "–" for mean in means]),
            line("    95 % interval", [interval_of(mean) for mean in means]),
        ]
    return lines


def interval_of(mean: Ratio | None) -> str:
    """Return the interval of a mean, which one source does not tell."""
    if mean is None or math.isinf(mean.high):
        return "–"
    return f"{mean.low:.2f} to {mean.high:.2f}"


def counts_of(ratios: Sequence[float]) -> list[int]:
    """Return how many ratios are in each bin; what is on an edge is in the lower bin."""
    counts = [0] * (len(EDGES) + 1)
    for each in ratios:
        counts[sum(each > edge for edge in EDGES)] += 1
    return counts


def bin_names() -> list[str]:
    """Return the bins in words."""
    middle = [f"{low:g} to {high:g}" for low, high in itertools.pairwise(EDGES)]
    return [f"up to {EDGES[0]:g}", *middle, f"above {EDGES[-1]:g}"]


def bar(number: int, unit: int) -> str:
    """Return a bar and its number, nothing for none."""
    if not number:
        return ""
    halves = max(1, round(2 * number / unit))
    return BLOCK * (halves // 2) + HALF_BLOCK * (halves % 2) + f" {number}"


def line(label: str, columns: Sequence[str]) -> str:
    """Return a row of the chart."""
    return f"{label:<{LABEL_WIDTH}}" + "".join(f"{each:<{COLUMN_WIDTH}}" for each in columns)


def worst_lines(shown: pd.DataFrame) -> list[str]:
    """Return the legend, and the worst cells by name."""
    lines = ["* the 95 % interval of the task's ratio is below 1, or above."]
    if shown.is_under_floor.any():
        lines.append("† so little that more is of no use: left out of everything but ‡.")
    if frames.in_advance_rows(shown):
        lines.append(
            "‡ not in hindsight: geometric mean beside the method, at one setting for all tasks of "
            "an ε and kind,\n  that did best on the tasks that defaults are chosen on."
        )
    means = []
    for _, kind, cells in frames.by_half_and_kind(frames.in_means(shown)):
        worst = frames.worst_first(cells)[: N_WORST[kind]]
        named = ", ".join(f"{each.at} ({each.ratio.value:.2f})" for each in worst.itertuples())
        lines += wrapped(f"Worst in {kind}: {named}.")
        means.append(f"{kind} {frames.mean_of(cells)}")
    return [*lines, *wrapped(f"Geometric mean at all ε: {', '.join(means)}.")]


def wrapped(text: str) -> list[str]:
    """Return a sentence in lines."""
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def own_lines(own: pd.DataFrame, epsilons: Sequence[float]) -> list[str]:
    """Return a line for each kind of the package's own data sets."""
    lines = []
    for _, kind, cells in frames.by_half_and_kind(own[own.epsilon.isin(epsilons)]):
        found = [frames.summary_of(cells, epsilon) for epsilon in epsilons]
        means = [f"{row.mean.value:.2f}" if row else "–" for row in found]
        lines.append(line(f"  {cells.name.nunique()} {kind}", means))
    title = "The package's own data sets, on some of which defaults were chosen, geometric means:"
    return ["", title, *lines] if lines else []
