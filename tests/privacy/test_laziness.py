"""Importing the sub-package is cheap, and what it imports knows no estimator."""

import json
import subprocess
import sys

import pytest

SLOW = {"dp_accounting", "opendp"}
KNOW_ESTIMATORS = {"sklearn", "joblib", "pandas"}


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


def test_plain_numbers_need_no_scikit_learn():
    """In an interpreter of its own, only the ground floor comes along."""
    loaded = modules_after("import sklearn_dpwg.privacy.prefix_sums")
    assert {name.partition(".")[0] for name in loaded} & KNOW_ESTIMATORS == set()
    units = {name.split(".")[1] for name in loaded if name.startswith("sklearn_dpwg.")}
    assert units == {"privacy", "exceptions", "_checks", "_version"}


def test_estimators_would_be_seen():
    assert "sklearn" in modules_after("from sklearn_dpwg import DPWorstGroupRegressor")
