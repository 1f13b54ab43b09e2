"""What an audit will release, and how wide its intervals will be."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sklearn_dpwg.inspection import words
from sklearn_dpwg.inspection.audit_rows import SHARE_OF_SUMS
from sklearn_dpwg.inspection.verdicts import OF_DECISIONS, CountedRates
from sklearn_dpwg.privacy import Budget, IntegerNoise, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.privacy.noise.samplers import noise_on_integers
from sklearn_dpwg.privacy.statement import cost_of


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
    widths : tuple of (group, size, mapping)
        For each group, or None where only sizes are shown, a guess of its size, and by metric the
        width of its interval to expect and that without noise.

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
    widths: tuple[tuple[Hashable, int, Mapping[str, tuple[float, float]]], ...]

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise on a count, 0 without privacy."""
        return 0.0 if self.noise is None else self.noise.std

    def __str__(self) -> str:
        """Return the plan for people."""
        metrics = list(self.widths[0][2])
        rows = [["group", "size", *metrics]]
        for group, size, widths in self.widths:
            cells = [f"{width:.3f} ({sampling:.3f})" for width, sampling in widths.values()]
            rows.append(["any" if group is None else words.in_line(group), f"{size:,}", *cells])
        rate = "base rate" if len(metrics) > 1 else "selection rate"  # decisions alone
        said = (
            f"Widths of {100 * self.confidence:g} % intervals to expect at a {rate} of "
            f"{self.base_rate:g}, in brackets those of sampling alone:"
        )
        table = words.table(rows, (5, 9, *[13] * len(metrics)))
        return "\n".join([self._cost(), *self._noise_lines(), "", said, *table])

    def _cost(self) -> str:
        if self.noise is None:
            return "Audit without privacy: exact counts, which contain unprotected statistics."
        each = f", one of {self.n_audits} that keep the budget together" * (self.n_audits > 1)
        cost, relation = cost_of(self.guarantee), self.guarantee.relation
        return f"Private audit{each}: {cost}, neighbours: {relation}."

    def _noise_lines(self) -> list[str]:
        if self.noise is None:
            return []
        law = "discrete Laplace" if self.noise.mechanism == "laplace" else "discrete Gaussian"
        return [f"Every count has {law} noise of standard deviation {self.noise.std:.2f}."]


# What an audit draws: the counts, and the sums of losses.

# A loss has so much of epsilon beside the counts, which have 1: its sums are of whole losses, so
# noise on counts, from which sizes and all rates follow, would hurt more.
_SHARE_OF_A_LOSS = 0.5

_LAPLACE, _GAUSSIAN = "discrete-laplace", "gaussian"


@dataclass(frozen=True)
class PlannedReleases:
    """The releases of one audit: counts, and a pair for the sums and squares of each loss."""

    counts: Release
    losses: tuple[tuple[Release, Release], ...]

    @property
    def all(self) -> tuple[Release, ...]:
        """Every release in order."""
        return (self.counts, *(release for pair in self.losses for release in pair))

    @property
    def noise(self) -> IntegerNoise:
        """Law of the noise on every count."""
        return noise_on_integers(self.counts)


@lru_cache(maxsize=64)  # the accountant is slow, and every run plans
def plan_releases(
    budget: Budget, losses: tuple[str, ...], mechanism: str, n_audits: int
) -> PlannedReleases:
    """Return the releases of one of so many audits, by default of the quieter mechanism."""
    kinds = {"laplace": [_LAPLACE], "gaussian": [_GAUSSIAN]}.get(mechanism, [_LAPLACE, _GAUSSIAN])
    planned = [_calibrated(budget, losses, kind, n_audits) for kind in kinds]
    return min(planned, key=lambda one: one.noise.std)


def _calibrated(
    budget: Budget, losses: tuple[str, ...], kind: str, n_audits: int
) -> PlannedReleases:
    shares = [1.0]
    for _ in losses:
        shares += [_SHARE_OF_A_LOSS * SHARE_OF_SUMS, _SHARE_OF_A_LOSS * (1.0 - SHARE_OF_SUMS)]
    names = ["counts", *(f"{loss} {what}" for loss in losses for what in ("sums", "squares"))]
    kinds = [kind, *["laplace" if kind == _LAPLACE else kind] * (2 * len(losses))]
    # Laplace noise costs one over its multiplier, Gaussian noise one over the square of it
    power = 1.0 if kind == _LAPLACE else 0.5
    wanted = [
        Release(name, which, share**-power, max_count=n_audits)  # type: ignore[arg-type]
        for name, which, share in zip(names, kinds, shares, strict=True)
    ]
    counts, *rest = [replace(one, max_count=1) for one in calibrate(wanted, budget)]
    return PlannedReleases(counts, tuple(zip(rest[::2], rest[1::2], strict=True)))


# Widths of intervals to expect of a group of a size.

# What a preview lists; other rates are as wide as these.
METRICS = ("selection_rate", "error_rate", "true_positive_rate", "false_positive_rate")


def expected_widths(
    size: int,
    base_rate: float,
    noise: IntegerNoise | None,
    n_bins: tuple[int, int],
    *,
    has_outcomes: bool = True,
    is_public: bool,
    confidence: float,
) -> dict[str, tuple[float, float]]:
    """Return by metric the width, and that without noise.

    They are those at the counts of a model that selects as many as are positive and is wrong half
    as often as by chance.
    """
    wrong = 0.5 * base_rate * (1.0 - base_rate)
    shares = [[1.0 - base_rate - wrong, wrong], [wrong, base_rate - wrong]]
    cells = np.rint(size * np.array([shares])).astype(np.int64)
    if not has_outcomes:
        cells = cells.sum(axis=1, keepdims=True)
    sizes = (int(cells.sum()),) if is_public else None
    noisy = CountedRates(cells, n_bins, noise, sizes)
    exact = noisy.with_noise(None)
    return {
        metric: (
            noisy.interval(metric, 0, confidence).width,
            exact.interval(metric, 0, confidence).width,
        )
        for metric in (METRICS if has_outcomes else OF_DECISIONS)
    }
