"""Descent–ascent: slopes, the four risks against the paper's bounds, and its group step.

`slopes` fits the excess of planned runs, and the strong gap of the paper's schedule, to the number
of records. `risks` measures how much the four risks of the paper's schedule differ between the
population, whose saddle point is known, and the records, beside the numbers of Theorem 3 and
Corollary 1. `group_step` varies the step length of the group weights. `data` compares on real data.

    python benchmarks/gda.py [slopes] [risks] [group_step] [data] [figure]
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import common
import numpy as np
from common import DELTA
from rates_worlds import HardWorld, TypicalWorld, World
from scipy.optimize import minimize

from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.optimum import project_to_ball
from sklearn_dpwg.optimum.group_player import on_capped_simplex
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import GDA, MGR, Solver

N_GROUPS, N_FEATURES = 4, 16
SIZES = (4_000, 12_000, 40_000, 120_000, 400_000)
N_SEEDS = 8
SIGNALS = tuple(4.0**-k for k in range(7))

RISK_SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
RIDGE, RADIUS, EPSILON, N_RUNS = 0.02, 4.0, 4.0, 8
SILENT = 1e6  # an ε so large that noise plays no part
RISKS = ("plain", "primal", "weak gap", "strong gap")
ZETA = 0.05  # the theorems hold with probability 1 - ζ

DATA = ("law-school", "adult", "compas", "german-credit")
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "gda_risks.png"


def excess(worlds: list[World], solver: Solver, n_records: float) -> float:
    """Return the largest median excess over seeds, in the population, at ε = 0.1."""
    size = int(n_records) // N_GROUPS
    medians = []
    for world in worlds:
        runs = common.weights_of_runs(
            solver,
            world.problem(size),
            lambda seed, world=world: world.draw(size, np.random.default_rng([seed, 1])),
            range(N_SEEDS),
            Budget(0.1, DELTA),
        )
        medians.append(np.median([world.excess(weights) for weights in runs]))
    return float(max(medians))


def report_slopes() -> None:
    """Print excess against the number of records where noise rules, and its slopes."""
    kinds: dict[str, list[World]] = {
        "hard": [HardWorld(N_GROUPS, N_FEATURES, signal=signal) for signal in SIGNALS],
        "typical": [TypicalWorld(N_GROUPS, N_FEATURES)],
    }
    common.sweep(
        f"median excess of planned runs by records, p = {N_GROUPS}, d = {N_FEATURES}, ε = 0.1",
        SIZES,
        {
            f"{name}, {solver.name}": (partial(excess, worlds, solver), -1.0)
            for name, worlds in kinds.items()
            for solver in (GDA(), MGR(sampling_rate=1.0))
        },
    )
    common.sweep(
        f"median strong gap of the paper's schedule on the records, T = K^(2/3), ρ = {RIDGE}",
        RISK_SIZES,
        {f"ε = {epsilon:g}": (partial(median_gap, epsilon), "–") for epsilon in (EPSILON, SILENT)},
    )


def median_gap(epsilon: float, n_records: float) -> float:
    """Return the median strong gap on the records."""
    runs = paper_runs(int(n_records), epsilon, with_population=False)
    return float(np.median(runs["strong gap, records"]))


def paper_runs(
    n_records: int, epsilon: float = EPSILON, *, with_population: bool = True
) -> dict[str, np.ndarray]:
    """Return the four risks of runs of the paper's schedule, on records and in the population."""
    world = TypicalWorld(N_GROUPS, N_FEATURES, radius=RADIUS)
    solver = GDA(schedule="paper", weight_ridge=RIDGE)
    plan = solver.plan(world.problem(n_records // N_GROUPS), Budget(epsilon, DELTA))
    samples, runs = [], []
    for seed in range(N_RUNS):
        data = world.draw(n_records // N_GROUPS, np.random.default_rng([seed, 2]))
        solution = solver.run(plan, data, NoiseSource(seed, plan.releases))
        samples.append(data.risks_and_gradients)
        runs.append((project_to_ball(solution.weights, RADIUS), solution.group_weights))
    known = world.population
    where = {"records": samples}
    if with_population:
        where["population"] = [lambda w: (known.group_risks(w), known.group_gradients(w))] * N_RUNS
    found = {}
    for name, risks in where.items():
        each = [([of_run], [run]) for of_run, run in zip(risks, runs, strict=True)]
        found[f"plain, {name}"] = [mean_value(*one) for one in each]
        found[f"primal, {name}"] = [largest(*one) for one in each]
        found[f"strong gap, {name}"] = [largest(*one) - least(*one) for one in each]
        if with_population:
            found[f"weak gap, {name}"] = [largest(risks, runs) - least(risks, runs)]
    return {name: np.array(values) for name, values in found.items()}


# Definition 2 for ``F(w, λ) = Σ λ_i L_i(w) + ρ/2 ‖w‖² - ρ/2 ‖λ - 1/p‖²``, means over runs for
# expectations; the plain risk is that of one run.


def cost(point: np.ndarray) -> float:
    """Return what a regulariser takes."""
    return RIDGE / 2.0 * float(point @ point)


def mean_value(risks: list, runs: list) -> float:
    """Return the mean of F at the weights and group weights of each run."""
    return float(
        np.mean(
            [
                mixture @ of_run(w)[0] + cost(w) - cost(mixture - 1.0 / N_GROUPS)
                for of_run, (w, mixture) in zip(risks, runs, strict=True)
            ]
        )
    )


def largest(risks: list, runs: list) -> float:
    """Return the largest mean of F over group weights, at the weights of each run."""
    means = np.mean([of_run(w)[0] for of_run, (w, _) in zip(risks, runs, strict=True)], axis=0)
    best = on_capped_simplex(means + RIDGE / N_GROUPS, np.full(N_GROUPS, RIDGE), 1.0)
    return float(best @ means) - cost(best - 1.0 / N_GROUPS) + np.mean([cost(w) for w, _ in runs])


def least(risks: list, runs: list) -> float:
    """Return the least mean of F over weights in the ball, at the group weights of each run."""

    def mean_of(weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = cost(weights), RIDGE * weights
        for of_run, (_, mixture) in zip(risks, runs, strict=True):
            losses, gradients = of_run(weights)
            value = value + mixture @ losses / len(runs)
            slope = slope + mixture @ gradients / len(runs)
        return value, slope

    ball = {
        "type": "ineq",
        "fun": lambda w: RADIUS**2 - w @ w,
        "jac": lambda w: -2.0 * w,
    }
    found = minimize(
        mean_of, np.zeros(N_FEATURES), jac=True, method="SLSQP", constraints=ball,
        options={"ftol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    return float(found.fun) - np.mean([cost(mixture - 1.0 / N_GROUPS) for _, mixture in runs])


def difference(found: dict[str, np.ndarray], name: str) -> float:
    """Return the root mean square over runs of a risk's difference of population and records."""
    gap = found[f"{name}, population"] - found[f"{name}, records"]
    return float(np.sqrt(np.mean(gap**2)))


def theorem_bounds(n_records: int) -> dict[str, float]:
    """Return what Theorem 3 (a), (b), (d) and Corollary 1 bound the differences by.

    The factors 1/(1-ι) make them bounds on risk minus a multiple of the empirical one; the rest of
    that multiple is moved to the right side, and ι is the best of a grid. The argument stability γ
    is that of Theorem 2, with the distances g at most the diameters of the two sets.
    """
    world = TypicalWorld(N_GROUPS, N_FEATURES, radius=RADIUS)
    problem = world.problem(n_records // N_GROUPS)
    solver = GDA(schedule="paper", weight_ridge=RIDGE)
    plan = solver.plan(problem, Budget(EPSILON, DELTA))
    n, n_steps, d = n_records, plan.n_steps, N_FEATURES
    sigma = plan.releases[0].noise_multiplier * plan.schedule.gradient_diameter * N_GROUPS / n
    lipschitz = N_GROUPS * max(problem.lipschitz, problem.loss_range)
    lipschitz += max(2.0 * RADIUS, math.sqrt(2.0)) * RIDGE
    smooth = max(N_GROUPS * problem.smoothness, N_GROUPS * problem.lipschitz) + RIDGE
    largest = N_GROUPS * problem.constants.supremum + RIDGE * RADIUS**2 / 2.0
    p_zeta = 1.0 + (8.0 * math.log(2.0 * n_steps / ZETA) / d) ** 0.25
    log_t, noise = math.log(math.e * n_steps), sigma * math.sqrt(d) * p_zeta
    inside = (lipschitz**2 + noise**2 + 2.0 * lipschitz * noise) / (RIDGE**2 * n_steps)
    inside += (2.0 * RADIUS + math.sqrt(2.0)) * noise / (RIDGE * log_t)
    gamma = 4.0 * lipschitz / (n * RIDGE) + 2.0 * noise * log_t / n_steps
    gamma += 4.0 * math.sqrt(log_t) * math.sqrt(inside)
    bounds = dict.fromkeys(RISKS, math.inf)
    for iota in (0.05, 0.1, 0.2, 0.3, 0.5):
        rest, log3 = iota / (1.0 - iota) * largest, math.log(3.0 / ZETA)
        for name, factor in (("plain", 1.0), ("primal", 1.0 + smooth / RIDGE)):
            g = factor * lipschitz * gamma
            bound = math.sqrt(g**2 * (1.0 + 64.0 * n * log3) / (2.0 * (1.0 - iota) ** 2 * n) * log3)
            bound += 50.0 * math.sqrt(2.0) * math.e * g * math.log(n) / (1.0 - iota) * (1.0 + log3)
            bound += (12.0 + 2.0 * iota) * largest / (3.0 * iota * (1.0 - iota) * n) * log3
            bounds[name] = min(bounds[name], bound + rest)
        log1 = math.log(math.e / ZETA)
        gap = 100.0 * math.sqrt(2.0) * (1.0 + smooth / RIDGE) * lipschitz * gamma * math.log(n)
        gap += 144.0 * lipschitz**2 / (RIDGE * iota * n) + 8.0 * largest / n
        gap *= math.e * (1.0 + iota) / (1.0 - iota) * log1
        gap += math.e * rest * log1
        for name in ("weak gap", "strong gap"):
            bounds[name] = min(bounds[name], gap)
    return bounds


def report_risks() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Print differences of risks between population and records, and the theorems' bounds."""
    print(
        f"\nrisk in the population minus risk on the records, root mean square of {N_RUNS} runs of "
        f"the paper's schedule;\np = {N_GROUPS}, d = {N_FEATURES}, R = {RADIUS:g}, ρ = {RIDGE}, "
        f"ε = {EPSILON:g}, δ = {DELTA:g}; in brackets the bounds, with probability {1 - ZETA:g}"
    )
    found = [paper_runs(k) for k in RISK_SIZES]
    bounds = [theorem_bounds(k) for k in RISK_SIZES]
    curves = {}
    for name in RISKS:
        measured = np.array([difference(each, name) for each in found])
        stated = np.array([each[name] for each in bounds])
        row = "".join(
            f"{value:10.2g} ({bound:.1g})" for value, bound in zip(measured, stated, strict=True)
        )
        slopes = common.slope_of(RISK_SIZES, measured), common.slope_of(RISK_SIZES, stated)
        print(f"{name:>12}{row}   slope {slopes[0]:.2f} ({slopes[1]:.2f})")
        curves[name] = measured, stated
    for name in RISKS:
        row = "".join(f"{np.mean(each[f'{name}, population']):10.3g}" for each in found)
        print(f"{name:>12}, mean in the population: {row}")
    return curves


def draw(curves: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Draw measured differences and the rate of the theorems through the first of each."""
    plt = common.pyplot()
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    sizes = np.array(RISK_SIZES, dtype=float)
    for k, (name, (measured, stated)) in enumerate(curves.items()):
        axes.plot(sizes, measured, f"C{k}o-", label=f"{name}, measured", markersize=4)
        if name in ("plain", "strong gap"):
            axes.plot(sizes, stated, f"C{k}:", label=f"{name}, bound")
    rate = curves["plain"][0][0] * np.sqrt(sizes[0] / sizes)
    axes.plot(sizes, rate, "k--", linewidth=0.8, label="1/√K")
    axes.set(xscale="log", yscale="log", xlabel="records K", ylabel="population minus records")
    figure.legend(loc="outside right upper", fontsize=7)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=120)
    plt.close(figure)
    print(f"drawn: {FIGURE.name}")


def report_group_step() -> None:
    """Print the excess for multiples of the planned step of the group weights, at ε = 1."""
    print(f"\nmultiples of the planned step of the group weights, ε = 1, δ = {DELTA:g}, 6 seeds")
    for name in DATA:
        data, cells = load_dataset(name), []
        plan = common.make_estimator(data, solver=GDA()).plan(**common.public_facts(data))
        for times in (0.1, 0.2, 0.4, 0.7, 1.0, 2.0):
            solver = GDA(group_step=times * plan.schedule.group_step)
            cells.append(f"{times:g} {common.excess_of_fits(data, 6, solver=solver).mean():.4f}")
        print(f"{name:>15}  " + "   ".join(cells), flush=True)


def report_data() -> None:
    """Print the excess of both schedules beside MGR's."""
    print(f"\nmean excess worst-group risk ± standard error, δ = {DELTA:g}, 6 seeds (paper: 2)")
    solvers = {"gda": GDA(), "mgr": MGR(sampling_rate=1.0), "paper: gda": GDA(schedule="paper")}
    for name in DATA:
        data = load_dataset(name)
        print(f"{name}: predicting nothing {common.zero_excess(data):.4f}")
        for epsilon in (1.0, 4.0):
            cells = []
            for label, solver in solvers.items():
                n_seeds = 2 if "paper" in label else 6
                found = common.excess_of_fits(data, n_seeds, epsilon=epsilon, solver=solver)
                cells.append(f"{label} {common.cell(found)}")
            print(f"  ε = {epsilon:g}: " + "   ".join(cells), flush=True)


if __name__ == "__main__":
    common.run_tables(
        {
            "slopes": report_slopes,
            "risks": report_risks,
            "group_step": report_group_step,
            "data": report_data,
            "figure": lambda: draw(report_risks()),
        },
        extra=["figure"],
    )
