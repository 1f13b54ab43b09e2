"""Importing the package stays cheap: what is slow or optional waits until it is needed."""

from __future__ import annotations

import json
import subprocess
import sys

LATE = {
    "dp_accounting", "opendp", "matplotlib", "pyarrow", "polars", "dask", "distributed"
}  # fmt: skip


def top_level_modules_after(statement: str) -> set[str]:
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(run.stdout)}


def test_import_leaves_slow_and_optional_libraries_alone():
    loaded = top_level_modules_after("import sklearn_dpwg; sklearn_dpwg.__version__")
    assert "sklearn_dpwg" in loaded
    assert loaded & LATE == set()


def test_sources_load_polars_never_and_files_when_they_are_read():
    loaded = top_level_modules_after(
        "import sys; sys.modules['pyarrow'] = None; import sklearn_dpwg.data.sources"
    )
    assert "sklearn_dpwg" in loaded
    assert "polars" not in loaded


def test_a_loaded_library_would_be_seen():
    assert "dp_accounting" in top_level_modules_after("import dp_accounting.pld")


def test_clusters_wait_until_one_is_used():
    statement = (
        "import sklearn_dpwg.data.distributed as d\nfrom sklearn_dpwg.data.frames import is_dask\n"
        "import numpy as np\nis_dask(np.zeros(3))\nwith d.options(pass_timeout=9.0): pass"
    )
    assert top_level_modules_after(statement) & {"dask", "distributed"} == set()
