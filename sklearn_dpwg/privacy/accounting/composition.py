"""Composition of all that one record pays for, equal mechanisms merged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.privacy.release import Release

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_MOST_COMBINATIONS = 256


@dataclass(frozen=True)
class Composition:
    """A sequence of releases in canonical form; multipliers are in units of Δ.

    Unsampled Gaussians merge into one of parameter ``mu``. ``laplace`` holds pairs (noise
    multiplier, count) and ``sampled`` triples (sampling rate, noise multiplier, count), sorted.
    ``selected`` holds (mean number of runs, shape of its distribution, one run, count): the best of
    a random number of runs.
    """

    mu: float = 0.0
    laplace: tuple[tuple[float, int], ...] = ()
    sampled: tuple[tuple[float, float, int], ...] = ()
    selected: tuple[tuple[float, float, Composition, int], ...] = ()

    @property
    def is_gaussian(self) -> bool:
        """Whether the closed form is exact."""
        return not self.laplace and not self.sampled and not self.selected

    @property
    def is_private(self) -> bool:
        """Whether any noise protects the record."""
        return self.mu < math.inf and all(run.is_private for _, _, run, _ in self.selected)

    @property
    def pure_epsilon(self) -> float:
        """The ε at δ = 0: the sum of 1/multiplier for Laplace noise alone, else infinite."""
        if self.mu > 0.0 or self.sampled or self.selected:
            return math.inf
        return math.fsum(count / multiplier for multiplier, count in self.laplace)

    def scaled(self, factor: float) -> Composition:
        """Multiply every noise multiplier by a factor."""
        return Composition(
            self.mu / factor,
            tuple((multiplier * factor, count) for multiplier, count in self.laplace),
            tuple((rate, multiplier * factor, count) for rate, multiplier, count in self.sampled),
            tuple((mean, shape, run.scaled(factor), n) for mean, shape, run, n in self.selected),
        )


@dataclass(frozen=True)
class _Piece:
    """Equal releases: Gaussian, Laplace, Gaussian after Poisson sampling, or the best of runs."""

    mechanism: str
    noise_multiplier: float
    count: int
    sampling_rate: float = 1.0
    selected: tuple[float, float, Composition] | None = None


def compositions_of_releases(
    releases: Sequence[Release],
) -> tuple[tuple[tuple[Release, ...], Composition], ...]:
    """Return what each disjoint part pays for, releases and composition, in order of part."""
    if not releases:
        raise ValueError("releases must not be empty: a plan that releases nothing has no event.")
    parts = sorted({r.part for r in releases if r.part is not None})
    paid = [tuple(r for r in releases if r.part in (None, part)) for part in parts or [-1]]
    return tuple((payers, _merge(map(_piece_of_release, payers))) for payers in paid)


def composition_of_event(event: DpEvent) -> Composition:
    """Return the composition that an event in units of Δ describes."""
    return _merge(_pieces_of_event(event, 1))


def joint(compositions: Sequence[Composition]) -> Composition:
    """Return the composition of a record that pays for all of them."""
    laplace: Counter[float] = Counter()
    sampled: Counter[tuple[float, float]] = Counter()
    selected: Counter[tuple[float, float, Composition]] = Counter()
    for composition in compositions:
        laplace.update(dict(composition.laplace))
        for rate, multiplier, count in composition.sampled:
            sampled[rate, multiplier] += count
        for mean, shape, run, count in composition.selected:
            selected[mean, shape, run] += count
    return Composition(
        math.sqrt(math.fsum(composition.mu**2 for composition in compositions)),
        tuple(sorted(laplace.items())),
        tuple(sorted((rate, multiplier, n) for (rate, multiplier), n in sampled.items())),
        tuple(sorted(((*what, n) for what, n in selected.items()), key=repr)),
    )


def _piece_of_release(release: Release) -> _Piece:
    return _Piece(
        release.mechanism, release.noise_multiplier, release.paid_count, release.sampling_rate
    )


def _merge(pieces: Iterable[_Piece]) -> Composition:
    mu_squares: list[float] = []
    others: list[Composition] = []
    for piece in pieces:
        if piece.selected is not None:
            others.append(Composition(selected=((*piece.selected, piece.count),)))
        elif piece.noise_multiplier == 0.0:
            mu_squares.append(math.inf)
        elif piece.sampling_rate < 1.0:
            sampled = (piece.sampling_rate, piece.noise_multiplier, piece.count)
            others.append(Composition(sampled=(sampled,)))
        elif piece.mechanism == "laplace":
            others.append(Composition(laplace=((piece.noise_multiplier, piece.count),)))
        else:
            mu_squares.append(piece.count / piece.noise_multiplier**2)
    return joint([Composition(math.sqrt(math.fsum(mu_squares))), *others])


def _pieces_of_event(event: DpEvent, count: int) -> Iterator[_Piece]:
    from dp_accounting import dp_event

    if isinstance(event, dp_event.NoOpDpEvent):
        return
    if isinstance(event, dp_event.NonPrivateDpEvent):
        yield _Piece("gaussian", 0.0, count)
    elif isinstance(event, dp_event.SelfComposedDpEvent):
        yield from _pieces_of_event(event.event, count * event.count)
    elif isinstance(event, dp_event.ComposedDpEvent):
        for inner in event.events:
            yield from _pieces_of_event(inner, count)
    elif isinstance(event, dp_event.GaussianDpEvent):
        yield _Piece("gaussian", event.noise_multiplier, count)
    elif isinstance(event, dp_event.LaplaceDpEvent):
        yield _Piece("laplace", event.noise_multiplier, count)
    elif (
        isinstance(event, dp_event.PoissonSampledDpEvent)
        and isinstance(event.event, dp_event.GaussianDpEvent)
        and 0.0 < event.sampling_probability <= 1.0
    ):
        multiplier = event.event.noise_multiplier
        yield _Piece("gaussian", multiplier, count, event.sampling_probability)
    elif isinstance(event, dp_event.RepeatAndSelectDpEvent):
        run = composition_of_event(event.event)
        if run.sampled:
            raise UnsupportedMechanismError(
                f"{event!r} selects among runs on sampled records, for which no Rényi accountant "
                "is known when one record is replaced."
            )
        yield _Piece("selected", 1.0, count, selected=(event.mean, event.shape, run))
    else:
        raise UnsupportedMechanismError(
            f"{event!r} has no tight accountant when one record is replaced within its group; "
            "supported are Gaussian and Laplace events, Poisson-sampled Gaussian events, "
            "selections among runs of the first two, and their compositions."
        )


def joint_compositions(results: Iterable[Sequence[DpEvent]]) -> tuple[Composition, ...]:
    """Return what a record can have paid for after several results, in the worst cases.

    Each result holds one event a disjoint part of the records. How the parts of two results
    overlap is not known, so a record may be in any part of each: the pointwise maximum of δ(ε)
    over all combinations counts. Those that cannot be the maximum are left out: of Gaussian
    parts alone, all but the one of the largest μ.
    """
    totals: tuple[Composition, ...] = (Composition(),)
    for events in results:
        parts = _undominated(composition_of_event(event) for event in events)
        totals = _undominated(joint([total, part]) for total in totals for part in parts)
        if len(totals) > _MOST_COMBINATIONS:
            # a record that paid for all of them paid for more than any record did
            totals = (joint(totals),)
    return totals


def _undominated(compositions: Iterable[Composition]) -> tuple[Composition, ...]:
    """Keep, of compositions that differ in μ alone, the one of the largest."""
    largest: dict[tuple[object, ...], Composition] = {}
    for composition in compositions:
        rest = (composition.laplace, composition.sampled, composition.selected)
        if rest not in largest or largest[rest].mu < composition.mu:
            largest[rest] = composition
    return tuple(largest.values())
