"""How likely a verdict is, from guesses alone: worlds are drawn, and judged as audits are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._stored import Stored
from sklearn_dpwg.inspection.contrasts import Counts, Levels, Margin, levels_of
from sklearn_dpwg.privacy import IntegerNoise

_N_DRAWS = 400
# Numbers of people and ε are searched from 2⁻¹⁰ to 2¹⁴ times what is guessed.
_DOUBLINGS = (-10.0, 14.0)
_N_STEPS = 10


@dataclass(frozen=True)
class PlannedVerdict(Stored):
    """How likely each answer is in a world that was guessed; made by `GroupAudit.plan_verdict`.

    Parameters
    ----------
    passes, fails : float
        Shares of audits with this answer; all others cannot tell.
    wanted : {"passes", "fails"}
        The answer that is right in this world.
    power : float
        How often it is wanted.
    times_the_people : float or None
        How many times as many people in every group it takes; None where none are enough.
    epsilon : float or None
        About which ε it takes with these people; None where none is enough.
    """

    passes: float
    fails: float
    wanted: str
    power: float
    times_the_people: float | None
    epsilon: float | None

    def __str__(self) -> str:
        """Return a sentence for people."""
        people, epsilon = self.times_the_people, self.epsilon
        ways = [] if people is None else [f"{people:.2g} times the people"]
        ways += [] if epsilon is None else [f"epsilon = {epsilon:.2g}"]
        told = f"takes {' or '.join(ways)}" if ways else "is out of reach"
        return (
            f"passes {self.passes:.0%}, fails {self.fails:.0%}, cannot tell "
            f"{1.0 - self.passes - self.fails:.0%}; {self.wanted} in {self.power:.0%} {told}"
        )


@dataclass(frozen=True)
class World:
    """People of groups, of whom a rate is, and the noise that an audit would add.

    ``n_noisy`` says of how many noisy numbers hits and misses are the sums.
    """

    sizes: FloatArray
    rates: FloatArray
    noise: IntegerNoise | None
    n_noisy: tuple[int, int]
    is_public: bool

    def times(self, factor: float) -> World:
        """Return a world of so many times the people."""
        return replace(self, sizes=np.maximum(np.rint(self.sizes * factor), 1.0))

    def quieter(self, factor: float) -> World:
        """Return a world with so many times the ε, to which the scale of noise is inverse."""
        if self.noise is None:
            return self
        return replace(self, noise=replace(self.noise, scale=self.noise.scale / factor))

    def chances(self, margin: Margin, error: float) -> tuple[float, float]:
        """Return how often audits pass and fail: a seeded simulation, of no record."""
        rng = np.random.default_rng(0)
        shape = (_N_DRAWS, len(self.sizes))
        hits = rng.binomial(self.sizes.astype(np.int64), self.rates, shape).astype(np.float64)
        expected = self._counts(self.sizes * np.mean(np.atleast_2d(self.rates), axis=0))
        counts = self._counts(hits, *(self._noise(rng, n, shape) for n in self.n_noisy))
        levels = levels_of(expected, margin, error)
        passes, fails = _answers(counts, margin, levels, error)
        return float(passes.mean()), float(fails.mean())

    def _noise(self, rng: np.random.Generator, n_cells: int, shape: tuple[int, int]) -> FloatArray:
        if self.noise is None:
            return np.zeros(shape)
        numbers, probabilities = self.noise.law(n_cells)
        return rng.choice(numbers, shape, p=probabilities / probabilities.sum()).astype(np.float64)

    def _counts(self, hits: FloatArray, *noise: FloatArray) -> Counts:
        of_hits, of_misses = noise or (0.0, 0.0)
        variance = 0.0 if self.noise is None else self.noise.std**2
        ones = np.ones_like(hits)
        return Counts(
            hits + of_hits,
            self.sizes - hits + of_misses,
            self.n_noisy[0] * variance * ones,
            self.n_noisy[1] * variance * ones,
            self.sizes * ones if self.is_public else None,
        )


def _answers(
    counts: Counts, margin: Margin, levels: Levels, error: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which of many audits pass, and which fail."""
    places = np.arange(counts.hits.shape[-1])
    one, other = _Limits(counts, error), _Limits(counts, levels.pair)
    within = _beyond(one, one, margin, side=-1) <= 0.0
    within[..., places, places] = True
    beyond = _beyond(other, other, margin, side=1) > 0.0
    beyond[..., places, places] = False
    fails = beyond.any(axis=(-2, -1))
    if levels.pooled > 0.0:
        own, rest = _Limits(counts, levels.pooled), _Limits(counts.all_but_one(), levels.pooled)
        for pair in ((own, rest), (rest, own)):
            both = _beyond(*pair, margin, side=1)[..., places, places]
            fails |= (both > 0.0).any(axis=-1)
    return within.all(axis=(-2, -1)), fails


class _Limits:
    """Clopper and Pearson's limits of rates, of as many records as have the noisy variance."""

    def __init__(self, counts: Counts, level: float) -> None:
        noisy = bool(counts.hit_noise.any()) and counts.totals is None
        level *= 0.96 if noisy else 1.0  # what `ratio_interval` keeps for the total
        self.rates = counts.rates
        room = self.rates * (1.0 - self.rates)
        n = np.maximum(room / counts.variances(self.rates), 1e-3)
        hits, misses = n * self.rates, n * (1.0 - self.rates)
        self.below = self.rates - betaincinv(hits, misses + 1.0, level)
        self.above = 1.0 - betaincinv(misses, hits + 1.0, level) - self.rates


def _beyond(low: _Limits, high: _Limits, margin: Margin, side: int) -> FloatArray:
    """Return by how much low rates (rows) are below the margin of high ones, by MOVER's limit."""
    factor = margin.factor
    distance = factor * high.rates[..., None, :] - margin.gap - low.rates[..., :, None]
    ends = (low.above, high.below) if side > 0 else (low.below, high.above)
    return np.asarray(
        distance - side * np.hypot(ends[0][..., :, None], factor * ends[1][..., None, :])
    )


def least_enough(chance: Callable[[float], float], power: float) -> float | None:
    """Return the least number for which a chance that grows with it is large enough, if any is."""
    low, high = _DOUBLINGS
    if chance(2.0**high) < power:
        return None
    for _ in range(_N_STEPS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if chance(2.0**middle) >= power else (middle, high)
    return float(2.0**high)
