"""The figure of held-out losses by ε."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HELD_OUT_FIGURE = "utility_held_out.png"
KINDS = ("classification", "regression")
DOTS_PER_INCH = 130


def pyplot() -> Any:
    """Return matplotlib's interface, for files alone."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


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
