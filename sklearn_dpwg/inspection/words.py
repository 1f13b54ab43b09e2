"""Labels, numbers and sentences as people read them: everything shows, and nothing acts."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

# Joiners belong to emoji and to Persian; every other character of format is shown by its number.
_JOINERS = "\u200c\u200d"
_CONTROLS = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\0": r"\0"}
_UNSHOWN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
# About what stands beside an axis of five inches without taking half of it.
_BESIDE_AN_AXIS = 22
# About what a reader takes in without stumbling.
_IN_A_SENTENCE = 48
# About what a cell of a table of names may take.
_IN_A_TABLE = 60

NOT_PRIVATE = "not private"


def visible(text: object) -> str:
    """Return text in which every character shows; lines stay lines."""
    return "\n".join("".join(map(_visible, line)) for line in str(text).split("\n"))


def in_line(label: object) -> str:
    """Return a label as one line of a terminal, in which every character shows."""
    return "".join(map(_visible, str(label)))


def _visible(character: str) -> str:
    if character in _CONTROLS:
        return _CONTROLS[character]
    if unicodedata.category(character) in _UNSHOWN and character not in _JOINERS:
        return _escaped(character)
    return character


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _outer_space(character: str) -> str:
    """Show a space that would be lost where text is trimmed."""
    shown = _visible(character)
    if character == " ":
        return "\u2423"
    return _escaped(character) if shown == character else shown


def text_of(label: Hashable) -> str:
    """Return a label as text in which nothing is invisible; cells of several columns are joined."""
    if isinstance(label, tuple):
        return " & ".join(text_of(part) for part in label)
    text = str(label)
    if not text:
        return "(empty)"
    inner = text.strip()
    before = text[: len(text) - len(text.lstrip())]
    after = text[len(before) + len(inner) :]
    return "".join([*map(_outer_space, before), *map(_visible, inner), *map(_outer_space, after)])


def texts_of(labels: Iterable[Hashable]) -> tuple[str, ...]:
    """Return a text a label, no two the same; 1 and "1" are told apart by a number."""
    return _numbered([text_of(label) for label in labels])


def shortened(labels: Iterable[Hashable], width: int = _BESIDE_AN_AXIS) -> tuple[str, ...]:
    """Return texts of labels of at most about that many characters, no two the same."""
    return _numbered([cut(text, width) for text in texts_of(labels)])


def cut(text: str, width: int = _IN_A_TABLE) -> str:
    """Return the beginning and the end of a long text."""
    if len(text) <= width:
        return text
    # names of a family often differ at their end alone
    tail = width // 4
    return f"{text[: width - tail - 1].rstrip()}…{text[-tail:].lstrip()}"


def _numbered(texts: Sequence[str]) -> tuple[str, ...]:
    """Tell equal texts apart by numbers that no other text has."""
    found: dict[str, None] = {}
    given = set(texts)
    for text in texts:
        distinct, number = text, 1
        while distinct in found or (number > 1 and distinct in given):
            number += 1
            distinct = f"{text} ({number})"
        found[distinct] = None
    return tuple(found)


def in_sentence(text: str) -> str:
    """Return a name as it may stand in a sentence: short, and with its own direction of writing."""
    name = cut(text, _IN_A_SENTENCE)
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in name):
        return f"\u2068{name}\u2069"
    return name


def with_short_names(text: str, labels: Iterable[Hashable]) -> str:
    """Return a sentence with the labels in it as short text in which every character shows."""
    for label in sorted(labels, key=lambda one: -len(str(one))):
        name = in_sentence(text_of(label))
        if len(in_line(label)) > 1 and name != in_line(label):
            text = text.replace(in_line(label), name)
    return visible(text)


def capital(text: str) -> str:
    """Return a sentence with its first letter as a capital."""
    return text[:1].upper() + text[1:]


def listed(texts: Sequence[str], conjunction: str = "and", most: int = 6) -> str:
    """Join texts as a sentence does; of many the first ones."""
    if len(texts) > most:
        texts = [*texts[: most - 1], f"{len(texts) - most + 1} others"]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {conjunction} {texts[-1]}"


def of_metric(metric: str) -> str:
    """Return the name of a metric as words: "error rate"."""
    if metric.endswith(" ratio"):
        return f"impact ratio of the {of_metric(metric.removesuffix(' ratio'))}"
    if metric.endswith(" difference"):
        return f"difference in {of_metric(metric.removesuffix(' difference'))}"
    return "AUC" if metric == "auc" else metric.replace("_", " ")


def number(value: float | None, *, unit: str | None = None, limit: float | None = None) -> str:
    """Write a hundred times a number with its unit, one that has none with two decimals.

    A number that is not the limit gets more decimals where it would look like it.
    """
    if value is None or not math.isfinite(value):
        return "–"
    if unit:
        return f"{100 * value:.1f}\u00a0{unit}"
    digits = 2
    while limit is not None and digits < 6 and float(f"{value:.{digits}f}") == limit != value:
        digits += 1
    return f"{value:.{digits}f}"


def interval(
    low: float | None, high: float | None, *, unit: str | None = None, limit: float | None = None
) -> str:
    """Write both ends of an interval."""
    if low is None or high is None or not math.isfinite(low + high):
        return "unknown"
    if unit:
        return f"{100 * low:.1f} to {100 * high:.1f}\u00a0{unit}"
    ends = (number(end, limit=limit) for end in (low, high))
    return " to ".join(ends)


def cell(rate: Any) -> str:
    """Write a number of a group with the ends of its interval."""
    if rate.metric == "size":
        return f"{rate.estimate:,.0f}"
    if math.isnan(rate.estimate):
        return "cannot tell"
    return f"{rate.estimate:.2f} [{rate.low:.2f}, {rate.high:.2f}]"


def table(rows: Sequence[Sequence[str]], least: Sequence[int] = ()) -> list[str]:
    """Return a line a row, in columns of at least some widths; all but the first end alike."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths = [max(pair) for pair in zip_longest(widths, least, fillvalue=0)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]
