"""Short texts of dataclasses with thousands of entries, and shared parts of docstrings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

_MAX_ENTRIES = 20

Class = TypeVar("Class", bound=type)


def documented(shared: Mapping[str, str]) -> Callable[[Class], Class]:
    """Return a decorator that replaces "<names>" in a docstring by the shared text."""

    def put(kind: Class) -> Class:
        for names, text in shared.items():
            kind.__doc__ = (kind.__doc__ or "").replace(f"    <{names}>\n", text)
        return kind

    return put


def short_repr(facts: Any) -> str:
    """Return the repr of a dataclass, with tuples cut after 20 entries."""
    shown = [
        f"{field.name}={_shown(getattr(facts, field.name))}"
        for field in fields(facts)
        if field.repr
    ]
    return f"{type(facts).__qualname__}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if type(value) is not tuple:
        return repr(value)
    entries = [_shown(entry) for entry in value[:_MAX_ENTRIES]]
    if len(value) > _MAX_ENTRIES:
        entries.append(f"... {len(value) - _MAX_ENTRIES:,} more")
    return f"({', '.join(entries)}{',' if len(value) == 1 else ''})"
