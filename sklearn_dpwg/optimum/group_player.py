"""The group player who pays for sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.optimum.objective import Evaluation, RegularisedObjective


@dataclass(frozen=True, eq=False)
class GroupPlayer:
    """Chooses group weights λ for the largest ``Σ λ_i L_i - c √(Σ λ_i²/n_i)``.

    What is maximised is concave, so a pair of weights and group weights has a certificate:
    docs/theory/people.md.
    """

    price: float  # c, positive, in units of the loss
    sizes: FloatArray  # numbers of records n_i; (n_groups,)

    def cost(self, group_weights: FloatArray) -> float:
        """Return what group weights pay."""
        return self.price * math.sqrt(float(group_weights**2 @ (1.0 / self.sizes)))

    def respond(self, risks: FloatArray, strength: float = 0.0) -> FloatArray:
        """Return the best group weights, which pay ``strength/2 Σ λ_i²`` besides.

        With s the root in the price they are those of a quadratic price ``c/(2s) Σ λ_i²/n_i``, and
        s is found where both agree: s over the root for s grows with s, so there is one.
        """
        if len(risks) == 1:
            return np.ones(1)

        def response(root: float) -> FloatArray:
            return on_simplex(risks, self.price / (root * self.sizes) + strength)

        def miss(root: float) -> float:
            return self.cost(response(root)) / self.price - root

        low, high = 1.0 / math.sqrt(self.sizes.sum()), 1.0 / math.sqrt(self.sizes.min())
        # rounding may hide the sign at an end: then that end is the root
        if not miss(low) > 0.0:
            return response(low)
        return response(high if not miss(high) < 0.0 else brentq(miss, low, high, xtol=1e-300))

    def value(self, risks: FloatArray) -> float:
        """Return what the best group weights reach."""
        mixture = self.respond(risks)
        return float(mixture @ risks) - self.cost(mixture)

    def missed(self, risks: FloatArray, mixture: FloatArray) -> float:
        """Bound what better group weights would add, as a concave function is below its tangent."""
        slopes = risks - self.price**2 * mixture / (self.sizes * self.cost(mixture))
        best = np.eye(len(risks))[int(np.argmax(slopes))]
        return max(float((best - mixture) @ slopes), 0.0)


def on_simplex(values: FloatArray, curvature: FloatArray) -> FloatArray:
    """Maximise ``Σ v_i λ_i - k_i λ_i²/2`` over distributions, for positive k_i.

    They are ``λ_i = (v_i - τ)/k_i``, cut at 0, where the sum, which falls in τ along a line between
    two values, is 1.
    """
    points = np.sort(values)
    low, high = -1, len(points) - 1
    while high - low > 1:
        middle = (low + high) // 2
        is_enough = np.maximum((values - points[middle]) / curvature, 0.0).sum() >= 1.0
        low, high = (middle, high) if is_enough else (low, middle)
    shares = (values >= points[high]) / curvature
    level = (shares @ values - 1.0) / shares.sum()
    best = np.clip((values - level) / curvature, 0.0, 1.0)
    return np.asarray(best / best.sum())


@dataclass(eq=False)
class PricedObjective(RegularisedObjective):
    """Primal side of the game of a `GroupPlayer`, whose weights pay ``μ_λ/2 Σ λ_i²`` besides.

    μ_λ may be 0: the price alone makes the best response unique.
    """

    player: GroupPlayer = field(kw_only=True)

    def respond(self, group_risks: FloatArray) -> tuple[float, FloatArray]:
        """Return what the group player gets, and its best response to group risks."""
        mixture = self.player.respond(group_risks, self.mu_groups)
        cost = self.player.cost(mixture) + 0.5 * self.mu_groups * float(mixture @ mixture)
        return float(mixture @ group_risks) - cost, mixture

    def answer(self, at: Evaluation, rise: FloatArray) -> FloatArray:
        """Return the group weights that go with a rise of the group risks, to first order.

        The price is taken for a quadratic.
        """
        shares = (at.group_weights > 0.0) / self._curvature(at)
        moved = shares * (rise - (shares @ rise) / max(shares.sum(), 1e-300))
        return on_simplex(at.group_weights + moved, np.ones(len(rise)))

    def _curvature(self, at: Evaluation) -> FloatArray:
        """Return the second derivatives of what a group weight pays, the root held."""
        player = self.player
        return player.price**2 / (player.cost(at.group_weights) * player.sizes) + self.mu_groups

    def coupling(self, at: Evaluation) -> FloatArray:
        """Return ``G'JG`` for the derivative J of the best response by the group risks."""
        player, is_free = self.player, at.group_weights > 0.0
        if is_free.sum() < 2:
            return np.zeros((len(at.weights), len(at.weights)))
        shares = 1.0 / self._curvature(at)[is_free]
        gradients = at.group_gradients[is_free]
        spread = gradients - (shares @ gradients) / shares.sum()
        matrix = (spread.T * shares) @ spread
        # the root of the sum of squares is flat along the weights themselves
        pull = at.group_weights[is_free] / player.sizes[is_free]
        along = (shares * pull) @ spread
        taken = pull @ (shares * pull) - (shares @ pull) ** 2 / shares.sum()
        flat = player.price**4 / player.cost(at.group_weights) ** 3
        return np.asarray(matrix + np.outer(along, along) * (flat / (1.0 - flat * taken)))
