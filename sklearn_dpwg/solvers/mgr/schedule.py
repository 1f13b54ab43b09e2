"""Public numbers of the multiplicative group reweighting solver, and the bound behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.mgr.batches import Batches

# Standard deviation of the group risks under the group weights that planning assumes, as a share
# of the feedback range. Hoeffding's worst case would be 0.35; a tenth is what groups that carry
# weight differ by in practice, and plans a group rate that is several times larger
# (benchmarks/mgr_defaults.py varies the rate).
RISK_SPREAD = 0.1


@dataclass(frozen=True)
class MGRSchedule:
    """Everything that `MGR.run` needs besides the records and the noise.

    Parameters
    ----------
    step : {"weighted", "sampled"}
        Gradient of the weighted sum of group risks, or of one group drawn from the weights.
    n_steps : int
        Number of steps T.
    gradient_multiplier, risk_multiplier : float
        Noise per unit of sensitivity of the two releases of a full pass; 0 where there is none.
    risk_noise : {"gaussian", "laplace"}
        Noise on the group risks.
    gradient_diameter : float
        Γ: a record of group i moves its group's gradient by at most Γ/n_i.
    ceiling : float
        A record's loss counts for at most this much in the group risks.
    feedback_range : float
        A record of group i moves its group's risk by at most this over n_i.
    prior : tuple of float
        First group weights.
    group_rate : float
        Step size η_λ of the multiplicative weights.
    noise_correction : tuple of float
        Subtracted from each group's exponent at every step: log E exp(η_λ N) of the noise N on
        its risk, so that noise alone does not raise a group's expected weight.
    aim : float
        Norm of the weights that step sizes are planned for; 0 where `step_size` is fixed.
    step_size : float
        Longest plain step that is safe for every data set: 1/H where planned, ``aim/(L √T)`` for
        a loss that is not smooth.
    longest_step : float
        Longest plain step that is tried; where it is longer than `step_size`, `HeavyBall` shortens
        it as released gradients ask for.
    max_momentum : float
        Largest heavy-ball momentum.
    averaged : int
        How many of the last iterates are averaged.
    batches : Batches, optional
        Who joins a step and with how much noise; by default a step reads every record.
    remark : str, default=""
        What else a reader of the plan should know.
    """

    step: Literal["weighted", "sampled"]
    n_steps: int
    gradient_multiplier: float
    risk_multiplier: float
    risk_noise: Literal["gaussian", "laplace"]
    gradient_diameter: float
    ceiling: float
    feedback_range: float
    prior: tuple[float, ...]
    group_rate: float
    noise_correction: tuple[float, ...]
    aim: float
    step_size: float
    longest_step: float
    max_momentum: float
    averaged: int
    batches: Batches | None = None
    remark: str = ""

    def step_and_momentum(
        self, noise_std: float, n_weights: int, *, longest: float | None = None
    ) -> tuple[float, float]:
        """Return step length and momentum for a gradient with noise of a standard deviation.

        Parameters
        ----------
        noise_std : float
            Standard deviation of the noise on each coordinate; follows from earlier releases.
        n_weights : int
            Number of weights d.
        longest : float, optional
            Longest plain step; `step_size` by default.

        Returns
        -------
        step_size, momentum : float
            Together they move like a plain step of ``aim / (noise_std √(T d))``, the minimiser
            of ``aim²/(2 η T) + η d noise_std²/2``, as far as `max_momentum` allows.
        """
        if self.aim == 0.0:
            return self.step_size, 0.0
        longest = self.step_size if longest is None else longest
        effective = self.aim / (noise_std * math.sqrt(self.n_steps * n_weights))
        momentum = min(max(0.0, 1.0 - longest / effective), self.max_momentum)
        return min(effective * (1.0 - momentum), longest), momentum

    def __str__(self) -> str:
        """Return a few lines for people."""
        lines = [
            f"{self.step} step, average of the last {self.averaged:,} of {self.n_steps:,} "
            "iterates, "
            + ("one pass over the rows each" if self.batches is None else "one batch each"),
            f"step sizes at most {self.longest_step:.3g}, momentum at most {self.max_momentum:.2g}"
            + (f", aimed at weights of norm {self.aim:.3g}" if self.aim else ""),
        ]
        if self.batches is not None:
            lines.append(str(self.batches))
        if len(self.prior) > 1:
            lines.append(
                f"group weights start at {_short(self.prior)}, rate {self.group_rate:.3g}, "
                f"losses counted up to {self.ceiling:.3g}"
            )
        if self.remark:
            lines.append(self.remark)
        return "\n".join(lines)


def _short(values: tuple[float, ...]) -> str:
    shown = ", ".join(f"{value:.2g}" for value in values[:6])
    return f"({shown}{', ...' if len(values) > 6 else ''})"


class RunNoise(NamedTuple):
    """Variance of the mean over a run of what is released, noise and coins together.

    Parameters
    ----------
    gradient : ndarray of shape (n_groups,)
        Of the gradient, summed over its coordinates, if all weight is on the group.
    risk : ndarray of shape (n_groups,)
        Of the risk of the group; empty with one group.
    """

    gradient: FloatArray
    risk: FloatArray


def noise_of_passes(
    problem: Problem, *, mu: float, risk_share: float, feedback_range: float
) -> RunNoise:
    """Return the noise of full passes, however many they are.

    Parameters
    ----------
    problem : Problem
        Public facts.
    mu : float
        Gaussian-DP budget of the run.
    risk_share : float
        Share ρ of μ² that goes to the group risks; 0 with one group.
    feedback_range : float
        Range b of the clipped losses.

    Returns
    -------
    RunNoise
        ``d s_i²`` with ``s_i = Γ/(n_i μ √(1-ρ))``, and ``v_i = (b/(n_i μ √ρ))²``.
    """
    sizes = np.asarray(problem.group_sizes, dtype=float)
    gradient = problem.gradient_diameter / (sizes * mu * math.sqrt(1.0 - risk_share))
    risk = np.zeros(0)
    if problem.n_groups > 1:
        risk = (feedback_range / (sizes * mu)) ** 2 / risk_share
    return RunNoise(problem.n_weights * gradient**2, risk)


def noise_of_batches(batches: Batches, *, n_steps: int, n_weights: int) -> RunNoise:
    """Return the noise of a run on Poisson batches.

    Parameters
    ----------
    batches : Batches
        Who joins, and the noise of a step.
    n_steps : int
        Steps T.
    n_weights : int
        Number of weights d.

    Returns
    -------
    RunNoise
        The variances of a step over T: noise, and the coins' variance, which for gradients is a
        model and for risks at most ``(b/2)² (1-q_i)/(q_i n_i)``.
    """
    gradient = n_weights * batches.gradient_stds**2 + batches.sampling_variances
    risk = batches.risk_stds**2
    if risk.size:
        coins = (1.0 - np.asarray(batches.rates)) / batches.expected_sizes
        risk = risk + (batches.feedback_range / 2.0) ** 2 * coins
    return RunNoise(gradient / n_steps, risk / n_steps)


def excess_bound_by_group(
    problem: Problem,
    noise: RunNoise,
    *,
    n_steps: int,
    aim: float,
    step_size: float,
    max_momentum: float,
    feedback_range: float,
    sharpness: float,
    fixed_step: bool = False,
) -> FloatArray:
    """Return the planning bound on the excess risk for each group as the worst-off one.

    Parameters
    ----------
    problem : Problem
        Public facts.
    noise : RunNoise
        What noise and coins do to the means of a run.
    n_steps : int
        Steps T.
    aim : float
        Norm of the comparator.
    step_size, max_momentum : float
        Limits of the step rule.
    feedback_range : float
        Range b of the clipped losses.
    sharpness : float
        θ = η_λ T.
    fixed_step : bool, default=False
        Whether every step is `step_size`, whatever the noise.

    Returns
    -------
    ndarray of shape (n_groups,)
        For group i: ``aim²/(2τ) + τ g_i/2`` with the variance g_i of the mean gradient and τ the
        total step that makes it least, as far as the step rule reaches, plus
        ``log(1/π_i)/θ + θ (q b)²/T + θ v_i/2`` with the variance v_i of the mean risk and q the
        assumed `RISK_SPREAD`; for a loss that is not smooth, ``τ L²/(2T)`` as well.

    Notes
    -----
    The first part is the regret of projected gradient descent with noise once all weight is on
    group i, the second the regret of Hedge against group i, where noise of variance T v_i a step
    enters only through the correction (docs/theory/mgr.md). Momentum is counted as the longer
    plain step that it imitates.

    A loss that is not smooth pays ``η L²/2`` for every step, noise or not. The planned limit
    ``aim/(L √T)`` on its steps keeps the total within 7 % of that of the best step,
    ``aim/√(T (L² + T g_i))``.
    """
    reach = n_steps * step_size / (1.0 - max_momentum)
    total_step = np.minimum(aim / np.sqrt(noise.gradient), reach)
    if fixed_step:
        total_step = np.full_like(noise.gradient, reach)
    bound = aim**2 / (2 * total_step) + total_step * noise.gradient / 2
    if math.isinf(problem.smoothness):
        bound += total_step * problem.lipschitz**2 / (2 * n_steps)
    if problem.n_groups > 1:
        bound += (
            -np.log(np.asarray(problem.prior)) / sharpness
            + sharpness * (RISK_SPREAD * feedback_range) ** 2 / n_steps
            + sharpness * noise.risk / 2
        )
    return np.asarray(bound)


def best_sharpness(
    problem: Problem, noise: RunNoise, *, n_steps: int, feedback_range: float
) -> float:
    """Return the θ = η_λ T that minimises the prior average of the group player's bound.

    Parameters
    ----------
    problem : Problem
        Public facts, of two groups or more.
    noise : RunNoise
        What noise and coins do to the means of a run.
    n_steps : int
        Steps T.
    feedback_range : float
        Range b of the clipped losses.

    Returns
    -------
    float
        ``√(entropy(π) / ((q b)²/T + Σ π_i v_i / 2))`` with q the assumed `RISK_SPREAD`.
    """
    prior = np.asarray(problem.prior)
    entropy = -float(prior @ np.log(prior))
    cost = (RISK_SPREAD * feedback_range) ** 2 / n_steps + float(prior @ noise.risk) / 2
    return math.sqrt(entropy / cost)
