"""Importing the sub-package is cheap."""

import json
import subprocess
import sys

import pytest

SLOW = {"dp_accounting", "opendp"}


def modules_after(statement):
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


@pytest.mark.parametrize(
    "statement",
    [
        "import sklearn_dpwg.privacy",
        "from sklearn_dpwg.privacy import *\n"
        "calibrate([Release('a', 'gaussian', 1.0, 10)], Budget(1.0, 1e-6))",
    ],
)
def test_slow_libraries_wait(statement):
    assert {name.partition(".")[0] for name in modules_after(statement)} & SLOW == set()
