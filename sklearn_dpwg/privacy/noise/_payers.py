"""Draws that one group alone pays for."""

from __future__ import annotations

from collections import Counter

from sklearn_dpwg._checks import whole_number
from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.privacy.release import Release

Payer = int | None


class Payers:
    """How often each group has paid for Gaussian releases of which a record moves few draws.

    Such Laplace releases are made on batches that are each read once, so nobody counts them.
    """

    def __init__(self) -> None:
        self._spent: Counter[tuple[Release, int]] = Counter()

    def check(self, release: Release, payer: Payer, n_allowed: int) -> None:
        """Refuse a draw without a payer, or of one who has paid for as many as a record may."""
        if not _is_counted(release):
            return
        if payer is None:
            raise PlanExceededError(
                f"The plan pays for draws of {release.name!r} of which a record moves "
                f"{release.paid_count}, so each must name its payer, got None."
            )
        payer = whole_number(payer, "payer", least=0)
        # a plan may hold the same release several times
        most = release.paid_count * (n_allowed // release.max_count)
        if self._spent[release, payer] >= most:
            raise PlanExceededError(
                f"The plan pays for {most} draw{'s' * (most > 1)} of {release.name!r} by a group, "
                f"and group {payer} has paid for all of them."
            )

    def spend(self, release: Release, payer: Payer) -> None:
        """Count a draw, before its noise exists."""
        if payer is not None and _is_counted(release):
            self._spent[release, int(payer)] += 1


def _is_counted(release: Release) -> bool:
    return release.mechanism == "gaussian" and release.paid_count < release.max_count
