"""What ``benchmarks/utility`` says of the population: floors, summaries, pages, pictures."""

import json
import sys
import types
from datetime import date

import pytest

from tests.helpers.benchmarks import utility_with

EPSILONS = (1.0, 4.0)


@pytest.fixture(scope="module")
def utility():
    """The package with the modules of the report."""
    with utility_with("__main__") as package:
        yield package


def definition(name, half="checking", kind="classification", source=None):
    return types.SimpleNamespace(
        name=name, half=half, kind=kind, source=source or name, asks=f"What of {name}?"
    )


def cell(excess, loss=0.5, seconds=1.0, spread=0.01, **more):
    """Three seeds about a mean."""
    around = [excess * (1.0 - spread), excess, excess * (1.0 + spread)]
    return {
        "train_excess": around,
        "test_loss": [loss - 1e-4, loss, loss + 1e-4],
        "test_accuracy": [0.9] * 3,
        "seconds": [seconds] * 3,
        "parameters": {"solver": "mgr"},
    } | more


def methods(utility, own, peer, *, kind="classification", mgr=None, phased=None, **more):
    """What is measured at one budget, the best peer being gradient descent."""
    run = utility.peers.run
    found = {
        method: cell(100.0 * peer)
        for method in run.METHODS
        if run.applies(method, "of the population", kind)
    }
    found["dp-gd average"] = cell(peer, fresh_excess=[1.2 * peer] * 3)
    found["ours (auto)"] = cell(own, **more)
    found["mgr"], found["phased-erm"] = cell(mgr or own), cell(phased or own)
    if kind == "regression":
        found["moments"] = cell(2.0 * own)
    found[run.NOTHING] = cell(50.0 * peer)
    return found


DEFINITIONS = (
    definition("good", source="one survey"),
    definition("twin", source="one survey"),
    definition("bad"),
    definition("tiny"),
    definition("wages", kind="regression"),
    definition("rents", kind="regression"),
    definition("known", "choosing"),
    definition("seen", "choosing"),
    definition("open", "choosing"),
)


def known_cells(utility):
    """Cells whose figures are known."""
    cells = {}
    for epsilon in EPSILONS:
        cells["good", epsilon] = methods(utility, 0.010, 0.020, loss=0.49)
        cells["twin", epsilon] = methods(utility, 0.010, 0.020, seconds=0.5)
        cells["bad", epsilon] = methods(utility, 0.040, 0.020, phased=0.02, loss=0.52)
        cells["tiny", epsilon] = methods(utility, 0.005, 0.0005)
        cells["wages", epsilon] = methods(utility, 0.0004, 0.0005, kind="regression")
        cells["rents", epsilon] = methods(utility, 0.0002, 0.00005, kind="regression")
        cells["known", epsilon] = methods(utility, 0.010, 0.020)
        cells["seen", epsilon] = methods(utility, 0.020, 0.020)
        cells["open", epsilon] = {"ours (auto)": cell(0.1)}
    cells["bad", 1.0][utility.peers.run.NOTHING] = cell(0.03)
    cells["bad", 4.0]["ours (auto)"]["seconds"] = [1.0, 9.0, 1.0]
    return cells


@pytest.fixture
def compared(utility):
    return utility.compared.compare(known_cells(utility), DEFINITIONS)[0]


def of(compared, name, epsilon=1.0):
    (found,) = (each for each in compared if (each.name, each.epsilon) == (name, epsilon))
    return found


# --- cells ---------------------------------------------------------------------------------------


def test_cells_are_compared_with_the_floor_of_their_kind(utility, compared):
    good, tiny = of(compared, "good"), of(compared, "tiny")
    assert good.ratio.value == pytest.approx(0.5)
    assert (good.peer, good.solver, good.n_seeds) == ("dp-gd average", "mgr", (3, 3))
    assert not good.is_under_floor
    # an excess below the floor counts as the floor
    assert tiny.is_under_floor
    assert tiny.ratio.value == pytest.approx(5.0)
    assert not of(compared, "wages").is_under_floor
    assert of(compared, "rents").ratio.value == pytest.approx(2.0)
    assert good.fresh.value == pytest.approx(1.2)
    assert good.held_out.value == pytest.approx(-0.01)


def test_the_papers_schedules_are_not_waited_for(utility):
    cells = {("good", 1.0): methods(utility, 0.01, 0.02)}
    compare = utility.compared.compare
    assert not any(method.startswith("paper") for method in cells["good", 1.0])
    assert len(compare(cells, DEFINITIONS)[0]) == 1
    del cells["good", 1.0]["dp-newton"]
    assert compare(cells, DEFINITIONS) == ([], ["good at ε = 1"])


def test_a_regression_is_complete_without_diffprivlib(utility, compared):
    assert of(compared, "wages").own == "mgr"
    cells = {("wages", 1.0): methods(utility, 0.01, 0.02, kind="regression")}
    assert "diffprivlib" not in cells["wages", 1.0]
    # the better own solver is not known while one of them is missing
    del cells["wages", 1.0]["moments"]
    (found,), missing = utility.compared.compare(cells, DEFINITIONS)
    assert (found.own, found.own_ratio, missing) == (None, None, [])


def test_the_best_peer_is_private(utility):
    cells = {("good", 1.0): methods(utility, 0.01, 0.02)}
    cells["good", 1.0][utility.peers.run.WORST_GROUP] = cell(1e-9)
    (found,), _ = utility.compared.compare(cells, DEFINITIONS)
    assert found.peer == "dp-gd average"


# --- what they come to ---------------------------------------------------------------------------


def test_a_row_leaves_out_what_is_under_the_floor(utility, compared):
    row = utility.population_summary.row_of(compared, "checking", "classification")
    assert (row.n_cells, row.n_left_out, row.n_sources) == (6, 2, 2)
    assert row.mean.value == pytest.approx(2.0 ** (-1.0 / 3.0))
    assert (row.n_won, row.n_lost, row.n_above, row.n_left_out_above) == (4, 2, 2, 2)
    assert row.worst.name == "bad"
    even = utility.population_summary.row_of(compared, "choosing", "classification")
    assert (even.n_cells, even.n_won, even.n_lost) == (4, 2, 0)
    one = utility.population_summary.row_of(compared, "checking", "classification", 4.0)
    assert (one.n_cells, one.epsilon) == (3, 4.0)
    assert utility.population_summary.row_of(compared, "choosing", "regression") is None


def test_rows_are_of_halves_kinds_and_budgets(utility, compared):
    found = [row[:3] for row in utility.population_summary.rows(compared)]
    assert found[0] == ("choosing", "classification", None)
    assert found[1:3] == [("choosing", "classification", epsilon) for epsilon in EPSILONS]
    assert len(found) == 9


def test_the_gap_is_checking_less_choosing(utility, compared):
    gap_of = utility.population_summary.gap_of
    value, half = gap_of(compared, "classification")
    assert value == pytest.approx(2.0 ** (-1.0 / 3.0) - 2.0 ** (-0.5))
    assert half > 0.1
    assert gap_of(compared, "regression") is None


def test_the_choice_is_judged_by_the_better_own_solver(utility, compared):
    every = utility.compared.having(compared, half="checking", kind="classification")
    found = utility.population_summary.choice(every)
    assert (found.n_within, found.n_cells) == (6, 8)
    assert [each.name for each in found.worst] == ["bad", "bad"]
    assert found.worst[0].own == "phased-erm"
    assert found.mean.value == pytest.approx(2.0**0.25)
    # with phased ERM the bad task would be at 1, like the best peer
    assert found.hindsight.value == pytest.approx(0.5 ** (2.0 / 3.0))


def test_held_out_losses_and_seconds(utility, compared):
    every = utility.compared.having(compared, half="checking", kind="classification")
    found = utility.population_summary.held_out(every)
    assert found.mean.mean == pytest.approx((-0.01 + 0.0 + 0.02 + 0.0) / 4.0)
    assert (found.n_lower, found.n_higher, found.n_cells) == (2, 2, 8)
    assert utility.population_summary.seconds(every) == (1.0, 9.0, "bad at ε = 4")
    assert utility.population_summary.curse(every).value == pytest.approx(1.2)


# --- report, chart, pictures ---------------------------------------------------------------------


def test_the_report_names_what_is_bad(utility, tmp_path):
    compared, missing = utility.compared.compare(known_cells(utility), DEFINITIONS)
    write = utility.population_report.write_population
    text = write(compared, missing, DEFINITIONS, tmp_path, "all")
    assert (tmp_path / "population-all.md").read_text() == text + "\n"
    for sentence in (
        "been run: 2 cells (open at ε = 1, open at ε = 4).",
        "| checking | classification | all | 6 | 2 | 0.79 [0.00, ",
        "Classification, geometric mean of the checking half less that of the choosing half: +0.09",
        "Whole interval above 1.2: 2 cells (bad at ε = 1, 4).",
        "beyond the interval: 1 cell (bad at ε = 1).",
        "under the floor: 4 cells; with a ratio to the floor that is wholly above 1.2: 4 cells "
        "(tiny at ε = 1, 4; rents at ε = 1, 4).",
        "| checking | classification | 8 | +0.0025 ± ",
        "| 2 / 2 | 6 of 8 (75%) |",
        "bad at ε = 1 (chose mgr, phased-erm better, 2.00)",
        "median 1.00, most 9.00 (bad at ε = 4)",
        "have 1.20 times the excess shown",
        "| tiny | What of tiny? | (5.00 [",
    ):
        assert sentence in text
    content = json.loads((tmp_path / "population-all.json").read_text())
    assert content["missing"] == missing
    assert len(content["cells"]) == len(compared)
    whole = next(each for each in content["summary"] if each["half"] == "checking")
    assert whole["mean"]["value"] == pytest.approx(2.0 ** (-1.0 / 3.0))
    assert whole["worse_than_nothing"] == ["bad at ε = 1"]
    assert content["gap"]["regression"] is None


def test_fits_of_several_sources_are_not_passed_over(utility, tmp_path):
    compared, _ = utility.compared.compare(known_cells(utility), DEFINITIONS)
    for name, sources in (("good", "a"), ("twin", "b")):
        path = utility.settings.ours_path(name, tmp_path)
        utility.store.Store(path, {"sources": sources}).put({})
    some = [each for each in compared if each.name in ("good", "twin")]
    text = utility.population_report.write_population(some, [], DEFINITIONS, tmp_path, "all")
    assert text.startswith("Our fits are of 2 versions of the sources.")


def test_a_look_is_logged_by_a_row(utility, compared):
    row = utility.population_report.look(compared, date(2026, 1, 2))
    assert row.startswith("| 2026-01-02 | ")
    assert "classification 0.79 [0.00, " in row
    assert "(2 of 6 wholly above 1.2)" in row
    page = (utility.store.ROOT / "docs" / "utility.md").read_text(encoding="utf-8")
    (head,) = (line for line in page.splitlines() if line.startswith("| date | commit |"))
    assert row.count("|") == head.count("|")
    assert (
        utility.population_report.look([each for each in compared if each.half != "checking"]) == ""
    )


CHART = """\
Excess worst-group loss: default parameters / best other method, its parameters chosen by
this very result, on 4 classification and 2 regression tasks that no default was chosen on.
Tasks by ratio; below 1 the defaults are better.

classification          ε = 1             ε = 4
  up to 0.25
  0.25 to 0.5           ██ 2              ██ 2
  0.5 to 0.7
  0.7 to 1
  1 to 1.2
  1.2 to 2              █ 1               █ 1
  above 2
  geometric mean        0.79              0.79
    95 % interval       0.00 to 1993.48   0.00 to 1993.48
  won, lost *           2, 1              2, 1
  wholly above 1.2      1 of 3            1 of 3
  other < 0.001 †       1                 1

regression              ε = 1             ε = 4
  geometric mean        0.80              0.80
    95 % interval       –                 –
  won, lost *           1, 0              1, 0
  wholly above 1.2      0 of 1            0 of 1
  other < 0.0001 †      1                 1
"""


def test_the_chart_of_known_cells(utility, compared, monkeypatch):
    monkeypatch.setattr(utility.chart, "FEW", 3)
    found = utility.chart.chart(compared, {})
    assert found.startswith(CHART)
    assert "Worst in classification: bad at ε = 1 (2.00), bad at ε = 4 (2.00), good" in found
    assert max(map(len, found.splitlines())) <= 100
    assert "no default was chosen on" not in utility.chart.chart(compared, {}, "choosing")


def test_the_chart_has_a_line_for_the_pages_tasks(utility, compared):
    page = {
        ("adult", 1.0): methods(utility, 0.01, 0.02),
        ("compas", 1.0): methods(utility, 0.02, 0.02),
    }
    for each in page.values():
        each |= {method: cell(9.0) for method in utility.ours.PAPERS}
    lines = utility.chart.chart(compared, page).splitlines()
    assert lines[-1].split() == ["2", "classification", "0.71", "–"]


@pytest.mark.parametrize(
    ("number", "unit", "expected"),
    [(0, 1, ""), (1, 1, "█ 1"), (1, 4, "▌ 1"), (3, 2, "█▌ 3"), (12, 1, "█" * 12 + " 12")],
)
def test_bars(utility, number, unit, expected):
    assert utility.chart.bar(number, unit) == expected


def test_bins_hold_every_ratio(utility):
    counts = utility.chart.counts_of([0.01, 0.25, 0.26, 1.0, 1.2, 1.21, 9.0])
    assert counts == [2, 1, 0, 1, 1, 1, 1]
    assert len(utility.chart.bin_names()) == len(counts)


def test_pictures_are_drawn_for_each_half(utility, compared, tmp_path):
    from PIL import Image

    drawn = utility.population_figures.draw_population(compared, tmp_path)
    assert [path.name for path in drawn] == [
        "utility_by_epsilon.png",
        "utility_choosing.png",
        "utility_checking.png",
    ]
    for path in drawn:
        with Image.open(path) as image:
            assert min(image.size) > 200
    assert utility.population_figures.draw_population([], tmp_path) == []


def test_tasks_are_drawn_from_the_best_to_the_worst(utility, compared):
    names = utility.population_figures.sorted_names
    shown = utility.compared.having(compared, half="checking", kind="classification")
    assert names(shown) == ["good", "twin", "bad", "tiny"]


def test_the_page_is_refreshed_between_its_marks(utility, compared, tmp_path):
    pages, page = utility.pages, tmp_path / "docs" / "utility.md"
    page.parent.mkdir()
    page.write_text("before\n" + "\n\nold\n\n".join(pages.MARKS) + "\nafter\n")
    for _ in range(2):
        pages.write_page(compared, (), {}, tmp_path)
    text = page.read_text()
    start, end = pages.MARKS
    shown = pages.results_text(compared, (), {})
    assert text == f"before\n{start}\n\n{shown}\n\n{end}\nafter\n"
    assert utility.chart.chart(compared, {}) in text
    for name in ("utility_by_epsilon.png", "utility_checking.png"):
        assert f"(figures/{name})" in text
        assert (tmp_path / "docs" / "figures" / name).exists()


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def command(utility, monkeypatch, tmp_path):
    """Run the command on made-up fits of two tasks of the real list."""
    main, asked = utility.__main__, []

    def fit_once(task, solver, epsilon, seed):
        asked.append((solver, epsilon, seed))
        return {
            "train_excess": 0.01,
            "test_loss": 0.5,
            "test_accuracy": 0.9,
            "seconds": 0.1,
            "solver": "mgr",
        }

    monkeypatch.setattr(main, "fit_once", fit_once)
    monkeypatch.setattr(main, "load_by_name", lambda name, cache: name)
    monkeypatch.setattr(main, "planned", lambda task, solver, epsilon: solver)
    monkeypatch.setattr(main, "ours_path", lambda name: utility.settings.ours_path(name, tmp_path))
    monkeypatch.setattr(main, "FOLDER", tmp_path)
    from utility.report import collect

    def from_tmp(names, epsilons, n_seeds):
        return collect(names, epsilons, n_seeds, tmp_path)

    monkeypatch.setattr(main, "collect", from_tmp)

    def run(*words):
        asked.clear()
        monkeypatch.setattr(sys, "argv", ["utility", *words])
        main.main()
        return list(asked)

    return run


def test_the_population_is_measured_at_its_budgets(command, capsys):
    asked = command("--population", "checking", "--task", "swings", "--seeds", "2")
    assert len(asked) == 3 * 4 * 2
    assert {solver for solver, _, _ in asked} == {"auto", "mgr", "phased-erm"}
    assert {epsilon for _, epsilon, _ in asked} == {1.0, 2.0, 4.0, 8.0}
    assert "Not compared, as not every method has been run: 4 cells" in capsys.readouterr().out
    assert command("--population", "all", "--task", "swings", "--seeds", "2") == []
    assert len(command("--population", "all", "--task", "swings", "--seeds", "3")) == 3 * 4
    asked = command("--population", "checking", "--task", "gsoep-income", "--quick")
    assert len(asked) == 4 * 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--population", "checking", "--task", "adult"), "--task must be one of "),
        (("--task", "swings"), "--task must be one of "),
        (("--seeds", "0"), "--seeds must be at least 1, got 0."),
        (("--population", "choosing", "--docs"), "--docs needs --population checking or all"),
        (("--docs",), "--docs needs --population checking or all"),
        (("--population", "all", "--report", "--docs"), "missing: "),
    ],
)
def test_what_cannot_be_is_refused(command, capsys, words, message):
    with pytest.raises(SystemExit):
        command(*words)
    assert message in capsys.readouterr().err
