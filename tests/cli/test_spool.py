"""`fit --spool` reads a Parquet file in parts, and answers what it answers of the whole table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sklearn_dpwg.cli.models import load_model
from sklearn_dpwg.data.sources import table as partition
from sklearn_dpwg.estimators import partitions
from sklearn_dpwg.ledger import PrivacyLedger
from tests.cli.conftest import SCHEMA, make_table, run

REGRESSION = (
    *("--target", "wage", "--target-bounds", 0, 10_000, "--groups", "race", "--groups", "sex"),
    *("--solver", "moments", "--group-labels"),
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Return a folder with a table of five row groups, read in three parts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(partition, "PART_ROWS", 500)
    table = make_table(1200)
    table.loc[700:, "grade"] = 3  # a part has one level alone
    table.to_parquet("people.parquet", index=False, row_group_size=250)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "wages.toml").write_text(SCHEMA.partition("[groups]")[0])
    (tmp_path / "scratch").mkdir()
    return tmp_path


def fit(output, *options, schema="schema.toml"):
    """Return the model, what is printed, and what the ledger has."""
    result = run(
        *("fit", "people.parquet", "--schema", schema, "-o", output, "--random-state", 0),
        *("--ledger", f"{output}.db", "--ledger-epsilon", 2, "--ledger-delta", 1e-6, *options),
    )
    assert result.exit_code == 0, result.stderr
    rows = PrivacyLedger(2.0, 1e-6, path=f"{output}.db").rows
    return load_model(Path(output)), result.stdout.replace(output, "model"), rows


@pytest.mark.parametrize(
    ("options", "schema"),
    [
        ((), "schema.toml"),
        ((*REGRESSION, "x/F,x/M,y/F,y/M"), "wages.toml"),
        ((*REGRESSION, "race/x,race/y,sex/F,sex/M", "--overlap", "both"), "wages.toml"),
    ],
    ids=["classes", "numbers", "groups that overlap"],
)
def test_parts_give_the_model_and_the_words_of_the_whole(here, monkeypatch, options, schema):
    n_parts = []
    survey = partitions.survey_partition
    monkeypatch.setattr(
        partitions,
        "survey_partition",
        lambda part, **facts: n_parts.append(1) or survey(part, **facts),
    )
    model, said, rows = fit("one.skops", *options, schema=schema)
    assert not n_parts
    other, others, other_rows = fit("two.skops", *options, "--spool", "scratch", schema=schema)
    assert len(n_parts) == 3
    assert others == said
    np.testing.assert_allclose(other[-1].coef_, model[-1].coef_, rtol=0, atol=1e-9)
    assert other[-1].plan_ == model[-1].plan_
    assert [(row.state, row.what, row.guarantee) for row in other_rows] == [
        (row.state, row.what, row.guarantee) for row in rows
    ]
    assert len(rows) == 1
    assert vars(other[-1]).keys() == vars(model[-1]).keys()
    assert vars(other[0]).keys() == vars(model[0]).keys()
    assert list((here / "scratch").iterdir()) == []


def test_a_column_that_would_be_lost_is_refused_before_anything_is_spent(here):
    table = make_table(1200).astype({"age": "str"})
    table.loc[:1198, "age"] += " y"
    lines = SCHEMA.replace('kind = "number"', 'kind = "number"\nmissing = true', 1)
    (here / "schema.toml").write_text(lines + '\n[cells]\nunusable = "missing"\n')
    for lost in (1199, 1200):
        table["age"] = [one if " " in one or lost < 1200 else f"{one} y" for one in table["age"]]
        table.to_parquet("people.parquet", index=False, row_group_size=250)
        result = run(
            *("fit", "people.parquet", "--schema", "schema.toml", "-o", f"{lost}.skops"),
            *("--ledger", f"{lost}.db", "--ledger-epsilon", 2, "--ledger-delta", 1e-6),
            *("--spool", "scratch"),
        )
        assert result.exit_code == (2 if lost == 1200 else 0), result.stderr
    assert "column 'age' (features): 1,200 with something behind it" in result.stderr
    assert result.stderr.count("column '") == 1
    assert not (here / "1200.db").exists()


def test_a_file_that_changes_is_refused_before_anything_is_spent(here, monkeypatch):
    known = partitions.survey_partition

    def change(part, **facts):
        make_table(1201).to_parquet("people.parquet", index=False, row_group_size=250)
        return known(part, **facts)

    monkeypatch.setattr(partitions, "survey_partition", change)
    result = run(
        *("fit", "people.parquet", "--schema", "schema.toml", "-o", "m.skops"),
        *("--ledger", "l.db", "--ledger-epsilon", 2, "--ledger-delta", 1e-6),
        *("--spool", "scratch"),
    )
    assert result.exit_code == 2
    assert "must stay as it was when its source was made" in result.stderr
    assert PrivacyLedger(2.0, 1e-6, path="l.db").rows == []
    assert not (here / "m.skops").exists()
    assert list((here / "scratch").iterdir()) == []
