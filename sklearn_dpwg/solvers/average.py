"""Which iterates a run averages: all alike, or those whose released risks are least together."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from sklearn_dpwg._checks import FloatArray

# Parts of a run that are averaged by themselves, the fewest iterates of one, and how many
# deviations of the noise in its risks a block must gain to be given another share than all others.
N_BLOCKS, FEWEST, CLEAR_DEVIATIONS = 24, 4, 2.0


class BestAverage:
    """The mean of the last iterates, with shares of blocks of them that released risks decide.

    Losses are convex, so a group's risk at a mean of iterates is at most the mean of its risks
    there, whatever their shares: the shares that make the largest of these least serve the worst
    group. While players circle, or arrive late, that is far less than for equal shares. Moving a
    share away from its equal part has to gain `CLEAR_DEVIATIONS` of the noise in a block's risks,
    so where noise is loud shares are equal. All of it reads released numbers. (docs/theory/mgr.md,
    section 4c)
    """

    def __init__(self, n_iterates: int, n_weights: int, uncertainty: FloatArray) -> None:
        n_groups = len(uncertainty)
        # what a group player pays for weight on each group, as `GroupWeights` knows it
        self._n_iterates, self._uncertainty = n_iterates, uncertainty
        self.total, self.mixture_total = np.zeros(n_weights), np.zeros(n_groups)
        self._n_pushed = 0
        # of each block: how many points were heard, their sum, and that of their mixtures, risks
        # and variances
        n_blocks = N_BLOCKS if n_groups > 1 and n_iterates >= FEWEST * N_BLOCKS else 0
        self._counts = np.zeros(n_blocks)
        self._points = np.zeros((n_blocks, n_weights))
        self._mixtures, self._risks, self._variances = np.zeros((3, n_blocks, n_groups))
        self._weighted_risks = np.zeros(n_blocks)
        self._ceilings: set[float] = set()

    def push(self, weights: FloatArray, mixture: FloatArray) -> None:
        """Take in what equal shares average: weights and group weights after a step."""
        self.total += weights
        self.mixture_total += mixture
        self._n_pushed += 1

    def hear(
        self,
        point: FloatArray,
        mixture: FloatArray,
        risks: FloatArray,
        variances: FloatArray,
        ceiling: float,
    ) -> None:
        """Take in the risks that the last step released at a point, under its group weights."""
        if not len(self._counts):
            return
        block = (self._n_pushed - 1) * len(self._counts) // self._n_iterates
        self._counts[block] += 1
        self._points[block] += point
        self._mixtures[block] += mixture
        self._risks[block] += risks
        self._variances[block] += variances
        self._weighted_risks[block] += float(mixture @ risks)
        self._ceilings.add(ceiling)

    def shares(self) -> FloatArray | None:
        """Return the shares of the blocks, or None where they are equal.

        They are where not all risks were counted up to one ceiling, as they cannot be compared.
        """
        counts = self._counts
        if len(counts) < 2 or not counts.all() or len(self._ceilings) != 1:
            return None
        risks = self._risks / counts[:, None]
        variances = self._variances / counts[:, None] ** 2
        played = self._mixtures / counts[:, None]
        noise = float(np.sqrt((played * variances).sum(axis=1).mean()))
        # each group alone, and the mixtures that were played: what they pay is less
        mixtures = np.concatenate([np.eye(len(self._uncertainty)), played])
        costs = (mixtures * self._uncertainty).max(axis=1)
        return least_worst_shares(risks @ mixtures.T - costs, CLEAR_DEVIATIONS * noise)

    def mean_with(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the means of points and of group weights with shares of the blocks."""
        of_points = shares / self._counts
        return of_points @ self._points, of_points @ self._mixtures

    def risks_with(self, shares: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return the mean risks, the variances of their noise and the mean weighted risk."""
        of_points = shares / self._counts
        return (
            of_points @ self._risks,
            of_points**2 @ self._variances,
            float(of_points @ self._weighted_risks),
        )


def least_worst_shares(
    risks: FloatArray, price: float, usual: FloatArray | None = None
) -> FloatArray | None:
    """Return the shares for which the largest mean risk is least, or None for the usual ones.

    That is ``min_a max_i Σ_b a_b r_bi + price Σ_b |a_b - u_b|`` over distributions a, a linear
    program; `risks` are of shape (n_blocks, n_risks), and usual shares u are equal if not given.
    """
    n_blocks, n_groups = risks.shape
    if usual is None:
        usual = np.full(n_blocks, 1.0 / n_blocks)
    identity, nothing = np.eye(n_blocks), np.zeros((n_blocks, 1))
    # of shares, how far they are from equal ones, and the largest risk
    above = np.block(
        [
            [risks.T, np.zeros((n_groups, n_blocks)), -np.ones((n_groups, 1))],
            [identity, -identity, nothing],
            [-identity, -identity, nothing],
        ]
    )
    found = linprog(
        np.concatenate([np.zeros(n_blocks), np.full(n_blocks, price), [1.0]]),
        A_ub=above,
        b_ub=np.concatenate([np.zeros(n_groups), usual, -usual]),
        A_eq=np.concatenate([np.ones(n_blocks), np.zeros(n_blocks + 1)])[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * (2 * n_blocks) + [(None, None)],
    )
    if found.x is None or np.abs(found.x[:n_blocks] - usual).max() < 1e-9:
        return None
    shares = np.maximum(found.x[:n_blocks], 0.0)
    return np.asarray(shares / shares.sum())
