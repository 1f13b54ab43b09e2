"""FTRL, optimistic or not, and gradient descent: explicit minimisers and regret bounds."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.base import clone

from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.privacy.prefix_sums import PREFIX_SUMS, make_prefix_sums
from sklearn_dpwg.solvers.stream.learners import (
    FTRL,
    LEARNERS,
    OnlineGradientDescent,
    OptimisticFTRL,
    PrivatePlayer,
    SumNoise,
    make_learner,
)
from tests.helpers.replay import silent

BOTH = pytest.mark.parametrize("learner", [FTRL(), OnlineGradientDescent()], ids=["ftrl", "ogd"])
# those whose plan has a strength that regularises
REGULARISED = pytest.mark.parametrize(
    "learner",
    [FTRL(), OnlineGradientDescent(), OptimisticFTRL()],
    ids=["ftrl", "ogd", "optimistic"],
)
EVERY = pytest.mark.parametrize("learner", [made() for made in LEARNERS.values()], ids=LEARNERS)
NO_CURVES = (0.0, None)


def opened(mechanism, multiplier, *, seed=0, sensitivity=1.0):
    """Return a stream of sums whose noise follows from a seed."""
    release = mechanism.release("sums", multiplier)
    with pytest.warns(SeededNoiseWarning):
        return mechanism.open(NoiseSource(seed, [release]), release, sensitivity=sensitivity)


class Quadratic:
    """A sum of losses ⟨linear, w⟩ + curvature/2 ‖w - center‖², for comparison."""

    def __init__(self, n_weights):
        self.linear, self.curvature, self.constant = np.zeros(n_weights), 0.0, 0.0

    def add(self, linear, curvature=0.0, center=None):
        center = np.zeros_like(linear) if center is None else center
        self.linear = self.linear + linear - curvature * center
        self.curvature += curvature
        self.constant += 0.5 * curvature * center @ center

    def __call__(self, w):
        return self.linear @ w + 0.5 * self.curvature * w @ w + self.constant

    def gradient(self, w):
        return self.linear + self.curvature * w

    def least_in_ball(self, radius):
        """Return the minimiser by SciPy, which knows nothing of projections."""
        ball = {
            "type": "ineq",
            "fun": lambda w: radius**2 - w @ w,
            "jac": lambda w: -2.0 * w,
        }
        found = minimize(
            self, np.zeros_like(self.linear), jac=self.gradient, constraints=[ball],
            method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
        )  # fmt: skip
        return found.x


# --- what is played ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_ftrl_plays_the_explicit_minimiser(seed):
    rng = np.random.default_rng(seed)
    radius, strength = 2.0, rng.uniform(0.5, 10.0)
    initial = rng.uniform(-1.0, 1.0, 3)
    player = FTRL().start(3, radius, strength, initial=initial)
    losses = Quadratic(3)
    losses.add(np.zeros(3), strength, initial)
    for step in range(8):
        hint = rng.normal(size=3) if step % 2 else None
        expected = copy.copy(losses)
        expected.add(np.zeros(3) if hint is None else hint)
        played = player.predict(hint)
        assert np.linalg.norm(played) <= radius * (1 + 1e-12)
        np.testing.assert_allclose(played, expected.least_in_ball(radius), atol=2e-6)
        loss = (
            rng.normal(size=3),
            rng.choice([0.0, rng.exponential()]),
            rng.normal(size=3) if rng.random() < 0.5 else None,
        )
        player.update(*loss)
        losses.add(*loss)


@pytest.mark.parametrize("seed", range(5))
def test_gradient_descent_steps_and_projects(seed):
    rng = np.random.default_rng(seed)
    radius, strength = 1.5, rng.uniform(0.5, 5.0)
    weights = rng.uniform(-0.8, 0.8, 3)
    player = OnlineGradientDescent().start(3, radius, strength, initial=weights)

    def step_back(point):
        return point * min(1.0, radius / np.linalg.norm(point))

    for step in range(20):
        hint = rng.normal(size=3) if step % 3 == 2 else None
        played = weights if hint is None else step_back(weights - hint / strength)
        np.testing.assert_allclose(player.predict(hint), played, atol=1e-14)
        linear, curvature = rng.normal(size=3), rng.choice([0.0, rng.exponential()])
        center = rng.normal(size=3)
        player.update(linear, curvature, center)
        strength += curvature
        gradient = linear + curvature * (played - center)
        weights = step_back(weights - gradient / strength)


@BOTH
def test_players_agree_inside_the_ball(learner):
    gradients = np.random.default_rng(0).normal(size=(30, 4))
    player = learner.start(4, 1e6, 3.0)
    for step, gradient in enumerate(gradients):
        np.testing.assert_allclose(player.predict(), -gradients[:step].sum(axis=0) / 3.0)
        player.update(gradient)


@BOTH
def test_what_is_played_belongs_to_the_caller(learner):
    initial, gradient, hint = np.array([0.1, 0.2]), np.array([1.0, -2.0]), np.array([0.5, 0.5])
    player = learner.start(2, 1.0, 3.0, initial=initial)
    initial[:] = np.nan
    player.predict()[:] = np.nan
    player.predict(hint)[:] = np.nan
    player.update(np.zeros(2), 1e-300)  # reads where the last round was played
    np.testing.assert_array_equal(player.predict(), [0.1, 0.2])
    player.update(gradient)
    gradient[:] = np.nan
    player.predict()[:] = np.nan
    np.testing.assert_allclose(player.predict(), [0.1 - 1 / 3, 0.2 + 2 / 3])
    np.testing.assert_array_equal(hint, [0.5, 0.5])


# --- regret ------------------------------------------------------------------------------------


def signs(rng, played, step):
    return rng.choice([-1.0, 1.0], played.size) / np.sqrt(played.size)


def onwards(rng, played, step):
    """Push outwards: what was played was always wrong."""
    norm = np.linalg.norm(played)
    return played / norm if norm > 1e-9 else np.eye(played.size)[0]


def to_and_fro(rng, played, step):
    return np.eye(played.size)[0] * (-1.0) ** step


def one_way(rng, played, step):
    return np.eye(played.size)[0]


def turning(rng, played, step):
    return np.eye(played.size)[0] * (1.0 if step < 40 else -1.0)


ADVERSARIES = [signs, onwards, to_and_fro, one_way, turning]


def play(learner, adversary, *, n_steps=100, strength=3.0, curved=False, hinted=False, seed=0):
    """Return the regret against the worst comparator, and its bound.

    The worst comparator for a bound with γ/2 ‖u - w_1‖² is the least point of all losses and that.
    """
    rng = np.random.default_rng(seed)
    radius = 1.0
    player = learner.start(3, radius, strength, initial=(initial := rng.uniform(-0.3, 0.3, 3)))
    losses, last = Quadratic(3), np.zeros(3)
    total, lost, variation = strength, 0.0, 0.0
    for step in range(n_steps):
        hint = rng.normal(size=3) / 3.0 if hinted else None
        played = player.predict(hint)
        linear = adversary(rng, played, step)
        curves = (rng.exponential() * 0.1, rng.uniform(-0.5, 0.5, 3)) if curved else NO_CURVES
        player.update(linear, *curves)
        one = Quadratic(3)
        one.add(linear, *curves)
        losses.add(linear, *curves)
        total += curves[0]
        lost += one(played)
        # without a hint the optimistic learner takes the last linear part for one
        expected = last if isinstance(learner, OptimisticFTRL) else np.zeros(3)
        surprise = one.gradient(played) - (expected if hint is None else hint)
        variation += surprise @ surprise / (2.0 * total)
        last = linear
    regularised = copy.copy(losses)
    regularised.add(np.zeros(3), strength, initial)
    least = regularised.linear / -regularised.curvature
    least *= min(1.0, radius / np.linalg.norm(least))
    return lost - losses(least), 0.5 * strength * np.sum((least - initial) ** 2) + variation


@pytest.mark.parametrize(
    ("learner", "curved", "hinted"),
    [
        (FTRL(), False, False),
        (FTRL(), False, True),
        (FTRL(), True, False),
        (FTRL(), True, True),
        # no bound is claimed for its hints with curvature
        (OnlineGradientDescent(), False, False),
        (OnlineGradientDescent(), False, True),
        (OnlineGradientDescent(), True, False),
        (OptimisticFTRL(), False, False),
        (OptimisticFTRL(), True, False),
    ],
)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("strength", [0.5, 3.0, 30.0])
def test_regret_is_within_its_bound(learner, adversary, strength, curved, hinted):
    regret, bound = play(learner, adversary, strength=strength, curved=curved, hinted=hinted)
    assert regret <= bound + 1e-9


@settings(max_examples=40, deadline=None)
@given(
    learner=st.sampled_from([FTRL(), OnlineGradientDescent()]),
    adversary=st.sampled_from(ADVERSARIES),
    strength=st.floats(0.05, 100.0),
    n_steps=st.integers(1, 60),
    curved=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_regret_property(learner, adversary, strength, n_steps, curved, seed):
    regret, bound = play(
        learner, adversary, strength=strength, n_steps=n_steps, curved=curved, seed=seed
    )
    assert regret <= bound + 1e-9


@BOTH
def test_the_bound_is_nearly_attained(learner):
    ratios = [
        regret / bound
        for adversary in ADVERSARIES
        for strength in (3.0, 10.0)
        for regret, bound in [play(learner, adversary, strength=strength)]
    ]
    assert 0.9 < max(ratios) <= 1.0 + 1e-9


@BOTH
def test_good_hints_leave_little_regret(learner):
    blind, bound = play(learner, to_and_fro, strength=1.0)
    player = learner.start(3, 1.0, 1.0)
    lost = 0.0
    for step in range(100):
        linear = to_and_fro(None, np.zeros(3), step)
        lost += linear @ player.predict(linear)
        player.update(linear)
    assert lost < 0.0 < 0.5 * blind < bound


# --- the optimistic learner --------------------------------------------------------------------


def test_it_is_ftrl_with_the_last_linear_part_as_hint():
    rng = np.random.default_rng(0)
    mine, plain = (kind().start(3, 1.0, 4.0) for kind in (OptimisticFTRL, FTRL))
    last = None
    for step in range(40):
        np.testing.assert_array_equal(mine.predict(), plain.predict(last))
        own = rng.normal(size=3)
        np.testing.assert_array_equal(mine.predict(own), plain.predict(own))
        linear, center = rng.normal(size=(2, 3))
        curvature = rng.exponential() * (step % 2)
        mine.update(linear, curvature, center)
        plain.update(linear, curvature, center)
        last = linear.copy()
        linear[:] = np.nan  # belongs to the caller


def test_what_does_not_change_costs_nothing_after_the_first_round():
    """The regret of a constant loss does not grow; that of FTRL is larger."""
    regrets = {}
    for kind in (FTRL, OptimisticFTRL):
        player = kind().start(2, 1.0, 2.0)
        lost = []
        for _ in range(50):
            lost.append(player.predict()[0] + 1.0)  # the best weights are (-1, 0)
            player.update(np.array([1.0, 0.0]))
        regrets[kind] = np.array(lost)
    assert regrets[OptimisticFTRL].sum() < regrets[FTRL].sum()
    assert regrets[OptimisticFTRL][2:].sum() < 1e-12


# --- planning ----------------------------------------------------------------------------------


@REGULARISED
@pytest.mark.parametrize("name", [None, *sorted(PREFIX_SUMS)])
def test_planned_strength_is_the_best(learner, name):
    noise = None
    if name:
        noise = SumNoise.of(make_prefix_sums(name, n_steps=200, n_dimensions=10), 5.0, 0.2)
    facts = {"n_steps": 200, "radius": 4.0, "gradient_norm": 1.3, "distance": 2.0, "noise": noise}
    best = learner.plan(**facts)
    for factor in (0.9, 1.1):
        other = clone(learner).set_params(strength=best.strength * factor).plan(**facts)
        assert other.regret_bound > best.regret_bound
        assert other.strength == best.strength * factor
    if not name:
        variation = 0.5 * 200 if not isinstance(learner, OptimisticFTRL) else 0.5 + 2.0 * 199
        assert best.regret_bound == pytest.approx(2.0 * 1.3 * np.sqrt(2.0 * variation))
    assert learner.plan(**{**facts, "distance": None}).regret_bound > best.regret_bound


@pytest.mark.parametrize("name", sorted(PREFIX_SUMS))
def test_noise_of_a_mechanism(name):
    mechanism = make_prefix_sums(name, n_steps=12, n_dimensions=40_000)
    stream = opened(mechanism, 2.0, sensitivity=0.3)
    sums = np.array([stream.add(np.zeros(40_000)) for _ in range(12)])
    noise = SumNoise.of(mechanism, 2.0, 0.3)
    np.testing.assert_allclose(np.linalg.norm(sums, axis=1), noise.sums, rtol=0.03)
    increments = np.diff(sums, axis=0, prepend=0.0)
    np.testing.assert_allclose(np.linalg.norm(increments, axis=1), noise.increments, rtol=0.03)
    cosine = increments[0] @ increments[1] / np.linalg.norm(increments[:2], axis=1).prod()
    assert noise.is_independent == (abs(cosine) < 0.03)


@REGULARISED
@pytest.mark.parametrize("name", sorted(PREFIX_SUMS))
def test_private_regret_is_within_its_bound_whatever_the_noise(learner, name):
    """The bounds of docs/theory/online-learners.md with the noise that was drawn."""
    n_steps, radius, strength = 150, 1.0, 20.0
    mechanism = make_prefix_sums(name, n_steps=n_steps, n_dimensions=3)
    for seed, adversary in enumerate(ADVERSARIES * 3):
        rng = np.random.default_rng(seed)
        stream = opened(mechanism, 1.5, seed=seed, sensitivity=0.5)
        player = PrivatePlayer(learner.start(3, radius, strength), stream)
        total, lost, noises = np.zeros(3), 0.0, [np.zeros(3)]
        for step in range(n_steps):
            played = player.predict()
            linear = adversary(rng, played, step)
            player.update(linear)
            lost += linear @ played
            total += linear
            noises.append(player._noisy_sum - total)
        drawn = SumNoise(
            np.linalg.norm(noises[1:], axis=1),
            np.linalg.norm(np.diff(noises, axis=0), axis=1),
            is_independent=False,  # what was drawn is what it is
        )
        variation, rest = learner.regret_terms(n_steps, radius, 1.0, drawn)
        bound = 0.5 * strength * radius**2 + variation / strength + rest
        assert lost + radius * np.linalg.norm(total) <= bound


def test_terms_of_the_regret():
    """By hand: L = 3, R = 5, two rounds; a longer mechanism's later noise does not count."""
    sums, increments = np.array([1.0, 2.0, 100.0]), np.array([1.0, 4.0, 100.0])
    correlated, independent = (SumNoise(sums, increments, which) for which in (False, True))
    assert FTRL().regret_terms(2, 5.0, 3.0, correlated) == (9.0 + 3.0 * 1.0, 0.0)
    assert FTRL().regret_terms(2, 5.0, 3.0, independent) == (9.0 + 3.0 * 1.0, 0.0)
    descent = OnlineGradientDescent()
    assert descent.regret_terms(2, 5.0, 3.0, independent) == (9.0 + 0.5 * (1.0 + 16.0), 0.0)
    by_parts = 0.5 * (4.0**2 + 7.0**2) + 1.0 * 4.0 + 2.0 * 7.0
    assert descent.regret_terms(2, 5.0, 3.0, correlated) == (by_parts, 2.0 * 5.0 * 2.0)
    # three rounds: the first has no hint, the last sum is never played
    assert OptimisticFTRL().regret_terms(3, 5.0, 3.0) == (0.5 * 9.0 + 2 * 0.5 * 36.0, 0.0)


@REGULARISED
@pytest.mark.parametrize("name", ["independent", "toeplitz"])
def test_expected_private_regret_is_within_the_plan(learner, name):
    n_steps, regrets = 100, []
    mechanism = make_prefix_sums(name, n_steps=n_steps, n_dimensions=3)
    plan = learner.plan(
        n_steps=n_steps, radius=1.0, gradient_norm=1.0, noise=SumNoise.of(mechanism, 3.0, 1.0)
    )
    for seed in range(40):
        stream = opened(mechanism, 3.0, seed=seed)
        player = PrivatePlayer(learner.start(3, 1.0, plan.strength), stream)
        total, lost = np.zeros(3), 0.0
        for step in range(n_steps):
            played = player.predict()
            linear = turning(None, played, step)
            player.update(linear)
            lost += linear @ played
            total += linear
        regrets.append(lost + np.linalg.norm(total))
    error = np.std(regrets) / np.sqrt(len(regrets))
    assert np.mean(regrets) <= plan.regret_bound + 5.0 * error
    noiseless = learner.plan(n_steps=n_steps, radius=1.0, gradient_norm=1.0)
    assert plan.regret_bound > noiseless.regret_bound


# --- behind a mechanism ------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("name", sorted(PREFIX_SUMS))
def test_without_noise_the_private_player_is_the_player(learner, name):
    mechanism = make_prefix_sums(name, n_steps=70, n_dimensions=3)
    stream = mechanism.open(silent(), mechanism.release("sums"), sensitivity=None)
    bare = learner.start(3, 1.0, 5.0)
    private = PrivatePlayer(learner.start(3, 1.0, 5.0), stream)
    rng = np.random.default_rng(0)
    for _ in range(70):
        hint, linear, center = rng.normal(size=(3, 3))
        curvature = rng.exponential()
        np.testing.assert_allclose(private.predict(hint), bare.predict(hint), atol=1e-12)
        bare.update(linear, curvature, center)
        private.update(linear, curvature, center, sensitivity=1.0)


@pytest.mark.parametrize("name", sorted(PREFIX_SUMS))
def test_private_ftrl_plays_the_released_sum(name):
    mechanism = make_prefix_sums(name, n_steps=200, n_dimensions=3)
    streams = [opened(mechanism, 2.0) for _ in range(2)]
    player = PrivatePlayer(FTRL().start(3, 1.0, 50.0), streams[0])
    for vector in np.random.default_rng(0).normal(size=(200, 3)):
        player.update(vector)
        target = -streams[1].add(vector) / 50.0
        target *= min(1.0, 1.0 / np.linalg.norm(target))
        np.testing.assert_allclose(player.predict(), target, atol=1e-12)


# --- book-keeping ------------------------------------------------------------------------------


@EVERY
def test_a_learner_keeps_no_state(learner):
    before = learner.get_params()
    player = learner.start(2, 1.0, 1.0)
    player.update(np.ones(2))
    assert learner.get_params() == before
    assert before["strength"] is None
    np.testing.assert_array_equal(learner.start(2, 1.0, 1.0).predict(), np.zeros(2))
    assert (
        repr(clone(learner).set_params(strength=2.0)) == f"{type(learner).__name__}(strength=2.0)"
    )


def test_names_and_instances():
    for name, made in LEARNERS.items():
        assert type(make_learner(name)) is made
    own = FTRL(strength=2.0)
    assert make_learner(own) is own
    with pytest.raises(ValueError, match=r"learner must be one of .*'ftrl'.*got 'adam'"):
        make_learner("adam")
    with pytest.raises(TypeError, match="a name or a Learner instance"):
        make_learner(FTRL)


@EVERY
def test_wrong_parameters(learner):
    facts = {"n_steps": 10, "radius": 1.0, "gradient_norm": 1.0}
    for wrong in ({"n_steps": 0}, {"radius": 0.0}, {"gradient_norm": np.nan}, {"distance": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            learner.plan(**facts | wrong)
    with pytest.raises(ValueError, match="strength must be positive and finite, got -1"):
        clone(learner).set_params(strength=-1.0).plan(**facts)
    short = SumNoise.of(make_prefix_sums("tree", n_steps=9, n_dimensions=1), 1.0, 1.0)
    with pytest.raises(ValueError, match="for all 10 steps, got 9"):
        learner.plan(**facts, noise=short)
    for args in [(0, 1.0, 1.0), (1, np.inf, 1.0), (1, 1.0, 0.0)]:
        with pytest.raises(ValueError, match="must be"):
            learner.start(*args)
    for n_weights, initial, words in (
        (1, [1.1], "initial must lie in the ball"),
        (2, [1.0], "initial"),
    ):
        with pytest.raises(ValueError, match=words):
            learner.start(n_weights, 1.0, 1.0, initial=initial)
    with pytest.raises(ValueError, match="curvature must be at least 0"):
        learner.start(1, 1.0, 1.0).update(np.ones(1), -1.0)
