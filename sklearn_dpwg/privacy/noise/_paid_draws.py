"""What a plan has paid for, and what of it was drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from sklearn_dpwg.exceptions import PlanExceededError
from sklearn_dpwg.privacy.noise._payers import Payer, Payers
from sklearn_dpwg.privacy.release import Draw, Mechanism, Release

Shape = tuple[int, ...]


class PaidDraws:
    """Counts draws against the releases of a plan, and refuses those beyond it."""

    def __init__(self, releases: Sequence[Release]) -> None:
        self._allowed: Counter[Release] = Counter()
        for release in releases:
            if type(release) is not Release:
                raise TypeError(f"releases must hold Releases and nothing else, got {release!r}.")
            self._allowed[release] += release.max_count
        self._spent: Counter[Release] = Counter()
        self._samples: Counter[Release] = Counter()
        self._payers = Payers()
        self.draws: list[Draw] = []
        self.on_draw: Callable[[int], None] | None = None

    def add_sample(self, release: Release) -> None:
        """Count a sample, which the next draw of a sampled release uses up."""
        self._samples[release] += 1

    def spend(self, release: Release, kind: Mechanism, shape: Shape, payer: Payer = None) -> None:
        """Count a draw against the plan, before the noise exists."""
        self.check_affordable(release, kind, payer)
        self._spent[release] += 1
        self._payers.spend(release, payer)
        if release.sampling_rate < 1.0:
            self._samples[release] = 0
        self.draws.append(Draw(release, shape))
        if self.on_draw is not None:
            self.on_draw(len(self.draws))

    def check_affordable(self, release: Release, mechanism: Mechanism, payer: Payer) -> None:
        """Refuse a draw that the plan has not paid for."""
        self.check_allowed(release)
        if release.mechanism != mechanism:
            raise PlanExceededError(
                f"The plan pays for {release.mechanism} noise on {release.name!r}, not {mechanism}."
            )
        n_allowed = self._allowed[release]
        if self._spent[release] >= n_allowed:
            raise PlanExceededError(
                f"The plan pays for {n_allowed} draw{'s' * (n_allowed > 1)} of {release.name!r}, "
                "and all were made."
            )
        self._payers.check(release, payer, n_allowed)
        if release.sampling_rate < 1.0 and self._samples[release] == 0:
            raise PlanExceededError(
                f"The plan pays for draws of {release.name!r} from samples of their own, and no "
                "sample was drawn for this one."
            )

    def check_allowed(self, release: Release) -> None:
        """Refuse a release that the plan does not hold."""
        # a subclass could claim to equal what was paid for
        if type(release) is not Release or release not in self._allowed:
            known = sorted({repr(allowed.name) for allowed in self._allowed}) or ["nothing"]
            raise PlanExceededError(
                f"The plan does not hold {release!r}; it pays for {', '.join(known)}."
            )
