"""Lower bounds on what fits give away, and the verdict beside what they claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np
from scipy.stats import beta, norm

from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.privacy.gaussian import gdp_epsilon, gdp_mu

Released = np.ndarray
# one run: is the canary the one, or the other? Returns what everybody may see, and what was claimed
Run = Callable[[bool], tuple[Released, PrivacyGuarantee]]


@dataclass(frozen=True)
class Verdict:
    """What is claimed, what was audited, and whether the two can both be true.

    `alarms` and `misses` are upper bounds on the error rates of one attack.
    """

    claim: PrivacyGuarantee
    alarms: float
    misses: float

    @property
    def is_broken(self) -> bool:
        """Whether the claim's own trade-off curve allows no such errors."""
        return self.misses < float(self.claim.tradeoff(self.alarms))

    @property
    def audited_epsilon(self) -> float:
        """A lower bound on ε at the δ of the claim.

        Where all noise is Gaussian it is that of the μ which the errors ask for, else what the
        definition of (ε, δ) asks for, which is less.
        """
        if is_gaussian(self.claim):
            mu = float(-norm.ppf(self.alarms) - norm.ppf(self.misses))
            return float(gdp_epsilon(self.claim.delta, mu)) if mu > 0.0 else 0.0
        ratios = [
            (1.0 - one - self.claim.delta) / other
            for one, other in ((self.alarms, self.misses), (self.misses, self.alarms))
        ]
        return max(0.0, log(max(1.0, *ratios)))


def is_gaussian(claim: PrivacyGuarantee) -> bool:
    """Whether the claim's profile is that of Gaussian noise, whatever the mechanism."""
    mu = gdp_mu(claim.epsilon, claim.delta)
    rates = np.array([0.01, 0.1, 0.3])
    return bool(np.allclose(claim.tradeoff(rates), norm.cdf(norm.ppf(1.0 - rates) - mu), rtol=1e-4))


def audit(run: Run, n_runs: int, wrong: float) -> Verdict:
    """Fit many times on both neighbours and bound how well they can be told apart.

    A linear discriminant is fitted on the first fifth of the runs, which chooses the threshold too;
    its error rates are bounded on the others (Clopper and Pearson). Either bound is wrong with
    probability at most `wrong` / 2.
    """
    claims, seen = [], []
    for canary in (False, True):
        runs = [run(canary) for _ in range(n_runs)]
        seen.append(np.array([released for released, _ in runs]))
        claims += [claim for _, claim in runs]
    return judge(max(claims, key=lambda each: each.epsilon), *seen, wrong)


def judge(claim: PrivacyGuarantee, null: Released, other: Released, wrong: float) -> Verdict:
    """Return the verdict on what was seen, a row a run."""
    n_first = len(null) // 5
    direction = discriminant(null[:n_first], other[:n_first])
    scores = null @ direction, other @ direction
    threshold = best_threshold(claim, *(each[:n_first] for each in scores), wrong)
    rest = len(null) - n_first
    alarms = upper_bound((scores[0][n_first:] > threshold).mean(), rest, wrong)
    misses = upper_bound((scores[1][n_first:] <= threshold).mean(), rest, wrong)
    return Verdict(claim, float(alarms), float(misses))


def upper_bound(rate: np.ndarray | float, n: int, wrong: float) -> np.ndarray:
    """Return Clopper and Pearson's bounds on probabilities, each too low with half of `wrong`."""
    count = np.round(np.asarray(rate) * n)
    bounds = beta.ppf(1 - wrong / 2, count + 1, np.maximum(n - count, 1))
    return np.where(count >= n, 1.0, bounds)


def best_threshold(claim: PrivacyGuarantee, null: Released, other: Released, wrong: float) -> float:
    """Return the threshold whose errors, as far as these runs know, the claim allows least."""
    thresholds = np.quantile(np.concatenate([null, other]), np.linspace(0.02, 0.98, 49))
    # as many runs as are left for the bounds would show their rates more sharply
    n = 4 * len(null)
    alarms = upper_bound((null > thresholds[:, None]).mean(axis=1), n, wrong)
    misses = upper_bound((other <= thresholds[:, None]).mean(axis=1), n, wrong)
    # in units in which every threshold tells as much where all noise is Gaussian
    allowed = norm.ppf(np.clip(claim.tradeoff(alarms), 1e-300, 1.0 - 1e-9))
    gains = allowed - norm.ppf(misses)
    # the middle of those that no run tells apart, farthest from both
    return float(np.mean(thresholds[gains == gains.max()]))


def discriminant(null: Released, other: Released) -> Released:
    """Return Fisher's direction from one to the other; what never varies has no part in it."""
    everything = np.concatenate([null, other])
    varies = np.ptp(everything, axis=0) > 0.0
    direction = np.zeros(everything.shape[1])
    if not varies.any():
        return direction
    scale = everything[:, varies].std(axis=0)
    null, other = null[:, varies] / scale, other[:, varies] / scale
    spread = np.atleast_2d(np.cov(null.T)) + np.atleast_2d(np.cov(other.T))
    spread += 1e-9 * np.eye(len(spread))
    direction[varies] = np.linalg.solve(spread, other.mean(axis=0) - null.mean(axis=0)) / scale
    return direction
