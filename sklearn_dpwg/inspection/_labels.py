"""Group labels as text that shows what they are made of and cannot act as anything else."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Iterable, Sequence

# Joiners belong to emoji and to Persian; every other character of format is shown by its number.
_JOINERS = "\u200c\u200d"
_CONTROLS = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\0": r"\0"}
_UNSHOWN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
# About what stands beside an axis of five inches without taking half of it.
WIDTH = 22
# About what a reader takes in without stumbling.
_WIDTH_IN_SENTENCE = 48


def text_of(label: Hashable) -> str:
    """Return a label as text in which nothing is invisible; cells of several columns are joined."""
    if isinstance(label, tuple):
        return " × ".join(text_of(part) for part in label)
    text = str(label)
    if not text:
        return "(empty)"
    inner = text.strip()
    before = text[: len(text) - len(text.lstrip())]
    after = text[len(before) + len(inner) :]
    return "".join([*map(_outer_space, before), *map(_visible, inner), *map(_outer_space, after)])


def visible_line(text: str) -> str:
    """Return a line in which every character shows."""
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character in _CONTROLS:
        return _CONTROLS[character]
    number = ord(character)
    if unicodedata.category(character) in _UNSHOWN and character not in _JOINERS:
        return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
    return character


def _outer_space(character: str) -> str:
    """Show a space that would be lost where text is trimmed."""
    shown = _visible(character)
    if character == " ":
        return "\u2423"
    return f"\\u{ord(character):04x}" if shown == character else shown


def texts_of(labels: Iterable[Hashable]) -> tuple[str, ...]:
    """Return a text a label, no two the same; 1 and "1" are told apart by a number."""
    return _numbered([text_of(label) for label in labels])


def in_sentence(text: str) -> str:
    """Return a name as it may stand in a sentence: short, and with its own direction of writing."""
    name = _cut(text, _WIDTH_IN_SENTENCE)
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in name):
        return f"\u2068{name}\u2069"
    return name


def shortened(texts: Sequence[str], width: int = WIDTH) -> tuple[str, ...]:
    """Return texts of at most about that many characters, no two the same."""
    return _numbered([_cut(text, width) for text in texts])


def _cut(text: str, width: int) -> str:
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
