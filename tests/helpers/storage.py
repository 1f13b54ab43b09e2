"""The same records in several blocks, and an engine that does what engines may do."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from sklearn_dpwg.data.risks import GroupRisks, Risks
from sklearn_dpwg.data.risks.record_block import RecordBlock
from sklearn_dpwg.data.risks.risks import LocalEngine


class RestlessEngine(LocalEngine):
    """Sends functions through a pickle, calls some twice and adds up in another order each time."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.released: list[Any] = []

    def collect(self, handles, function):
        function = pickle.loads(pickle.dumps(function))
        return [function(handle) for handle in handles]

    def reduce(self, handles, function):
        function = pickle.loads(pickle.dumps(function))
        function(handles[int(self.rng.integers(len(handles)))])
        result = [function(handles[index]) for index in self.rng.permutation(len(handles))]
        while len(result) > 1:  # a tree
            one, other, *rest = result
            result = [*rest, tuple(a + b for a, b in zip(one, other, strict=True))]
        return tuple(_read_only(array) for array in result[0])

    def derive(self, handles, function, arguments=None):
        function = pickle.loads(pickle.dumps(function))
        return super().derive(handles, function, arguments)

    def release(self, handles):
        self.released.extend(handles)


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def in_blocks(risks: GroupRisks, n_blocks: int, seed: int = 0, *, engine: Any = None) -> Risks:
    """Return the risks of the same records, cut at random into blocks that may be empty."""
    rng, records, sizes = np.random.default_rng(seed), risks.records, risks.group_sizes
    every = np.stack([_cuts(rng, size, n_blocks) for size in sizes])
    chosen = [
        [np.arange(a, b) for a, b in zip(every[:, i], every[:, i + 1], strict=True)]
        for i in range(n_blocks)
    ]
    counts = np.array([[len(of_group) for of_group in block] for block in chosen])
    ranks = np.cumsum(counts, axis=0) - counts
    blocks = [
        RecordBlock(
            records.take(which),
            risks.loss,
            risks.intercept_scaling,
            first_ranks=tuple(first.tolist()),
        )
        for which, first in zip(chosen, ranks, strict=True)
    ]
    return Risks(
        LocalEngine() if engine is None else engine,
        blocks,
        loss=risks.loss,
        intercept_scaling=risks.intercept_scaling,
        group_sizes=sizes,
        n_features=risks.n_features,
    )


def _cuts(rng: np.random.Generator, size: int, n_blocks: int) -> np.ndarray:
    inner = np.sort(rng.integers(0, size + 1, n_blocks - 1))
    return np.concatenate([[0], inner, [size]])
