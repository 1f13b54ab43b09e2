"""Mutate the code that privacy rests on, and list the mutants that no test sees.

cosmic-ray makes the mutants, one at a time in a copy of the tree: a mutant is what a test would
read on disk, decorated functions and constants included. Each meets the tests that run its lines
(those of its own folder first, then the quickest) until one fails. How long tests take and which
lines they run is measured first; `--again` takes that from the last run.

Usage: python .ci/mutate.py [--mutants 400] [--seed 0] [--seconds 60] [--workers 2] [--again]
       [--skip N]: leave out the first N of the sample, which a run that was stopped has judged
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import Queue
from pathlib import Path
from xml.etree import ElementTree

from cosmic_ray.commands.init import _all_work_items
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_item import MutationSpec, TestOutcome
from coverage import CoverageData

ROOT = Path(__file__).parent.parent
WORK = ROOT / ".mutate"
PACKAGE = Path("sklearn_dpwg")
SUITES = ("privacy", "ledger", "learners", "solvers", "estimators", "model_selection",
          "preprocessing", "test_risks.py", "test_problem.py", "test_records.py",
          "test_whole_numbers.py", "test_sum_sensitivities.py", "test_rounding.py")  # fmt: skip
# A shift or a bit operation in place of a sum, or `is` in place of `<`, is seen by any test.
DULL = re.compile(r"BinaryOperator_\w+_([LR]Shift|Bit\w+|FloorDiv|Mod)$|_(?!Is)\w+_Is(Not)?$")
WANTED = 0.95


def targets() -> list[Path]:
    """Return the files to mutate."""
    patterns = (
        "privacy/**/*.py",
        "ledger/*.py",
        "data/records.py",
        "data/rows.py",
        "data/whole_numbers.py",
        "data/risks/*.py",
        "solvers/*.py",
    )
    return sorted(file for pattern in patterns for file in PACKAGE.glob(pattern))


def inert(source: str) -> set[tuple[int, int]]:
    """Return where no mutant can matter: what stands in annotations is never evaluated."""
    spans = []
    for node in ast.walk(ast.parse(source)):
        parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            parts.append(node)
        spans += [part for part in parts if isinstance(part, ast.AST)]
    return {
        (line, column)
        for span in spans
        for line in range(span.lineno, span.end_lineno + 1)
        for column in range(
            span.col_offset if line == span.lineno else 0,
            span.end_col_offset if line == span.end_lineno else 200,
        )
    }


def sample(n_mutants: int, seed: int) -> list[MutationSpec]:
    """Draw places without replacement, and one mutant of each."""
    places = defaultdict(list)
    for file in targets():
        nowhere = inert(file.read_text(encoding="utf-8"))
        for item in _all_work_items([file], {}):
            (mutation,) = item.mutations
            if mutation.start_pos not in nowhere and not DULL.search(mutation.operator_name):
                places[str(file), mutation.start_pos, mutation.end_pos].append(mutation)
    rng = random.Random(seed)
    chosen = rng.sample(sorted(places), min(n_mutants, len(places)))
    print(f"{len(places)} places in {len(targets())} files, {len(chosen)} of them mutated")
    return [rng.choice(places[place]) for place in chosen]


def copy_tree(to: Path) -> None:
    """Copy what git knows of the tree, as it is on disk."""
    shutil.rmtree(to, ignore_errors=True)
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in filter(os.path.isfile, names):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(name, to / name)


def measure(copy: Path, workers: int) -> dict:
    """Run the tests once; return the seconds of each and the tests of each line of each file."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider"]
    command += [f"tests/{suite}" for suite in SUITES]
    command += ["--junitxml=times.xml", "-o", "junit_family=xunit1", "--cov-report="]
    command += ["--cov-context=test", f"--cov={PACKAGE}"]
    subprocess.run(command, cwd=copy, env=environment(copy), check=True)
    seconds: dict[str, float] = defaultdict(float)
    for case in ElementTree.parse(copy / "times.xml").iter("testcase"):
        seconds[f"{case.get('file')}::{case.get('name').partition('[')[0]}"] += float(
            case.get("time")
        )
    data = CoverageData(str(copy / ".coverage"))
    data.read()
    lines = {}
    for file in targets():
        actual = data.contexts_by_lineno(str((copy / file).resolve()))
        lines[str(file)] = {
            line: sorted({re.split(r"\[|\|", context)[0] for context in contexts if context})
            for line, contexts in actual.items()
        }
    return {"seconds": seconds, "lines": lines}


def environment(copy: Path) -> dict[str, str]:
    """Return an environment in which the copy is the package."""
    return {**os.environ, "PYTHONPATH": str(copy.resolve())}


def statement(source: str, line: int) -> range:
    """Return the lines of the statement that a line is in, of a compound one its head."""
    lines = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):  # inner statements come later
        if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno:
            body = getattr(node, "body", None)
            lines = range(node.lineno, body[0].lineno if body else node.end_lineno + 1)
    return lines


def tests_of(mutation: MutationSpec, measured: dict, seconds: float) -> tuple[list[str], float]:
    """Return the tests that run the lines of a mutant, within the time, and their time."""
    of_file = measured["lines"].get(str(mutation.module_path), {})
    expected = statement(mutation.module_path.read_text(encoding="utf-8"), mutation.start_pos[0])
    actual = {test for line in expected for test in of_file.get(str(line), ())}
    if not actual:  # what runs at import
        actual = {test for tests in of_file.values() for test in tests}
    folder = f"tests/{mutation.module_path.relative_to(PACKAGE).parent.as_posix()}"
    took = measured["seconds"]
    ordered = sorted(actual, key=lambda test: (not test.startswith(folder), took.get(test, 0.0)))
    chosen: list[str] = []
    total = 0.0
    for test in ordered:
        if not chosen or total + took.get(test, 0.0) <= seconds:
            chosen.append(test)
            total += took.get(test, 0.0)
    return chosen, total


def settle(copies: Queue) -> None:
    """Give a worker a copy of its own."""
    copy = copies.get()
    os.chdir(copy)
    os.environ.update(environment(copy))


def meet(mutation: MutationSpec, tests: list[str], seconds: float) -> tuple[TestOutcome, str, bool]:
    """Return how a mutant fared, its diff, and whether the time ran out."""
    if not tests:
        return (
            TestOutcome.SURVIVED,
            f"{mutation.module_path}:{mutation.start_pos[0]} never runs",
            False,
        )
    # all tests of a file in one piece, or its fixtures would be set up again and again
    files = {test.partition("::")[0]: None for test in tests}
    ordered = sorted(tests, key=lambda test: list(files).index(test.partition("::")[0]))
    Path("chosen.txt").write_text("\n".join(ordered), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-cov"]
    result = mutate_and_test([mutation], shlex.join([*command, "@chosen.txt"]), 30 + 4 * seconds)
    outcome = result.test_outcome or TestOutcome.INCOMPETENT
    return outcome, result.diff or result.output, result.output == "timeout"


def changed(diff: str) -> str:
    """Return the lines of a diff that differ, with the name of the file."""
    lines = diff.splitlines()
    kept = [line for line in lines if re.match(r"[-+](?![-+]{2} )|@@", line)]
    name = next((line.split()[-1] for line in lines if line.startswith("+++ ")), "")
    return "\n".join([name, *kept]) if name else diff


def main() -> int:
    """Sample, test and judge; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="of tests for a mutant")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--skip", type=int, default=0, help="mutants at the start of the sample")
    parser.add_argument("--again", action="store_true", help="trust the last measurement of tests")
    options = parser.parse_args()
    os.chdir(ROOT)
    copies: Queue = Queue()
    for number in range(options.workers):
        copy_tree(WORK / f"copy-{number}")
        copies.put(WORK / f"copy-{number}")
    kept = WORK / "measured.json"
    if not (options.again and kept.exists()):
        kept.write_text(json.dumps(measure(WORK / "copy-0", options.workers)), encoding="utf-8")
    measured = json.loads(kept.read_text(encoding="utf-8"))
    counts: dict[str, int] = defaultdict(int)
    survivors = []
    with ProcessPoolExecutor(options.workers, initializer=settle, initargs=(copies,)) as pool:
        waiting = [
            pool.submit(meet, mutation, *tests_of(mutation, measured, options.seconds))
            for mutation in sample(options.mutants, options.seed)[options.skip :]
        ]
        for done, future in enumerate(as_completed(waiting), 1):
            outcome, diff, timed_out = future.result()
            counts["timed out" if timed_out else outcome.value] += 1
            if outcome is TestOutcome.SURVIVED:
                survivors.append(changed(diff))
                print(f"\n{survivors[-1]}", flush=True)
            if sys.stderr.isatty():
                print(f"\r{done} of {len(waiting)}", end="", file=sys.stderr, flush=True)
    n_judged = len(waiting) - counts["incompetent"]
    n_seen = n_judged - len(survivors)
    (WORK / "survivors.txt").write_text("\n\n".join(sorted(survivors)), encoding="utf-8")
    tally = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(
        f"\n{tally}\n{n_seen} of {n_judged} mutants seen, {n_seen / n_judged:.1%}; survivors above"
    )
    return int(n_seen < WANTED * n_judged)


if __name__ == "__main__":
    sys.exit(main())
