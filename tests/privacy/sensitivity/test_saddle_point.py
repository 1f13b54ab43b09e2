"""The bound on how far one record moves the regularised worst-group weights, as a formula."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit, logit

from tests.helpers.saddle_bounds import (
    lemma3_sensitivity,
    saddle_point_sensitivity,
    solutions_of_the_inequality,
)

FACTS = {
    "group_sizes": [40, 100],
    "lipschitz": 1.0,
    "gradient_diameter": 1.6,
    "loss_range": 5.0,
    "strong_convexity": 0.1,
    "entropy_weight": 0.3,
    "prior": [0.25, 0.75],
}
decades = st.floats(-8.0, 8.0).map(lambda exponent: 10.0**exponent)


def sensitivity(**facts):
    return saddle_point_sensitivity(**FACTS | facts)


def one_group_of(size, weight, **facts):
    """The bound of a group beside one so large that it does not count."""
    return sensitivity(group_sizes=[size, 10**15], prior=[weight, 1.0 - weight], **facts)


def grid(weight, swing):
    low, high = logit(weight) - swing, logit(weight) + swing
    inner = np.concatenate([np.linspace(-30, 30, 6001), np.linspace(-2, 2, 4001)])
    return expit(np.concatenate([inner[(inner > low) & (inner < high)], [low, high]]))


def small_changes(n, gamma, b, mu_w, mu_l, m):
    """Theorem 2, maximised over the advantage of the group as well as over its weight."""
    s = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 1000)])[:, None] * gamma
    value = m * (gamma + (1 - m) * s * b / mu_l) / (mu_w + m * (1 - m) * s**2 / mu_l)
    return float(value.max()) / n


@given(
    mu_w=st.floats(-5, 3), mu_l=st.floats(-3, 3), weight=st.floats(0.01, 0.99), b=st.floats(-1, 2)
)
def test_closed_form_is_the_maximum(mu_w, mu_l, weight, b):
    mu_w, mu_l, b = 10**mu_w, 10**mu_l, 10**b
    n = 10**6  # so large that the closed form is used
    facts = {"loss_range": b, "strong_convexity": mu_w, "entropy_weight": mu_l}
    claimed = one_group_of(n, weight, **facts)
    m = grid(weight, b / mu_l)
    searched = small_changes(n, 1.6, b, mu_w, mu_l, m)
    assert searched <= claimed * (1 + 1e-12)
    assert claimed == pytest.approx(searched, rel=1e-3)


@given(
    mu_w=decades,
    mu_l=decades,
    b=st.floats(1e-2, 1e2),
    n=st.integers(1, 10**6),
    fraction=st.floats(0, 1),
)
def test_lemma_3_covers_its_solver_too(mu_w, mu_l, b, n, fraction):
    facts = {"loss_range": b, "strong_convexity": mu_w, "entropy_weight": mu_l}
    gap = fraction * (1 / mu_w + b**2 / mu_l) / (8 * n**2)
    claimed = sensitivity(group_sizes=[n, 2 * n], **facts) + 2 * math.sqrt(2 * gap / mu_w)
    assert claimed <= lemma3_sensitivity(group_sizes=[n, 2 * n], lipschitz=1.0, **facts)


def test_search_over_finite_changes_is_an_upper_bound_and_close():
    rng = np.random.default_rng(0)
    worst, closest = 0.0, []
    for _ in range(150):
        n = int(rng.choice([1, 2, 3, 10, 100, 3000]))
        mu_w, mu_l = 10 ** rng.uniform(-5, 3), 10 ** rng.uniform(-8, 0)
        b, weight = 10 ** rng.uniform(-1, 2), rng.uniform(0.001, 0.999)
        claimed = one_group_of(n, weight, loss_range=b, strong_convexity=mu_w, entropy_weight=mu_l)
        result = solutions_of_the_inequality(rng, n, 1.6, b, mu_w, mu_l, weight, 20000).max()
        worst = max(worst, result / claimed)
        closest.append(result / claimed)
    assert worst <= 1.0
    assert np.median(closest) > 0.98
    assert np.quantile(closest, 0.1) > 0.9


# ---- limits


def test_one_group_is_regularised_erm():
    for mu_groups in (1e-8, 1.0, 1e8, math.inf):
        value = sensitivity(group_sizes=[50], prior=[1.0], entropy_weight=mu_groups)
        assert value == pytest.approx(1.6 / (50 * 0.1), rel=1e-8)


def test_infinite_entropy_weight_is_average_risk():
    proportional = {"group_sizes": [100, 300], "prior": [0.25, 0.75]}
    exact = 1.6 / (400 * 0.1)
    assert sensitivity(**proportional, entropy_weight=math.inf) == pytest.approx(exact, rel=1e-8)
    assert sensitivity(**proportional, entropy_weight=1e9) == pytest.approx(exact, rel=1e-6)
    uneven = sensitivity(entropy_weight=math.inf, group_sizes=[100, 300], prior=[0.9, 0.1])
    assert uneven == pytest.approx(0.9 * 1.6 / (100 * 0.1), rel=1e-8)


def test_finite_where_the_groups_are_not_regularised():
    for n in (1, 3, 100, 10_000):
        value = sensitivity(group_sizes=[n, n], prior=[0.5, 0.5], entropy_weight=1e-300)
        # the larger of one record's pull on a group alone, and of its value on the balance
        limit = max(1.6 / (n * 0.1), min(math.sqrt(5 / (n * 0.1)), 1.6 / 0.1))
        assert limit <= value <= 1.01 * limit


@given(
    mu_w=decades,
    mu_l=st.floats(-300, 300).map(lambda exponent: 10.0**exponent),
    sizes=st.lists(st.integers(1, 10**7), min_size=1, max_size=4),
    lean=st.floats(-30, 30),
)
def test_numbers_are_safe_and_monotone(mu_w, mu_l, sizes, lean):
    prior = np.exp(lean * np.arange(len(sizes)) / max(len(sizes) - 1, 1))
    facts = {
        "group_sizes": sizes, "prior": list(prior / prior.sum()), "strong_convexity": mu_w,
        "entropy_weight": mu_l,
    }  # fmt: skip
    value = sensitivity(**facts)
    assert 0 < value <= 1.6 / mu_w * (1 + 1e-8)
    more = 1.001  # above what the search leaves open
    assert value <= more * sensitivity(**facts | {"gradient_diameter": 1.7})
    assert value <= more * sensitivity(**facts | {"loss_range": 5.5})
    assert value <= more * sensitivity(**facts | {"strong_convexity": 0.9 * mu_w})
    assert sensitivity(**facts | {"group_sizes": [2 * n for n in sizes]}) <= more * value


# ---- nothing smaller holds


def move_of_linear_losses(n, mu_w, mu_l, weight, m, gamma=1.6, b=5.0):
    """Exact move in Theorem 4's problem: two groups of linear losses in one dimension."""
    high = gamma / 2
    s = min(b / (2 * largest_move(mu_w, mu_l, m, gamma, b)), gamma)
    shift = mu_l * (logit(m) - logit(weight))  # group 1 is worse by this at w = 0

    def slope(w, changed):
        value, pull = 0.0, high
        if changed:
            value, pull = -(b + gamma * w) / n, high - gamma / n
        log_odds = logit(weight) + (shift + s * w + value) / mu_l
        group_weight = expit(log_odds)
        return (
            group_weight * pull
            + (1 - group_weight) * (high - s)
            - m * high
            - (1 - m) * (high - s)
            + mu_w * w
        )

    wide = 10 * (gamma + b) / mu_w
    return brentq(slope, -wide, wide, args=(True,), xtol=1e-300, rtol=1e-14)


def largest_move(mu_w, mu_l, m, gamma, b):
    along = gamma * m / mu_w
    free = 0.5 * (along + math.sqrt(along**2 + m * (1 - m) * b**2 / (mu_w * mu_l)))
    if 2 * gamma * free >= b:
        return free
    return gamma * m * (mu_l + (1 - m) * b) / (mu_w * mu_l + m * (1 - m) * gamma**2)


@pytest.mark.parametrize("mu_w", [1e-3, 1e-1, 1e1, 1e3])
@pytest.mark.parametrize("mu_l", [1e-1, 1.0, 1e1, 1e3])
def test_linear_losses_attain_the_bound(mu_w, mu_l):
    n, weight = 10**7, 0.3
    swing = 5.0 / mu_l
    ends = expit(logit(weight) + np.array([-swing, swing]))
    m = max(
        np.linspace(ends[0], ends[1], 20001)[1:-1],
        key=lambda weight: largest_move(mu_w, mu_l, weight, 1.6, 5.0),
    )
    moved = abs(move_of_linear_losses(n, mu_w, mu_l, weight, float(m)))
    claimed = one_group_of(n, weight, strong_convexity=mu_w, entropy_weight=mu_l)
    assert 0.999 <= moved / claimed <= 1.0 + 1e-6


# ---- errors


@pytest.mark.parametrize("strength", [1.0, 1e10, 1e30, 1e100])
@pytest.mark.parametrize("sizes", [(1, 1), (50, 300), (7,)])
def test_huge_entropy_weights_are_those_of_fixed_group_weights(sizes, strength):
    """The product of both strengths is beyond all floats; the bound is not."""
    facts = {"group_sizes": sizes, "prior": [1.0 / len(sizes)] * len(sizes), "lipschitz": 1.0,
             "gradient_diameter": 1.6, "loss_range": 5.0, "strong_convexity": strength}  # fmt: skip
    fixed = saddle_point_sensitivity(**facts, entropy_weight=math.inf)
    for entropy_weight in (1e200, 1e300, 1e305):
        result = saddle_point_sensitivity(**facts, entropy_weight=entropy_weight)
        assert fixed * (1.0 - 1e-9) <= result <= fixed * (1.0 + 1e-6)


# ---- small rules and errors


def test_twice_the_lipschitz_constant_is_used_where_it_is_less():
    assert sensitivity(lipschitz=0.5) == sensitivity(gradient_diameter=1.0)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        *(("sizes", {"group_sizes": wrong}) for wrong in ([3], [3, 0])),
        *(("prior", {"prior": wrong}) for wrong in ([0.5, 0.6], [1.0, 0.0])),
        ("loss_range", {"loss_range": math.inf}),
        *(("strong_conv", {"strong_convexity": wrong}) for wrong in (5e-324, 0.0)),
        *(("entropy_weight", {"entropy_weight": wrong}) for wrong in (0.0, math.nan)),
        ("lipschitz", {"lipschitz": "1"}),
    ],
)
def test_wrong_numbers_are_refused(name, facts):
    with pytest.raises((ValueError, TypeError), match=f"^{name}.* must"):
        sensitivity(**facts)
