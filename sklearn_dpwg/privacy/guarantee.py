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
from sklearn_dpwg.privacy.statement import (
    ROWS_OF_A_PERSON,
    SEVERAL_NUMBERS,
    rounded_up,
    sections,
)

if TYPE_CHECKING:
    from dp_accounting import DpEvent


@dataclass(frozen=True, repr=False)
class PrivacyGuarantee:
    """A differential-privacy guarantee that can be checked without this library.

    Parameters
    ----------
    epsilon : float
        ε at ``delta``, computed from the events; infinite where nothing is private.
    delta : float
        δ, strictly between 0 and 1.
    relation : Relation or str
        Which data sets count as neighbours: "replace-one-within-group", "replace-one" or
        "add-or-remove".
    public : tuple of str
        What is public, that is unprotected.
    events : tuple of DpEvent
        What was released, one dp_accounting event a disjoint part of the records, multipliers in
        units of the sensitivity Δ under ``relation`` (see `Release`). A record is in one part, so
        the guarantee is the pointwise maximum of δ(ε).
    seeded : bool, default=False
        Whether the noise comes from a seed; then the guarantee is void if the seed is known.
    requested_epsilon : float, optional
        The ε that was asked for, at least ``epsilon``.
    records_per_person : int, default=1
        How many records of one person are protected together.
    outside : tuple of str, default=()
        What else was learned from the records and is not covered, by name.
    groupings : tuple of str, default=()
        What the groups are made of, by name. Of several, a replacement is covered if it keeps the
        group of the record by each of them.
    of_person : bool, default=False
        Whether no person has more rows among the records than ``records_per_person``, by the word
        of whoever released: a person is then the unit, and a row is otherwise.

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
        """Account for releases, spent or planned.

        Parameters
        ----------
        releases : sequence of Release
            Every one counts with its ``paid_count``; none, for an exact solution, with a budget
            of infinite ε.
        budget : Budget or float
            The budget, whose ε the releases must keep; or just a δ.
        public : sequence of str
            What is public, that is unprotected.
        seeded : bool
            Whether the noise comes from a seed.
        relation : Relation or str
            Which neighbours the sensitivities Δ are of.

        Returns
        -------
        PrivacyGuarantee
            With the ε that the events give at δ.

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
        """Whether anything is promised at all."""
        return self.epsilon < math.inf

    @property
    def unit(self) -> str:
        """What is protected, in a word or two: a row, or a person with so many of them."""
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
            ε at least 0; infinite where nothing is private.
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
        """Return the least type-II error of any test for one record, at given type-I errors.

        Parameters
        ----------
        alphas : array-like
            Probabilities of a false alarm, in [0, 1].

        Returns
        -------
        ndarray
            Least probability to miss the record, of the same shape. Exact for Gaussian releases,
            otherwise a lower bound from the profile by duality.
        """
        values = np.asarray(alphas, dtype=np.float64)
        if not np.all((values >= 0.0) & (values <= 1.0)):
            raise InputError(f"alphas must be in [0, 1] everywhere, got {alphas!r}.")
        return type_two_errors(_compositions(self.events), values)

    def for_records(self, n_records: int) -> PrivacyGuarantee:
        """Return the guarantee of a person who owns several times the stated unit.

        Parameters
        ----------
        n_records : int
            How many units k of ``records_per_person`` rows, in whatever groups and parts.

        Returns
        -------
        PrivacyGuarantee
            At the same δ, of k units; for Gaussian releases μ becomes kμ.

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
        """Return the guarantee of a person, who has at most so many of the rows.

        Parameters
        ----------
        n_rows : int or None
            Largest number of rows of one person, in units of ``records_per_person``, which is the
            caller's word; None where nobody says it.

        Returns
        -------
        PrivacyGuarantee
            As `for_records`, and stated for a person; this one where nobody says it.
        """
        if n_rows is None:
            return self
        public = tuple(dict.fromkeys([*self.public, ROWS_OF_A_PERSON]))
        return replace(self.for_records(n_rows), public=public, of_person=True)

    def under(self, relation: Relation | str) -> PrivacyGuarantee:
        """Return what the guarantee says of other neighbours.

        Parameters
        ----------
        relation : Relation or str
            "replace-one-within-group", "replace-one" or "add-or-remove".

        Returns
        -------
        PrivacyGuarantee
            The same where this one is of "replace-one"; one of "add-or-remove" is stated for
            replacements as one of two records, with about twice its ε.

        Raises
        ------
        ValueError
            If nothing follows, as "replace-one-within-group" says nothing of a change of group.
        UnsupportedMechanismError
            If records are sampled, and it would have to be stated for two.
        """
        relation = Relation(relation)
        if self.relation > relation:
            raise InputError(
                f"a guarantee for the neighbours {self.relation.short_name!r} says nothing of the "
                f"neighbours {relation.short_name!r}, which were asked for."
            )
        if not self.relation == Relation.ADD_OR_REMOVE != relation:
            return replace(self, relation=relation)
        # a record is removed and another one added: two records of add-or-remove
        unit = {name: getattr(self, name) for name in ("records_per_person", "of_person")}
        return replace(self.for_records(2), relation=relation, **unit)

    def to_json(self) -> str:
        """Return the guarantee as a JSON object.

        Returns
        -------
        str
            Standard JSON; an infinite ε is the string "inf".
        """
        described = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("epsilon", "requested_epsilon"):
            described[name] = "inf" if described[name] == math.inf else described[name]
        described["relation"] = str(self.relation)
        described["events"] = [event_to_dict(event) for event in self.events]
        return json.dumps(described, allow_nan=False, indent=2)

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
            Equal to the one written.

        Raises
        ------
        ValueError
            If a field is not what `to_json` writes, or ε is not that of the events.
        """
        with read_json(cls, text, [field.name for field in fields(cls)]) as described:
            for name in ("epsilon", "requested_epsilon"):
                described[name] = math.inf if described[name] == "inf" else described[name]
            if not isinstance(described["events"], list):
                raise InputError(f"events must be a list, got {described['events']!r}.")
            described["events"] = [event_from_dict(event) for event in described["events"]]
            read = cls(**described)
        if read.requested_epsilon is not None and read.requested_epsilon < read.epsilon:
            raise InputError(f"requested_epsilon must be at least epsilon, {read.epsilon!r}.")
        try:
            epsilon = read.epsilon_at(read.delta)
        except (ArithmeticError, ValueError, TypeError, LookupError):
            raise InputError("events must be ones that can be accounted for together.") from None
        if not (epsilon == read.epsilon or math.isclose(epsilon, read.epsilon, rel_tol=1e-6)):
            raise InputError(
                f"epsilon must be that of the events, {epsilon!r} at delta = {read.delta!r}, got "
                f"{read.epsilon!r}."
            )
        return read

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
    """Return the distinct compositions of events."""
    return tuple(dict.fromkeys(map(composition_of_event, events)))


def guarantee_of_events(
    events: Sequence[DpEvent],
    budget: Budget | float,
    *,
    public: Sequence[str] = (),
    seeded: bool = False,
    relation: Relation | str = Relation.REPLACE_ONE_WITHIN_GROUP,
) -> PrivacyGuarantee:
    """Account for events, one a disjoint part of the records, in units of the sensitivity Δ."""
    requested = budget.epsilon if isinstance(budget, Budget) else None
    delta = budget.delta if isinstance(budget, Budget) else open_unit(budget, "delta")
    epsilon = worst_epsilon(_compositions(events), delta)
    if requested is not None and epsilon > requested:
        raise PlanExceededError(
            f"The releases cost epsilon = {epsilon!r} at delta = {delta!r}, above the budget of "
            f"{requested!r}."
        )
    stated = Relation(relation), tuple(public), tuple(events)
    return PrivacyGuarantee(epsilon, delta, *stated, seeded, requested)


def joint_guarantee(guarantees: Sequence[PrivacyGuarantee], delta: float) -> PrivacyGuarantee:
    """Return what several results on the same records promise together.

    Parameters
    ----------
    guarantees : sequence of PrivacyGuarantee
        One of each result, at least one, and of equally many records of a person, or each of a
        person's by its own number. Where they are under several relations, all are stated under
        the weakest of them.
    delta : float
        δ of all together, strictly between 0 and 1.

    Returns
    -------
    PrivacyGuarantee
        Its ``events`` cover every way in which the parts of the results may overlap, and a
        replacement that keeps the group of the record by each of its ``groupings``. Without
        privacy if one of the results is.

    Notes
    -----
    Of a person: let two data sets differ in what one person's rows hold, in all of them. Result i
    learned from at most kᵢ of these rows, which its events are for, whichever rows they were and
    whatever was drawn before. So events compose as those of one record do, also where results read
    different rows of the person. That result i read no more than kᵢ is its own word: where two
    read the same table, the larger number is true of both. `records_per_person` is the largest.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import PrivacyGuarantee, Release, joint_guarantee
    >>> one = PrivacyGuarantee.from_releases([Release("w", "gaussian", 4.3, max_count=1)], 1e-6)
    >>> joint_guarantee([one, one], 1e-6)  # μ grows by √2
    PrivacyGuarantee(epsilon=1.42705, delta=1e-06, 'replace one record within its group')
    """
    units = sorted({one.records_per_person for one in guarantees})
    # each covers whatever rows a person has in its result, so together they cover the person
    of_person = all(one.of_person for one in guarantees)
    if not units or (len(units) > 1 and not of_person):
        raise InputError(
            f"guarantees must protect equally many records of a person, got {len(units)} kinds: "
            f"{units!r}."
        )
    relation = max(one.relation for one in guarantees)
    guarantees = [one.under(relation) for one in guarantees]
    public, outside, groupings = (
        tuple(dict.fromkeys(text for one in guarantees for text in getattr(one, name)))
        for name in ("public", "outside", "groupings")
    )
    if len(units) > 1:
        public += (SEVERAL_NUMBERS.format(" or ".join(map(str, units))),)
    if not all(one.is_private for one in guarantees):
        budget = Budget(math.inf, delta)
        nothing = PrivacyGuarantee.from_releases((), budget, public=public, relation=relation)
        return replace(nothing, outside=outside)
    totals = joint_compositions(one.events for one in guarantees)
    return PrivacyGuarantee(
        worst_epsilon(totals, open_unit(delta, "delta")),
        delta,
        relation,
        public,
        tuple(map(event_of_composition, totals)),
        any(one.seeded for one in guarantees),
        records_per_person=units[-1],
        outside=outside,
        groupings=groupings,
        of_person=of_person,
    )
