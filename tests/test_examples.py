"""The examples run and say what they promise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

# Runs a script, then tells whether its card in the gallery has a figure to show.
RUN = "import runpy, sys, matplotlib.pyplot as plt; runpy.run_path(sys.argv[1])"
RUN += "; sys.exit(0 if plt.get_fignums() else 'no figure')"


def test_quickstart_answers_in_the_order_of_the_question():
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "quickstart.py")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = ["Native American", "Worst off: ", "By how much: ", "At which privacy: epsilon = 1"]
    places = [done.stdout.find(answer) for answer in [*answers, "Differential privacy: epsilon"]]
    assert -1 not in places
    assert places == sorted(places)
    assert len(done.stdout.splitlines()) <= 45
    assert done.stderr == ""


@pytest.mark.parametrize(
    "name",
    [
        "quickstart.py",
        "plot_audit_hiring.py",
        "plot_audit_lending.py",
        "plot_audit_policing.py",
        "plot_audit_health_insurance.py",
        "plot_audit_law_school.py",
        "plot_audit_wages.py",
        "plot_choosing_epsilon.py",
        "plot_earnings.py",
        "plot_guarantee.py",
        "plot_private_search.py",
        "plot_rates.py",
        "plot_raw_table.py",
        "plot_sample_oracles.py",
    ],
)
def test_gallery_scripts_run_and_draw(name):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore:FigureCanvasAgg", "-c", RUN, EXAMPLES / name],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "MPLBACKEND": "agg"},
    )
    assert done.returncode == 0, done.stderr
    assert "epsilon" in done.stdout
