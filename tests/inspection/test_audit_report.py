"""The page about an audit: what it says, that it says nothing else, and that it stays text."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from sklearn_dpwg.inspection import AuditReport, AuditResult
from tests.helpers.audit_cases import GUARANTEE, WEAK_GUARANTEE, audit_result

MAX_PAGE = 300_000
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """A page: its elements, text, attributes, and what is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    def values(self, name: str) -> list[str]:
        return [str(attrs[name]) for _, attrs in self.elements if name in attrs]

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return audit_result(4)


@pytest.fixture(scope="module")
def report(result) -> AuditReport:
    return AuditReport(result, notes="For the board.")


# --- what the page says ------------------------------------------------------------------------


def heads_and_rows(page: str) -> tuple[list[str], list[list[str]]]:
    """Return the table of groups as texts."""
    (table,) = re.findall('<table class="groups".*?</table>', page, re.DOTALL)
    rows = re.findall("<tr>(.*?)</tr>", table, re.DOTALL)
    cells = [[Page(one).words for one in re.findall("<t[hd].*?</t[hd]>", row)] for row in rows]
    return cells[0], cells[1:-1]


def test_the_table_is_that_of_the_audit_with_base_rates_first(result):
    report = AuditReport(result, verdict=result.verdict())
    heads, rows = heads_and_rows(report.html())
    rates = ["base rate", "selection rate", "false positive rate", "false negative rate"]
    assert heads == ["group", "verdict", "people", *rates, "error rate", "selection rate ratio"]
    table, verdict = result.table(), result.verdict()
    for row, one in zip(rows, verdict.groups, strict=True):
        assert one.answer in row[1]
        for place, name in enumerate(rates, start=3):
            rate = table.loc[(one.group, name.replace(" ", "_"))]
            assert f"{100 * rate['estimate']:.1f}" in row[place]
            assert f"{100 * rate['low']:.1f} to {100 * rate['high']:.1f}" in row[place]
        assert f"{one.contrasts[0].estimate:.2f}" in row[-1]
        worst = one.group in result.worst_groups("error_rate").groups
        assert ("may be worst" in row[7]) == worst


WIDE = (((400, 600), (300, 700)), ((450, 550), (320, 680)), ((800, 200), (600, 400)))
QUESTIONS = [
    ({"within": 0.1}, "every difference in selection rate is at most 10 points"),
    ({"metric": "equalized_odds"}, "every ratio in true positive rate and false positive rate is"),
    ({"reference": "Black"}, "the four-fifths rule beside Black."),
    ({"of": "records"}, "of these very people"),
]


@pytest.mark.parametrize(("asked", "rule"), QUESTIONS)
def test_a_page_shows_every_kind_of_verdict(asked, rule):
    result = audit_result(3, noise=None, counts=WIDE)
    known = result.verdict(**asked)
    report = AuditReport(result, verdict=known)
    page = Page(report.html()).words
    assert rule in page
    assert str(known) in page
    _, rows = heads_and_rows(report.html())
    assert [row[1][2:] for row in rows] == [one.answer for one in known.groups]


def test_what_is_no_result_or_of_another_one_is_refused():
    with pytest.raises(ValueError, match="verdict must be of the result"):
        AuditReport(audit_result(3), verdict=audit_result(4).verdict())
    with pytest.raises(TypeError, match="result must be an AuditResult, got dict"):
        AuditReport({})


@pytest.mark.parametrize(
    ("warning", "facts"),
    [
        (None, {}),
        ("Not private", {"noise": None}),
        # even if somebody says that a guarantee stands for exact counts
        ("Not private", {"noise": None, "privacy_": GUARANTEE}),
        ("the seed", {"privacy_": replace(GUARANTEE, seeded=True)}),
        ("Hardly private", {"privacy_": WEAK_GUARANTEE}),
    ],
)
def test_the_banner_warns_of_what_is_not_protected(warning, facts):
    page = AuditReport(audit_result(2, **facts)).html()
    banners = re.findall('<p class="banner .*?</p>', page)
    assert len(banners) == (warning is not None)
    if warning is not None:
        assert warning in banners[0]
    if warning == "Not private":
        assert "released numbers only" not in page
        assert "Nobody is protected" in page


# --- released numbers and nothing else ---------------------------------------------------------


def test_equal_results_give_equal_bytes_whatever_the_records_were(report, result):
    again = AuditReport(AuditResult.from_json(result.to_json()), notes="For the board.")
    assert again.html() == report.html()
    (first, second), others = result.counts[0], result.counts[1:]
    counts = (((first[0] + 1, first[1]), second), *others)
    assert AuditReport(replace(result, counts=counts)).html() != report.html()


def test_the_page_fetches_nothing_and_runs_only_what_it_brings(report):
    page = Page(report.html())
    (policy,) = [
        attrs["content"]
        for _, attrs in page.elements
        if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert str(policy).startswith("default-src 'none'; ")
    assert "unsafe" not in str(policy)
    for kind in ("style", "script"):
        (content,) = re.findall(rf"<{kind}>(.*?)</{kind}>", report.html(), re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in str(policy)
    assert page.values("src") == []
    assert all(link.startswith("#") for link in page.values("href"))
    assert page.values("style") == []
    assert [name for _, attrs in page.elements for name in attrs if name.startswith("on")] == []
    assert not re.search(r"https?://|url\((?!#)|@import", report.html())


# --- labels that mean harm ---------------------------------------------------------------------


def test_hostile_labels_are_text_in_html(hostile):
    page = Page(hostile.html())
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == tags.count("style") == 1
    assert not {"img", "b", "link", "iframe"} & set(tags)
    assert [name for _, attrs in page.elements for name in attrs if name.startswith("on")] == []
    shown = page.words
    for label in ("<script>alert(1)</script>", "{{ 7 * 7 }}{% raw %}", r"$\frac{$", r"nul\x00here"):
        assert label in shown
    assert "x" * 5_000 + "</td>" + "y" * 4_995 in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\ud800-\udfff]", hostile.html())
    assert len(hostile.html().encode()) < MAX_PAGE


def test_hostile_labels_are_text_in_pictures(hostile):
    picture = re.findall(r"<svg.*?</svg>", hostile.html(), re.DOTALL)[0]
    drawn = [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", picture)]
    for label in (r"$\frac{$", "=1+1", "white & <b>woman</b>", r"nul\x00here", "\u2423same"):
        assert label in drawn
    assert "<b>" not in picture
    assert max(map(len, drawn)) < 40


# --- ways to get it ----------------------------------------------------------------------------


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(report):
    page = Page(report._repr_html_())
    ((tag, attrs),) = page.elements
    assert tag == "iframe"
    assert attrs["srcdoc"] == report.html()
    assert attrs["sandbox"] == "allow-scripts"
