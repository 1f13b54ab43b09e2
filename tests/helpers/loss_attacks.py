"""Search for weights and records that break a stated constant of a loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from scipy.optimize import minimize

from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    Huber,
    Loss,
    MultinomialLogLoss,
    Quantile,
    SmoothedHinge,
    SquaredError,
    SquaredHinge,
)

KINKED = (Hinge(), AbsoluteError(), AbsoluteError(0.4), Quantile(0.9), Quantile(0.3, 2.0))
SMOOTH = (
    BinaryLogLoss(),
    BinaryLogLoss(0.85),
    BinaryLogLoss(0.6),
    SmoothedHinge(),
    SmoothedHinge(0.2),
    SmoothedHinge(3.0),
    SquaredHinge(),
    SquaredError(),
    SquaredError(0.3),
    SquaredError(4.0),
    Huber(),
    Huber(0.7, 0.5),
    Huber(2.0),
)
ALL = (*KINKED, *SMOOTH, *(MultinomialLogLoss(k) for k in (2, 3, 4, 6)))

# What floating point may add to a value that meets its bound exactly.
ROUNDING = 1e-9


def extreme_targets(loss: Loss) -> list[float]:
    """Return the targets between which all others lie."""
    loss = getattr(loss, "loss", loss)  # of a stand-in those of the loss with a kink
    if loss.task == "binary":
        return [-1.0, 1.0]
    if loss.task == "regression":
        return [-loss.target_bound, loss.target_bound]
    return [float(label) for label in range(loss.n_outputs)]


def exact_value(loss: Loss, a: Any, y: float) -> Any:
    """The definitions, in arithmetic of as many digits as mpmath has; a is one record's score."""
    mpf = mpmath.mpf
    if isinstance(loss, MultinomialLogLoss):
        scores = [mpf(float(score)) for score in a]
        return mpmath.log1p(
            mpmath.fsum(
                mpmath.exp(score - scores[int(y)]) for j, score in enumerate(scores) if j != int(y)
            )
        )
    margin, e = y * a, a - y
    missing = max(mpf(0), 1 - margin)
    if isinstance(loss, BinaryLogLoss):
        slope = mpf(float(loss.largest_slope))
        edge = mpmath.log((1 - slope) / slope) if slope < 1 else margin
        return mpmath.log1p(mpmath.exp(-max(margin, edge))) + slope * max(edge - margin, 0)
    if isinstance(loss, Hinge):
        return missing
    if isinstance(loss, SquaredHinge):
        return missing**2
    if isinstance(loss, SmoothedHinge):
        width = mpf(loss.width)
        return missing - width / 2 if missing >= width else missing**2 / (2 * width)
    if isinstance(loss, Huber):
        threshold = mpf(loss.threshold)
        return e**2 / 2 if abs(e) <= threshold else threshold * (abs(e) - threshold / 2)
    if isinstance(loss, SquaredError):
        return e**2 / 2
    if isinstance(loss, AbsoluteError):
        return abs(e)
    return mpf(loss.level) * -e if e < 0 else (1 - mpf(loss.level)) * e


def records(
    loss: Loss, weights: np.ndarray, rows: np.ndarray, target: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return losses, gradients and score curvatures of n records, each with its own weights."""
    scores = np.einsum("nkd,nd->nk", weights, rows)
    shaped = scores[:, 0] if loss.n_outputs == 1 else scores
    targets = np.full(len(rows), target)
    values, slopes = loss.value_and_derivative(shaped, targets)
    gradients = slopes.reshape(scores.shape)[:, :, None] * rows[:, None, :]
    k = loss.n_outputs
    return values, gradients, loss.curvature(shaped, targets).reshape(-1, k, k)


@dataclass(frozen=True)
class Attack:
    """Weights of norm at most `radius`, rows in the unit ball, a constant column of `intercept`.

    ``interior`` fixes the norm of the weights to this fraction of the radius. Points of the search
    are free vectors, shortened to the balls; all functions take many at once.
    """

    loss: Loss
    radius: float
    n_features: int = 2
    intercept: float = 0.0
    interior: float | None = None

    @property
    def n_columns(self) -> int:
        return self.n_features + (self.intercept > 0)

    @property
    def size(self) -> int:
        return self.loss.n_outputs * self.n_columns + 2 * self.n_features

    def weights(self, free: np.ndarray) -> np.ndarray:
        norms = np.linalg.norm(free, axis=1, keepdims=True)
        if self.interior is not None:
            lengths = self.radius * self.interior / np.maximum(norms, 1e-300)
        else:
            lengths = self.radius / np.maximum(norms, 1.0)
        return (free * lengths).reshape(-1, self.loss.n_outputs, self.n_columns)

    def rows(self, free: np.ndarray) -> np.ndarray:
        features = free / np.maximum(np.linalg.norm(free, axis=1, keepdims=True), 1.0)
        if self.intercept == 0:
            return features
        return np.hstack([features, np.full((len(free), 1), self.intercept)])

    def evaluate(self, name: str, points: np.ndarray, y: float, other_y: float) -> np.ndarray:
        """Return what is to be large, at every point."""
        first = self.loss.n_outputs * self.n_columns
        second = first + self.n_features
        weights, rows = self.weights(points[:, :first]), self.rows(points[:, first:second])
        values, gradients, curvatures = records(self.loss, weights, rows, y)
        if name == "supremum":
            return values
        if name == "infimum":
            return -values
        if name == "lipschitz":
            return np.linalg.norm(gradients, axis=(1, 2))
        if name == "smoothness":
            return np.linalg.norm(curvatures, 2, axis=(1, 2)) * np.sum(rows**2, axis=1)
        assert name == "gradient_diameter"
        others = records(self.loss, weights, self.rows(points[:, second:]), other_y)[1]
        return np.linalg.norm(gradients - others, axis=(1, 2))

    def targets(self, name: str) -> list[tuple[float, float]]:
        """Return the pairs of targets to try: symmetry of the classes leaves no more."""
        first, *_, last = extreme_targets(self.loss)
        if name == "gradient_diameter":
            return [(first, first), (first, last), (last, last)]
        if self.loss.task == "regression":
            return [(0.0, 0.0)] if name == "infimum" else [(first, first), (last, last)]
        return [(first, first)]

    def largest(
        self, name: str, rng: np.random.Generator, *, n_random: int = 1000, n_starts: int = 2
    ) -> float:
        """Return the largest value found: random points, then local optimisation of the best."""
        best = -np.inf
        step = 1e-6 * np.vstack([np.eye(self.size), -np.eye(self.size)])
        for y, other_y in self.targets(name):
            scales = rng.choice([0.5, 3.0], size=(n_random, 1))
            starts = rng.normal(size=(n_random, self.size)) * scales
            actual = self.evaluate(name, starts, y, other_y)

            def climb(point: np.ndarray, ys: tuple[float, float] = (y, other_y)):
                values = self.evaluate(name, np.vstack([point, point + step]), *ys)
                above, below = np.split(values[1:], 2)
                return -values[0], (below - above) / 2e-6

            for index in np.argsort(actual)[::-1][:n_starts]:
                result = minimize(
                    climb, starts[index], jac=True, method="L-BFGS-B", options={"maxiter": 100}
                )
                best = max(best, float(actual[index]), -float(result.fun))
        return best


def violated(
    attack: Attack, claims: dict[str, float], rng: np.random.Generator
) -> dict[str, float]:
    """Return the claims that the search exceeds, with what it found (``infimum`` undercut)."""
    actual = {}
    for name, claim in claims.items():
        largest = attack.largest(name, rng)
        bound = -claim if name == "infimum" else claim
        if largest > bound + ROUNDING * (1.0 + abs(bound)):
            actual[name] = -largest if name == "infimum" else largest
    return actual
