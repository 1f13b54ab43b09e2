"""Say what the references tell of each task: `python -m utility.population`."""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from utility.population import DEFINITIONS, Definition, load_definition, prepared
from utility.store import FOLDER
from utility.tasks import REFERENCE_RADIUS, Task

# Of optima that are trusted: a certified gap that small, beside a floor of 1e-3 or 1e-4.
LARGEST_GAP = 1e-6
# An optimum that close to the sphere is bound by the radius and not by the records.
BINDING = 0.995

HEADER = (
    f"{'name':<27} {'source':<42} {'half':<8} {'kind':<14} {'n':>6} {'p':>2} {'least':>6} {'d':>3} "
    f"{'worst-group':>11} {'gap':>7} {'norm':>6} {'nothing':>8} {'average':>8}"
)


def line(definition: Definition, task: Task) -> str:
    """Return the figures of a task: sizes, reference, and excess of zero and of average risk."""
    sizes, optima = task.group_sizes, task.optima
    worst, average = optima["worst-group"], optima["average"]
    weights = np.array([np.zeros_like(average["weights"]), average["weights"]]).T
    nothing, mean = task.train_excess(weights)
    n_records = len(task.train.targets) + len(task.test.targets)
    return (
        f"{definition.name:<27} {definition.source:<42} {definition.half:<8} {definition.kind:<14} "
        f"{n_records:>6} {len(sizes):>2} {sizes.min():>6} {task.train.X.shape[1]:>3} "
        f"{worst['value']:>11.6f} {worst['gap']:>7.0e} {np.linalg.norm(worst['weights']):>6.2f} "
        f"{nothing:>8.4f} {mean:>8.4f}"
    )


def doubt(task: Task) -> str:
    """Return why the reference of a task is in doubt, or nothing."""
    for name, optimum in task.optima.items():
        if not optimum["gap"] <= LARGEST_GAP:
            return f"the gap of the {name} optimum is {optimum['gap']:.0e}"
        norm = np.linalg.norm(optimum["weights"])
        if name == "worst-group" and norm >= BINDING * REFERENCE_RADIUS:
            return f"the radius binds: the norm of the {name} optimum is {norm:.2f}"
    return ""


def main() -> None:
    """Load the tasks, the largest last, and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", action="append", choices=[each.name for each in DEFINITIONS])
    parser.add_argument("--half", choices=["choosing", "checking"])
    asked = parser.parse_args()
    chosen = [
        each
        for each in DEFINITIONS
        if (not asked.task or each.name in asked.task) and asked.half in (None, each.half)
    ]
    print(HEADER)
    refused = []
    for definition in sorted(chosen, key=lambda each: (len(prepared(each)), each.name)):
        task = load_definition(definition, cache=FOLDER / "population" / "optima")
        start = time.perf_counter()
        why = doubt(task)
        refused += [f"{definition.name}: {why}"] if why else []
        seconds = time.perf_counter() - start
        print(line(definition, task), f"{seconds:.1f} s" if seconds > 1 else "", flush=True)
    if refused:
        sys.exit("References in doubt:\n" + "\n".join(refused))


if __name__ == "__main__":
    main()
