"""The examples run, on a part of their records, and say what they promise."""

import runpy
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from sklearn import config_context

from sklearn_dpwg import datasets

EXAMPLES = Path(__file__).parents[1] / "examples"
FRACTION = 8  # every so many records are kept
# What a script repeats, and fewer of it, which is enough to see it run.
FEWER = {
    "plot_rates.py": {
        "N_FEATURES, N_SEEDS = 8.0, 4, 8, 3": "N_FEATURES, N_SEEDS = 8.0, 4, 8, 1",
        "[500, 1_000, 2_000, 4_000, 8_000, 16_000]": "[500, 2_000]",
        "[0.1, 0.2, 0.5, 1.0, 2.0, 5.0]": "[0.5, 2.0]",
    },
    # of every eighth record groups are too small for 4
    "plot_models_that_bend.py": {"fier(4.0,": "fier(32.0,", "sor(4.0,": "sor(16.0,"},
    "plot_private_search.py": {"n_iter=4": "n_iter=2"},
    "plot_sample_oracles.py": {
        "N_SEEDS = 2": "N_SEEDS = 1",
        "SIGNALS = 32_000": "SIGNALS = 8_000",
        "[1_000, 4_000, 16_000, 64_000]": "[1_000, 4_000]",
        "[4, 8, 16, 32, 64]": "[4, 16]",
    },
}


def few_records(name, **options):
    """Return every eighth record of a data set."""
    result = datasets.load.load_dataset(name, **options)
    for part in ("data", "target", "groups"):
        result[part] = result[part][::FRACTION]
    return result


def run(script):
    """Run a script and return whether it leaves a figure, which the card of the gallery shows."""
    with mpl.rc_context({"backend": "agg"}), config_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "FigureCanvasAgg")
        runpy.run_path(str(script), run_name="__main__")
        has_figure = plt.get_fignums()
        plt.close("all")
    return has_figure


def test_quickstart_answers_in_the_order_of_the_question(monkeypatch, tmp_path, capfd):
    monkeypatch.chdir(tmp_path)
    assert run(EXAMPLES / "quickstart.py")
    done = capfd.readouterr()
    answers = ["Native American", "Worst off: ", "By how much: ", "At which privacy: epsilon = 1"]
    places = [done.out.find(answer) for answer in [*answers, "Differential privacy: epsilon"]]
    assert -1 not in places
    assert places == sorted(places)
    assert len(done.out.splitlines()) <= 47
    assert done.err == ""
    assert "bends: build/quickstart_bends.png" in done.out
    assert (tmp_path / "build" / "quickstart_bends.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "name",
    [
        "plot_audit_hiring.py",
        "plot_audit_lending.py",
        "plot_audit_policing.py",
        "plot_audit_health_insurance.py",
        "plot_audit_law_school.py",
        "plot_audit_wages.py",
        "plot_choosing_epsilon.py",
        "plot_earnings.py",
        "plot_guarantee.py",
        "plot_models_that_bend.py",
        "plot_private_search.py",
        "plot_rates.py",
        "plot_raw_table.py",
        "plot_sample_oracles.py",
        "plot_several_attributes.py",
    ],
)
def test_gallery_scripts_run_and_draw(name, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(datasets, "load_dataset", few_records)
    script, text = tmp_path / name, (EXAMPLES / name).read_text(encoding="utf-8")
    for much, little in FEWER.get(name, {}).items():
        assert much in text
        text = text.replace(much, little)
    script.write_text(text, encoding="utf-8")
    for other in EXAMPLES.glob("*.toml"):
        (tmp_path / other.name).symlink_to(other)
    monkeypatch.chdir(tmp_path)
    assert run(script)
    assert "epsilon" in capsys.readouterr().out
