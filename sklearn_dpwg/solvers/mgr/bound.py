"""Planning bound on the excess risk, and the noise of a run that it counts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.by_loss import by_loss
from sklearn_dpwg.solvers.group_player import best_rate, risk_spread
from sklearn_dpwg.solvers.mgr.batches import Batches


class RunNoise(NamedTuple):
    """Variance of the mean over a run of what is released, noise and coins together."""

    # of the gradient, summed over its coordinates, if all weight is on the group; (n_groups,)
    gradient: FloatArray
    risk: FloatArray  # of the risk of the group; empty with one group; (n_groups,)


def noise_of_passes(
    problem: Problem, *, mu: float, risk_share: float, feedback_range: float
) -> RunNoise:
    """Return the noise of full passes, however many they are, with a share ρ of μ² for the risks.

    It is ``d s_i²`` with ``s_i = Γ/(n_i μ √(1-ρ))``, and ``v_i = (b/(n_i μ √ρ))²``.
    """
    sizes = problem.sizes_to_plan_for
    gradient = problem.gradient_diameter / (sizes * mu * math.sqrt(1.0 - risk_share))
    risk = np.zeros(0)
    if problem.n_groups > 1:
        risk = (feedback_range / (sizes * mu)) ** 2 / risk_share
    return RunNoise(problem.n_weights * gradient**2, risk)


def noise_of_batches(batches: Batches, *, n_steps: int, n_weights: int) -> RunNoise:
    """Return the noise of a run on Poisson batches: the variances of a step over T.

    They are those of the noise and of the coins, which for gradients is a model.
    """
    gradient = n_weights * batches.gradient_stds**2 + batches.sampling_variances
    return RunNoise(gradient / n_steps, batches.risk_variances / n_steps)


def without_unheard(noise: RunNoise, problem: Problem) -> RunNoise:
    """Return the noise that plans count: next to none for groups that no weight is moved to."""
    if problem.hidden is None:
        return noise
    squares = (np.asarray(problem.group_sizes) / problem.sizes_to_plan_for) ** 2
    return RunNoise(noise.gradient * squares, noise.risk * squares[: len(noise.risk)])


def excess_bound_by_group(
    problem: Problem,
    noise: RunNoise,
    *,
    n_steps: int,
    aim: float,
    step_size: float,
    max_momentum: float,
    sharpness: float,
    fixed_step: bool = False,
) -> FloatArray:
    """Return the planning bound on the excess risk for each group as the worst-off one.

    It is that of docs/theory/mgr.md, section 6: the regret of projected gradient descent with noise
    once all weight is on group i, with the step as planned and as far as `step_size` with
    `max_momentum` reaches (or of fixed steps, whatever the noise), plus that of Hedge against group
    i. A loss that is not smooth pays ``τ L²/(2T)`` as well, τ the total step. The planned limit
    ``aim/(L √T)`` on its steps keeps the total within 7 % of that of the best step.
    """
    bound = descent_bound_by_group(
        problem,
        noise.gradient,
        n_steps=n_steps,
        aim=aim,
        step_size=step_size,
        max_momentum=max_momentum,
        fixed_step=fixed_step,
    )
    if problem.n_groups > 1:
        bound += (
            -np.log(np.asarray(problem.prior)) / sharpness
            + sharpness * risk_spread(problem) ** 2 / n_steps
            + sharpness * (noise.risk + noise.risk.max()) / 4
        )
    return np.asarray(bound)


def descent_bound_by_group(
    problem: Problem,
    gradient_variances: FloatArray,
    *,
    n_steps: int,
    aim: float,
    step_size: float,
    max_momentum: float,
    fixed_step: bool = False,
) -> FloatArray:
    """Return the first part of that bound: what the weights owe if all weight is on a group."""
    reach = n_steps * step_size / (1.0 - max_momentum)
    of_coordinate = np.sqrt(gradient_variances / problem.n_weights)
    total_step = np.minimum(by_loss(problem.loss).step_share * aim / of_coordinate, reach)
    if fixed_step:
        total_step = np.full_like(gradient_variances, reach)
    bound = np.asarray(aim**2 / (2 * total_step) + total_step * gradient_variances / 2)
    if math.isinf(problem.smoothness):
        bound += total_step * problem.lipschitz**2 / (2 * n_steps)
    return bound


def best_sharpness(problem: Problem, noise: RunNoise, *, n_steps: int) -> float:
    """Return the θ = η_λ T of least regret if any group may be the worst off.

    It is ``√(entropy(π) / (q²/T + mean_i v_i / 2))`` with q the assumed `risk_spread`: the prior's
    mean in place of the groups' own would let large groups set a rate at which the noise of small
    ones decides.
    """
    prior = np.asarray(problem.prior)
    entropy = -float(prior @ np.log(prior))
    return best_rate(entropy, risk_spread(problem) ** 2 / n_steps + float(noise.risk.mean()) / 2)
