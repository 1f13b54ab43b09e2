"""The ways in which the online solver may deal the records to rounds and players."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.problem import Problem

if TYPE_CHECKING:
    from sklearn_dpwg.solvers.oco.oco import OCO


# Shares of the records that the weights player may get, and the numbers of rounds that are tried.
WEIGHT_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)
FEWEST_ROUNDS = 8
ROUNDS_PER_DOUBLING = 4


@dataclass(frozen=True)
class Design:
    """One way to deal the records to rounds and players.

    Parameters
    ----------
    play : {"weighted", "sampled"}
        Whether a round takes records of every group or of a drawn one.
    n_rounds : int
        Rounds.
    weight_rates, feedback_rates : ndarray of shape (n_groups,)
        Records of each group that each player reads in a round, on average.
    """

    play: Literal["weighted", "sampled"]
    n_rounds: int
    weight_rates: FloatArray
    feedback_rates: FloatArray


def designs(problem: Problem, solver: OCO) -> Iterator[Design]:
    """Yield the ways to deal the records that the parameters leave open.

    Parameters
    ----------
    problem : Problem
        Public facts.
    solver : OCO
        Its parameters.

    Yields
    ------
    Design
        At least one.

    Raises
    ------
    ValueError
        If a group is too small for two players, or has no end and the rounds are not given.
    """
    several, p = problem.n_groups > 1, problem.n_groups
    sizes = np.asarray(problem.group_sizes, dtype=float)
    if several and sizes.min() < 2:
        raise ValueError(
            "OCO needs at least 2 records of every group, one for each player, got a group of 1: "
            "merge it or leave it out."
        )
    unbounded = bool(np.isinf(sizes).any())
    if unbounded and solver.n_rounds is None:
        raise ValueError(
            "n_rounds of OCO must be set where a group has no end (a size of infinity), got None."
        )
    n_records = float(sizes.sum())
    batch = solver.batch_size
    if batch is None and unbounded:
        batch = 1
    shares: tuple[float, ...] = WEIGHT_SHARES if several else (1.0,)
    if solver.weight_share is not None and several:
        shares = (solver.weight_share,)
    for share in shares:
        # records of a round: those for the weights, and those for the groups with them
        size = None if batch is None else batch + (_feedback_size(batch, share) if several else 0)
        for n_rounds in _round_numbers(solver, n_records, size):
            if solver.play == "weighted":
                total = n_records / n_rounds if size is None else float(size)
                total = min(total, n_records / n_rounds)
                parts = np.full(p, 1.0 / p) if unbounded else sizes / n_records
                rates = total * parts
                feedback = np.zeros(p)
                if several:
                    of_all = np.minimum(n_rounds * rates, sizes)
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


def _feedback_size(batch_size: int, share: float) -> int:
    return max(1, round(batch_size * (1.0 - share) / share))


def _round_numbers(solver: OCO, n_records: float, size: int | None) -> list[int]:
    """Return numbers of rounds to try; those of a plan for many calls divide among them."""
    least = 2 if size is None and solver.play == "sampled" else 1
    most = n_records / (size if size is not None else least)
    if solver.n_rounds is not None:
        return [max(1, int(min(solver.n_rounds, most)))]
    if size is not None:
        return [max(1, int(most))]
    most = max(1, int(min(most, solver.max_rounds)))
    fewest = min(FEWEST_ROUNDS, most)
    doublings = math.log2(most / fewest)
    tried = np.geomspace(fewest, most, 1 + math.ceil(ROUNDS_PER_DOUBLING * doublings))
    horizon = solver.horizon
    return sorted({min(most, math.ceil(number / horizon) * horizon) for number in tried})
