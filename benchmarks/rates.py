"""Excess population risk against records, groups, weights and ε, beside the theorems.

Zhou & Bassily promise phased ERM √(p/K) + p√d/(Kε) (Theorem 2), and MGR p√d/(Kε) on the records it
has read (Theorem 10), up to logarithms. Theorems of this kind are about the worst population. So
"hard" takes, at every point, the worst of a family: one hard group with a linear loss and a signal
of 1, ¼, … (Appendix D's reduction). "typical" is one population where several groups matter.

A slope is fitted by least squares to the logarithms over the points where the excess is below half
of that of predicting nothing; its 95 % interval is over seeds. Beside it stands the slope over the
same points of a √(p/K) + b p√d/(Kε), where a comes from one measurement without privacy and b from
one measurement of the solver (K = 31,623, ε = 0.1), for all sweeps alike.

"intercept" is the typical one with rows far from 0, which a model centres; "binding" has its
optimum on the sphere of the ball. "strongly-convex" is Theorem 8 of Zhang, Tran and Cutkosky, which
promises the squares of both terms for the average risk with a ridge.

    python benchmarks/rates.py [hard] [typical] [intercept] [binding] [doubling]
                               [strongly-convex] [lower-bound]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
from common import ignore_warnings, run_tables, weights_of_runs
from online_to_batch import SignOracle
from rates_worlds import HardWorld, InterceptWorld, TypicalWorld, World, make_lower_bound

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.optimum import worst_group_optimum
from sklearn_dpwg.optimum.saddle_point import project_to_ball, solve_saddle_point
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.gaussian import gdp_mu
from sklearn_dpwg.privacy.sensitivity import saddle_point_sensitivities
from sklearn_dpwg.solvers import MGR, OnlineToBatch, PhasedERM
from sklearn_dpwg.solvers.solver import Solver

ignore_warnings()

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


def powers(first: float, last: float, count: int) -> tuple[int, ...]:
    """Return whole numbers with about the same ratio from one to the next."""
    return tuple(round(value) for value in np.geomspace(first, last, count))


RECORDS = powers(1e3, 1e6, 7)
AXES = {"n_records": "K", "epsilon": "ε", "n_weights": "d", "n_groups": "p"}


@dataclass(frozen=True)
class Sweep:
    """Points that differ in one number, and the exponent that theory has for it."""

    what: str
    varied: str
    values: tuple[float, ...]
    start: Point
    exponent: float

    @property
    def title(self) -> str:
        """What is varied, and what is not."""
        fixed = {name: value for name, value in asdict(self.start).items() if name != self.varied}
        return f"{self.what}: " + ", ".join(f"{AXES[n]} = {value:,g}" for n, value in fixed.items())

    def at(self, value: float) -> Point:
        """Return the point with a value of the number that is varied."""
        return replace(self.start, **{self.varied: type(getattr(self.start, self.varied))(value)})


GROUPS, WEIGHTS, EPSILONS = (1, 2, 4, 8, 16, 32, 64), (1, 4, 16, 64, 256), (0.02, 0.05, 0.1, 0.2)
SWEEPS = (
    Sweep("records K where noise rules", "n_records", RECORDS, Point(epsilon=0.1), -1.0),
    Sweep("records K", "n_records", RECORDS, Point(), -1.0),
    Sweep("records K where sampling rules", "n_records", RECORDS, Point(epsilon=100.0), -0.5),
    Sweep("privacy ε", "epsilon", (*EPSILONS, 0.5, 1.0, 2.0), Point(), -1.0),
    Sweep("weights d where noise rules", "n_weights", WEIGHTS, Point(epsilon=0.2), 0.5),
    Sweep("groups p where noise rules", "n_groups", GROUPS, Point(epsilon=0.5), 1.0),
    Sweep("groups p where sampling rules", "n_groups", GROUPS, Point(epsilon=100.0), 0.5),
)


# --- measuring ---------------------------------------------------------------------------------


def table_of(world: World, point: Point, seed: int) -> GroupRisks:
    """Return the sample of a seed."""
    return world.draw(point.group_size, np.random.default_rng([seed, 1]))


def excess_of_runs(world: World, point: Point, solver: Solver) -> np.ndarray:
    """Return the excess population risk of each seed."""
    draw, budget = partial(table_of, world, point), Budget(point.epsilon, DELTA)
    problem = world.problem(point.group_size)
    runs = weights_of_runs(solver, problem, draw, range(N_SEEDS), budget)
    return np.array([world.excess(weights) for weights in runs])


def hard_worlds(point: Point) -> list[World]:
    """Return the family of which the worst member counts."""
    return [HardWorld(point.n_groups, point.n_weights, signal=signal) for signal in SIGNALS]


def typical_worlds(point: Point, kind: Callable[..., World] = TypicalWorld) -> list[World]:
    """Return one typical population."""
    return [kind(point.n_groups, point.n_weights)]


FAMILIES = {"hard": hard_worlds, "typical": typical_worlds}

Measure = Callable[[World, Point], np.ndarray]


def measured(worlds_at: Callable, points: Sequence[Point], measure: Measure) -> np.ndarray:
    """Return excess of shape (n_points, n_worlds, n_seeds)."""
    return np.array([[measure(world, each) for world in worlds_at(each)] for each in points])


def nothing_at(worlds_at: Callable, point: Point) -> float:
    """Return the excess of predicting nothing, in the worst world."""
    return max(world.nothing for world in worlds_at(point))


def show(axis: str, values: Sequence[float], columns: Mapping[str, np.ndarray]) -> None:
    """Print the worst world's mean excess, a row a value and a column for each array of runs."""
    width = max(14, *(len(name) + 3 for name in columns))
    print(f"{axis:>10}" + "".join(f"{name:>{width}}" for name in columns))
    for i, value in enumerate(values):
        cells = (f"{runs[i].mean(axis=1).max():{width}.3g}" for runs in columns.values())
        print(f"{value:>10,g}" + "".join(cells), flush=True)


def slope(values: Sequence[float], excess: np.ndarray, fitted: np.ndarray) -> tuple[float, ...]:
    """Return the slope of log excess, and its 95 % interval over resampled seeds.

    `excess` has the shape (n_values, n_worlds, n_seeds), of which the worst world's mean counts;
    `fitted` says which values to fit to. NaN where these are fewer than three.
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


def show_slopes(values: Sequence[float], columns: Mapping[str, np.ndarray]) -> None:
    """Print the slope of each column over all values."""
    for name, runs in columns.items():
        result, low, high = slope(values, runs, np.full(len(values), True))
        print(f"{name}: slope {result:.2f} [{low:.2f}, {high:.2f}]", flush=True)


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


def excess_of_optima(world: World, point: Point) -> np.ndarray:
    """Return the excess of each seed's minimax solution, without privacy."""
    tables = (table_of(world, point, seed) for seed in range(N_SEEDS))
    result = (worst_group_optimum(table, radius=world.radius).weights for table in tables)
    return np.array([world.excess(weights) for weights in result])


def measured_theorems(worlds_at: Callable[[Point], list[World]]) -> dict[str, Theorem]:
    """Return the promise with the constants of each solver."""
    exact = measured(worlds_at, [Point()], excess_of_optima).mean(axis=2).max()
    sampling = exact / sampling_unit(Point())
    point = Point(n_records=31_623, epsilon=0.1)
    theorems = {}
    for name, solver in SOLVERS.items():
        runs = measured(worlds_at, [point], partial(excess_of_runs, solver=solver))
        left = runs.mean(axis=2).max() - sampling * sampling_unit(point)
        theorems[name] = Theorem(sampling, max(left, 0.0) / noise_unit(point))
        print(f"{name}: a = {sampling:.3f}, b = {theorems[name].noise:.2f}", flush=True)
    return theorems


def report_sweeps(
    worlds_at: Callable[[Point], list[World]], sweeps: Sequence[Sweep] = SWEEPS
) -> None:
    """Measure sweeps with every solver and print their tables."""
    theorems = measured_theorems(worlds_at)
    for sweep in sweeps:
        points = [sweep.at(value) for value in sweep.values]
        nothing = np.array([nothing_at(worlds_at, point) for point in points])
        columns = {
            name: measured(worlds_at, points, partial(excess_of_runs, solver=solver))
            for name, solver in SOLVERS.items()
        }
        print(f"\n{sweep.title}")
        show(AXES[sweep.varied], sweep.values, {"nothing": nothing[:, None, None], **columns})
        for name, runs in columns.items():
            fitted = runs.mean(axis=2).max(axis=1) < 0.5 * nothing
            result, low, high = slope(sweep.values, runs, fitted)
            sums = np.array([theorems[name](point) for point in points])
            summed = slope(sweep.values, sums[:, None, None], fitted)[0]
            print(
                f"{name}: slope {result:.2f} [{low:.2f}, {high:.2f}] over {fitted.sum()} points, "
                f"of the sum {summed:.2f}, of its leading term {sweep.exponent:g}",
                flush=True,
            )


# --- why later phases are stronger -------------------------------------------------------------


def excess_of_doubling(world: World, point: Point) -> np.ndarray:
    """Return the excess of log₂ n phases whose strength doubles, as in Algorithm 1.

    The first strength makes the noise as long as the radius; all phases read all records, and
    sensitivity and accounting are ours.
    """
    problem, n_phases = world.problem(point.group_size), round(np.log2(point.group_size))
    prior = np.full(point.n_groups, 1.0 / point.n_groups)
    of_unit = saddle_point_sensitivities(
        group_sizes=problem.group_sizes,
        lipschitz=problem.lipschitz,
        gradient_diameter=problem.gradient_diameter,
        loss_range=problem.loss_range,
        strong_convexities=[1.0],
        entropy_weight=np.inf,
        prior=problem.prior,
    )[0]
    of_unit *= np.sqrt(n_phases) / gdp_mu(point.epsilon, DELTA)
    first = np.sqrt(point.n_weights) * of_unit / world.radius
    result = []
    for seed in range(N_SEEDS):
        data = table_of(world, point, seed)
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
        result.append(world.excess(weights))
    return np.array(result)


def report_doubling() -> None:
    """Print planned phases beside ones of equal and of doubling strength, for one group."""
    print("\nphases of equal, planned and doubling strength: p = 1, d = 16, ε = 0.1")
    points = [Point(n_groups=1, n_records=value, epsilon=0.1) for value in RECORDS]
    phases: dict[str, Measure] = {
        "equal": partial(excess_of_runs, solver=PhasedERM(sharpening=1.0)),
        "planned": partial(excess_of_runs, solver=PhasedERM()),
        "doubling": excess_of_doubling,
    }
    columns = {
        f"{kind}, {name}": measured(worlds_at, points, measure)
        for kind, worlds_at in FAMILIES.items()
        for name, measure in phases.items()
    }
    show("K", RECORDS, columns)
    show_slopes(RECORDS, columns)


# --- strongly convex risks ---------------------------------------------------------------------


def excess_of_ridge(world: World, point: Point, *, learner: str) -> np.ndarray:
    """Return the excess of each seed's mean risk with ½‖w‖² on top, least at half the mean row."""
    runs = weights_of_runs(
        OnlineToBatch(learner, convexity=1.0),
        world.problem(point.group_size),
        lambda seed: SignOracle(world.mean, 1.0, np.random.default_rng([seed, 1])),
        range(N_SEEDS),
        Budget(point.epsilon, DELTA),
    )
    return np.array([0.5 * np.sum((weights - world.mean / 2.0) ** 2) for weights in runs])


def report_strongly_convex() -> None:
    """Print the excess where sampling rules, and where noise does."""
    for epsilon, exponent in ((1000.0, -1), (0.03, -2)):
        print(f"\nstrongly convex: p = 1, d = 16, ε = {epsilon:g}, theory: slope {exponent}")
        points = [Point(1, n_records=value, epsilon=epsilon) for value in RECORDS[3:]]
        columns = {
            learner: measured(
                lambda point: [HardWorld(1, point.n_weights, signal=0.5)],
                points,
                partial(excess_of_ridge, learner=learner),
            )
            for learner in ("optimistic", "ftrl")
        }
        show("K", RECORDS[3:], columns)
        show_slopes(RECORDS[3:], columns)


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
                data, optimum = make_lower_bound(n, d, radius, epsilon, seed)
                problem = Problem(data.loss, (n, n), d, radius, (0.5, 0.5), 0.0)
                result = {"nothing": np.zeros(d)}
                for name, solver in SOLVERS.items():
                    budget = Budget(spent, DELTA)
                    (result[name],) = weights_of_runs(solver, problem, data, [seed], budget)
                for name, weights in result.items():
                    excess = data.risks(weights).max() - optimum
                    ratios[name].append(excess * n * epsilon / (radius * np.sqrt(d)))
            cells = "".join(
                f"{np.mean(ratios[name]):14.3f} ± {1.96 * np.std(ratios[name]) / N_SEEDS**0.5:.3f}"
                for name in SOLVERS
            )
            print(f"{n:>10,}{spent:>10g}{np.mean(ratios['nothing']):10.3f}{cells}", flush=True)


if __name__ == "__main__":
    run_tables(
        {
            "hard": partial(report_sweeps, hard_worlds),
            # other numbers of groups or of weights are other populations
            "typical": partial(report_sweeps, typical_worlds, SWEEPS[:4]),
            # whose rows are written out
            "intercept": partial(
                report_sweeps,
                partial(typical_worlds, kind=InterceptWorld),
                [*(replace(each, values=RECORDS[:5]) for each in SWEEPS[1:3]), SWEEPS[3]],
            ),
            "binding": partial(
                report_sweeps,
                partial(typical_worlds, kind=partial(TypicalWorld, binds=True)),
                SWEEPS[:3],
            ),
            "doubling": report_doubling,
            "strongly-convex": report_strongly_convex,
            "lower-bound": report_lower_bound,
        }
    )
