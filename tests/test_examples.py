"""The examples run and say what they promise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_quickstart_prints_groups_and_the_privacy_statement():
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "quickstart.py")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in ("Native American", "male, Northeast", "worst group", "epsilon = 1"):
        assert line in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    "name",
    [
        "plot_choosing_epsilon.py",
        "plot_guarantee.py",
        "plot_private_search.py",
        "plot_rates.py",
        "plot_raw_table.py",
        "plot_sample_oracles.py",
    ],
)
def test_gallery_scripts_run(name):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:FigureCanvasAgg", str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "MPLBACKEND": "agg"},
    )
    assert done.returncode == 0, done.stderr
    assert "epsilon" in done.stdout
