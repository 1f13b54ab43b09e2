"""The branch and bound behind Γ: certified for any derivative, spikes included."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses.base import gradient_diameter


def on_a_grid(derivative, score_bound, extra=(), n=901):
    """The largest distance on a fine grid of pairs of angles."""
    angle = np.concatenate([np.linspace(-np.pi / 2, np.pi / 2, n), extra])
    value = derivative(score_bound * np.sin(angle))
    along, across = value * np.sin(angle), value * np.cos(angle)
    # two vectors of the plane, on either side of the weights or on one
    either = np.hypot(along[:, None] - along, across[:, None] + across).max()
    return max(either, np.hypot(along[:, None] - along, across[:, None] - across).max())


@dataclass(frozen=True)
class Steps:
    """A derivative that rises steeply at some scores, from below zero or from above."""

    at: tuple[float, ...]
    slope: float
    start: float

    def __call__(self, score):
        rises = [np.clip(self.slope * (score - at), 0.0, 1.0) for at in self.at]
        return self.start + np.sum(rises, axis=0)


@given(
    at=st.lists(st.floats(-0.99, 0.99), min_size=1, max_size=4),
    slope=st.floats(0.1, 300.0),
    start=st.floats(-3.0, 1.0),
    score_bound=st.floats(0.5, 20.0),
)
def test_a_derivative_that_rises_is_searched_by_its_ends(at, slope, start, score_bound):
    steps = Steps(tuple(score_bound * np.array(at)), slope / score_bound, start)
    bound = gradient_diameter(steps, score_bound, tolerance=1e-2)
    kinks = np.concatenate([at, np.array(at) + 1.0 / slope])
    reached = on_a_grid(steps, score_bound, extra=np.arcsin(np.clip(kinks, -1.0, 1.0)))
    assert reached <= bound <= reached * 1.02 + 1e-9


def test_a_derivative_that_is_seen_to_fall_is_refused():
    with pytest.raises(InputError, match="must fall nowhere"):
        gradient_diameter(np.cos, 3.0)
