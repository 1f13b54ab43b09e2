"""How a plan of the multiplicative group reweighting solver is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar

from sklearn_dpwg.privacy import LARGEST_QUOTIENT, Budget, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.problem import PUBLIC_FACTS, Problem
from sklearn_dpwg.solvers.mgr_schedule import (
    MGRSchedule,
    best_sharpness,
    excess_bound_by_group,
)
from sklearn_dpwg.solvers.planning import Plan, predict_seconds

if TYPE_CHECKING:
    from sklearn_dpwg.solvers.mgr import MGR

GRADIENT = "gradient"
RISKS = "group risks"

# Losses counted up to this multiple of what predicting nothing can cost: ceilings from 0.7 to 2
# nats did equally well on three data sets, no ceiling much worse (benchmarks/mgr_defaults.py).
CEILING_OVER_ZERO_SCORE = 1.5

# Heavy-ball momentum may remember at most a tenth of the run.
LONGEST_MEMORY = 0.1


def planned_plan(problem: Problem, budget: Budget, solver: MGR) -> Plan:
    """Plan by minimising the bound on the excess risk over whatever the solver leaves open.

    Parameters
    ----------
    problem : Problem
        Public facts.
    budget : Budget
        Budget with finite ε.
    solver : MGR
        Its parameters; ``None`` means open.

    Returns
    -------
    Plan
        Calibrated to the budget.
    """
    constants = problem.constants
    n_steps = solver.n_steps if solver.n_steps is not None else solver.max_passes
    ceiling = solver.loss_ceiling
    if ceiling is None:
        ceiling = CEILING_OVER_ZERO_SCORE * constants.zero_score
    ceiling = min(ceiling, constants.supremum)
    if ceiling <= constants.infimum:
        raise ValueError(
            f"loss_ceiling of MGR must be above the smallest possible loss, "
            f"{constants.infimum:.3g}, got {ceiling:.3g}."
        )
    feedback_range = constants.range_up_to(ceiling)
    aim = solver.aim * problem.radius
    if math.isinf(problem.smoothness):
        # the best step without noise against a comparator of norm aim; momentum would rest on 1/H
        step_size, max_momentum = aim / (problem.lipschitz * math.sqrt(n_steps)), 0.0
    else:
        step_size = 1.0 / problem.smoothness
        max_momentum = max(0.0, 1.0 - 1.0 / max(1.0, LONGEST_MEMORY * n_steps))
    if solver.step_size is not None:
        step_size, max_momentum = solver.step_size, 0.0

    def sharpness(mu: float, risk_share: float) -> float:
        if solver.group_rate is not None:
            return solver.group_rate * n_steps
        return best_sharpness(
            problem, mu=mu, risk_share=risk_share, n_steps=n_steps, feedback_range=feedback_range
        )

    def bound(mu: float, risk_share: float) -> np.ndarray:
        return excess_bound_by_group(
            problem,
            mu=mu,
            risk_share=risk_share,
            n_steps=n_steps,
            aim=aim,
            step_size=step_size,
            max_momentum=max_momentum,
            fixed_step=solver.step_size is not None,
            feedback_range=feedback_range,
            sharpness=sharpness(mu, risk_share) if problem.n_groups > 1 else 1.0,
        )

    prior = np.asarray(problem.prior)
    risk_share = 0.0
    if problem.n_groups > 1:
        risk_share = (
            solver.risk_share
            if solver.risk_share is not None
            else _best_share(lambda share: float(prior @ bound(budget.mu, share)))
        )
    releases = [Release(GRADIENT, "gaussian", math.sqrt(1.0 / (1.0 - risk_share)), n_steps)]
    if problem.n_groups > 1:
        releases.append(Release(RISKS, solver.risk_noise, math.sqrt(1.0 / risk_share), n_steps))
    calibrated = calibrate(releases, budget)
    # the μ and share of Gaussian noise as large as the calibrated: with Gaussian noise these are
    # the budget's; the variance of Laplace noise is twice its squared scale
    mu = math.sqrt(n_steps) / calibrated[0].noise_multiplier
    group_rate, correction = 0.0, np.zeros(problem.n_groups)
    if problem.n_groups > 1:
        multiplier = calibrated[1].noise_multiplier
        is_laplace = solver.risk_noise == "laplace"
        mu_of_risks = math.sqrt(n_steps / (2.0 if is_laplace else 1.0)) / multiplier
        mu = math.hypot(mu, mu_of_risks)
        risk_share = (mu_of_risks / mu) ** 2
        group_rate = sharpness(mu, risk_share) / n_steps
        scale = group_rate * multiplier * feedback_range / np.array(problem.group_sizes)
        correction = _log_mean_exp_laplace(scale) if is_laplace else scale**2 / 2.0
    schedule = MGRSchedule(
        step=solver.step,
        n_steps=n_steps,
        gradient_multiplier=calibrated[0].noise_multiplier,
        risk_multiplier=calibrated[1].noise_multiplier if problem.n_groups > 1 else 0.0,
        risk_noise=solver.risk_noise,
        gradient_diameter=problem.gradient_diameter,
        ceiling=ceiling,
        feedback_range=feedback_range,
        prior=problem.prior,
        group_rate=group_rate,
        noise_correction=tuple(float(value) for value in correction),
        aim=0.0 if solver.step_size is not None else aim,
        step_size=step_size,
        max_momentum=max_momentum,
        averaged=max(1, round(solver.averaging * n_steps)),
    )
    by_group = bound(mu, risk_share)
    return _plan(
        problem,
        calibrated,
        PrivacyGuarantee.from_releases(calibrated, budget, public=PUBLIC_FACTS),
        schedule,
        by_group,
    )


def paper_plan(problem: Problem, budget: Budget, *, max_passes: int) -> Plan:
    """Plan with the paper's formulas and account for their noise exactly.

    Parameters
    ----------
    problem : Problem
        Public facts.
    budget : Budget
        Budget with finite ε.
    max_passes : int
        Cap on the number of steps, which the paper lets grow with the square of K.

    Returns
    -------
    Plan
        Its guarantee is what the noise really costs, at most the budget.

    Notes
    -----
    Theorem 9 leaves its universal constant open. It is 1 here, unless exact accounting shows
    that 1 costs more than the budget; then it is the smallest that does not. The schedule states
    the constant used and the ε that 1 costs.

    With n the smallest group size for K/p, ``T = (M L + B √log p) n² ε² / (L B d log(1/δ))``,
    ``σ² = T L² log(T/δ) log(1/δ) / (n² ε²)``, ``τ = B √(T log(1/δ)) / (n ε)``,
    ``U = B + 8 τ log(p n T / 2)``, ``η_w = M / √(T (L² + d σ²))`` – the paper prints its square
    – and ``η_λ = √(log p / (T U²))``.

    References
    ----------
    Zhou and Bassily (2024), Theorems 9 and 10 and the proof in Appendix C.1.
    """
    n, d, p = min(problem.group_sizes), problem.n_weights, problem.n_groups
    lipschitz, loss_range, diameter = problem.lipschitz, problem.loss_range, problem.diameter
    log_delta = math.log(1.0 / budget.delta)
    steps = (diameter * lipschitz + loss_range * math.sqrt(math.log(p))) * (
        n**2 * budget.epsilon**2 / (lipschitz * loss_range * d * log_delta)
    )
    n_steps = max(1, min(max_passes, math.floor(steps)))
    sigma = (
        lipschitz
        * math.sqrt(n_steps * math.log(n_steps / budget.delta) * log_delta)
        / (n * budget.epsilon)
    )
    tau = loss_range * math.sqrt(n_steps * log_delta) / (n * budget.epsilon)
    # σ and τ are those of the smallest group; a larger one needs less in proportion to its size
    releases: Sequence[Release] = [
        Release(GRADIENT, "gaussian", sigma * n / problem.gradient_diameter, n_steps)
    ]
    if p > 1:
        releases = [*releases, Release(RISKS, "laplace", tau * n / loss_range, n_steps)]
    true_epsilon = PrivacyGuarantee.from_releases(releases, budget.delta).epsilon
    constant = 1.0
    if true_epsilon > budget.epsilon:
        affordable = calibrate(releases, budget)
        constant = affordable[0].noise_multiplier / releases[0].noise_multiplier
        releases, sigma, tau = affordable, sigma * constant, tau * constant
    feedback_bound = loss_range
    if p > 1:
        feedback_bound += 8.0 * tau * max(0.0, math.log(p * n * n_steps / 2.0))
    group_rate = math.sqrt(math.log(p) / (n_steps * feedback_bound**2))
    schedule = MGRSchedule(
        step="sampled",
        n_steps=n_steps,
        gradient_multiplier=releases[0].noise_multiplier,
        risk_multiplier=releases[1].noise_multiplier if p > 1 else 0.0,
        risk_noise="laplace",
        gradient_diameter=problem.gradient_diameter,
        ceiling=problem.constants.supremum,
        feedback_range=loss_range,
        prior=(1.0 / p,) * p,
        group_rate=group_rate,
        noise_correction=(0.0,) * p,
        aim=0.0,
        step_size=diameter / math.sqrt(n_steps * (lipschitz**2 + d * sigma**2)),
        max_momentum=0.0,
        averaged=n_steps,
        remark=(
            f"the paper's noise with constant 1 costs epsilon = {true_epsilon:.4g}; "
            f"constant used: {constant:.4g}"
        ),
    )
    # the regret bounds in the proof of Theorem 10
    excess = diameter * math.sqrt((lipschitz**2 + d * sigma**2) / n_steps)
    excess += 2.0 * feedback_bound * math.sqrt(math.log(p) / n_steps)
    guarantee = PrivacyGuarantee.from_releases(releases, budget, public=PUBLIC_FACTS)
    return _plan(problem, tuple(releases), guarantee, schedule, np.full(p, excess))


def _plan(
    problem: Problem,
    releases: tuple[Release, ...],
    guarantee: PrivacyGuarantee,
    schedule: MGRSchedule,
    excess_by_group: np.ndarray,
) -> Plan:
    n_released = problem.n_weights + (problem.n_groups if problem.n_groups > 1 else 0)
    quotient = max(problem.group_sizes) * schedule.ceiling / schedule.feedback_range
    if problem.n_groups > 1 and quotient > LARGEST_QUOTIENT:
        raise ValueError(
            f"the largest group ({max(problem.group_sizes):,} records) times its largest loss is "
            f"{quotient:.2g} times what one record can move, where rounding may show a record: "
            f"choose a larger radius or loss_ceiling, or split the group."
        )
    return Plan(
        solver="mgr",
        problem=problem,
        releases=releases,
        guarantee=guarantee,
        n_steps=schedule.n_steps,
        schedule=schedule,
        predicted_excess=float(np.asarray(problem.prior) @ excess_by_group),
        predicted_excess_if_worst=tuple(float(value) for value in excess_by_group),
        predicted_seconds=predict_seconds(
            problem,
            schedule.n_steps,
            n_draws=schedule.n_steps * len(releases),
            n_coordinates=schedule.n_steps * n_released,
        ),
    )


def _log_mean_exp_laplace(scale: np.ndarray) -> np.ndarray:
    """Return log E exp(N) of Laplace noise; it is infinite from scale 1 on, scale² then."""
    square = scale**2
    return np.maximum(square, -np.log1p(-np.minimum(square, 0.9)))


def _best_share(bound_at: Callable[[float], float]) -> float:
    found = minimize_scalar(bound_at, bounds=(1e-3, 0.5), method="bounded")
    return float(found.x)


def check_parameters(solver: MGR) -> None:
    """Refuse what is out of range.

    Parameters
    ----------
    solver : MGR
        Its parameters.

    Raises
    ------
    ValueError
        If a parameter is out of range or of a wrong type.
    """
    for name in ("n_steps", "max_passes"):
        value = getattr(solver, name)
        is_open = value is None and name == "n_steps"
        if not is_open and not (_is(value, Integral) and value >= 1):
            raise ValueError(f"{name} of MGR must be a positive whole number, got {value!r}.")
    for name in ("group_rate", "aim", "step_size"):
        value = getattr(solver, name)
        is_open = value is None and name != "aim"
        if not is_open and not (_is(value, Real) and 0.0 < value < math.inf):
            raise ValueError(f"{name} of MGR must be positive and finite, got {value!r}.")
    share, averaging, ceiling = solver.risk_share, solver.averaging, solver.loss_ceiling
    if share is not None and not (_is(share, Real) and 0.0 < share < 1.0):
        raise ValueError(f"risk_share of MGR must be between 0 and 1, got {share!r}.")
    if not (_is(averaging, Real) and 0.0 < averaging <= 1.0):
        raise ValueError(f"averaging of MGR must be above 0, at most 1, got {averaging!r}.")
    if ceiling is not None and (not _is(ceiling, Real) or math.isnan(ceiling)):
        raise ValueError(f"loss_ceiling of MGR must be a number, got {ceiling!r}.")
    for name, choices in (
        ("step", ("weighted", "sampled")),
        ("schedule", ("planned", "paper")),
        ("risk_noise", ("gaussian", "laplace")),
    ):
        if getattr(solver, name) not in choices:
            raise ValueError(
                f"{name} of MGR must be one of {choices}, got {getattr(solver, name)!r}."
            )


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
