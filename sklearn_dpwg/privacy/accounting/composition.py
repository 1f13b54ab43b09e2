"""Compositions of all that one record pays for, equal mechanisms merged; and events, their JSON."""

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

# A total without closed form takes a tenth of a second to a second.
_MAX_COMBINATIONS = 256


@dataclass(frozen=True)
class Composition:
    """A sequence of releases in canonical form; multipliers are in units of Δ.

    Unsampled Gaussians merge into one of parameter ``mu``. ``laplace`` holds pairs (noise
    multiplier, count) and ``sampled`` triples (sampling rate, noise multiplier, count), sorted.
    ``discrete`` holds (scale, shift, count) of discrete Laplace noise on whole numbers, sorted.
    ``selected`` holds (mean number of runs, shape of its distribution, one run, count): the best of
    a random number of runs.
    """

    mu: float = 0.0
    laplace: tuple[tuple[float, int], ...] = ()
    sampled: tuple[tuple[float, float, int], ...] = ()
    selected: tuple[tuple[float, float, Composition, int], ...] = ()
    discrete: tuple[tuple[float, int, int], ...] = ()

    @property
    def is_gaussian(self) -> bool:
        """Whether the closed form is exact."""
        return not (self.laplace or self.sampled or self.selected or self.discrete)

    @property
    def is_private(self) -> bool:
        """Whether any noise protects the record."""
        return self.mu < math.inf and all(run.is_private for _, _, run, _ in self.selected)

    @property
    def pure_epsilon(self) -> float:
        """The ε at δ = 0: the sum of shift over scale for Laplace noise alone, else infinite."""
        if self.mu > 0.0 or self.sampled or self.selected:
            return math.inf
        losses = [count / multiplier for multiplier, count in self.laplace]
        return math.fsum(losses + [count * shift / scale for scale, shift, count in self.discrete])

    def scaled(self, factor: float) -> Composition:
        """Multiply every noise multiplier by a factor."""
        return Composition(
            self.mu / factor,
            tuple((multiplier * factor, count) for multiplier, count in self.laplace),
            tuple((rate, multiplier * factor, count) for rate, multiplier, count in self.sampled),
            tuple((mean, shape, run.scaled(factor), n) for mean, shape, run, n in self.selected),
            tuple((scale * factor, shift, count) for scale, shift, count in self.discrete),
        )


# --- what releases and events pay ----------------------------------------------------------------

# Equal events: μ² of Gaussian noise, or a composition of one kind.
_Piece = float | Composition


def part_events(releases: Sequence[Release]) -> tuple[DpEvent, ...]:
    """Return one composed event for each disjoint part of the records, in order of their indices.

    A record lies in one part and pays for the releases that read it, so the guarantee is the
    pointwise maximum of δ(ε) over the events. A release without part counts towards all.
    """
    from dp_accounting import dp_event

    if not releases:
        raise InputError("releases must not be empty: a plan that releases nothing has no event.")
    parts: list[int | None] = [*sorted({each.part for each in releases if each.part is not None})]
    paid = []
    for part in parts or [None]:
        events = [each.event for each in releases if each.part in (None, part)]
        paid.append(dp_event.ComposedDpEvent(events) if len(events) > 1 else events[0])
    return tuple(paid)


def composition_of_event(event: DpEvent) -> Composition:
    """Return the composition that an event in units of Δ describes."""
    return _merge(_pieces_of_event(event, 1))


def _merge(pieces: Iterable[_Piece]) -> Composition:
    squares: list[float] = []
    others: list[Composition] = []
    for piece in pieces:
        if isinstance(piece, Composition):
            others.append(piece)
        else:
            squares.append(piece)
    gaussian = Composition(math.sqrt(math.fsum(squares)))
    return joint([gaussian, *others]) if others else gaussian


def _gaussian(z: float, count: int, rate: float = 1.0) -> _Piece:
    if z == 0.0:
        return math.inf
    return Composition(sampled=((rate, z, count),)) if rate < 1.0 else count / z**2


def _pieces_of_event(event: Any, count: int) -> list[_Piece]:
    from dp_accounting import dp_event as events

    match event:
        case events.NoOpDpEvent():
            return []
        case events.NonPrivateDpEvent():
            return [math.inf]
        case events.SelfComposedDpEvent():
            return _pieces_of_event(event.event, count * event.count)
        case events.ComposedDpEvent():
            every = map(_pieces_of_event, event.events, repeat(count))
            return list(chain.from_iterable(every))
        case events.GaussianDpEvent():
            return [_gaussian(event.noise_multiplier, count)]
        case events.LaplaceDpEvent():
            z = event.noise_multiplier
            return [Composition(laplace=((z, count),)) if z > 0.0 else math.inf]
        case events.DiscreteLaplaceDpEvent(noise_parameter=inverse, sensitivity=shift) if (
            inverse > 0.0 and shift >= 1 and float(shift).is_integer()  # what hides a whole number
        ):
            return [Composition(discrete=((1.0 / inverse, int(shift), count),))]
        case events.PoissonSampledDpEvent(
            sampling_probability=rate, event=events.GaussianDpEvent(noise_multiplier=z)
        ) if 0.0 < rate <= 1.0:
            return [_gaussian(z, count, rate)]
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


# --- together ------------------------------------------------------------------------------------


def joint(compositions: Sequence[Composition]) -> Composition:
    """Return the composition of a record that pays for all of them."""
    if len(compositions) == 1:
        return compositions[0]
    mu = math.sqrt(math.fsum(one.mu**2 for one in compositions))
    return Composition(mu, *_combined(compositions, add))


def dominating(compositions: Sequence[Composition]) -> Composition:
    """Return the composition that has all releases of each, as often as whoever has most of them.

    All Gaussian noise is one release, so the largest μ counts. It dominates each, as a release more
    does no harm.
    """
    mu = max((one.mu for one in compositions), default=0.0)
    return Composition(mu, *_combined(compositions, or_))


def _combined(
    compositions: Sequence[Composition], combine: Callable[[Any, Any], Any]
) -> Iterator[tuple[Any, ...]]:
    """Yield all releases of each kind, each once, with how often it is there in all or at most."""
    for kind in ("laplace", "sampled", "selected", "discrete"):
        counts: Counter[tuple[Any, ...]] = Counter()
        for releases in filter(None, (getattr(one, kind) for one in compositions)):
            counts = combine(counts, Counter({tuple(what): count for *what, count in releases}))
        every = [(*what, count) for what, count in counts.items()]
        yield tuple(sorted(every, key=repr if kind == "selected" else None))


def joint_compositions(results: Iterable[Sequence[DpEvent]]) -> tuple[Composition, ...]:
    """Return what a record can have paid for after several results, in the worst cases.

    Each result holds one event a disjoint part of the records. How the parts of two results
    overlap is not known, so a record may be in any part of each: the pointwise maximum of δ(ε)
    over all combinations counts, but for those that differ from another in a smaller μ alone. Once
    there are too many, every further result adds the worst of its parts, which is sound, as it
    dominates each of them (``docs/theory/noise.md``), and looser than the maximum.
    """
    totals: tuple[Composition, ...] = (Composition(),)
    for events in results:
        parts = _largest_mus(composition_of_event(event) for event in events)
        combined = _largest_mus(joint([total, part]) for total in totals for part in parts)
        if len(combined) > _MAX_COMBINATIONS:
            worst = dominating(parts)
            combined = _largest_mus(joint([total, worst]) for total in totals)
        totals = combined
    return totals


def _largest_mus(compositions: Iterable[Composition]) -> tuple[Composition, ...]:
    """Keep, of compositions that differ in μ alone, the one of the largest."""
    largest: dict[Composition, Composition] = {}
    for composition in compositions:
        rest = replace(composition, mu=0.0)
        if rest not in largest or largest[rest].mu < composition.mu:
            largest[rest] = composition
    return tuple(largest.values())


# --- events, and their JSON ----------------------------------------------------------------------


def event_of_composition(composition: Composition) -> DpEvent:
    """Return an event of the same cost."""
    from dp_accounting import dp_event

    parts: list[DpEvent] = []
    if composition.mu > 0.0:
        parts.append(dp_event.GaussianDpEvent(1.0 / composition.mu))
    counted: list[tuple[DpEvent, int]] = [
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
    parts += [dp_event.SelfComposedDpEvent(event, n) for event, n in counted]
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
# What their numbers may be; all other fields hold events.
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
    kind = type(event).__name__
    if kind not in _FIELDS:
        raise UnsupportedMechanismError(f"{event!r} cannot be written as JSON.")
    return {"type": kind, **_fields(event, event_to_dict)}


def event_from_dict(described: Any) -> DpEvent:
    """Return the event that `event_to_dict` described, maybe in a file: each field is checked."""
    from dp_accounting import dp_event

    kind = described.get("type") if isinstance(described, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise InputError(f"events must each have a type of {sorted(_FIELDS)}, got {described!r}.")
    if set(described) != {"type", *_FIELDS[kind]}:
        raise InputError(f"events of type {kind} must have the fields {_FIELDS[kind]!r} alone.")
    values = {field: described[field] for field in _FIELDS[kind]}
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
    """Return an event with every noise multiplier times a factor."""
    values = _fields(event, lambda inner: scaled_event(inner, factor))
    if "noise_multiplier" in values:
        values["noise_multiplier"] *= factor
    if "noise_parameter" in values:
        values["noise_parameter"] /= factor
    return type(event)(**values)


def moved_event(event: DpEvent, times: int) -> DpEvent:
    """Return an event with every value moved so many times as far."""
    values = _fields(event, lambda inner: moved_event(inner, times))
    if "noise_multiplier" in values:
        values["noise_multiplier"] /= times
    if "sensitivity" in values:
        values["sensitivity"] *= times
    return type(event)(**values)


def _fields(event: DpEvent, of_inner: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the fields of an event by name, the events inside as a function writes them."""
    values = {field: getattr(event, field) for field in _FIELDS[type(event).__name__]}
    if "event" in values:
        values["event"] = of_inner(values["event"])
    if "events" in values:
        values["events"] = [of_inner(inner) for inner in values["events"]]
    return values
