"""Guarantee of a fit, in numbers and in words."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._checks import FloatArray, non_negative, open_unit, read_json, whole_number
from sklearn_dpwg.exceptions import InputError, InputTypeError, PlanExceededError
from sklearn_dpwg.privacy.accounting.calibration import (
    events_for_records,
    type_two_errors,
    worst_deltas,
    worst_epsilon,
)
from sklearn_dpwg.privacy.accounting.composition import (
    Composition,
    composition_of_event,
    event_from_dict,
    event_of_composition,
    event_to_dict,
    joint_compositions,
    part_events,
)
from sklearn_dpwg.privacy.release import Budget, Relation, Release
from sklearn_dpwg.privacy.statement import ROWS_OF_A_PERSON, SEVERAL_NUMBERS, rounded_up, sections

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, repr=False)
class PrivacyGuarantee:
    """A differential-privacy guarantee that can be checked without this library.

    Parameters
    ----------
    epsilon : float
        ε at ``delta``, computed from the events; infinite without privacy.
    delta : float
        δ, strictly between 0 and 1.
    relation : Relation or str
        Which data sets count as neighbours: "replace-one-within-group", "replace-one" or
        "add-or-remove".
    public : tuple of str
        What is public, that is unprotected.
    events : tuple of DpEvent
        What was released: one dp_accounting event for each disjoint part of the records, noise
        multipliers in units of the sensitivity Δ under ``relation`` (see `Release`). A record is
        in one part, so the guarantee is the pointwise maximum of δ(ε) over the events.
    seeded : bool, default=False
        Whether the noise comes from a seed. The guarantee is void for whoever knows the seed.
    requested_epsilon : float, optional
        ε of the budget, at least ``epsilon``.
    records_per_person : int, default=1
        How many records of one person are protected together.
    outside : tuple of str, default=()
        Names of what else was learned from the records and is not covered.
    groupings : tuple of str, default=()
        Names of the columns or rules that define the groups. A replacement is covered if the
        record keeps its group under every one of them.
    of_person : bool, default=False
        Whether the caller vouches that no person has more than ``records_per_person`` rows. The
        unit of privacy is then a person, otherwise a row.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release, calibrate
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> releases = calibrate([Release("weights", "gaussian", 1.0, max_count=1)], budget)
    >>> guarantee = PrivacyGuarantee.from_releases(releases, budget)
    >>> guarantee
    PrivacyGuarantee(epsilon=0.999999, delta=1e-06, 'replace one record within its group')
    >>> round(guarantee.epsilon_at(1e-9), 3)
    1.318
    """

    epsilon: float
    delta: float
    relation: Relation
    public: tuple[str, ...]
    events: tuple[DpEvent, ...]
    seeded: bool = False
    requested_epsilon: float | None = None
    records_per_person: int = 1
    outside: tuple[str, ...] = ()
    groupings: tuple[str, ...] = ()
    of_person: bool = False

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "epsilon": non_negative(self.epsilon, "epsilon"),
            "delta": open_unit(self.delta, "delta"),
            "relation": Relation(self.relation),
            "events": tuple(self.events),
            "records_per_person": whole_number(
                self.records_per_person, "records_per_person", least=1
            ),
        }
        if self.requested_epsilon is not None:
            checked["requested_epsilon"] = non_negative(self.requested_epsilon, "requested_epsilon")
        for name in ("public", "outside", "groupings"):
            texts = getattr(self, name)
            if not isinstance(texts, list | tuple) or not set(map(type, texts)) <= {str}:
                raise InputTypeError(f"{name} must be a sequence of strings, got {texts!r}.")
            checked[name] = tuple(texts)
        for name in ("seeded", "of_person"):
            if not isinstance(getattr(self, name), bool):
                raise InputTypeError(f"{name} must be true or false, got {getattr(self, name)!r}.")
        if not checked["events"]:
            raise InputError("events must hold at least one event.")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_releases(
        cls,
        releases: Sequence[Release],
        budget: Budget | float,
        *,
        public: Sequence[str] = (),
        seeded: bool = False,
        relation: Relation | str = Relation.REPLACE_ONE_WITHIN_GROUP,
    ) -> PrivacyGuarantee:
        """Compute the guarantee of releases, spent or planned.

        Parameters
        ----------
        releases : sequence of Release
            Each counts with its ``paid_count``. Empty for an exact solution, whose budget must
            have infinite ε.
        budget : Budget or float
            The budget, whose ε the releases must not exceed; or a δ without a bound on ε.
        public : sequence of str
            What is public, that is unprotected.
        seeded : bool
            Whether the noise comes from a seed.
        relation : Relation or str
            Which data sets are neighbours; the sensitivities Δ bound moves between these.

        Returns
        -------
        PrivacyGuarantee
            Its ``epsilon`` is that of the events at δ.

        Raises
        ------
        PlanExceededError
            If the releases cost more than the budget.
        """
        from dp_accounting import dp_event

        is_exact = not releases and isinstance(budget, Budget) and budget.epsilon == math.inf
        events = (dp_event.NonPrivateDpEvent(),) if is_exact else part_events(releases)
        return guarantee_of_events(events, budget, public=public, seeded=seeded, relation=relation)

    @property
    def is_private(self) -> bool:
        """Whether ε is finite: an infinite ε promises nothing."""
        return self.epsilon < math.inf

    @property
    def unit(self) -> str:
        """The unit of privacy in words, as "1 row" or "person, 3 rows"."""
        rows = "1 row" if self.records_per_person == 1 else f"{self.records_per_person} rows"
        return f"person, {rows}" if self.of_person else rows

    def epsilon_at(self, delta: float) -> float:
        """Return the ε of the same releases at another δ.

        Parameters
        ----------
        delta : float
            δ, strictly between 0 and 1.

        Returns
        -------
        float
            ε, at least 0; infinite without privacy.
        """
        return worst_epsilon(_compositions(self.events), open_unit(delta, "delta"))

    def profile(self, epsilons: ArrayLike) -> FloatArray:
        """Return the privacy profile: the pointwise maximum of δ(ε) over the parts.

        Parameters
        ----------
        epsilons : array-like
            Values of ε, at least 0.

        Returns
        -------
        ndarray
            δ at every ε, of the same shape.
        """
        values = np.asarray(epsilons, dtype=np.float64)
        if not np.all(values >= 0.0):
            raise InputError(f"epsilons must be at least 0 everywhere, got {epsilons!r}.")
        return worst_deltas(_compositions(self.events), values)

    def tradeoff(self, alphas: ArrayLike) -> FloatArray:
        """Return the least type-II error of any test for one record at each type-I error.

        Parameters
        ----------
        alphas : array-like
            Type-I errors: probabilities of a false alarm, in [0, 1].

        Returns
        -------
        ndarray
            Least probability that the test misses the record, of the same shape. Exact for
            Gaussian releases, otherwise a lower bound that follows from δ(ε) by duality.
        """
        values = np.asarray(alphas, dtype=np.float64)
        if not np.all((values >= 0.0) & (values <= 1.0)):
            raise InputError(f"alphas must be in [0, 1] everywhere, got {alphas!r}.")
        return type_two_errors(_compositions(self.events), values)

    def for_records(self, n_records: int) -> PrivacyGuarantee:
        """Return the guarantee for k units of privacy together (group privacy).

        Parameters
        ----------
        n_records : int
            Number k of units, each of ``records_per_person`` rows, in any groups and parts.

        Returns
        -------
        PrivacyGuarantee
            The guarantee for k units at the same δ; for Gaussian releases μ becomes kμ.

        Raises
        ------
        UnsupportedMechanismError
            If records are sampled: no tight statement is known to us.
        """
        if whole_number(n_records, "n_records", least=1) == 1:
            return self
        several = replace(
            self, records_per_person=self.records_per_person * n_records, of_person=False
        )
        if not self.is_private:
            return several
        events = events_for_records(self.events, n_records)
        epsilon = worst_epsilon(_compositions(events), self.delta)
        return replace(several, epsilon=epsilon, events=events, requested_epsilon=None)

    def for_person(self, n_rows: int | None) -> PrivacyGuarantee:
        """Return the guarantee whose unit is a person with at most ``n_rows`` units of rows.

        Parameters
        ----------
        n_rows : int or None
            Largest number of rows of one person, in units of ``records_per_person``. The caller
            vouches for this number; None if nobody does.

        Returns
        -------
        PrivacyGuarantee
            That of `for_records` with a person as the unit; for None this guarantee, unchanged.
        """
        if n_rows is None:
            return self
        public = tuple(dict.fromkeys([*self.public, ROWS_OF_A_PERSON]))
        return replace(self.for_records(n_rows), public=public, of_person=True)

    def under(self, relation: Relation | str) -> PrivacyGuarantee:
        """Return the guarantee that follows under another definition of neighbours.

        Parameters
        ----------
        relation : Relation or str
            "replace-one-within-group", "replace-one" or "add-or-remove".

        Returns
        -------
        PrivacyGuarantee
            With the same ε if this one is under "replace-one". From "add-or-remove" to
            replacements it becomes a guarantee for two records, with about twice the ε.

        Raises
        ------
        ValueError
            If nothing follows: "replace-one-within-group" implies nothing about a record that
            changes its group.
        UnsupportedMechanismError
            If the guarantee for two records is needed and records are sampled.
        """
        relation = Relation(relation)
        if self.relation > relation:
            raise InputError(
                f"a guarantee for the neighbours {self.relation.short_name!r} says nothing of the "
                f"neighbours {relation.short_name!r}, which were asked for."
            )
        if self.relation == relation or self.relation != Relation.ADD_OR_REMOVE:
            return replace(self, relation=relation)
        # a replacement removes one record and adds another: two records under add-or-remove, but
        # the unit of privacy is as before
        unit = {name: getattr(self, name) for name in ("records_per_person", "of_person")}
        return replace(self.for_records(2), relation=relation, **unit)

    def to_json(self) -> str:
        """Return the guarantee as a JSON object.

        Returns
        -------
        str
            Standard JSON; an infinite ε is the string "inf".
        """
        json_fields = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("epsilon", "requested_epsilon"):
            json_fields[name] = "inf" if json_fields[name] == math.inf else json_fields[name]
        json_fields["relation"] = str(self.relation)
        json_fields["events"] = [event_to_dict(event) for event in self.events]
        return json.dumps(json_fields, allow_nan=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> PrivacyGuarantee:
        """Return the guarantee that `to_json` wrote.

        Parameters
        ----------
        text : str
            The JSON object.

        Returns
        -------
        PrivacyGuarantee
            Equal to the guarantee that was written.

        Raises
        ------
        ValueError
            If a field has a value that `to_json` does not write, or ε is not that of the events.
        """
        with read_json(cls, text, [field.name for field in fields(cls)]) as json_fields:
            for name in ("epsilon", "requested_epsilon"):
                json_fields[name] = math.inf if json_fields[name] == "inf" else json_fields[name]
            if not isinstance(json_fields["events"], list):
                raise InputError(f"events must be a list, got {json_fields['events']!r}.")
            json_fields["events"] = [event_from_dict(event) for event in json_fields["events"]]
            guarantee = cls(**json_fields)
        stated, requested = guarantee.epsilon, guarantee.requested_epsilon
        if requested is not None and requested < stated:
            raise InputError(f"requested_epsilon must be at least epsilon, {stated!r}.")
        # other versions of dp_accounting or scipy may round ε otherwise: hence the tolerance
        try:
            computed = guarantee.epsilon_at(guarantee.delta)
        except (ArithmeticError, ValueError, TypeError, LookupError):
            raise InputError("events must be ones that can be accounted for together.") from None
        if not (computed == stated or math.isclose(computed, stated, rel_tol=1e-6)):
            raise InputError(
                f"epsilon must be that of the events, {computed!r} at delta = "
                f"{guarantee.delta!r}, got {stated!r}."
            )
        return guarantee

    def __repr__(self) -> str:
        facts = [
            f"epsilon={rounded_up(self.epsilon, 6)}",
            f"delta={rounded_up(self.delta, 6)}",
            repr(self.relation),
        ]
        if self.records_per_person > 1:
            facts.append(f"records_per_person={self.records_per_person}")
        if self.seeded:
            facts.append("seeded=True")
        return f"PrivacyGuarantee({', '.join(facts)})"

    def __str__(self) -> str:
        return "\n".join(map(str, sections(self)))


def _compositions(events: Sequence[DpEvent]) -> tuple[Composition, ...]:
    """Return the compositions that the events describe, without duplicates."""
    return tuple(dict.fromkeys(map(composition_of_event, events)))


def guarantee_of_events(
    events: Sequence[DpEvent],
    budget: Budget | float,
    *,
    public: Sequence[str] = (),
    seeded: bool = False,
    relation: Relation | str = Relation.REPLACE_ONE_WITHIN_GROUP,
) -> PrivacyGuarantee:
    """Compute the guarantee of events, one for each disjoint part, as `from_releases` does."""
    requested = budget.epsilon if isinstance(budget, Budget) else None
    delta = budget.delta if isinstance(budget, Budget) else open_unit(budget, "delta")
    epsilon = worst_epsilon(_compositions(events), delta)
    if requested is not None and epsilon > requested:
        raise PlanExceededError(
            f"The releases cost epsilon = {epsilon!r} at delta = {delta!r}, above the budget of "
            f"{requested!r}."
        )
    return PrivacyGuarantee(
        epsilon=epsilon,
        delta=delta,
        relation=Relation(relation),
        public=tuple(public),
        events=tuple(events),
        seeded=seeded,
        requested_epsilon=requested,
    )


def joint_guarantee(guarantees: Sequence[PrivacyGuarantee], delta: float) -> PrivacyGuarantee:
    """Compose the guarantees of several results on the same records into one.

    Parameters
    ----------
    guarantees : sequence of PrivacyGuarantee
        One for each result, at least one. ``records_per_person`` must be equal, or the unit of
        each must be a person. Under several relations, all are restated under the weakest.
    delta : float
        δ of the joint guarantee, strictly between 0 and 1.

    Returns
    -------
    PrivacyGuarantee
        Its ``events`` cover every way in which the parts of the results may overlap, and a
        replacement that keeps the group of the record under each of its ``groupings``. Its ε is
        infinite if that of one result is.

    Notes
    -----
    If the unit is a person: let two data sets differ in what the rows of one person hold. Result i
    read at most kᵢ of these rows, and its events cover kᵢ rows, whichever they were and whatever
    was drawn before. So the events compose as those of one record do, also if results read
    different rows of the person. That result i read at most kᵢ rows of a person is what its caller
    states: if two results read the same table, the larger number is true of both.
    ``records_per_person`` is the largest kᵢ.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import PrivacyGuarantee, Release, joint_guarantee
    >>> one = PrivacyGuarantee.from_releases([Release("w", "gaussian", 4.3, max_count=1)], 1e-6)
    >>> joint_guarantee([one, one], 1e-6)  # μ grows by √2
    PrivacyGuarantee(epsilon=1.42705, delta=1e-06, 'replace one record within its group')
    """
    row_counts = sorted({guarantee.records_per_person for guarantee in guarantees})
    # each covers all rows that a person has in its result, so together they cover the person
    of_person = all(guarantee.of_person for guarantee in guarantees)
    if not row_counts or (len(row_counts) > 1 and not of_person):
        raise InputError(
            f"guarantees must protect equally many records of a person, got {len(row_counts)} "
            f"kinds: {row_counts!r}."
        )
    weakest_relation = max(guarantee.relation for guarantee in guarantees)
    guarantees = [guarantee.under(weakest_relation) for guarantee in guarantees]
    public, outside, groupings = (
        # without duplicates, in the order of the guarantees
        tuple(dict.fromkeys(text for guarantee in guarantees for text in getattr(guarantee, name)))
        for name in ("public", "outside", "groupings")
    )
    if len(row_counts) > 1:
        public += (SEVERAL_NUMBERS.format(" or ".join(map(str, row_counts))),)
    if not all(guarantee.is_private for guarantee in guarantees):
        no_privacy = PrivacyGuarantee.from_releases(
            (), Budget(math.inf, delta), public=public, relation=weakest_relation
        )
        return replace(no_privacy, outside=outside)
    compositions = joint_compositions(guarantee.events for guarantee in guarantees)
    return PrivacyGuarantee(
        epsilon=worst_epsilon(compositions, open_unit(delta, "delta")),
        delta=delta,
        relation=weakest_relation,
        public=public,
        events=tuple(map(event_of_composition, compositions)),
        seeded=any(guarantee.seeded for guarantee in guarantees),
        records_per_person=row_counts[-1],
        outside=outside,
        groupings=groupings,
        of_person=of_person,
    )
