"""Populations whose worst-group risk is known, and samples of any size that are quick to read.

A sample is held as a table of different rows and how often each occurs, so a million records cost
no more than a thousand and every solver runs on them unchanged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.data.risks.record_block import Selection
from sklearn_dpwg.data.rows import whole_rows
from sklearn_dpwg.datasets import make_worst_group_classification
from sklearn_dpwg.losses import AbsoluteError, BinaryLogLoss, Huber, Loss
from sklearn_dpwg.optimum.worst_group import smooth_optimum

FloatArray = NDArray[np.float64]


class CountedRisks(GroupRisks):
    """Group risks of a table of different rows and their counts."""

    def __init__(
        self, records: GroupedRecords, loss: Loss, intercept_scaling: float, *, counts: FloatArray
    ) -> None:
        super().__init__(records, loss, intercept_scaling)
        self.counts = counts
        sums = np.add.reduceat(counts, records.starts[:-1])
        self.group_sizes = tuple(int(size) for size in sums)

    @property
    def _fractions(self) -> FloatArray:
        sizes = np.asarray(self.group_sizes, dtype=float)
        return self.counts / np.repeat(sizes, np.diff(self.records.starts))

    def _by_group(self, values: FloatArray) -> FloatArray:
        return np.add.reduceat(values, self.records.starts[:-1], axis=0)

    def sums(
        self,
        weights: FloatArray,
        *,
        loss_clip: float,
        gradients: bool = True,
        center: float = 0.0,
    ) -> tuple[FloatArray, FloatArray]:
        """Return sums of losses relative to a centre, and of gradients."""
        losses, slopes = self.risks_and_gradients(weights, loss_clip=loss_clip)
        sizes = np.asarray(self.group_sizes, dtype=float)
        return sizes * (losses - center), sizes[:, None] * slopes

    def risks(self, weights: FloatArray, *, loss_clip: float = np.inf) -> FloatArray:
        """Return the mean loss of each group."""
        return self.risks_and_gradients(weights, loss_clip=loss_clip)[0]

    def risks_and_gradients(
        self, weights: FloatArray, *, loss_clip: float = np.inf
    ) -> tuple[FloatArray, FloatArray]:
        """Return each group's mean loss and its gradient."""
        self.n_passes += 1
        rows, targets = self.records.rows, self.records.targets
        values, slopes = self.loss.value_and_derivative(rows @ weights, targets)
        values = np.minimum(values, loss_clip)
        fractions = self._fractions
        return self._by_group(fractions * values), self._by_group(
            (fractions * slopes)[:, None] * rows
        )

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian of the weighted sum of the groups' mean losses."""
        self.n_passes += 1
        rows = self.records.rows
        curvature = self.loss.curvature(rows @ weights, self.records.targets)
        factors = np.repeat(group_weights, np.diff(self.records.starts)) * self._fractions
        return np.asarray(rows.T @ ((factors * curvature)[:, None] * rows))

    def part(self, selection: Selection) -> CountedRisks:
        """Return the risks of some of the records of each group, as if rows were written out."""
        kept, starts = np.zeros_like(self.counts), self.records.starts
        for group, size in enumerate(self.group_sizes):
            chosen = selection.positions(group, 0, size)
            rows = slice(starts[group], starts[group + 1])
            ends = np.cumsum(self.counts[rows])
            row_of = np.searchsorted(ends, chosen, side="right")
            kept[rows] = np.bincount(row_of, minlength=len(ends))
        return CountedRisks(self.records, self.loss, self.intercept_scaling, counts=kept)


class World:
    """A population to draw tables from."""

    scaling = 0.0  # of the intercept; 0 is none

    def __init__(self, loss: Loss, radius: float, n_groups: int, n_features: int) -> None:
        self.loss, self.radius = loss, radius
        self.n_groups, self.n_features = n_groups, n_features

    @property
    def nothing(self) -> float:
        """Excess of predicting nothing."""
        return self.excess(np.zeros(self.n_features + (self.scaling > 0.0)))

    def problem(self, group_size: int) -> Problem:
        """Return the public facts of a sample of so many records in each group."""
        prior = (1.0 / self.n_groups,) * self.n_groups
        sizes = (group_size,) * self.n_groups
        return Problem(self.loss, sizes, self.n_features, self.radius, prior, self.scaling)

    def draw(self, group_size: int, rng: np.random.Generator) -> GroupRisks:
        """Draw so many records of each group."""
        raise NotImplementedError

    def excess(self, weights: FloatArray) -> float:
        """Return the excess worst-group risk in the population."""
        raise NotImplementedError


class TypicalWorld(World):
    """`make_worst_group_classification`: several groups matter at the optimum.

    It is inside the ball, or on its sphere where the ball `binds`.
    """

    def __init__(self, n_groups: int, n_features: int, *, binds: bool = False) -> None:
        radius, shape = 8.0, {"n_groups": n_groups, "n_features": n_features, "group_sizes": 2}
        made = make_worst_group_classification(
            radius=radius, random_state=0, boundary=binds, **shape
        )
        self.population, self.rows = made.population, made.population.atoms
        super().__init__(BinaryLogLoss(), radius, n_groups, n_features)

    def draw(self, group_size: int, rng: np.random.Generator) -> GroupRisks:
        """Draw counts of every row with either label."""
        of_rows = rng.multinomial(group_size, self.population.atom_probabilities)
        positive = rng.binomial(of_rows, self.population.class_probabilities)
        return self.table(np.stack([positive, of_rows - positive], axis=1))

    def table(self, counts: FloatArray) -> CountedRisks:
        """Return the risks of counts of shape (n_groups, 2, n_rows), one and zero as labels."""
        p, _, k = counts.shape
        records = GroupedRecords(
            rows=np.tile(self.rows, (2 * p, 1)),
            targets=np.tile(np.repeat([1.0, -1.0], k), p),
            starts=np.arange(p + 1) * 2 * k,
        )
        return CountedRisks(records, self.loss, 0.0, counts=counts.ravel().astype(float))

    def excess(self, weights: FloatArray) -> float:
        """Return the excess worst-group risk in the population."""
        return float(self.population.excess_risk(weights))


class InterceptWorld(TypicalWorld):
    """The typical world with rows far from 0, so that models need an intercept and centre rows.

    Rows are (x + c)/2 with a unit vector c, written out, in a ball twice as large.
    """

    scaling = 0.35

    def __init__(self, n_groups: int, n_features: int) -> None:
        super().__init__(n_groups, n_features)
        self.radius *= 2.0
        rows = (self.rows + np.ones(n_features) / np.sqrt(n_features)) / 2.0
        self.rows = np.column_stack([rows, np.full(len(rows), self.scaling)])
        positive, chances = self.population.class_probabilities, self.population.atom_probabilities
        self.people = self.table(1e9 * np.stack([chances * positive, chances * (1 - positive)], 1))
        best = smooth_optimum(self.people, radius=self.radius).weights
        self.optimum = float(self.people.risks(best).max())

    def draw(self, group_size: int, rng: np.random.Generator) -> GroupRisks:
        """Draw records of each group."""
        table = super().draw(group_size, rng)
        held = np.repeat(np.arange(len(table.counts)), table.counts.astype(int))
        records = GroupedRecords(
            whole_rows(table.records.rows[held, :-1], 1.0),
            table.records.targets[held],
            np.arange(self.n_groups + 1) * group_size,
        )
        return GroupRisks(records, self.loss, self.scaling)

    def excess(self, weights: FloatArray) -> float:
        """Return the excess worst-group risk in the population."""
        return float(self.people.risks(weights).max() - self.optimum)


class HardWorld(World):
    """One group that is the worst for all weights, with a linear loss: Appendix D's reduction.

    Huber's loss with threshold ½ at target 1 is linear in scores up to ½, the radius, with slope ½,
    and at least ⅛ there; the other groups have rows and targets 0, hence loss 0. Rows of the hard
    group are sign vectors over √d whose mean has a given length, the signal. As the loss is linear,
    their mean stands in for them, also for a part of them, whose mean would really vary a little.
    """

    def __init__(self, n_groups: int, n_features: int, *, signal: float, seed: int = 0):
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=n_features)
        self.mean, self.signal = signal * signs / np.sqrt(n_features), signal
        super().__init__(Huber(0.5), 0.5, n_groups, n_features)

    def draw(self, group_size: int, rng: np.random.Generator) -> CountedRisks:
        """Draw the mean of the hard group's rows."""
        root = np.sqrt(self.n_features)
        plus = rng.binomial(group_size, 0.5 * (1.0 + self.mean * root))
        rows = np.zeros((self.n_groups, self.n_features))
        rows[0] = (2.0 * plus / group_size - 1.0) / root
        records = GroupedRecords(
            rows=rows,
            targets=np.eye(1, self.n_groups)[0],
            starts=np.arange(self.n_groups + 1),
        )
        counts = np.full(self.n_groups, float(group_size))
        return CountedRisks(records, self.loss, 0.0, counts=counts)

    def excess(self, weights: FloatArray) -> float:
        """Return the excess worst-group risk in the population."""
        return float(0.5 * (self.radius * self.signal - weights @ self.mean))


def make_lower_bound(
    n: int, d: int, radius: float, epsilon: float, seed: int
) -> tuple[GroupRisks, float]:
    """Return two groups on which learning is learning from the first, and their optimum.

    *The hard group* holds m = ⌈√d/ε⌉ informative rows z with entries ±1/√d, where entry j is
    positive with a secret chance drawn uniformly from [0, 1], and otherwise pairs of rows z, −z
    that cancel. Write z̄ for the mean of its n rows. For the linear loss −w·z no (ε, δ)-private
    method with δ = o(1/n) can do better than order R·min(1, √d/(n·ε)) on all data sets of such rows
    (Bassily, Smith and Thakurta 2014, section 5).

    *Targets.* The hard group has target 2R, the other has rows with random signs and target 0. As
    |w·x| ≤ R, residuals are at least R in the hard group and at most R in the other: it is the
    worst for every w in the ball, which is what adding B to its loss does in Appendix D. Its
    absolute error is 2R − w·z, linear in w, with the optimum 2R − R‖z̄‖ at R z̄/‖z̄‖.
    """
    rng = np.random.default_rng(seed)
    informative = min(n, int(np.ceil(np.sqrt(d) / epsilon)))
    informative += (n - informative) % 2
    positive = rng.random(d) > rng.random((informative, d))
    halves = [rng.random((rows, d)) < 0.5 for rows in ((n - informative) // 2, n)]
    secret, pairs, others = (np.where(x, 1.0, -1.0) / np.sqrt(d) for x in (positive, *halves))
    hard = np.concatenate([secret, pairs, -pairs])
    rows, targets = np.concatenate([hard, others]), np.repeat([2.0 * radius, 0.0], n)
    records = GroupedRecords(whole_rows(rows, 1.0), targets, np.array([0, n, 2 * n]))
    optimum = 2.0 * radius - radius * float(np.linalg.norm(hard.mean(axis=0)))
    return GroupRisks(records, AbsoluteError(1.0), 0.0), optimum
