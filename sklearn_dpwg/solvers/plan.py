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

# Bounds that differ by less, relatively, differ by how they were rounded.
ALIKE = 1e-9

_T = TypeVar("_T")


@final
@dataclass(frozen=True)
class Plan:
    """Everything a run will do, made from public facts alone.

    What it costs is no field: `guarantee` follows from the releases and the budget, so that neither
    a solver nor ``dataclasses.replace`` can make it say anything else.

    Parameters
    ----------
    solver : str
        Name of the solver.
    problem : Problem
        The public facts that the plan was made from.
    budget : Budget
        The (ε, δ) that was asked for.
    releases : tuple of Release
        What will leave the records, with noise per unit of sensitivity and counts; none for the
        exact solution.
    schedule : object
        The solver's own public numbers: step-size rules, prior, clips (a frozen dataclass).
    predicted_excess_if_worst : sequence of float
        For each group the planning bound on the excess risk of the worst-off group, in units of
        the loss, if that group, known to nobody, is the worst-off one.
    n_steps : int, default=0
        Steps of the solver.
    early_stop : bool, default=False
        Whether a run may release less than planned; all of it is paid for anyway.
    n_drawn : int, optional
        Most records that a run reads, where it need not read all.
    remark : str, default=""
        What else a reader of the plan should know, such as why this solver was chosen.
    records_per_person : int, default=1
        How many rows of one person the budget is for. The releases cost a row less.
    counts : CountStage, optional
        Where groups are hidden, the first stage: its release is the first of `releases`, and what
        the plan costs is what was fixed before it.
    of_person : bool, default=False
        Whether the caller says that nobody has more rows, so that a person is the unit.
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
        # a list could be emptied later, and a subclass could say that it is another release
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
        """What the releases cost together, of which no plan may state anything else."""
        if self.counts is None:
            paid, relation = self.releases, Relation.REPLACE_ONE_WITHIN_GROUP
            of_overlap = self.problem.cells is not None
            public: tuple[str, ...] = PUBLIC_FACTS_OF_OVERLAP if of_overlap else PUBLIC_FACTS
        else:
            assert self.problem.hidden is not None
            paid, relation = (*self.counts.releases, *self.counts.reserved), Relation.REPLACE_ONE
            public = self.problem.hidden.public_facts
        cost = _guarantee(paid, self.budget, self.records_per_person, public, relation)
        return cost.for_person(1) if self.of_person else cost

    @property
    def second_stage(self) -> Plan:
        """The solver's own plan: this one, or what comes after the counts of hidden groups."""
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
        """Return a preview for people: releases, noise, predictions, guarantee."""
        return f"{self._without_guarantee()}\n\n{self.guarantee}"

    def _without_guarantee(self) -> str:
        """Return a preview of a fit that another guarantee covers with more."""
        problem, counts = self.problem, str(self.counts or "").splitlines()
        lines = [
            f"Plan of solver {self.solver!r}: {problem.n_records:,} records in "
            f"{problem.n_groups} group(s), {problem.n_weights:,} weights, {self.n_steps:,} steps",
            *(each for each in (self.remark, problem.game) if each),
            *(["", *counts] if counts else []),
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
    """Return what is released, with how much noise, and who pays for it."""
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
    """Account for the releases of a plan; kept by value, so that no plan can hold another."""
    if not releases:
        return PrivacyGuarantee.from_releases((), budget).for_records(records_per_person)
    stated: dict[str, Any] = {"public": public, "relation": relation}
    if records_per_person == 1:
        return PrivacyGuarantee.from_releases(releases, budget, **stated)
    of_row = PrivacyGuarantee.from_releases(releases, budget.delta, **stated)
    of_person = of_row.for_records(records_per_person)
    if of_person.epsilon > budget.epsilon:
        raise PlanExceededError(
            f"the releases cost a person with {records_per_person} rows epsilon = "
            f"{of_person.epsilon!r} at delta = {budget.delta!r}, above the budget of "
            f"{budget.epsilon!r}."
        )
    return replace(of_person, requested_epsilon=budget.epsilon)


def first_of_least(candidates: Iterable[_T], bound: Callable[[_T], float]) -> _T:
    """Return the candidate of the least bound; of those alike but for rounding, the first."""
    each = iter(candidates)
    best = next(each)
    least = bound(best)
    for candidate in each:
        value = bound(candidate)
        if value < least and not math.isclose(value, least, rel_tol=ALIKE):
            best, least = candidate, value
    return best
