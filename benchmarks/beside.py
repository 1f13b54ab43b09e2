"""Is a change of planned rules worse anywhere? Excess on the training records, before and after.

Two seeds of `auto` without a price of sampling on 21 tasks of the choosing half, at four budgets:

    python benchmarks/beside.py before.json      # keeps it, in a copy of the state before
    python benchmarks/beside.py --than before.json after.json

The second prints geometric means of what is left of the excess (each at least 1e-4, for numbers
1e-5) by ε, and the tasks that are worse by a tenth.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from common import ignore_warnings
from population_defaults import CLASSIFICATIONS, REGRESSIONS
from utility.ours import make_model
from utility.population import load_by_name
from utility.store import FOLDER

from sklearn_dpwg.exceptions import NoProtectionWarning

TASKS = (*CLASSIFICATIONS, *REGRESSIONS[:4])
EPSILONS, SEEDS = (1.0, 4.0, 8.0, 1e4), (0, 1)
FLOORS = {True: 1e-4, False: 1e-5}


def excesses(epsilons: tuple[float, ...]) -> dict[str, dict[str, float]]:
    """Return the mean excess of seeded fits by ε and task."""
    found: dict[str, dict[str, float]] = {f"{epsilon:g}": {} for epsilon in epsilons}
    for name in TASKS:
        task = load_by_name(name, FOLDER / "optima")
        X, y, groups = task.train.X, task.train.y, task.train.groups
        for epsilon in epsilons:
            models = [make_model(task, "auto", epsilon, seed, sampling_price=0) for seed in SEEDS]
            weights = [task.unit_weights(each.fit(X, y, groups=groups)) for each in models]
            mean = float(task.train_excess(np.array(weights).T).mean())
            found[f"{epsilon:g}"][name] = max(mean, FLOORS[task.is_classification])
    return found


def main() -> None:
    """Measure, keep, and print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kept", type=Path)
    parser.add_argument("--than", type=Path)
    parser.add_argument("--epsilon", type=float, nargs="+", default=list(EPSILONS))
    asked = parser.parse_args()
    found = excesses(tuple(asked.epsilon))
    asked.kept.write_text(json.dumps(found))
    if asked.than is None:
        return
    before = json.loads(asked.than.read_text())
    for epsilon, by_task in found.items():
        ratios = {name: value / before[epsilon][name] for name, value in by_task.items()}
        mean = np.exp(np.mean(np.log(list(ratios.values()))))
        worse = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio > 1.1)
        print(f"ε = {epsilon}: {mean:.3f} of {len(ratios)} tasks; worse: {worse or 'none'}")


if __name__ == "__main__":
    ignore_warnings()
    warnings.simplefilter("ignore", NoProtectionWarning)
    main()
