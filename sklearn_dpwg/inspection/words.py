"""Labels and numbers as text for people, in which invisible characters are made visible."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from itertools import zip_longest

# Joiners, which emoji and Persian need, are kept; other characters of these Unicode categories are
# invisible and are replaced by their escapes.
_JOINERS = "\u200c\u200d"
_UNSHOWN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
# Most characters of a name beside an axis, in a sentence, and in a table.
BESIDE_AN_AXIS, _IN_A_SENTENCE, _IN_A_TABLE = 22, 48, 60


def visible(text: object) -> str:
    """Return text with invisible characters escaped, except line breaks."""
    return "\n".join(map(in_line, str(text).split("\n")))


def in_line(label: object) -> str:
    """Return a label as one line, with invisible characters and line breaks escaped."""
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _UNSHOWN and character not in _JOINERS
        else character
        for character in str(label)
    )


def text_of(label: Hashable) -> str:
    """Return a label as visible text; parts of a tuple are joined by " & ".

    Spaces at the ends, which trimming would remove, are shown as marks.
    """
    if isinstance(label, tuple):
        return " & ".join(text_of(part) for part in label)
    text = in_line(label)
    inner = text.strip()
    before = len(text) - len(text.lstrip())
    after = len(text) - before - len(inner)
    return "\u2423" * before + inner + "\u2423" * after or "(empty)"


def texts_of(labels: Iterable[Hashable], width: int | None = None) -> tuple[str, ...]:
    """Return one text per label, all different, of at most about ``width`` characters."""
    texts = _numbered([text_of(label) for label in labels])
    return texts if width is None else _numbered([cut(text, width) for text in texts])


def cut(text: str, width: int = _IN_A_TABLE) -> str:
    """Shorten a text to its beginning and end, as long names may differ only at the end."""
    if len(text) <= width:
        return text
    tail = width // 4
    return f"{text[: width - tail - 1].rstrip()}…{text[-tail:].lstrip()}"


def _numbered(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the texts with " (2)", " (3)" after repeated ones, such as those of 1 and "1"."""
    distinct: dict[str, None] = {}
    for text in texts:
        name, number = text, 1
        while name in distinct or (number > 1 and name in texts):
            number += 1
            name = f"{text} ({number})"
        distinct[name] = None
    return tuple(distinct)


def in_sentence(label: Hashable) -> str:
    """Return a label for a sentence: short, and isolated if it is written from right to left."""
    name = cut(text_of(label), _IN_A_SENTENCE)
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in name):
        return f"\u2068{name}\u2069"
    return name


def listed(texts: Sequence[str], conjunction: str = "and", most: int = 6) -> str:
    """Join texts as "a, b and c"; beyond ``most`` of them the rest is counted."""
    if len(texts) > most:
        texts = [*texts[: most - 1], f"{len(texts) - most + 1} others"]
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {conjunction} {texts[-1]}"


def capital(text: str) -> str:
    """Return a sentence with its first letter as a capital."""
    return text[:1].upper() + text[1:]


def of_metric(metric: str) -> str:
    """Return the name of a metric as words: "error rate"."""
    return "AUC" if metric == "auc" else metric.replace("_", " ")


def number(value: float, unit: str = "") -> str:
    """Return 100 × value with its unit, or, without a unit, the value with two decimals."""
    if not math.isfinite(value):
        return "–"
    return f"{100 * value:.1f}\u00a0{unit}" if unit else f"{value:.2f}"


def interval(low: float, high: float, unit: str = "") -> str:
    """Return the limits of an interval as text, in the format of `number`."""
    if not math.isfinite(low + high):
        return "unknown"
    return (
        f"{100 * low:.1f} to {100 * high:.1f}\u00a0{unit}" if unit else f"{low:.2f} to {high:.2f}"
    )


def table(rows: Sequence[Sequence[str]], least: Sequence[int] = ()) -> list[str]:
    """Return a line per row, in columns at least ``least`` wide; all but the first end alike."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths = [max(pair) for pair in zip_longest(widths, least, fillvalue=0)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]
