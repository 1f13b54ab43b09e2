"""What notebooks show of a guarantee and of a plan."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.privacy import PrivacyGuarantee, Release
from sklearn_dpwg.privacy.statement import sections
from sklearn_dpwg.solvers import Plan

HOSTILE = '<script>alert("x")</script>&amp;</div>'
GUARANTEE = PrivacyGuarantee.from_releases(
    [Release("weights", "gaussian", 4.3, max_count=1)], 1e-6, public=["group sizes"]
)


class Balanced(HTMLParser):
    """Tells whether every element that opens is closed, and which ones there are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)
        outside = [name for name, value in attrs if name == "href" and not value.startswith("#")]
        assert not outside
        assert not [name for name, _ in attrs if name.startswith("on") or name == "src"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def words(text: str) -> str:
    """Return the text of HTML, with single spaces."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def plan(epsilon: float = 1.0, **parameters) -> Plan:
    model = DPWorstGroupClassifier(epsilon=epsilon, data_norm=1.0, **parameters)
    return model.plan(group_sizes={"a": 6000, "b": 900}, n_features=3)


def test_a_guarantee_says_in_html_what_it_says_in_words():
    shown = GUARANTEE._repr_html_()
    said = words(shown)
    for section in sections(GUARANTEE):
        assert section.title in said
        assert section.text in said
        assert " ".join(" ".join(section.code).split()) in said
    assert said.startswith("Differential privacy epsilon = 0.9812 at delta")
    assert Balanced(shown).seen <= {"div", "strong", "details", "summary", "pre"}
    assert len(shown) < 6000


def test_no_privacy_is_in_another_colour_and_says_so():
    for none in (PrivacyGuarantee.non_private(1e-6), plan(float("inf"))):
        shown = none._repr_html_()
        assert "nothing whatever is promised" in shown
        assert "#d55e00" in shown
        Balanced(shown)
    assert "#d55e00" not in GUARANTEE._repr_html_()


def test_what_is_public_shows_as_text():
    hostile = replace(GUARANTEE, public=(HOSTILE,), outside=(HOSTILE,), groupings=(HOSTILE,))
    shown = hostile._repr_html_()
    assert "<script" not in shown
    assert words(shown).count(HOSTILE) == 3
    Balanced(shown)
    shown = replace(plan(), remark=HOSTILE, solver=HOSTILE)._repr_html_()
    assert "<script" not in shown
    Balanced(shown)
