"""Importing the package stays cheap: what is slow or optional waits until it is needed."""

from __future__ import annotations

import json
import subprocess
import sys

LATE = {"dp_accounting", "opendp", "matplotlib", "polars", "dask", "distributed"}
IMPORTS = """
import json, sys
sys.modules["pyarrow"] = None
import numpy as np
import sklearn_dpwg, sklearn_dpwg.data.sources
import sklearn_dpwg.data.distributed as d
from sklearn_dpwg.data.frames import is_dask
is_dask(np.zeros(3))
with d.options(pass_timeout=9.0): pass
print(json.dumps(sorted(sys.modules)))
"""


def test_imports_leave_slow_and_optional_libraries_alone():
    run = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(run.stdout)}
    assert "sklearn_dpwg" in loaded
    assert loaded & LATE == set()
