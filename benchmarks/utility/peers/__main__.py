"""Run the peers that have not been run yet: `python -m utility.peers`."""

from __future__ import annotations

import argparse
import time

from utility.peers.run import (
    METHODS,
    applies,
    made_by,
    run_method,
)
from utility.population import add_task_options, load_by_name, names_asked
from utility.store import (
    EPSILONS,
    FOLDER,
    N_PEER_SEEDS,
    POPULATION_EPSILONS,
    Progress,
    Store,
    peer_path,
)


def main() -> None:
    """Run what is missing, and say so."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_task_options(parser)
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("--again", action="store_true", help="run also what is there")
    asked = parser.parse_args()
    names = names_asked(asked, parser)
    epsilons = EPSILONS if asked.population is None else POPULATION_EPSILONS
    methods = [method for method in METHODS if not asked.method or method in asked.method]
    progress = Progress(len(names) * len(methods), "peers")
    for name in names:
        task = None
        for method in methods:
            path = peer_path(name, method)
            if asked.again or not path.exists():
                task = task or load_by_name(name, FOLDER / "optima")
                if applies(method, name, task.kind):
                    start = time.perf_counter()
                    cells = run_method(method, task, epsilons, N_PEER_SEEDS)
                    Store(path, made_by(method)).put(cells)
                    progress.note(f"{name}, {method}: {time.perf_counter() - start:.1f} s")
            progress.advance()


if __name__ == "__main__":
    main()
