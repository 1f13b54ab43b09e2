"""How a plan of the multiplicative group reweighting solver is made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from sklearn_dpwg.privacy import LARGEST_QUOTIENT, Budget, PrivacyGuarantee, Release, calibrate
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.solvers.mgr.batches import Batches
from sklearn_dpwg.solvers.mgr.sampling import (
    Reading,
    calibrated_releases,
    choose_reading,
    make_batches,
    seconds_of,
)
from sklearn_dpwg.solvers.mgr.schedule import (
    MGRSchedule,
    RunNoise,
    noise_of_batches,
    noise_of_passes,
)
from sklearn_dpwg.solvers.mgr.step_rule import Outline
from sklearn_dpwg.solvers.plan import Plan

if TYPE_CHECKING:
    from sklearn_dpwg.solvers.mgr.mgr import MGR

GRADIENT = "gradient"
RISKS = "group risks"
GRADIENT_AND_RISKS = "gradient and group risks"


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
    reading = choose_reading(problem, budget, solver)
    outline = Outline.of(problem, solver, reading.n_steps)
    make = _plan_of_passes if reading.is_full else _plan_of_batches
    return make(outline, budget, solver, reading)


def _plan_of_passes(outline: Outline, budget: Budget, solver: MGR, reading: Reading) -> Plan:
    """Plan for steps that read every record."""
    problem, n_steps = outline.problem, outline.n_steps
    b = outline.feedback_range
    risk_share = outline.best_share(
        lambda share: noise_of_passes(problem, mu=budget.mu, risk_share=share, feedback_range=b),
        solver.risk_share,
    )
    releases = [Release(GRADIENT, "gaussian", math.sqrt(1.0 / (1.0 - risk_share)), n_steps)]
    if problem.n_groups > 1:
        releases.append(Release(RISKS, solver.risk_noise, math.sqrt(1.0 / risk_share), n_steps))
    calibrated = calibrate(releases, budget)
    # the μ and share of Gaussian noise as large as the calibrated: with Gaussian noise these are
    # the budget's; the variance of Laplace noise is twice its squared scale
    mu = math.sqrt(n_steps) / calibrated[0].noise_multiplier
    is_laplace = solver.risk_noise == "laplace"
    risk_stds = np.zeros(problem.n_groups)
    if problem.n_groups > 1:
        multiplier = calibrated[1].noise_multiplier
        mu_of_risks = math.sqrt(n_steps / (2.0 if is_laplace else 1.0)) / multiplier
        mu = math.hypot(mu, mu_of_risks)
        risk_share = (mu_of_risks / mu) ** 2
        risk_stds = multiplier * b / np.array(problem.group_sizes)
    noise = noise_of_passes(problem, mu=mu, risk_share=risk_share, feedback_range=b)
    scale = outline.group_rate_at(noise) * risk_stds
    schedule = MGRSchedule(
        step=solver.step,
        n_steps=n_steps,
        gradient_multiplier=calibrated[0].noise_multiplier,
        risk_multiplier=calibrated[1].noise_multiplier if problem.n_groups > 1 else 0.0,
        risk_noise=solver.risk_noise,
        gradient_diameter=problem.gradient_diameter,
        ceiling=outline.ceiling,
        feedback_range=b,
        prior=problem.prior,
        group_rate=outline.group_rate_at(noise),
        noise_correction=_floats(_log_mean_exp_laplace(scale) if is_laplace else scale**2 / 2.0),
        aim=0.0 if outline.is_fixed else outline.aim,
        step_size=outline.step_size,
        longest_step=outline.longest_step,
        max_momentum=outline.max_momentum,
        averaged=max(1, round(solver.averaging * n_steps)),
        remark=reading.remark,
    )
    return _plan(problem, budget, calibrated, schedule, outline.bound(noise))


def _plan_of_batches(outline: Outline, budget: Budget, solver: MGR, reading: Reading) -> Plan:
    """Plan for steps that read Poisson batches; one joint release a step."""
    problem, n_steps = outline.problem, outline.n_steps
    name = GRADIENT_AND_RISKS if problem.n_groups > 1 else GRADIENT
    releases = calibrated_releases(reading.rates, n_steps, name, budget)
    multipliers = {release.sampling_rate: release.noise_multiplier for release in releases}

    def batches_at(share: float) -> Batches:
        return make_batches(outline, reading.rates, multipliers, share)

    def noise_at(share: float) -> RunNoise:
        return noise_of_batches(batches_at(share), n_steps=n_steps, n_weights=problem.n_weights)

    risk_share = outline.best_share(noise_at, solver.risk_share)
    batches, noise = batches_at(risk_share), noise_at(risk_share)
    group_rate = outline.group_rate_at(noise)
    correction = np.zeros(problem.n_groups)
    if problem.n_groups > 1:
        correction = batches.log_mean_exp_of_coins(group_rate)
        correction += (group_rate * batches.risk_stds) ** 2 / 2.0
    schedule = MGRSchedule(
        step=solver.step,
        n_steps=n_steps,
        gradient_multiplier=0.0,
        risk_multiplier=0.0,
        risk_noise="gaussian",
        gradient_diameter=problem.gradient_diameter,
        ceiling=outline.ceiling,
        feedback_range=outline.feedback_range,
        prior=problem.prior,
        group_rate=group_rate,
        noise_correction=_floats(correction),
        aim=0.0 if outline.is_fixed else outline.aim,
        step_size=outline.step_size,
        longest_step=outline.longest_step,
        max_momentum=outline.max_momentum,
        averaged=max(1, round(solver.averaging * n_steps)),
        batches=batches,
        remark=reading.remark,
    )
    return _plan(problem, budget, releases, schedule, outline.bound(noise))


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


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
    step_size = diameter / math.sqrt(n_steps * (lipschitz**2 + d * sigma**2))
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
        step_size=step_size,
        longest_step=step_size,
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
    return _plan(problem, budget, releases, schedule, np.full(p, excess))


def _plan(
    problem: Problem,
    budget: Budget,
    releases: Sequence[Release],
    schedule: MGRSchedule,
    bounds: np.ndarray,
) -> Plan:
    rates = (1.0,) * problem.n_groups if schedule.batches is None else schedule.batches.rates
    quotient = max(problem.group_sizes) * schedule.ceiling / schedule.feedback_range
    if schedule.batches is not None:
        quotient = max(quotient, float(schedule.batches.expected_sizes.sum()))
    if problem.n_groups > 1 and quotient > LARGEST_QUOTIENT:
        raise ValueError(
            f"the largest group ({max(problem.group_sizes):,} records) times its largest loss is "
            f"{quotient:.2g} times what one record can move, where rounding may show a record: "
            f"choose a larger radius or loss_ceiling, or split the group."
        )
    return Plan.of(
        "mgr",
        problem,
        budget,
        releases=releases,
        schedule=schedule,
        bounds=bounds,
        n_steps=schedule.n_steps,
        seconds=seconds_of(problem, rates, schedule.n_steps),
    )


def _log_mean_exp_laplace(scale: np.ndarray) -> np.ndarray:
    """Return log E exp(N) of Laplace noise; it is infinite from scale 1 on, scale² then."""
    square = scale**2
    return np.maximum(square, -np.log1p(-np.minimum(square, 0.9)))


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
    for name in ("group_rate", "aim", "step_size", "max_seconds"):
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

    if solver.schedule == "paper" and (
        solver.sampling_rate is not None or solver.max_seconds is not None
    ):
        raise ValueError(
            "sampling_rate and max_seconds of MGR must be None with schedule='paper', whose steps "
            f"read all records, got {solver.sampling_rate!r} and {solver.max_seconds!r}."
        )
    if solver.risk_noise == "laplace" and solver.sampling_rate is not None:
        rates = np.ravel(np.asarray(solver.sampling_rate, dtype=object))
        if any(rate != 1 for rate in rates):
            raise ValueError(
                "sampling_rate of MGR must be None or 1 with risk_noise='laplace', which has no "
                f"tight accountant when records are sampled, got {solver.sampling_rate!r}."
            )


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
