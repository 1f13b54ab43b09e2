"""A card says what a model promises, and keeps its seed to itself."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.inspection import model_card
from sklearn_dpwg.privacy.statement import sections
from sklearn_dpwg.solvers import MGR
from tests.helpers.audit_cases import HOSTILE, audit_result

SEED = 987_654_321


@pytest.fixture(scope="module")
def model() -> DPWorstGroupClassifier:
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-0.5, 0.5, (4000, 2)), np.repeat(["a|b", "<i>c</i>"], [3000, 1000])
    made = DPWorstGroupClassifier(4.0, data_norm=1.0, solver=MGR(n_steps=5), random_state=SEED)
    with pytest.warns(SeededNoiseWarning):
        return made.fit(X, X[:, 0] > 0, groups)


def titles(card: str) -> list[str]:
    return re.findall(r"^#+ .*$", card, re.MULTILINE)


def test_a_card_has_guarantee_groups_and_limits(model):
    card = model_card(model, purpose="Who gets a loan.", limits=["Not for pensions."])
    chapters = ["Purpose", "Privacy guarantee", "Groups", "Limits"]
    assert titles(card) == ["# DPWorstGroupClassifier", *(f"## {name}" for name in chapters)]
    for section in sections(model.privacy_):
        assert section.title in card
    assert re.search(rf"^    a\|b +{model.group_sizes_[1]:,}$", card, re.MULTILINE)
    assert "was not audited" in card
    assert card.index("Not for pensions") < card.index("no promise about differences")


def test_the_audit_is_on_the_card_with_its_own_guarantee_and_without_a_seed(model):
    result = audit_result(3)
    card = model_card(model, result)
    for rate in result.rates("error_rate"):
        assert f"    {rate.group} " in card
        assert f"{rate.estimate:.2f} [{rate.low:.2f}, {rate.high:.2f}]" in card
    assert card.count("Differential privacy") == 2
    assert str(SEED) not in card
    assert "void for anyone who knows or can guess the seed" in " ".join(card.split())
    assert "No privacy" in model_card(model, audit_result(3, noise=None))


def test_labels_that_mean_harm_are_text(model):
    """What is indented is shown as it is."""
    card = model_card(model, audit_result(HOSTILE, noise=None))
    assert not [line for line in card.split("\n") if "<" in line and not line.startswith("    ")]
    assert "\x00" not in card
    assert len(titles(card)) == 5
