"""Measure default fits, and print and write the tables: `python -m utility [--quick]`."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence

import pandas as pd

from utility import held_out
from utility.chart import chart
from utility.frame import DEFAULT, collect, complete, frame_of
from utility.ours import OURS, fit_once, methods_of, planned
from utility.pictures import draw_population
from utility.population import DEFINITIONS, add_task_options, kind_of, load_by_name, names_asked
from utility.report import look, write_page, write_report
from utility.store import (
    EPSILONS,
    FOLDER,
    N_SEEDS,
    POPULATION_EPSILONS,
    QUICK_EPSILONS,
    QUICK_N_SEEDS,
    QUICK_WITHOUT,
    Progress,
    Store,
    fingerprint,
    ours_path,
    versions,
)
from utility.tasks import task_names


def measure(names: Sequence[str], epsilons: Sequence[float], n_seeds: int) -> None:
    """Fit what has not been fitted by these sources yet."""
    made_by = {"sources": fingerprint()} | versions("numpy", "scikit-learn", "opendp")
    methods = {name: methods_of(name, kind_of(name)) for name in names}
    progress = Progress(sum(map(len, methods.values())) * len(epsilons), "ours")
    for name in names:
        store, task = Store(ours_path(name), made_by), None
        for method, epsilon in itertools.product(methods[name], epsilons):
            keys = {f"{method}|{epsilon:g}|{seed}": seed for seed in range(n_seeds)}
            missing = [key for key in keys if key not in store]
            if missing:
                task = task or load_by_name(name, FOLDER / "optima")
                solver = OURS[method]
                # what `auto` has fitted by the same plan is not fitted again
                known = method != DEFAULT and (
                    planned(task, solver, epsilon) == planned(task, OURS[DEFAULT], epsilon)
                )
                for key in missing:
                    same = key.replace(method, DEFAULT, 1)
                    fit = known and same in store and store[same]
                    store.put({key: fit or fit_once(task, solver, epsilon, keys[key])})
            progress.advance()
        progress.note(name)


def parse() -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    """Return what is asked for, and the parser to complain with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"epsilon {QUICK_EPSILONS[0]:g}, {QUICK_N_SEEDS} seeds, without the census",
    )
    add_task_options(parser)
    parser.add_argument(
        "--seeds", type=int, help=f"of each cell, {N_SEEDS} if not said (or {QUICK_N_SEEDS})"
    )
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--docs", action="store_true", help="put the results into results.md")
    asked = parser.parse_args()
    if asked.seeds is not None and asked.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {asked.seeds}.")
    if asked.docs and asked.population not in ("checking", "all"):
        parser.error(f"--docs needs --population checking or all, got {asked.population}.")
    return asked, parser


def report(frame: pd.DataFrame, asked: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Report on the page's tasks, or on the population or a half of it."""
    compared, of_population = complete(frame), asked.population is not None
    if asked.docs and (compared.empty or asked.task or asked.quick):
        parser.error(
            "--docs needs every task and ε that it is about, missing: what was not asked for."
        )
    stem = f"population-{asked.population}" if of_population else "table"
    print(write_report(frame, DEFINITIONS if of_population else (), FOLDER, stem))
    drawn = draw_population(compared, FOLDER / "figures") if of_population else []
    own = frame_of(collect(task_names(), EPSILONS, N_SEEDS)) if of_population else None
    if asked.docs:
        write_page(frame, own)
    for path in drawn:
        print(f"drawn: {path}")
    for half in compared.half.unique():
        print(f"\n{chart(compared, None if own is None else complete(own), half)}")
    if (compared.half == "checking").any():
        print(
            "\nThis was a look at the checking half, which results.md logs, say by this row:\n"
            + look(compared),
            file=sys.stderr,
        )


def main() -> None:
    """Measure, then report."""
    asked, parser = parse()
    names = names_asked(asked, parser)
    if asked.quick and not asked.task:
        names = [name for name in names if name not in QUICK_WITHOUT]
    full = EPSILONS if asked.population is None else POPULATION_EPSILONS
    epsilons = QUICK_EPSILONS if asked.quick else full
    n_seeds = asked.seeds or (QUICK_N_SEEDS if asked.quick else N_SEEDS)
    if not asked.report:
        measure(names, epsilons, n_seeds)
    definitions = () if asked.population is None else DEFINITIONS
    report(frame_of(collect(names, epsilons, n_seeds), definitions), asked, parser)


if __name__ == "__main__":
    # held-out losses have options of their own
    if sys.argv[1:2] == ["--held-out"]:
        held_out.main(sys.argv[2:])
    else:
        main()
