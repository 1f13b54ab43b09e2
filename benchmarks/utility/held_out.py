"""Worst-group loss among people a model has not seen, on repeated splits of each task.

From a script in the folder `benchmarks` (what is measured is kept, and not measured again):

    from utility import held_out
    held_out.METHODS["40 passes"] = held_out.estimator(solver=MGR(max_passes=40))
    held_out.measure(held_out.names_of_half("choosing"), ["ours", "40 passes"], [1.0, 8.0])
    frame = held_out.collect()                    # a row a task, method and ε
    print(held_out.report(frame, beside="ours"))  # means, and tasks that are better and worse

`collect(folder)` reads what another run kept: rename its methods and `pandas.concat` the frames.
From a terminal: `python -m utility.held_out --half choosing --epsilon 1 8 --methods ours
group-blind`, where `--patch module:function` calls a function first, which may add to `METHODS` or
change constants. A method is any function of (task, ε, seed) that returns weights on unit rows
(`Task.unit_weights`) or a function from a part to scores. Fits are measured again when the
package's sources change, not when a patch does: give that a `--folder` of its own.

A group's loss is averaged over the splits first, and the worst group is taken then: the mean of
single splits' maxima would reward luck. A difference of two methods counts where it is beyond
`LEAST` and twice its standard error over splits, each method at its own worst group.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from common import game_on_records
from scipy.special import log_expit
from scipy.stats import t as student

import sklearn_dpwg
from sklearn_dpwg.exceptions import (
    NoProtectionWarning,
    SeededNoiseWarning,
    UngroupedWarning,
    WeakPlanWarning,
)
from utility import references
from utility.ours import make_model, warm_up
from utility.peers import aim, gradient_descent, in_advance
from utility.pictures import draw_held_out
from utility.population import DEFINITIONS, kind_of, load_by_name
from utility.store import FOLDER, ROOT, Progress, Store, fingerprint, read_cells, versions
from utility.tasks import Part, Task, task_names
from utility.worlds import WORLDS

N_SPLITS, TRAIN_FRACTION = 8, 0.75
EPSILONS = (1.0, 4.0, 8.0, 1e4)
# Half a squared error of targets in [-1, 1] is much smaller than a log loss.
LEAST = {"classification": 2e-3, "regression": 2e-4}
HELD_OUT = FOLDER / "held_out"
# A larger budget may not make a model worse.
STEPS = ((1.0, 8.0), (8.0, 1e4), (8.0, np.inf))
PAGE = Path(__file__).with_name("results.md")
MARKS = ("<!-- printed by make bench -->", "<!-- end of what is printed -->")

# Weights on unit rows, or what makes scores of a part.
Model = np.ndarray | Callable[[Part], np.ndarray]
Method = Callable[[Task, float, int], Model]


def estimator(*, grouped: bool = True, on_records: bool = False, **parameters: Any) -> Method:
    """Return the fit of the package's estimator, default but for some parameters and its game."""

    def fit(task: Task, epsilon: float, seed: int) -> np.ndarray:
        solver = parameters.get("solver", "auto")
        model = make_model(task, solver, epsilon, seed).set_params(**parameters)
        with game_on_records() if on_records else nullcontext():
            model.fit(task.train.X, task.train.y, groups=task.train.groups if grouped else None)
        return task.unit_weights(model)

    return fit


METHODS: dict[str, Method] = {"ours": estimator(), "group-blind": estimator(grouped=False)}
QUIET = NoProtectionWarning, SeededNoiseWarning, UngroupedWarning, WeakPlanWarning

# Without privacy: once a split, kept as ε = ∞, and not measured again when our sources change.
REFERENCES: dict[str, Method] = dict(references.REFERENCES)
# Other private methods, at one setting that did best on the choosing half; at these budgets alone.
PEERS: dict[str, Method] = {
    **{grid: in_advance.fit_chosen(grid) for grid in ("dp-newton", *gradient_descent.METHODS)},
    **aim.AIM,
}
PEER_EPSILONS = (1.0, 2.0, 4.0, 8.0)

# Half and source of every task: made worlds are for choosing.
ABOUT = {name: ("own", name) for name in task_names()}
ABOUT |= {each.name: (each.half, each.source) for each in DEFINITIONS}
ABOUT |= {name: ("choosing", name) for name in WORLDS}

# --- splits and losses ---------------------------------------------------------------------------


def names_of_half(half: str) -> list[str]:
    """Return the tasks of "choosing" or "checking", or the package's own without the census."""
    return [name for name, (of, _) in ABOUT.items() if of == half and name != "census-income-kdd"]


def splits(task: Task, n_splits: int = N_SPLITS) -> Iterator[Task]:
    """Yield the task with other train and test parts, where each group keeps its fraction."""
    columns = Part.__dataclass_fields__
    pairs = ((getattr(task.train, name), getattr(task.test, name)) for name in columns)
    everybody = Part(*(np.concatenate(pair) for pair in pairs))
    start = int.from_bytes(hashlib.sha256(task.name.encode()).digest()[:6], "big")
    for number in range(n_splits):
        ranks = np.random.default_rng([start, number]).permutation(len(everybody.codes))
        is_train = np.zeros(len(ranks), dtype=bool)
        for group in range(len(task.group_labels)):
            own = np.flatnonzero(everybody.codes == group)
            own = own[np.argsort(ranks[own])]
            is_train[own[: min(len(own) - 1, round(TRAIN_FRACTION * len(own)))]] = True
        parts = (everybody.take(np.flatnonzero(each)) for each in (is_train, ~is_train))
        yield Task(task.name, task.kind, *parts, task.group_labels, task.public, None, task.radius)


def losses_of(task: Task, part: Part, model: Model) -> np.ndarray:
    """Return the mean loss of each group of a part."""
    scores = model(part) if callable(model) else part.rows @ model
    if task.is_classification:
        each = -log_expit(part.targets * scores)
    else:
        each = 0.5 * (scores - part.targets) ** 2
    n_groups = len(task.group_labels)
    sizes = np.bincount(part.codes, minlength=n_groups)
    return np.bincount(part.codes, each, n_groups) / sizes


# --- measured and kept ---------------------------------------------------------------------------


def measure(
    names: Sequence[str],
    methods: Iterable[str] = tuple(METHODS),
    epsilons: Sequence[float] = EPSILONS,
    *,
    n_splits: int = N_SPLITS,
    folder: Path = HELD_OUT,
) -> None:
    """Fit what has not been fitted yet, and keep the losses of groups on both parts."""
    budgets = {name: [np.inf] if name in REFERENCES else epsilons for name in methods}
    for name in PEERS.keys() & budgets.keys():
        budgets[name] = [each for each in epsilons if each in PEER_EPSILONS]
    every, progress = METHODS | PEERS | REFERENCES, Progress(len(names), "held out")
    sources = fingerprint(Path(sklearn_dpwg.__file__).parent)
    for name in names:
        stores, missing = {}, []
        for method, of_method in budgets.items():
            made_by = {"sources": sources} if method in METHODS else versions("scikit-learn")
            store = stores[method] = Store(_path(name, method, folder), made_by)
            keys = (
                (f"{eps:g}|{split}", eps, split) for eps in of_method for split in range(n_splits)
            )
            missing += [(split, method, key, eps) for key, eps, split in keys if key not in store]
        parts = splits(load_by_name(name), n_splits) if missing else ()
        for number, task in enumerate(parts):
            for _, method, key, epsilon in (each for each in missing if each[0] == number):
                stores[method].put({key: _cell(task, every[method], epsilon, number)})
        progress.advance()
        progress.note(name)


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore what is measured on purpose: seeds, weak plans, no protection."""
    with warnings.catch_warnings():
        for each in QUIET:
            warnings.simplefilter("ignore", each)
        yield


def _cell(task: Task, method: Method, epsilon: float, seed: int) -> dict[str, Any]:
    """Return the losses of groups on both parts, and the seconds of the fit."""
    with quiet():
        warm_up(task.kind)
        start = time.perf_counter()
        model = method(task, epsilon, seed)
        seconds = time.perf_counter() - start
    test, train = (losses_of(task, part, model).tolist() for part in (task.test, task.train))
    return {"test": test, "train": train, "seconds": seconds}


def _path(task: str, method: str, folder: Path) -> Path:
    plain = "".join(letter if letter.isalnum() else "-" for letter in method)
    return folder / task / f"{plain}.json"


def collect(
    folder: Path = HELD_OUT,
    *,
    methods: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    n_splits: int = N_SPLITS,
) -> pd.DataFrame:
    """Return what is kept: a row a task, method and ε whose splits are all there.

    `test` and `train` are losses of shape (n_splits, n_groups), `loss` that of the worst group.
    """
    rows = []
    for method in METHODS | PEERS | REFERENCES if methods is None else methods:
        for name in ABOUT if names is None else names:
            _, cells = read_cells(_path(name, method, Path(folder)))
            for epsilon in dict.fromkeys(key.partition("|")[0] for key in cells):
                result = [cells.get(f"{epsilon}|{split}") for split in range(n_splits)]
                # an unfinished cell, or a method that gave up
                if None in result or np.isnan([each["test"] for each in result]).any():
                    continue
                half, source = ABOUT[name]
                test, train = (np.array([each[p] for each in result]) for p in ("test", "train"))
                rows.append(
                    {"name": name, "method": method, "epsilon": float(epsilon), "source": source}
                    | {"half": half, "kind": kind_of(name), "test": test, "train": train}
                    | {"loss": test.mean(axis=0).max(), "record_loss": train.max(axis=1).mean()}
                    | {"seconds": float(np.mean([each["seconds"] for each in result]))}
                )
    return pd.DataFrame(rows)


# --- compared ------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """One method's worst-group loss less another's, and its standard error over splits."""

    value: float
    error: float

    def verdict(self, kind: str) -> int:
        """Return -1 where the first is clearly better, 1 where it is clearly worse, else 0."""
        counts = abs(self.value) > max(LEAST[kind], 2.0 * self.error)
        return int(np.sign(self.value)) if counts else 0


def difference(ours: np.ndarray, theirs: np.ndarray) -> Difference:
    """Compare losses of shape (n_splits, n_groups), each method at its own worst group."""
    pair = (each[:, each.mean(axis=0).argmax()] for each in (ours, theirs))
    gaps = np.subtract(*pair)
    return Difference(float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps))))


def compare(
    frame: pd.DataFrame, ours: tuple[str, float], theirs: tuple[str, float]
) -> pd.DataFrame:
    """Return a row a task that both (method, ε) were measured on: difference, error, verdict."""
    facts = ["name", "half", "kind", "source"]
    first, second = (
        frame.loc[(frame.method == method) & (frame.epsilon == epsilon), [*facts, "test"]]
        for method, epsilon in (ours, theirs)
    )
    both = first.merge(second, on=facts)
    result = [difference(*pair) for pair in zip(both.test_x, both.test_y, strict=True)]
    verdicts = [each.verdict(kind) for each, kind in zip(result, both.kind, strict=True)]
    values, errors = ([each[k] for each in result] for k in range(2))
    return both[facts].assign(value=values, error=errors, verdict=verdicts)


# --- said ----------------------------------------------------------------------------------------


def report(frame: pd.DataFrame, beside: str = "group-blind", first: str = "ours") -> str:
    """Return Markdown: what is clearly worse, by name; then means, differences and excess."""
    sections = (_section(cells, beside, first) for _, cells in frame.groupby(["half", "kind"]))
    return "\n\n".join(part for section in sections for part in section if part)


def _section(cells: pd.DataFrame, beside: str, first: str) -> Iterator[str]:
    """Yield what is said of the tasks of one half and kind."""
    methods, budgets = list(dict.fromkeys(cells.method)), sorted(set(cells.epsilon))
    own = [method for method in methods if method not in REFERENCES]
    private = set(cells.epsilon[cells.method.isin(own)])
    at = {f"ε = {epsilon:g}".replace("inf", "∞"): epsilon for epsilon in budgets}
    steps = {
        f"{b:g} less {a:g}".replace("inf", "∞"): (a, b) for a, b in STEPS if {a, b} <= set(budgets)
    }
    pair, step = partial(_pair, cells, other=beside), partial(_step, cells)
    worse = "; ".join(
        f"{title}: {listed(pair(first, at[title]))}" for title in at if at[title] in private
    )
    of = f"{cells.half.iloc[0].capitalize()} half, {cells.kind.iloc[0]}"
    yield f"**{of}**, {cells.name.nunique()} tasks. Clearly worse than *{beside}*: {worse}."
    yield f"Better first, at ε = {min(private):g}: {listed(pair(first, min(private)), -1)}."
    for method, (title, pair_of) in product(own, steps.items()):
        named = listed(step(method, pair_of))
        yield f"*{method}*, clearly worse, ε = {title}: {named}."
    yield "Mean worst-group loss of people whom the model has not seen:"
    yield _table(methods, at, partial(_mean, cells, "loss"))
    yield f"Less that of *{beside}*: mean ± 95 % by source; median, quartiles; better / worse:"
    others = [method for method in methods if method != beside]
    yield _table(others, at, lambda *which: described(pair(*which)))
    if steps:
        yield "From a budget to a larger one:"
        yield _table(own, steps, lambda *which: described(step(*which)))
    exact = cells[cells.method == "exact minimax"].set_index("name").record_loss
    if len(exact):
        yield "Mean excess on the training records over the exact minimax, a diagnosis:"
        known = cells.assign(excess=cells.record_loss - cells.name.map(exact))
        yield _table(methods, at, partial(_mean, known.dropna(subset="excess"), "excess"))


def _table(methods: Sequence[str], columns: Mapping[str, Any], cell: Callable[..., str]) -> str:
    """Return a table with a row a method, of cells of a method and what a column is about."""
    return table(
        [
            {"method": name} | {title: cell(name, about) for title, about in columns.items()}
            for name in methods
        ]
    )


def _mean(cells: pd.DataFrame, figure: str, method: str, epsilon: float) -> str:
    """Return a mean, and of how many tasks where these are not all."""
    own = cells[(cells.method == method) & (cells.epsilon == epsilon)]
    fewer = f" ({len(own)} tasks)" if len(own) < cells.name.nunique() else ""
    return f"{own[figure].mean():.4f}{fewer}" if len(own) else "–"


def _pair(cells: pd.DataFrame, method: str, epsilon: float, other: str) -> pd.DataFrame:
    """Compare a method with another at a budget, or with what has none."""
    at = [(each, np.inf if each in REFERENCES else epsilon) for each in (method, other)]
    return compare(cells, *at) if method != other else cells[:0]


def _step(cells: pd.DataFrame, method: str, budgets: tuple[float, float]) -> pd.DataFrame:
    """Compare a method at the larger of two budgets with itself at the smaller."""
    return compare(cells, (method, budgets[1]), (method, budgets[0]))


def listed(result: pd.DataFrame, sign: int = 1) -> str:
    """Return the tasks that are clearly worse, or with -1 eight clearly better, the first first."""
    if result.empty:
        return "–"
    far = result[result.verdict == sign].sort_values("value", ascending=sign < 0)
    far = far.head(8) if sign < 0 else far
    return ", ".join(f"{each.name} {each.value:+.4f}" for each in far.itertuples()) or "none"


def described(result: pd.DataFrame) -> str:
    """Return a mean difference with its interval, and how many tasks are better and worse."""
    if result.empty:
        return "–"
    mean, half = clustered(result.value.to_numpy(), result.source.tolist())
    better, worse = ((result.verdict == sign).sum() for sign in (-1, 1))
    within = f" ± {half:.4f}" if np.isfinite(half) else ""
    low, middle, high = result.value.quantile([0.25, 0.5, 0.75])
    middle = f"median {middle:+.4f} ({low:+.4f} to {high:+.4f})"
    return f"{mean:+.4f}{within}; {middle}; {better} / {worse}"


def clustered(values: np.ndarray, clusters: Sequence[str]) -> tuple[float, float]:
    """Return a mean and half its 95 % interval, where values of one cluster share records.

    The variance is that of the clusters' sums of residuals (the delta method), and Student's t has
    one degree of freedom less than there are clusters; of one cluster nobody knows it.
    """
    names, codes = np.unique(np.asarray(clusters), return_inverse=True)
    mean, freedom = float(values.mean()), len(names) - 1
    if not freedom:
        return mean, math.inf
    sums = np.bincount(codes, values - mean)
    error = math.sqrt(len(names) / freedom * float(sums @ sums)) / len(values)
    return mean, float(student.ppf(0.975, freedom)) * error


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table of rows with the same titles, nothing of none."""
    if not rows:
        return ""
    lines = [rows[0], ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def replace_between_marks(page: Path, text: str, marks: tuple[str, str] = MARKS) -> None:
    """Replace what stands between two marks of a page."""
    content = page.read_text(encoding="utf-8")
    before, start, rest = content.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (start and end) or any(content.count(mark) > 1 for mark in marks):
        raise ValueError(f"{page.name} must have the marks {marks} once, in this order.")
    page.write_text(f"{before}{marks[0]}\n\n{text}\n\n{marks[1]}{after}", encoding="utf-8")


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is missing, and print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--half", choices=["choosing", "checking", "own"], default="choosing")
    parser.add_argument("--task", action="append", help="by name; may be repeated")
    parser.add_argument("--epsilon", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS | REFERENCES))
    parser.add_argument("--beside", default="group-blind", help="the method to compare with")
    parser.add_argument("--splits", type=int, default=N_SPLITS)
    parser.add_argument("--folder", type=Path, default=HELD_OUT)
    parser.add_argument("--solver", help="how far it plays the game, beside group-blind")
    parser.add_argument("--patch", help="module:function to call first, with nothing")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--docs", action="store_true", help="put the results into results.md")
    asked = parser.parse_args(words)
    if asked.patch:
        module, _, function = asked.patch.partition(":")
        getattr(importlib.import_module(module), function)()
    if asked.solver:
        blind, game = {"grouped": False}, {"on_records": True}
        for name, given in ("people", {}), ("group-blind", blind), ("records", game):
            METHODS[f"{asked.solver}, {name}"] = estimator(solver=asked.solver, **given)
        asked.methods = list(METHODS)[-3:]
        asked.beside = asked.methods[1]
    if unknown := set(asked.methods) - METHODS.keys() - PEERS.keys() - REFERENCES.keys():
        parser.error(
            f"--methods must be of {[*METHODS, *PEERS, *REFERENCES]}, got {sorted(unknown)}."
        )
    names = asked.task or names_of_half(asked.half)
    where = {"n_splits": asked.splits, "folder": asked.folder}
    if not asked.report:
        measure(names, asked.methods, asked.epsilon, **where)
    frame = collect(methods=asked.methods, names=names, **where)
    frame = frame[frame.epsilon.isin([*asked.epsilon, np.inf])]
    text = report(frame, asked.beside, asked.methods[0])
    print(text)
    if "checking" in set(frame.half):
        print("This was a look at the checking half, which results.md logs.", file=sys.stderr)
    folder = ROOT / "docs" / "figures" if asked.docs else asked.folder
    drawn = draw_held_out(frame, REFERENCES, folder)
    if asked.docs:
        place = f"../../docs/figures/{drawn.name}"
        shown = f"![Mean worst-group loss on held-out records, by ε]({place})"
        replace_between_marks(PAGE, f"{shown}\n\n{text}")


if __name__ == "__main__":
    # not this module's own `METHODS`, which no patch would find
    importlib.import_module("utility.held_out").main()
