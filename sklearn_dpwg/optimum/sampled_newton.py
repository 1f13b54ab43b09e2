"""The minimax optimum from samples of growing size, ending with all records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sklearn_dpwg.kernels import one_blas_thread
from sklearn_dpwg.optimum.minimax_newton import minimax_newton
from sklearn_dpwg.optimum.objective import SaddlePoint
from sklearn_dpwg.risks import RiskFunctions, Risks, keyed_parts

# One record in eight is in the next smaller sample, and of small groups at least so many.
SHARE, LEAST_OF_A_GROUP = 8, 200
# Records per weight that a sample needs to be worth solving, and for its Hessian to stand in for
# that of all records: the error of a step is then about one over the root of it.
TO_SOLVE, TO_STAND_IN = 20, 200
# Fixed, so that results repeat: no noise is drawn here and nothing is hidden by the sample.
SEED = 0


def sampled_newton(
    risks: RiskFunctions,
    samples: Sequence[Risks],
    *,
    radius: float,
    tolerance: float,
    max_steps: int,
) -> SaddlePoint:
    """Minimise the largest of smooth group risks, reading all records a handful of times.

    Samples come with the smallest first; the pair returned has the smallest gap seen on all
    records, whether or not that is the tolerance.

    Each sample is solved to a tenth of what it can tell, from where the one before it ended, and
    the Hessian of the largest serves on all records; docs/theory/saddle-point.md says why. A sample
    that misleads costs time and nothing else.
    """
    # the matrices of a step are small: threads of BLAS would wait for each other
    with one_blas_thread():
        return _solve(risks, samples, radius, tolerance, max_steps)


def _solve(
    risks: RiskFunctions,
    samples: Sequence[Risks],
    radius: float,
    tolerance: float,
    max_steps: int,
) -> SaddlePoint:
    weights = np.zeros(risks.n_weights)
    mixture = np.full(risks.n_groups, 1.0 / risks.n_groups)
    n_steps, stand_in = 0, None
    for part in samples:
        n_records = sum(part.group_sizes)
        found = minimax_newton(
            part,
            weights,
            mixture,
            radius=radius,
            tolerance=tolerance,
            max_steps=min(20, max_steps - n_steps),
            curvature=stand_in,
            enough=0.1 * risks.n_weights / n_records,
        )
        n_steps += found.n_newton_steps
        weights, mixture = found.weights, found.group_weights
        if n_records >= TO_STAND_IN * risks.n_weights:
            stand_in = part
    found = minimax_newton(
        risks,
        weights,
        mixture,
        radius=radius,
        tolerance=tolerance,
        max_steps=min(50, max_steps - n_steps),
        curvature=stand_in,
    )
    return replace(found, n_newton_steps=n_steps + found.n_newton_steps)


def nested_samples(risks: Risks) -> list[Risks]:
    """Return samples of the records, the smallest first, each a sample of the next."""
    samples: list[Risks] = []
    rng = np.random.default_rng(SEED)
    part = risks
    while True:
        sizes = np.asarray(part.group_sizes)
        fewer = np.minimum(sizes, np.maximum(sizes // SHARE, LEAST_OF_A_GROUP))
        if fewer.sum() < TO_SOLVE * risks.n_weights or 2 * fewer.sum() > sizes.sum():
            return samples[::-1]
        (chosen,) = keyed_parts(part.group_sizes, [fewer.tolist()], rng)
        part = part.part(chosen)
        samples.append(part)
