"""What the displays share: a base, axes, colours that everybody can tell apart, and labels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sklearn_dpwg._checks import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


# Okabe and Ito's palette, without the yellow and black that one of two backgrounds would hide.
# Its blue and vermilion keep a contrast of 3 on white and on near-black.
BLUE, VERMILION = "#0072b2", "#d55e00"
PALETTE = (BLUE, VERMILION, "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#808080")
# How a line, a mark or a text is to look.
Look = dict[str, Any]
MARKERS = "osD^vPX"
FAINT = "#808080"
DASHED: Look = {"color": FAINT, "linestyle": "--", "linewidth": 1.2}
DIAMONDS: Look = {"marker": "D", "color": VERMILION, "linestyle": "none"}
# Inches: a picture as wide as a column of text, whose rows are as high as a line.
WIDTH, ROW, MARGINS = 6.4, 0.24, 1.3
MANY = 12  # rows from which on letters get smaller
# Lines that have a name, as a palette has no more colours; the last is the grey of all others.
MOST_NAMED = len(PALETTE) - 1
# Names beside lines are this share of the axes' height apart.
_NAME_GAP = 0.06


def pyplot(owner: str) -> Any:
    """Return matplotlib's pyplot, or say what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{owner} needs matplotlib, which is not installed: pip install 'sklearn-dpwg[plot]'."
        ) from error
    return plt


class Display(ABC):
    """A picture of numbers that are known, to be drawn by `plot`."""

    def plot(self, ax: Axes | None = None, *, title: str | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        title : str, optional
            What to write above.

        Returns
        -------
        Display
            The display itself, with the axes as ``ax_`` and their figure as ``figure_``.
        """
        self.ax_, self.figure_ = axes_for(type(self).__name__, ax, self._height())
        bare(self.ax_)
        said, xlabel, ylabel = self._draw()
        said = said if title is None else title
        titles(self.ax_, said, xlabel, ylabel, over_line=self._is_over_line)
        return self

    # Whether a line of other text stands between the title and the axes.
    _is_over_line = False

    def _height(self) -> float:
        """Return the height of a figure of its own, in inches."""
        return 4.0

    @abstractmethod
    def _draw(self) -> tuple[str, str, str]:
        """Draw on the axes, and return title and labels of the axes."""


def height_of(n_rows: int) -> float:
    """Return the inches that a picture with so many rows needs."""
    return MARGINS + ROW * max(n_rows, 4)


def axes_for(owner: str, ax: Axes | None, height: float) -> tuple[Axes, Figure | SubFigure]:
    """Return the axes to draw on, by default those of a new figure, and their figure."""
    plt = pyplot(f"{owner}.plot")
    if ax is None:
        _, ax = plt.subplots(figsize=(WIDTH, height), layout="constrained")
    return ax, ax.figure


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Write a name beside each row, the first on top."""
    ax.set_yticks(range(len(names)), names, parse_math=False, fontsize=letters(len(names)))
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def letters(n_rows: int) -> str:
    """Return a size of letters for so many rows."""
    return "small" if n_rows <= MANY else "x-small"


def percents(axis: Any) -> None:
    """Write the numbers of an axis in percent."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.6g} %")


def write(ax: Axes, x: float, y: float, text: str, **options: Any) -> Any:
    """Write text into axes as it is; a dollar sign starts no formula."""
    return ax.text(x, y, text, parse_math=False, **options)


def legend(ax: Axes, **options: Any) -> None:
    """Draw a legend above the axes, where it hides no data, whose entries are shown as they are."""
    where: Look = {
        "loc": "lower left",
        "bbox_to_anchor": (-0.01, 0.985),
        "ncols": 3,
        "borderpad": 0.0,
    }
    made = ax.legend(fontsize="small", frameon=False, columnspacing=1.2, **(where | options))
    made.set_in_layout(False)
    for text in made.get_texts():
        text.set_parse_math(False)


def titles(
    ax: Axes, title: str, xlabel: str = "", ylabel: str = "", *, over_line: bool = False
) -> None:
    """Title axes with text that is shown as it is, maybe over a line of other text."""
    pad = 20.0 if over_line else 6.0
    ax.set_title(title, parse_math=False, loc="left", fontsize="medium", pad=pad)
    ax.set_xlabel(xlabel, parse_math=False)
    ax.set_ylabel(ylabel, parse_math=False)


def bare(ax: Axes) -> None:
    """Take away what frames the data but says nothing."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.grid(axis="both", color=FAINT, alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)


def spread(places: Sequence[float], gap: float, low: float, high: float) -> FloatArray:
    """Return places a gap apart, between two ends, in the same order and near those given.

    Neighbours that are too close become a cluster around their mean, and clusters that then touch
    are united, as in isotonic regression.
    """
    order = np.argsort(np.asarray(places, dtype=np.float64), kind="stable")
    shifted = np.asarray(places, dtype=np.float64)[order] - gap * np.arange(len(order))
    clusters: list[tuple[float, int]] = []
    for value in shifted.tolist():
        mean, size = value, 1
        while clusters and clusters[-1][0] > mean:
            other, n_others = clusters.pop()
            mean = (other * n_others + mean * size) / (n_others + size)
            size += n_others
        clusters.append((mean, size))
    level = np.repeat([mean for mean, _ in clusters], [size for _, size in clusters])
    found = np.empty(len(order))
    found[order] = np.clip(level, low, high - gap * (len(order) - 1)) + gap * np.arange(len(order))
    return found


def name_lines(ax: Axes, names: Sequence[str], ends: Sequence[tuple[float, float]]) -> None:
    """Write the name of each line to the right of the axes, none over another."""
    low, high = ax.get_ylim()
    heights = spread([y for _, y in ends], _NAME_GAP * (high - low), low, high)
    for colour, name, end, height in zip(PALETTE, names, ends, heights.tolist(), strict=False):
        line = {"arrowstyle": "-", "relpos": (0.0, 0.5), "linewidth": 0.8, "color": colour}
        ax.annotate(
            name,
            end,
            xytext=(1.03, height),
            textcoords=ax.get_yaxis_transform(),
            va="center",
            parse_math=False,
            fontsize="small",
            arrowprops=line,
        )
    ax.set_ylim(low, high)


def log_scale(values: Sequence[float]) -> bool:
    """Whether values are positive and span more than a factor of ten."""
    finite = [value for value in values if math.isfinite(value)]
    return bool(finite) and min(finite) > 0.0 and max(finite) > 10.0 * min(finite)
