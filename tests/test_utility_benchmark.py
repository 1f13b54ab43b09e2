"""What ``benchmarks/utility`` measures with: relations, peers, splits, ratios, resuming."""

import numpy as np
import pytest

from sklearn_dpwg.data.rows import whole_rows
from tests.helpers.benchmarks import utility_with


@pytest.fixture(scope="module")
def utility():
    """The package and all of its modules that need no further environment."""
    with utility_with("held_out", "peers.in_advance") as package:
        yield package


def small_task(utility, kind="classification", n=400, seed=0):
    """Two groups that want different things, of unequal size."""
    rng = np.random.default_rng(seed)
    codes = (rng.random(n) < 0.25).astype(int)
    X = rng.normal(size=(n, 3)) / 4.0
    X = whole_rows(X, np.linalg.norm(X, axis=1).max()).astype(float)
    scores = 3.0 * X[:, 0] + np.where(codes == 1, 3.0, -1.0) * X[:, 1]
    rows = np.column_stack([X, np.ones(n)])
    targets = np.where(scores > 0, 1.0, -1.0) if kind == "classification" else np.tanh(scores)
    y = (targets > 0).astype(int) if kind == "classification" else targets
    groups = np.array(["a", "b"])[codes]
    part = utility.tasks.Part(rows, targets, codes, X, y, groups)
    public = {"data_norm": 1.0}
    if kind == "regression":
        public["target_bounds"] = (-1.0, 1.0)
    return utility.tasks.Task("small", kind, part, part, ("a", "b"), public)


def neighbours(task, corners=((0.9, 0.1, 0.0), (-0.9, 0.3, 0.0))):
    """Pairs of parts that differ by one record, of either group."""
    for index in (np.flatnonzero(task.train.codes == group)[0] for group in (0, 1)):
        for corner in corners:
            for first in (1.0, -1.0):
                pair = []
                for sign in (1.0, -1.0):
                    part = task.train.take(np.arange(len(task.train.codes)))
                    part.rows[index, :3] = np.array(corner) * sign
                    part.targets[index] = first * sign
                    pair.append(part)
                yield pair


def clipped_gradients(utility, task, part, weighting, clips):
    """Weighted sums of clipped gradients, of columns with these clips."""
    return utility.peers.clipped.ClippedGradients(
        part,
        utility.peers.weightings.record_factors(task, task.train, weighting),
        np.asarray(clips),
        is_classification=task.is_classification,
    )


# --- relations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classification", "regression"])
@pytest.mark.parametrize("weighting", ["mixed", "balanced"])
def test_replacing_a_record_moves_a_gradient_within_the_sensitivity(utility, kind, weighting):
    task = small_task(utility, kind)
    descent = utility.peers.gradient_descent
    run, sizes = descent.Run(10, 0.1, 0.25, weighting), task.group_sizes
    weights = np.random.default_rng(1).normal(size=(4, 6)) * 3.0
    stated = descent.noise_std(sizes, run, 1.0, 1e-5)
    stated /= utility.peers.weightings.noise_multiplier(10, 1.0, 1e-5)
    moved = []
    for pair in neighbours(task):
        first, second = (
            clipped_gradients(utility, task, part, weighting, np.full(6, run.clip))(weights)
            for part in pair
        )
        moved.append(np.linalg.norm(first - second, axis=0).max())
    assert max(moved) <= stated * (1 + 1e-12)
    assert max(moved) > 0.7 * stated  # nearly attained, so a factor of two would be seen
