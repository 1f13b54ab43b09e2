"""Run the peers that have not been run yet: `python -m utility.peers`."""

from __future__ import annotations

import argparse
import time

from utility.peers.run import METHODS, applies, made_by, run_method
from utility.progress import Progress
from utility.settings import EPSILONS, N_SEEDS, peer_path
from utility.store import FOLDER, Store
from utility.tasks import load_task, task_names


def main() -> None:
    """Run what is missing, and say so."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", action="append", choices=task_names())
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("--again", action="store_true", help="run also what is there")
    asked = parser.parse_args()
    names = [name for name in task_names() if not asked.task or name in asked.task]
    methods = [method for method in METHODS if not asked.method or method in asked.method]
    with Progress(len(names) * len(methods), "peers") as progress:
        for name in names:
            task = None
            for method in methods:
                path = peer_path(name, method)
                if asked.again or not path.exists():
                    task = task or load_task(name, cache=FOLDER / "optima")
                    if applies(method, task):
                        start = time.perf_counter()
                        cells = run_method(method, task, EPSILONS, N_SEEDS)
                        Store(path, made_by(method)).put(cells)
                        progress.note(f"{name}, {method}: {time.perf_counter() - start:.0f} s")
                progress.advance(f"{name}, {method}")


if __name__ == "__main__":
    main()
