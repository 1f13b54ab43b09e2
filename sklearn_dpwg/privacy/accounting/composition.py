"""Composition of all that one record pays for, equal mechanisms merged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from sklearn_dpwg.exceptions import InputError, UnsupportedMechanismError
from sklearn_dpwg.privacy.release import Release

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# A total without closed form takes a tenth of a second to a second.
_MOST_COMBINATIONS = 256


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


@dataclass(frozen=True)
class _Piece:
    """Equal releases: Gaussian, Laplace, Gaussian after Poisson sampling, or the best of runs.

    Discrete Laplace noise has a shift, in units of which the multiplier is not.
    """

    mechanism: str
    noise_multiplier: float
    count: int
    sampling_rate: float = 1.0
    selected: tuple[float, float, Composition] | None = None
    shift: int = 0


def compositions_of_releases(
    releases: Sequence[Release],
) -> tuple[tuple[tuple[Release, ...], Composition], ...]:
    """Return what each disjoint part pays for, releases and composition, in order of part."""
    if not releases:
        raise InputError("releases must not be empty: a plan that releases nothing has no event.")
    parts = sorted({r.part for r in releases if r.part is not None})
    found = []
    for part in parts or [-1]:
        payers = tuple([r for r in releases if r.part in (None, part)])
        found.append((payers, _merge(map(_piece_of_release, payers))))
    return tuple(found)


def composition_of_event(event: DpEvent) -> Composition:
    """Return the composition that an event in units of Δ describes."""
    return _merge(_pieces_of_event(event, 1))


def joint(compositions: Sequence[Composition]) -> Composition:
    """Return the composition of a record that pays for all of them."""
    if len(compositions) == 1:
        return compositions[0]
    return Composition(
        math.sqrt(math.fsum(one.mu**2 for one in compositions)),
        _counted(one.laplace for one in compositions),
        _counted(one.sampled for one in compositions),
        _counted((one.selected for one in compositions), key=repr),
        _counted(one.discrete for one in compositions),
    )


def _counted(
    releases: Iterable[Iterable[tuple[Any, ...]]], key: Callable[[Any], Any] | None = None
) -> tuple[Any, ...]:
    """Return all releases, each once, with how often it is there in the end."""
    found: Counter[tuple[Any, ...]] = Counter()
    for *what, count in chain.from_iterable(releases):
        found[tuple(what)] += count
    return tuple(sorted(((*what, count) for what, count in found.items()), key=key))


def _piece_of_release(release: Release) -> _Piece:
    count = release.paid_count
    if release.mechanism == "discrete-laplace":  # two counts move by one each
        return _Piece(release.mechanism, 2.0 * release.noise_multiplier, 2 * count, shift=1)
    return _Piece(release.mechanism, release.noise_multiplier, count, release.sampling_rate)


def _merge(pieces: Iterable[_Piece]) -> Composition:
    mu_squares: list[float] = []
    others: list[Composition] = []
    for piece in pieces:
        if piece.selected is not None:
            others.append(Composition(selected=((*piece.selected, piece.count),)))
        elif piece.noise_multiplier == 0.0:
            mu_squares.append(math.inf)
        elif piece.shift:
            discrete = (piece.noise_multiplier, piece.shift, piece.count)
            others.append(Composition(discrete=(discrete,)))
        elif piece.sampling_rate < 1.0:
            sampled = (piece.sampling_rate, piece.noise_multiplier, piece.count)
            others.append(Composition(sampled=(sampled,)))
        elif piece.mechanism == "laplace":
            others.append(Composition(laplace=((piece.noise_multiplier, piece.count),)))
        else:
            mu_squares.append(piece.count / piece.noise_multiplier**2)
    gaussian = Composition(math.sqrt(math.fsum(mu_squares)))
    return joint([gaussian, *others]) if others else gaussian


def _pieces_of_event(event: DpEvent, count: int) -> list[_Piece]:
    from dp_accounting import dp_event

    if isinstance(event, dp_event.NoOpDpEvent):
        return []
    if isinstance(event, dp_event.NonPrivateDpEvent):
        return [_Piece("gaussian", 0.0, count)]
    if isinstance(event, dp_event.SelfComposedDpEvent):
        return _pieces_of_event(event.event, count * event.count)
    if isinstance(event, dp_event.ComposedDpEvent):
        return list(chain.from_iterable(map(_pieces_of_event, event.events, repeat(count))))
    if isinstance(event, dp_event.GaussianDpEvent):
        return [_Piece("gaussian", event.noise_multiplier, count)]
    if isinstance(event, dp_event.LaplaceDpEvent):
        return [_Piece("laplace", event.noise_multiplier, count)]
    if isinstance(event, dp_event.DiscreteLaplaceDpEvent) and _is_shift(event):
        scale = 1.0 / event.noise_parameter if event.noise_parameter > 0.0 else 0.0
        return [_Piece("discrete-laplace", scale, count, shift=int(event.sensitivity))]
    if (
        isinstance(event, dp_event.PoissonSampledDpEvent)
        and isinstance(event.event, dp_event.GaussianDpEvent)
        and 0.0 < event.sampling_probability <= 1.0
    ):
        multiplier = event.event.noise_multiplier
        return [_Piece("gaussian", multiplier, count, event.sampling_probability)]
    if isinstance(event, dp_event.RepeatAndSelectDpEvent):
        run = composition_of_event(event.event)
        if run.sampled:
            raise UnsupportedMechanismError(
                f"{event!r} selects among runs on sampled records, for which no Renyi accountant "
                "is known when one record is replaced."
            )
        return [_Piece("selected", 1.0, count, selected=(event.mean, event.shape, run))]
    raise UnsupportedMechanismError(
        f"{event!r} has no tight accountant when one record is replaced within its group; "
        "supported are Gaussian, Laplace and discrete Laplace events, Poisson-sampled Gaussian "
        "events, selections among runs of the first three, and their compositions."
    )


def _is_shift(event: Any) -> bool:
    """Return whether noise on whole numbers hides a whole number, of at least 1."""
    return event.sensitivity >= 1 and float(event.sensitivity).is_integer()


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
        found = _largest_mus(joint([total, part]) for total in totals for part in parts)
        if len(found) > _MOST_COMBINATIONS:
            worst = dominating(parts)
            found = _largest_mus(joint([total, worst]) for total in totals)
        totals = found
    return totals


def dominating(compositions: Iterable[Composition]) -> Composition:
    """Return the composition that has all releases of each, as often as whoever has most of them.

    All Gaussian noise is one release, so the largest μ counts. It dominates each, as a release more
    does no harm.
    """
    compositions = tuple(compositions)
    return Composition(
        max((one.mu for one in compositions), default=0.0),
        _most(one.laplace for one in compositions),
        _most(one.sampled for one in compositions),
        _most((one.selected for one in compositions), key=repr),
        _most(one.discrete for one in compositions),
    )


def _most(
    releases: Iterable[Iterable[tuple[Any, ...]]], key: Callable[[Any], Any] | None = None
) -> tuple[Any, ...]:
    """Return all releases, each once, with how often it is there at most."""
    found: Counter[tuple[Any, ...]] = Counter()
    for of_one in releases:
        found |= Counter({tuple(what): count for *what, count in of_one})
    return tuple(sorted(((*what, count) for what, count in found.items()), key=key))


def _largest_mus(compositions: Iterable[Composition]) -> tuple[Composition, ...]:
    """Keep, of compositions that differ in μ alone, the one of the largest."""
    largest: dict[Composition, Composition] = {}
    for composition in compositions:
        rest = replace(composition, mu=0.0)
        if rest not in largest or largest[rest].mu < composition.mu:
            largest[rest] = composition
    return tuple(largest.values())
