"""Measure default fits, and print and write the tables: `python -m utility [--quick]`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from utility.chart import chart
from utility.figures import draw_figures
from utility.ours import OURS, fit_once, methods_of, planned
from utility.pages import missing_cells, write_pages
from utility.progress import Progress
from utility.report import DEFAULT, collect, write_report
from utility.settings import (
    EPSILONS,
    N_SEEDS,
    QUICK_EPSILONS,
    QUICK_N_SEEDS,
    QUICK_WITHOUT,
    ours_path,
)
from utility.store import FOLDER, ROOT, Store, fingerprint, versions
from utility.tasks import load_task, task_names


def measure(names: Sequence[str], epsilons: Sequence[float], n_seeds: int) -> None:
    """Fit what has not been fitted by these sources yet."""
    made_by = {"sources": fingerprint()} | versions("numpy", "scikit-learn", "opendp")
    n_cells = sum(len(methods_of(name)) for name in names) * len(epsilons)
    with Progress(n_cells, "ours") as progress:
        for name in names:
            store, task = Store(ours_path(name), made_by), None
            for method in methods_of(name):
                solver = OURS[method]
                for epsilon in epsilons:
                    keys = [f"{method}|{epsilon:g}|{seed}" for seed in range(n_seeds)]
                    missing = [key for key in keys if key not in store]
                    if missing:
                        task = task or load_task(name, cache=FOLDER / "optima")
                        default = OURS[DEFAULT]
                        # what `auto` has fitted by the same plan is not fitted again
                        known = method != DEFAULT and (
                            planned(task, solver, epsilon) == planned(task, default, epsilon)
                        )
                        for key in missing:
                            same = key.replace(method, DEFAULT, 1)
                            fit = known and same in store and store[same]
                            seed = int(key.rsplit("|", 1)[1])
                            store.put({key: fit or fit_once(task, solver, epsilon, seed)})
                    progress.advance(f"{name}, {method}, epsilon {epsilon:g}")
            progress.note(name)


def main() -> None:
    """Measure, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"epsilon {QUICK_EPSILONS[0]:g}, {QUICK_N_SEEDS} seeds, without the census",
    )
    parser.add_argument("--task", action="append", choices=task_names())
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument(
        "--docs", action="store_true", help="put the results into the pages that show them"
    )
    asked = parser.parse_args()
    names = [
        name
        for name in task_names()
        if (name in asked.task if asked.task else not (asked.quick and name in QUICK_WITHOUT))
    ]
    epsilons, n_seeds = (QUICK_EPSILONS, QUICK_N_SEEDS) if asked.quick else (EPSILONS, N_SEEDS)
    if not asked.report:
        measure(names, epsilons, n_seeds)
    cells = collect(names, epsilons, n_seeds)
    if asked.docs:
        missing = missing_cells(cells, task_names())
        if missing:
            parser.error(
                f"--docs needs every task and peer measured, missing: {', '.join(missing)}."
            )
    print(write_report(cells, FOLDER))
    if asked.docs:
        write_pages(cells, ROOT)
    for path in draw_figures(cells, FOLDER / "figures"):
        print(f"drawn: {path}")
    print(f"\n{chart(cells)}")


if __name__ == "__main__":
    main()
