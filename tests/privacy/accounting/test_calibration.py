"""Calibrated noise keeps the budget and does not waste it."""

import math
from dataclasses import replace

import pytest

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, Release, calibrate, epsilon_of
from sklearn_dpwg.privacy.accounting import calibration
from sklearn_dpwg.privacy.accounting.composition import part_events

GAUSSIANS = [Release("a", "gaussian", 1.0, 100), Release("b", "gaussian", 3.0, 5)]
MIXED = [Release("a", "gaussian", 1.0, 300), Release("b", "laplace", 0.8, 300)]
PURE = [Release("b", "laplace", 1.0, 3)]
SAMPLED = [
    Release("a", "gaussian", 1.0, 200, sampling_rate=0.05),
    Release("b", "laplace", 20.0, 10),
]
COUNTS = [Release("counts", "discrete-laplace", 1.0, 4), Release("sums", "gaussian", 2.0, 1)]
PARTS = [
    Release("all", "gaussian", 5.0, 2),
    Release("one", "gaussian", 1.0, 1, part=0),
    Release("two", "laplace", 1.0, 4, part=1),
]


def achieved(releases, delta):
    return max(epsilon_of(event, delta) for event in part_events(releases))


FULL = [
    (releases, epsilon, delta)
    for releases in (GAUSSIANS, MIXED)
    for epsilon, delta in [(0.01, 1e-12), (0.1, 1e-5), (1.0, 1e-2), (10.0, 1e-12), (100.0, 1e-5)]
]
CORNERS = [
    (releases, epsilon, delta)
    for releases in (PURE, SAMPLED, PARTS, COUNTS)
    for epsilon, delta in [(0.01, 1e-12), (1.0, 1e-6), (100.0, 1e-2)]
]


@pytest.mark.parametrize(("releases", "epsilon", "delta"), FULL + CORNERS)
def test_keeps_and_uses_the_budget(releases, epsilon, delta):
    calibrated = calibrate(releases, Budget(epsilon, delta))
    assert 0.99 * epsilon <= achieved(calibrated, delta) <= epsilon
    factor = calibrated[0].noise_multiplier / releases[0].noise_multiplier
    for before, after in zip(releases, calibrated, strict=True):
        assert after.noise_multiplier == pytest.approx(factor * before.noise_multiplier, rel=1e-12)
        assert replace(after, noise_multiplier=before.noise_multiplier) == before


def test_parts_pay_for_the_worst_one():
    budget = Budget(1.0, 1e-6)
    (alone,) = calibrate([Release("a", "gaussian", 7.0, 100)], budget)  # rounded up
    assert alone.noise_multiplier == pytest.approx(10.0 / budget.mu * (1 + 1e-6), rel=1e-12)
    one = [Release("w", "gaussian", 1.0, 10, part=0)]
    both = [*one, Release("w", "gaussian", 1.0, 10, part=1)]
    assert calibrate(both, budget)[:1] == calibrate(one, budget)


def test_refuses():
    with pytest.raises(ValueError, match=r"budget.epsilon must be finite"):
        calibrate(GAUSSIANS, Budget(math.inf, 1e-6))
    with pytest.raises(ValueError, match="releases must not be empty"):
        calibrate([], Budget(1.0, 1e-6))


def test_an_accountant_that_disagrees_is_noticed(monkeypatch):
    monkeypatch.setattr(calibration, "worst_epsilon", lambda *_: 1.1)
    with pytest.raises(InputError, match="above the budget"):
        calibrate(GAUSSIANS, Budget(1.0, 1e-6))
