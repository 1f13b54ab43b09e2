"""The result in one look: a chart of text, for a page and a terminal."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence

from utility.compared import FLOORS, KINDS, Compared, having, in_means
from utility.in_advance_summary import in_advance_rows
from utility.population_summary import mean_of, row_of, worst_of
from utility.report import ALARM, Cells, against_peers, kinds
from utility.summary import Ratio, verdict

# Ratios fall into bins between these.
EDGES = (0.25, 0.5, 0.7, 1.0, ALARM, 2.0)

LABEL_WIDTH, COLUMN_WIDTH, BAR_WIDTH, WIDTH = 24, 18, 12, 100
N_WORST = {"classification": 5, "regression": 2}
FEW = 25

# Glyphs that the usual monospaced fonts have, each one column wide.
BLOCK, HALF_BLOCK = "█", "▌"


def chart(compared: Sequence[Compared], page: Cells, half: str = "checking") -> str:
    """Return the chart: how ratios are distributed at each ε, and what they come to.

    Parameters
    ----------
    compared : sequence of Compared
        Cells of the population; those of other halves are left out.
    page : dict
        What `collect` returns for the page's tasks.
    half : str, default="checking"
        The half.

    Returns
    -------
    str
        Lines of at most 100 columns for up to four budgets.
    """
    shown = having(compared, half=half)
    epsilons = sorted({each.epsilon for each in shown})
    names = {kind: {each.name for each in having(shown, kind=kind)} for kind in KINDS}
    numbers = " and ".join(f"{len(names[kind])} {kind}" for kind in KINDS if names[kind])
    unseen = " that no default was chosen on" if half == "checking" else ""
    lines = [
        "Excess worst-group loss: default parameters / best other method, its parameters chosen by",
        f"this very result, on {numbers} tasks{unseen}.",
        "Tasks by ratio; below 1 the defaults are better.",
        "",
    ]
    for kind in KINDS:
        if names[kind]:
            of_kind = having(shown, kind=kind)
            # few tasks of a kind have no distribution to speak of
            bins = distribution(of_kind, kind, epsilons) if len(names[kind]) >= FEW else []
            lines += [*(bins or [line(kind, [f"ε = {each:g}" for each in epsilons])])]
            lines += [*means_lines(of_kind, kind, epsilons), ""]
    lines += worst_lines(shown)
    lines += page_lines(page, epsilons)
    return "\n".join(line.rstrip() for line in lines)


def distribution(shown: Sequence[Compared], kind: str, epsilons: Sequence[float]) -> list[str]:
    """Return a histogram by ε of the cells of one kind and half."""
    kept = {epsilon: in_means(shown, epsilon=epsilon) for epsilon in epsilons}
    counts = {
        epsilon: counts_of([each.ratio.value for each in cells]) for epsilon, cells in kept.items()
    }
    most = max(number for each in counts.values() for number in each)
    unit = max(1, -(-most // BAR_WIDTH))
    title = kind if unit == 1 else f"{kind} ({BLOCK} = {unit})"
    lines = [line(title, [f"ε = {epsilon:g}" for epsilon in epsilons])]
    for place, name in enumerate(bin_names()):
        lines.append(line(f"  {name}", [bar(counts[each][place], unit) for each in epsilons]))
    return lines


def means_lines(shown: Sequence[Compared], kind: str, epsilons: Sequence[float]) -> list[str]:
    """Return what the cells of one kind and half come to at each ε."""
    half = shown[0].half
    found = [row_of(shown, half, kind, epsilon) for epsilon in epsilons]
    lines = [
        line("  geometric mean", [f"{row.mean.value:.2f}" if row else "–" for row in found]),
        line("    95 % interval", [interval_of(row and row.mean) for row in found]),
        line("  won, lost *", [f"{row.n_won}, {row.n_lost}" if row else "–" for row in found]),
        line(
            f"  wholly above {ALARM:g}",
            [f"{row.n_above} of {row.n_cells}" if row else "–" for row in found],
        ),
    ]
    left_out = [len(having(shown, epsilon=e, is_under_floor=True)) for e in epsilons]
    if any(left_out):
        lines.append(line(f"  other < {FLOORS[kind]:g} †", [str(number) for number in left_out]))
    fixed = {row.epsilon: row for row in in_advance_rows(shown)}
    if fixed:
        means = [fixed[each].best_mean if each in fixed else None for each in epsilons]
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


def worst_lines(shown: Sequence[Compared]) -> list[str]:
    """Return the legend, and the worst cells by name."""
    lines = ["* the 95 % interval of the task's ratio is below 1, or above."]
    if having(shown, is_under_floor=True):
        lines.append("† so little that more is of no use: left out of everything but ‡.")
    if in_advance_rows(shown):
        lines.append(
            "‡ not in hindsight: geometric mean beside the method, at one setting for all tasks of "
            "an ε and kind,\n  that did best on the tasks that defaults are chosen on."
        )
    for kind, number in N_WORST.items():
        worst = worst_of(in_means(shown, kind=kind), number)
        if worst:
            named = ", ".join(f"{each.at} ({each.ratio.value:.2f})" for each in worst)
            lines += wrapped(f"Worst in {kind}: {named}.")
    means = [f"{kind} {mean_of(cells)}" for kind in KINDS if (cells := in_means(shown, kind=kind))]
    return [*lines, *wrapped(f"Geometric mean at all ε: {', '.join(means)}.")]


def wrapped(text: str) -> list[str]:
    """Return a sentence in lines."""
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def page_lines(page: Cells, epsilons: Sequence[float]) -> list[str]:
    """Return a line for each kind of the page's tasks, which defaults were chosen on."""
    compared = against_peers(page)
    lines = []
    for kind, names in kinds().items():
        means = []
        for epsilon in epsilons:
            ratios = {
                name: compared[name, epsilon][1] for name in names if (name, epsilon) in compared
            }
            means.append(f"{verdict(ratios).geometric_mean:.2f}" if ratios else "–")
        shown = [name for name in names if any((name, each) in compared for each in epsilons)]
        if shown:
            lines.append(line(f"  {len(shown)} {kind}", means))
    title = "The package's own data sets, on some of which defaults were chosen, geometric means:"
    return ["", title, *lines] if lines else []
