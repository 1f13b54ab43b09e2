"""What is stored says which version wrote it, in which format, and is read whole or refused."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar

from sklearn_dpwg._version import __version__
from sklearn_dpwg.exceptions import InputError, InputTypeError, StoredFormatError

VERSION, FORMAT = "sklearn_dpwg_version", "sklearn_dpwg_format"


class Stored:
    """What may be pickled, or kept by skops: its state names its version and its format.

    A frozen dataclass is stored as its fields alone and made from them again, so that it is checked
    as when it was new and no cached number comes from a file. Whatever changes the content of a
    class, names or meaning, raises its format.
    """

    _format: ClassVar[int] = 1
    # fields that came later, with the values that everything stored before them meant
    _added: ClassVar[Mapping[str, Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what is stored, with the version, and without what can be computed again."""
        if _is_frozen(self):
            return {**stamp(self), **{name: getattr(self, name) for name in _names(self)}}
        return {**stamp(self), **_without_caches(self, super().__getstate__() or {})}  # type: ignore[arg-type]

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore what a version with the same format stored; raise StoredFormatError otherwise."""
        content = {**self._added, **_without_caches(self, unstamped(self, state))}
        if _is_frozen(self):
            require(self, state, content, _names(self))
            self.__init__(**content)  # type: ignore[misc]
            return
        kind = type(self)
        if kind.__module__.partition(".")[0] == __package__:  # no method is hidden by a value
            values = [name for name in content if not _is_code(getattr(kind, name, None))]
            require(self, state, content, values)
        getattr(super(), "__setstate__", self.__dict__.update)(content)


def stamp(thing: Stored | type[Stored]) -> dict[str, Any]:
    """Return the entries that name the version and the format."""
    return {VERSION: __version__, FORMAT: thing._format}


def unstamped(thing: Stored | type[Stored], stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was stored without these entries; those of before there were any are of format 1.

    Another format is refused.
    """
    if not isinstance(stored, Mapping):
        raise InputTypeError(f"what is stored must be a mapping, got {type(stored).__name__}.")
    found = stored.get(FORMAT, 1)
    if found != thing._format:
        raise _unreadable(thing, stored, f"it has format {found!r}, not {thing._format}")
    return {name: value for name, value in stored.items() if name not in (VERSION, FORMAT)}


def require(
    thing: Stored | type[Stored],
    stored: Mapping[str, Any],
    content: Mapping[str, Any],
    names: Iterable[str],
) -> None:
    """Refuse content of other names: what is missing must not be made up, nor a word be lost."""
    for fault, found in (
        ("lacks", set(names).difference(content, thing._added)),
        ("has an unknown", set(content).difference(names)),
    ):
        if found:
            raise _unreadable(thing, stored, f"it {fault} {min(map(repr, found))}")


@contextmanager
def reading(kind: type[Stored], text: str, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Hand over the entries, of these names, of a JSON object that ``to_json`` of a class wrote."""
    try:
        stored = json.loads(text)
        content = unstamped(kind, stored)
        if content.keys().isdisjoint(names):
            raise KeyError("nothing of it is there")
        require(kind, stored, content, names)
        yield content
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError):
        raise InputError(f"text must be what {kind.__name__}.to_json wrote, and is not.") from None


def writer_of(version: object) -> str:
    """Return in words who wrote something."""
    return f"sklearn-dpwg {version}" if version else "a version that it does not name"


def _unreadable(
    thing: Stored | type[Stored], stored: Mapping[str, Any], reason: str
) -> StoredFormatError:
    name = (thing if isinstance(thing, type) else type(thing)).__name__
    return StoredFormatError(
        f"this {name} was written by {writer_of(stored.get(VERSION))} and cannot be read by "
        f"sklearn-dpwg {__version__} ({reason}): load it with the version that wrote it, or make "
        f"it again."
    )


def _is_frozen(thing: Stored) -> bool:
    settings = getattr(thing, "__dataclass_params__", None)
    return settings is not None and bool(settings.frozen)


def _names(thing: Any) -> list[str]:
    return [field.name for field in fields(thing)]


def _without_caches(thing: Stored, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state without what the class computes by itself."""
    kind = type(thing)
    return {
        name: value
        for name, value in state.items()
        if not isinstance(getattr(kind, name, None), cached_property)
    }


def _is_code(found: object) -> bool:
    return callable(found) or isinstance(found, property)
