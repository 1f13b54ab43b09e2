"""A share to choose, from the command: planned, paid for, stored, and what predictions go by."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg.cli.models import load_model, without_threshold
from sklearn_dpwg.inspection import AuditResult, shape_functions
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.privacy.statement import rounded_up
from tests.cli.conftest import make_table, run


@pytest.fixture(scope="module")
def fitted(folder, tmp_path_factory):
    """Return where a model that chooses 15 of 100 is, and what its fit and its plan printed."""
    path = tmp_path_factory.mktemp("threshold")
    asked = [
        *("--schema", folder / "schema.toml", "--epsilon", 2, "--share", 0.15),
        *("--solver", "mgr", "--shapes", "linear"),
    ]
    planned = run("plan", *asked, "--group-sizes", "x=834,y=366", "--rows-per-person", 1)
    fit = run(
        *("fit", folder / "people.parquet", *asked, "-o", path / "m.skops", "--person", "id"),
        *("--ledger", path / "l.db", "--ledger-epsilon", 3, "--ledger-delta", 1e-5),
    )
    assert (planned.exit_code, fit.exit_code) == (0, 0), planned.stderr + fit.stderr
    assert planned.stderr == fit.stderr == ""
    return path, planned.stdout, fit.stdout


def test_it_is_planned_and_paid_for_by_one_budget(fitted):
    path, planned, printed = fitted
    assert planned.startswith("One histogram of 2 groups, 2 classes and 24 bins of scores")
    for text in (planned, printed):
        assert "epsilon = 2 at delta = 1e-06 (epsilon = 2 was asked for)" in " ".join(text.split())
        assert "Unit of privacy: a person" in text
    assert "a person, as column 'id' tells people apart" in printed
    model = load_model(path / "m.skops")
    of_model = str(model[-1].plan_.model).partition("\n\nDifferential privacy")[0]
    assert "Plan of solver 'mgr'" in of_model
    assert "planning bound" in of_model
    assert f"\n\n{of_model}\n\nDifferential privacy: epsilon = 2 " in planned
    assert 1.0 < model[-1].plan_.model.budget.epsilon < 2.0
    with PrivacyLedger(3.0, 1e-5, path=path / "l.db") as ledger:
        assert len(ledger.rows) == 2  # the model, and the histogram of its scores
        spent = rounded_up(ledger.epsilon_spent)
    assert 1.5 < float(spent) < 2.0
    # at another delta than the statement's, which is said
    assert f"has spent epsilon = {spent} of 3 at delta = 1e-05, the ledger's own" in printed
    assert "the statement above is at delta = 1e-06" in printed


@pytest.mark.parametrize("threshold", [[], ["--share", 0.15]])
def test_a_plan_warns_of_what_its_fit_warns(folder, tmp_path, threshold):
    asked = ["--schema", folder / "schema.toml", "--epsilon", 0.2, "--solver", "mgr", *threshold]
    planned = run("plan", *asked, "--group-sizes", "x=834,y=366")
    fit = run("fit", folder / "people.parquet", *asked, "-o", tmp_path / "m.skops")
    assert (planned.exit_code, fit.exit_code) == (0, 0), planned.stderr + fit.stderr
    assert planned.stderr == fit.stderr
    assert planned.stderr.startswith("Warning: ")
    assert "predicting nothing costs at most" in planned.stderr


def test_predictions_go_by_the_threshold_that_was_released(fitted, folder, tmp_path):
    path, _, printed = fitted
    (least,) = set(load_model(path / "m.skops")[-1].thresholds_)
    assert f"says 'yes' from a probability of {least:.4g} on, which was released" in printed
    rows = pd.read_parquet(folder / "people.parquet")
    predict = ["predict", path / "m.skops", folder / "people.parquet", "-o"]
    done = run(*predict, tmp_path / "p.csv")
    found = pd.read_csv(tmp_path / "p.csv")
    is_yes = found["prediction"] == "yes"
    assert (is_yes == (found["probability of yes"] >= least)).all()
    assert 0.05 < is_yes.mean() < 0.3  # of 15 asked for; 50 would be chosen by a half
    assert f": predictions, 'yes' from a probability of {least:.4g} on." in done.stdout
    shares = load_model(path / "m.skops")[-1].selected()
    for label in ("x", "y", "all"):
        share, limits = shares.loc[label, "chosen"], shares.loc[label, ["low", "high"]]
        assert f"  {label}: {share:.1%} [{limits['low']:.1%}, {limits['high']:.1%}]" in printed
        members = (rows["race"] == label) | (label == "all")
        assert limits["low"] <= is_yes[members].mean() <= limits["high"]
    # another public one takes its place
    run(*predict, tmp_path / "q.csv", "--threshold", 0.5)
    other = pd.read_csv(tmp_path / "q.csv")
    assert ((other["prediction"] == "yes") == (other["probability of yes"] >= 0.5)).all()


@pytest.mark.parametrize("asked", [["--share", 0.15], ["--miss-cost", 0.2], ["--miss-cost", 5]])
def test_the_last_class_is_looked_for_whichever_way_classes_are_sorted(folder, tmp_path, asked):
    """A target whose words are turned round has the same model, read the other way."""
    rows = pd.read_parquet(folder / "people.parquet")
    said = (folder / "schema.toml").read_text()
    chosen, limits = {}, {}
    for words in (("no", "yes"), ("yes", "no")):  # "no" stands for those who were hired
        hired = rows["hired"].map(dict(zip(("no", "yes"), words, strict=True)))
        rows.assign(hired=hired).to_parquet(tmp_path / "p.parquet")
        declared = ["maybe", "no", "yes"] if asked[1] == 5 else list(words)
        (tmp_path / "s.toml").write_text(said.replace('["no", "yes"]', str(declared)))
        task = ["--schema", tmp_path / "s.toml", "--solver", "mgr", "--random-state", 0]
        task += ["--classes", ",".join(words)] if asked[1] == 5 else []
        fit = ["fit", tmp_path / "p.parquet", *task, "--epsilon", 1e4, "--shapes", "linear"]
        done = run(*fit, *asked, "-o", tmp_path / "m.skops", "--overwrite")
        assert f"`predict` says '{words[1]}' " in done.stdout, done.stderr
        limits[words] = [float(one) for one in re.findall(r"([\d.]+)%", done.stdout)]
        read = [tmp_path / "m.skops", tmp_path / "p.parquet", "-o", tmp_path / "o.csv"]
        told = run("predict", *read, "--overwrite").stdout
        prediction = pd.read_csv(tmp_path / "o.csv")["prediction"]
        chosen[words] = (prediction == words[1]).mean()
        assert f"predictions, '{words[1]}' " in told
        run("predict", *read, "--overwrite", "--threshold", 0.9)
        by = pd.read_csv(tmp_path / "o.csv")
        assert ((by["prediction"] == words[1]) == (by[f"probability of {words[1]}"] >= 0.9)).all()
        groups = ["--groups", "race", "--group-labels", "x,y", "--no-outcomes", "--held-out"]
        told = run("audit", read[1], "--model", read[0], *groups).stdout
        assert f"Selected: whoever is decided '{words[1]}', not '{words[0]}'." in told
    one, other = chosen.values()
    assert one == pytest.approx(other, abs=0.02)
    np.testing.assert_allclose(*limits.values(), atol=2.0)
    assert (one > 0.5) == (asked[1] == 5)


def test_an_audit_is_of_the_decisions_that_the_threshold_makes(fitted, folder, tmp_path):
    path, _, _ = fitted
    audit = [
        *("audit", folder / "people.parquet", "--schema", folder / "schema.toml"),
        *("--model", path / "m.skops", "--held-out", "--epsilon", 1000, "--random-state", 0),
    ]
    rates = {}
    pages = ["-o", tmp_path / "p.html", "--markdown", tmp_path / "p.md"]
    printed = {}
    for name, told in (("paid", pages), ("half", ["--threshold", 0.5])):
        done = run(*audit, *told, "--json", tmp_path / f"{name}.json")
        printed[name] = done.stdout
        assert done.exit_code == 0, done.stderr
        found = AuditResult.from_json((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        rates[name] = found.rates("selection_rate")[0].estimate
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "What the model does with each column" in page  # the one that the threshold is on
    model, rows = load_model(path / "m.skops"), make_table()
    chosen = (model.predict(pd.read_parquet(folder / "people.parquet")) == "yes")[rows.race == "x"]
    assert rates["paid"] == pytest.approx(chosen.mean(), abs=0.02)
    assert rates["half"] > rates["paid"] + 0.1
    # pages and print tell that threshold, and no other
    text = (tmp_path / "p.md").read_text(encoding="utf-8").replace("\\", "")
    (least,) = set(model[-1].thresholds_)
    of_it = f"‘yes’ from a probability of {least:.4g} on"
    covered = f"Its own threshold made them: {of_it}. What was learned of records to choose it"
    for said in (page.replace("&#39;", "'"), text):
        assert f": by the model's own threshold, {of_it}." in said
        assert covered in said
        assert f"the model's own: {of_it}" in said
        for wrong in ("0.5 or more", "as a public number", "as there were decisions"):
            assert wrong not in said
    assert "Threshold: 0.5" not in text
    assert covered in printed["paid"]
    assert "threshold" not in printed["half"]


def test_all_speak_of_the_class_that_is_looked_for(folder, tmp_path):
    """Sorted, ja comes before nein, whose score the model's threshold is on."""
    rows = pd.read_parquet(folder / "people.parquet")
    hired = rows["hired"].map({"no": "nein", "yes": "ja"})
    rows.assign(hired=hired).to_parquet(tmp_path / "p.parquet")
    said = (folder / "schema.toml").read_text().replace('["no", "yes"]', '["nein", "ja"]')
    (tmp_path / "s.toml").write_text(said)
    known = [tmp_path / "p.parquet", "--schema", tmp_path / "s.toml", "--random-state", 0]
    fit = [*known, "--solver", "mgr", "--epsilon", 1e4, "--share", 0.15, "--shapes", "linear"]
    printed = [run("fit", *fit, "-o", tmp_path / "m.skops").stdout]
    printed += [run("show", tmp_path / "m.skops").stdout]
    read = [tmp_path / "m.skops", tmp_path / "p.parquet", "-o", tmp_path / "o.csv"]
    printed += [run("predict", *read).stdout]
    model, found = load_model(tmp_path / "m.skops"), pd.read_csv(tmp_path / "o.csv")
    of_nein = model[-1].thresholds_[0]
    assert list(found) == ["prediction", "probability of nein", "probability of ja"]
    assert ((found["prediction"] == "ja") == (found["probability of nein"] < of_nein)).all()
    assert found["probability of ja"][hired == "ja"].mean() > found["probability of ja"].mean()

    pages = ["-o", tmp_path / "p.html", "--markdown", tmp_path / "p.md"]
    audit = ["audit", *known, "--model", tmp_path / "m.skops", "--held-out", "--epsilon", 1000]
    printed += [run(*audit, *pages).stdout]
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("p.html", "p.md")]
    for text in (*printed, *pages):
        plain = text.replace("‘", "'").replace("’", "'")
        assert f"'ja' above a probability of {1.0 - of_nein:.4g}" in plain
        assert f"{of_nein:.4g}" not in plain
        assert "'nein' from" not in plain
    effect = shape_functions(without_threshold(model), of="ja")[0]
    least, at = effect.effects.min(), effect.values[effect.effects.argmin()]
    assert f"| {effect.name} | {least:+.2f} | {at} |" in pages[1].replace("\\", "")
    for text in pages:
        assert "adds to the log odds of ‘ja’" in text
        assert "log odds of ‘nein’" not in text
    assert "age: effect (log odds of ‘ja’)</title>" in pages[0]
    # whom the audit is told to look for, the pages speak of
    run(*audit, "--positive", "nein", "--markdown", tmp_path / "n.md")
    page = (tmp_path / "n.md").read_text(encoding="utf-8")
    assert f"‘nein’ from a probability of {of_nein:.4g} on" in page
    assert "adds to the log odds of ‘nein’" in page


def test_scores_of_decisions_are_refused(fitted, folder):
    path, _, _ = fitted
    audit = ["audit", folder / "people.parquet", "--schema", folder / "schema.toml"]
    audit += ["--model", path / "m.skops", "--held-out"]
    for name in (["--score-edges", "0.2,0.5"], ["--losses", "log_loss"]):
        done = run(*audit, *name)
        assert done.exit_code == 2
        assert "must be left out of an audit of decisions, which this model makes" in done.stderr
        assert run(*audit, *name, "--threshold", 0.5).exit_code == 0


def test_a_cost_of_misses_is_paid_for_too(folder, tmp_path):
    shares = {}
    for cost in ("balanced", "9", "0.1"):
        output = tmp_path / f"{cost}.skops"
        done = run(
            *("fit", folder / "people.parquet", "--schema", folder / "schema.toml", "-o", output),
            *("--miss-cost", cost, "--epsilon", 8, "--random-state", 0, "--solver", "mgr"),
        )
        assert done.exit_code == 0, done.stderr
        predicted = load_model(output).predict(pd.read_parquet(folder / "people.parquet"))
        shares[cost] = np.mean(predicted == "yes")
    assert shares["0.1"] < shares["balanced"] < shares["9"]
