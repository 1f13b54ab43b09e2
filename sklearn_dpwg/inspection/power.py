"""How likely a verdict is, from guesses alone: worlds are drawn, and judged as audits are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

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
    guess : str, default=""
        What the world is guessed to be, in words; an earlier version did not keep it.
    """

    passes: float
    fails: float
    wanted: str
    power: float
    times_the_people: float | None
    epsilon: float | None
    guess: str = ""
    _added: ClassVar[Mapping[str, Any]] = {"guess": ""}

    def __str__(self) -> str:
        """Return a sentence for people."""
        people, epsilon = self.times_the_people, self.epsilon
        ways = [] if people is None else [f"{people:.3g} times the people"]
        ways += [] if epsilon is None else [f"epsilon = {epsilon:.3g}"]
        told = f"takes {' or '.join(ways)}" if ways else "is out of reach"
        guessed = f"If {self.guess}: " if self.guess else ""
        return (
            f"{guessed}passes {self.passes:.0%}, fails {self.fails:.0%}, cannot tell "
            f"{1.0 - self.passes - self.fails:.0%}; {self.wanted} in {self.power:.0%} {told}"
        )


@dataclass(frozen=True)
class World:
    """People of groups, of whom a rate is, and the noise that an audit would add.

    ``n_noisy`` says of how many noisy numbers hits and misses are the sums. Of ``n_joint`` such
    rates of other people each has to pass. ``pairs`` are those that are compared, the one whose
    rate may be too low first: all, or those with a reference.
    """

    sizes: FloatArray
    rates: FloatArray
    noise: IntegerNoise | None
    n_noisy: tuple[int, int]
    is_public: bool
    pairs: NDArray[np.bool_]
    has_reference: bool
    n_joint: int = 1

    def chances(
        self, margin: Margin, error: float, *, people: float = 1.0, epsilon: float = 1.0
    ) -> tuple[float, float]:
        """Return how often audits pass and fail: a seeded simulation, of no record.

        It is of so many times the people and the ε, to which the scale of noise is inverse.
        """
        n, part = self.n_joint, error / self.n_joint
        rng, sizes = np.random.default_rng(0), np.maximum(np.rint(self.sizes * people), 1.0)
        counts = np.empty((2, _N_DRAWS, len(sizes)))
        counts[0] = rng.binomial(sizes.astype(np.int64), self.rates, counts.shape[1:])
        counts[1] = sizes - counts[0]
        variances = [0.0, 0.0]
        if self.noise is not None:
            noise = replace(self.noise, scale=self.noise.scale / epsilon)
            variances = [cells * noise.std**2 for cells in self.n_noisy]
            for one, cells in zip(counts, self.n_noisy, strict=True):
                numbers, masses = noise.law(cells)
                one += rng.choice(numbers, one.shape, p=masses / masses.sum())

        def of(hits: FloatArray, misses: FloatArray) -> Counts:
            noise = [np.full_like(hits, one) for one in variances]
            known = np.broadcast_to(sizes, hits.shape) if self.is_public else None
            return Counts(hits, misses, noise[0], noise[1], known)

        levels = Levels(0.0, part / int(self.pairs.sum()))
        if not self.has_reference:
            levels = levels_of(of(sizes * self.rates, sizes * (1.0 - self.rates)), margin, part)
        passes, fails = _answers(of(*counts), self.pairs, margin, levels, error)
        return float(passes.mean()) ** n, 1.0 - (1.0 - float(fails.mean())) ** n


# Rates with the distances of their limits below and above.
_Rates = tuple[FloatArray, FloatArray, FloatArray]


def _answers(
    counts: Counts, pairs: NDArray[np.bool_], margin: Margin, levels: Levels, error: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which of many audits pass, and which fail."""
    one, other = _limits(counts, error), _limits(counts, levels.pair)
    passes = (~pairs | (_beyond(one, one, margin, -1.0) <= 0.0)).all(axis=(-2, -1))
    fails = (pairs & (_beyond(other, other, margin, 1.0) > 0.0)).any(axis=(-2, -1))
    if levels.pooled > 0.0:
        same = np.eye(counts.hits.shape[-1], dtype=bool)
        own, rest = _limits(counts, levels.pooled), _limits(counts.all_but_one(), levels.pooled)
        for pair in ((own, rest), (rest, own)):
            fails = fails | (same & (_beyond(*pair, margin, 1.0) > 0.0)).any(axis=(-2, -1))
    return np.asarray(passes), np.asarray(fails)


def _limits(counts: Counts, level: float) -> _Rates:
    """Return Clopper and Pearson's limits, of as many records as have the noisy variance."""
    if counts.hit_noise.any() and counts.totals is None:
        level *= 0.96  # the rest is for the total, as in `ratio_interval`
    p = counts.rates
    n = np.maximum(p * (1.0 - p) / counts.variances(), 1e-3)
    hits, misses = n * p, n * (1.0 - p)
    below = p - betaincinv(hits, misses + 1.0, level)
    return p, below, 1.0 - betaincinv(misses, hits + 1.0, level) - p


def _beyond(low: _Rates, high: _Rates, margin: Margin, side: float) -> FloatArray:
    """Return by how much low rates (rows) are below the margin of high ones, by MOVER's limit."""
    p, q = low[0][..., :, None], high[0][..., None, :]
    first, second = (low[2], high[1]) if side > 0.0 else (low[1], high[2])
    room = np.hypot(first[..., :, None], margin.factor * second[..., None, :])
    return np.asarray(margin.factor * q - margin.gap - p - side * room)


def least_enough(chance: Callable[[float], float], power: float) -> float | None:
    """Return the least number for which a chance that grows with it is large enough, if any is."""
    low, high = _DOUBLINGS
    if chance(2.0**high) < power:
        return None
    for _ in range(_N_STEPS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if chance(2.0**middle) >= power else (middle, high)
    return float(2.0**high)
