"""What an audit draws: the counts, and the sums of losses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from sklearn_dpwg.inspection._audited_losses import SHARE_OF_SUMS
from sklearn_dpwg.privacy import Budget, IntegerNoise, Release, calibrate, noise_on_integers

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
) -> tuple[PlannedReleases, str]:
    """Return the releases of one of so many audits, and in words what others would be like.

    The quieter mechanism by the accountant is taken where none is named.
    """
    planned = {
        name: _calibrated(budget, losses, kind, n_audits)
        for name, kind in (("laplace", _LAPLACE), ("gaussian", _GAUSSIAN))
    }
    chosen = mechanism
    if mechanism == "auto":
        chosen = min(planned, key=lambda name: planned[name].noise.std)
    other = "gaussian" if chosen == "laplace" else "laplace"
    words = f"{other.capitalize()} noise would have {planned[other].noise.std:.2f}"
    return planned[chosen], words


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
