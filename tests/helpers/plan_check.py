"""Hold what was drawn against what was planned."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sklearn_dpwg.privacy import NoiseSource


def assert_releases_match(noise: NoiseSource, plan: Any) -> None:
    """Fail unless every release of the plan was drawn exactly as often as it was paid for.

    ``plan`` is anything with a tuple ``releases``. With a true ``early_stop`` fewer draws are
    fine, as the plan declares; draws that the plan does not hold never are.
    """
    planned: Counter[object] = Counter()
    for release in plan.releases:
        planned[release] += release.max_count
    drawn = Counter(draw.release for draw in noise.draws)
    may_stop_early = getattr(plan, "early_stop", False)
    wrong = [
        f"{getattr(release, 'name', release)!r}: {drawn[release]} drawn, {planned[release]} planned"
        for release in planned | drawn
        if drawn[release] > planned[release]
        or (drawn[release] < planned[release] and not may_stop_early)
    ]
    assert not wrong, "; ".join(wrong)
