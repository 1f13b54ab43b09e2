"""Plans: everything that a solver decides before it sees a record."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NoReturn, TypeVar, final

import numpy as np

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import PUBLIC_FACTS, PUBLIC_FACTS_OF_OVERLAP, Problem
from sklearn_dpwg.exceptions import InputTypeError, PlanExceededError
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Relation, Release
from sklearn_dpwg.solvers.counts import CountStage

# Bounds with a smaller relative difference count as equal: rounding may be all of it.
ALIKE = 1e-9
_T = TypeVar("_T")


@final
@dataclass(frozen=True)
class Plan:
    """Everything that a run will do and release, computed from public facts alone.

    The privacy cost is no field: `guarantee` computes it from the releases and the budget, so that
    neither a solver nor ``dataclasses.replace`` can state another one.

    Parameters
    ----------
    solver : str
        Name of the solver.
    problem : Problem
        The public facts that the plan follows from.
    budget : Budget
        The stated budget (ε, δ).
    releases : tuple of Release
        Noisy quantities computed from the records, each with its noise per unit of sensitivity and
        its number of draws; none for the exact solution.
    schedule : object
        The solver's own public numbers: step-size rules, prior, clips (a frozen dataclass).
    predicted_excess_if_worst : sequence of float
        For each group, the planning bound on the excess of the worst group's risk, in units of the
        loss, if that group is the worst-off one, which nobody knows before the run.
    n_steps : int, default=0
        Number of steps of the solver.
    early_stop : bool, default=False
        Whether a run may make fewer releases than planned; the budget pays for all anyway.
    n_drawn : int, optional
        Largest number of records that a run reads, where it need not read all.
    remark : str, default=""
        A sentence for readers of the plan, such as why this solver was chosen.
    records_per_person : int, default=1
        Number of rows of one person that the budget protects together; one row costs less.
    counts : CountStage, optional
        First stage for hidden groups: its releases come first in `releases`, and the cost of the
        plan is that of the counts and of the releases reserved before the counts were drawn.
    of_person : bool, default=False
        Whether the guarantee is stated for persons, as the caller says that nobody has more rows.
    """

    solver: str
    problem: Problem
    budget: Budget
    releases: tuple[Release, ...]
    schedule: Any
    predicted_excess_if_worst: Sequence[float] | FloatArray
    n_steps: int = 0
    early_stop: bool = False
    n_drawn: int | None = None
    remark: str = ""
    records_per_person: int = 1
    counts: CountStage | None = None
    of_person: bool = False

    __repr__ = short_repr

    def __init_subclass__(cls) -> NoReturn:
        raise InputTypeError("Plan has no subclasses: its guarantee is that of its releases.")

    def __post_init__(self) -> None:
        # a list could be emptied later, and a subclass of Release could misstate its noise
        object.__setattr__(self, "releases", tuple(self.releases))
        bounds = tuple(map(float, self.predicted_excess_if_worst))
        object.__setattr__(self, "predicted_excess_if_worst", bounds)
        for value in (*self.releases, self.budget):
            if type(value) is not (Budget if value is self.budget else Release):
                raise InputTypeError(f"a plan is made of a Budget and of Releases, got {value!r}.")
        if self.counts is not None:
            n_counts = len(self.counts.releases)
            if self.releases[:n_counts] != self.counts.releases:
                raise PlanExceededError(
                    "a plan with hidden groups must release their counts first."
                )
            if not self.counts.covers(self.releases[n_counts:]):
                raise PlanExceededError(
                    "what follows the counts of hidden groups must cost no more than what was "
                    f"fixed before them, {self.counts.reserved!r}, got {self.releases!r}."
                )

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """Privacy guarantee of all releases together; PlanExceededError above the budget."""
        public: tuple[str, ...] = PUBLIC_FACTS
        if self.counts is None:
            paid_releases, relation = self.releases, Relation.REPLACE_ONE_WITHIN_GROUP
            if self.problem.cells is not None:
                public = PUBLIC_FACTS_OF_OVERLAP
        else:  # the reserved releases cost at least as much as those that follow the counts
            assert self.problem.hidden is not None
            paid_releases = (*self.counts.releases, *self.counts.reserved)
            relation, public = Relation.REPLACE_ONE, self.problem.hidden.public_facts
        cost = _guarantee(paid_releases, self.budget, self.records_per_person, public, relation)
        return cost.for_person(1) if self.of_person else cost

    @property
    def second_stage(self) -> Plan:
        """The plan that the solver runs: without the counts of hidden groups, if any."""
        if self.counts is None:
            return replace(self)
        return replace(
            self,
            releases=self.releases[len(self.counts.releases) :],
            budget=self.counts.budget,
            counts=None,
            records_per_person=1,
            of_person=False,
        )

    @property
    def predicted_excess(self) -> float:
        """Planning bound on the excess worst-group risk, averaged by the prior of the groups."""
        return float(np.asarray(self.problem.prior) @ np.asarray(self.predicted_excess_if_worst))

    def __str__(self) -> str:
        """Return a preview for people: releases, noise, schedule, predictions and guarantee."""
        return f"{self._without_guarantee()}\n\n{self.guarantee}"

    def _without_guarantee(self) -> str:
        """Return the preview less the guarantee, for fits with a guarantee over several plans."""
        problem, count_lines = self.problem, str(self.counts or "").splitlines()
        lines = [
            f"Plan of solver {self.solver!r}: {problem.n_records:,} records in "
            f"{problem.n_groups} group(s), {problem.n_weights:,} weights, {self.n_steps:,} steps",
            *(sentence for sentence in (self.remark, problem.game) if sentence),
            *(["", *count_lines] if count_lines else []),
            "",
            "Releases (noise in units of what one record can change, fixed beforehand):",
            *map(_release_line, self.releases),
        ]
        if not self.releases:
            lines.append("  none: the exact solution, without any privacy")
        lines += ["", "Schedule:", *(f"  {line}" for line in str(self.schedule).splitlines())]
        if self.releases:
            lines += [
                "",
                "Predicted:",
                f"  the worst-off group's mean loss at most {self.predicted_excess:.3g} above the "
                f"least possible (a bound); predicting nothing costs at most "
                f"{problem.constants.zero_score:.3g}",
            ]
        return "\n".join(lines)


def _release_line(release: Release) -> str:
    """Return one line of the preview: a release, its noise, and the records that it reads."""
    text = (
        f"  {release.name}: {release.max_count:,} x {release.mechanism}, noise multiplier "
        f"{release.noise_multiplier:.4g}"
    )
    if release.part is not None:
        text += f", of part {release.part} of the records"
    if release.sampling_rate < 1.0:
        text += f", a record joins with probability {release.sampling_rate:.3g}"
    if release.paid_count < release.max_count:
        text += f", of which a record moves {release.paid_count:,}"
    return text


@lru_cache(maxsize=256)
def _guarantee(
    releases: tuple[Release, ...],
    budget: Budget,
    records_per_person: int,
    public: tuple[str, ...],
    relation: Relation,
) -> PrivacyGuarantee:
    """Return the guarantee of releases within the budget; cached by value, outside of plans."""
    if not releases:
        return PrivacyGuarantee.from_releases((), budget).for_records(records_per_person)
    facts: dict[str, Any] = {"public": public, "relation": relation}
    if records_per_person == 1:
        return PrivacyGuarantee.from_releases(releases, budget, **facts)
    row_guarantee = PrivacyGuarantee.from_releases(releases, budget.delta, **facts)
    person_guarantee = row_guarantee.for_records(records_per_person)
    if person_guarantee.epsilon > budget.epsilon:
        raise PlanExceededError(
            f"the releases cost a person with {records_per_person} rows epsilon = "
            f"{person_guarantee.epsilon!r} at delta = {budget.delta!r}, above the budget of "
            f"{budget.epsilon!r}."
        )
    return replace(person_guarantee, requested_epsilon=budget.epsilon)


def first_with_least_bound(candidates: Iterable[_T], bound: Callable[[_T], float]) -> _T:
    """Return the candidate with the least bound; the first of several equal up to rounding."""
    remaining = iter(candidates)
    best = next(remaining)
    least_bound = bound(best)
    for candidate in remaining:
        value = bound(candidate)
        if value < least_bound and not math.isclose(value, least_bound, rel_tol=ALIKE):
            best, least_bound = candidate, value
    return best
