"""What a guarantee says, in numbers and in words."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.special import ndtr, ndtri

from sklearn_dpwg.exceptions import InputError, PlanExceededError, UnsupportedMechanismError
from sklearn_dpwg.privacy import (
    Budget,
    PrivacyGuarantee,
    Release,
    calibrate,
    epsilon_of,
    joint_guarantee,
)
from sklearn_dpwg.privacy.accounting.calibration import delta_of
from sklearn_dpwg.privacy.gaussian import gdp_delta, gdp_epsilon
from tests.helpers.guarantees import BUDGET, MIXED, PUBLIC, guarantee_of, mu_of, words


def test_profile_is_the_pointwise_maximum(mixed, gaussian):
    epsilons = np.array([[2.0, 0.0], [0.3, 1.0]])
    for guarantee in (mixed, gaussian):
        expected = np.max(
            [[delta_of(e, float(x)) for x in epsilons.ravel()] for e in guarantee.events], axis=0
        )
        result = guarantee.profile(epsilons)
        assert result.shape == (2, 2)
        np.testing.assert_allclose(result.ravel(), expected, rtol=1e-6, atol=1e-15)
    np.testing.assert_allclose(gaussian.profile(epsilons), gdp_delta(epsilons, mu_of(gaussian)))


def test_tradeoff_of_gaussians_is_exact(gaussian):
    alphas = np.array([0.0, 1e-9, 0.05, 0.5, 1.0])
    expected = ndtr(ndtri(1.0 - alphas) - mu_of(gaussian))
    np.testing.assert_allclose(gaussian.tradeoff(alphas), expected, rtol=1e-6)
    assert gaussian.tradeoff(0.0) == 1.0


def test_tradeoff_by_duality():
    alone = PrivacyGuarantee.from_releases([Release("b", "laplace", 1.0, 1)], 1e-6)
    for alpha in (1e-3, 0.2, 0.5, 0.9):  # Laplace, shift 1: Dong, Roth & Su (2022), section 2
        if alpha < math.exp(-1) / 2:
            exact = 1 - math.e * alpha
        elif alpha <= 0.5:
            exact = math.exp(-1) / (4 * alpha)
        else:
            exact = math.exp(-1) * (1 - alpha)
        assert exact - 1e-4 <= alone.tradeoff(alpha) <= exact + 1e-12
    many = PrivacyGuarantee.from_releases([Release("b", "laplace", 30.0, 900)], 1e-6)
    assert many.tradeoff(0.05) == pytest.approx(ndtr(ndtri(0.95) - 1.0), abs=0.01)


def test_several_records_of_one_person(gaussian):
    three = gaussian.for_records(3)
    assert three.epsilon == pytest.approx(gdp_epsilon(1e-6, 3.0 * mu_of(gaussian)), rel=1e-12)
    assert three.records_per_person == 3
    assert three.for_records(2).records_per_person == 6
    assert three.for_records(2).epsilon == pytest.approx(gaussian.for_records(6).epsilon)
    assert gaussian.for_records(1) == gaussian
    laplace = PrivacyGuarantee.from_releases([Release("b", "laplace", 4.0, 1)], 1e-6)
    assert laplace.for_records(2).epsilon == pytest.approx(0.5, rel=1e-5)


def test_several_records_in_parts_that_differ(mixed):
    """Rows spread over the two parts must be covered too."""
    two = mixed.for_records(2)
    a, b, c = calibrate(MIXED, BUDGET)
    spread = [
        dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(a.noise_multiplier / 2), 10),
        b.event,
        c.event,
    ]
    assert two.epsilon >= epsilon_of(dp_event.ComposedDpEvent(spread), 1e-6)
    for event in mixed.events:
        assert two.epsilon >= epsilon_of(event, 1e-6)


def test_a_split_laplace_shift_is_no_worse():
    """Theorem 3 of docs/theory/noise.md."""
    for shift in (0.1, 1.0, 6.0):
        whole = dp_event.LaplaceDpEvent(1.0 / shift)
        for fraction in (0.5, 0.1):
            split = dp_event.ComposedDpEvent(
                [
                    dp_event.LaplaceDpEvent(1.0 / (fraction * shift)),
                    dp_event.LaplaceDpEvent(1.0 / ((1.0 - fraction) * shift)),
                ]
            )
            for epsilon in np.linspace(0.0, shift, 9):
                bound = delta_of(whole, float(epsilon))
                assert delta_of(split, float(epsilon)) <= bound * (1 + 1e-3) + 1e-3 * shift


def test_sampled_records_of_one_person_are_refused():
    sampled = guarantee_of([Release("g", "gaussian", 1.0, 10, sampling_rate=0.1)])
    with pytest.raises(UnsupportedMechanismError, match="PoissonSampledDpEvent"):
        sampled.for_records(2)
    assert "no guarantee is known" in words(sampled)
    assert "REPLACE_ONE" in words(sampled)
    assert "so they are doubled below" in words(sampled)


def test_joint_guarantee_adds_events(gaussian, mixed):
    joint = joint_guarantee([gaussian, mixed, gaussian], 1e-6)
    assert joint.seeded
    assert joint.public == gaussian.public
    assert joint.epsilon == pytest.approx(joint.epsilon_at(1e-6), rel=1e-9)  # sums of Python 3.12
    assert joint.epsilon > max(gaussian.epsilon, mixed.epsilon)
    twice = joint_guarantee([gaussian, gaussian], 1e-7)
    assert twice.epsilon == pytest.approx(gdp_epsilon(1e-7, math.sqrt(2.0) * mu_of(gaussian)))
    assert PrivacyGuarantee.from_json(joint.to_json()) == joint
    persons = [one.for_records(3) for one in (gaussian, gaussian)]
    assert joint_guarantee(persons, 1e-6).records_per_person == 3
    none = PrivacyGuarantee.from_releases((), Budget(math.inf, 1e-6))
    assert not joint_guarantee([gaussian, none], 1e-6).is_private
    for other in (mixed, none):
        some = joint_guarantee([replace(gaussian, outside=("a scaler",)), other], 1e-6)
        assert some.outside == ("a scaler",)
    for wrong in ([gaussian, gaussian.for_records(2)], []):
        with pytest.raises(ValueError, match=r"guarantees must protect"):
            joint_guarantee(wrong, 1e-6)


def test_epsilon_is_recomputed(gaussian, mixed):
    for guarantee in (gaussian, mixed):
        worst = max(epsilon_of(event, 1e-6) for event in guarantee.events)
        assert guarantee.epsilon == worst == guarantee.epsilon_at(1e-6)
        assert 0.999 < guarantee.epsilon <= guarantee.requested_epsilon == 1.0
    assert gaussian.epsilon_at(1e-9) == pytest.approx(gdp_epsilon(1e-9, mu_of(gaussian)))
    with pytest.raises(PlanExceededError, match=r"above the budget of 1\.0"):
        PrivacyGuarantee.from_releases([Release("w", "gaussian", 1.0, 3)], BUDGET)


def test_json_round_trip(gaussian, mixed):
    sampled = guarantee_of([Release("g", "gaussian", 1.0, 10, sampling_rate=0.1)])
    counts = guarantee_of([Release("c", "discrete-laplace", 1.0, 3)], relation="replace-one")
    none = PrivacyGuarantee.from_releases((), Budget(math.inf, 1e-6), public=PUBLIC)
    for guarantee in (gaussian, mixed, sampled, counts, none, mixed.for_records(2)):
        text = guarantee.to_json()
        assert PrivacyGuarantee.from_json(text) == guarantee
        json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    odd = PrivacyGuarantee(1.0, 1e-6, "replace-one", (), (dp_event.ZCDpEvent(0.1),))
    with pytest.raises(UnsupportedMechanismError, match="ZCDpEvent"):
        odd.to_json()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("epsilon", wrong) for wrong in (math.nan, -1.0, "1", True, None, 0.5)),
        *(("delta", wrong) for wrong in (0.0, 1, "x")),
        *(("neighbours", wrong) for wrong in ("any", 3)),
        *(("public", wrong) for wrong in ("everything", [3], {"a": 1}, 3)),
        *(("events", wrong) for wrong in ([], {}, [3], [{"type": "os.system"}])),
        *(("records_per_person", wrong) for wrong in (0, 1.5, True)),
        *((name, wrong) for name in ("seeded", "of_person") for wrong in (1, None, "true")),
        *(("requested_epsilon", wrong) for wrong in (0.1, "x", [])),
        ("text", 9.0),
    ],
)
def test_a_stored_field_that_is_wrong_has_a_sentence(gaussian, name, wrong):
    field = {"neighbours": "relation", "text": "mu"}.get(name, name)
    text = json.dumps(json.loads(gaussian.to_json()) | {field: wrong})
    with pytest.raises((ValueError, TypeError), match=f"^{name} must"):
        PrivacyGuarantee.from_json(text)


def test_stored_events_that_cannot_be_accounted_for_have_a_sentence(gaussian):
    described = json.loads(gaussian.to_json())
    event = {"type": "GaussianDpEvent", "noise_multiplier": 1e-300}
    with pytest.raises(InputError, match=r"^events must"):
        PrivacyGuarantee.from_json(json.dumps(described | {"events": [event]}))


def test_no_privacy_is_said():
    none = PrivacyGuarantee.from_releases((), Budget(math.inf, 1e-6))
    assert not none.is_private
    assert words(none).startswith("No privacy: epsilon is infinite.")
    assert none.epsilon_at(0.1) == none.for_records(2).epsilon == math.inf
    np.testing.assert_array_equal(none.profile([0.0, 5.0]), 1.0)
    np.testing.assert_array_equal(none.tradeoff([0.0, 0.5]), 0.0)
    loud = PrivacyGuarantee.from_releases([Release("b", "laplace", 0.02, 20)], 1e-6)
    profile = loud.profile([0.0, 0.0, 650.0, 990.0, 1000.0, np.inf])
    assert np.all(np.diff(profile) <= 0.0)
    assert profile[1] == 1.0 >= profile[2] > 0.9 > 0.1 > profile[3] > 1e-9 > profile[4] == 0.0
