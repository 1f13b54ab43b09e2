"""Install a wheel without extras in a clean environment, import it, and time the import.

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

MAX_IMPORT_SECONDS = 1.0
N_TIMINGS = 9
LOOK_INSIDE = """
import importlib.resources, sklearn_dpwg
assert importlib.resources.files("sklearn_dpwg").joinpath("py.typed").is_file()
templates = importlib.resources.files("sklearn_dpwg").joinpath("inspection", "templates")
assert len([file for file in templates.iterdir() if file.name.startswith("report.")]) == 4
print("sklearn-dpwg", sklearn_dpwg.__version__)
"""


def seconds_to_import(names: str, python: Path, cwd: str) -> float:
    """Median wall time of a fresh interpreter that imports the names, its own start included."""
    timings = []
    for _ in range(N_TIMINGS):
        start = time.perf_counter()
        subprocess.run([python, "-c", f"import {names}"], check=True, cwd=cwd)
        timings.append(time.perf_counter() - start)
    return statistics.median(timings)


def main(wheel: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        python = Path(directory, "bin", "python")
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, wheel], check=True)
        subprocess.run([python, "-c", LOOK_INSIDE], check=True, cwd=directory)
        libraries = seconds_to_import("pandas, sklearn.base", python, directory)
        package = seconds_to_import("sklearn_dpwg", python, directory)
    print(f"import takes {package:.2f} s (median of {N_TIMINGS}, at most {MAX_IMPORT_SECONDS} s);")
    print(f"scikit-learn and pandas alone take {libraries:.2f} s")
    if package > MAX_IMPORT_SECONDS:
        sys.exit("import is too slow: python -X importtime shows where the time goes")


if __name__ == "__main__":
    main(sys.argv[1])
