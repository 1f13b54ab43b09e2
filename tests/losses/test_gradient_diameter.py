"""The branch and bound behind Γ: certified for any derivative, spikes included."""

import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.losses import (
    BinaryLogLoss,
    Huber,
    SmoothedHinge,
    SquaredError,
    SquaredHinge,
    gradient_diameter,
)

SLACK = 2e-3


@dataclass(frozen=True)
class Spike:
    """A tent of given slope around a score, on a constant floor."""

    at: float
    height: float
    slope: float
    floor: float = 0.0

    def __call__(self, score):
        return self.floor + np.maximum(0.0, self.height - self.slope * np.abs(score - self.at))


@dataclass(frozen=True)
class Wave:
    """A derivative that changes its sign often."""

    frequency: float
    phase: float

    def __call__(self, score):
        return np.sin(self.frequency * score + self.phase)


def on_a_grid(derivative, score_bound, extra=(), n=901):
    """The largest distance on a fine grid of pairs of angles."""
    angle = np.concatenate([np.linspace(-np.pi / 2, np.pi / 2, n), extra])
    value = derivative(score_bound * np.sin(angle))
    along, across = value * np.sin(angle), value * np.cos(angle)
    # two vectors of the plane, on either side of the weights or on one
    either = np.hypot(along[:, None] - along, across[:, None] + across).max()
    return max(either, np.hypot(along[:, None] - along, across[:, None] - across).max())


@given(frequency=st.floats(0.1, 6), phase=st.floats(0, 6), score_bound=st.floats(0.1, 6))
def test_waves(frequency, phase, score_bound):
    wave = Wave(frequency, phase)
    bound = gradient_diameter(wave, score_bound, derivative_slope=frequency)
    reached = on_a_grid(wave, score_bound)
    assert reached <= bound <= reached * (1 + 1.5 * SLACK)


@given(
    where=st.floats(-0.95, 0.95),
    score_bound=st.floats(0.5, 20),
    width=st.floats(0.02, 0.2),
    floor=st.sampled_from([0.0, 0.2, -0.2]),
)
def test_spikes_between_the_first_cells(where, score_bound, width, floor):
    slope = 1.0 / (width * score_bound)
    spike = Spike(where * score_bound, 1.0, slope, floor)
    bound = gradient_diameter(spike, score_bound, derivative_slope=slope, tolerance=0.1)
    reached = on_a_grid(spike, score_bound, extra=[np.arcsin(where)])
    assert reached <= bound <= reached * 1.11


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
    facts = {"derivative_slope": slope * len(at) / score_bound, "tolerance": 1e-2}
    bound = gradient_diameter(steps, score_bound, rises=True, **facts)
    kinks = np.concatenate([at, np.array(at) + 1.0 / slope])
    reached = on_a_grid(steps, score_bound, extra=np.arcsin(np.clip(kinks, -1.0, 1.0)))
    assert reached <= bound <= reached * 1.02 + 1e-9


def test_a_derivative_that_is_seen_to_fall_is_refused():
    with pytest.raises(InputError, match="must fall nowhere"):
        gradient_diameter(np.cos, 3.0, derivative_slope=1.0, rises=True)


def test_a_derivative_that_falls_must_say_so():
    spike = Spike(3 * np.sin(0.77), 1.0, 60.0, 0.05)
    wrong = gradient_diameter(spike, 3.0, derivative_slope=60.0, rises=True, tolerance=0.1)
    assert wrong < 0.5 * on_a_grid(spike, 3.0, extra=[0.77])


@dataclass(frozen=True)
class TwoSpikes:
    """Spikes of opposite sign."""

    up: Spike
    down: Spike

    def __call__(self, score):
        return self.up(score) - self.down(score)


def test_opposite_signs_may_be_the_farthest_pair():
    # two gradients of opposite sign at 60 and 30 degrees: on one side of the weights
    spikes = TwoSpikes(Spike(2 * np.sin(np.pi / 3), 1.0, 20.0), Spike(1.0, 1.0, 20.0))
    bound = gradient_diameter(spikes, 2.0, derivative_slope=20.0, tolerance=2e-2)
    assert 2 * np.cos(np.pi / 12) <= bound * 1.001 <= 2 * np.cos(np.pi / 12) * 1.04


def test_a_slope_stated_too_small_shows():
    # the certificate rests on the slope: a false one hides a spike between the first centres
    angle = np.pi / 4
    spike = Spike(3 * np.sin(angle), 1.0, 40.0, 0.05)
    honest = gradient_diameter(spike, 3.0, derivative_slope=40.0, tolerance=0.1)
    wrong = gradient_diameter(spike, 3.0, derivative_slope=0.0, tolerance=0.1)
    reached = on_a_grid(spike, 3.0, extra=[angle])
    assert wrong < 0.5 * reached
    assert reached <= honest


def test_a_search_cut_short_is_still_certified():
    spike = Spike(np.sin(np.pi / 3) * 3, 1.0, 4e5, 0.05)
    started = time.process_time()
    bound = gradient_diameter(spike, 3.0, derivative_slope=4e5)
    assert time.process_time() - started < 5.0
    assert on_a_grid(spike, 3.0, extra=[np.pi / 3]) <= bound


@pytest.mark.parametrize(
    "loss", [BinaryLogLoss(), SquaredError(2.0), SmoothedHinge(50.0), SquaredHinge(), Huber(50.0)]
)
def test_losses_state_a_true_slope(loss, monkeypatch):
    stated = []

    def spy(derivative, score_bound, *, derivative_slope, rises):
        scores = np.linspace(-score_bound, score_bound, 4001)
        slopes = np.diff(derivative(scores)) / np.diff(scores)
        assert not rises or slopes.min() >= 0.0
        steepest = np.abs(slopes).max()
        stated.append(derivative_slope / steepest)
        return 0.0

    monkeypatch.setattr("sklearn_dpwg.losses.base.gradient_diameter", spy)
    for score_bound in (0.1, 3.0, 20.0):
        assert loss.constants(score_bound).gradient_diameter == 0.0
    assert len(stated) == 3
    assert min(stated) >= 1 - 1e-9
