"""
Excess population risk against records, groups, weights and ε, beside the theorems
===================================================================================

Zhou & Bassily promise phased ERM √(p/K) + p√d/(Kε) (Theorem 2), and MGR p√d/(Kε) on the records it
has read (Theorem 10), up to logarithms. Theorems of this kind are about the worst population. So
"hard" takes, at every point, the worst of a family: one hard group with a linear loss and a signal
of 1, ¼, … (Appendix D's reduction). "typical" is one population where several groups matter.

A slope is fitted by least squares to the logarithms over the points where the excess is below half
of that of predicting nothing; its 95 % interval is over seeds. Beside it stands the slope over the
same points of a √(p/K) + b p√d/(Kε), where a comes from one measurement without privacy and b from
one measurement of the solver (K = 31,623, ε = 0.1), for all sweeps alike.

    python benchmarks/rates.py [hard] [typical] [papers] [doubling] [non-private] [algorithm-4]
                               [lower-bound]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from rates_worlds import CountedRisks, HardWorld, TypicalWorld, World

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import GroupedRecords
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.datasets import make_lower_bound
from sklearn_dpwg.exceptions import SeededNoiseWarning, WeakPlanWarning
from sklearn_dpwg.losses import AbsoluteError
from sklearn_dpwg.optimum import solve_saddle_point, worst_group_optimum
from sklearn_dpwg.optimum.objective import (
    RegularisedObjective,
    primal_dual_subgradient,
    project_to_ball,
)
from sklearn_dpwg.privacy import Budget, NoiseSource, gdp_mu, saddle_point_sensitivity
from sklearn_dpwg.solvers import MGR, PhasedERM
from sklearn_dpwg.solvers.exact import remark_strengths
from sklearn_dpwg.solvers.solver import Solver

for category in (SeededNoiseWarning, WeakPlanWarning):
    warnings.simplefilter("ignore", category)

DELTA = 1e-6
N_SEEDS = 8
SIGNALS = tuple(4.0**-k for k in range(7))
N_RESAMPLES = 2000
# rows that are counted, not stored, cannot be sampled
SOLVERS: dict[str, Solver] = {"MGR": MGR(sampling_rate=1.0), "phased ERM": PhasedERM()}


@dataclass(frozen=True)
class Point:
    """Where to measure: p groups, d weights, K records together, and ε."""

    n_groups: int = 4
    n_weights: int = 16
    n_records: int = 100_000
    epsilon: float = 1.0

    @property
    def group_size(self) -> int:
        """Records of each group."""
        return self.n_records // self.n_groups


@dataclass(frozen=True)
class Sweep:
    """Points that differ in one number, and the exponent that theory has for it."""

    title: str
    axis: str
    values: tuple[float, ...]
    at: Callable[[float], Point]
    exponent: float


def powers(first: float, last: float, count: int) -> tuple[int, ...]:
    """Return whole numbers with about the same ratio from one to the next."""
    return tuple(round(value) for value in np.geomspace(first, last, count))


SWEEPS = (
    Sweep(
        "records K where noise rules: p = 4, d = 16, ε = 0.1",
        "K",
        powers(1e3, 1e6, 7),
        lambda k: Point(n_records=int(k), epsilon=0.1),
        -1.0,
    ),
    Sweep(
        "records K: p = 4, d = 16, ε = 1",
        "K",
        powers(1e3, 1e6, 7),
        lambda k: Point(n_records=int(k)),
        -1.0,
    ),
    Sweep(
        "records K where sampling rules: p = 4, d = 16, ε = 100",
        "K",
        powers(1e3, 1e6, 7),
        lambda k: Point(n_records=int(k), epsilon=100.0),
        -0.5,
    ),
    Sweep(
        "privacy ε: p = 4, d = 16, K = 100,000",
        "ε",
        (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0),
        lambda e: Point(epsilon=e),
        -1.0,
    ),
    Sweep(
        "weights d where noise rules: p = 4, K = 100,000, ε = 0.2",
        "d",
        (1, 4, 16, 64, 256),
        lambda d: Point(n_weights=int(d), epsilon=0.2),
        0.5,
    ),
    Sweep(
        "groups p where noise rules: d = 16, K = 100,000, ε = 0.5",
        "p",
        (1, 2, 4, 8, 16, 32, 64),
        lambda p: Point(n_groups=int(p), epsilon=0.5),
        1.0,
    ),
    Sweep(
        "groups p where sampling rules: d = 16, K = 100,000, ε = 100",
        "p",
        (1, 2, 4, 8, 16, 32, 64),
        lambda p: Point(n_groups=int(p), epsilon=100.0),
        0.5,
    ),
)


# --- measuring ---------------------------------------------------------------------------------


def tables_of(world: World, point: Point) -> list[CountedRisks]:
    """Return the sample of each seed."""
    rngs = [np.random.default_rng([seed, 1]) for seed in range(N_SEEDS)]
    return [world.draw(point.group_size, rng) for rng in rngs]


def excess_of_runs(world: World, point: Point, solver: Solver) -> np.ndarray:
    """Return the excess population risk of each seed."""
    plan = solver.plan(world.problem(point.group_size), Budget(point.epsilon, DELTA))
    found = []
    for seed, data in enumerate(tables_of(world, point)):
        solution = solver.run(plan, data, NoiseSource(seed, plan.releases))
        found.append(world.excess(solution.weights))
    return np.array(found)


def hard_worlds(point: Point) -> list[World]:
    """Return the family of which the worst member counts."""
    return [HardWorld(point.n_groups, point.n_weights, signal=signal) for signal in SIGNALS]


def typical_worlds(point: Point) -> list[World]:
    """Return one typical population."""
    return [TypicalWorld(point.n_groups, point.n_weights)]


def slope(values: Sequence[float], excess: np.ndarray, fitted: np.ndarray) -> tuple[float, ...]:
    """Return the slope of log excess, and its 95 % interval over resampled seeds.

    Parameters
    ----------
    values : sequence of float
        The numbers swept over.
    excess : ndarray of shape (n_values, n_worlds, n_seeds)
        Excess of every run; the worst world's mean counts.
    fitted : ndarray of shape (n_values,)
        Which values to fit to.

    Returns
    -------
    slope, low, high : float
        NaN where fewer than three values are to be fitted to.
    """
    if fitted.sum() < 3:
        return np.nan, np.nan, np.nan
    x = np.log(np.asarray(values, dtype=float)[fitted])
    x = (x - x.mean()) / np.sum((x - x.mean()) ** 2)

    def fit(runs: np.ndarray) -> float:
        return float(x @ np.log(np.maximum(runs.mean(axis=2).max(axis=1), 1e-300)))

    rng = np.random.default_rng(0)
    n_seeds = excess.shape[2]
    kept = excess[fitted]
    resampled = [fit(kept[..., rng.integers(n_seeds, size=n_seeds)]) for _ in range(N_RESAMPLES)]
    return fit(kept), *np.quantile(resampled, [0.025, 0.975])


@dataclass(frozen=True)
class Theorem:
    """The promise with two measured constants."""

    sampling: float
    noise: float

    def __call__(self, point: Point) -> float:
        """Return a √(p/K) + b p√d/(Kε)."""
        return self.sampling * sampling_unit(point) + self.noise * noise_unit(point)


def sampling_unit(point: Point) -> float:
    """Return √(p/K)."""
    return float(np.sqrt(point.n_groups / point.n_records))


def noise_unit(point: Point) -> float:
    """Return p√d/(Kε)."""
    return point.n_groups * np.sqrt(point.n_weights) / (point.n_records * point.epsilon)


def measured_theorems(worlds_at: Callable[[Point], list[World]]) -> dict[str, Theorem]:
    """Return the promise with the constants of each solver."""
    point = Point()
    exact = [
        np.mean(
            [
                world.excess(worst_group_optimum(table, radius=world.radius).weights)
                for table in tables_of(world, point)
            ]
        )
        for world in worlds_at(point)
    ]
    sampling = max(exact) / sampling_unit(point)
    theorems = {}
    for name, solver in SOLVERS.items():
        point = Point(n_records=31_623, epsilon=0.1)
        found = max(excess_of_runs(world, point, solver).mean() for world in worlds_at(point))
        noise = max(found - sampling * sampling_unit(point), 0.0) / noise_unit(point)
        theorems[name] = Theorem(sampling, noise)
        print(f"{name}: a = {sampling:.3f}, b = {noise:.2f}", flush=True)
    return theorems


def report(
    sweep: Sweep, worlds_at: Callable[[Point], list[World]], theorems: dict[str, Theorem]
) -> None:
    """Measure a sweep with every solver and print its table."""
    print(f"\n{sweep.title}")
    columns, nothing = {}, []
    for value in sweep.values:
        worlds = worlds_at(sweep.at(value))
        nothing.append(max(world.excess(np.zeros(world.n_features)) for world in worlds))
    for name, solver in SOLVERS.items():
        points = [sweep.at(value) for value in sweep.values]
        columns[name] = np.array(
            [[excess_of_runs(w, point, solver) for w in worlds_at(point)] for point in points]
        )
    print(f"{sweep.axis:>10}{'nothing':>12}" + "".join(f"{name:>14}" for name in columns))
    for i, value in enumerate(sweep.values):
        cells = "".join(f"{runs[i].mean(axis=1).max():14.3g}" for runs in columns.values())
        print(f"{value:>10,g}{nothing[i]:12.3g}{cells}")
    for name, runs in columns.items():
        fitted = runs.mean(axis=2).max(axis=1) < 0.5 * np.array(nothing)
        found, low, high = slope(sweep.values, runs, fitted)
        sums = np.array([theorems[name](sweep.at(value)) for value in sweep.values])
        summed = slope(sweep.values, sums[:, None, None], fitted)[0]
        print(
            f"{name}: slope {found:.2f} [{low:.2f}, {high:.2f}] over {fitted.sum()} points, of "
            f"the sum {summed:.2f}, of its leading term {sweep.exponent:g}",
            flush=True,
        )


# --- the papers' own schedules -----------------------------------------------------------------


def report_papers() -> None:
    """Print the excess of the papers' schedules beside that of predicting nothing."""
    schedules: dict[str, Solver] = {
        "MGR, 150 passes": MGR(schedule="paper"),
        "phased ERM, paper": PhasedERM(schedule="paper"),
    }
    print("\nthe papers' schedules: p = 4, d = 16, ε = 1, worst of the hard family and typical")
    print(f"{'K':>10}{'':>10}{'nothing':>12}" + "".join(f"{name:>20}" for name in schedules))
    for n_records in powers(1e4, 1e6, 3):
        point = Point(n_records=n_records)
        for kind, worlds_at in (("hard", hard_worlds), ("typical", typical_worlds)):
            worlds = worlds_at(point)
            nothing = max(world.excess(np.zeros(16)) for world in worlds)
            cells = "".join(
                f"{max(excess_of_runs(world, point, solver).mean() for world in worlds):20.3g}"
                for solver in schedules.values()
            )
            print(f"{n_records:>10,}{kind:>10}{nothing:12.3g}{cells}", flush=True)


# --- why later phases are stronger -------------------------------------------------------------


def excess_of_doubling(world: World, point: Point) -> np.ndarray:
    """Return the excess of log₂ n phases whose strength doubles, as in Algorithm 1.

    The first strength makes the noise as long as the radius; all phases read all records, and
    sensitivity and accounting are ours.
    """
    problem, n_phases = world.problem(point.group_size), round(np.log2(point.group_size))
    prior = np.full(point.n_groups, 1.0 / point.n_groups)
    multiplier = np.sqrt(n_phases) / gdp_mu(point.epsilon, DELTA)
    facts = {
        "group_sizes": problem.group_sizes,
        "lipschitz": problem.lipschitz,
        "gradient_diameter": problem.gradient_diameter,
        "loss_range": problem.loss_range,
        "entropy_weight": np.inf,
        "prior": problem.prior,
    }
    of_unit = multiplier * saddle_point_sensitivity(strong_convexity=1.0, **facts)
    first = np.sqrt(point.n_weights) * of_unit / world.radius
    found = []
    for seed, data in enumerate(tables_of(world, point)):
        rng = np.random.default_rng([seed, 2])
        weights = np.zeros(point.n_weights)
        for strength in first * 2.0 ** np.arange(n_phases):
            exact = solve_saddle_point(
                data,
                radius=world.radius,
                prior=prior,
                mu_weights=strength,
                mu_groups=np.inf,
                center=weights,
            )
            noise = of_unit / strength * rng.normal(size=point.n_weights)
            weights = project_to_ball(exact.weights + noise, world.radius)
        found.append(world.excess(weights))
    return np.array(found)


def report_doubling() -> None:
    """Print planned phases beside ones of equal and of doubling strength, for one group."""
    values = powers(1e3, 1e6, 7)
    print("\nphases of equal, planned and doubling strength: p = 1, d = 16, ε = 0.1")
    columns: dict[str, list] = {}
    for kind, worlds_at in (("hard", hard_worlds), ("typical", typical_worlds)):
        for name, run in (
            ("equal", partial(excess_of_runs, solver=PhasedERM(sharpening=1.0))),
            ("planned", partial(excess_of_runs, solver=SOLVERS["phased ERM"])),
            ("doubling", excess_of_doubling),
        ):
            points = [Point(n_groups=1, n_records=value, epsilon=0.1) for value in values]
            columns[f"{kind}, {name}"] = [
                [run(world, point) for world in worlds_at(point)] for point in points
            ]
    print(f"{'K':>10}" + "".join(f"{name:>20}" for name in columns))
    arrays = {name: np.array(runs) for name, runs in columns.items()}
    for i, value in enumerate(values):
        cells = "".join(f"{runs[i].mean(axis=1).max():20.3g}" for runs in arrays.values())
        print(f"{value:>10,}{cells}")
    for name, runs in arrays.items():
        found, low, high = slope(values, runs, np.full(len(values), True))
        print(f"{name}: slope {found:.2f} [{low:.2f}, {high:.2f}]", flush=True)


# --- without privacy ---------------------------------------------------------------------------


def strengths_at(world: World, point: Point) -> tuple[float, float]:
    """Return μ_w and μ_λ of the remark after Lemma 4 of Zhou & Bassily."""
    return remark_strengths(world.problem(point.group_size))


def report_non_private() -> None:
    """Print the excess of the regularised and of the plain minimax solution."""
    values = powers(1e3, 1e6, 7)
    for kind, worlds_at in (("hard", hard_worlds), ("typical", typical_worlds)):
        runs: dict[str, list] = {"the remark's strengths": [], "plain minimax": []}
        for value in values:
            point = Point(n_records=value)
            rows: dict[str, list] = {name: [] for name in runs}
            for world in worlds_at(point):
                tables = tables_of(world, point)
                mu_weights, mu_groups = strengths_at(world, point)
                shared = {"radius": world.radius}
                prior = np.full(point.n_groups, 1.0 / point.n_groups)
                strengths = {"prior": prior, "mu_weights": mu_weights, "mu_groups": mu_groups}
                for name, found in (
                    (
                        "the remark's strengths",
                        [solve_saddle_point(t, **shared, **strengths) for t in tables],
                    ),
                    ("plain minimax", [worst_group_optimum(t, **shared) for t in tables]),
                ):
                    rows[name].append([world.excess(each.weights) for each in found])
            for name, row in rows.items():
                runs[name].append(row)
        print(f"\n{kind} population, no privacy: p = 4, d = 16")
        print(f"{'K':>10}" + "".join(f"{name:>26}" for name in runs))
        arrays = {name: np.array(each) for name, each in runs.items()}
        for i, value in enumerate(values):
            print(
                f"{value:>10,}"
                + "".join(f"{array[i].mean(axis=1).max():26.3g}" for array in arrays.values())
            )
        everywhere = np.full(len(values), True)
        for name, array in arrays.items():
            found, low, high = slope(values, array, everywhere)
            print(f"{name}: slope {found:.2f} [{low:.2f}, {high:.2f}]")
        logs = [
            np.sqrt(p / k * np.log(k / p) * np.log(k)) for k, p in ((value, 4) for value in values)
        ]
        print(
            f"theory: slope -0.5, with the remark's logarithms "
            f"{slope(values, np.array(logs)[:, None, None], everywhere)[0]:.2f}",
            flush=True,
        )


# --- the published solver of a phase -----------------------------------------------------------


def report_algorithm_4() -> None:
    """Print the gap of Algorithm 4's averages against its number of steps, and its bound."""
    world, point = TypicalWorld(4, 16), Point(n_records=10_000)
    table = world.draw(point.group_size, np.random.default_rng(0))
    lipschitz = world.problem(point.group_size).lipschitz
    for mu_weights, mu_groups in (strengths_at(world, point), (1e-3, 1e-3)):
        strengths = {"mu_weights": mu_weights, "mu_groups": mu_groups}
        prior, center = np.full(4, 0.25), np.zeros(16)
        smooth = RegularisedObjective(table, world.radius, prior, center=center, **strengths)
        print(f"\nAlgorithm 4: typical population, K = 10,000, μ_w = {mu_weights:.3g}, ", end="")
        print(f"μ_λ = {mu_groups:.3g}")
        report_gaps(smooth, lipschitz, partial(response, smooth))
    # one record of loss |w|: the minimum is at the kink, with value μ_w c²/2
    records = GroupedRecords(np.ones((1, 1)), np.ones(1), np.zeros(1), np.array([0, 1]))
    kink = CountedRisks(records, AbsoluteError(1.0), 0.0, counts=np.ones(1))
    kinked = RegularisedObjective(kink, 1.0, np.ones(1), 1.0, 1.0, np.array([0.3]))
    print("\nAlgorithm 4: one record of loss |w|, μ_w = 1")
    report_gaps(kinked, 1.0, lambda _: 0.5 * 0.3**2)


def response(objective: RegularisedObjective, group_weights: np.ndarray) -> float:
    """Return the least value of the objective for fixed group weights."""
    # which is a saddle point where the group weights cannot move
    found = solve_saddle_point(
        objective.risks,
        radius=objective.radius,
        prior=group_weights,
        mu_weights=objective.mu_weights,
        mu_groups=np.inf,
        center=objective.center,
    )
    offset = found.weights - objective.center
    divergence = float(np.sum(group_weights * np.log(group_weights / objective.prior)))
    value = float(group_weights @ objective.risks.risks(found.weights))
    value += 0.5 * objective.mu_weights * float(offset @ offset)
    return value - objective.mu_groups * divergence


def report_gaps(
    objective: RegularisedObjective, lipschitz: float, least: Callable[[np.ndarray], float]
) -> None:
    """Print the gaps of one objective, given its least value for fixed group weights."""
    steepest = lipschitz + objective.mu_weights * objective.radius
    values = powers(10, 10_000, 7)
    print(f"{'N':>10}{'gap':>12}{'its bound':>12}")
    gaps = []
    for n_steps in values:
        weights, group_weights = primal_dual_subgradient(objective, n_steps)
        gaps.append(objective.evaluate(weights).value - least(group_weights))
        bound = steepest**2 * (1.0 + np.log(n_steps)) / (2.0 * objective.mu_weights * n_steps)
        print(f"{n_steps:>10,}{gaps[-1]:12.3g}{bound:12.3g}")
    found = np.polyfit(np.log(values), np.log(gaps), 1)[0]
    rate = np.polyfit(np.log(values), np.log((1 + np.log(values)) / np.array(values)), 1)[0]
    print(f"slope of the gap {found:.2f}, of (1 + ln N)/N over the same N {rate:.2f}", flush=True)


# --- the lower bound ---------------------------------------------------------------------------


def report_lower_bound() -> None:
    """Print the excess on the lower-bound instance in units of the least possible order."""
    d, epsilon, radius = 16, 0.05, 0.5
    print(f"\nlower-bound instance for ε = {epsilon:g}: p = 2, d = {d}, excess over R√d/(nε)")
    print(f"{'n':>10}{'solver ε':>10}{'nothing':>10}" + "".join(f"{name:>22}" for name in SOLVERS))
    for n in (1_000, 4_000, 16_000):
        for spent in (0.05, 0.5, 5.0):
            ratios: dict[str, list[float]] = {name: [] for name in ("nothing", *SOLVERS)}
            for seed in range(N_SEEDS):
                made = make_lower_bound(
                    group_sizes=n, n_features=d, radius=radius, epsilon=epsilon, random_state=seed
                )
                order = np.argsort(made.groups, kind="stable")
                rows, targets = made.data[order], made.target[order]
                records = GroupedRecords(rows, np.ones(2 * n), targets, np.array([0, n, 2 * n]))
                loss = AbsoluteError(1.0)
                data = GroupRisks(records, loss, 0.0)
                problem = Problem(loss, (n, n), d, radius, (0.5, 0.5), 0.0)
                unit = radius * np.sqrt(d) / (n * epsilon)
                zero = data.risks(np.zeros(d)).max()
                ratios["nothing"].append((zero - made.optimum) / unit)
                for name, solver in SOLVERS.items():
                    plan = solver.plan(problem, Budget(spent, DELTA))
                    weights = solver.run(plan, data, NoiseSource(seed, plan.releases)).weights
                    ratios[name].append((data.risks(weights).max() - made.optimum) / unit)
            cells = "".join(
                f"{np.mean(ratios[name]):14.3f} ± {1.96 * np.std(ratios[name]) / N_SEEDS**0.5:.3f}"
                for name in SOLVERS
            )
            print(f"{n:>10,}{spent:>10g}{np.mean(ratios['nothing']):10.3f}{cells}", flush=True)


def report_sweeps(
    worlds_at: Callable[[Point], list[World]], sweeps: Sequence[Sweep] = SWEEPS
) -> None:
    """Print every sweep."""
    theorems = measured_theorems(worlds_at)
    for sweep in sweeps:
        report(sweep, worlds_at, theorems)


REPORTS = {
    "hard": lambda: report_sweeps(hard_worlds),
    # other numbers of groups or of weights are other populations
    "typical": lambda: report_sweeps(typical_worlds, SWEEPS[:4]),
    "papers": report_papers,
    "doubling": report_doubling,
    "non-private": report_non_private,
    "algorithm-4": report_algorithm_4,
    "lower-bound": report_lower_bound,
}

if __name__ == "__main__":
    for chosen in sys.argv[1:] or REPORTS:
        REPORTS[chosen]()
