"""A chart of text of the page's tasks: a row each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from utility.peers.run import NOTHING
from utility.report import DEFAULT, Cells, against_peers, kinds
from utility.summary import FLOOR, Ratio, interval, verdict

# The dots are at this ε; the ratios at every measured ε from it on.
EPSILON = 1.0

NAME_WIDTH, DECADE_WIDTH, RATIO_WIDTH = 20, 15, 7

# Glyphs that the usual monospaced fonts have, each one column wide.
OURS_DOT, PEER_DOT, NOTHING_BAR, GAIN = "●", "○", "│", "─"

LEGEND = f"""\
Excess worst-group loss at ε = {EPSILON:g}; left is better.
{OURS_DOT} this package, default parameters (drawn over the others)
{PEER_DOT} the best other method, its parameters chosen by this very result
{NOTHING_BAR} predicting nothing
"""


def task_chart(cells: Cells) -> str:
    """Return the chart: a row a task, and under each kind of tasks the geometric means.

    Parameters
    ----------
    cells : dict
        What `collect` returns.

    Returns
    -------
    str
        Lines of at most 100 columns for up to four budgets.
    """
    compared = against_peers(cells)
    epsilons = sorted({epsilon for _, epsilon in cells if epsilon >= EPSILON})
    found = {
        name: dots(cells[name, EPSILON], compared.get((name, EPSILON), ("", None))[0])
        for names in kinds().values()
        for name in names
        if DEFAULT in cells.get((name, EPSILON), {})
    }
    largest = max((mean for means in found.values() for mean in means.values()), default=FLOOR)
    n_decades = max(1, math.ceil(math.log10(largest / FLOOR)))
    axis_width = n_decades * DECADE_WIDTH + 1
    margin = " " * (NAME_WIDTH + axis_width)
    numbers = "".join(f"{FLOOR * 10**k:<{DECADE_WIDTH}g}" for k in range(n_decades + 1))
    lines = [
        *LEGEND.splitlines(),
        "",
        f"{margin}   ours / best other",
        " " * NAME_WIDTH
        + f"{numbers:<{axis_width}}"[:axis_width]
        + columns([f"ε={epsilon:g} " for epsilon in epsilons]),
        " " * NAME_WIDTH + "├" + "┼".join(["─" * (DECADE_WIDTH - 1)] * n_decades) + "┤",
    ]
    for kind, names in kinds().items():
        shown = [name for name in names if name in found]
        by_epsilon = [
            {name: compared[name, epsilon][1] for name in shown if (name, epsilon) in compared}
            for epsilon in epsilons
        ]
        lines += [
            f"{name:<{NAME_WIDTH}}{track(found[name], axis_width)}"
            + columns([starred(ratios.get(name)) for ratios in by_epsilon])
            for name in shown
        ]
        if shown:
            means = [
                f"{verdict(each).geometric_mean:.2f} " if each else "– " for each in by_epsilon
            ]
            lines += [f"{f'{kind}, geometric mean':>{len(margin)}}{columns(means)}", ""]
    ratios = [each for (_, epsilon), (_, each) in compared.items() if epsilon >= EPSILON]
    won, lost = sum(each.high < 1.0 for each in ratios), sum(each.low > 1.0 for each in ratios)
    lines += [
        f"* the 95 % interval is below 1 ({won} of {len(ratios)} won) or above ({lost} lost).",
        f"  In ratios, an excess below {FLOOR:g} counts as {FLOOR:g}.",
    ]
    return "\n".join(line.rstrip() for line in lines)


def dots(cell: dict, peer: str) -> dict[str, float]:
    """Return mean excesses by glyph, what hides another last."""
    methods = {NOTHING_BAR: NOTHING, PEER_DOT: peer, OURS_DOT: DEFAULT}
    return {
        glyph: interval(cell[method]["train_excess"]).mean
        for glyph, method in methods.items()
        if method in cell
    }


def track(found: dict[str, float], width: int) -> str:
    """Return a row of the plot; what is below the axis is at its left end."""
    at = {
        glyph: round(math.log10(max(mean, FLOOR) / FLOOR) * DECADE_WIDTH)
        for glyph, mean in found.items()
    }
    row = [" "] * width
    if NOTHING_BAR in at:
        low, high = sorted((at[OURS_DOT], at[NOTHING_BAR]))
        row[low:high] = GAIN * (high - low)
    for glyph, column in at.items():
        row[column] = glyph
    return "".join(row)


def columns(texts: Sequence[str]) -> str:
    """Return the columns to the right of the plot; a number ends one before its star."""
    return "".join(f"{text:>{RATIO_WIDTH}}" for text in texts)


def starred(ratio: Ratio | None) -> str:
    """Return a ratio, starred where its interval does not hold 1."""
    if ratio is None:
        return "– "
    return f"{ratio.value:.2f}" + (" " if ratio.low <= 1.0 <= ratio.high else "*")
