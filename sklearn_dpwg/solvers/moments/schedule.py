"""Public numbers of the moments solver."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_dpwg._short_repr import short_repr


@dataclass(frozen=True)
class MomentsSchedule:
    """Everything that `Moments.run` needs besides the records and the noise.

    Parameters
    ----------
    multipliers : tuple of float
        Noise multiplier of each round.
    sensitivity : float
        By how much one record moves the sums of a round.
    constant : float
        Entry of a record's vector for the intercept; 0 without one.
    length : float
        Largest entry of a record's vector for the residual.
    step : float
        What entries are rounded to multiples of.
    sum_step : float
        What the sums of a block of records are rounded to multiples of.
    target_bound : float
        Bound on residuals in the first round.
    clip : float
        Least bound on residuals in later rounds, over their root mean square.
    ridge, smoothing : float
        What keeps the model from fitting noise; see `robust_optimum`.
    """

    multipliers: tuple[float, ...]
    sensitivity: float
    constant: float
    length: float
    step: float
    sum_step: float
    target_bound: float
    clip: float
    ridge: float
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
