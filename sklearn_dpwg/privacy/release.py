"""Releases, draws and budgets, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, total_ordering
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from sklearn_dpwg._checks import (
    open_unit,
    positive_finite,
    real_number,
    whole_number,
)
from sklearn_dpwg.exceptions import InputError, NoProtectionWarning, UnsupportedMechanismError, warn
from sklearn_dpwg.privacy.gaussian import gdp_mu

if TYPE_CHECKING:
    from dp_accounting import DpEvent


Mechanism = Literal["gaussian", "laplace", "discrete-laplace"]


@dataclass(frozen=True)
class Release:
    """A mechanism, its noise in units of sensitivity, and how often it may be used.

    Parameters
    ----------
    name : str
        What is released; a `NoiseSource` draws each name from a stream of its own.
    mechanism : {"gaussian", "laplace", "discrete-laplace"}
        Distribution of the noise, added to every coordinate independently. The last one is noise
        on whole numbers, on counts of records in disjoint cells, of which a record moves at most
        two, each by one.
    noise_multiplier : float
        Noise per unit of sensitivity: σ/Δ with the standard deviation σ and Δ in the L2 norm for
        Gaussian noise, b/Δ with the scale b and Δ in the L1 norm for Laplace noise. Δ is the most
        that the value can move between neighbours: when one record is replaced, most often by
        another one of the same group. It is 2 for discrete Laplace noise.
    max_count : int
        Largest number of draws; all of them are paid for, used or not.
    part : int, optional
        Index of the disjoint part of the records that the value is computed from. The default
        None means that it may read every record, so that every part pays for it. A part must not
        follow from what neighbours may differ in: a replaced record stays in its part.
    sampling_rate : float, default=1.0
        Probability with which each record joins, independently and afresh for every draw
        (Poisson sampling). Only Gaussian releases may be sampled.
    draws_per_record : int, optional
        Largest number of the draws that any one record can move, where they read disjoint batches
        or one group each; a record pays for that many. The default None means all of them. For
        Gaussian noise a `NoiseSource` is told the group that pays, and holds it to the number.

    Raises
    ------
    UnsupportedMechanismError
        If Laplace noise is to be amplified by sampling.

    Notes
    -----
    Δ of a sampled release is that without sampling, and it must be 2C where C bounds the norm of
    what *one* record adds to the sum: a sampled record is compared with its absence as well as with
    its replacement. dp_accounting, under its relation REPLACE_ONE, reads a multiplier as
    σ/C = 2σ/Δ instead; `delta_of` and `epsilon_of` convert.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import Release
    >>> Release("gradient", "gaussian", noise_multiplier=2.0, max_count=10).scaled(3.0)
    Release(name='gradient', mechanism='gaussian', noise_multiplier=6.0, max_count=10, ...)
    """

    name: str
    mechanism: Mechanism
    noise_multiplier: float
    max_count: int
    part: int | None = None
    sampling_rate: float = 1.0
    draws_per_record: int | None = None

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not name:
            raise InputError(f"name must be a non-empty string, got {name!r}.")
        if self.mechanism not in (known := get_args(Mechanism)):
            raise InputError(f"mechanism must be one of {known}, got {self.mechanism!r}.")
        rate = real_number(self.sampling_rate, "sampling_rate")
        if not 0.0 < rate <= 1.0:
            raise InputError(f"sampling_rate must be above 0 and at most 1, got {rate!r}.")
        if rate < 1.0 and self.mechanism != "gaussian":
            raise UnsupportedMechanismError(
                "Poisson-sampled Laplace noise has no tight accountant when records are replaced; "
                "use the mechanism 'gaussian' or a sampling_rate of 1."
            )
        checked: dict[str, float] = {
            "noise_multiplier": positive_finite(self.noise_multiplier, "noise_multiplier"),
            "max_count": whole_number(self.max_count, "max_count", least=1),
            "sampling_rate": rate,
        }
        for optional, least in (("part", 0), ("draws_per_record", 1)):
            if (value := getattr(self, optional)) is not None:
                checked[optional] = whole_number(value, optional, least=least)
        if checked.get("draws_per_record", 1) > checked["max_count"]:
            raise InputError(
                f"draws_per_record must be at most max_count, {self.max_count}, got "
                f"{self.draws_per_record}."
            )
        for field, value in checked.items():
            object.__setattr__(self, field, value)

    @property
    def paid_count(self) -> int:
        """Number of draws that one record pays for."""
        return self.max_count if self.draws_per_record is None else self.draws_per_record

    @property
    def event(self) -> DpEvent:
        """What one record pays for as a dp_accounting event, multipliers in units of Δ."""
        from dp_accounting import dp_event

        count = self.paid_count
        if self.mechanism == "discrete-laplace":
            # two counts move by one each, under noise of scale 2z
            event = dp_event.DiscreteLaplaceDpEvent(0.5 / self.noise_multiplier, 1)
            return dp_event.SelfComposedDpEvent(event, 2 * count)
        if self.mechanism == "laplace":
            event = dp_event.LaplaceDpEvent(self.noise_multiplier)
        else:
            event = dp_event.GaussianDpEvent(self.noise_multiplier)
        if self.sampling_rate < 1.0:
            event = dp_event.PoissonSampledDpEvent(self.sampling_rate, event)
        return dp_event.SelfComposedDpEvent(event, count) if count > 1 else event

    def scaled(self, factor: float) -> Release:
        """Return the same release with its noise multiplier times a factor.

        Parameters
        ----------
        factor : float
            Positive and finite.

        Returns
        -------
        Release
            The louder (or quieter) release.
        """
        return replace(self, noise_multiplier=self.noise_multiplier * factor)


@dataclass(frozen=True)
class Draw:
    """One noisy value that was released: what it was counted against, and its shape."""

    release: Release
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Budget:
    """An (ε, δ) budget: how much one record may show in everything that is released.

    Parameters
    ----------
    epsilon : float
        ε, positive; infinity stands for no privacy at all.
    delta : float
        δ, strictly between 0 and 1; should be far below one over the number of records.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import Budget
    >>> round(Budget(epsilon=1.0, delta=1e-6).mu, 4)
    0.2367
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = real_number(self.epsilon, "epsilon")
        if epsilon <= 0.0:
            raise InputError(
                f"epsilon must be positive (infinity means no privacy), got {epsilon!r}."
            )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", open_unit(self.delta, "delta"))

    @cached_property
    def mu(self) -> float:
        """Largest Gaussian-DP parameter within the budget, rounded down; infinite with ε."""
        return gdp_mu(self.epsilon, self.delta)


def check_delta(delta: float, n_records: int) -> None:
    """Warn if δ is not below one over the number of records of all groups.

    At δ = 1/K a mechanism that publishes one record chosen at random keeps ε = 0, so δ should be
    far smaller than that.
    """
    if delta >= 1.0 / n_records:
        warn(
            f"delta = {delta!r} is not below 1/{n_records}, one over the number of records: "
            "publishing a whole record at random would be allowed; choose a far smaller delta.",
            NoProtectionWarning,
        )


# What neighbours differ in by the name of the relation, the strongest relation first.
_SENTENCES = {
    "add-or-remove": "add or remove one record",
    "replace-one": "replace any record, its group included",
    "replace-one-within-group": "replace one record within its group",
}


@total_ordering
class Relation:
    """Which data sets are neighbours; ``str`` of it is the sentence that guarantees state.

    Relations are in order, the strongest first: what holds under one holds under every later one,
    as a replacement within a group is a replacement, and a replacement is a removal and an
    addition. So a relation is smaller than those that follow from it.

    Parameters
    ----------
    neighbours : {"add-or-remove", "replace-one", "replace-one-within-group"} or Relation
        Its name, or the sentence that belongs to it, which equals it too.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import Relation
    >>> Relation("replace-one")
    'replace any record, its group included'
    >>> Relation("replace-one") < Relation("replace-one-within-group")
    True
    """

    ADD_OR_REMOVE: ClassVar[Relation]
    REPLACE_ONE: ClassVar[Relation]
    REPLACE_ONE_WITHIN_GROUP: ClassVar[Relation]

    def __init__(self, neighbours: str | Relation) -> None:
        text = str(neighbours)
        for rank, words in enumerate(_SENTENCES.items()):
            if text in words:
                self._rank, (self.short_name, self._sentence) = rank, words
                return
        raise InputError(
            f"neighbours must be one of {', '.join(map(repr, _SENTENCES))}, got {neighbours!r}."
        )

    def __str__(self) -> str:
        return self._sentence

    def __repr__(self) -> str:
        return repr(self._sentence)

    def __eq__(self, other: object) -> bool:
        other = other._sentence if isinstance(other, Relation) else other
        return isinstance(other, str) and self._sentence == other

    def __hash__(self) -> int:
        return hash(self._sentence)

    def __lt__(self, other: Relation) -> bool:
        return self._rank < other._rank


Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE, Relation.REPLACE_ONE_WITHIN_GROUP = map(
    Relation, _SENTENCES
)
