"""One figure a task: excess against ε, every method, with intervals."""

from __future__ import annotations

from pathlib import Path

from utility.ours import OURS
from utility.peers.run import AVERAGE, METHODS, NOTHING, WORST_GROUP
from utility.report import DEFAULT, Cells
from utility.summary import FLOOR, interval

LINES = {NOTHING: ":", AVERAGE: "--"}


def draw_figures(cells: Cells, folder: Path) -> list[Path]:
    """Draw the figure of every task with more than one ε, and return the paths.

    Parameters
    ----------
    cells : dict
        What `collect` returns.
    folder : Path
        Where to.

    Returns
    -------
    list of Path
        The files.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    drawn = []
    for name in dict.fromkeys(name for name, _ in cells):
        epsilons = [epsilon for task, epsilon in cells if task == name and cells[task, epsilon]]
        if len(epsilons) < 2:
            continue
        figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
        methods = [*OURS, *(method for method in METHODS if method != WORST_GROUP)]
        for k, method in enumerate(methods):
            shown = [epsilon for epsilon in epsilons if method in cells[name, epsilon]]
            if not shown:
                continue
            found = [interval(cells[name, each][method]["train_excess"]) for each in shown]
            # on a log axis nothing is below what the ratios are floored at, but a line
            heights = [max(each.mean, FLOOR / 2.0) for each in found]
            downs = [
                height - max(each.mean - each.half, FLOOR / 2.0)
                for height, each in zip(heights, found, strict=True)
            ]
            axes.errorbar(
                [each * 1.012 ** (k - len(methods) / 2) for each in shown],
                heights,
                yerr=(
                    [max(down, 0.0) for down in downs],
                    [each.half for each in found],
                ),
                label=method,
                color="black" if method == DEFAULT or method in LINES else f"C{k % 10}",
                linewidth=2.5 if method == DEFAULT else 1.0,
                linestyle=LINES.get(method, "-" if method in OURS else "-."),
                marker=None if method in LINES else "o" if method in OURS else "s",
                markersize=3,
                capsize=2,
            )
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="ε",
            ylabel="excess worst-group loss",
            title=name,
            xticks=epsilons,
            xticklabels=[f"{epsilon:g}" for epsilon in epsilons],
        )
        axes.minorticks_off()
        axes.axhline(FLOOR, color="0.8", linewidth=0.8)
        figure.legend(loc="outside right upper", fontsize=7)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=120)
        plt.close(figure)
        drawn.append(path)
    return drawn
