"""Public numbers of the moments solver."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_dpwg._short_repr import short_repr


@dataclass(frozen=True)
class MomentsSchedule:
    """Everything that `Moments.run` needs besides the records and the noise."""

    multipliers: tuple[float, ...]  # noise multiplier of each round
    sensitivity: float  # by how much one record moves the sums of a round
    constant: float  # entry of a record's vector for the intercept; 0 without one
    length: float  # largest entry of a record's vector for the residual
    step: float  # what entries are rounded to multiples of
    sum_step: float  # what the sums of a block of records are rounded to multiples of
    target_bound: float  # bound on residuals in the first round
    clip: float  # least bound on residuals in later rounds, over their root mean square
    ridge: float  # what keeps the model from fitting noise; see `robust_optimum`
    smoothing: float

    __repr__ = short_repr

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return len(self.multipliers)

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = [
            f"{self.n_rounds} round(s), one pass over the rows each: every group's second moments "
            "of rows and residuals",
            f"one record moves them by at most {self.sensitivity:.4g}, only those of its group",
        ]
        if self.n_rounds > 1:
            lines.append(
                f"residuals clipped to at least {self.clip:.3g} times their root mean square; "
                "targets themselves in the first round, and where residuals are no smaller"
            )
        return "\n".join(lines)
