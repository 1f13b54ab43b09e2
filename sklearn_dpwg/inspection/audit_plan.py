"""What an audit will release, and how wide its intervals will be."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from sklearn_dpwg.privacy import IntegerNoise, PrivacyGuarantee, Release


@dataclass(frozen=True)
class PlannedWidth:
    """Widths of a group's intervals to expect.

    Parameters
    ----------
    group : label or None
        The group; None where only a size was named.
    size : int
        Number of its records, a guess.
    widths : tuple of (metric, width, width without noise)
        For each metric, at the base rate of the plan.
    """

    group: Hashable
    size: int
    widths: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class AuditPlan:
    """What an audit releases and costs, from public facts alone; ``print`` it.

    Parameters
    ----------
    releases : tuple of Release
        What one audit draws; none without privacy.
    noise : IntegerNoise or None
        Law of the noise on every count.
    guarantee : PrivacyGuarantee
        What one audit costs.
    n_audits : int
        How many audits of the same records keep the budget together.
    base_rate : float
        Share of the positive class that the widths assume.
    confidence : float
        That of the intervals.
    widths : tuple of PlannedWidth
        Widths to expect.
    other_mechanism : str, default=""
        What the noise of the other mechanism would be, in words.

    See Also
    --------
    GroupAudit.plan : Makes plans.
    """

    releases: tuple[Release, ...]
    noise: IntegerNoise | None
    guarantee: PrivacyGuarantee
    n_audits: int
    base_rate: float
    confidence: float
    widths: tuple[PlannedWidth, ...]
    other_mechanism: str = ""

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise on a count, 0 without privacy."""
        return 0.0 if self.noise is None else self.noise.std

    def __str__(self) -> str:
        """Return the plan for people."""
        lines = [self._cost(), *self._noise_lines(), ""]
        percent = f"{100 * self.confidence:g} %"
        lines.append(
            f"Widths of {percent} intervals to expect at a base rate of {self.base_rate:g}, in "
            f"brackets those of sampling alone:"
        )
        names = [name for name, *_ in self.widths[0].widths]
        labels = ["any" if one.group is None else str(one.group) for one in self.widths]
        first = max([5, *map(len, labels)])
        columns = [max(len(name), 13) for name in names]
        head = [name.rjust(width) for name, width in zip(names, columns, strict=True)]
        lines.append("  ".join(["group".ljust(first), "size".rjust(9), *head]))
        for label, one in zip(labels, self.widths, strict=True):
            cells = [
                f"{width:.3f} ({sampling:.3f})".rjust(column)
                for (_, width, sampling), column in zip(one.widths, columns, strict=True)
            ]
            lines.append("  ".join([label.ljust(first), f"{one.size:,}".rjust(9), *cells]))
        return "\n".join(lines)

    def _cost(self) -> str:
        if self.noise is None:
            return "Audit without privacy: exact counts, which contain unprotected statistics."
        each = f", one of {self.n_audits} that keep the budget together" * (self.n_audits > 1)
        return (
            f"Private audit{each}: epsilon = {self.guarantee.epsilon:.4g} at delta = "
            f"{self.guarantee.delta:g}, neighbours: {self.guarantee.relation}."
        )

    def _noise_lines(self) -> list[str]:
        if self.noise is None:
            return []
        law = "discrete Laplace" if self.noise.mechanism == "laplace" else "discrete Gaussian"
        other = f" ({self.other_mechanism})" if self.other_mechanism else ""
        return [f"Every count has {law} noise of standard deviation {self.noise.std:.2f}{other}."]
