"""What README, landing page and guide show is what the code prints and plans."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.metrics import group_table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LANDING = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
GUIDE = ROOT / "docs" / "guide"
MERGED = {"city": 24_000, "suburb": 5_500, "rural and islands": 950}
NUMBER = re.compile(r"\d+\.\d+|\d+")


def shown(text: str) -> tuple[str, str]:
    """Return the first block of code of a page, and the output that stands behind it."""
    result = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert result is not None
    return result[1], result[2]


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
def test_the_first_lines_print_what_the_pages_show():
    assert shown(README) == shown(LANDING)
    code, expected = shown(README)
    printed = io.StringIO()
    names: dict = {}
    with contextlib.redirect_stdout(printed), config_context():
        exec(code, names)
    # noise differs from run to run, and may reorder groups that fare alike
    lines, expected_lines = (
        sorted(" ".join(line.split()) for line in text.splitlines())
        for text in (printed.getvalue(), expected)
    )
    assert [NUMBER.sub("#", line) for line in lines] == [
        NUMBER.sub("#", line) for line in expected_lines
    ]
    numbers, expected_numbers = (
        [float(number) for line in result for number in NUMBER.findall(line)]
        for result in (lines, expected_lines)
    )
    np.testing.assert_allclose(numbers, expected_numbers, rtol=0, atol=0.1)
    X, y, race, encoder = (names[name] for name in ("X", "y", "race", "encoder"))
    (claims,) = re.findall(r"at about (\S+), and the\nbest without privacy is (\S+)\.\n", README)
    exact = clone(names["learner"]).set_params(epsilon=np.inf, solver="exact")
    for learner, groups, claim in zip((names["learner"], exact), (None, race), claims, strict=True):
        with config_context(enable_metadata_routing=True):
            model = make_pipeline(encoder, learner).fit(X, y, groups=groups)
        losses = group_table(y, model.predict_proba(X)[:, 1], groups=race, metrics="log_loss")
        assert losses["log_loss"].max() == pytest.approx(float(claim), abs=0.02)


@pytest.mark.parametrize("page", sorted(path.stem for path in GUIDE.glob("*.md")))
def test_the_index_of_the_guide_has_a_sentence_a_page(page):
    if page != "index":
        index = (GUIDE / "index.md").read_text(encoding="utf-8")
        assert re.search(rf"^- {{doc}}`{page}`: .{{30,}}\.$", index, re.MULTILINE)


def bound(epsilon: float = 1.0, n_features: int = 8, times: int = 1, **parameters) -> float:
    """Return the planning bound for the three groups of the page."""
    sizes = {label: times * size for label, size in MERGED.items()}
    model = DPWorstGroupClassifier(epsilon, 1e-6, **parameters)
    return model.plan(group_sizes=sizes, n_features=n_features).predicted_excess


def test_what_choosing_epsilon_says_of_bounds_is_true():
    by_radius = [bound(radius=radius) for radius in (10, 20, 40)]
    assert by_radius == sorted(by_radius)
    assert bound(n_features=100) == pytest.approx(2 * bound(n_features=5), rel=0.2)
    assert bound(times=2) == pytest.approx(bound(epsilon=2.0), rel=0.1)
    regressions = [
        DPWorstGroupRegressor(target_bounds=(0, 1), radius=radius)
        .plan(group_sizes=MERGED, n_features=8)
        .predicted_excess
        for radius in (1, 2, 4)
    ]
    assert regressions == sorted(regressions)
