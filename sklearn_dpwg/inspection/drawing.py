"""What the displays share: a base, axes, colours that everybody can tell apart, labels, and SVG."""

from __future__ import annotations

import io
import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


# Okabe and Ito's palette, without the yellow and black that one of two backgrounds would hide.
# Its blue and vermilion keep a contrast of 3 on white and on near-black.
BLUE, VERMILION = "#0072b2", "#d55e00"
# How a line, a mark or a text is to look.
Look = dict[str, Any]
FAINT = "#808080"
DASHED: Look = {"color": FAINT, "linestyle": "--", "linewidth": 1.2}
DIAMONDS: Look = {"marker": "D", "color": VERMILION, "linestyle": "none"}
# Inches: a picture as wide as a column of text, whose rows are as high as a line.
WIDTH, ROW, MARGINS = 6.4, 0.24, 1.3
# Inches of a small picture, and how many stand beside each other.
SMALL, ABREAST = (2.5, 2.2), 4
MANY = 12  # rows from which on letters get smaller


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


class SmallMultiples(ABC):
    """A small picture of each of some items, beside each other."""

    items: Sequence[Any]
    label: str  # of the axis that all share
    layout: Literal["constrained"] | None = "constrained"

    @abstractmethod
    def _draw(self, ax: Any, item: Any) -> None:
        """Draw one item."""

    @abstractmethod
    def _title(self, item: Any) -> str:
        """Return what a picture of an item is, for who does not see it."""

    def plot(self) -> Self:
        """Draw the display in a figure of its own.

        Returns
        -------
        SmallMultiples
            The display itself, with the axes as ``axes_`` and their figure as ``figure_``.
        """
        plt = pyplot(f"{type(self).__name__}.plot")
        abreast = min(ABREAST, max(len(self.items), 1))
        down = max(math.ceil(len(self.items) / abreast), 1)
        self.figure_, self.axes_ = plt.subplots(
            *(down, abreast),
            figsize=(SMALL[0] * abreast, SMALL[1] * down + 0.4),
            layout="constrained",
            squeeze=False,
        )
        for ax in self.axes_.flat[len(self.items) :]:
            ax.set_visible(False)
        for ax, item in zip(self.axes_.flat, self.items, strict=False):
            self._draw(ax, item)
        self.figure_.supylabel(self.label, fontsize="small")
        return self

    def _pictures(self, prefix: str) -> str:
        """Return a picture an item as svg elements, for a page."""
        return "".join(
            svg_of(
                partial(self._draw, item=item),
                prefix=f"{prefix}-{place}",
                size=SMALL,
                title=self._title(item),
                layout=self.layout,
            )
            for place, item in enumerate(self.items)
        )


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


def percents(axis: Any, unit: str = "%") -> None:
    """Write the numbers of an axis in percent, or in points of it."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.6g} {unit}")


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


# Pictures as SVG that stands in a page: small, the same bytes every time, no style of its own.

# Five inches are 360 units: as wide as a phone, so that letters stay legible there.
INCHES = 5.0
_INK = "#010203"  # nothing else has this colour, so it can be told to follow the page's
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text: a fifth of the bytes, and readers can read it
    "svg.hashsalt": "sklearn-dpwg",  # else ids differ from run to run
    "font.size": 12.0,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "path.simplify": True,
}
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_DROPPED = (f"{_SVG}metadata", f"{_SVG}style")
_REFERENCE = re.compile(r"#([\w-]+)")
# Where something stands, in more digits than anybody sees.
_PLACES = ("d", "x", "y", "transform")
_LONG = re.compile(r"-?\d+\.\d{2,}")
# What the style of a text says as one word; its family is the page's.
_FONT = re.compile(r"(?P<size>[\d.]+)px (?P<family>.+)")


def svg_of(
    draw: Callable[[Axes], object],
    *,
    prefix: str,
    size: tuple[float, float],
    title: str,
    layout: Literal["constrained"] | None = "constrained",
) -> str:
    """Return what a function draws as an svg element whose ids start with a prefix.

    Styles become attributes, so that a page need not allow styles in elements; black becomes the
    colour of the page's letters.
    """
    plt = pyplot("AuditReport")
    from matplotlib.figure import Figure

    written = io.BytesIO()
    with plt.style.context("default"), plt.rc_context(_SETTINGS), warnings.catch_warnings():
        # the browser has its own fonts
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", "Matplotlib currently does not support", UserWarning)
        figure = Figure(figsize=size, layout=layout)
        ax = figure.add_subplot()
        if layout is None:  # small pictures are all alike
            figure.subplots_adjust(left=0.17, right=0.97, bottom=0.2, top=0.88)
        draw(ax)
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(written.getvalue())
    _tidy(root, prefix)
    label = ElementTree.Element(f"{_SVG}title", {"id": f"{prefix}-title"})
    label.text = title
    root.insert(0, label)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}-title")
    return _serialised(root)


def _tidy(root: ElementTree.Element, prefix: str) -> None:
    """Drop what is not drawn, make ids unique in the page, and styles attributes."""
    referred = {
        match
        for element in root.iter()
        for value in element.attrib.values()
        for match in _REFERENCE.findall(value)
    }
    for element in list(root.iter()):
        for child in [child for child in element if child.tag in _DROPPED]:
            element.remove(child)
        for name, value in _declarations(element.attrib.pop("style", "")):
            element.set(name, value)
        for name, value in list(element.attrib.items()):
            if name == "id" and value in referred:
                element.set(name, f"{prefix}-{value}")
            elif name == "id" or value.startswith("rotate(-0 "):
                del element.attrib[name]
            elif name.startswith(_XLINK):
                del element.attrib[name]
                element.set(name.removeprefix(_XLINK), f"#{prefix}-{value.removeprefix('#')}")
            elif "url(#" in value:
                element.set(name, value.replace("url(#", f"url(#{prefix}-"))
            elif value == _INK:
                element.set(name, "currentColor")
            elif name in _PLACES:
                element.set(name, _LONG.sub(lambda match: f"{float(match[0]):.4g}", value))


def _declarations(style: str) -> list[tuple[str, str]]:
    found = []
    for declaration in filter(None, (part.strip() for part in style.split(";"))):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            match = _FONT.fullmatch(value)
            if match is not None:
                found.append(("font-size", match["size"]))
        else:
            found.append((name, value))
    return found


def _serialised(root: ElementTree.Element) -> str:
    """Write an element without prefixes of names, as HTML wants it."""
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        if element.text is not None and not element.text.strip():
            element.text = None
        if element.tail is not None and not element.tail.strip():
            element.tail = None
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)
