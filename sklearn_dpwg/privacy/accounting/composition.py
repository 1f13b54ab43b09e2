"""Compositions of all releases that one record pays for, and their dp_accounting events as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from operator import add, or_
from typing import TYPE_CHECKING, Any

from sklearn_dpwg._checks import Rule, at_least_zero, positive, whole, within
from sklearn_dpwg.exceptions import InputError, UnsupportedMechanismError
from sklearn_dpwg.privacy.release import Release

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Largest number of totals of several results: one without closed form takes up to a second.
_MAX_COMBINATIONS = 256


@dataclass(frozen=True)
class Composition:
    """A sequence of releases in canonical form: equal mechanisms are merged and counted.

    Noise multipliers are in units of Δ. Unsampled Gaussians merge into one of parameter ``mu``.
    ``laplace`` holds pairs (noise multiplier, count), and ``sampled``, for Poisson-sampled
    Gaussians, triples (sampling rate, noise multiplier, count). ``discrete`` holds (scale, shift,
    count) of discrete Laplace noise on whole numbers. ``selected`` holds (mean number of runs,
    shape of its distribution, one run, count): the best of a random number of runs. All are sorted.
    """

    mu: float = 0.0
    laplace: tuple[tuple[float, int], ...] = ()
    sampled: tuple[tuple[float, float, int], ...] = ()
    selected: tuple[tuple[float, float, Composition, int], ...] = ()
    discrete: tuple[tuple[float, int, int], ...] = ()

    @property
    def is_gaussian(self) -> bool:
        """Whether all noise is unsampled Gaussian noise, which has an exact closed form."""
        return not (self.laplace or self.sampled or self.selected or self.discrete)

    @property
    def is_private(self) -> bool:
        """Whether every release has noise."""
        return self.mu < math.inf and all(run.is_private for _, _, run, _ in self.selected)

    @property
    def pure_epsilon(self) -> float:
        """The ε at δ = 0: the sum of shift/scale if all noise is Laplace, otherwise infinite."""
        if self.mu > 0.0 or self.sampled or self.selected:
            return math.inf
        losses = [count / multiplier for multiplier, count in self.laplace]
        return math.fsum(losses + [count * shift / scale for scale, shift, count in self.discrete])

    def scaled(self, factor: float) -> Composition:
        """Return the same releases with every noise multiplier times a factor."""
        return Composition(
            self.mu / factor,
            tuple((multiplier * factor, count) for multiplier, count in self.laplace),
            tuple((rate, multiplier * factor, count) for rate, multiplier, count in self.sampled),
            tuple((mean, shape, run.scaled(factor), n) for mean, shape, run, n in self.selected),
            tuple((scale * factor, shift, count) for scale, shift, count in self.discrete),
        )


# Cost of one event and its repetitions: μ² of Gaussian noise, or a composition of another kind.
_Piece = float | Composition


def part_events(releases: Sequence[Release]) -> tuple[DpEvent, ...]:
    """Return one composed event for each disjoint part of the records, in order of their indices.

    A record lies in one part and pays for the releases that read it, so the guarantee is the
    pointwise maximum of δ(ε) over the events. A release without part counts towards all.
    """
    from dp_accounting import dp_event

    if not releases:
        raise InputError("releases must not be empty: a plan that releases nothing has no event.")
    named_parts = {release.part for release in releases if release.part is not None}
    parts: list[int | None] = [*sorted(named_parts)]
    composed_events = []
    for part in parts or [None]:
        events = [release.event for release in releases if release.part in (None, part)]
        composed_events.append(dp_event.ComposedDpEvent(events) if len(events) > 1 else events[0])
    return tuple(composed_events)


def composition_of_event(event: DpEvent) -> Composition:
    """Return the composition that an event in units of Δ describes."""
    return _merge(_pieces_of_event(event, 1))


def _merge(pieces: Iterable[_Piece]) -> Composition:
    """Return the composition of all pieces: squares μ² add up."""
    squared_mus: list[float] = []
    compositions: list[Composition] = []
    for piece in pieces:
        if isinstance(piece, Composition):
            compositions.append(piece)
        else:
            squared_mus.append(piece)
    gaussian = Composition(mu=math.sqrt(math.fsum(squared_mus)))
    return joint([gaussian, *compositions]) if compositions else gaussian


def _gaussian_piece(z: float, count: int, rate: float = 1.0) -> _Piece:
    """Return the cost of ``count`` draws of Gaussian noise with multiplier z."""
    if z == 0.0:
        return math.inf
    return Composition(sampled=((rate, z, count),)) if rate < 1.0 else count / z**2


def _pieces_of_event(event: Any, count: int) -> list[_Piece]:
    """Return the costs of an event that happens ``count`` times; μ² is infinite without noise."""
    from dp_accounting import dp_event as events

    match event:
        case events.NoOpDpEvent():
            return []
        case events.NonPrivateDpEvent():
            return [math.inf]
        case events.SelfComposedDpEvent():
            return _pieces_of_event(event.event, count * event.count)
        case events.ComposedDpEvent():
            pieces_by_event = map(_pieces_of_event, event.events, repeat(count))
            return list(chain.from_iterable(pieces_by_event))
        case events.GaussianDpEvent():
            return [_gaussian_piece(event.noise_multiplier, count)]
        case events.LaplaceDpEvent():
            z = event.noise_multiplier
            return [Composition(laplace=((z, count),)) if z > 0.0 else math.inf]
        case events.DiscreteLaplaceDpEvent(noise_parameter=inverse, sensitivity=shift) if (
            # other values give no noise on whole numbers that hides the shift
            inverse > 0.0 and shift >= 1 and float(shift).is_integer()
        ):
            return [Composition(discrete=((1.0 / inverse, int(shift), count),))]
        case events.PoissonSampledDpEvent(
            sampling_probability=rate, event=events.GaussianDpEvent(noise_multiplier=z)
        ) if 0.0 < rate <= 1.0:
            return [_gaussian_piece(z, count, rate)]
        case events.RepeatAndSelectDpEvent():
            run = composition_of_event(event.event)
            if run.sampled:
                raise UnsupportedMechanismError(
                    f"{event!r} selects among runs on sampled records, for which no Renyi "
                    "accountant is known when one record is replaced."
                )
            return [Composition(selected=((event.mean, event.shape, run, count),))]
        case _:
            raise UnsupportedMechanismError(
                f"{event!r} has no tight accountant when one record is replaced within its group; "
                "supported are Gaussian, Laplace and discrete Laplace events, Poisson-sampled "
                "Gaussian events, selections among runs of the first three, and their compositions."
            )


def joint(compositions: Sequence[Composition]) -> Composition:
    """Return the composition of all releases of all compositions: the cost of one record."""
    if len(compositions) == 1:
        return compositions[0]
    mu = math.sqrt(math.fsum(composition.mu**2 for composition in compositions))
    return Composition(mu, *_combined_releases(compositions, add))


def dominating(compositions: Sequence[Composition]) -> Composition:
    """Return a composition that dominates each of these: largest μ, largest count of a release."""
    mu = max((composition.mu for composition in compositions), default=0.0)
    return Composition(mu, *_combined_releases(compositions, or_))


def _combined_releases(
    compositions: Sequence[Composition], combine_counts: Callable[[Any, Any], Any]
) -> Iterator[tuple[Any, ...]]:
    """Yield all fields after ``mu``; Counters are added by ``add``, maximised by ``or_``."""
    for kind in ("laplace", "sampled", "selected", "discrete"):
        counts: Counter[tuple[Any, ...]] = Counter()
        for composition in compositions:
            if releases := getattr(composition, kind):
                new_counts = Counter({tuple(release): count for *release, count in releases})
                counts = combine_counts(counts, new_counts)
        counted = [(*release, count) for release, count in counts.items()]
        # runs are compositions, which have no order
        yield tuple(sorted(counted, key=repr if kind == "selected" else None))


def joint_compositions(results: Iterable[Sequence[DpEvent]]) -> tuple[Composition, ...]:
    """Return compositions whose largest δ(ε) bounds what a record pays for several results.

    Each result has one event for each disjoint part of the records. How the parts of two results
    overlap is unknown, so a record may be in any part of each: every combination of parts gives a
    composition, left out if it differs from another only by a smaller μ. If there are too many
    combinations, a result adds one composition that dominates each of its parts, which is sound
    (``docs/theory/noise.md``) and looser than the maximum.
    """
    totals: tuple[Composition, ...] = (Composition(),)
    for events in results:
        parts = _without_smaller_mus(composition_of_event(event) for event in events)
        combined = _without_smaller_mus(joint([total, part]) for total in totals for part in parts)
        if len(combined) > _MAX_COMBINATIONS:
            worst_part = dominating(parts)
            combined = _without_smaller_mus(joint([total, worst_part]) for total in totals)
        totals = combined
    return totals


def _without_smaller_mus(compositions: Iterable[Composition]) -> tuple[Composition, ...]:
    """Keep, of compositions that differ only in μ, the one with the largest μ."""
    largest: dict[Composition, Composition] = {}
    for composition in compositions:
        rest = replace(composition, mu=0.0)
        if rest not in largest or largest[rest].mu < composition.mu:
            largest[rest] = composition
    return tuple(largest.values())


def event_of_composition(composition: Composition) -> DpEvent:
    """Return a dp_accounting event that describes the composition."""
    from dp_accounting import dp_event

    parts: list[DpEvent] = []
    if composition.mu > 0.0:
        parts.append(dp_event.GaussianDpEvent(1.0 / composition.mu))
    counted_events: list[tuple[DpEvent, int]] = [
        *((dp_event.LaplaceDpEvent(z), n) for z, n in composition.laplace),
        *(
            (dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(z)), n)
            for rate, z, n in composition.sampled
        ),
        *(
            (dp_event.RepeatAndSelectDpEvent(event_of_composition(run), mean, shape), n)
            for mean, shape, run, n in composition.selected
        ),
        *(
            (dp_event.DiscreteLaplaceDpEvent(1.0 / scale, shift), n)
            for scale, shift, n in composition.discrete
        ),
    ]
    parts += [dp_event.SelfComposedDpEvent(event, n) for event, n in counted_events]
    return parts[0] if len(parts) == 1 else dp_event.ComposedDpEvent(parts)


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
# Values that are allowed in a field; fields that are not here hold events.
_RULES: dict[str, Rule] = {
    "noise_multiplier": at_least_zero(),
    "noise_parameter": positive(),
    "sensitivity": whole(),
    "sampling_probability": within(0.0, 1.0),
    "count": whole(),
    "mean": positive(least=1.0),
    "shape": at_least_zero(),
}


def event_to_dict(event: DpEvent) -> dict[str, Any]:
    """Return an event as nested dictionaries of plain values; ``type`` names its class."""
    class_name = type(event).__name__
    if class_name not in _FIELDS:
        raise UnsupportedMechanismError(f"{event!r} cannot be written as JSON.")
    return {"type": class_name, **_field_values(event, event_to_dict)}


def event_from_dict(source: Any) -> DpEvent:
    """Return the event that `event_to_dict` wrote; each field is checked, as files may err."""
    from dp_accounting import dp_event

    kind = source.get("type") if isinstance(source, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise InputError(f"events must each have a type of {sorted(_FIELDS)}, got {source!r}.")
    if set(source) != {"type", *_FIELDS[kind]}:
        raise InputError(f"events of type {kind} must have the fields {_FIELDS[kind]!r} alone.")
    values = {field: source[field] for field in _FIELDS[kind]}
    for field, value in values.items():
        if field == "event":
            values[field] = event_from_dict(value)
        elif field == "events":
            if not isinstance(value, list) or not value:
                raise InputError(f"events inside events must be a list of some, got {value!r}.")
            values[field] = [event_from_dict(inner) for inner in value]
        elif (allowed := _RULES[field](value)) is not None:
            raise InputError(f"{field} in events must be {allowed}, got {value!r}.")
    return getattr(dp_event, kind)(**values)


def scaled_event(event: DpEvent, factor: float) -> DpEvent:
    """Return an event with every noise multiplier times a factor, nested events included."""
    values = _field_values(event, lambda inner: scaled_event(inner, factor))
    if "noise_multiplier" in values:
        values["noise_multiplier"] *= factor
    if "noise_parameter" in values:  # one over the scale of discrete Laplace noise
        values["noise_parameter"] /= factor
    return type(event)(**values)


def moved_event(event: DpEvent, times: int) -> DpEvent:
    """Return an event of neighbours that are ``times`` as far apart: multipliers shrink."""
    values = _field_values(event, lambda inner: moved_event(inner, times))
    if "noise_multiplier" in values:
        values["noise_multiplier"] /= times
    if "sensitivity" in values:
        values["sensitivity"] *= times
    return type(event)(**values)


def _field_values(event: DpEvent, convert_event: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the fields of an event by name, with a function applied to the events inside."""
    values = {field: getattr(event, field) for field in _FIELDS[type(event).__name__]}
    if "event" in values:
        values["event"] = convert_event(values["event"])
    if "events" in values:
        values["events"] = [convert_event(inner) for inner in values["events"]]
    return values
