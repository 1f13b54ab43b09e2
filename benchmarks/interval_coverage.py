"""Coverage and width of the intervals of a private audit.

Counts get OpenDP's discrete Laplace noise of scale 2/ε, what a histogram costs when a record may be
replaced. "rate" is of n records, known; "true positives" is a ratio of two noisy counts about the
30 % of the records that are positive; "hidden" is a selection rate of n records, where each of the
two counts is a sum of two cells and n is not known; "attribute" is that of a value of an attribute
that crosses others of six combinations, each count a sum of twelve. The worst group is looked for
in 36 worlds of 3 or 10 groups: all equal, one worse among rare errors, or spread evenly; of 300
records each, or from 30 to 3,000. An interval is computed once for every count that occurs, which
leaves most of the time to the ratios, about ten minutes.

    python benchmarks/interval_coverage.py rate true-positives hidden attribute worst
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product

import numpy as np
import opendp.prelude as dp
from common import run_tables

from sklearn_dpwg.metrics import intervals
from sklearn_dpwg.metrics.intervals.ratio import worst_group_set
from sklearn_dpwg.privacy import IntegerNoise

dp.enable_features("contrib")

SIZES, RATES, EPSILONS = (30, 100, 1000, 10_000), (0.01, 0.1, 0.5), (0.1, 1.0, 4.0)
POSITIVES = 0.3
N_REPETITIONS, N_WORST = 2000, 1000

# how many noisy numbers each count is the sum of
CELLS = {"rate": (1,), "true-positives": (1, 1), "hidden": (2, 2), "attribute": (12, 12)}

Counts = tuple[int, ...]
Method = Callable[[Counts, IntegerNoise], intervals.Interval]


@dataclass(frozen=True)
class Measured:
    """How often the truth was below, within and above an interval, and how wide it was."""

    rate: float
    below: float
    above: float
    width: float

    @property
    def coverage(self) -> float:
        """Fraction of intervals that held the truth."""
        return 1.0 - self.below - self.above

    @property
    def sides(self) -> tuple[float, float]:
        """Fractions that erred on either side."""
        return self.below, self.above


def opendp_noise(scale: float, shape: tuple[int, ...]) -> np.ndarray:
    """Draw discrete Laplace noise."""
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    drawn = dp.m.make_laplace(*space, scale=scale)([0] * int(np.prod(shape)))
    return np.array(drawn, dtype=np.int64).reshape(shape)


def draw_counts(
    kind: str, n: int, rate: float, epsilon: float, repetitions: int, rng: np.random.Generator
) -> list[Counts]:
    """Draw the counts that an interval is computed from."""
    total = round(POSITIVES * n) if kind == "true-positives" else n
    hits = rng.binomial(total, rate, repetitions)
    noise = [opendp_noise(2.0 / epsilon, (k, repetitions)).sum(axis=0) for k in CELLS[kind]]
    if kind == "rate":
        return [(int(count), n) for count in hits + noise[0]]
    pairs = zip(hits + noise[0], total - hits + noise[1], strict=True)
    return [(int(first), int(second)) for first, second in pairs]


def method_of(kind: str) -> Method:
    """Return the interval that a kind of counts is given to."""
    if kind == "rate":
        return lambda counts, noise: intervals.rate_interval(*counts, noise=noise)
    cells = CELLS[kind]
    return lambda counts, noise: intervals.ratio_interval(*counts, noise=noise, n_cells=cells)


def measure(
    kind: str, n: int, epsilon: float, *, repetitions: int, method: Method | None = None
) -> list[Measured]:
    """Return what was measured at each rate, the binomial counts seeded."""
    interval = lru_cache(maxsize=None)(method or method_of(kind))
    noise = IntegerNoise("laplace", 2.0 / epsilon)
    rng = np.random.default_rng(0)
    measured = []
    for rate in RATES:
        counts = draw_counts(kind, n, rate, epsilon, repetitions, rng)
        result = [interval(count, noise) for count in counts]
        below = np.mean([rate < one.low for one in result])
        above = np.mean([rate > one.high for one in result])
        width = np.mean([one.width for one in result])
        measured.append(Measured(rate, float(below), float(above), float(width)))
    return measured


def print_coverage(kind: str, repetitions: int) -> None:
    """Print one row for each size and ε, three rates side by side."""
    print(f"\n{kind}, {repetitions} repetitions at rates {', '.join(map(str, RATES))}")
    print("| n | ε | coverage | mean width |\n|---|---|---|---|")
    everything = []
    for n, epsilon in product(SIZES, EPSILONS):
        measured = measure(kind, n, epsilon, repetitions=repetitions)
        everything += [one.coverage for one in measured]
        coverage = " / ".join(f"{one.coverage:.3f}" for one in measured)
        widths = " / ".join(f"{one.width:.3g}" for one in measured)
        print(f"| {n} | {epsilon:g} | {coverage} | {widths} |", flush=True)
    below = sum(coverage < 0.94 for coverage in everything)
    print(f"smallest coverage {min(everything):.3f}, mean {np.mean(everything):.3f}, {below} < .94")


@dataclass(frozen=True)
class World:
    """Groups with known sizes and true rates of error, and an ε."""

    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    epsilon: float


def worlds() -> Iterable[tuple[str, World]]:
    """Yield the 36 worlds with a name each."""
    for n_groups, spread, sizes, epsilon in product(
        (3, 10), ("equal", "rare", "even"), ("alike", "mixed"), EPSILONS
    ):
        rates = {
            "equal": np.full(n_groups, 0.1),
            "rare": np.array([0.04] + [0.02] * (n_groups - 1)),
            "even": np.linspace(0.3, 0.1, n_groups),
        }[spread]
        n = np.full(n_groups, 300) if sizes == "alike" else np.geomspace(30, 3000, n_groups)
        world = World(tuple(n.astype(int).tolist()), tuple(rates.tolist()), epsilon)
        yield f"{n_groups} groups, {spread} rates, {sizes} sizes, ε = {epsilon:g}", world


def measure_worst(
    world: World,
    *,
    repetitions: int,
    assume: Callable[[IntegerNoise], IntegerNoise | None] = lambda noise: noise,
) -> dict[str, float]:
    """Return how often each statement about the worst group was true."""
    noise = IntegerNoise("laplace", 2.0 / world.epsilon)
    assumed = assume(noise)
    interval = lru_cache(maxsize=None)(
        lambda count, n, level: intervals.rate_interval(
            count if assumed else min(max(count, 0), n), n, noise=assumed, confidence=level
        )
    )
    rng = np.random.default_rng(0)
    sizes, rates = np.array(world.sizes), np.array(world.rates)
    counts = rng.binomial(sizes, rates, (repetitions, len(sizes)))
    counts += opendp_noise(noise.scale, counts.shape)
    worst, gap = rates.max(), rates.max() - rates.min()
    held = dict.fromkeys(("set", "value", "gap", "argmax", "members"), 0.0)
    for row in counts.tolist():
        pairs = list(zip(row, world.sizes, strict=True))
        members, (low, high), apart = worst_group_set(
            lambda level, pairs=pairs: [interval(count, n, level) for count, n in pairs],
            len(pairs),
            greater_is_worse=True,
            confidence=0.95,
        )
        # where all are equal each is a worst one, and each may be lost no more often
        held["set"] += int(rates.argmax()) in members
        held["value"] += low <= worst <= high
        held["gap"] += apart.low <= gap <= apart.high
        held["argmax"] += rates[np.argmax(np.array(row) / sizes)] == worst
        held["members"] += len(members)
    return {name: total / repetitions for name, total in held.items()}


def print_worst(repetitions: int) -> None:
    """Print how often the set, the value and the gap held the truth, a row for each world."""
    print(f"\nworst group, {repetitions} repetitions; members: mean size of the set")
    print("| world | set | value | gap | largest estimate | members |")
    print("|---|---|---|---|---|---|")
    rows = []
    for name, world in worlds():
        held = measure_worst(world, repetitions=repetitions)
        rows.append(held)
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in held.values())} |", flush=True)
    for statement in ("set", "value", "gap"):
        held_by_world = [row[statement] for row in rows]
        print(f"{statement}: smallest {min(held_by_world):.3f}, mean {np.mean(held_by_world):.3f}")


if __name__ == "__main__":
    run_tables(
        {
            "rate": partial(print_coverage, "rate", N_REPETITIONS),
            "worst": partial(print_worst, N_WORST),
            "true-positives": partial(print_coverage, "true-positives", N_REPETITIONS),
            "hidden": partial(print_coverage, "hidden", N_WORST),
            "attribute": partial(print_coverage, "attribute", N_WORST),
        }
    )
