"""One step towards the minimax optimum: the best point of a model of all group risks."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.optimum.objective import project_to_ball

MAX_ITERATIONS = 50
# Share of the way to the boundary that an iteration may go.
TOWARDS_BOUNDARY = 0.995
# Growth of the error that only rounding explains.
LOST = 1e6


def minimax_step(
    weights: FloatArray,
    values: FloatArray,
    gradients: FloatArray,
    hessian: FloatArray,
    *,
    radius: float,
    mu_weights: float,
    tolerance: float,
) -> tuple[FloatArray, FloatArray]:
    """Minimise the largest of several linear functions plus a quadratic over a ball.

    That is ``max_i {L_i + <g_i, v - w>} + (v - w)'Q(v - w)/2 + μ/2 ‖v‖²``, the model of the worst
    group's risk behind Newton's method for minimax problems, with Q positive semi-definite and μ
    positive. The minimiser is returned with the multipliers of the linear functions, which are not
    negative and add up to 1; `tolerance` is the complementarity, and the slope times the radius, to
    end with, in units of the risks.

    A quadratic program but for the ball, solved by the primal–dual interior-point method with
    Mehrotra's predictor and corrector, as SciPy has none that returns multipliers. No record is
    read. Where rounding ends the iterations early, the best one is returned; no caller relies on
    it, as what it leads to is certified from the records. (J. Nocedal and S. J. Wright 2006,
    Numerical Optimization, section 16.6)
    """
    # no step along what is flat but for rounding
    flat = 10.0 * np.finfo(float).eps * np.trace(hessian)
    identity = np.eye(len(weights))
    found: dict[float, tuple[FloatArray, FloatArray]] = {}

    def outside(multiplier: float) -> float:
        """Return how far outside the ball the minimum is with a multiplier of its constraint."""
        if multiplier not in found:
            strength = mu_weights + multiplier
            matrix = hessian + (strength + flat) * identity
            step, mixture = _free_step(
                values, gradients, matrix, strength * weights, radius, tolerance
            )
            found[multiplier] = weights + step, mixture
        norm = float(np.linalg.norm(found[multiplier][0]))
        # nearly linear in the multiplier, which makes the root easy
        return 1.0 / radius - 1.0 / norm if norm > 0.0 else -np.inf

    multiplier = 0.0
    if outside(0.0) > 0.0:
        pulls = np.linalg.norm(hessian @ weights - gradients, axis=1)
        multiplier = 1.001 * float(pulls.max()) / radius
        if outside(multiplier) < 0.0:
            multiplier = brentq(outside, 0.0, multiplier, xtol=1e-2 * tolerance / radius**2)
    target, mixture = found[multiplier]
    return project_to_ball(target, radius), mixture


def _free_step(
    values: FloatArray,
    gradients: FloatArray,
    hessian: FloatArray,
    linear: FloatArray,
    radius: float,
    tolerance: float,
) -> tuple[FloatArray, FloatArray]:
    """Minimise ``max_i {L_i + <g_i, x>} + <b, x> + x'Qx/2`` over all x; return x and the mixture.

    Slacks ``s_i = t - L_i - <g_i, x>`` and multipliers λ_i stay positive while their products fall.
    """
    n_groups, n_weights = gradients.shape
    step, mixture = np.zeros(n_weights), np.full(n_groups, 1.0 / n_groups)
    factor = _factorised(hessian)
    start = _solved(factor, -linear - mixture @ gradients)
    if n_groups == 1:
        return start, mixture
    # start from what the groups' mean wants, with slacks as large as the groups then differ
    step, heights = start, values + gradients @ start
    scale = max(float(np.ptp(heights)), float(np.ptp(values)), tolerance)
    level = float(heights.max()) + scale
    slacks = level - heights
    best = (np.inf, step, mixture)
    for _ in range(MAX_ITERATIONS):
        slope = linear + hessian @ step + mixture @ gradients
        total = 1.0 - mixture.sum()
        missed = values + gradients @ step - level + slacks
        products = slacks * mixture
        error = max(products.sum(), radius * np.linalg.norm(slope), np.abs(missed).max())
        if error < best[0]:
            best = (error, step, mixture)
        # past the last digit errors grow without end; one that is not a number ends it too
        if error <= tolerance or not error < LOST * best[0]:
            break
        ratios = mixture / slacks
        weight, pull = ratios.sum(), ratios @ gradients
        spread = gradients - pull / weight
        matrix = hessian + (spread.T * ratios) @ spread
        # what no group sees is lost beside constraints that tighten: damp it, iterations correct it
        matrix[np.diag_indices(n_weights)] += 10.0 * np.finfo(float).eps * np.trace(matrix)
        try:
            factor = _factorised(matrix)
        except LinAlgError:
            break

        # first with products that vanish, then with the centring that this showed to be needed
        wanted = np.zeros(n_groups)
        for share in (1.0, TOWARDS_BOUNDARY):
            fixed = (mixture * missed + wanted - products) / slacks
            rest = (fixed.sum() - total) / weight
            change = _solved(factor, pull * rest - slope - fixed @ gradients)
            rise = rest + float(pull @ change) / weight
            moves = gradients @ change - rise
            in_slacks, in_mixture = -missed - moves, fixed + ratios * moves
            reach = min(_longest(slacks, in_slacks), _longest(mixture, in_mixture))
            length = min(1.0, share * reach)
            after = (slacks + length * in_slacks) @ (mixture + length * in_mixture)
            centred = products.mean() * (after / products.sum()) ** 3
            wanted = centred - in_slacks * in_mixture
        step, level = step + length * change, level + length * rise
        slacks, mixture = slacks + length * in_slacks, mixture + length * in_mixture
    return best[1], best[2] / best[2].sum()


def _factorised(matrix: FloatArray) -> FloatArray:
    """Return the Cholesky factor; what SciPy checks around LAPACK would take longer than it."""
    factor, failed = dpotrf(matrix.T, lower=True, clean=False)
    if failed:
        raise LinAlgError("the matrix of a step is not positive definite.")
    return np.asarray(factor)


def _solved(factor: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(dpotrs(factor, right, lower=True)[0])


def _longest(values: FloatArray, changes: FloatArray) -> float:
    """Return how far positive values can change before the first is zero."""
    fastest = float((-changes / values).max())
    return 1.0 / fastest if fastest > 0.0 else np.inf
