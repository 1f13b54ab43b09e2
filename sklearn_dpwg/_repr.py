"""Text of public facts with one entry a group, of which there may be thousands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from html import escape
from typing import Any, TypeVar

_MOST_SHOWN = 20

Class = TypeVar("Class", bound=type)


def documented(shared: Mapping[str, str]) -> Callable[[Class], Class]:
    """Return a decorator that puts shared text where a docstring has names in angle brackets."""

    def put(kind: Class) -> Class:
        for names, text in shared.items():
            kind.__doc__ = (kind.__doc__ or "").replace(f"    <{names}>\n", text)
        return kind

    return put


def short_repr(facts: Any) -> str:
    """Return what a dataclass writes of itself, with long tuples cut short."""
    shown = [
        f"{field.name}={_shown(getattr(facts, field.name))}"
        for field in fields(facts)
        if field.repr
    ]
    return f"{type(facts).__qualname__}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if type(value) is not tuple:
        return repr(value)
    entries = [_shown(entry) for entry in value[:_MOST_SHOWN]]
    if len(value) > _MOST_SHOWN:
        entries.append(f"... {len(value) - _MOST_SHOWN:,} more")
    return f"({', '.join(entries)}{',' if len(value) == 1 else ''})"


# Translucent and inherited colours are legible on light and on dark alike, whatever theme a
# notebook has; a style element would be taken out of a notebook that is not trusted.
_BOX = (
    "font-family:system-ui,sans-serif;max-width:44rem;padding:0.5em 0.8em;color:inherit;"
    "border:1px solid rgba(128,128,128,0.5);border-left:0.4em solid {colour};border-radius:0.3em"
)
_PRIVATE, _UNPROTECTED = "#0072b2", "#d55e00"
_CODE = "margin:0.3em 0 0;overflow-x:auto;white-space:pre;font-size:0.85em;background:none"


def box(title: str, facts: Iterable[str], *folded: str, protected: bool) -> str:
    """Return a box with a title, a line a fact, and what is folded away, made by `fold`."""
    lines = "".join(f'<div style="margin-top:0.2em">{escape(fact)}</div>' for fact in facts)
    style = _BOX.format(colour=_PRIVATE if protected else _UNPROTECTED)
    return f'<div style="{style}"><strong>{escape(title)}</strong>{lines}{"".join(folded)}</div>'


def fold(summary: str, content: str) -> str:
    """Return HTML that shows when its summary is clicked."""
    return (
        f'<details style="margin-top:0.4em"><summary style="cursor:pointer">{escape(summary)}'
        f"</summary>{content}</details>"
    )


def described(title: str, text: str, code: Iterable[str] = ()) -> str:
    """Return a paragraph that starts with its title, and lines of code behind it."""
    lines = "\n".join(code)
    shown = f'<pre style="{_CODE}">{escape(lines)}</pre>' if lines else ""
    return (
        f'<div style="margin-top:0.4em"><strong>{escape(title)}:</strong> {escape(text)}'
        f"{shown}</div>"
    )
