"""Coverage of intervals of mean losses in skewed worlds, by whole audits; prints its verdicts."""

import sys
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.special import gammainc, gammaincc, ndtri

from sklearn_dpwg.inspection import GroupAudit, audit_result
from sklearn_dpwg.inspection.verdicts import mean_interval
from sklearn_dpwg.metrics.intervals import Interval, worst_group_set

pytestmark = [
    pytest.mark.audit,
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning"),
]

LEAST = 0.945  # of 0.95
N_GROUPS = 2000
# A limit at the level errs with it; in so many groups it may do so by chance this much more often.
SMALL = 0.0025
MOST_ON_A_SIDE = {0.025: 0.035, SMALL: 0.0065}


def two(chance, body, rare=1.0):
    return lambda rng, shape: np.where(rng.random(shape) < chance, rare, body)


def mixed(rng, shape):
    return np.where(rng.random(shape) < 0.002, 1.0, rng.beta(1.0, 20.0, shape))


def squared(rng, shape):
    score = rng.beta(2.0, 5.0, shape)
    return ((rng.random(shape) < score) - score) ** 2


# Losses as parts of their bound, with their mean.
WORLDS = {
    "1 % at the bound, else 0.002": (two(0.01, 0.002), 0.01 + 0.99 * 0.002),
    "0.3 % at the bound, else 0.002": (two(0.003, 0.002), 0.003 + 0.997 * 0.002),
    "0.2 % at the bound, else beta(1, 20)": (mixed, 0.002 + 0.998 / 21.0),
    "beta(0.3, 3)": (lambda rng, shape: rng.beta(0.3, 3.0, shape), 0.3 / 3.3),
    "beta(0.1, 3)": (lambda rng, shape: rng.beta(0.1, 3.0, shape), 0.1 / 3.1),
    "gamma(0.1), capped": (
        lambda rng, shape: np.minimum(rng.gamma(0.1, 0.3, shape), 1.0),
        0.03 * gammainc(1.1, 1.0 / 0.3) + gammaincc(0.1, 1.0 / 0.3),
    ),
    "even from 0 to 0.2": (lambda rng, shape: rng.uniform(0.0, 0.2, shape), 0.1),
    "1 - beta(0.3, 3)": (lambda rng, shape: 1.0 - rng.beta(0.3, 3.0, shape), 1.0 - 0.3 / 3.3),
    "1 % at 0, else 0.3": (two(0.01, 0.3, 0.0), 0.297),
    "squared errors": (squared, 2.0 / 7.0 - 6.0 / 56.0),
}
SETTINGS = [(np.inf, "hidden"), *product((4.0, 1.0), ("hidden", "public"))]


def audited(losses, codes, epsilon=np.inf, sizes="hidden", mechanism="auto"):
    """Return an audit: squared errors of scores, of negatives alone, are whatever losses."""
    made = GroupAudit(
        epsilon=epsilon,
        delta=1e-9,
        group_labels=range(codes[-1] + 1),
        losses=("squared_error",),
        sizes=sizes,
        mechanism=mechanism,
        random_state=0,
    )
    return made.run(np.zeros(len(codes), dtype=int), np.sqrt(losses), codes)


def measure(world, n, *setting):
    """Return by level how often a limit errs on each side, and the mean width over a normal one's.

    One audit of so many equal groups is as many repetitions.
    """
    draw, mean = WORLDS[world]
    losses = draw(np.random.default_rng(0), N_GROUPS * n)
    result = audited(losses, np.repeat(np.arange(N_GROUPS), n), *setting)
    sides = {}
    for level in MOST_ON_A_SIDE:
        rates = result.rates("squared_error", confidence=1.0 - 2.0 * level)
        # sums are rounded by a millionth
        below = np.mean([mean < rate.low - 1e-6 for rate in rates])
        above = np.mean([mean > rate.high + 1e-6 for rate in rates])
        sides[level] = float(below), float(above)
    normal_width = 2.0 * 1.96 * np.mean(losses.reshape(N_GROUPS, n).std(axis=1)) / np.sqrt(n)
    width = np.mean([rate.width for rate in result.rates("squared_error")])
    return sides, float(width / normal_width)


def held_of_worst(*setting, n_times=400):
    """Return how often set, value and gap of the worst of ten groups hold what is true.

    The worst one is small and has rare large losses; in a third of repetitions none are seen.
    """
    rng = np.random.default_rng(0)
    sizes = np.array([100, *np.geomspace(30, 3000, 9).astype(int)])
    one = np.repeat(np.arange(10), sizes)
    codes = np.concatenate([one + 10 * place for place in range(n_times)])
    losses = np.where(
        codes % 10 == 0, two(0.01, 0.002)(rng, len(codes)), rng.beta(1, 99, len(codes))
    )
    result = audited(losses, codes, *setting)
    held = np.zeros(3)
    for place in range(n_times):
        rates = [partial(result._interval, "squared_error", 10 * place + i) for i in range(10)]
        found = worst_group_set(rates)
        worst, gap = 0.01198, 0.00198
        held += (
            0 in found.members,
            found.value_low <= worst <= found.value_high,
            found.gap.low <= gap <= found.gap.high,
        )
    return held / n_times


def say(text):
    sys.stdout.write(f"\n  {text}")


@pytest.mark.parametrize("world", WORLDS)
def test_every_interval_covers(world):
    for n in (30, 300, 3000):
        found = [measure(world, n, *setting) for setting in SETTINGS]
        coverage = [1.0 - sum(sides[0.025]) for sides, _ in found]
        worst = {level: max(max(sides[level]) for sides, _ in found) for level in MOST_ON_A_SIDE}
        say(
            f"{world}, n = {n}: coverage {coverage[0]:.3f}, least with noise {min(coverage):.3f}, "
            f"{found[0][1]:.2f} times the normal width; a side errs with at most "
            f"{worst[0.025]:.4f} of .025, {worst[SMALL]:.4f} of {SMALL}"
        )
        assert min(coverage) >= LEAST
        for level, most in MOST_ON_A_SIDE.items():
            assert worst[level] <= most


def test_gaussian_noise_is_covered():
    sides, _ = measure("beta(0.3, 3)", 300, 1.0, "hidden", "gaussian")
    say(f"Gaussian noise: {sides}")
    assert all(max(pair) <= MOST_ON_A_SIDE[level] for level, pair in sides.items())


@pytest.mark.parametrize("epsilon", [np.inf, 4.0, 1.0])
def test_statements_about_the_worst_group_hold(epsilon):
    held = held_of_worst(epsilon)
    say(f"worst of ten, ε = {epsilon:g}: set {held[0]:.3f}, value {held[1]:.3f}, gap {held[2]:.3f}")
    assert held.min() >= 0.94


def normal(loss, group, counted, confidence):
    """The normal interval of before."""
    size = float(counted.cells[group].sum())
    shift = loss.sums[group] / size
    variance = max(loss.bound**2 / 8.0 + loss.squares[group] / size - shift**2, 0.0)
    half = ndtri(0.5 + 0.5 * confidence) * np.sqrt(variance / size)
    mean = 0.5 * loss.bound + shift
    return Interval(mean, mean - half, mean + half, confidence)


def pseudo_losses(loss, group, counted, confidence):
    """The normal interval with z²/2 losses at 0 and at the bound beside: enough at 95 % alone."""
    size, extra = float(counted.cells[group].sum()), ndtri(0.5 + 0.5 * confidence) ** 2
    more = replace(
        loss,
        sums=(loss.sums[group],),
        squares=(loss.squares[group] + extra * loss.bound**2 / 8.0,),
    )
    shared = replace(counted, cells=np.array([[[size + extra, 0], [0, 0]]]), sizes=None)
    return normal(more, 0, shared, confidence)


def noise_ignored(loss, group, counted, confidence):
    quiet = replace(loss, sum_noise_std=0.0, square_noise_std=0.0)
    return mean_interval(quiet, group, counted, confidence)


FAULTS = {
    "normal": (normal, "1 % at the bound, else 0.002", 300, (np.inf, "hidden"), 0.025),
    "normal, capped gamma": (normal, "gamma(0.1), capped", 300, (np.inf, "hidden"), 0.025),
    "pseudo-losses, one side": (pseudo_losses, "beta(0.1, 3)", 300, (np.inf, "hidden"), SMALL),
    "noise ignored": (noise_ignored, "beta(0.3, 3)", 300, (1.0, "hidden"), 0.025),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(fault, monkeypatch):
    wrong, world, n, setting, level = FAULTS[fault]
    monkeypatch.setattr(audit_result.verdicts, "mean_interval", wrong)
    sides, _ = measure(world, n, *setting)
    say(f"{fault}: coverage {1 - sum(sides[0.025]):.3f}, a side errs with {max(sides[level]):.4f}")
    assert max(sides[level]) > MOST_ON_A_SIDE[level]


def test_a_worst_group_that_normal_intervals_drop_is_seen(monkeypatch):
    monkeypatch.setattr(audit_result.verdicts, "mean_interval", normal)
    held = held_of_worst()
    say(f"normal, worst of ten: set {held[0]:.3f}, value {held[1]:.3f}, gap {held[2]:.3f}")
    assert held[0] < 0.9
