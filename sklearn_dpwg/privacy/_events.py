"""Privacy events as JSON, and rescaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sklearn_dpwg.exceptions import UnsupportedMechanismError

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# The fields of every event that the accounting knows, by class.
_FIELDS: dict[str, tuple[str, ...]] = {
    "NoOpDpEvent": (),
    "NonPrivateDpEvent": (),
    "GaussianDpEvent": ("noise_multiplier",),
    "LaplaceDpEvent": ("noise_multiplier",),
    "PoissonSampledDpEvent": ("sampling_probability", "event"),
    "SelfComposedDpEvent": ("event", "count"),
    "ComposedDpEvent": ("events",),
}


def event_to_dict(event: DpEvent) -> dict[str, Any]:
    """Return an event as nested dictionaries of plain values; ``type`` names its class."""
    kind = type(event).__name__
    if kind not in _FIELDS:
        raise UnsupportedMechanismError(f"{event!r} cannot be written as JSON.")
    return {
        "type": kind,
        **{field: _map_field(getattr(event, field), event_to_dict) for field in _FIELDS[kind]},
    }


def event_from_dict(described: dict[str, Any]) -> DpEvent:
    """Return the event that `event_to_dict` described."""
    from dp_accounting import dp_event

    kind = described.get("type")
    if kind not in _FIELDS:
        raise ValueError(f"The type of an event must be one of {sorted(_FIELDS)}, got {kind!r}.")
    values = {field: _map_field(described[field], event_from_dict) for field in _FIELDS[kind]}
    return getattr(dp_event, kind)(**values)


def scaled_event(event: DpEvent, factor: float) -> DpEvent:
    """Return an event with every noise multiplier times a factor."""

    def scale(described: dict[str, Any]) -> dict[str, Any]:
        scaled = {field: _map_field(value, scale) for field, value in described.items()}
        if "noise_multiplier" in scaled:
            scaled["noise_multiplier"] *= factor
        return scaled

    return event_from_dict(scale(event_to_dict(event)))


def _map_field(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert the events inside a field, leaving plain values alone."""
    if isinstance(value, list | tuple):
        return [convert(item) for item in value]
    return value if isinstance(value, bool | int | float | str) else convert(value)
