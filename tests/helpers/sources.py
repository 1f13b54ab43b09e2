"""Seeded noise sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.privacy import NoiseSource, Release


def seeded(seed: Any, releases: Sequence[Release]) -> NoiseSource:
    """Return a source of seeded noise, whose warning must come."""
    with pytest.warns(SeededNoiseWarning):
        return NoiseSource(seed, releases)
