"""Rates as shares of the four cells of truth and prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

# A cell is (is truly of the second class, is predicted to be).
Cell = tuple[int, int]
TRUE_NEGATIVE, FALSE_POSITIVE, FALSE_NEGATIVE, TRUE_POSITIVE = (0, 0), (0, 1), (1, 0), (1, 1)
CELLS = (TRUE_NEGATIVE, FALSE_POSITIVE, FALSE_NEGATIVE, TRUE_POSITIVE)


@dataclass(frozen=True)
class CellRate:
    """A rate: hits over hits and misses; cells that are in neither do not count."""

    hits: frozenset[Cell]
    misses: frozenset[Cell]
    greater_is_worse: bool
    words: str

    @property
    def is_of_all(self) -> bool:
        """Whether every record counts."""
        return len(self.hits | self.misses) == len(CELLS)


def _rate(
    hits: tuple[Cell, ...], misses: tuple[Cell, ...], greater_is_worse: bool, words: str
) -> CellRate:
    return CellRate(frozenset(hits), frozenset(misses), greater_is_worse, words)


_TN, _FP, _FN, _TP = TRUE_NEGATIVE, FALSE_POSITIVE, FALSE_NEGATIVE, TRUE_POSITIVE

RATES: Mapping[str, CellRate] = MappingProxyType(
    {
        "selection_rate": _rate((_TP, _FP), (_TN, _FN), False, "share that is selected"),
        "error_rate": _rate((_FP, _FN), (_TP, _TN), True, "share of wrong predictions"),
        "true_positive_rate": _rate((_TP,), (_FN,), False, "selected among the positive"),
        "false_positive_rate": _rate((_FP,), (_TN,), True, "selected among the negative"),
        "base_rate": _rate((_TP, _FN), (_TN, _FP), False, "share that is truly positive"),
        "accuracy": _rate((_TP, _TN), (_FP, _FN), False, "share of right predictions"),
        "false_negative_rate": _rate((_FN,), (_TP,), True, "not selected among the positive"),
        "true_negative_rate": _rate((_TN,), (_FP,), False, "not selected among the negative"),
        "precision": _rate((_TP,), (_FP,), False, "truly positive among the selected"),
    }
)
