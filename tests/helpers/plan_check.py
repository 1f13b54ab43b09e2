"""Hold what was drawn against what was planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sklearn_dpwg.privacy import NoiseSource


def wrong_draws(plan: Any, drawn: Mapping[Any, int]) -> list[str]:
    """Return releases that were not drawn just as often as they were paid for.

    ``plan`` is anything with a tuple ``releases``. With a true ``early_stop`` fewer draws are
    fine, as the plan declares; draws that the plan does not hold never are.
    """
    planned: Counter[Any] = Counter()
    for release in plan.releases:
        planned[release] += release.max_count
    may_stop_early = getattr(plan, "early_stop", False)
    return [
        f"{release.name!r}: {drawn.get(release, 0)} drawn, {planned[release]} planned"
        for release in planned | Counter(drawn)
        if drawn.get(release, 0) > planned[release]
        or (drawn.get(release, 0) < planned[release] and not may_stop_early)
    ]


def assert_releases_match(noise: NoiseSource, plan: Any) -> None:
    assert wrong_draws(plan, Counter(draw.release for draw in noise.draws)) == []
