"""Guarantees of several relations in one ledger, and ledgers that demand one."""

import re

import pytest

from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.ledger.file import LedgerFile
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.preprocessing import DPStandardScaler
from sklearn_dpwg.privacy import NoiseSource, PrivacyGuarantee, Relation, Release, gdp_epsilon
from tests.helpers.ledger_cases import DELTA, X, Y, model

NAMES = ("add-or-remove", "replace-any", "replace-in-group")


def spend(neighbours: str, **changes) -> None:
    release = Release("w", "gaussian", 5.0, max_count=1)
    guarantee = PrivacyGuarantee.from_releases([release], DELTA, relation=neighbours)
    noise = NoiseSource(releases=[release])
    with spending(guarantee, noise, "audit", guarantee, **changes):
        noise.gaussian(1.0, sensitivity=1.0, release=release)


def mu_of(had: str, stated: str) -> float:
    return 0.4 if had == "add-or-remove" != stated else 0.2


@pytest.mark.parametrize("demand", NAMES)
@pytest.mark.parametrize("neighbours", NAMES)
def test_a_demand_refuses_what_does_not_meet_it(neighbours, demand):
    with PrivacyLedger(epsilon=9.0, delta=DELTA, neighbours=demand) as book:
        if Relation(neighbours).implies(Relation(demand)):
            spend(neighbours)
            mu = mu_of(neighbours, demand)
            assert book.guarantee.relation == Relation(demand)
            assert book.epsilon_spent == pytest.approx(gdp_epsilon(DELTA, mu), rel=1e-9)
            assert book.report()["total_epsilon"].tolist() == [book.epsilon_spent]
        else:
            said = f"for the neighbours '{neighbours}' says nothing of the neighbours '{demand}'"
            with pytest.raises(ValueError, match=said):
                spend(neighbours)
            assert book.rows == []
    assert PrivacyLedger.from_json(book.to_json()).neighbours == Relation(demand)


def test_a_fit_that_does_not_meet_a_demand_draws_nothing():
    with PrivacyLedger(epsilon=9.0, delta=DELTA, neighbours="replace-any") as book:
        DPStandardScaler(delta=DELTA).fit(X)
        with pytest.raises(ValueError, match="says nothing of the neighbours 'replace-any'"):
            model().fit(X, Y)
    assert [row.what for row in book.rows] == ["DPStandardScaler"]
    assert book.guarantee.relation == Relation.REPLACE_ANY


def test_a_file_keeps_its_demand_for_every_ledger_on_it(tmp_path):
    path = tmp_path / "ledger.db"
    with PrivacyLedger(9.0, DELTA, path=path, neighbours="replace-any"):
        spend("add-or-remove")
    again = PrivacyLedger(9.0, DELTA, path=path)
    assert again.guarantee.relation == Relation("replace-any")
    assert again.epsilon_spent == pytest.approx(gdp_epsilon(DELTA, 0.4), rel=1e-9)
    back = PrivacyLedger.from_json(again.to_json())
    assert back.neighbours == Relation("replace-any")
    for book in (again, back):
        said = r"says nothing of the neighbours 'replace-any', .*asked for\. This fit spent"
        with book, pytest.raises(ValueError, match=said):
            spend("replace-in-group")
    with again:
        spend("replace-any")
    with (
        pytest.raises(ValueError, match=re.escape("'replace-any' says nothing")),
        PrivacyLedger(9.0, DELTA, path=path, neighbours="add-or-remove"),
    ):
        pass


def test_a_file_without_demands_opens(tmp_path):
    """One that an earlier version wrote has no table of them."""
    path = tmp_path / "ledger.db"
    with PrivacyLedger(9.0, DELTA, path=path):
        spend("replace-in-group")
    with LedgerFile(str(path), "b")._connection() as connection:
        connection.execute("DROP TABLE demands")
    with PrivacyLedger(9.0, DELTA, path=path) as book:
        spend("replace-in-group")
    assert len(book.rows) == 2


def test_privacy_of_joins_relations():
    scaler = DPStandardScaler(delta=DELTA).fit(X)
    assert privacy_of(scaler).relation == Relation.REPLACE_ANY
    fitted = model().fit(X, Y)
    assert privacy_of([scaler, fitted]).relation == Relation.REPLACE_IN_GROUP
    with pytest.raises(ValueError, match="says nothing of the neighbours 'replace-any'"):
        privacy_of([scaler, fitted]).under("replace-any")
