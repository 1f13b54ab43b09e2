"""What is wrong with a partition, returned and not raised: a worker's log is no place for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sklearn_dpwg.exceptions import DPWGError

Arguments = ParamSpec("Arguments")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class Refusal:
    """An error about the records of a partition: its class, and its one sentence."""

    kind: type[DPWGError]
    sentence: str

    def __repr__(self) -> str:
        return "Refusal()"


def told(function: Callable[Arguments, Outcome]) -> Callable[Arguments, Outcome | Refusal]:
    """Return a function that returns its errors about the records, in words without their values.

    Words of others may quote a value: those are raised, for the engine to keep where they are.
    """

    @wraps(function)
    def telling(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Outcome | Refusal:
        try:
            return function(*args, **kwargs)
        except DPWGError as error:
            return Refusal(type(error), str(error))

    return telling


def raise_first(outcomes: Iterable[Any]) -> None:
    """Raise the error of the first partition that has one."""
    for outcome in outcomes:
        if isinstance(outcome, Refusal):
            raise outcome.kind(outcome.sentence)
