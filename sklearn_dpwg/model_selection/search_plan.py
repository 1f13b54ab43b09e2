"""Division of a private search's budget, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

if TYPE_CHECKING:
    from dp_accounting import DpEvent

from sklearn_dpwg.privacy import (
    Budget,
    PrivacyGuarantee,
    Relation,
    Release,
    epsilon_of,
    gdp_epsilon,
)
from sklearn_dpwg.problem import PUBLIC_FACTS_OF_HIDDEN_GROUPS, HiddenGroups
from sklearn_dpwg.solvers.counts.stage import COUNTS, std_of_count

SHAPES = {"geometric": 1.0, "logarithmic": 0.0}

PUBLIC_FACTS = (
    "which group each record is in, and the group sizes",
    "the parameters of the search and of its estimator, the candidates included",
)

_PUBLIC_FACTS_OF_HIDDEN_GROUPS = (
    *PUBLIC_FACTS_OF_HIDDEN_GROUPS[:2],
    PUBLIC_FACTS[1],
)


@dataclass(frozen=True)
class SearchPlan:
    """What every run of a search may spend.

    Parameters
    ----------
    mean_runs : float
        Mean of the number of runs.
    shape : float
        Shape of its truncated negative binomial distribution: 1 geometric, 0 logarithmic.
    run_epsilon, run_delta : float
        Budget of the fit in each run.
    score_multiplier : float
        Scale of the Laplace noise on a score over what one held-out record can move it.
    guarantee : PrivacyGuarantee
        The whole search; its two parts are the records fitted on and those held out.
    hides_groups : bool, default=False
        Whether the group of a record is protected.
    counts : Release, optional
        The counts of hidden groups among all records, released once before the first run; None
        where groups are public or there is one.
    """

    mean_runs: float
    shape: float
    run_epsilon: float
    run_delta: float
    score_multiplier: float
    guarantee: PrivacyGuarantee
    hides_groups: bool = False
    counts: Release | None = None

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise on a count of a hidden group; 0 without one."""
        return std_of_count(self.counts)

    @property
    def count_floor(self) -> int:
        """Count up to which a hidden group may be empty, and is not scored."""
        return HiddenGroups(1, 0.0, self.count_std).floor

    def __str__(self) -> str:
        """Return a preview for people."""
        number = "number of them"
        if self.hides_groups:
            number = "noisy count times the share held out"
        return (
            f"Search of {self.mean_runs:g} runs in the mean, of which the best is released.\n"
            f"Each run fits with epsilon={self.run_epsilon:.4g} at delta={self.run_delta:g}, and "
            f"scores held-out records with Laplace noise of scale {self.score_multiplier:.4g} over "
            f"the smallest group's {number}.\n{self._of_hidden_groups()}\n{self.guarantee}"
        )

    def _of_hidden_groups(self) -> str:
        if not self.hides_groups:
            return ""
        held_out = "Who is held out follows from places among all records, not from groups.\n"
        if self.counts is None:
            return held_out
        return (
            f"Counts of the groups are released once before the first run, with noise of standard "
            f"deviation {self.count_std:.3g}; a group not above {self.count_floor:,} may be empty, "
            f"and is not scored.\n{held_out}"
        )


def plan_search(
    budget: Budget, *, mean_runs: float, distribution: str, count_share: float | None = None
) -> SearchPlan:
    """Return the largest budget of a run with which the whole search keeps its own.

    Where groups are hidden, a share of μ² goes to their counts, which all records pay for: 0 where
    there is one group, None where groups are public.
    """
    from dp_accounting import dp_event

    if distribution not in SHAPES:
        raise ValueError(f"distribution must be one of {sorted(SHAPES)}, got {distribution!r}.")
    if not 1.0 <= float(mean_runs) <= 1e6:
        raise ValueError(f"n_iter must be a number from 1 to 1e6, got {mean_runs!r}.")
    if budget.epsilon == math.inf:
        raise ValueError("epsilon must be finite: without privacy use RandomizedSearchCV.")
    mean, shape = float(mean_runs), SHAPES[distribution]

    counts = None
    if count_share:
        counts = Release(COUNTS, "gaussian", 1.0 / (math.sqrt(count_share) * budget.mu), 1)

    def best_of(run: DpEvent) -> DpEvent:
        best = dp_event.RepeatAndSelectDpEvent(run, mean, shape)
        return best if counts is None else dp_event.ComposedDpEvent([counts.event, best])

    def fit_event(mu: float) -> DpEvent:
        return best_of(dp_event.GaussianDpEvent(1.0 / mu))

    def score_event(rate: float) -> DpEvent:
        return best_of(dp_event.LaplaceDpEvent(1.0 / rate))

    mu = _largest(fit_event, budget, start=budget.mu)
    rate = _largest(score_event, budget, start=budget.epsilon)
    events = (fit_event(mu), score_event(rate))
    hides_groups = count_share is not None
    guarantee = PrivacyGuarantee.from_events(
        events,
        budget,
        public=_PUBLIC_FACTS_OF_HIDDEN_GROUPS if hides_groups else PUBLIC_FACTS,
        relation=Relation.REPLACE_ANY if hides_groups else Relation.REPLACE_IN_GROUP,
    )
    # a fit calibrates noise to (ε, δ): the one whose μ this is, rounded down
    run_epsilon = gdp_epsilon(budget.delta, mu) * (1.0 - 1e-9)
    return SearchPlan(
        mean, shape, run_epsilon, budget.delta, 1.0 / rate, guarantee, hides_groups, counts
    )


def _largest(event: Callable[[float], DpEvent], budget: Budget, *, start: float) -> float:
    """Return the largest ratio of signal to noise whose selection keeps the budget."""

    def excess(log_size: float) -> float:
        return epsilon_of(event(math.exp(log_size)), budget.delta) - budget.epsilon

    high = math.log(start)
    if excess(high) <= 0.0:
        return start
    low = high
    while excess(low) > 0.0:
        low -= 1.0
        if low < high - 30.0:
            raise ValueError(
                f"epsilon={budget.epsilon:g} is too small for so many runs: lower n_iter, or "
                f"count_share where groups are hidden."
            )
    root = brentq(excess, low, high, xtol=1e-7)
    size = math.exp(root - 1e-6)
    while epsilon_of(event(size), budget.delta) > budget.epsilon:
        size *= 1.0 - 1e-4
    return size


def count_runs(plan: SearchPlan, rng: np.random.Generator) -> int:
    """Draw the number of runs, at least 1, which must stay secret."""
    if plan.mean_runs == 1.0:
        return 1
    if plan.shape == 1.0:
        return int(rng.geometric(1.0 / plan.mean_runs))

    def mean_of(success: float) -> float:  # of the logarithmic distribution
        return -(1.0 - success) / (success * math.log(success))

    success = brentq(lambda g: mean_of(g) - plan.mean_runs, 1e-12, 1.0 - 1e-12)
    return int(rng.logseries(1.0 - success))
