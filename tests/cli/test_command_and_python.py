"""The command says of a table what Python says: answer, sentence, page and exit code."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from sklearn_dpwg import inspection
from sklearn_dpwg.cli import audit as command
from sklearn_dpwg.cli.tables import CANNOT_TELL, FAILS
from sklearn_dpwg.inspection import AuditReport, AuditResult, GroupAudit, Verdict
from tests.cli.conftest import run

WORDS = (("no", "yes"), ("hired", "rejected"), ("Approved", "Denied"), ("1", "0"), ("a b", "c,d"))
NAMES = ("north", "south", "East", "0", "Unknown", "2 or more")
CODES = {"passes": 0, "fails": FAILS, "cannot tell": CANNOT_TELL}


class Case(NamedTuple):
    """A table, what the command is told of it, and the same for Python."""

    table: pd.DataFrame
    options: list[str]
    audit: dict[str, Any]
    columns: tuple[str | None, str]
    asked: dict[str, Any]


def quoted(texts: Any) -> str:
    return ",".join(f'"{one}"' if "," in one else one for one in texts)


def case(seed: int) -> Case:
    """Return a table of some groups, one of which may be favoured, and a way to audit it."""
    rng = np.random.default_rng(seed)
    labels = [str(one) for one in rng.permutation(NAMES)[: rng.integers(2, 6)]]
    words = tuple(rng.permutation(WORDS[rng.integers(len(WORDS))]).tolist())
    n = int(rng.choice([60, 400, 3000, 8000]))
    shares = rng.dirichlet(np.full(len(labels), rng.choice([0.5, 5.0])))
    rates = rng.choice([0.3, 0.6]) * rng.choice([1.0, 1.0, 1.0, 1.0, 0.4], len(labels))
    groups = rng.choice(len(labels), n, p=shares)
    chosen = rng.random(n) < rates[groups]
    outcome = rng.random(n) < np.where(chosen, 0.7, rng.choice([0.1, 0.4]))
    scores = np.round(np.where(chosen, 0.5, 0.0) + rng.uniform(0.0, 0.49, n), 3)
    table = pd.DataFrame(
        {
            "place": np.array(labels)[groups],
            "decided": np.array(words)[chosen.astype(int)],
            "score": scores,
            "came": np.array(words)[outcome.astype(int)],
        }
    )
    options = ["--groups", "place", "--group-labels", quoted(labels), "--classes", quoted(words)]
    audit: dict[str, Any] = {"group_labels": labels, "classes": words}
    if rng.random() < 0.5:  # whichever word comes last, this one is meant
        favourable = int(rng.integers(2))
        options += ["--positive", words[favourable]]
        audit["classes"] = (words[1 - favourable], words[favourable])
    outcomes, metric = bool(rng.random() < 0.5), "selection_rate"
    if outcomes:
        options += ["--target", "came"]
        metric = str(rng.choice(AuditResult.METRICS[:6]))
        options += ["--metric", metric]
    column = str(rng.choice(["decided", "score"]))
    options += ["--predictions" if column == "decided" else "--scores", column]
    audit["epsilon"] = float(rng.choice([math.inf, 1.0]))
    options += ["--epsilon", str(audit["epsilon"])]
    if audit["epsilon"] < math.inf:  # the same noise in both
        audit["random_state"] = seed
        options += ["--random-state", str(seed)]
    if rng.random() < 0.5:
        audit["sizes"] = "public"
        options += ["--sizes", "public"]
    asked: dict[str, Any] = {"metric": metric, "at_least": float(rng.choice([0.8, 0.5]))}
    options += ["--fail-below", str(asked["at_least"])]
    if len(labels) > 2 and rng.random() < 0.5:
        asked["leave_out"] = labels[: rng.integers(1, len(labels) - 1)]
        options += [part for one in asked["leave_out"] for part in ("--leave-out", one)]
    if rng.random() < 0.5:
        asked["min_share"] = 0.05
        options += ["--min-share", "0.05"]
    if rng.random() < 0.5:
        asked["reference"] = labels[-1]
        options += ["--reference", labels[-1]]
    if rng.random() < 0.3:
        asked["of"] = "records"
        options += ["--of", "records"]
    if rng.random() < 0.3:
        place, asked["within"] = options.index("--fail-below"), 0.1
        options[place : place + 2] = ["--fail-above", "0.1"]
        del asked["at_least"]
    return Case(table, options, audit, ("came" if outcomes else None, column), asked)


def told(one: Case, path: Path) -> tuple[Verdict, AuditReport]:
    """Return what Python says of the file."""
    read = pd.read_csv(path, dtype={"place": str, "decided": str, "came": str})
    outcomes, decided = (None if name is None else read[name] for name in one.columns)
    result = GroupAudit(**one.audit).run(outcomes, decided, read["place"])
    which = dict(one.asked)
    metric, at_least = which.pop("metric"), which.pop("at_least", None)
    judged = {"at_least": at_least, "verdict_metric": metric, "which": which}
    judged["metric"] = metric if "--metric" in one.options else None
    report = AuditReport(result, **judged)
    return result.verdict(metric, at_least, **which), report


def compared(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[str]]:
    """Return what Python answers, and in what the command differs from it."""
    one, made = case(seed), []

    class Remembered(AuditReport):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    path, text = folder / "table.csv", folder / "result.json"
    one.table.to_csv(path, index=False)
    with monkeypatch.context() as patched:
        patched.setattr(inspection, "AuditReport", Remembered)
        found = run("audit", path, *one.options, "--json", text, "--overwrite")
    assert made, found.stderr
    verdict, report = told(one, path)
    report.command = made[0].command
    page, (result,) = made[0].dict(), report.results.values()
    said = [each for each in found.stdout.splitlines() if not each.startswith("Named are ")]
    first, second = said[:2]
    holds = {
        "verdict": first == f"Verdict: {verdict.answer}. {verdict.sentence}",
        "what would tell": not verdict.would_tell or second == verdict.would_tell,
        "exit code": found.exit_code == CODES[verdict.answer],
        "answer on the page": page["verdict"]["answer"] == verdict.answer,
        "page": page == report.dict(),
        "result": AuditResult.from_json(text.read_text(encoding="utf-8")) == result,
    }
    return verdict.answer, [f"{seed}: {name}" for name, held in holds.items() if not held]


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
def test_the_command_says_what_python_says(tmp_path, monkeypatch):
    """Of all 200 tables: `make audit`."""
    answers, differ = zip(
        *(compared(seed, tmp_path, monkeypatch) for seed in range(40)), strict=True
    )
    assert [each for one in differ for each in one] == []
    assert set(answers) == set(CODES)


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
@pytest.mark.parametrize("fault", ["order of classes", "groups on the page", "groups in print"])
def test_a_planted_fault_is_seen(fault, tmp_path, monkeypatch):
    two, report, asked = command._two_classes, AuditReport.__init__, command.asked_of
    if fault == "order of classes":
        monkeypatch.setattr(command, "_two_classes", lambda *said: tuple(sorted(two(*said))))
    elif fault == "groups on the page":
        monkeypatch.setattr(
            AuditReport, "__init__", lambda *args, which, **more: report(*args, **more)
        )
    else:
        nobody = {"leave_out": (), "reference": None}
        monkeypatch.setattr(
            command,
            "asked_of",
            lambda *said: replace(one := asked(*said), which={**one.which, **nobody}),
        )
    assert any(compared(seed, tmp_path, monkeypatch)[1] for seed in range(15))
