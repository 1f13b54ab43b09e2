"""Install a built wheel where nothing else is, and use it as a stranger would.

Bare first: import, time the import, fit and audit; the command says what it needs, and mypy what
types a user's script sees. Then with the extra `cli`: a page about the audit, and the command. At
last the places to fill in are listed.

Usage: python .ci/try_wheel.py WHEEL
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARK = "FILL IN before an upload"
MAX_IMPORT_SECONDS = 1.0
MAX_FIRST_SECONDS = 4.0  # import and fit of 10⁴ rows
N_TIMINGS = 9
LOOK_INSIDE = """
import importlib.resources, sklearn_dpwg
assert importlib.resources.files("sklearn_dpwg").joinpath("py.typed").is_file()
templates = importlib.resources.files("sklearn_dpwg").joinpath("inspection", "templates")
assert len([file for file in templates.iterdir() if file.name.startswith("report.")]) == 3
print("sklearn-dpwg", sklearn_dpwg.__version__)
"""
FIRST_FIT = """
import time
start = time.perf_counter()
import numpy as np
from sklearn_dpwg import DPWorstGroupClassifier

X = np.random.default_rng(0).uniform(-0.2, 0.2, size=(10_000, 20))
DPWorstGroupClassifier(data_norm=1.0).fit(X, X[:, 0] > 0, groups=np.arange(10_000) % 10)
print(time.perf_counter() - start)
"""
FIT_AND_AUDIT = """
from pathlib import Path
import numpy as np
from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.serving import trusted_types

rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, size=(4000, 3))
groups = rng.choice(["north", "south"], size=4000)
y = np.where(X[:, 0] + 0.1 * rng.normal(size=4000) > 0, "yes", "no")
table = np.column_stack([X, groups, y])
np.savetxt("table.csv", table, "%s", ",", header="a,b,c,where,y", comments="")
model = DPWorstGroupClassifier(data_norm=1.0).fit(X, y, groups=groups)
assert model.score(X, y) > 0.8
result = GroupAudit(epsilon=1.0, group_labels=["north", "south"], classes=["no", "yes"]).run(
    y, model.predict_proba(X)[:, 1], groups
)
assert len(result.rates("selection_rate")) == 2
Path("audit.json").write_text(result.to_json())
assert f"{type(model).__module__}.DPWorstGroupClassifier" in trusted_types()
print(repr(model.privacy_))
"""
WRITE_PAGE = """
from pathlib import Path
from sklearn_dpwg.inspection import AuditReport, AuditResult

AuditReport(AuditResult.from_json(Path("audit.json").read_text())).write_html("page.html")
assert "north" in Path("page.html").read_text()
"""
SCHEMA = """
[columns]
a = { kind = "number", low = -0.5, high = 0.5 }
b = { kind = "number", low = -0.5, high = 0.5 }
c = { kind = "number", low = -0.5, high = 0.5 }
[groups]
columns = "where"
labels = ["north", "south"]
[target]
column = "y"
classes = ["no", "yes"]
"""
COMMANDS = (
    "fit table.csv --schema schema.toml --epsilon 2 -o model.skops",
    "predict model.skops table.csv -o predictions.csv",
    "audit table.csv --schema schema.toml --model model.skops --same-records -o audit.html",
)


def seconds_to_import(names: str, python: Path, cwd: str) -> float:
    """Median wall time of a fresh interpreter that imports the names, its own start included."""
    timings = []
    for _ in range(N_TIMINGS):
        start = time.perf_counter()
        subprocess.run([python, "-c", f"import {names}"], check=True, cwd=cwd)
        timings.append(time.perf_counter() - start)
    return statistics.median(timings)


def seconds_to_first_fit(python: Path, cwd: str) -> float:
    """Least wall time of an import and a fit in fresh interpreters."""
    timings = []
    for _ in range(3):
        run = subprocess.run(
            [python, "-c", FIRST_FIT], check=True, cwd=cwd, capture_output=True, text=True
        )
        timings.append(float(run.stdout))
    return min(timings)


def to_fill_in(root: Path = ROOT) -> list[str]:
    """Return file and line of what only the owner of the release knows."""
    return [
        f"{name}:{number}"
        for name in ("pyproject.toml", "SECURITY.md", "CITATION.cff")
        for number, line in enumerate((root / name).read_text("utf-8").splitlines(), 1)
        if MARK in line
    ]


def main(wheel: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(Path(folder, "env"), with_pip=True)
        python = Path(folder, "env", "bin", "python")
        command = python.with_name("dpwg")
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]

        def run(*words: str | Path, codes: tuple[int, ...] = (0,)) -> str:
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode not in codes:
                sys.exit(f"{words} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
            return done.stdout + done.stderr

        run(*pip, Path(wheel).resolve())
        print(run(python, "-c", LOOK_INSIDE), end="")
        libraries = seconds_to_import("pandas, sklearn.base", python, folder)
        package = seconds_to_import("sklearn_dpwg", python, folder)
        print(
            f"import takes {package:.2f} s (median of {N_TIMINGS}, at most {MAX_IMPORT_SECONDS} s);"
        )
        print(f"scikit-learn and pandas alone take {libraries:.2f} s")
        first = seconds_to_first_fit(python, folder)
        print(
            f"import and a first fit, 10^4 x 20, take {first:.2f} s (at most {MAX_FIRST_SECONDS} s)"
        )
        print(run(python, "-W", "error", "-c", FIT_AND_AUDIT), end="")
        if "sklearn-dpwg[cli]" not in run(command, "--help", codes=(1,)):
            sys.exit("dpwg does not say which extra it needs")

        typed = (ROOT / "tests" / "typed" / "user.py").read_text(encoding="utf-8")
        Path(folder, "typed_user.py").write_text(typed, encoding="utf-8")
        mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python]
        print("types:", run(*mypy, "typed_user.py"), end="")

        run(*pip, f"{Path(wheel).resolve()}[cli]")
        run(python, "-W", "error", "-c", WRITE_PAGE)
        Path(folder, "schema.toml").write_text(SCHEMA, encoding="utf-8")
        for line in COMMANDS:
            print(f"$ dpwg {line}", run(command, *line.split()), sep="\n", end="")
    if package > MAX_IMPORT_SECONDS:
        sys.exit("import is too slow: python -X importtime shows where the time goes")
    if first > MAX_FIRST_SECONDS:
        sys.exit("a first fit is too slow: python -m cProfile shows where the time goes")
    print("to fill in before an upload:", ", ".join(to_fill_in()) or "nothing")


if __name__ == "__main__":
    main(sys.argv[1])
