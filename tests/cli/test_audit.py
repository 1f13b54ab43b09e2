"""Audits from the command line: verdicts, files, exit codes, budgets."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg.cli.audit import _one_line
from sklearn_dpwg.cli.tables import FAILS
from sklearn_dpwg.inspection import AuditResult, GroupAudit
from sklearn_dpwg.ledger import PrivacyLedger
from tests.cli.conftest import SECRET, run
from tests.cli.test_wrong_inputs import answer_to, changed, here, no_noise  # noqa: F401

TASK = "--groups race --group-labels x,y --target hired --classes no,yes"


@pytest.fixture
def decisions(tmp_path: Path) -> Path:
    """Return decisions that favour x: rates 0.6 and 0.3, or what a test asks for."""
    return write(tmp_path / "decisions.csv", 0.6, 0.3)


def write(path: Path, x: float, y: float, n_records: int = 2000) -> Path:
    rng = np.random.default_rng(0)
    race = np.repeat(["x", "y"], n_records // 2)
    score = np.concatenate([np.arange(n_records // 2) / (n_records // 2)] * 2)
    picked = score < np.where(race == "x", x, y)
    table = pd.DataFrame(
        {
            "race": race,
            "score": np.where(picked, 0.9, 0.1),
            "decided": np.where(picked, "yes", "no"),
            "hired": rng.choice(["no", "yes"], n_records),
        }
    )
    table.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("rates", "options", "code", "answer"),
    [
        ((0.6, 0.3), "--fail-below 0.8", 4, "fails"),
        ((0.6, 0.6), "--fail-below 0.8", 0, "passes"),
        ((0.6, 0.48), "--fail-below 0.8", 5, "cannot tell"),
        ((0.6, 0.3), "--fail-below 0.3", 0, "passes"),
        ((0.6, 0.3), "", 0, "fails"),
    ],
)
def test_the_verdict_is_the_exit_code_where_that_is_asked_for(
    tmp_path, rates, options, code, answer
):
    path = write(tmp_path / "decisions.csv", *rates)
    result = run("audit", path, "--predictions", "decided", *TASK.split(), *options.split())
    assert result.exit_code == code, result.stderr
    assert result.stdout.startswith(f"Verdict: {answer}. ")
    assert "\nSelected: whoever is decided 'yes', not 'no'.\n" in result.stdout
    assert "Privacy: epsilon = 1 at" in result.stdout
    assert result.stderr == ""


def test_scores_and_predictions_say_the_same(decisions):
    by_column = [
        run("audit", decisions, *each, *TASK.split(), "--epsilon", "inf")
        for each in (("--scores", "score"), ("--predictions", "decided"))
    ]
    assert by_column[0].stdout == by_column[1].stdout
    assert "none: these statistics are unprotected" in by_column[0].stdout


def test_cells_of_two_columns_read_alike_in_sentence_and_table(decisions):
    columns = "--groups race --groups decided --group-labels x/no,x/yes,y/no,y/yes"
    task = f"{columns} --target hired --classes no,yes --epsilon inf"
    shown = run("audit", decisions, "--predictions", "decided", *task.split()).stdout
    assert "x/yes of 100.0 %: a ratio of these two of 0.00" in shown
    assert "('" not in shown
    asked = [*task.split(), "--leave-out", "x/no", "--leave-out", "y/no", "--reference", "x/yes"]
    judged = run("audit", decisions, "--predictions", "decided", *asked)
    assert "they are left out on request: x/no and y/no." in judged.stdout
    lines = {line.split()[0]: line.split("  ")[-1] for line in judged.stdout.splitlines() if line}
    assert [lines[one].strip() for one in ("x/no", "y/no", "y/yes")] == [
        *("not judged", "not judged", "passes")
    ]
    assert "Each group is compared with x/yes alone." in judged.stdout
    assert "compared with" not in shown


def test_no_number_is_shown_of_whom_there_is_none_and_no_unjudged_group_may_be_worst(decisions):
    task = "--groups race --group-labels x,y,typo --target hired --classes no,yes --epsilon inf"
    asked = ("--predictions", "decided", *task.split())
    shown = run("audit", decisions, *asked).stdout
    for text in (shown, run("audit", decisions, *asked, "--leave-out", "typo").stdout):
        assert re.search(r"Worst off by error rate may be: [xy, ]+; its", text)
        assert "nan" not in text
        assert "inf]" not in text
    assert "typo" in shown.partition("Not judged")[2]
    pd.read_csv(decisions).groupby("race").head(5).to_csv(decisions, index=False)
    few = run("audit", decisions, *asked, "--fail-below", "0.8")
    assert few.stdout.startswith("Verdict: cannot tell. Fewer than two groups can be judged. Not")
    assert "Worst off by error rate may be nobody who is judged." in few.stdout
    assert few.exit_code == 5
    one = run("audit", write(decisions, 0.6, 0.3), *asked, "--min-share", "0.6")
    assert "may be nobody who is judged" in one.stdout
    assert "[0.000, 1" not in one.stdout
    pd.read_csv(decisions).query("race == 'x'").to_csv(decisions, index=False)
    single = run("audit", decisions, *(word.replace("x,y,typo", "x") for word in asked))
    assert (
        "--group-labels must name at least two groups, as one has no ratio, got 1" in single.stderr
    )
    assert "nan" not in few.stdout


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ("--metric selection_rate --fail-above 0.05", {"within": 0.05}),
        ("--fail-above 0.05", {"within": 0.05}),
        ("--fail-above 0.5", {"within": 0.5}),
        ("--fail-below 0.8 --of records", {"at_least": 0.8, "of": "records"}),
        ("--metric equalized_odds --fail-above 0.4", {"metric": "equalized_odds", "within": 0.4}),
        ("--metric selection_rate,error_rate --fail-below 0.4",
         {"metric": ["selection_rate", "error_rate"], "at_least": 0.4}),
    ],
)  # fmt: skip
def test_a_verdict_may_be_asked_all_that_python_may_be_asked(decisions, tmp_path, options, asked):
    """Print, page, stored result and exit code are of that question."""
    page, text = tmp_path / "page.md", tmp_path / "result.json"
    task = f"--predictions decided {TASK} --markdown {page} --json {text} {options}"
    found = run("audit", decisions, *task.split())
    verdict = AuditResult.from_json(text.read_text()).verdict(**asked)
    assert found.stdout.startswith(f"Verdict: {verdict.answer}. {verdict.sentence}\n")
    assert found.exit_code == {"passes": 0, "fails": 4, "cannot tell": 5}[verdict.answer]
    assert verdict.sentence[:40] in page.read_text().replace("\\", "")
    (header,) = [line for line in found.stdout.splitlines() if line.startswith("group ")]
    odds, within = asked.get("metric") == "equalized_odds", "within" in asked
    assert ("points behind" in header, "points apart in true positive rate" in header) == (
        within and not odds, within and odds
    )  # fmt: skip
    assert ("impact ratio" in header) != within
    assert ("true positive rate" in header) == odds
    worst = "true positive rate" if odds else "error rate"
    worst = "selection rate" if "--metric selection_rate --" in options else worst
    assert f"Worst off by {worst} may be" in found.stdout
    again = run("verdict", text, *options.split())
    assert again.stdout.partition("\nPrivacy")[0] in found.stdout
    assert f"By {worst}, " in page.read_text()
    if within:
        gaps = AuditResult.from_json(text.read_text()).differences(
            **{"metric": "selection_rate"} | asked
        ) if not odds else ()  # fmt: skip
        for gap in gaps:
            cell = [f"{100 * end:.1f}" for end in (gap.estimate, gap.low, gap.high)]
            assert f"{cell[0]} [{cell[1]}, {cell[2]}]" in found.stdout


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ("--fail-below 0.8", {"at_least": 0.8}),
        ("--metric equalized_odds --fail-above 0.2 --reference 1",
         {"metric": "equalized_odds", "within": 0.2, "reference": 1}),
        ("--leave-out 2 --min-share 0.1", {"leave_out": [2], "min_share": 0.1}),
        ("--of records", {"of": "records"}),
    ],
)  # fmt: skip
def test_a_stored_audit_answers_all_later_questions(tmp_path, options, asked):
    rng = np.random.default_rng(0)
    groups, truth = np.repeat([1, 2, 3], 400), rng.integers(2, size=1200)
    result = GroupAudit(1.0, group_labels=[1, 2, 3]).run(truth, groups < 3, groups)
    (tmp_path / "audit.json").write_text(result.to_json())
    found = run("verdict", tmp_path / "audit.json", *options.split())
    known = result.verdict(**asked)
    assert found.stdout.startswith(f"Verdict: {known.answer}. {known.sentence}\n")
    codes = {"passes": 0, "fails": 4, "cannot tell": 5}
    assert found.exit_code == (codes[known.answer] if "--fail" in options else 0)
    lines = [line for line in found.stdout.splitlines() if line.startswith("1 ")]
    assert lines[0].count("reference") == ("reference" in asked) * 3


def test_records_without_group_may_be_left_out(decisions):
    table = pd.read_csv(decisions)
    table.loc[table.index % 10 == 0, "race"] = None
    table.to_csv(decisions, index=False)
    asked = "--missing-label unknown --leave-out unknown --epsilon inf --no-outcomes"
    task = "--groups race --group-labels x,y --classes no,yes"
    found = run("audit", decisions, "--predictions", "decided", *task.split(), *asked.split())
    assert found.exit_code == 0, found.stderr
    assert "Not judged, as they are left out on request: unknown." in found.stdout


def test_reports_are_written_and_hold_the_result_alone(decisions, tmp_path):
    names = ("a.html", "a.json", "a.md")
    html, text, markdown = (tmp_path / name for name in names)
    arguments = [
        *("audit", decisions, "--scores", "score", *TASK.split(), "--title", "Who is hired"),
        *("-o", html, "--json", text, "--markdown", markdown, "--note", "as of May"),
        *("--ledger", tmp_path / "l.db"),
    ]
    result = run(*arguments, "--ledger-epsilon", 1.5, "--ledger-delta", 1e-6)
    assert result.exit_code == 0, result.stderr
    for path in (html, markdown):
        content = path.read_text(encoding="utf-8")
        assert "Who is hired" in content
        assert "as of May" in content
        assert "dpwg audit" in content.replace("\\", "")
    again = AuditResult.from_json(text.read_text(encoding="utf-8"))
    assert again.group_labels == ("x", "y")
    assert again.classes == ("no", "yes")
    assert abs(np.array(again.counts).sum() - 2000) < 200
    assert "has spent epsilon = 1 of 1.5" in result.stdout
    # the ledger has no room for another
    refused = run(*arguments, "--overwrite")
    assert refused.exit_code == 3
    assert "Nothing was spent" in refused.stderr
    assert "this audit (epsilon=1 at" in refused.stderr
    assert "1 audit(s) so far have" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert len(PrivacyLedger(1.5, 1e-6, path=tmp_path / "l.db").rows) == 1


def test_a_model_is_audited_on_its_own_records_and_on_others(folder, tmp_path):
    model = ("--model", folder / "model.skops", "--schema", folder / "schema.toml")
    costs = {}
    for which in ("--held-out", "--same-records"):
        path = tmp_path / f"{which}.json"
        result = run("audit", folder / "people.csv", *model, which, "--json", path)
        assert result.exit_code == 0, result.stderr
        costs[which] = json.loads(path.read_text())["privacy_"]["epsilon"]
    assert 0.999 < costs["--held-out"] <= 1.0
    assert 1.2 < costs["--same-records"] < 2.0


AUDIT = f"audit people.csv --predictions hired2 {TASK}"
ALONE = "audit people.csv --predictions hired2 --groups race --group-labels x,y --classes no,yes"
PLAN = "plan --group-sizes a=50,b=40"
WRONG = [
    (f"audit people.csv {TASK}", "audit needs decisions, from one of --scores COLUMN, --pred"),
    (f"{AUDIT} --scores age", "audit needs decisions, from one of"),
    (f"{AUDIT} --held-out", "of a --model, and of nothing else, it must be said"),
    (f"audit people.csv --model model.skops {TASK}", "it must be said whether it was fitted"),
    (f"audit people.csv --scores wage {TASK}", r"'wage' \(scores\): 1,200 outside 0 to 1"),
    (f"audit people.csv --scores town {TASK}", r"'town' \(scores\): 411 missing; 789 not a number"),
    (f"audit people.csv --predictions sex {TASK}", r"'sex' \(predictions\): 1,200 not one of the"),
    (f"audit people.csv --predictions town {TASK}", r"'town' \(predictions\): 411 missing; 789"),
    (f"audit people.csv --predictions hired {TASK}", "target must be another column than that of"),
    (f"audit people.csv --scores ag {TASK}", "columns of --scores, and has no 'ag': did you mean"),
    (f"{AUDIT} --metric selection", "metric must be one of selection_rate, .* got 'selection'"),
    (f"{AUDIT} --fail-below 2", "--fail-below must be above 0 and at most 1, got 2"),
    (f"{AUDIT} --epsilon 0", "epsilon must be positive"),
    (f"{AUDIT} --threshold median", "'median' is not a valid float"),
    (f"{AUDIT} --sizes secret", "'secret' is not one of 'hidden', 'public'"),
    (f"{AUDIT} --score-edges 0.2,x", "--score-edges must be numbers with commas, got '0.2,x'"),
    (f"{AUDIT} --score-edges 0.2,0.7", "--score-edges"),
    (f"{AUDIT} --classes no,yes,maybe", "classes must be two for an audit"),
    (f"{AUDIT} --confidence 2", "confidence"),
    (f"{AUDIT} --group-labels x", "'x'"),
    (f"{AUDIT} -o people.csv --overwrite", "people.csv must be a file of its own, and it is read"),
    (f"{AUDIT} -o a.html --json a.html", "a.html must be a file of its own, and it is written tw"),
    ("audit people.csv --predictions hired2 --groups race --target hired --classes no,yes",
     "group_labels must be declared"),
    ("audit people.csv --predictions hired2 --groups race --target hired --group-labels x,y",
     "classes must be declared, as an audit is about two of them"),
    (f"{AUDIT} --no-outcomes", "target must be left out where --no-outcomes is said"),
    (f"{ALONE} --metric error_rate", "metric must be selection_rate where no outcomes are named"),
    (f"{ALONE} --losses log_loss", "losses must be left out of an audit without outcomes"),
    (f"{ALONE} --score-edges 0.5", "--score-edges must be left out of an audit without outcomes"),
    (f"{AUDIT} --leave-out x", "--leave-out must leave 2 of the groups .* at least, got"),
    (f"{AUDIT} --fail-above 1", "--fail-above must be above 0 and below 1, got 1"),
    (f"{AUDIT} --fail-above 0.1 --fail-below 0.8", "--fail-above must be left out where --fail"),
    (f"{AUDIT} --metric selection_rate,odds", "metric must be one of .*equalized_odds, got 'odds'"),
    (f"{AUDIT} --of sample", "'sample' is not one of 'process', 'records'"),
    (f"{ALONE} --metric equalized_odds", "where no outcomes are named .*got 'equalized_odds'"),
    (f"{PLAN} --audit --group-labels a,c", "--group-sizes must be those of --group-labels "),
    (f"{AUDIT} --leave-out z", "--leave-out must be of the groups .*, got 'z'"),
    (f"{AUDIT} --reference z", "reference must be of the groups .*, got 'z'"),
    (f"{AUDIT} --reference x --leave-out x", "reference must be a group that is not left out, got"),
    (f"{AUDIT} --min-share 1", "--min-share must be at least 0 and below 1, got 1"),
    (f"{AUDIT} --min-share few", "'few' is not a valid float"),
    (f"{PLAN} --n-features 3 --no-outcomes", "--no-outcomes is for a plan of an audit: say"),
    (f"audit people.csv --model people.csv --held-out {TASK}", "must be a model that `fit` or"),
    (f"audit people.csv --model model.skops --held-out {TASK} --classes 0,1", "classes must be th"),
    (f"{PLAN} --audit --solver mgr", "solver is for a plan of a fit, and --audit asks for another"),
    (f"{PLAN} --n-features 3 --base-rate 0.1", "--base-rate is for a plan of an audit: say"),
    (f"{PLAN} --audit --base-rate 2", "--base-rate"),
]  # fmt: skip


@pytest.mark.usefixtures("here", "no_noise")
@pytest.mark.parametrize(("command", "says"), WRONG)
def test_a_wrong_audit_is_answered_in_one_sentence(command, says):
    changed(id=SECRET).assign(hired2="no").to_csv("people.csv", index=False)
    answer_to(command, says)


def test_a_plan_of_an_audit_needs_no_records():
    arguments = ("plan", "--audit", "--group-sizes", "a=500,b=90", "--epsilon", 0.5)
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("Private audit: epsilon = 0.5 at delta = 1e-06")
    assert "\na " in result.stdout
    assert run(*arguments, "--base-rate", 0.01).stdout != result.stdout
    alone = run(*arguments, "--no-outcomes").stdout
    sizes = {"a": 500, "b": 90}
    planned = GroupAudit(0.5, group_labels=["a", "b"]).plan(group_sizes=sizes, outcomes=False)
    assert alone == f"{planned}\n"
    assert "error_rate" not in alone


def test_decisions_alone_are_audited_by_column_and_by_model(folder, decisions, tmp_path):
    """Where nobody names a target, or where it is said; no cell of the target is read."""
    whole = run("audit", decisions, "--predictions", "decided", *TASK.split(), "--epsilon", "inf")
    pd.read_csv(decisions).drop(columns="hired").to_csv(decisions, index=False)
    alone = "--groups race --group-labels x,y --classes no,yes --epsilon inf"
    for column in (("--predictions", "decided"), ("--scores", "score")):
        shown = run("audit", decisions, *column, *alone.split(), "--json", tmp_path / column[1])
        assert shown.exit_code == 0, shown.stderr
        assert "Outcomes: none, so that nothing is said of errors" in shown.stdout
        assert "Worst off by selection rate may be: y" in shown.stdout
        assert "error rate" not in shown.stdout
        assert shown.stdout.splitlines()[0] == whole.stdout.splitlines()[0]
        result = AuditResult.from_json((tmp_path / column[1]).read_text())
        assert result.METRICS == ("selection_rate",)
    pd.read_csv(folder / "people.csv").drop(columns="hired").to_csv(tmp_path / "p.csv", index=False)
    model = ("--model", folder / "model.skops", "--schema", folder / "schema.toml", "--held-out")
    found = run("audit", tmp_path / "p.csv", *model, "--no-outcomes", "-o", tmp_path / "page.html")
    assert found.exit_code == 0, found.stderr
    assert "2 groups × 2 predictions" in (tmp_path / "page.html").read_text()
    assert run("audit", tmp_path / "p.csv", *model).exit_code == 2


def test_a_terminal_gets_no_character_that_acts():
    assert _one_line("a\x1b[2J\nb\u202e") == "a?[2J?b?"
    assert _one_line(("x", "F")) == "x/F"


def test_a_seed_warns_and_repeats_and_no_report_tells_it(decisions, tmp_path):
    page, text, said = tmp_path / "page.html", tmp_path / "page.md", set()
    options = f"--predictions decided {TASK} -o {page} --markdown {text} --overwrite"
    for seed in (("--random-state", "987654"), ("--random-state=987654",)):
        result = run("audit", decisions, *options.split(), *seed)
        assert result.exit_code == 0
        assert result.stderr.startswith("Warning: ")
        assert "seed" in result.stderr
        said.add(result.stdout)
        for written in (page, text):
            found = written.read_text(encoding="utf-8")
            assert "987654" not in found
            assert "--random-state" in found
    assert len(said) == 1


def test_what_a_page_needs_is_looked_for_before_the_budget_is_spent(
    decisions, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    book = tmp_path / "book"
    spent = f"--ledger {book} --ledger-epsilon 3 --ledger-delta 1e-6 -o {tmp_path / 'page.html'}"
    outcome = run("audit", decisions, *f"--predictions decided {TASK} {spent}".split())
    assert outcome.exit_code == 2
    assert not book.exists()


def test_page_and_exit_code_judge_the_metric_that_is_asked_for(decisions, tmp_path):
    page = tmp_path / "page.md"
    task = "--groups race --group-labels x,y --target hired --classes no,yes --epsilon inf"
    asked = f"--metric true_positive_rate --fail-below 0.8 --markdown {page}"
    found = run("audit", decisions, "--predictions", "decided", *task.split(), *asked.split())
    sentence = found.stdout.splitlines()[0].partition(". ")[2]
    assert "true positive rate" in sentence
    assert sentence[:20] in page.read_text().replace("\\", "")
    answer = re.match(r"Verdict: ([a-z ]+)\.", found.stdout)[1]
    assert found.exit_code == {"passes": 0, "fails": 4, "cannot tell": 5}[answer]


@pytest.mark.parametrize("classes", ["no,yes", "yes,no"])
@pytest.mark.parametrize("positive", [None, "no", "yes"])
@pytest.mark.parametrize("column", ["decided", "score"])
def test_the_word_looked_for_is_the_one_that_is_said(decisions, classes, positive, column):
    """In whatever order words sort, the command says what Python says of the same counts."""
    chosen = positive or classes.split(",")[1]
    other = {"no": "yes", "yes": "no"}[chosen]
    given = f"--groups race --group-labels x,y --target hired --classes {classes} --epsilon inf"
    asked = ["--positive", positive] if positive else []
    source = ["--predictions", column] if column == "decided" else ["--scores", column]
    shown = run("audit", decisions, *source, *given.split(), *asked, "--fail-below", "0.8")
    table = pd.read_csv(decisions)
    audit = GroupAudit(epsilon=np.inf, group_labels=["x", "y"], classes=(other, chosen))
    verdict = audit.run(table["hired"], table[column], table["race"]).verdict()
    assert shown.stdout.startswith(f"Verdict: {verdict.answer}. {verdict.sentence}")
    assert f"whoever is decided {chosen!r}, not {other!r}" in shown.stdout
    assert shown.exit_code == {"passes": 0, "fails": 4, "cannot tell": 5}[verdict.answer]


def test_a_model_is_audited_for_the_class_that_is_said(folder):
    """Where the class looked for is the model's first one, scores are of that class."""
    task = "--groups race --group-labels x,y --target hired --held-out --epsilon inf"
    rates = []
    for order in ("no,yes", "yes,no"):
        found = run(
            *("audit", folder / "people.csv", "--model", folder / "model.skops"),
            *(*task.split(), "--classes", order, "--json", folder / f"{order}.json"),
        )
        assert found.exit_code == 0, found.stderr
        result = AuditResult.from_json((folder / f"{order}.json").read_text())
        rates.append([one.estimate for one in result.rates("selection_rate")])
    np.testing.assert_allclose(np.sum(rates, axis=0), 1.0)


def test_each_column_of_groups_may_be_judged(tmp_path):
    rng = np.random.default_rng(0)
    n = 4000
    people = pd.DataFrame({"race": rng.choice(["x", "y"], n), "sex": rng.choice(["f", "m"], n)})
    people["hired"] = np.where(rng.random(n) < np.where(people["race"] == "x", 0.6, 0.3), "1", "0")
    people.to_csv(tmp_path / "people.csv", index=False)
    asked = [
        *("audit", tmp_path / "people.csv", "--predictions", "hired", "--classes", "0,1"),
        *("--groups", "race", "--groups", "sex", "--by-attribute", "--fail-below", 0.8),
    ]
    labels = ["--group-labels", "x/f,x/m,y/f,y/m"]
    stored = tmp_path / "audit.json"
    result = run(*asked, *labels, "--markdown", tmp_path / "page.md", "--json", stored)
    assert result.exit_code == FAILS
    of_race, of_sex = result.stdout.split("By sex:")
    assert of_race.startswith("By race:\nVerdict: fails.")
    assert "Verdict: passes." in of_sex
    assert "## By attribute: race. " in (tmp_path / "page.md").read_text(encoding="utf-8")
    for wrong, message in (
        (["--group-labels", "x/f,x/m,y/f,y/m,z/f"], "must hold every combination of values"),
        ([*labels, "--leave-out", "x/f"], "--leave-out and --reference name cells"),
    ):
        refused = run(*asked, *wrong)
        assert refused.exit_code == 2
        assert message in refused.stderr
    # what was stored answers the same question by attribute, and others
    again = run("verdict", stored, "--by-attribute", "--fail-below", 0.8)
    assert again.exit_code == FAILS
    assert again.stdout == result.stdout.partition("Written:")[0]
    assert run("verdict", stored, "--by-attribute", "--fail-below", 0.05).exit_code == 0
    refused = run("verdict", stored, "--by-attribute", "--reference", "x/f")
    assert refused.exit_code == 2
    assert "--leave-out and --reference name cells" in refused.stderr
