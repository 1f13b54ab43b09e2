"""Neighbouring data sets that move the regularised worst-group weights as far as they can.

An attack draws a small problem from extreme corners, solves it, picks the replacement of one
record that moves the solution furthest to first order, and solves again. What the two solutions
are apart, less what the solver's certificates leave open, is a lower bound on the sensitivity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.data.rows import whole_rows
from sklearn_dpwg.losses import BinaryLogLoss, Hinge, Loss, MultinomialLogLoss, SquaredError
from sklearn_dpwg.optimum.saddle_point import (
    RegularisedObjective,
    SaddlePoint,
    attainable_gap,
    solve_saddle_point,
)
from tests.helpers.loss_attacks import extreme_targets
from tests.helpers.saddle_bounds import saddle_point_sensitivity

# of the hinge's smooth stand-in, which is at most half of it above the hinge
WIDTH = 0.1
LOSSES: tuple[Loss, ...] = (
    BinaryLogLoss(),
    SquaredError(1.0),
    MultinomialLogLoss(3),
    Hinge().smoothed(WIDTH),
)


@dataclass(frozen=True, eq=False)
class Case:
    """A data set, what is public about it, and the objective."""

    loss: Loss
    sizes: tuple[int, ...]
    rows: np.ndarray
    targets: np.ndarray
    radius: float
    intercept: float
    prior: np.ndarray
    mu_weights: float
    mu_groups: float
    center: np.ndarray

    @property
    def starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def risks(self) -> GroupRisks:
        records = GroupedRecords(whole_rows(self.rows, 1.0), self.targets, self.starts)
        return GroupRisks(records, self.loss, self.intercept)

    @property
    def facts(self) -> dict[str, Any]:
        """What the sensitivity may depend on."""
        stated = Hinge() if self.loss is LOSSES[3] else self.loss
        problem = Problem(
            stated, self.sizes, self.rows.shape[1], self.radius, tuple(self.prior), self.intercept
        )
        return {
            "group_sizes": self.sizes,
            "lipschitz": problem.lipschitz,
            "gradient_diameter": problem.gradient_diameter,
            "loss_range": problem.loss_range + WIDTH * (stated is not self.loss),
            "strong_convexity": self.mu_weights,
            "entropy_weight": self.mu_groups,
            "prior": tuple(self.prior),
        }

    def solve(self, start: np.ndarray | None = None) -> SaddlePoint:
        facts = self.facts
        tolerance = attainable_gap(
            self.radius,
            facts["lipschitz"],
            self.mu_weights,
            float(np.linalg.norm(self.center)),
            mu_groups=self.mu_groups,
        )
        return solve_saddle_point(
            self.risks,
            radius=self.radius,
            prior=self.prior,
            mu_weights=self.mu_weights,
            mu_groups=self.mu_groups,
            center=self.center,
            start=start,
            tolerance=tolerance,
        )

    def replaced(self, record: int, row: np.ndarray, target: float) -> Case:
        rows, targets = self.rows.copy(), self.targets.copy()
        rows[record], targets[record] = row, target
        return replace(self, rows=rows, targets=targets)


@dataclass(frozen=True)
class Verdict:
    """How far two neighbours are apart at least, and what was claimed."""

    distance: float
    slack: float
    claimed: float

    @property
    def ratio(self) -> float:
        return max(self.distance - self.slack, 0.0) / self.claimed


def attack(case: Case, rng: np.random.Generator) -> tuple[Verdict, Case]:
    """Return the verdict on the worst neighbour found, and that neighbour."""
    result = case.solve()
    neighbour = case.replaced(*worst_replacement(case, result, rng))
    other = neighbour.solve()
    slack = sum(float(np.sqrt(2.0 * s.gap / case.mu_weights)) for s in (result, other))
    distance = float(np.linalg.norm(result.weights - other.weights))
    return Verdict(distance, slack, saddle_point_sensitivity(**case.facts)), neighbour


# --- the worst replacement ---------------------------------------------------------------------


def worst_replacement(
    case: Case, result: SaddlePoint, rng: np.random.Generator
) -> tuple[int, np.ndarray, float]:
    """Return a record, and the row and target by which to replace it."""
    objective = RegularisedObjective(
        case.risks, case.radius, case.prior, case.mu_weights, case.mu_groups, case.center
    )
    at = objective.evaluate(result.weights)
    inverse = _inverse_hessian(case, objective, at)
    advantage = at.group_gradients - at.group_weights @ at.group_gradients
    values, gradients = _losses(case, result.weights, case.rows, case.targets)
    new_rows, new_targets = _candidates(case, result.weights, inverse @ advantage.T, rng)
    new_values, new_gradients = _losses(case, result.weights, new_rows, new_targets)
    best, most = (0, new_rows[0], float(new_targets[0])), -1.0
    for i in range(len(case.sizes)):
        part = np.arange(case.starts[i], case.starts[i + 1])
        order = part[np.argsort(values[part])]
        # the best and the worst fitted record, and any other
        for record in {order[0], order[-1], rng.choice(part)}:
            change = new_gradients - gradients[record]
            change += ((new_values - values[record]) / case.mu_groups)[:, None] * advantage[i]
            moves = np.linalg.norm(change @ inverse, axis=1)
            moves *= at.group_weights[i] / case.sizes[i]
            if moves.max() > most:
                k = int(moves.argmax())
                best, most = (int(record), new_rows[k], float(new_targets[k])), float(moves.max())
    return best


def _inverse_hessian(case: Case, objective: RegularisedObjective, at: Any) -> np.ndarray:
    """Return the inverse on the directions in which the ball lets the solution move."""
    hessian = objective.hessian(at)
    length = float(np.linalg.norm(at.weights))
    pressure = -float(at.gradient @ at.weights) / case.radius**2
    if length < case.radius * (1.0 - 1e-9) or pressure <= 1e-9 * case.mu_weights:
        return np.linalg.inv(hessian)
    normal = at.weights / length
    tangent = np.eye(len(normal)) - np.outer(normal, normal)
    inner = tangent @ (hessian + pressure * np.eye(len(normal))) @ tangent
    return np.linalg.pinv(inner + np.outer(normal, normal)) - np.outer(normal, normal)


def _losses(
    case: Case, weights: np.ndarray, rows: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return each record's loss and its gradient in the weights."""
    if case.intercept > 0:
        rows = np.hstack([rows, np.full((len(rows), 1), case.intercept)])
    scores = rows @ weights.reshape(case.loss.n_outputs, -1).T
    scores = scores[:, 0] if case.loss.n_outputs == 1 else scores
    values, slopes = case.loss.value_and_derivative(scores, targets)
    gradients = slopes.reshape(len(rows), -1, 1) * rows[:, None, :]
    return values, gradients.reshape(len(rows), -1)


def _candidates(
    case: Case, weights: np.ndarray, directions: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows along what matters, both ways, with every extreme target."""
    d = case.rows.shape[1]
    along = np.vstack([weights.reshape(case.loss.n_outputs, -1), _shaped(case, directions)])[:, :d]
    along = np.vstack([along, case.rows, rng.normal(size=(6, d))])
    along = np.vstack([along, along[:6] + along[-6:]])
    lengths = np.linalg.norm(along, axis=1, keepdims=True)
    along = along / np.maximum(lengths, 1e-300)
    rows = np.vstack([along, -along, np.zeros((1, d))])
    targets = extreme_targets(case.loss)
    return np.tile(rows, (len(targets), 1)), np.repeat(targets, len(rows))


def _shaped(case: Case, directions: np.ndarray) -> np.ndarray:
    return directions.T.reshape(directions.shape[1] * case.loss.n_outputs, -1)


# --- where to look -----------------------------------------------------------------------------


def draw_case(rng: np.random.Generator, loss: Loss | None = None) -> Case:
    """Draw a small problem whose groups pull apart."""
    loss = LOSSES[rng.integers(len(LOSSES))] if loss is None else loss
    p, d = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    most = int(rng.choice([1, 3, 15]))
    sizes = tuple(int(n) for n in rng.integers(1, most + 1, size=p))
    shared = unit(rng.normal(size=d))
    rows, targets, corners = [], [], extreme_targets(loss)
    for i, n in enumerate(sizes):
        ideal = unit(rng.normal(size=d)) if rng.random() < 0.5 else shared * (-1.0) ** i
        spread = float(rng.choice([0.0, 0.1, 2.0]))
        rows.append([unit(ideal + spread * rng.normal(size=d)) for _ in range(n)])
        favourite = corners[rng.integers(len(corners))]
        flip = rng.random(n) < rng.choice([0.0, 0.2])
        targets.append(np.where(flip, rng.choice(corners, size=n), favourite))
    intercept = float(rng.choice([0.0, 1.0]))
    n_weights = loss.n_outputs * (d + (intercept > 0))
    radius = float(10 ** rng.uniform(-1, 1.3))
    # the centre is well inside, on the ball, or far out
    center = unit(rng.normal(size=n_weights)) * radius * float(rng.choice([0.0, 0.5, 1.0, 4.0]))
    return Case(
        loss=loss,
        sizes=sizes,
        rows=np.concatenate(rows).reshape(-1, d),
        targets=np.concatenate(targets),
        radius=radius,
        intercept=intercept,
        prior=rng.dirichlet(np.full(p, float(rng.choice([0.3, 3.0])))) * (1 - 1e-6 * p) + 1e-6,
        mu_weights=float(10 ** rng.uniform(-5, 3)),
        mu_groups=float(10 ** rng.uniform(-5, 3)),
        center=center,
    )


def mutated(case: Case, rng: np.random.Generator) -> Case:
    """Return a case near another one."""
    prior = case.prior * np.exp(0.3 * rng.normal(size=len(case.prior)))
    width = float(10 ** rng.uniform(-2, 0))
    rows = case.rows.copy()
    record = rng.integers(len(rows))
    rows[record] = unit(rows[record] + width * rng.normal(size=rows.shape[1]))
    targets = case.targets.copy()
    if rng.random() < 0.2:
        targets[record] = rng.choice(extreme_targets(case.loss))
    center = case.center + width * case.radius * rng.normal(size=len(case.center))
    return replace(
        case,
        rows=rows,
        targets=targets,
        prior=prior / prior.sum(),
        radius=float(np.clip(case.radius * np.exp(width * rng.normal()), 0.05, 20.0)),
        mu_weights=float(np.clip(case.mu_weights * np.exp(width * rng.normal()), 1e-5, 1e3)),
        mu_groups=float(np.clip(case.mu_groups * np.exp(width * rng.normal()), 1e-5, 1e3)),
        center=center,
    )


def climb(
    rng: np.random.Generator, n_steps: int, loss: Loss | None = None
) -> Iterator[tuple[Verdict, Case]]:
    """Yield verdicts on cases that grow worse, one mutation at a time."""
    case = draw_case(rng, loss)
    best = -1.0
    current = case
    for _ in range(n_steps):
        verdict, neighbour = attack(current, rng)
        yield verdict, current
        if verdict.ratio >= best:
            # the neighbour is as good a place to go on from
            best, case = verdict.ratio, neighbour if rng.random() < 0.3 else current
        current = mutated(case, rng)


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / max(float(np.linalg.norm(vector)), 1e-300)
