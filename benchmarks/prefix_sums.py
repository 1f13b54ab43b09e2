"""Private prefix sums: noise, time, memory.

Worst noise of a sum per unit of sensitivity at noise multiplier 1, over the number of steps; then
one stream of 200,000 steps of 50 numbers with seeded noise, its time and the memory it peaked at,
and what a whole round costs: a private player, and EXP3 with ten groups beside it.
"""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
from common import row, run_tables, seconds

from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.privacy.prefix_sums import PREFIX_SUMS, PrefixSumStream, make_prefix_sums
from sklearn_dpwg.solvers.learners import EXP3, FTRL

NAMES = ("toeplitz", "tree", "independent")
N_STEPS, N_DIMENSIONS, N_GROUPS = 200_000, 50, 10
SECURE_ROWS = 400


def open_stream(name: str, *, seed: int | None) -> PrefixSumStream:
    """Return a new stream of the long game."""
    mechanism = make_prefix_sums(name, n_steps=N_STEPS, n_dimensions=N_DIMENSIONS)
    release = mechanism.release("sums")
    return mechanism.open(NoiseSource(seed, [release]), release)


def noise() -> None:
    """Print the worst noise of every mechanism."""
    lengths = (16, 128, 1023, 1024, 16_384, 200_000)
    print("worst standard deviation of a sum, per unit of sensitivity")
    row("steps", [f"{n_steps:,}" for n_steps in lengths], 11, 14)
    for name in NAMES:
        sums = [make_prefix_sums(name, n_steps=n_steps, n_dimensions=1) for n_steps in lengths]
        row(name, [f"{each.worst_standard_deviation:.2f}" for each in sums], 11, 14)


def microseconds(stream: PrefixSumStream, n_steps: int) -> float:
    """Return the time of a step."""
    vector = np.full(N_DIMENSIONS, 0.1)

    def add() -> None:
        for _ in range(n_steps):
            stream.add(vector, 1.0)

    return 1e6 * seconds(add) / n_steps


def streams() -> None:
    """Print what a long stream costs."""
    print(f"\n{N_STEPS:,} steps of {N_DIMENSIONS} numbers; microseconds a step, megabytes")
    titles = ("open (s)", "seeded", "secure", "peak (MB)")
    row("", titles, 11, 14)
    for name in sorted(PREFIX_SUMS, key=NAMES.index):
        tracemalloc.start()
        microseconds(open_stream(name, seed=0), 1000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        opened = seconds(partial(open_stream, name, seed=0))
        seeded = microseconds(open_stream(name, seed=0), N_STEPS)
        stream = open_stream(name, seed=None)
        microseconds(stream, 1)
        secure = microseconds(stream, SECURE_ROWS)
        times = (f"{opened:.2f}", f"{seeded:.1f}", f"{secure:.0f}")
        row(name, (*times, f"{peak / 1e6:.1f}"), 11, 14)


def rounds() -> None:
    """Print what a round of the whole game costs, without records and losses."""
    rng = np.random.default_rng(0)
    gradient = np.full(N_DIMENSIONS, 0.1)
    rate = np.sqrt(2.0 * np.log(N_GROUPS) / (N_GROUPS * N_STEPS)) / 2.0

    def play(name: str) -> None:
        stream = open_stream(name, seed=0)
        weights, before = FTRL().start(np.zeros(N_DIMENSIONS), 1.0, 1000.0), 0.0
        groups = EXP3(np.ones(N_GROUPS), rate, ceiling=2.0)
        for _ in range(N_STEPS):
            group = groups.sample(rng)
            weights.predict()
            noisy = stream.add(gradient, 1.0)
            weights.update(noisy - before)
            before = noisy
            groups.update(group, 0.5)

    print(f"\nseconds for {N_STEPS:,} seeded rounds of FTRL behind the sums and EXP3 on 10 groups")
    for name in NAMES:
        taken = seconds(partial(play, name))
        print(f"{name:<14}{taken:>11.2f} ({1e6 * taken / N_STEPS:.1f} microseconds a round)")


if __name__ == "__main__":
    run_tables({"noise": noise, "streams": streams, "rounds": rounds})
