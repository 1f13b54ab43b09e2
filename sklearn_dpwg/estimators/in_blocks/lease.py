"""An engine of which nothing is left when a fit is over, also by those who cannot clean up."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from sklearn_dpwg.risks import Engine
from sklearn_dpwg.risks.engine import Sums


class Lease:
    """An engine that knows what was derived by it, and releases all of that in the end.

    The traceback of a failed fit may live on, and with it the risks that would release their blocks
    when they are forgotten. `check` refuses records that are not what they were, behind every pass,
    before what the pass gave can be released: factors and sensitivities are of the rows as they
    were.
    """

    def __init__(self, engine: Engine, check: Callable[[], None]) -> None:
        self._engine = engine
        self._check = check
        self._derived: list[weakref.ref[Any]] = []

    def collect(self, handles: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function makes of every object."""
        collected = self._engine.collect(handles, function)
        self._check()
        return collected

    def reduce(self, handles: Sequence[Any], function: Callable[[Any], Sums]) -> Sums:
        """Add up arrays of every object."""
        sums = self._engine.reduce(handles, function)
        self._check()
        return sums

    def derive(
        self,
        handles: Sequence[Any],
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]] | None = None,
    ) -> list[Any]:
        """Make objects from objects."""
        derived = self._engine.derive(handles, function, arguments)
        self._derived = [each for each in self._derived if each() is not None]
        self._derived += map(weakref.ref, derived)
        return derived

    def release(self, handles: Sequence[Any]) -> None:
        """Forget objects."""
        self._engine.release(handles)

    def end(self) -> None:
        """Forget everything that was derived."""
        left = [each for each in (reference() for reference in self._derived) if each is not None]
        self._derived.clear()
        self._engine.release(left)
