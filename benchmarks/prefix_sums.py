"""
Private prefix sums: noise, time, memory
========================================

Worst noise of a sum per unit of sensitivity at noise multiplier 1, over the number of steps; then
one stream of 200,000 steps of 50 numbers with seeded noise, its time and the memory it peaked at,
and what a whole round costs: a private player, and EXP3 with ten groups beside it.
"""

from __future__ import annotations

import time
import tracemalloc
import warnings

import numpy as np

from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.privacy.prefix_sums import PREFIX_SUMS, PrefixSumStream, make_prefix_sums
from sklearn_dpwg.solvers.stream.learners import EXP3, FTRL, PrivatePlayer

warnings.simplefilter("ignore", SeededNoiseWarning)

NAMES = ("toeplitz", "honaker", "tree", "independent")
N_STEPS, N_DIMENSIONS, N_GROUPS = 200_000, 50, 10
SECURE_ROWS = 400


def open_stream(name: str, *, seed: int | None, sensitivity: float | None) -> PrefixSumStream:
    """Return a new stream of the long game."""
    mechanism = make_prefix_sums(name, n_steps=N_STEPS, n_dimensions=N_DIMENSIONS)
    release = mechanism.release("sums")
    return mechanism.open(NoiseSource(seed, [release]), release, sensitivity=sensitivity)


def microseconds(start: float, n_rounds: int) -> float:
    """Return the time since a start, a round."""
    return 1e6 * (time.perf_counter() - start) / n_rounds


def print_noise() -> None:
    """Print the worst noise of every mechanism."""
    lengths = (16, 128, 1023, 1024, 16_384, 200_000)
    print("worst standard deviation of a sum, per unit of sensitivity")
    print(f"{'steps':<14}" + "".join(f"{n_steps:>11,}" for n_steps in lengths))
    for name in NAMES:
        worst = [
            make_prefix_sums(name, n_steps=n_steps, n_dimensions=1).worst_standard_deviation
            for n_steps in lengths
        ]
        print(f"{name:<14}" + "".join(f"{deviation:>11.2f}" for deviation in worst))


def print_streams() -> None:
    """Print what a long stream costs."""
    vector = np.full(N_DIMENSIONS, 0.1)
    print(f"\n{N_STEPS:,} steps of {N_DIMENSIONS} numbers; microseconds a step, megabytes")
    titles = ("open (s)", "seeded", "own scales", "secure", "as planned", "peak (MB)")
    print(f"{'':<14}" + "".join(f"{title:>11}" for title in titles))
    for name in sorted(PREFIX_SUMS, key=NAMES.index):
        mechanism = make_prefix_sums(name, n_steps=N_STEPS, n_dimensions=N_DIMENSIONS)
        tracemalloc.start()
        stream = open_stream(name, seed=0, sensitivity=1.0)
        for _ in range(1000):
            stream.add(vector)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

        start = time.perf_counter()
        stream = open_stream(name, seed=0, sensitivity=1.0)
        opened = time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(N_STEPS):
            stream.add(vector)
        fixed = microseconds(start, N_STEPS)

        stream = open_stream(name, seed=0, sensitivity=None)
        start = time.perf_counter()
        for _ in range(N_STEPS):
            stream.add(vector, 1.0)
        stated = microseconds(start, N_STEPS)

        stream = open_stream(name, seed=None, sensitivity=1.0)
        stream.add(vector)
        start = time.perf_counter()
        for _ in range(SECURE_ROWS):
            stream.add(vector)
        secure = microseconds(start, SECURE_ROWS)
        planned = 1e6 * mechanism.secure_seconds / N_STEPS
        print(
            f"{name:<14}{opened:>11.2f}{fixed:>11.1f}{stated:>11.1f}{secure:>11.0f}{planned:>11.0f}"
            f"{peak / 1e6:>11.1f}"
        )


def print_rounds() -> None:
    """Print what a round of the whole game costs, without records and losses."""
    rng = np.random.default_rng(0)
    gradient = np.full(N_DIMENSIONS, 0.1)
    rate = np.sqrt(2.0 * np.log(N_GROUPS) / (N_GROUPS * N_STEPS)) / 2.0
    print(f"\nseconds for {N_STEPS:,} seeded rounds of FTRL behind the sums and EXP3 on 10 groups")
    for name in NAMES:
        start = time.perf_counter()
        stream = open_stream(name, seed=0, sensitivity=1.0)
        weights = PrivatePlayer(FTRL().start(N_DIMENSIONS, 1.0, 1000.0), stream)
        groups = EXP3(np.ones(N_GROUPS), rate, ceiling=2.0)
        for _ in range(N_STEPS):
            group = groups.sample(rng)
            weights.predict()
            weights.update(gradient)
            groups.update(group, 0.5)
        seconds = time.perf_counter() - start
        print(f"{name:<14}{seconds:>11.2f} ({1e6 * seconds / N_STEPS:.1f} microseconds a round)")


if __name__ == "__main__":
    print_noise()
    print_streams()
    print_rounds()
