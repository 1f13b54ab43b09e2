"""What a page says of decisions that a model made by thresholds of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sklearn_dpwg._stored import Stored
from sklearn_dpwg.exceptions import InputTypeError
from sklearn_dpwg.inspection import words


@dataclass(frozen=True)
class OwnThresholds(Stored):
    """Thresholds that a fitted model decides by, which its guarantee pays for.

    ``labels`` are empty where all groups share one; ``of`` is the class that a score is of.
    """

    least: tuple[float, ...]
    labels: tuple[str, ...]
    of: str
    is_private: bool

    @classmethod
    def from_model(cls, model: Any) -> OwnThresholds:
        """Return those of a fitted model, or of a pipeline that ends in one."""
        last = model[-1] if getattr(model, "steps", None) else model
        if not hasattr(last, "thresholds_"):
            raise InputTypeError(
                f"decided_by must be a fitted DPThresholdClassifier, or a pipeline that ends in "
                f"one, got {type(last).__name__}."
            )
        least, labels = [float(one) for one in last.thresholds_], words.texts_of(last.group_labels_)
        if not last.per_group:
            least, labels = least[:1], ()
        of = words.in_sentence(words.visible(str(last.classes_[1])))
        return cls(tuple(least), labels, of, last.privacy_.is_private)

    @property
    def numbers(self) -> str:
        """The thresholds in words."""
        found = [f"{one:.4g}" if math.isfinite(one) else "none is reached" for one in self.least]
        if not self.labels:
            return found[0]
        return ", ".join(f"{one} in {at}" for one, at in zip(found, self.labels, strict=True))

    @property
    def is_one(self) -> bool:
        """Whether all groups share one."""
        return not self.labels

    @property
    def how(self) -> str:
        """How it is decided who is selected."""
        which = f"threshold, {self.numbers}" if self.is_one else "thresholds, one a group"
        return f"by the model's own {which}, on its score of ‘{self.of}’"

    @property
    def recorded(self) -> str:
        """The thresholds, for the record."""
        return f"the model's own: {self.numbers}"

    @property
    def covered(self) -> str:
        """What covers how they were chosen."""
        name = "Its own threshold" if self.is_one else "Its own thresholds"
        decides = f"The audit is of the model's decisions. {name} made them: {self.numbers}."
        if not self.is_private:
            return f"{decides} Nothing covers how they were chosen, as the model has no guarantee."
        return (
            f"{decides} What was learned of records to choose {'it' if self.is_one else 'them'} "
            "was paid for inside the model's guarantee."
        )


def thresholds_of(model: Any) -> OwnThresholds | None:
    """Return thresholds that a model decides by, or None where it has none."""
    last = model[-1] if getattr(model, "steps", None) else model
    return OwnThresholds.from_model(model) if hasattr(last, "thresholds_") else None
