"""Text of public facts with one entry a group, of which there may be thousands."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

_MOST_SHOWN = 20


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
