"""Privacy events as JSON, and rescaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.privacy.accounting.composition import Composition

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# The fields of every event that the accounting knows, by class.
_FIELDS: dict[str, tuple[str, ...]] = {
    "NoOpDpEvent": (),
    "NonPrivateDpEvent": (),
    "GaussianDpEvent": ("noise_multiplier",),
    "LaplaceDpEvent": ("noise_multiplier",),
    "DiscreteLaplaceDpEvent": ("noise_parameter", "sensitivity"),
    "PoissonSampledDpEvent": ("sampling_probability", "event"),
    "SelfComposedDpEvent": ("event", "count"),
    "ComposedDpEvent": ("events",),
    "RepeatAndSelectDpEvent": ("event", "mean", "shape"),
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


def event_of_composition(composition: Composition) -> DpEvent:
    """Return an event of the same cost."""
    from dp_accounting import dp_event

    parts: list[DpEvent] = []
    if composition.mu > 0.0:
        parts.append(dp_event.GaussianDpEvent(1.0 / composition.mu))
    for multiplier, count in composition.laplace:
        parts.append(dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(multiplier), count))
    for rate, multiplier, count in composition.sampled:
        gaussian = dp_event.GaussianDpEvent(multiplier)
        sampled = dp_event.PoissonSampledDpEvent(rate, gaussian)
        parts.append(dp_event.SelfComposedDpEvent(sampled, count))
    for mean, shape, run, count in composition.selected:
        best = dp_event.RepeatAndSelectDpEvent(event_of_composition(run), mean, shape)
        parts.append(dp_event.SelfComposedDpEvent(best, count))
    for scale, shift, count in composition.discrete:
        discrete = dp_event.DiscreteLaplaceDpEvent(1.0 / scale, shift)
        parts.append(dp_event.SelfComposedDpEvent(discrete, count))
    return parts[0] if len(parts) == 1 else dp_event.ComposedDpEvent(parts)


def scaled_event(event: DpEvent, factor: float) -> DpEvent:
    """Return an event with every noise multiplier times a factor."""

    def scale(described: dict[str, Any]) -> dict[str, Any]:
        scaled = {field: _map_field(value, scale) for field, value in described.items()}
        if "noise_multiplier" in scaled:
            scaled["noise_multiplier"] *= factor
        if "noise_parameter" in scaled:  # one over the scale
            scaled["noise_parameter"] /= factor
        return scaled

    return event_from_dict(scale(event_to_dict(event)))


def moved_event(event: DpEvent, times: int) -> DpEvent:
    """Return an event with every value moved so many times as far."""

    def move(described: dict[str, Any]) -> dict[str, Any]:
        moved = {field: _map_field(value, move) for field, value in described.items()}
        if "noise_multiplier" in moved:
            moved["noise_multiplier"] /= times
        if "sensitivity" in moved:
            moved["sensitivity"] *= times
        return moved

    return event_from_dict(move(event_to_dict(event)))


def _map_field(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert the events inside a field, leaving plain values alone."""
    if isinstance(value, list | tuple):
        return [convert(item) for item in value]
    return value if isinstance(value, bool | int | float | str) else convert(value)
