"""Releases, draws and budgets, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, total_ordering
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from sklearn_dpwg._checks import open_unit, positive_finite, real_number, whole_number
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
        Distribution of the noise, independent in every coordinate. "discrete-laplace" is noise on
        whole numbers, for counts of records in disjoint cells: a record moves at most two counts,
        each by one.
    noise_multiplier : float
        Noise per unit of sensitivity: σ/Δ with the standard deviation σ and Δ in the L2 norm for
        Gaussian noise, b/Δ with the scale b and Δ in the L1 norm for Laplace noise. The
        sensitivity Δ bounds how far the value moves between neighbours, most often if one record
        is replaced by another one of the same group. Δ is 2 for discrete Laplace noise.
    max_count : int
        Largest number of draws; all of them are paid for, used or not.
    part : int, optional
        Index of the disjoint part of the records that the value is computed from. With the
        default None it may read every record, so every part pays for it. The part of a record must
        not depend on its values: a replaced record stays in its part.
    sampling_rate : float, default=1.0
        Probability with which each record joins, independently and afresh for every draw
        (Poisson sampling). Only Gaussian releases may be sampled.
    draws_per_record : int, optional
        Number of draws that one record can move and pays for, if each draw reads one of several
        disjoint batches, or one group. The default None means all draws. For Gaussian noise, each
        draw names its group to the `NoiseSource`, which refuses more draws of a group.

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
        if self.mechanism not in (mechanisms := get_args(Mechanism)):
            raise InputError(f"mechanism must be one of {mechanisms}, got {self.mechanism!r}.")
        rate = real_number(self.sampling_rate, "sampling_rate")
        if not 0.0 < rate <= 1.0:
            raise InputError(f"sampling_rate must be above 0 and at most 1, got {rate!r}.")
        if rate < 1.0 and self.mechanism != "gaussian":
            raise UnsupportedMechanismError(
                "Poisson-sampled Laplace noise has no tight accountant when records are replaced; "
                "use the mechanism 'gaussian' or a sampling_rate of 1."
            )
        checked_values: dict[str, float] = {
            "noise_multiplier": positive_finite(self.noise_multiplier, "noise_multiplier"),
            "max_count": whole_number(self.max_count, "max_count", least=1),
            "sampling_rate": rate,
        }
        for optional, least in (("part", 0), ("draws_per_record", 1)):
            if (value := getattr(self, optional)) is not None:
                checked_values[optional] = whole_number(value, optional, least=least)
        if checked_values.get("draws_per_record", 1) > checked_values["max_count"]:
            raise InputError(
                f"draws_per_record must be at most max_count, {self.max_count}, got "
                f"{self.draws_per_record}."
            )
        for field, value in checked_values.items():
            object.__setattr__(self, field, value)

    @property
    def paid_count(self) -> int:
        """Number of draws that one record pays for."""
        return self.max_count if self.draws_per_record is None else self.draws_per_record

    @property
    def event(self) -> DpEvent:
        """The dp_accounting event that one record pays for, noise multiplier in units of Δ."""
        from dp_accounting import dp_event

        count = self.paid_count
        if self.mechanism == "discrete-laplace":
            # Δ = 2, so the scale is 2z; a record moves two counts by one: two events of shift 1
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
            Equal but for its noise multiplier.
        """
        return replace(self, noise_multiplier=self.noise_multiplier * factor)


@dataclass(frozen=True)
class Draw:
    """One noisy value that was released: the release that paid for it, and the value's shape."""

    release: Release
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Budget:
    """An (ε, δ) budget: the privacy loss that all releases together may cause to one record.

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
        """Largest μ for which μ-GDP implies (ε, δ)-DP, rounded down; infinite for infinite ε."""
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


# The sentence of each relation by its short name, the strongest relation first.
_SENTENCES = {
    "add-or-remove": "add or remove one record",
    "replace-one": "replace any record, its group included",
    "replace-one-within-group": "replace one record within its group",
}


@total_ordering
class Relation:
    """Which data sets are neighbours; ``str`` of it is the sentence that guarantees state.

    A smaller relation is stronger: a guarantee under it implies one under each larger relation,
    because a replacement within a group is a replacement, and a replacement is a removal and an
    addition (which doubles the number of changes).

    Parameters
    ----------
    neighbours : {"add-or-remove", "replace-one", "replace-one-within-group"} or Relation
        Short name or sentence of the relation; a relation is equal to its sentence.

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
        for rank, (short_name, sentence) in enumerate(_SENTENCES.items()):
            if text in (short_name, sentence):
                self._rank, self.short_name, self._sentence = rank, short_name, sentence
                return
        raise InputError(
            f"neighbours must be one of {', '.join(map(repr, _SENTENCES))}, got {neighbours!r}."
        )

    def __str__(self) -> str:
        return self._sentence

    def __repr__(self) -> str:
        return repr(self._sentence)

    def __eq__(self, other: object) -> bool:
        sentence = other._sentence if isinstance(other, Relation) else other
        return isinstance(sentence, str) and self._sentence == sentence

    def __hash__(self) -> int:
        return hash(self._sentence)

    def __lt__(self, other: Relation) -> bool:
        return self._rank < other._rank


Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE, Relation.REPLACE_ONE_WITHIN_GROUP = map(
    Relation, _SENTENCES
)
