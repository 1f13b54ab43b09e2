"""What ``benchmarks/utility`` says of measured cells: ratios, means, sentences, chart, pictures."""

import json
import math
import sys
import types
from datetime import date

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from tests.helpers.benchmarks import utility_with

EPSILONS = (1.0, 4.0)


@pytest.fixture(scope="module")
def utility():
    """The package with the modules of the report."""
    with utility_with("__main__") as package:
        yield package


# --- means and intervals -------------------------------------------------------------------------


def test_ratios_are_floored(utility):
    ratio = utility.summary.ratio
    assert ratio([1e-6, 2e-6, 0.0], [5e-4, 1e-4, -1e-3]) == (1.0, 1.0, 1.0)
    assert ratio([4e-3] * 3, [1e-5] * 3) == pytest.approx((4.0, 4.0, 4.0))


def test_the_interval_of_a_ratio_covers_as_often_as_it_says(utility):
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        ours, theirs = rng.normal(0.02, 0.004, size=5), rng.normal(0.04, 0.004, size=5)
        _, low, high = utility.summary.ratio(ours, theirs)
        hits += low <= 0.5 <= high
    assert 0.925 < hits / 2000 < 0.975


def test_an_interval_is_students(utility):
    interval = utility.summary.interval
    assert interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 4.302653 / math.sqrt(3.0)))
    assert math.isnan(interval([None, None]).mean)
    assert interval([7.0]) == (7.0, 0.0)


def test_a_mean_of_clusters_is_that_of_its_values(utility):
    clustered = utility.summary.clustered
    found = clustered([1.0, 2.0, 6.0], ["a", "a", "b"])
    # residuals -2, -1 and 3 add up to -3 and 3: variance 2/1 * 18 / 9
    assert found == (3.0, 2.0, 2)
    assert found.half == pytest.approx(12.7062047 * 2.0)
    values = [0.3, 1.0, 2.0, 2.5]
    alone = clustered(values, list("abcd"))
    assert (alone.mean, alone.half) == pytest.approx(utility.summary.interval(values))
    # repeating a cell of a source does not narrow the interval, and one source tells nothing
    assert clustered(values * 3, list("abcd") * 3) == pytest.approx(alone)
    assert utility.summary.geometric_mean([0.5, 2.0], ["a", "a"]) == (1.0, 0.0, math.inf)


def test_intervals_over_sources_cover_as_often_as_they_say(utility):
    rng, sources = np.random.default_rng(0), np.repeat(np.arange(12), [1, 2, 3] * 4)
    hits = 0
    for _ in range(1000):
        logs = rng.normal(size=12)[sources] + 0.5 * rng.normal(size=len(sources))
        _, low, high = utility.summary.geometric_mean(np.exp(logs), list(map(str, sources)))
        hits += low <= 1.0 <= high
    assert 0.91 < hits / 1000 < 0.97


def test_a_gap_is_the_difference_of_geometric_means(utility):
    gap = utility.summary.gap
    ours, theirs = ([0.5, 2.0, 1.0], ["a", "b", "c"]), ([0.25, 1.0, 0.5], ["d", "e", "f"])
    value, half = gap(ours, theirs)
    assert value == pytest.approx(0.5)
    error = math.log(2.0) / math.sqrt(3.0)
    variances = np.array([error, 0.5 * error]) ** 2
    freedom = 2.0 * variances.sum() ** 2 / (variances**2).sum()
    assert half == pytest.approx(t.ppf(0.975, freedom) * math.sqrt(variances.sum()))
    assert gap(([0.5, 2.0], ["a", "a"]), theirs)[1] == math.inf
    assert gap(([1.0, 1.0], ["a", "b"]), ([2.0, 2.0], ["c", "d"])) == pytest.approx((-1.0, 0.0))


# --- cells ---------------------------------------------------------------------------------------


def definition(name, half="checking", kind="classification", source=None):
    return types.SimpleNamespace(
        name=name, half=half, kind=kind, source=source or name, asks=f"What of {name}?"
    )


def cell(excess, loss=0.5, seconds=1.0, spread=0.01, **more):
    """Three seeds about a mean."""
    return {
        "train_excess": [excess * (1.0 - spread), excess, excess * (1.0 + spread)],
        "test_loss": [loss - 1e-4, loss, loss + 1e-4],
        "test_accuracy": [0.9] * 3,
        "seconds": [seconds] * 3,
        "parameters": {"solver": "mgr"},
    } | more


def methods(utility, own, peer, *, kind="classification", phased=None, **more):
    """What is measured at one budget, the best peer being gradient descent."""
    run = utility.peers.run
    found = {
        method: cell(100.0 * peer)
        for method in run.METHODS
        if run.applies(method, "of the population", kind)
    }
    found["dp-gd average"] = cell(peer, fresh_excess=[1.2 * peer] * 3)
    found["ours (auto)"] = cell(own, **more)
    found["mgr"], found["phased-erm"] = cell(own), cell(phased or own)
    if kind == "regression":
        found["moments"] = cell(2.0 * own)
    found[run.NOTHING] = cell(50.0 * peer)
    return found


DEFINITIONS = (
    definition("good", source="one survey"),
    definition("twin", source="one survey"),
    *map(definition, ("bad", "tiny")),
    *(definition(name, kind="regression") for name in ("wages", "rents")),
    *(definition(name, "choosing") for name in ("known", "seen", "open")),
)


@pytest.fixture
def frame(utility):
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
    return utility.frame.frame_of(cells, DEFINITIONS)


@pytest.fixture
def compared(utility, frame):
    return utility.frame.complete(frame)


def of(frame, name, epsilon=1.0):
    (found,) = frame[(frame.name == name) & (frame.epsilon == epsilon)].itertuples()
    return found


def part(frame, half, kind="classification"):
    return frame[(frame.half == half) & (frame.kind == kind)]


def test_cells_are_compared_with_the_floor_of_their_kind(compared):
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


def test_what_makes_a_cell_complete(utility):
    cells = {
        ("good", 1.0): methods(utility, 0.01, 0.02),
        ("wages", 1.0): methods(utility, 0.01, 0.02, kind="regression"),
    }
    # neither the papers' schedules nor, for numbers, diffprivlib are waited for
    assert not any(method.startswith("paper") for method in cells["good", 1.0])
    assert "diffprivlib" not in cells["wages", 1.0]
    cells["good", 1.0][utility.peers.run.WORST_GROUP] = cell(1e-9)
    del cells["wages", 1.0]["moments"]
    found = utility.frame.frame_of(cells, DEFINITIONS)
    assert found.is_complete.all()
    assert of(found, "good").peer == "dp-gd average"  # the optimum is not private
    # the better own solver is not known while one of them is missing
    assert pd.isna(of(found, "wages").own)
    del cells["good", 1.0]["dp-newton"]
    assert utility.frame.frame_of(cells, DEFINITIONS).is_complete.tolist() == [False, True]


def test_a_summary_leaves_out_what_is_under_the_floor(utility, compared):
    summary_of = utility.frame.summary_of
    row = summary_of(part(compared, "checking"))
    assert (row.n_cells, row.n_left_out, row.n_sources) == (6, 2, 2)
    assert row.mean.value == pytest.approx(2.0 ** (-1.0 / 3.0))
    assert (row.n_won, row.n_lost, row.n_above, row.n_left_out_above) == (4, 2, 2, 2)
    assert row.worst == "bad at ε = 1"
    even = summary_of(part(compared, "choosing"))
    assert (even.n_cells, even.n_won, even.n_lost) == (4, 2, 0)
    one = summary_of(part(compared, "checking"), 4.0)
    assert (one.n_cells, one.epsilon, one.worst) == (3, 4.0, "bad")
    assert summary_of(part(compared, "choosing", "regression")) is None
    found = [row[:3] for row in utility.frame.summaries(compared)]
    assert found[:3] == [("choosing", "classification", each) for each in (None, *EPSILONS)]
    assert len(found) == 9


def test_the_gap_is_checking_less_choosing(utility, compared):
    value, half = utility.frame.gap_of(compared, "classification")
    assert value == pytest.approx(2.0 ** (-1.0 / 3.0) - 2.0 ** (-0.5))
    assert half > 0.1
    assert utility.frame.gap_of(compared, "regression") is None


def test_the_choice_is_judged_by_the_better_own_solver(utility, compared):
    found = utility.frame.choice_of(part(compared, "checking"))
    assert (found.n_within, found.n_cells) == (6, 8)
    assert of(compared, "bad").own == "phased-erm"
    assert found.mean.value == pytest.approx(2.0**0.25)
    # with phased ERM the bad task would be at 1, like the best peer
    assert found.hindsight.value == pytest.approx(0.5 ** (2.0 / 3.0))


def beside_fixed(utility, name, epsilon, ours, others, *, half="checking", best=0.02):
    """A frame of one cell with a best peer in hindsight; `others` are excesses of fixed ones."""
    cells = methods(utility, ours, best)
    for rank, (grid, excess) in enumerate(others.items()):
        fixed = utility.frame.in_advance(grid)
        cells[fixed] = cell(excess, choosing_excess=0.1 + rank)
    cells[utility.peers.run.NOTHING] = cell(0.02)
    return utility.frame.frame_of({(name, epsilon): cells}, [definition(name, half)])


def test_the_defaults_stand_beside_the_peer_that_did_best_on_the_choosing_half(utility):
    grids = utility.peers.run.GRIDS
    first, last = (f"{grids[place]}, fixed in advance" for place in (0, -1))
    others = dict.fromkeys(grids[::-1], 0.08)
    others[grids[0]] = 0.01  # best here, not where it is chosen
    parts = [
        beside_fixed(utility, "one", 1.0, 0.04, others),
        beside_fixed(utility, "two", 1.0, 0.02, others),
        beside_fixed(utility, "one", 4.0, 0.16, others),
        beside_fixed(utility, "not run", 1.0, 0.04, {}),
        beside_fixed(utility, "chosen on", 1.0, 0.04, others, half="choosing"),
    ]
    frame = pd.concat(parts, ignore_index=True)
    assert next(iter(frame.in_advance[0])) == last
    rows = utility.frame.in_advance_rows(frame)
    assert [row[:3] for row in rows] == [
        ("classification", None, 3),
        ("classification", 1.0, 2),
        ("classification", 4.0, 1),
    ]
    at_one = rows[1]
    assert at_one.best == last
    assert at_one.best_mean.value == pytest.approx(np.sqrt(0.5 * 0.25))
    assert at_one.means[first].value == pytest.approx(np.sqrt(4.0 * 2.0))
    assert (at_one.n_won, at_one.n_lost) == (2, 0)
    assert (rows[2].n_won, rows[2].n_lost) == (0, 1)
    # predicting nothing needs no setting, and stands last
    assert list(at_one.means)[-1] == utility.peers.run.NOTHING
    best = f"| classification | 1 | 2 | {at_one.best_mean} | {grids[-1]} | 2 | 0 | 2.83 | 0.35 |"
    assert best in utility.report.short_report(frame)
    lines = utility.chart.chart(frame).splitlines()
    (fixed,) = (line for line in lines if line.startswith("  fixed in advance ‡"))
    assert fixed.split()[-2:] == ["0.35", "2.00"]
    assert sum(line.startswith("‡") for line in lines) == 1
    # cells count whatever a peer does in hindsight, whose means are what they are without these
    frame = beside_fixed(utility, "one", 1.0, 0.04, others, best=1e-5)
    assert frame.is_under_floor[0]
    assert utility.frame.in_advance_rows(frame)[1].best_mean.value == pytest.approx(0.5)


# --- report, chart, pictures ---------------------------------------------------------------------


def test_the_report_names_what_is_bad(utility, frame, tmp_path):
    for name, sources in (("good", "a"), ("twin", "b")):
        path = utility.store.ours_path(name, tmp_path)
        utility.store.Store(path, {"sources": sources}).put({})
    text = utility.report.write_report(frame, DEFINITIONS, tmp_path, "population-all")
    assert (tmp_path / "population-all.md").read_text() == text + "\n"
    for sentence in (
        "Our fits are of 3 versions of the sources.",
        "been run: 2 cells (open at ε = 1, 4).",
        "| checking | classification | all | 6 | 2 | 0.79 [0.00, ",
        "Classification, geometric mean of the checking half less that of the choosing half: +0.09",
        "Whole interval above 1.2: 2 cells (bad at ε = 1, 4).",
        "beyond the interval: 1 cell (bad at ε = 1).",
        "under the floor: 4 cells; with a ratio to the floor that is wholly above 1.2: 4 cells "
        "(tiny at ε = 1, 4; rents at ε = 1, 4).",
        "| checking | classification | 8 | 6 of 8 (75%) |",
        "bad at ε = 1 (chose mgr, phased-erm better, 2.00)",
        "median 1.00, most 9.00 (bad at ε = 4)",
        "have 1.20 times the excess shown",
        "| tiny | What of tiny? | (5.00 [",
    ):
        assert sentence in text
    assert "fixed in advance" not in text
    content = json.loads((tmp_path / "population-all.json").read_text())
    assert content["missing"] == ["open at ε = 1", "open at ε = 4"]
    assert len(content["cells"]) == len(frame)
    whole = next(each for each in content["summary"] if each["half"] == "checking")
    assert whole["mean"]["value"] == pytest.approx(2.0 ** (-1.0 / 3.0))
    worse = [each["at"] for each in content["cells"] if each["is_worse_than_nothing"]]
    assert worse == ["bad at ε = 1"]
    assert content["gap"]["regression"] is None


def test_a_look_is_logged_by_a_row(utility, compared):
    row = utility.report.look(compared, date(2026, 1, 2))
    assert row.startswith("| 2026-01-02 | ")
    assert "classification 0.79 [0.00, " in row
    assert "(2 of 6 wholly above 1.2)" in row
    page = utility.report.PAGE.read_text(encoding="utf-8")
    (head,) = (line for line in page.splitlines() if line.startswith("| date | commit |"))
    assert row.count("|") == head.count("|")
    assert utility.report.look(compared[compared.half != "checking"]) == ""


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
    found = utility.chart.chart(compared)
    assert found.startswith(CHART)
    assert "Worst in classification: bad at ε = 1 (2.00), bad at ε = 4 (2.00), good" in found
    assert "fixed in advance" not in found
    assert max(map(len, found.splitlines())) <= 100
    assert "no default was chosen on" not in utility.chart.chart(compared, None, "choosing")
    counts = utility.chart.counts_of([0.01, 0.25, 0.26, 1.0, 1.2, 1.21, 9.0])
    assert counts == [2, 1, 0, 1, 1, 1, 1]
    assert len(utility.chart.bin_names()) == len(counts)


@pytest.mark.parametrize(
    ("number", "unit", "expected"),
    [(0, 1, ""), (1, 1, "█ 1"), (1, 4, "▌ 1"), (3, 2, "█▌ 3"), (12, 1, "█" * 12 + " 12")],
)
def test_bars(utility, number, unit, expected):
    assert utility.chart.bar(number, unit) == expected


def test_pictures_are_drawn_for_each_half(utility, compared, tmp_path):
    from PIL import Image

    pictures = utility.pictures
    drawn = pictures.draw_population(compared, tmp_path)
    assert [path.name for path in drawn] == [
        "utility_by_epsilon.png",
        "utility_choosing.png",
        "utility_checking.png",
    ]
    for path in drawn:
        with Image.open(path) as image:
            assert min(image.size) > 200
    assert pictures.draw_population(compared[:0], tmp_path) == []
    # from the best to the worst
    assert pictures.sorted_names(part(compared, "checking")) == ["good", "twin", "bad", "tiny"]


# --- the package's own data sets -----------------------------------------------------------------


@pytest.fixture
def own(utility):
    """Won, lost, incomplete, worse than nothing, and above its planning bound."""

    def cells(ours, peer, nothing, bound):
        run = utility.peers.run
        return {
            "ours (auto)": cell(ours, predicted_excess=bound) | {"train_excess": [ours] * 2},
            "oco": cell(ours / 2.0),
            **{method: cell(0.9) for method in run.METHODS},
            "dp-gd average": cell(peer, parameters={"clip": 0.5}),
            run.NOTHING: cell(nothing),
            run.WORST_GROUP: cell(0.0),
        }

    found = {
        ("compas", 0.5): cells(0.1, 0.1, 0.1, 0.2),
        ("compas", 1.0): cells(0.01, 0.005, 0.1, 0.04),
        ("compas", 2.0): cells(0.002, 0.004, 0.1, 0.02),
        ("adult", 1.0): cells(0.02, 0.02, 0.3, 0.06),
        ("cps-weekly-wages", 1.0): cells(0.05, 0.0001, 0.03, 0.04),
        ("cps-weekly-wages", 2.0): cells(0.0005, 0.0001, 0.03, 0.03),
    }
    del found["adult", 1.0]["diffprivlib"]
    return utility.frame.frame_of(found)


BOUNDS = """\
| task | bound at ε = 1 | measured at ε = 1 | ratio at ε = 0.5 | ratio at ε = 1 | ratio at ε = 2 |
| --- | --- | --- | --- | --- | --- |
| compas | 0.04 | 0.0100 | 2.0 | 4.0 | 10.0 |
| adult | 0.06 | 0.0200 | – | 3.0 | – |
| cps-weekly-wages | 0.04 | 0.0500 | – | 0.8 | 60.0 |
| geometric mean |  |  | 2.0 | 2.1 | 24.5 |

Measured above its bound: cps-weekly-wages at ε = 1."""


def test_the_own_data_sets_are_reported_in_full(utility, own, tmp_path):
    text = utility.report.write_report(own, (), tmp_path, "table")
    for sentence in (
        "dp-gd average (clip 0.5)",
        "not every method has been run: 1 cell (adult at ε = 1).",
        "Classification, ε ≥ 1: ours / best peer has geometric mean **1.00** over 2 cells; worst "
        "cell compas at ε = 1: 2.00 [",
        "won 1, lost 1 beyond the 95 % interval. With no excess at all the mean would be 0.22",
        "Regression, ε ≥ 1: ours / best peer has geometric mean **7.07**",
        "beyond the interval: 1 cell (cps-weekly-wages at ε = 1).",
        "compas at ε = 1 (chose mgr, oco better, 2.00)",
        BOUNDS,
    ):
        assert sentence in text
    # no cell is left out, and excess below the floor counts as much
    assert not own.is_under_floor.any()
    assert of(own, "cps-weekly-wages", 2.0).ratio == (1.0, 1.0, 1.0)
    content = json.loads((tmp_path / "table.json").read_text())
    assert content["cells"][0]["cell"]["dp-gd average"]["parameters"] == {"clip": 0.5}
    assert "No bounds were kept" in utility.report.bounds_table(own[:0])


def test_the_chart_has_a_line_for_the_own_data_sets(utility, compared, own):
    lines = utility.chart.chart(compared, utility.frame.complete(own)).splitlines()
    assert lines[-2].split() == ["1", "classification", "2.00", "–"]
    assert lines[-1].split() == ["1", "regression", "50.00", "–"]


# --- the page ------------------------------------------------------------------------------------


def test_the_page_is_refreshed_between_its_marks(utility, frame, compared, own, tmp_path):
    report, page = utility.report, tmp_path / "results.md"
    page.write_text("before\n" + "\n\nold\n\n".join(report.MARKS) + "\nafter\n")
    for _ in range(2):
        report.write_page(frame, own, page)
    text = page.read_text()
    start, end = report.MARKS
    assert text == f"before\n{start}\n\n{report.results_text(frame, own)}\n\n{end}\nafter\n"
    assert utility.chart.chart(compared, utility.frame.complete(own)) in text
    assert "On the package's own data sets:" in text
    for name in ("utility_by_epsilon.png", "utility_checking.png"):
        assert f"(figures/{name})" in text
        assert (tmp_path / "figures" / name).exists()


@pytest.mark.parametrize("text", ["", "{0}", "{1}", "{0}{0}{1}", "{1} {0}"])
def test_a_page_without_its_marks_is_left_alone(utility, tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text.format(*utility.report.MARKS))
    with pytest.raises(ValueError, match="marks"):
        utility.report.replace_between_marks(page, "new")
    assert page.read_text() == text.format(*utility.report.MARKS)


def test_the_real_page_has_its_marks(utility):
    start, end = utility.report.MARKS
    page = utility.report.PAGE
    before, _, after = page.read_text(encoding="utf-8").partition(start)
    assert after.count(end) == 1
    assert end not in before


def test_the_docs_say_what_the_results_say(utility):
    page = (utility.store.ROOT / "docs" / "utility.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) > 5
    assert not set(rows) - set(utility.report.PAGE.read_text(encoding="utf-8").splitlines())


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def command(utility, monkeypatch, tmp_path):
    """Run the command on made-up fits of tasks of the real list."""
    main, asked = utility.__main__, []

    def fit_once(task, solver, epsilon, seed):
        asked.append((solver, epsilon, seed))
        figures = {"train_excess": 0.01, "test_loss": 0.5, "test_accuracy": 0.9, "seconds": 0.1}
        return figures | {"solver": "mgr"}

    def collect(names, epsilons, n_seeds):
        return utility.frame.collect(names, epsilons, n_seeds, tmp_path)

    monkeypatch.setattr(main, "fit_once", fit_once)
    monkeypatch.setattr(main, "load_by_name", lambda name, cache: name)
    monkeypatch.setattr(main, "planned", lambda task, solver, epsilon: solver)
    monkeypatch.setattr(main, "ours_path", lambda name: utility.store.ours_path(name, tmp_path))
    monkeypatch.setattr(main, "FOLDER", tmp_path)
    monkeypatch.setattr(main, "collect", collect)

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
    # what has been measured is not measured again
    assert command("--population", "all", "--task", "swings", "--seeds", "2") == []
    assert len(command("--population", "all", "--task", "swings", "--seeds", "3")) == 3 * 4
    asked = command("--population", "checking", "--task", "gsoep-income", "--quick")
    assert len(asked) == 4 * 3
    # the own data sets are measured by all solvers, at their budgets
    assert len(command("--task", "compas", "--seeds", "1")) == 8 * 5


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
