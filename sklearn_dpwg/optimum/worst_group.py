"""The optimum of the worst group without privacy, by Newton's method, with its certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.risks import RiskFunctions, Risks
from sklearn_dpwg.data.risks.record_block import MAX_RANKS, keyed_parts
from sklearn_dpwg.data.threads import one_blas_thread
from sklearn_dpwg.optimum.saddle_point import (
    RegularisedObjective,
    SaddlePoint,
    newton,
    project_to_ball,
)

# One record in eight is in the next smaller sample, and of small groups at least so many.
FRACTION, MIN_OF_A_GROUP = 8, 200
# Records per weight that a sample needs to be worth solving, and for its Hessian to stand in for
# that of all records: the error of a step is then about one over the root of it.
TO_SOLVE, TO_STAND_IN = 20, 200
# Fixed, so that results repeat: no noise is drawn here and nothing is hidden by the sample.
SEED = 0
# Weights from which Hessians are in single precision first, off by less than this times the trace.
WIDE, SINGLE = 500, 1e-7
# Steps that leave more of the gap than this ask for a new Hessian, and, where the Hessian was
# new, steps that leave more than that ask for one of all records.
RENEW, DISTRUST = 0.3, 0.5
# Least damping of a step, as a fraction of the Hessian's trace; how much it grows where a step
# gains nothing and falls where one does, and how many in a row mean that rounding has the last
# word.
DAMPING, MORE, LESS, LAST = 1e-12, 1e3, 0.1, 8
# A step from within this fraction of the sphere takes the ball's multiplier from the slope; it ends
# on the sphere up to the square of that share, after so many factors at most.
AT_SPHERE, NEAR, MAX_FACTORS = 1e-6, 1e-4, 50
# What rounding leaves of a matrix, and the least that one may be scaled by.
ROUNDING, TINY = 1e-15, 1e-20


def worst_group_optimum(
    risks: Risks, *, radius: float, tolerance: float = 1e-8, max_newton_steps: int = 500
) -> SaddlePoint:
    """Minimise the largest group risk over a ball, to a certified gap.

    Parameters
    ----------
    risks : Risks
        Group risks of records; the loss may have kinks if it has ``smoothed``.
    radius : float
        Radius of the ball of weights.
    tolerance : float, default=1e-8
        Gap to reach.
    max_newton_steps : int, default=500
        Newton steps in all stages together.

    Returns
    -------
    SaddlePoint
        Weights, the least favourable mixture of groups, and the gap
        ``max_i L_i(w) - min_v Σ λ_i L_i(v)`` over the ball, bounded from above.

    Notes
    -----
    Risks off by ρ and gradients by η in floating point make the gap off by at most ``2ρ + 2Rη``.

    References
    ----------
    Zhou and Bassily (2024), equation (6), is the problem.
    """
    if not risks.loss.smooth:
        return kinked_optimum(
            risks, radius=radius, tolerance=tolerance, max_newton_steps=max_newton_steps
        )
    at = first_point(risks)
    # a sample that misleads costs time and nothing else
    curvature: Any = _Rough(risks) if risks.n_weights >= WIDE else None
    # the matrices of a step are small: threads of BLAS would wait for each other
    with one_blas_thread():
        for part in nested_samples(risks):
            n_records = sum(part.group_sizes)
            most = min(20, max_newton_steps - at.n_newton_steps)
            # a tenth of what a sample can tell
            enough = 0.1 * risks.n_weights / n_records
            at = minimax_newton(part, at, radius, tolerance, most, curvature, enough)
            if n_records >= TO_STAND_IN * risks.n_weights:
                curvature = part
        most = max_newton_steps - at.n_newton_steps
        return minimax_newton(risks, at, radius, tolerance, most, curvature)


def smooth_optimum(
    risks: RiskFunctions, *, radius: float, tolerance: float = 1e-8, max_newton_steps: int = 500
) -> SaddlePoint:
    """Minimise the largest of smooth convex functions, such as the risks of a known population."""
    with one_blas_thread():
        return minimax_newton(risks, first_point(risks), radius, tolerance, max_newton_steps)


def first_point(risks: RiskFunctions) -> SaddlePoint:
    """Return weights of zero and equal group weights, of which nothing is known."""
    return SaddlePoint(
        np.zeros(risks.n_weights), np.full(risks.n_groups, 1.0 / risks.n_groups), math.inf, 0
    )


@dataclass(frozen=True)
class _Rough:
    """Where the Hessian of all records comes from while it need not be exact."""

    risks: Risks

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian, and what keeps it positive where rounding would not."""
        hessian = self.risks.hessian(weights, group_weights, rough=True)
        hessian[np.diag_indices(len(hessian))] += SINGLE * np.trace(hessian)
        return hessian


def nested_samples(risks: Risks) -> list[Risks]:
    """Return samples of the records, the smallest first, each a sample of the next.

    None where groups overlap: one of cells in fractions of their own would be of other groups.
    """
    samples: list[Risks] = []
    if risks.cells is not None or max(risks.group_sizes) > MAX_RANKS:
        return samples
    rng = np.random.default_rng(SEED)
    part = risks
    while True:
        sizes = np.asarray(part.group_sizes)
        fewer = np.minimum(sizes, np.maximum(sizes // FRACTION, MIN_OF_A_GROUP))
        if fewer.sum() < TO_SOLVE * risks.n_weights or 2 * fewer.sum() > sizes.sum():
            return samples[::-1]
        (chosen,) = keyed_parts(part.group_sizes, [fewer.tolist()], rng)
        part = part.part(chosen)
        samples.append(part)


# Newton's method for the largest of several risks.


class _Point(NamedTuple):
    """Weights w and group weights λ, what the groups risk there, and the gap of the pair.

    With g the gradient of the mixture it is ``max_i L_i(w) - Σ λ_i L_i(w) + <g, w> + R ‖g‖``, at
    least ``max_i L_i(w) - min_v Σ λ_i L_i(v)``, and not negative.
    """

    weights: FloatArray
    mixture: FloatArray
    values: FloatArray
    gradients: FloatArray
    gap: float

    @classmethod
    def of(
        cls, risks: RiskFunctions, weights: FloatArray, mixture: FloatArray, radius: float
    ) -> _Point:
        values, gradients = risks.risks_and_gradients(weights)
        slope = mixture @ gradients
        lost = slope @ weights + radius * np.linalg.norm(slope)
        gap = max(float(values.max() - mixture @ values + lost), 0.0)
        return cls(weights, mixture, values, gradients, gap)


def minimax_newton(
    risks: RiskFunctions,
    start: SaddlePoint,
    radius: float,
    tolerance: float,
    max_steps: int,
    curvature: RiskFunctions | _Rough | None = None,
    enough: float = 0.0,
) -> SaddlePoint:
    """Minimise the largest group risk over a ball by steps to the minimum of a model of it.

    `curvature` (all records, or a sample) gives Hessians while that serves; one is kept, with BFGS
    updates, while the gap falls quickly. A step that gains nothing is damped. Where the next step
    promises no more than `enough` it is taken unseen, with an infinite gap; else the pair with the
    smallest gap is returned. (Nocedal and Wright 2006, Numerical Optimization, chapters 6 and 18)
    """
    source = risks if curvature is None else curvature
    best = at = _Point.of(risks, start.weights, start.group_weights, radius)
    hessian, is_new = None, False
    n_steps, n_failed, damping = 0, 0, 0.0
    while best.gap > tolerance and n_steps < max_steps and n_failed < LAST:
        if hessian is None:
            hessian, is_new = source.hessian(at.weights, at.mixture), True
        least = DAMPING * float(np.trace(hessian)) + tolerance / (4.0 * radius**2)
        damping = max(damping, least)
        n_steps, new, steep = n_steps + 1, None, 0.0
        try:
            target, mixture = minimax_step(*at[:4], hessian, radius=radius, damping=damping)
        except LinAlgError:  # rounding of an update, or of what is flat
            pass
        else:
            step = target - at.weights
            fall = float(at.values.max() - (at.values + at.gradients @ step).max())
            if fall - 0.5 * step @ hessian @ step <= enough > 0.0:
                steps = start.n_newton_steps + n_steps
                return SaddlePoint(target, mixture, math.inf, steps)
            new = _line_search(risks, at, target, mixture, fall, radius, tolerance)
            steep = fall / max(float(step @ step), TINY)
        if new is None:
            if is_new and source is risks:
                n_failed, damping = n_failed + 1, max(MORE * damping, steep)
            else:
                source, hessian = risks if is_new else source, None
            continue
        n_failed, damping = 0, LESS * damping
        change = mixture @ (new.gradients - at.gradients)
        hessian = _bfgs_update(hessian, new.weights - at.weights, change)
        if new.gap > RENEW * at.gap and (source is risks or not is_new):
            hessian = None
        elif new.gap > DISTRUST * at.gap:
            source, hessian = risks, None
        at, is_new = new, False
        best = min(best, at, key=lambda point: point.gap)
    return SaddlePoint(best.weights, best.mixture, best.gap, start.n_newton_steps + n_steps)


def _line_search(
    risks: RiskFunctions,
    at: _Point,
    target: FloatArray,
    mixture: FloatArray,
    fall: float,
    radius: float,
    tolerance: float,
) -> _Point | None:
    """Go towards a target until the largest risk falls by a fraction of what the lines promise.

    Next to the optimum the gap shows progress; nothing is returned where neither does.
    """
    now = float(at.values.max())
    length = 1.0
    while length > 1e-4:
        weights = at.weights + length * (target - at.weights)
        new = _Point.of(risks, weights, mixture, radius)
        gained = now - float(new.values.max())
        is_lower = gained >= 1e-4 * length * fall > ROUNDING * abs(now)
        is_nearer = gained >= -1e-3 * tolerance - 1e-12 * abs(now) and new.gap <= 0.5 * at.gap
        if is_lower or is_nearer or new.gap <= tolerance:
            return new
        length /= 4.0
    return None


def _bfgs_update(hessian: FloatArray, step: FloatArray, change: FloatArray) -> FloatArray:
    """Return the BFGS update, which maps a step to the change of gradient along it."""
    image = hessian @ step
    modelled, seen = float(step @ image), float(step @ change)
    # a loss that is flat along the step, or rounding, teaches nothing
    if not min(modelled, seen) > 1e-8 * max(modelled, seen):
        return hessian
    return hessian - np.outer(image, image / modelled) + np.outer(change, change / seen)


def minimax_step(
    weights: FloatArray,
    mixture: FloatArray,
    values: FloatArray,
    gradients: FloatArray,
    hessian: FloatArray,
    *,
    radius: float,
    damping: float,
) -> tuple[FloatArray, FloatArray]:
    """Minimise the largest of several linear functions plus a quadratic over a ball.

    That is ``max_i {L_i + <g_i, v - w>} + (v - w)'(Q + δI)(v - w)/2``, Q positive semi-definite and
    the damping δ positive; with it the multipliers λ of the functions, searched for from `mixture`.

    With ν the multiplier of the ball, ``K = Q + (δ + ν)I`` and G the gradients as rows, the minimum
    is ``w - K⁻¹(ν w + G'λ)``, and λ maximises ``<L - ν G K⁻¹ w, λ> - λ' G K⁻¹ G' λ/2``: one factor
    for each ν, and a problem of few groups. One over the length of the minimum is nearly linear in
    ν, which Newton's method takes to the sphere. (Moré and Sorensen 1983, for ν)
    """
    lines = np.vstack([weights, gradients]).T
    diagonal = np.diag_indices(len(weights))
    low, pull = -1.0, 0.0
    # there the minimum is in the ball, whatever the multipliers of the lines are
    pulls = np.linalg.norm(hessian @ weights + damping * weights - gradients, axis=1)
    high = 1.001 * float(pulls.max()) / radius + TINY
    if np.linalg.norm(weights) > (1.0 - AT_SPHERE) * radius:
        pull = min(max(-float(mixture @ gradients @ weights) / radius**2, 0.0), high)
    for _ in range(MAX_FACTORS):
        matrix = hessian.copy()
        matrix[diagonal] += damping + pull
        factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        halves = _half_solved(factor, lines)
        products = halves.T @ halves
        gram = products[1:, 1:]
        gram[np.diag_indices(len(gram))] += ROUNDING * np.trace(gram) + ROUNDING * TINY
        mixture = simplex_maximum(values - pull * products[1:, 0], gram, mixture)
        target = weights - _half_solved(factor, halves @ np.append(pull, mixture), trans=1)
        norm = float(np.linalg.norm(target))
        outside = norm / radius - 1.0
        if pull == 0.0 and outside <= 0.0:
            break
        # how the minimum and its multipliers turn as the ball pulls
        half = _half_solved(factor, target)
        active = np.flatnonzero(mixture)
        through = halves[:, 1 + active]
        turn = _on_face(gram, active, -half @ through, 0.0)
        moved = half + through @ turn
        change = outside * norm**2 / max(float(half @ moved), TINY)
        if abs(outside) < NEAR:
            target = target - change * _half_solved(factor, moved, trans=1)
            mixture[active] = np.maximum(mixture[active] + change * turn, 0.0)
            mixture /= mixture.sum()
            break
        low, high = (pull, high) if outside > 0.0 else (low, pull)
        pull = max(pull + change, 0.0)
        if not low < pull < high:
            pull = math.sqrt(max(low, 1e-6 * high) * high)
    return project_to_ball(target, radius), mixture


def _half_solved(factor: FloatArray, right: FloatArray, trans: Literal[0, 1] = 0) -> FloatArray:
    """Solve with a Cholesky factor, or its transpose."""
    return np.asarray(solve_triangular(factor, right, trans, lower=True, check_finite=False))


def simplex_maximum(values: FloatArray, gram: FloatArray, start: FloatArray) -> FloatArray:
    """Maximise ``<c, λ> - λ'Mλ/2`` over the distributions λ, M being positive definite.

    By faces, as Lawson and Hanson's method for nonnegative least squares: the maximum on a face is
    the solution of a linear system; what would be negative leaves, and what gains most comes in.
    """
    mixture = start.copy()
    active = np.flatnonzero(mixture)
    values = values - values.max()
    for _ in range(10 * len(values)):
        best, now = _on_face(gram, active, values[active], 1.0), mixture[active]
        if best.min() <= 0.0:
            fractions = np.where(best <= 0.0, now / np.maximum(now - best, TINY), np.inf)
            moved = now + min(float(fractions.min()), 1.0) * (best - now)
            stays = fractions > fractions.min()
            mixture[active] = np.where(stays, np.maximum(moved, 0.0), 0.0)
            active = active[stays]
            continue
        mixture[active] = best
        gains = values - gram @ mixture
        most = int(gains.argmax())
        if most in active:
            break
        active = np.append(active, most)
    return np.asarray(mixture / mixture.sum())


def _on_face(
    gram: FloatArray, active: NDArray[np.intp], slopes: FloatArray, total: float
) -> FloatArray:
    """Return λ that adds up to a total and makes ``c - Mλ`` equal, on the active groups."""
    n = len(active)
    size = float(np.trace(gram)) + TINY
    system = np.full((n + 1, n + 1), size)
    system[:n, :n], system[n, n] = gram[np.ix_(active, active)], 0.0
    return np.asarray(np.linalg.solve(system, np.append(slopes, size * total))[:n])


# The optimum of a loss with kinks.

# In units of the score: targets, and margins to be kept, are at most 1.
FIRST_WIDTH = 1.0
# Strength of the group player's regularisation at width 1; both vanish together.
STRENGTH = 0.1


def kinked_optimum(
    risks: Risks, *, radius: float, tolerance: float = 1e-8, max_newton_steps: int = 500
) -> SaddlePoint:
    """Minimise the largest group risk of a loss with kinks over a ball, to a certified gap.

    Parabolas of a falling width h replace the kinks; Newton's method solves each stage, and the
    line through the last two solutions predicts the next, and at h = 0 the optimum, with the
    certificate of docs/theory/saddle-point.md, Theorem 5. (Nesterov 2005)
    """
    n_groups = risks.n_groups
    prior = np.full(n_groups, 1.0 / n_groups)
    center = np.zeros(risks.n_weights)
    mu_weights = tolerance / (4.0 * radius**2)
    lowest, best_weights = np.inf, center
    highest, best_mixture = -np.inf, prior
    path: list[tuple[float, FloatArray]] = []  # width and solution of the stages accepted
    width, factor, n_steps = FIRST_WIDTH, 5.0, 0
    while True:
        stand_in = risks.loss.smoothed(width)
        game = (risks.with_loss(stand_in), radius, prior, mu_weights, STRENGTH * width, center)
        objective = RegularisedObjective(*game)
        at_most = 15 if len(path) > 1 and factor > 1.3 else 50
        stage_tolerance = max(tolerance / 4, 1e-3 * STRENGTH * width)
        at, taken = newton(
            objective,
            _predict(path, width, radius, center),
            stage_tolerance,
            min(at_most, max_newton_steps - n_steps),
        )
        n_steps += taken
        values, slopes = risks.with_loss(replace(stand_in, is_lines=True)).risks_and_gradients(
            at.weights
        )
        slope = at.group_weights @ slopes
        steepest = float(np.linalg.norm(slope))
        value = float(at.group_weights @ values - slope @ at.weights - radius * steepest)
        if value > highest:
            highest, best_mixture = value, at.group_weights
        solved = [*path, (width, at.weights)]
        for weights in (at.weights, _predict(solved, 0.0, radius, center)):
            value = float(risks.risks(weights).max())
            if value < lowest:
                lowest, best_weights = value, weights
        gap = max(lowest - highest, 0.0)
        if gap <= tolerance or n_steps >= max_newton_steps or width < 1e-2 * tolerance:
            return SaddlePoint(best_weights, best_mixture, gap, n_steps)
        if at.gap <= stage_tolerance or factor < 1.3:
            path = solved[-2:]
            if at.gap <= stage_tolerance and taken <= 5:
                factor = min(factor**1.5, 10.0)
        else:
            factor **= 0.5
        width = (path[-1][0] if path else FIRST_WIDTH) / factor


def _predict(
    path: list[tuple[float, FloatArray]], width: float, radius: float, start: FloatArray
) -> FloatArray:
    """Return the point of the ball where the line through the last two solutions leads."""
    if len(path) < 2:
        return path[-1][1] if path else start
    (wider, before), (current, weights) = path[-2:]
    moved = weights + (weights - before) * ((current - width) / (wider - current))
    return project_to_ball(moved, radius)
