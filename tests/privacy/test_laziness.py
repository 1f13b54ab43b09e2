"""Importing the sub-package, and planning with Gaussians, needs no slow library."""

import json
import subprocess
import sys

import pytest

SLOW = {"dp_accounting", "opendp"}


@pytest.mark.parametrize(
    "statement",
    [
        "import sklearn_dpwg.privacy",
        "from sklearn_dpwg.privacy import *\n"
        "calibrate([Release('a', 'gaussian', 1.0, 10)], Budget(1.0, 1e-6))",
    ],
)
def test_slow_libraries_wait(statement):
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in json.loads(run.stdout)} & SLOW == set()
