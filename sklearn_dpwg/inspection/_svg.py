"""Pictures as SVG that stands in a page: small, the same bytes every time, no style of its own."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from sklearn_dpwg.inspection._drawing import pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Five inches are 360 units: as wide as a phone, so that letters stay legible there.
_INCHES = 5.0
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
# What the style of a text says as one word; its family is the page's.
_FONT = re.compile(r"(?P<size>[\d.]+)px (?P<family>.+)")


def svg_of(draw: Callable[[Axes], object], *, prefix: str, height: float, title: str) -> str:
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
        figure = Figure(figsize=(_INCHES, height), layout="constrained")
        draw(figure.add_subplot())
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
