"""Private fits that a later fit began with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

from sklearn_dpwg.privacy import PrivacyGuarantee

# Parameters of searches that list candidates.
_SPACES = ("param_grid", "param_distributions")


class StartCost(NamedTuple):
    """What a private fit cost whose weights another fit began with."""

    key: str  # of the fit, under which ledgers know it
    what: str  # what was fitted, for the ledger's report
    guarantee: PrivacyGuarantee  # of that fit alone


def costs_of_start(start: Any) -> tuple[StartCost, ...]:
    """Return the private fits that a start holds: its own, and those that it began with itself."""
    if isinstance(start, type) or not hasattr(start, "privacy_"):
        return ()
    key = getattr(start, "_fit_key", None) or uuid4().hex
    own = StartCost(key, f"start: {type(start).__name__}", start.privacy_)
    return (*getattr(start, "_start_costs", ()), own)


def costs_in(parameters: Mapping[str, Any]) -> list[StartCost]:
    """Return the private fits of all starts among parameters, each once.

    Nested ones are included, and those that a search lists, whichever of its candidates wins.
    """
    found: list[StartCost] = []
    for name, value in parameters.items():
        last = name.rpartition("__")[2]
        if last == "start":
            found += costs_of_start(value)
        elif last in _SPACES:
            for space in [value] if isinstance(value, Mapping) else value:
                found += _costs_in_space(space)
    return list({cost.key: cost for cost in found}.values())


def _costs_in_space(space: Mapping[str, Any]) -> list[StartCost]:
    """Return the private fits of all starts that a grid lists; what is drawn is not known."""
    return [
        cost
        for name, values in space.items()
        if not hasattr(values, "rvs")
        for value in values
        for cost in costs_in({name: value})
    ]


def in_words(costs: tuple[StartCost, ...]) -> tuple[str, ...]:
    """Return what a guarantee says of the fits that it leaves out."""
    return tuple(
        f"the weights that the fit began with, which a private fit of epsilon = "
        f"{cost.guarantee.epsilon:.4g} at delta = {cost.guarantee.delta:.4g} learned: a record "
        "that was in both pays for both, and privacy_of states them together"
        for cost in costs
    )
