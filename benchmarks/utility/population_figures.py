"""Two figures of the population: means by ε, and a row a task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from utility.compared import HALVES, KINDS, Compared, having, in_means
from utility.population_summary import mean_of, row_of
from utility.report import ALARM

EPSILON_FIGURE = "utility_by_epsilon.png"
TASK_FIGURE = "utility_{half}.png"

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


def draw_population(compared: Sequence[Compared], folder: Path) -> list[Path]:
    """Draw both figures, the second for each half, and return the paths."""
    if not compared:
        return []
    halves = [half for half in HALVES if having(compared, half=half)]
    return [
        draw_by_epsilon(compared, folder),
        *(draw_tasks(compared, half, folder) for half in halves),
    ]


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


def draw_by_epsilon(compared: Sequence[Compared], folder: Path) -> Path:
    """Draw geometric means by ε with intervals by source, over the cells of the checking half."""
    plt = pyplot()
    kinds = [kind for kind in KINDS if in_means(compared, kind=kind)]
    figure, panels = plt.subplots(
        1, max(1, len(kinds)), figsize=(7.5, 3.6), layout="constrained", squeeze=False
    )
    rng = np.random.default_rng(0)
    for axes, kind in zip(panels[0], kinds, strict=False):
        epsilons = sorted({each.epsilon for each in having(compared, kind=kind)})
        kept = in_means(compared, kind=kind, half="checking")
        axes.plot(
            [epsilons.index(each.epsilon) + rng.uniform(-0.1, 0.1) for each in kept],
            [each.ratio.value for each in kept],
            ".",
            color="0.72",
            markersize=4,
            zorder=1,
        )
        heights = [each.ratio.value for each in kept]
        for half, shift in zip(HALVES, (0.22, -0.22), strict=True):
            found = [(k, row_of(compared, half, kind, each)) for k, each in enumerate(epsilons)]
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
    known = [math.isfinite(each.high) for each in ratios]
    return [
        [each.value - each.low if ok else 0.0 for each, ok in zip(ratios, known, strict=True)],
        [each.high - each.value if ok else 0.0 for each, ok in zip(ratios, known, strict=True)],
    ]


def draw_tasks(compared: Sequence[Compared], half: str, folder: Path) -> Path:
    """Draw a row a task of one half, sorted by geometric mean, with a dot for each ε."""
    plt = pyplot()
    shown = having(compared, half=half)
    names = {kind: sorted_names(having(shown, kind=kind)) for kind in KINDS}
    kinds = [kind for kind in KINDS if names[kind]]
    heights = [len(names[kind]) for kind in kinds]
    figure, panels = plt.subplots(
        len(kinds),
        1,
        figsize=(8.3, MARGIN + ROW_HEIGHT * sum(heights) + 0.35 * len(kinds)),
        height_ratios=heights,
        layout="constrained",
        squeeze=False,
        sharex=True,
    )
    epsilons = sorted({each.epsilon for each in shown})
    values = [each.ratio.value for each in shown]
    for axes, kind in zip(panels[:, 0], kinds, strict=True):
        of_kind = having(shown, kind=kind)
        for k, epsilon in enumerate(epsilons):
            height = 0.8 * (0.5 - (k + 0.5) / len(epsilons))
            places = {name: place + height for place, name in enumerate(names[kind])}
            draw_dots(axes, having(of_kind, epsilon=epsilon), places, SHADES[k % len(SHADES)])
        ratio_axis(axes.xaxis, axes, values)
        axes.set_yticks(range(len(names[kind])), names[kind], fontsize=6.5)
        axes.set_ylim(-0.7, len(names[kind]) - 0.3)
        axes.tick_params(axis="x", labelbottom=True)
        draw_mean(axes, of_kind)
        for place in range(0, len(names[kind]), 2):
            axes.axhspan(place - 0.5, place + 0.5, color="0.96", zorder=-1, linewidth=0)
    handles = panels[0, 0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=8, ncols=len(epsilons), loc="outside upper center")
    panels[-1, 0].set_xlabel(
        "ours / best peer, with 95 % intervals by seed; hollow: best peer under the floor",
        fontsize=8,
    )
    return save(plt, figure, folder / TASK_FIGURE.format(half=half))


def draw_dots(axes: Any, shown: Sequence[Compared], places: dict[str, float], colour: str) -> None:
    """Draw the ratios of one ε with intervals; hollow where the best peer is under the floor."""
    axes.errorbar(
        [each.ratio.value for each in shown],
        [places[each.name] for each in shown],
        xerr=bars([each.ratio for each in shown]),
        fmt="none",
        ecolor=colour,
        elinewidth=0.6,
        alpha=0.7,
    )
    for is_under_floor, face in ((False, colour), (True, "white")):
        chosen = having(shown, is_under_floor=is_under_floor)
        axes.plot(
            [each.ratio.value for each in chosen],
            [places[each.name] for each in chosen],
            "o",
            color=colour,
            markerfacecolor=face,
            markersize=3.2,
            markeredgewidth=0.8,
            label=None if is_under_floor else f"ε = {shown[0].epsilon:g}" if shown else None,
        )


def draw_mean(axes: Any, shown: Sequence[Compared]) -> None:
    """Draw the geometric mean with its interval, and say it in the title."""
    kept = in_means(shown)
    title = f"{shown[0].kind}, {shown[0].half} half"
    if kept:
        mean = mean_of(kept)
        if math.isfinite(mean.high):
            axes.axvspan(mean.low, mean.high, color="C1", alpha=0.18, linewidth=0, zorder=0)
        axes.axvline(mean.value, color="C1", linewidth=1.0, zorder=0)
        title += f": geometric mean {mean}"
    axes.set_title(title, fontsize=9, loc="left")


def sorted_names(shown: Sequence[Compared]) -> list[str]:
    """Return tasks by geometric mean over ε, the worst last, which is at the top."""
    logs: dict[str, list[float]] = {}
    for each in shown:
        logs.setdefault(each.name, []).append(math.log(each.ratio.value))
    return sorted(logs, key=lambda name: sum(logs[name]) / len(logs[name]))


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
