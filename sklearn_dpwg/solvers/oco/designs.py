"""Designs of the online solver: the records of each round and player."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.oco.parameters import OCOParameters

# Shares of the records that the weights player may get, and the numbers of rounds that are tried.
WEIGHT_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)
FEWEST_ROUNDS = 8
ROUNDS_PER_DOUBLING = 4


@dataclass(frozen=True)
class Design:
    """One way to deal the records to rounds and players."""

    play: Literal["weighted", "sampled"]  # a round takes records of every group, or of a drawn one
    n_rounds: int
    weight_rates: FloatArray  # records of each group that the weights player reads in a round
    feedback_rates: FloatArray  # the same for the group player; both on average


def designs(problem: Problem, parameters: OCOParameters) -> Iterator[Design]:
    """Yield the designs that the parameters leave open, at least one."""
    several, p = problem.n_groups > 1, problem.n_groups
    sizes = np.asarray(problem.group_sizes, dtype=float)
    if several and sizes.min() < 2:
        raise ValueError(
            "OCO needs at least 2 records of every group, one for each player, got a group of 1: "
            "merge it or leave it out."
        )
    unbounded = bool(np.isinf(sizes).any())
    if unbounded and parameters.n_rounds is None:
        raise ValueError(
            "n_rounds of OCO must be set where a group has no end (a size of infinity), got None."
        )
    n_records = float(sizes.sum())
    batch = parameters.batch_size
    if batch is None and unbounded:
        batch = 1
    shares: tuple[float, ...] = WEIGHT_SHARES if several else (1.0,)
    if parameters.weight_share is not None and several:
        shares = (parameters.weight_share,)
    for share in shares:
        # records of a round: those for the weights, and those for the groups with them
        size = None if batch is None else batch + (_feedback_size(batch, share) if several else 0)
        for n_rounds in _round_numbers(parameters, n_records, size):
            if parameters.play == "weighted":
                total = n_records / n_rounds if size is None else float(size)
                total = min(total, n_records / n_rounds)
                parts = np.full(p, 1.0 / p) if unbounded else sizes / n_records
                rates = total * parts
                feedback = np.zeros(p)
                if several:
                    of_all = np.minimum(n_rounds * rates, sizes)
                    _refuse_too_few(of_all.min(), batch, n_rounds)
                    # both players of a small group get a record
                    weights = np.clip(np.round(share * of_all), 1.0, of_all - 1.0)
                    if unbounded:
                        weights = share * of_all
                    feedback = (of_all - weights) / n_rounds
                yield Design("weighted", n_rounds, rates - feedback, feedback)
            else:
                own = batch if batch is not None else max(1, int(share * n_records / n_rounds))
                other = _feedback_size(own, share) if several else 0
                yield Design("sampled", n_rounds, np.full(p, float(own)), np.full(p, float(other)))


def _refuse_too_few(expected: float, batch_size: int | None, n_rounds: int) -> None:
    """Refuse batches in which a player would get fewer than no records of a small group."""
    if expected < 2.0 * (1.0 - 1e-9):
        raise ValueError(
            f"batch_size of OCO must let every group have 2 records in all rounds, one for each "
            f"player, got {batch_size!r}, which in {n_rounds:,} round(s) leaves a group "
            f"{expected:.2g}: take larger batches, more rounds, or merge the group."
        )


def _feedback_size(batch_size: int, share: float) -> int:
    return max(1, round(batch_size * (1.0 - share) / share))


def _round_numbers(parameters: OCOParameters, n_records: float, size: int | None) -> list[int]:
    """Return numbers of rounds to try; those of a plan for many calls divide among them."""
    least = 2 if size is None and parameters.play == "sampled" else 1
    most = n_records / (size if size is not None else least)
    if parameters.n_rounds is not None:
        return [max(1, int(min(parameters.n_rounds, most)))]
    if size is not None:
        return [max(1, int(most))]
    most = max(1, int(min(most, parameters.max_rounds)))
    fewest = min(FEWEST_ROUNDS, most)
    doublings = math.log2(most / fewest)
    tried = np.geomspace(fewest, most, 1 + math.ceil(ROUNDS_PER_DOUBLING * doublings))
    horizon = parameters.horizon
    return sorted({min(most, math.ceil(number / horizon) * horizon) for number in tried})
