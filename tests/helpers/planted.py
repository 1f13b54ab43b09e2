"""Faults planted in place of a function or a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def wrap(patch: pytest.MonkeyPatch, owner: Any, name: str, faulty: Callable[..., Any]) -> None:
    """Put ``faulty(real, *args, **named)`` in place of what a module or a class names so."""
    real = getattr(owner, name)

    def wrapped(*args, **named):
        return faulty(real, *args, **named)

    patch.setattr(owner, name, wrapped)
