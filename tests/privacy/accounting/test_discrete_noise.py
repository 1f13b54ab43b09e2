"""Accounting of discrete noise on counts, against sums over its law and dp_accounting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as distributions

from sklearn_dpwg.privacy import (
    Budget,
    PrivacyGuarantee,
    Release,
    calibrate,
    epsilon_of,
)
from sklearn_dpwg.privacy.accounting.calibration import delta_of
from sklearn_dpwg.privacy.accounting.composition import (
    composition_of_event,
)
from sklearn_dpwg.privacy.noise.samplers import noise_on_integers

RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE


def counts(multiplier: float, max_count: int = 1) -> Release:
    return Release("counts", "discrete-laplace", multiplier, max_count)


def law(scale: float) -> np.ndarray:
    """Return the probabilities from -R to R, with R far enough for a shift."""
    radius = int(40 * scale) + 20
    weights = np.exp(-np.abs(np.arange(-radius, radius + 1)) / scale)
    return weights / weights.sum()


def delta(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def delta_of_shifts(scale: float, shifts: tuple[int, ...], epsilon: float) -> float:
    first = second = np.ones(())
    for shift in shifts:
        first = np.multiply.outer(first, law(scale))
        second = np.multiply.outer(second, np.roll(law(scale), shift))
    return delta(first, second, epsilon)


@pytest.mark.parametrize("scale", [0.5, 2.0, 7.0])
def test_profile_is_that_of_two_counts_that_move(scale):
    event = counts(scale / 2.0).event
    for epsilon in np.linspace(0.0, 2.2 / scale, 12):
        exact = delta_of_shifts(scale, (1, -1), epsilon)
        assert exact - 1e-12 <= delta_of(event, epsilon) <= exact + 2e-3
    assert delta_of(event, 2.0 / scale + 1e-9) == 0.0
    assert epsilon_of(event, 1e-9) <= 2.0 / scale


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("mechanism", ["discrete-laplace", "gaussian"])
def test_an_independent_accountant_gives_the_stated_epsilon(mechanism, epsilon):
    """dp_accounting's own accountant, on the law of what is drawn and not on our events."""
    (release,) = calibrate([Release("counts", mechanism, 1.0, 1)], Budget(epsilon, 1e-6))
    scale = noise_on_integers(release).scale
    if mechanism == "gaussian":
        one = distributions.from_discrete_gaussian_mechanism(
            scale, sensitivity=1, value_discretization_interval=1e-3 * epsilon
        )
    else:
        assert scale == pytest.approx(2.0 / epsilon, rel=1e-4)
        one = distributions.from_discrete_laplace_mechanism(
            1.0 / scale, sensitivity=1, value_discretization_interval=1e-3 * epsilon
        )
    result = one.compose(one).get_epsilon_for_delta(1e-6)
    assert result <= epsilon * (1.0 + 2.1e-3)
    if mechanism == "discrete-laplace":
        assert result >= 0.999 * epsilon
    stated = PrivacyGuarantee.from_releases([release], Budget(epsilon, 1e-6))
    accountant = PLDAccountant(RELATION, 1e-3 * epsilon).compose(stated.events[0])
    assert accountant.get_epsilon(1e-6) == pytest.approx(epsilon, rel=3e-3)


def test_discrete_gaussian_noise_is_no_worse_than_what_pays_for_it():
    """The proof leaves a factor of exp(2e-12); sums over the law leave less than rounding."""
    for multiplier in (0.3, 1.0, 4.0):
        release = Release("counts", "gaussian", multiplier, 1)
        scale = noise_on_integers(release).scale
        radius = int(30 * scale) + 10
        weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / scale) ** 2)
        one = weights / weights.sum()
        first, second = np.outer(one, one), np.outer(np.roll(one, 1), np.roll(one, -1))
        for epsilon in np.linspace(0.0, 4.0 / multiplier, 25):
            stated = delta_of(release.event, epsilon)
            assert delta(first, second, epsilon) <= stated * (1.0 + 1e-9) + 1e-15


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_a_split_shift_is_no_worse(scale):
    for s in range(1, 4):
        for t in range(1, 4):
            for epsilon in np.linspace(0.0, (s + t) / scale, 40):
                split = delta_of_shifts(scale, (s, -t), epsilon)
                assert split <= delta_of_shifts(scale, (s + t,), epsilon) + 1e-12


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_continuous_noise_that_dominates(scale):
    for shift in (1, 2, 5):
        total = shift / scale + 2.0 * math.log(math.cosh(0.5 / scale))
        gaps = []
        for epsilon in np.linspace(-1.2 * total, 1.2 * total, 241):
            continuous = max(0.0, 1.0 - math.exp(epsilon), -math.expm1((epsilon - total) / 2.0))
            if epsilon <= -total:
                continuous = 1.0 - math.exp(epsilon)
            gaps.append(continuous - delta_of_shifts(scale, (shift,), epsilon))
        assert min(gaps) >= -1e-12
        assert min(gaps[121:200]) < 5e-3  # and hardly more than that


def test_several_records_of_a_person():
    """k records move one count by k up and one by k down, or several by less."""
    event = PrivacyGuarantee.from_releases([counts(1.0)], 1e-6).for_records(2).events[0]
    (discrete,) = composition_of_event(event).discrete
    assert discrete == (2.0, 2, 2)
    for epsilon in np.linspace(0.0, 2.0, 9):
        stated = delta_of(event, epsilon)
        for shifts in ((2, -2), (2, -1, -1)):
            radius = 26
            one = law(2.0)
            middle = len(one) // 2
            one = one[middle - radius : middle + radius + 1]
            first = second = np.ones(())
            for shift in shifts:
                first = np.multiply.outer(first, one)
                second = np.multiply.outer(second, np.roll(one, shift))
            assert delta(first, second, epsilon) <= stated + 1e-5
