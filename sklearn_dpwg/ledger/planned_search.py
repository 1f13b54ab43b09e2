"""What a search of scikit-learn will cost, from public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.model_selection import (
    GridSearchCV,
    ParameterGrid,
    ParameterSampler,
    RandomizedSearchCV,
)

from sklearn_dpwg import exceptions
from sklearn_dpwg.exceptions import InputError, InputTypeError, UnsupportedMechanismError
from sklearn_dpwg.ledger.costs import (
    PublicFacts,
    candidate_of,
    costs_in,
    dearest,
    n_folds_of,
    planned_fits,
)
from sklearn_dpwg.ledger.file import LedgerRow, total_epsilon
from sklearn_dpwg.ledger.folds import folds_outside
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, joint_guarantee
from sklearn_dpwg.privacy.statement import rounded_up


@dataclass(frozen=True)
class PlannedSearch:
    """Cost of a search that was not made yet; print it.

    Parameters
    ----------
    fits : tuple of PrivacyGuarantee
        What each fit will cost, the refit last.
    refits : int
        How many of them are on all records, at the end.
    delta, budget : float
        δ and ε of the ledger.
    epsilon_spent, epsilon_after : float
        ε that the ledger has spent so far, and will have spent after the search, with the private
        fits that its candidates begin with.
    outside : tuple of str, default=()
        What these numbers do not cover: folds that labels decide, or hidden groups.
    """

    fits: tuple[PrivacyGuarantee, ...]
    refits: int
    delta: float
    budget: float
    epsilon_spent: float
    epsilon_after: float
    outside: tuple[str, ...] = ()

    @property
    def n_fits(self) -> int:
        """Number of fits, the refit among them."""
        return len(self.fits)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """What all fits of the search promise together."""
        joint = joint_guarantee(list(self.fits), self.delta)
        return replace(joint, outside=(*joint.outside, *self.outside))

    @property
    def is_affordable(self) -> bool:
        """Whether the ledger can pay for every fit, the refit too."""
        return self.epsilon_after <= self.budget

    def __str__(self) -> str:
        """Return a preview for people."""
        each = sorted({rounded_up(fit.epsilon) for fit in self.fits}, key=float)
        verdict = (
            f"leaves room up to the budget of {self.budget:g}"
            if self.is_affordable
            else f"is above the budget of {self.budget:g}: fewer candidates or folds, or a "
            f"smaller epsilon each, would do"
        )
        return (
            f"Search of {self.n_fits} fits, {self.refits} of them on all records.\n"
            f"Each costs epsilon={' or '.join(each)}; all together epsilon="
            f"{rounded_up(self.guarantee.epsilon)} at delta={self.delta:g}, and the choice "
            f"is not covered unless it is private itself.\n"
            f"The ledger has spent epsilon={rounded_up(self.epsilon_spent)}, and "
            f"{rounded_up(self.epsilon_after)} after it, which {verdict}."
            + "".join(f"\nNot covered: {said}." for said in self.outside)
        )


def plan_search(
    search: Any, facts: PublicFacts, rows: Sequence[LedgerRow], budget: Budget
) -> PlannedSearch:
    """Return what a search costs beside what a ledger of a budget has charged."""
    fits, refits = _fits_of(search, facts)
    known = {row.key for row in rows}
    starts = [cost for cost in costs_in(search.get_params()) if cost.key not in known]
    spent = [row.guarantee for row in rows]
    after = [*spent, *(cost.guarantee for cost in starts), *fits]
    outside = tuple(folds_outside(search))
    if outside:
        words = f"outside what the fits cost: {'; '.join(outside)}."
        exceptions.warn(words, exceptions.OutsideGuaranteeWarning)
    return PlannedSearch(
        fits=tuple(fits),
        refits=refits,
        delta=budget.delta,
        budget=budget.epsilon,
        epsilon_spent=total_epsilon(spent, budget.delta),
        epsilon_after=total_epsilon(after, budget.delta),
        outside=outside,
    )


def _fits_of(search: Any, facts: PublicFacts) -> tuple[list[PrivacyGuarantee], int]:
    """Return what every fit of a search costs, and how many of them, the last ones, are its refit.

    The refit is the one of the dearest candidate, as which wins is not known.
    """
    if hasattr(search, "planned_guarantee"):  # which follows from the parameters alone
        return [search.planned_guarantee()], 0
    if not isinstance(search, GridSearchCV | RandomizedSearchCV):
        raise InputTypeError(
            f"search must be a GridSearchCV, RandomizedSearchCV or DPSearchCV, as the number of "
            f"fits of others is not known before, got {type(search).__name__}."
        )
    folds: list[PrivacyGuarantee] = []
    refits: list[list[PrivacyGuarantee]] = [[]]
    try:
        n_folds = n_folds_of(search.cv)
        sizes = [max(1, size * (n_folds - 1) // n_folds) for size in facts.group_sizes_]
        for parameters in _candidates_of(search):
            candidate = candidate_of(search, parameters)
            folds += n_folds * planned_fits(candidate, replace(facts, group_sizes_=sizes))
            if search.refit:
                refits.append(planned_fits(candidate, facts))
    except UnsupportedMechanismError as error:
        raise UnsupportedMechanismError(
            f"search must fit private estimators alone or at the end of pipelines on a known "
            f"number of folds, to be planned, got {type(search).__name__} of "
            f"{type(search.estimator).__name__} and cv={search.cv!r}."
        ) from error
    if not folds:
        raise InputError(
            f"search must hold a private estimator, got {type(search.estimator).__name__}."
        )
    refit = dearest(refits)
    return [*folds, *refit], len(refit)


def _candidates_of(search: Any) -> list[dict[str, Any]]:
    """Return the candidates of a search; those of a random one are drawn, and may be others."""
    if isinstance(search, GridSearchCV):
        return list(ParameterGrid(search.param_grid))
    seed = search.random_state if isinstance(search.random_state, int) else 0
    return list(ParameterSampler(search.param_distributions, search.n_iter, random_state=seed))
