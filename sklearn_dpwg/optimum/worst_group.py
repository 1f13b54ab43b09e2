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

# A sample has one record in eight of the next larger one, and at least 200 of each group.
SAMPLE_DIVISOR, MIN_GROUP_SAMPLE = 8, 200
# Least records per weight of a sample that is worth solving, and of one whose Hessian replaces that
# of all records: with n records per weight the relative error of a step is about 1/√n.
SOLVE_RATIO, HESSIAN_RATIO = 20, 200
# Fixed, so that results repeat: the samples save time and protect nobody.
SEED = 0
# Number of weights from which Hessians are first in single precision, and its error per trace.
WIDE, SINGLE = 500, 1e-7
# A step that leaves more than RENEW of the gap asks for a new Hessian; with a new Hessian, one that
# leaves more than DISTRUST asks for the Hessian of all records.
RENEW, DISTRUST = 0.3, 0.5
# Least damping, as a fraction of the Hessian's trace; its factors after a step that fails and one
# that gains; and the failures in a row after which only rounding errors are left.
MIN_DAMPING, DAMPING_UP, DAMPING_DOWN, MAX_FAILURES = 1e-12, 1e3, 0.1, 8
# A step that starts so near the sphere takes the ball's first multiplier from the slope. One that
# ends within NEAR·R of the sphere is corrected to first order. At most so many Cholesky factors.
AT_SPHERE, NEAR, MAX_FACTORS = 1e-6, 1e-4, 50
# Relative rounding error of a matrix, and a floor that keeps divisors positive.
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
    point = first_point(risks)
    # samples give starting points and Hessians; a misleading one costs time, not correctness
    curvature: Any = _RoughCurvature(risks) if risks.n_weights >= WIDE else None
    # the matrices of a step are small: threads of BLAS would wait for each other
    with one_blas_thread():
        for sample in nested_samples(risks):
            n_records = sum(sample.group_sizes)
            max_steps = min(20, max_newton_steps - point.n_newton_steps)
            # a tenth of the sampling error, about n_weights/n_records
            enough = 0.1 * risks.n_weights / n_records
            point = minimax_newton(sample, point, radius, tolerance, max_steps, curvature, enough)
            if n_records >= HESSIAN_RATIO * risks.n_weights:
                curvature = sample
        max_steps = max_newton_steps - point.n_newton_steps
        return minimax_newton(risks, point, radius, tolerance, max_steps, curvature)


def smooth_optimum(
    risks: RiskFunctions, *, radius: float, tolerance: float = 1e-8, max_newton_steps: int = 500
) -> SaddlePoint:
    """Minimise the largest of smooth convex functions over a ball, as `worst_group_optimum`."""
    with one_blas_thread():
        return minimax_newton(risks, first_point(risks), radius, tolerance, max_newton_steps)


def first_point(risks: RiskFunctions) -> SaddlePoint:
    """Return the starting point: zero weights, equal group weights, and an infinite gap."""
    group_weights = np.full(risks.n_groups, 1.0 / risks.n_groups)
    return SaddlePoint(np.zeros(risks.n_weights), group_weights, gap=math.inf, n_newton_steps=0)


@dataclass(frozen=True)
class _RoughCurvature:
    """Hessians of all records in single precision, while exact ones are not needed."""

    risks: Risks

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian plus a diagonal that keeps it positive despite rounding."""
        hessian = self.risks.hessian(weights, group_weights, rough=True)
        hessian[np.diag_indices(len(hessian))] += SINGLE * np.trace(hessian)
        return hessian


def nested_samples(risks: Risks) -> list[Risks]:
    """Return samples of the records, smallest first; each is part of the next.

    None if groups overlap: their `cells` in unlike fractions would make up other groups.
    """
    samples: list[Risks] = []
    if risks.cells is not None or max(risks.group_sizes) > MAX_RANKS:
        return samples
    rng = np.random.default_rng(SEED)
    sample = risks
    while True:
        sizes = np.asarray(sample.group_sizes)
        smaller = np.minimum(sizes, np.maximum(sizes // SAMPLE_DIVISOR, MIN_GROUP_SAMPLE))
        if smaller.sum() < SOLVE_RATIO * risks.n_weights or 2 * smaller.sum() > sizes.sum():
            return samples[::-1]
        (chosen,) = keyed_parts(sample.group_sizes, [smaller.tolist()], rng)
        sample = sample.part(chosen)
        samples.append(sample)


# Newton's method for the largest of several risks.


class _Point(NamedTuple):
    """Weights w, group weights λ (`mixture`), group risks and gradients at w, and the gap.

    With g the gradient of the mixture the gap is ``max_i L_i(w) - Σ λ_i L_i(w) + <g, w> + R ‖g‖``.
    It is at least ``max_i L_i(w) - min_v Σ λ_i L_i(v)``, by convexity, and at least 0.
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
        linear_gap = slope @ weights + radius * np.linalg.norm(slope)
        gap = max(float(values.max() - mixture @ values + linear_gap), 0.0)
        return cls(weights, mixture, values, gradients, gap)


def minimax_newton(
    risks: RiskFunctions,
    start: SaddlePoint,
    radius: float,
    tolerance: float,
    max_steps: int,
    curvature: RiskFunctions | _RoughCurvature | None = None,
    enough: float = 0.0,
) -> SaddlePoint:
    """Minimise the largest group risk over a ball by damped quasi-Newton steps from `start`.

    Each step goes to the minimum of linear risks plus a shared quadratic. Hessians are those of
    `curvature` (a sample, say) until its steps fail, then of `risks`; one is kept, with BFGS
    updates, while the gap falls quickly. Returns the point of smallest gap; or, once the next step
    promises at most `enough`, that step's end, not evaluated and so with an infinite gap. (Nocedal
    and Wright 2006, Numerical Optimization, chapters 6 and 18)
    """
    source = risks if curvature is None else curvature
    best = point = _Point.of(risks, start.weights, start.group_weights, radius)
    hessian, hessian_is_new = None, False
    n_steps, n_failed, damping = 0, 0, 0.0
    while best.gap > tolerance and n_steps < max_steps and n_failed < MAX_FAILURES:
        if hessian is None:
            hessian, hessian_is_new = source.hessian(point.weights, point.mixture), True
        # such damping adds at most half the tolerance to the model anywhere in the ball
        least = MIN_DAMPING * float(np.trace(hessian)) + tolerance / (4.0 * radius**2)
        damping = max(damping, least)
        n_steps, new, steepness = n_steps + 1, None, 0.0
        try:
            target, mixture = minimax_step(*point[:4], hessian, radius=radius, damping=damping)
        except LinAlgError:  # rounding made the matrix indefinite: the step fails
            pass
        else:
            step = target - point.weights
            fall = float(point.values.max() - (point.values + point.gradients @ step).max())
            if fall - 0.5 * step @ hessian @ step <= enough > 0.0:
                steps = start.n_newton_steps + n_steps
                return SaddlePoint(target, mixture, gap=math.inf, n_newton_steps=steps)
            new = _line_search(risks, point, target, mixture, fall, radius, tolerance)
            steepness = fall / max(float(step @ step), TINY)
        if new is None:
            # blame an old Hessian first, then the stand-in for all records, then the damping
            if hessian_is_new and source is risks:
                n_failed, damping = n_failed + 1, max(DAMPING_UP * damping, steepness)
            else:
                source, hessian = risks if hessian_is_new else source, None
            continue
        n_failed, damping = 0, DAMPING_DOWN * damping
        gradient_change = mixture @ (new.gradients - point.gradients)
        hessian = _bfgs_update(hessian, new.weights - point.weights, gradient_change)
        if new.gap > RENEW * point.gap and (source is risks or not hessian_is_new):
            hessian = None
        elif new.gap > DISTRUST * point.gap:
            source, hessian = risks, None
        point, hessian_is_new = new, False
        best = min(best, point, key=lambda candidate: candidate.gap)
    return SaddlePoint(best.weights, best.mixture, best.gap, start.n_newton_steps + n_steps)


def _line_search(
    risks: RiskFunctions,
    point: _Point,
    target: FloatArray,
    mixture: FloatArray,
    fall: float,
    radius: float,
    tolerance: float,
) -> _Point | None:
    """Return the first point on the way to a target that is progress, or None.

    Steps of length 1, 1/4, 1/16, … are tried. Progress is a largest risk that falls by a small part
    of the linear prediction `fall`, or, near the optimum, half the gap at nearly the same risk.
    """
    worst = float(point.values.max())
    length = 1.0
    while length > 1e-4:
        weights = point.weights + length * (target - point.weights)
        new = _Point.of(risks, weights, mixture, radius)
        gained = worst - float(new.values.max())
        is_lower = gained >= 1e-4 * length * fall > ROUNDING * abs(worst)
        is_level = gained >= -1e-3 * tolerance - 1e-12 * abs(worst)
        is_nearer = is_level and new.gap <= 0.5 * point.gap
        if is_lower or is_nearer or new.gap <= tolerance:
            return new
        length /= 4.0
    return None


def _bfgs_update(hessian: FloatArray, step: FloatArray, change: FloatArray) -> FloatArray:
    """Return the BFGS update of a Hessian: it maps the step to the change of the gradient."""
    image = hessian @ step
    modelled, observed = float(step @ image), float(step @ change)  # curvature along the step
    # no update if either curvature is negligible or negative: it would lose positive definiteness
    if not min(modelled, observed) > 1e-8 * max(modelled, observed):
        return hessian
    return hessian - np.outer(image, image / modelled) + np.outer(change, change / observed)


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

    The objective is ``max_i {L_i + <g_i, v - w>} + (v - w)'(Q + δI)(v - w)/2`` in v, where L is
    `values`, G has the `gradients` g_i as rows, Q is the `hessian` and δ > 0 the `damping`. Returns
    the minimiser v and the multipliers λ of the functions, searched for from `mixture`.

    With ν the ball's multiplier (`pull`) and ``K = Q + (δ + ν)I``, ``v = w - K⁻¹(ν w + G'λ)``, and
    λ maximises ``<L - ν G K⁻¹ w, λ> - λ' G K⁻¹ G' λ/2``: for each ν one Cholesky factor and a
    problem as small as the number of groups. ``1/‖v‖`` is nearly linear in ν, so Newton's method
    soon has v on the sphere. (Moré and Sorensen 1983, for ν)
    """
    columns = np.vstack([weights, gradients]).T
    diagonal = np.diag_indices(len(weights))
    low, pull = -1.0, 0.0
    # an upper bound on ν: there v is in the ball for every λ
    slopes = np.linalg.norm(hessian @ weights + damping * weights - gradients, axis=1)
    high = 1.001 * float(slopes.max()) / radius + TINY
    if np.linalg.norm(weights) > (1.0 - AT_SPHERE) * radius:
        pull = min(max(-float(mixture @ gradients @ weights) / radius**2, 0.0), high)
    for _ in range(MAX_FACTORS):
        matrix = hessian.copy()
        matrix[diagonal] += damping + pull
        factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        half_solutions = _half_solved(factor, columns)  # C⁻¹[w, G'], where K = CC'
        products = half_solutions.T @ half_solutions
        gram = products[1:, 1:]
        gram[np.diag_indices(len(gram))] += ROUNDING * np.trace(gram) + ROUNDING * TINY
        mixture = simplex_maximum(values - pull * products[1:, 0], gram, mixture)
        target = weights - _half_solved(factor, half_solutions @ np.append(pull, mixture), trans=1)
        norm = float(np.linalg.norm(target))
        outside = norm / radius - 1.0
        if pull == 0.0 and outside <= 0.0:
            break
        # derivatives of v and of λ in ν, on the face of the active functions
        half_target = _half_solved(factor, target)
        active = np.flatnonzero(mixture)
        half_gradients = half_solutions[:, 1 + active]
        mixture_slope = _on_face(gram, active, -half_target @ half_gradients, total=0.0)
        half_slope = half_target + half_gradients @ mixture_slope
        change = outside * norm**2 / max(float(half_target @ half_slope), TINY)
        if abs(outside) < NEAR:
            target = target - change * _half_solved(factor, half_slope, trans=1)
            mixture[active] = np.maximum(mixture[active] + change * mixture_slope, 0.0)
            mixture /= mixture.sum()
            break
        # a Newton step in ν, or a geometric mean where it leaves the bracket
        low, high = (pull, high) if outside > 0.0 else (low, pull)
        pull = max(pull + change, 0.0)
        if not low < pull < high:
            pull = math.sqrt(max(low, 1e-6 * high) * high)
    return project_to_ball(target, radius), mixture


def _half_solved(factor: FloatArray, right: FloatArray, trans: Literal[0, 1] = 0) -> FloatArray:
    """Return C⁻¹b for a lower Cholesky factor C, or C'⁻¹b with ``trans=1``."""
    return np.asarray(solve_triangular(factor, right, trans, lower=True, check_finite=False))


def simplex_maximum(values: FloatArray, gram: FloatArray, start: FloatArray) -> FloatArray:
    """Maximise ``<c, λ> - λ'Mλ/2`` over distributions λ: c is `values`, M the `gram` matrix.

    An active-set method, as Lawson and Hanson's for nonnegative least squares. The maximum on a
    face of the simplex solves a linear system. An entry that would be negative leaves the face,
    and otherwise the entry with the largest slope joins, until it is in the face already.
    """
    mixture = start.copy()
    active = np.flatnonzero(mixture)
    values = values - values.max()
    for _ in range(10 * len(values)):
        best, current = _on_face(gram, active, values[active], total=1.0), mixture[active]
        if best.min() <= 0.0:
            fractions = np.where(best <= 0.0, current / np.maximum(current - best, TINY), np.inf)
            moved = current + min(float(fractions.min()), 1.0) * (best - current)
            stays = fractions > fractions.min()
            mixture[active] = np.where(stays, np.maximum(moved, 0.0), 0.0)
            active = active[stays]
            continue
        mixture[active] = best
        slopes = values - gram @ mixture
        steepest = int(slopes.argmax())
        if steepest in active:
            break
        active = np.append(active, steepest)
    return np.asarray(mixture / mixture.sum())


def _on_face(
    gram: FloatArray, active: NDArray[np.intp], slopes: FloatArray, total: float
) -> FloatArray:
    """Return λ on the active groups, of sum `total`, that makes the entries of ``c - Mλ`` equal."""
    n = len(active)
    size = float(np.trace(gram)) + TINY  # the constraint on the sum is scaled like M
    system = np.full((n + 1, n + 1), size)
    system[:n, :n], system[n, n] = gram[np.ix_(active, active)], 0.0
    return np.asarray(np.linalg.solve(system, np.append(slopes, size * total))[:n])


# The optimum of a loss with kinks.

# First width of the parabolas, in units of the score: targets and required margins are at most 1.
FIRST_WIDTH = 1.0
# Strength of the group player's regularisation per unit of width; both fall to 0 together.
STRENGTH = 0.1


def kinked_optimum(
    risks: Risks, *, radius: float, tolerance: float = 1e-8, max_newton_steps: int = 500
) -> SaddlePoint:
    """Minimise the largest group risk of a loss with kinks over a ball, to a certified gap.

    Each stage replaces the kinks by parabolas of width h and is solved by Newton's method; h falls
    from stage to stage. The line through the last two solutions predicts the next one, and the
    optimum at h = 0. The gap is that of docs/theory/saddle-point.md, Theorem 5. (Nesterov 2005)
    """
    n_groups = risks.n_groups
    prior = np.full(n_groups, 1.0 / n_groups)
    center = np.zeros(risks.n_weights)
    mu_weights = tolerance / (4.0 * radius**2)
    lowest, best_weights = np.inf, center
    highest, best_mixture = -np.inf, prior
    path: list[tuple[float, FloatArray]] = []  # width and solution of the accepted stages
    width, factor, n_steps = FIRST_WIDTH, 5.0, 0  # each stage divides the width by `factor`
    while True:
        smooth_loss = risks.loss.smoothed(width)
        smooth_risks, mu_groups = risks.with_loss(smooth_loss), STRENGTH * width
        objective = RegularisedObjective(smooth_risks, radius, prior, mu_weights, mu_groups, center)
        max_steps = 15 if len(path) > 1 and factor > 1.3 else 50
        max_steps = min(max_steps, max_newton_steps - n_steps)
        stage_tolerance = max(tolerance / 4, 1e-3 * STRENGTH * width)
        start = _predict(path, width, radius, center)
        solution, n_taken = newton(objective, start, stage_tolerance, max_steps)
        n_steps += n_taken
        # lower bound on the optimum: the minimum over the ball of lines below the kinked losses
        lines = risks.with_loss(replace(smooth_loss, is_lines=True))
        values, slopes = lines.risks_and_gradients(solution.weights)
        mixture, slope = solution.group_weights, solution.group_weights @ slopes
        steepness = float(np.linalg.norm(slope))
        value = float(mixture @ values - slope @ solution.weights - radius * steepness)
        if value > highest:
            highest, best_mixture = value, mixture
        # upper bound: the worst risk at the solution, or at the predicted optimum
        solved = [*path, (width, solution.weights)]
        for weights in (solution.weights, _predict(solved, 0.0, radius, center)):
            value = float(risks.risks(weights).max())
            if value < lowest:
                lowest, best_weights = value, weights
        gap = max(lowest - highest, 0.0)
        if gap <= tolerance or n_steps >= max_newton_steps or width < 1e-2 * tolerance:
            return SaddlePoint(best_weights, best_mixture, gap, n_steps)
        # a stage that fails is repeated nearer to the last width, unless it is near already
        if solution.gap <= stage_tolerance or factor < 1.3:
            path = solved[-2:]
            if solution.gap <= stage_tolerance and n_taken <= 5:
                factor = min(factor**1.5, 10.0)
        else:
            factor **= 0.5
        width = (path[-1][0] if path else FIRST_WIDTH) / factor


def _predict(
    path: list[tuple[float, FloatArray]], width: float, radius: float, start: FloatArray
) -> FloatArray:
    """Extrapolate the last two solutions linearly to a width, projected to the ball."""
    if len(path) < 2:
        return path[-1][1] if path else start
    (wider, before), (current, weights) = path[-2:]
    moved = weights + (weights - before) * ((current - width) / (wider - current))
    return project_to_ball(moved, radius)
