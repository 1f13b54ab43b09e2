"""Preview of thresholds or a calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sklearn_dpwg.postprocessing.histogram_release import noise_std
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Release
from sklearn_dpwg.solvers import Plan


@dataclass(frozen=True)
class PostprocessingPlan:
    """What fitting thresholds or a calibration will release, from public facts alone.

    Parameters
    ----------
    model : Plan or None
        Plan of the model, at its part of the budget; None where it is fitted already.
    release : Release or None
        The histogram; None without privacy.
    budget : Budget
        ε and δ of everything that the fit releases.
    n_groups : int
        Number of groups.
    n_bins : int
        Number of bins of scores.
    guarantee : PrivacyGuarantee
        What the fit costs.

    Examples
    --------
    >>> from sklearn_dpwg import DPWorstGroupClassifier
    >>> from sklearn_dpwg.postprocessing import DPThresholdClassifier
    >>> model = DPThresholdClassifier(DPWorstGroupClassifier(data_norm=1.0), epsilon=2.0)
    >>> plan = model.plan(group_sizes={"a": 5000, "b": 800}, n_features=4)
    >>> round(plan.count_std, 1)
    7.2
    """

    model: Plan | None
    release: Release | None
    budget: Budget
    n_groups: int
    n_bins: int
    guarantee: PrivacyGuarantee

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise on the count of one cell."""
        return noise_std(self.release)

    @property
    def size_std(self) -> float:
        """Standard deviation of the noise on the number of records of one group."""
        return self.count_std * math.sqrt(2.0 * self.n_bins)

    def __str__(self) -> str:
        """Return a preview for people."""
        cells = f"{self.n_groups} groups, 2 classes and {self.n_bins} bins of scores"
        lines = [f"One histogram of {cells}, each record in one cell."]
        if self.release is None:
            lines.append("No noise is added.")
        else:
            lines.append(
                f"Each count has {self.release.mechanism} noise of standard deviation "
                f"{self.count_std:.3g}, the size of a group {self.size_std:.3g}: thresholds of a "
                f"group of fewer than about {_about(3.0 * self.size_std)} records are mostly those "
                f"of all."
            )
        if self.model is not None:
            lines.append(f"The model is fitted with epsilon={self.model.budget.epsilon:.4g}.")
        return " ".join(lines) + f"\n\n{self.guarantee}"


def _about(number: float) -> str:
    """Write a number with two digits."""
    unit = 10.0 ** max(math.floor(math.log10(max(number, 1.0))) - 1, 0)
    return f"{round(number / unit) * unit:,.0f}"
