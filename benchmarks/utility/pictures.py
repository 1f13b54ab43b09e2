"""Figures of many tasks: ratios by ε and a row a task, and held-out losses by ε."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from utility.frame import ALARM, HALVES, KINDS, by_half_and_kind, in_means, summary_of

EPSILON_FIGURE = "utility_by_epsilon.png"
TASK_FIGURE = "utility_{half}.png"
HELD_OUT_FIGURE = "utility_held_out.png"

COLOURS = {"checking": "C0", "choosing": "C1"}
TICKS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
SHADES = ("#7fb8da", "#3a86c0", "#0b5394", "#04203f")
DOTS_PER_INCH = 130

# Heights of the task figure, in inches.
ROW_HEIGHT, MARGIN = 0.155, 1.1


def pyplot() -> Any:
    """Return matplotlib's interface, for files alone."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def draw_population(compared: pd.DataFrame, folder: Path) -> list[Path]:
    """Draw means by ε, and for each half its tasks, and return the paths."""
    if compared.empty:
        return []
    halves = [half for half in HALVES if (compared.half == half).any()]
    tasks = (draw_tasks(compared, half, folder) for half in halves)
    return [draw_by_epsilon(compared, folder), *tasks]


def ratio_axis(axis: Any, axes: Any, values: Sequence[float]) -> None:
    """Scale an axis of ratios by logarithms, mark 1 and the alarm, and show all values."""
    low, high = min([0.5, *values]) / 1.15, max([2.0, *values]) * 1.15
    axis_name = axis.axis_name
    line = axes.axvline if axis_name == "x" else axes.axhline
    axes.set(**{f"{axis_name}scale": "log", f"{axis_name}lim": (low, high)})
    shown = [tick for tick in TICKS if low <= tick <= high]
    axis.set_ticks(shown, [f"{tick:g}" for tick in shown])
    axes.minorticks_off()
    line(1.0, color="0.3", linewidth=0.8, zorder=0)
    line(ALARM, color="0.3", linewidth=0.6, linestyle=":", zorder=0)


def draw_by_epsilon(compared: pd.DataFrame, folder: Path) -> Path:
    """Draw geometric means by ε with intervals by source, over the cells of the checking half."""
    plt = pyplot()
    kinds = [kind for kind in KINDS if (in_means(compared).kind == kind).any()]
    figure, panels = plt.subplots(
        1, max(1, len(kinds)), figsize=(7.5, 3.6), layout="constrained", squeeze=False
    )
    rng = np.random.default_rng(0)
    for axes, kind in zip(panels[0], kinds, strict=False):
        of_kind = compared[compared.kind == kind]
        epsilons = sorted(of_kind.epsilon.unique())
        kept = in_means(of_kind[of_kind.half == "checking"])
        heights = [each.value for each in kept.ratio]
        places = [epsilons.index(each) + rng.uniform(-0.1, 0.1) for each in kept.epsilon]
        axes.plot(places, heights, ".", color="0.72", markersize=4, zorder=1)
        for half, shift in (("choosing", 0.22), ("checking", -0.22)):
            cells = of_kind[of_kind.half == half]
            found = [(k, summary_of(cells, each)) for k, each in enumerate(epsilons)]
            means = [(k, row.mean) for k, row in found if row is not None]
            heights += [mean.value for _, mean in means]
            axes.errorbar(
                [k + shift for k, _ in means],
                [mean.value for _, mean in means],
                yerr=bars([mean for _, mean in means]),
                fmt="o" if half == "checking" else "s",
                color=COLOURS[half],
                markerfacecolor=COLOURS[half] if half == "checking" else "white",
                markersize=6,
                capsize=3,
                label=f"{half} half",
            )
        ratio_axis(axes.yaxis, axes, heights)
        axes.set(title=kind, xlabel="ε", ylabel="ours / best peer")
        axes.set_xticks(range(len(epsilons)), [f"{each:g}" for each in epsilons])
        axes.set_xlim(-0.5, len(epsilons) - 0.5)
    if kinds:
        handles = panels[0][0].get_legend_handles_labels()
        figure.legend(*handles, fontsize=8, ncols=2, loc="outside lower center")
    return save(plt, figure, folder / EPSILON_FIGURE)


def bars(ratios: Sequence[Any]) -> list[list[float]]:
    """Return the lengths of error bars below and above, none where no interval is known."""
    known = [each if math.isfinite(each.high) else None for each in ratios]
    return [
        [each.value - each.low if each else 0.0 for each in known],
        [each.high - each.value if each else 0.0 for each in known],
    ]


def draw_tasks(compared: pd.DataFrame, half: str, folder: Path) -> Path:
    """Draw a row a task of one half, sorted by geometric mean, with a dot for each ε."""
    plt = pyplot()
    of_kinds = [cells for own, _, cells in by_half_and_kind(compared) if own == half]
    names = [sorted_names(cells) for cells in of_kinds]
    heights = list(map(len, names))
    figure, panels = plt.subplots(
        len(heights),
        1,
        figsize=(8.3, MARGIN + ROW_HEIGHT * sum(heights) + 0.35 * len(heights)),
        height_ratios=heights,
        layout="constrained",
        squeeze=False,
        sharex=True,
    )
    shown = pd.concat(of_kinds)
    epsilons = sorted(shown.epsilon.unique())
    for axes, cells, own_names in zip(panels[:, 0], of_kinds, names, strict=True):
        for k, epsilon in enumerate(epsilons):
            height = 0.8 * (0.5 - (k + 0.5) / len(epsilons))
            places = {name: place + height for place, name in enumerate(own_names)}
            draw_dots(axes, cells[cells.epsilon == epsilon], places, SHADES[k % len(SHADES)])
        ratio_axis(axes.xaxis, axes, [each.value for each in shown.ratio])
        axes.set_yticks(range(len(own_names)), own_names, fontsize=6.5)
        axes.set_ylim(-0.7, len(own_names) - 0.3)
        axes.tick_params(axis="x", labelbottom=True)
        draw_mean(axes, cells)
        for place in range(0, len(own_names), 2):
            axes.axhspan(place - 0.5, place + 0.5, color="0.96", zorder=-1, linewidth=0)
    handles = panels[0, 0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=8, ncols=len(epsilons), loc="outside upper center")
    panels[-1, 0].set_xlabel(
        "ours / best peer, with 95 % intervals by seed; hollow: best peer under the floor",
        fontsize=8,
    )
    return save(plt, figure, folder / TASK_FIGURE.format(half=half))


def draw_dots(axes: Any, cells: pd.DataFrame, places: dict[str, float], colour: str) -> None:
    """Draw the ratios of one ε with intervals; hollow where the best peer is under the floor."""
    for is_under_floor, face in ((False, colour), (True, "white")):
        chosen = cells[cells.is_under_floor == is_under_floor]
        axes.errorbar(
            [each.value for each in chosen.ratio],
            [places[name] for name in chosen.name],
            xerr=bars(chosen.ratio),
            fmt="o",
            color=colour,
            markerfacecolor=face,
            markersize=3.2,
            markeredgewidth=0.8,
            elinewidth=0.6,
            label=None if is_under_floor or cells.empty else f"ε = {cells.epsilon.iloc[0]:g}",
        )


def draw_mean(axes: Any, cells: pd.DataFrame) -> None:
    """Draw the geometric mean with its interval, and say it in the title."""
    title = f"{cells.kind.iloc[0]}, {cells.half.iloc[0]} half"
    if found := summary_of(cells):
        if math.isfinite(found.mean.high):
            axes.axvspan(
                found.mean.low, found.mean.high, color="C1", alpha=0.18, linewidth=0, zorder=0
            )
        axes.axvline(found.mean.value, color="C1", linewidth=1.0, zorder=0)
        title += f": geometric mean {found.mean}"
    axes.set_title(title, fontsize=9, loc="left")


def sorted_names(cells: pd.DataFrame) -> list[str]:
    """Return tasks by geometric mean over ε, the worst last, which is at the top."""
    logs = pd.Series([math.log(each.value) for each in cells.ratio]).groupby(list(cells.name))
    return logs.mean().sort_values(kind="stable").index.tolist()


def draw_held_out(frame: pd.DataFrame, references: Collection[str], folder: Path) -> Path:
    """Draw means of held-out worst-group losses by ε; what has no ε is a line across."""
    plt = pyplot()
    kinds = [kind for kind in KINDS if (frame.kind == kind).any()]
    width = 4.2 * len(kinds)
    figure, panels = plt.subplots(
        1, len(kinds), figsize=(width, 3.9), layout="constrained", squeeze=False
    )
    for axes, kind in zip(panels[0], kinds, strict=True):
        cells = frame[frame.kind == kind]
        budgets = sorted(set(cells.epsilon[~cells.method.isin(references)]))
        for k, (method, own) in enumerate(cells.groupby("method", sort=False)):
            means = own.groupby("epsilon").loss.mean()
            if method in references:
                axes.axhline(means[math.inf], color=f"C{k}", ls="--", lw=1.0, label=method)
            else:
                places = [budgets.index(each) for each in means.index]
                axes.plot(places, means.to_numpy(), "o-", color=f"C{k}", label=method)
        title = f"{cells.name.nunique()} tasks, {kind}"
        axes.set(title=title, xlabel="ε", ylabel="worst-group loss, held out")
        names = ["∞" if math.isinf(each) else f"{each:g}" for each in budgets]
        axes.set_xticks(range(len(budgets)), names)
    handles = panels[0][0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=8, ncols=3, loc="outside lower center")
    return save(plt, figure, folder / HELD_OUT_FIGURE)


def save(plt: Any, figure: Any, path: Path) -> Path:
    """Write a figure in few colours, as it is kept under version control."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.set_dpi(DOTS_PER_INCH)
    figure.canvas.draw()
    image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    image.quantize(64).save(path, optimize=True)
    plt.close(figure)
    return path
