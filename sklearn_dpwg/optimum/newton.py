"""Newton's method for the largest of several group risks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.optimize import brentq

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.risks import RiskFunctions, Risks
from sklearn_dpwg.data.risks.selection import MOST_RANKS, keyed_parts
from sklearn_dpwg.data.threads import one_blas_thread
from sklearn_dpwg.optimum.objective import SaddlePoint, project_to_ball

MAX_ITERATIONS = 50
# Share of the way to the boundary that an iteration may go.
TOWARDS_BOUNDARY = 0.995
# Growth of the error that only rounding explains.
LOST = 1e6
# Least ratio of the entries on a Cholesky factor's diagonal at which few digits are lost with it.
CURVED = 1e-4
# Fall of the error in an iteration, and in all, beyond which a factor is computed each time.
STALLED, FINE = 0.9, 1e-6


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

    A quadratic program but for the ball, by the primal–dual interior-point method with Mehrotra's
    predictor and corrector, as SciPy has none that returns multipliers. Rounding may end it early;
    what it leads to is certified from the records. (Nocedal and Wright 2006, section 16.6)
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
    matrix = _StepMatrix(hessian, gradients)
    start = matrix.solved(-linear - mixture @ gradients)
    if n_groups == 1:
        return start, mixture
    # start from what the groups' mean wants, with slacks as large as the groups then differ
    step, heights = start, values + gradients @ start
    scale = max(float(np.ptp(heights)), float(np.ptp(values)), tolerance)
    level = float(heights.max()) + scale
    slacks = level - heights
    best, last, first = (np.inf, step, mixture), np.inf, 0.0
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
        # the last digits need the matrix itself
        if error > STALLED * last or error < FINE * first:
            matrix.is_curved = False
        last, first = error, max(first, error)
        ratios = mixture / slacks
        weight, pull = ratios.sum(), ratios @ gradients
        try:
            matrix.tighten(ratios)
        except LinAlgError:
            break

        # first with products that vanish, then with the centring that this showed to be needed
        wanted = np.zeros(n_groups)
        for share in (1.0, TOWARDS_BOUNDARY):
            fixed = (mixture * missed + wanted - products) / slacks
            rest = (fixed.sum() - total) / weight
            change = matrix.solved(pull * rest - slope - fixed @ gradients)
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


class _StepMatrix:
    """The Hessian and what constraints add to it as they tighten.

    Where all directions are curved, that is a matrix of low rank beside one factor.
    """

    def __init__(self, hessian: FloatArray, gradients: FloatArray) -> None:
        self._hessian, self._gradients = hessian, gradients
        self._factor = _factorised(hessian)
        diagonal = np.diagonal(self._factor)
        self.is_curved = bool(diagonal.min() > CURVED * diagonal.max())
        if self.is_curved:
            self._through = _solved(self._factor, gradients.T)
            self._gram = gradients @ self._through
        self._added = np.zeros((len(gradients), len(gradients)))

    def tighten(self, ratios: FloatArray) -> None:
        """Add ``Σ r_i (g_i - ḡ)(g_i - ḡ)'`` to the Hessian, ḡ being the mean by the ratios r."""
        about = np.eye(len(ratios)) - ratios / ratios.sum()
        if self.is_curved:
            tight = np.sqrt(ratios)[:, None]
            among = np.eye(len(ratios)) + tight * (about @ self._gram @ about.T) * tight.T
            self._added = about.T @ (tight * np.linalg.solve(among, tight * about))
            return
        spread = about @ self._gradients
        matrix = self._hessian + (spread.T * ratios) @ spread
        # what no group sees is lost beside constraints that tighten: damp it, iterations correct it
        matrix[np.diag_indices(len(matrix))] += 10.0 * np.finfo(float).eps * np.trace(matrix)
        self._factor = _factorised(matrix)

    def solved(self, right: FloatArray) -> FloatArray:
        """Return what the matrix maps to a vector."""
        found = _solved(self._factor, right)
        if self.is_curved:
            found = found - self._through @ (self._added @ (self._gradients @ found))
        return found


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


# Weights a group from which a model is solved among few directions, and how often these may grow;
# the share of the radius from which weights are on the sphere, and the share of a slope that a step
# may leave, as its Hessian leaves more.
MANY, ROUNDS, INSIDE, CLOSE = 3, 5, 1.0 - 1e-6, 1e-3


def ball_step(
    mixture: FloatArray,
    weights: FloatArray,
    values: FloatArray,
    gradients: FloatArray,
    hessian: FloatArray,
    **limits: float,
) -> tuple[FloatArray, FloatArray]:
    """Take `minimax_step`, in the space of few directions where there are many weights a group.

    With ν the multiplier of the ball the minimum is ``(Q + (μ+ν)I)⁻¹ (Q w - Σ λ_i g_i)``,
    whatever the mixture λ: of what one factor maps w and the gradients to. A mixture gives the
    first ν, and what is found with it the next.
    """
    radius, mu_weights = limits["radius"], limits["mu_weights"]
    wanted = np.vstack([weights, gradients]).T
    basis, identity = weights[:, None], np.eye(len(weights))

    def multiplier(at: FloatArray, slope: FloatArray) -> float:
        is_inside = float(np.linalg.norm(at)) < INSIDE * radius
        return 0.0 if is_inside else max(0.0, -float(slope @ at) / radius**2)

    slope = mixture @ gradients + mu_weights * weights
    pull = multiplier(weights, slope)
    enough = CLOSE * radius * float(np.linalg.norm(slope + pull * weights))
    for _ in range(ROUNDS if len(weights) >= MANY * (len(gradients) + 2) else 0):
        try:
            factor = _factorised(hessian + (mu_weights + pull) * identity)
        except LinAlgError:
            break
        diagonal = np.diagonal(factor)
        if diagonal.min() <= CURVED * diagonal.max():
            break
        basis = np.linalg.qr(np.hstack([basis, _solved(factor, wanted)]))[0]
        bent = basis.T @ (hessian @ basis)
        among, mixture = minimax_step(weights @ basis, values, gradients @ basis, bent, **limits)
        target = project_to_ball(basis @ among, radius)
        slope = mixture @ gradients + hessian @ (target - weights) + mu_weights * target
        last, pull = pull, multiplier(target, slope)
        missed = radius * float(np.linalg.norm(slope + pull * target))
        if pull == last or missed <= max(limits["tolerance"], enough):
            return target, mixture
    return minimax_step(weights, values, gradients, hessian, **limits)


# Steps that leave more of the gap than this ask for a new Hessian, and, where the Hessian was
# new, steps that leave more than that ask for one of all records.
RENEW, DISTRUST = 0.3, 0.5


def minimax_newton(
    risks: RiskFunctions,
    weights: FloatArray,
    mixture: FloatArray,
    *,
    radius: float,
    tolerance: float,
    max_steps: int,
    curvature: RiskFunctions | _Rough | None = None,
    enough: float = 0.0,
) -> SaddlePoint:
    """Minimise the largest group risk over a ball by steps to the minimum of a model of it.

    `curvature` (all records, or a sample) gives Hessians for as long as that serves; one is kept,
    and taught the change of gradient along each step (BFGS), for as long as the gap falls quickly:
    docs/theory/saddle-point.md. Where the next step promises to lower the largest risk by no more
    than `enough`, it is taken unseen, and the gap is infinite; else the pair with the smallest gap
    is returned. (J. Nocedal and S. J. Wright 2006, Numerical Optimization, chapters 6 and 18)
    """
    source: RiskFunctions | _Rough = risks if curvature is None else curvature
    mu_weights = tolerance / (4.0 * radius**2)
    values, gradients = risks.risks_and_gradients(weights)
    gap = frank_wolfe_gap(weights, mixture, values, gradients, radius)
    best, n_steps = SaddlePoint(weights, mixture, gap, 0), 0
    hessian, is_new = None, False

    def height(values: FloatArray, weights: FloatArray) -> float:
        return float(values.max()) + 0.5 * mu_weights * float(weights @ weights)

    while best.gap > tolerance and n_steps < max_steps:
        if hessian is None:
            hessian, is_new = source.hessian(weights, mixture), True
        try:
            target, mixture = ball_step(
                mixture,
                weights,
                values,
                gradients,
                hessian,
                radius=radius,
                mu_weights=mu_weights,
                tolerance=max(0.1 * tolerance, 1e-2 * enough),
            )
        except LinAlgError:  # rounding has the last word
            break
        n_steps += 1
        direction = target - weights
        now = height(values, weights)
        # what the groups' lines alone promise bounds the fall of the maximum along the segment
        slope = height(values + gradients @ direction, target) - now
        if -(slope + 0.5 * direction @ hessian @ direction) <= enough > 0.0:
            return SaddlePoint(target, mixture, np.inf, n_steps)
        length = 1.0
        while length > 1e-4:
            new = weights + length * direction
            new_values, new_gradients = risks.risks_and_gradients(new)
            new_gap = frank_wolfe_gap(new, mixture, new_values, new_gradients, radius)
            if new_gap < best.gap:
                best = SaddlePoint(new, mixture, new_gap, 0)
            rise = height(new_values, new) - now
            # next to the optimum the risks no longer show progress, the gap does
            unseen = rise <= 1e-3 * tolerance + 1e-12 * abs(now) and new_gap <= 0.5 * gap
            if rise <= 1e-4 * length * slope or unseen or new_gap <= tolerance:
                break
            length /= 4.0
        else:
            if is_new and source is risks:
                break
            source, hessian = risks if is_new else source, None
            continue
        hessian = _bfgs_update(hessian, new - weights, mixture @ (new_gradients - gradients))
        if new_gap > RENEW * gap and (source is risks or not is_new):
            hessian = None
        elif new_gap > DISTRUST * gap:
            source, hessian = risks, None
        weights, values, gradients, gap, is_new = new, new_values, new_gradients, new_gap, False
    return SaddlePoint(best.weights, best.group_weights, best.gap, n_steps)


def frank_wolfe_gap(
    weights: FloatArray,
    mixture: FloatArray,
    values: FloatArray,
    gradients: FloatArray,
    radius: float,
) -> float:
    """Bound how far weights w and a mixture λ of groups are from optimal, both together.

    With g the gradient of the mixture it is ``max_i L_i(w) - Σ λ_i L_i(w) + <g, w> + R ‖g‖``, at
    least ``max_i L_i(w) - min_v Σ λ_i L_i(v)``, and not negative.
    """
    slope = mixture @ gradients
    over_mixture = float(values.max() - mixture @ values)
    return max(float(over_mixture + slope @ weights + radius * np.linalg.norm(slope)), 0.0)


def _bfgs_update(hessian: FloatArray, step: FloatArray, change: FloatArray) -> FloatArray:
    """Return the BFGS update, which maps a step to the change of gradient along it."""
    image = hessian @ step
    modelled, seen = float(step @ image), float(step @ change)
    # a loss that is flat along the step, or rounding, teaches nothing
    if not min(modelled, seen) > 1e-8 * max(modelled, seen):
        return hessian
    return hessian - np.outer(image, image / modelled) + np.outer(change, change / seen)


# One record in eight is in the next smaller sample, and of small groups at least so many.
SHARE, LEAST_OF_A_GROUP = 8, 200
# Records per weight that a sample needs to be worth solving, and for its Hessian to stand in for
# that of all records: the error of a step is then about one over the root of it.
TO_SOLVE, TO_STAND_IN = 20, 200
# Fixed, so that results repeat: no noise is drawn here and nothing is hidden by the sample.
SEED = 0
# Weights from which the first Hessian of all records is one of single precision, which is off by
# less than this times its trace.
WIDE, SINGLE = 500, 1e-7


@dataclass(frozen=True)
class _Rough:
    """Where the Hessian of all records comes from while it need not be exact."""

    risks: Risks

    def hessian(self, weights: FloatArray, group_weights: FloatArray) -> FloatArray:
        """Return the Hessian, and what keeps it positive where rounding would not."""
        hessian = self.risks.hessian(weights, group_weights, rough=True)
        hessian[np.diag_indices(len(hessian))] += SINGLE * np.trace(hessian)
        return hessian


def sampled_newton(
    risks: RiskFunctions,
    samples: Sequence[Risks],
    *,
    radius: float,
    tolerance: float,
    max_steps: int,
) -> SaddlePoint:
    """Minimise the largest of smooth group risks, reading all records a handful of times.

    Samples come with the smallest first. Each is solved to a tenth of what it can tell, from where
    the one before it ended, and the Hessian of the largest serves on all records:
    docs/theory/saddle-point.md. A sample that misleads costs time and nothing else.
    """
    weights = np.zeros(risks.n_weights)
    mixture = np.full(risks.n_groups, 1.0 / risks.n_groups)
    n_steps = 0
    stand_in: Any = None
    if isinstance(risks, Risks) and risks.n_weights >= WIDE:
        stand_in = _Rough(risks)

    def solve(part: RiskFunctions, most: int, enough: float = 0.0) -> SaddlePoint:
        limits: dict[str, Any] = {"radius": radius, "tolerance": tolerance, "enough": enough}
        limits |= {"max_steps": min(most, max_steps - n_steps)}
        return minimax_newton(part, weights, mixture, **limits, curvature=stand_in)

    # the matrices of a step are small: threads of BLAS would wait for each other
    with one_blas_thread():
        for part in samples:
            n_records = sum(part.group_sizes)
            found = solve(part, 20, 0.1 * risks.n_weights / n_records)
            n_steps += found.n_newton_steps
            weights, mixture = found.weights, found.group_weights
            if n_records >= TO_STAND_IN * risks.n_weights:
                stand_in = part
        found = solve(risks, 50)
    return replace(found, n_newton_steps=n_steps + found.n_newton_steps)


def nested_samples(risks: Risks) -> list[Risks]:
    """Return samples of the records, the smallest first, each a sample of the next.

    None where groups overlap: one of cells in shares of their own would be of other groups.
    """
    samples: list[Risks] = []
    if risks.cells is not None:
        return samples
    rng = np.random.default_rng(SEED)
    part = risks
    if max(risks.group_sizes) > MOST_RANKS:
        return samples
    while True:
        sizes = np.asarray(part.group_sizes)
        fewer = np.minimum(sizes, np.maximum(sizes // SHARE, LEAST_OF_A_GROUP))
        if fewer.sum() < TO_SOLVE * risks.n_weights or 2 * fewer.sum() > sizes.sum():
            return samples[::-1]
        (chosen,) = keyed_parts(part.group_sizes, [fewer.tolist()], rng)
        part = part.part(chosen)
        samples.append(part)
