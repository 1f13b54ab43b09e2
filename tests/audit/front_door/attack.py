"""Lower bounds on what fits give away, and the verdict beside what they claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sklearn_dpwg.privacy import PrivacyGuarantee, gdp_epsilon, gdp_mu
from tests.helpers.lower_bounds import error_bounds

Released = np.ndarray
# one run: does the canary take part? Returns what everybody may see, and what was claimed of it
Run = Callable[[bool], tuple[Released, "PrivacyGuarantee | Spent"]]


@dataclass(frozen=True)
class Spent:
    """What a ledger says that several fits cost: ε at δ, of Gaussian noise alone."""

    epsilon: float
    delta: float

    def tradeoff(self, alarms: float) -> float:
        from scipy.stats import norm

        return float(norm.cdf(norm.ppf(1.0 - alarms) - gdp_mu(self.epsilon, self.delta)))


@dataclass(frozen=True)
class Verdict:
    """What is claimed, what was audited, and whether the two can both be true.

    ``audited_epsilon`` is that of the μ which the attack's error rates ask for at least, at the
    δ of the claim: a lower bound for Gaussian noise, and for other noise a way to print the rates.
    Whether the claim is broken is decided by its own trade-off curve.
    """

    name: str
    claimed_epsilon: float
    delta: float
    alarms: float
    misses: float
    is_broken: bool
    n_runs: int

    @property
    def audited_mu(self) -> float:
        from scipy.stats import norm

        return max(0.0, float(-norm.ppf(self.alarms) - norm.ppf(self.misses)))

    @property
    def audited_epsilon(self) -> float:
        return float(gdp_epsilon(self.delta, self.audited_mu)) if self.audited_mu else 0.0

    def __str__(self) -> str:
        return (
            f"{self.name:<52} claimed {self.claimed_epsilon:6.3f}   audited >= "
            f"{self.audited_epsilon:6.3f}   {'BROKEN' if self.is_broken else 'holds'}"
        )


def audit(name: str, run: Run, n_runs: int) -> Verdict:
    """Fit many times on both neighbours and bound how well they can be told apart.

    A linear discriminant is fitted on the first fifth of the runs, which chooses the threshold too;
    its error rates are bounded on the others (Clopper and Pearson), wrong once in a thousand.
    """
    claims, seen = [], []
    for canary in (False, True):
        runs = [run(canary) for _ in range(n_runs)]
        seen.append(np.array([released for released, _ in runs]))
        claims += [claim for _, claim in runs]
    claim = max(claims, key=lambda each: each.epsilon)
    null, other = (each @ _direction(seen, n_runs // 5) for each in seen)
    alarms, misses = error_bounds(null, other)
    is_broken = misses < float(claim.tradeoff(alarms))
    return Verdict(name, claim.epsilon, claim.delta, alarms, misses, is_broken, n_runs)


def _direction(seen: list[np.ndarray], n_first: int) -> np.ndarray:
    """Return Fisher's discriminant of the first runs; what never varies has no part in it."""
    first = [each[:n_first] for each in seen]
    everything = np.concatenate(first)
    varies = np.ptp(everything, axis=0) > 0.0
    direction = np.zeros(everything.shape[1])
    scale = everything[:, varies].std(axis=0)
    null, other = (each[:, varies] / scale for each in first)
    spread = np.atleast_2d(np.cov(null.T)) + np.atleast_2d(np.cov(other.T))
    spread += 1e-9 * np.eye(len(spread))
    apart = other.mean(axis=0) - null.mean(axis=0)
    direction[varies] = np.linalg.solve(spread, apart) / scale
    return direction
