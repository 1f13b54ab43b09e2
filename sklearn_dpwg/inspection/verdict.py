"""An answer to whether groups are treated alike, which may be that nobody can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Answer = Literal["passes", "fails", "cannot tell"]


@dataclass(frozen=True)
class Verdict:
    """Whether impact ratios are at least what is asked for.

    Parameters
    ----------
    answer : {"passes", "fails", "cannot tell"}
        The answer.
    sentence : str
        The answer in words, with its numbers.
    would_tell : str
        What would give an answer, where there is none: more people, or more ε; else empty.
    """

    answer: Answer
    sentence: str
    would_tell: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.would_tell}".strip()
