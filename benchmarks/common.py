"""What the benchmarks share: data sets as problems, excess over optima, arguments and tables."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.stats import t as student
from sklearn.utils import Bunch

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.estimators.learn import DPWorstGroupEstimator
from sklearn_dpwg.exceptions import (
    NoProtectionWarning,
    SeededNoiseWarning,
    UngroupedWarning,
    WeakPlanWarning,
)
from sklearn_dpwg.losses import BinaryLogLoss, Loss, SquaredError
from sklearn_dpwg.privacy import Budget, NoiseSource

EPSILON, DELTA = 1.0, 1e-5
PUBLIC = {"neighbours": "replace-one-within-group"}  # which every solver knows


def ignore_warnings() -> None:
    """Silence what benchmarks do on purpose: seeds, one group, weak plans, large deltas."""
    for category in (NoProtectionWarning, SeededNoiseWarning, UngroupedWarning, WeakPlanWarning):
        warnings.simplefilter("ignore", category)


ignore_warnings()

# --- data sets -----------------------------------------------------------------------------------


def make_estimator(data: Bunch, epsilon: float = EPSILON, **parameters: Any) -> Any:
    """Return the estimator for a data set, with its public bounds, public groups, and defaults."""
    parameters = PUBLIC | parameters
    if data.entry.task == "classification":
        return DPWorstGroupClassifier(epsilon, DELTA, data_norm=data.data_norm, **parameters)
    return DPWorstGroupRegressor(
        epsilon, DELTA, data_norm=data.data_norm, target_bounds=data.target_bounds, **parameters
    )


def game_on_records() -> Any:
    """Return a patch by which estimators play the papers' game, without optimism of records."""
    problem = DPWorstGroupEstimator._problem
    plain = {"new": lambda *facts: replace(problem(*facts), optimism_correction=0.0)}
    return patch.object(DPWorstGroupEstimator, "_problem", **plain)


def public_facts(data: Bunch) -> dict[str, Any]:
    """Return what a plan for a data set asks for."""
    sizes = np.unique(data.groups, return_counts=True)[1].tolist()
    return {"group_sizes": sizes, "n_features": data.data.shape[1]}


def risks_of(
    rows: Any,
    targets: np.ndarray,
    codes: np.ndarray,
    loss: Loss,
    *,
    data_norm: float = 1.0,
    scaling: float = 1.0,
) -> GroupRisks:
    """Return the group risks of records, whose groups are numbers from 0."""
    encoder = RecordEncoder(int(codes.max()) + 1, data_norm)
    return GroupRisks(encoder.encode(rows, np.asarray(targets, float), codes), loss, scaling)


def unit_targets(data: Bunch) -> np.ndarray:
    """Return targets between -1 and 1; of classes these are the two values."""
    low, high = data.target_bounds if "target_bounds" in data else (0.0, 1.0)
    target = np.asarray(data.target, dtype=float)
    return np.clip((target - (low + high) / 2) / ((high - low) / 2), -1.0, 1.0)


def unit_risks(data: Bunch, *, grouped: bool = True) -> GroupRisks:
    """Return group risks on unit rows with a unit intercept, as the reference optimum has them."""
    codes = np.searchsorted(np.asarray(data.group_labels), data.groups) * grouped
    loss = BinaryLogLoss() if data.entry.task == "classification" else SquaredError()
    return risks_of(data.data, unit_targets(data), codes, loss, data_norm=data.data_norm)


def worst_risk(model: Any, risks: GroupRisks, data: Bunch) -> float:
    """Return a fitted model's largest group risk, on clipped rows, in the units of the loss."""
    coef, intercept = np.ravel(model.coef_) * data.data_norm, float(np.ravel(model.intercept_)[0])
    if data.entry.task == "regression":
        low, high = data.target_bounds
        half = (high - low) / 2
        coef, intercept = coef / half, (intercept - (low + high) / 2) / half
    return float(risks.risks(np.append(coef, intercept)).max())


def fits(data: Bunch, n_seeds: int, *, grouped: bool = True, **parameters: Any) -> Iterator[Any]:
    """Yield seeded fits to a data set."""
    groups, start = data.groups if grouped else None, parameters.pop("start", None)
    for seed in range(n_seeds):
        model = make_estimator(data, random_state=seed, **parameters)
        yield model.fit(data.data, data.target, groups=groups, start=start)


def excess_of_fits(
    data: Bunch,
    n_seeds: int,
    *,
    optimum: float | None = None,
    grouped: bool = True,
    **settings: Any,
) -> np.ndarray:
    """Return the excess worst-group risk of seeded fits over the optimum, or the reference one."""
    risks, models = (
        unit_risks(data, grouped=grouped),
        fits(data, n_seeds, grouped=grouped, **settings),
    )
    least = data.entry.reference_optimum if optimum is None else optimum
    return np.array([worst_risk(each, risks, data) - least for each in models])


def zero_excess(data: Bunch) -> float:
    """Return the excess of a model that predicts nothing."""
    risks = unit_risks(data)
    return float(risks.risks(np.zeros(risks.n_weights)).max() - data.entry.reference_optimum)


def weights_of_runs(
    solver: Any, problem: Any, data: Any, seeds: Iterable[int], budget: Budget, **parameters: Any
) -> list[np.ndarray]:
    """Return the weights of seeded runs of one plan; data may be made from a seed."""
    plan = solver.plan(problem, budget)
    return [
        solver.run(
            plan,
            data(seed) if callable(data) else data,
            NoiseSource(seed, plan.releases),
            **parameters,
        ).weights
        for seed in seeds
    ]


# --- numbers -------------------------------------------------------------------------------------


def cell(values: Any, errors: float = 1.0, sign: str = "", digits: int = 4) -> str:
    """Return a mean and some standard errors of it."""
    values = np.asarray(values)
    error = errors * values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():{sign}.{digits}f} ± {error:.{digits}f}"


def interval(values: np.ndarray) -> tuple[float, float]:
    """Return the mean and half the width of its 95 % interval."""
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean()), float(half)


def slope_of(values: Sequence[float], excess: Any) -> float:
    """Return the slope of logarithms, by least squares."""
    return float(np.polyfit(np.log(np.asarray(values, dtype=float)), np.log(excess), 1)[0])


def seconds(function: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def turn_by_turn(
    sides: Sequence[Callable[[], object]],
    n_turns: int,
    clock: Callable[[], float] = time.perf_counter,
) -> np.ndarray:
    """Return seconds of shape (n_sides, n_turns), after a first turn that loads."""

    def taken(side: Callable[[], object]) -> float:
        start = clock()
        side()
        return clock() - start

    return np.array([[taken(side) for side in sides] for _ in range(n_turns + 1)])[1:].T


def quartiles(values: np.ndarray) -> tuple[float, str]:
    """Return the median, and the quartiles in words."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(middle), f"({low:.2f} to {high:.2f})"


@contextmanager
def constants(modules: ModuleType | Sequence[ModuleType], **values: Any) -> Iterator[None]:
    """Change constants for a while, in every module that looks them up."""
    with ExitStack() as patches:
        for module in [modules] if isinstance(modules, ModuleType) else modules:
            patches.enter_context(patch.multiple(module, **values))
        yield


# --- arguments and tables ------------------------------------------------------------------------


def facts_asked() -> dict[str, float]:
    """Return numbers of the command line, as of "epsilon=4"."""
    pairs = (word.partition("=") for word in sys.argv[1:])
    return {name: float(value) for name, equals, value in pairs if equals}


def asked(known: Iterable[str], *, extra: Sequence[str] = ()) -> list[str]:
    """Return the known words that the command line names, or all but the extra ones."""
    every = list(known)
    return [word for word in every if word in sys.argv[1:]] or [
        word for word in every if word not in extra
    ]


def run_tables(
    tables: Mapping[str, Callable[[], object]],
    *,
    also: Sequence[str] = (),
) -> None:
    """Print the tables that are asked for, or all; `also` may be said too."""
    unknown = {word for word in sys.argv[1:] if "=" not in word} - {*tables, *also}
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join([*tables, *also])}")
    for name in asked(tables):
        tables[name]()


def row(label: str, cells: Iterable[object], width: int = 22, first: int = 22) -> None:
    """Print a label to the left and cells to the right of their columns."""
    print(f"{label:<{first}}" + "".join(f"{each!s:>{width}}" for each in cells), flush=True)


def excess_table(
    title: str,
    variants: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    n_seeds: int,
    *,
    errors: float = 1.0,
    zero: bool = False,
    **shared: Any,
) -> None:
    """Print the excess of fits with other parameters: a row a variant, a column a data set."""
    data = [load_dataset(name) for name in names]
    row(title, names, first=30)
    for label, parameters in variants.items():
        result = [excess_of_fits(each, n_seeds, **{**shared, **parameters}) for each in data]
        row(label, [cell(values, errors) for values in result], first=30)
    if zero:
        row("predict nothing", [f"{zero_excess(each):.4f}" for each in data], first=30)


def sweep(
    title: str,
    values: Sequence[float],
    curves: Mapping[str, tuple[Callable[[float], float], object]],
    *,
    enough: float = np.inf,
) -> dict[str, np.ndarray]:
    """Print each curve over values, its slope where it is below `enough`, and theory's slope."""
    print(f"\n{title}")
    row("", [*(f"{value:,g}" for value in values), "slope", "theory"], 11, 36)
    result = {}
    for label, (at, theory) in curves.items():
        result[label] = curve = np.array([at(value) for value in values])
        kept = curve < enough
        slope = slope_of(np.asarray(values)[kept], curve[kept]) if kept.sum() > 1 else np.nan
        row(label, [*(f"{each:.3g}" for each in curve), f"{slope:.2f}", theory], 11, 36)
    return result
