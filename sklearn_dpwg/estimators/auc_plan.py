"""Plan of a fit by class moments."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sklearn_dpwg.optimum.minimax.auc import class_moment_sensitivity
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.privacy.noise import SECONDS_PER_SECURE_COORDINATE

PUBLIC_FACTS = (
    "the number of records, all of which are one group, and the two classes, not who is in which",
    "the number and names of the features",
    "data_norm and every other parameter of the estimator",
)

# Last entry of a record's vector. From a half to 1 it makes no difference on four data sets, and
# below that counts are loud (benchmarks/auc.py constant).
CONSTANT = 0.75

# For predicting time: adding up an outer product takes so long an entry.
SECONDS_PER_ENTRY = 1e-9


@dataclass(frozen=True)
class AUCPlan:
    """What a fit of `DPAUCClassifier` will release, from public facts alone; print it."""

    n_records: int  # numbers of records and of columns
    n_features: int
    budget: Budget
    releases: tuple[Release, ...]  # the moments of both classes, once; nothing where ε is infinite
    records_per_person: int  # rows of one person, whom the budget is for

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """What the release costs."""
        return guarantee_of(self.releases, self.budget, self.records_per_person)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise on an entry of the diagonal of the sums."""
        if not self.releases:
            return 0.0
        sensitivity = class_moment_sensitivity(self.n_records, self.n_features, CONSTANT)
        return self.releases[0].noise_multiplier * sensitivity

    @property
    def mean_noise(self) -> float:
        """Norm of the noise on the mean row of a class that has half of the records."""
        of_entry = self.noise_std / (math.sqrt(2.0) * CONSTANT * max(self.n_records / 2.0, 1.0))
        return of_entry * math.sqrt(self.n_features)

    @property
    def predicted_seconds(self) -> float:
        """Expected time of a fit on two cores with noise from the secure sampler."""
        entries = float(self.n_features + 1) ** 2
        of_noise = SECONDS_PER_SECURE_COORDINATE * entries if self.releases else 0.0
        return 0.01 + of_noise + SECONDS_PER_ENTRY * self.n_records * entries

    def __str__(self) -> str:
        """Return a preview for people: release, noise, guarantee."""
        lines = [
            f"Plan of DPAUCClassifier: {self.n_records:,} records, {self.n_features:,} columns",
            "",
            "Releases (noise is per unit of sensitivity, fixed before any record is read):",
        ]
        lines += [
            f"  {each.name}: {each.max_count:,} x {each.mechanism}, noise multiplier "
            f"{each.noise_multiplier:.4g}"
            for each in self.releases
        ] or ["  none: the exact solution, without any privacy"]
        lines += [
            "",
            "Predicted:",
            f"  noise of norm {self.mean_noise:.3g} on the mean row of a class that has half of "
            f"the records, where rows have norm at most 1",
            f"  about {self.predicted_seconds:.2g} seconds",
            "",
            str(self.guarantee),
        ]
        return "\n".join(lines)


def releases_within(budget: Budget, rows_per_person: int) -> tuple[Release, ...]:
    """Return the release that costs a person with so many rows the budget: k rows move kΔ."""
    if budget.epsilon == math.inf:
        return ()
    (release,) = calibrate([Release("class moments", "gaussian", 1.0, max_count=1)], budget)
    return (release.scaled(float(rows_per_person)),)


def guarantee_of(
    releases: tuple[Release, ...], budget: Budget, rows_per_person: int
) -> PrivacyGuarantee:
    """Return what releases cost a person with so many rows."""
    if not releases:
        found = PrivacyGuarantee.non_private(budget.delta, public=PUBLIC_FACTS)
        return found.for_records(rows_per_person)
    of_row = PrivacyGuarantee.from_releases(releases, budget.delta, public=PUBLIC_FACTS)
    return replace(of_row.for_records(rows_per_person), requested_epsilon=budget.epsilon)
