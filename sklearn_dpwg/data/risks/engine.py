"""Where blocks of records live, and how their sums get together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sklearn_dpwg._checks import FloatArray

Sums = tuple[FloatArray, ...]


class Engine(Protocol):
    """Applies functions to objects that may be on other machines, and adds up what comes back.

    Handles stand for the objects. What a function returns depends on the object and on what the
    function was given alone, so an engine may call it again when a machine is lost; functions can
    be pickled. An error of any object is raised by `collect` or `reduce` at the latest.
    """

    def collect(self, handles: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function makes of every object."""

    def reduce(self, handles: Sequence[Any], function: Callable[[Any], Sums]) -> Sums:
        """Add up arrays of every object, in any order.

        Only for sums that no order rounds: multiples of a step, or whole numbers.
        """

    def derive(
        self,
        handles: Sequence[Any],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Make objects from objects and own arguments, each where the one it is made from is.

        They stay valid when those they come from are released.
        """

    def release(self, handles: Sequence[Any]) -> None:
        """Forget objects that nobody asks for again."""


class LocalEngine:
    """Objects in this process, one after another; handles are the objects themselves."""

    def collect(self, handles: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function makes of every object."""
        return [function(handle) for handle in handles]

    def reduce(self, handles: Sequence[Any], function: Callable[[Any], Sums]) -> Sums:
        """Add up arrays of every object."""
        totals = function(handles[0])
        for handle in handles[1:]:
            totals = tuple(a + b for a, b in zip(totals, function(handle), strict=True))
        return totals

    def derive(
        self,
        handles: Sequence[Any],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Make objects from objects."""
        if arguments is None:
            return [function(handle) for handle in handles]
        return [function(handle, *own) for handle, own in zip(handles, arguments, strict=True)]

    def release(self, handles: Sequence[Any]) -> None:
        """Leave the objects to whoever else holds them."""
