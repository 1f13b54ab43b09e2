"""The page about an audit: what it says, that it says nothing else, and that it stays text."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from sklearn_dpwg.inspection import AuditReport, AuditResult, GroupAudit
from sklearn_dpwg.inspection.report import SECTIONS, escape_markdown
from tests.helpers.audit_cases import (
    GUARANTEE,
    HOSTILE,
    MODEL_GUARANTEE,
    WEAK_GUARANTEE,
    audit_result,
)

LARGEST_PAGE = 300_000
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
    return AuditReport(result, notes="For the board.", command="audit stops.csv")


# --- what the page says ------------------------------------------------------------------------


def test_three_sentences_come_first_and_no_verdict_unless_it_is_asked_for(report, result):
    who, what, protected = report.dict()["sentences"]
    assert "4,000" in who or "people in 4 groups" in who
    assert "‘yes’" in who
    assert "16 counts" in what
    assert "audit alone" in protected
    model = audit_result(4, model_privacy_=MODEL_GUARANTEE)
    assert "the audit and the model" in AuditReport(model).dict()["sentences"][2]
    assert report.dict()["verdict"] is None
    assert "four-fifths" not in report.html()
    assert "four-fifths" in AuditReport(result, verdict_metric="selection_rate").html()
    columns = [one["key"] for one in report.dict()["groups"]["columns"]]
    assert columns[:4] == [
        *("base_rate", "selection_rate", "false_positive_rate", "false_negative_rate")
    ]


def test_calibration_and_roc_curves_are_small_pictures_of_the_largest_groups():
    rng = np.random.default_rng(0)
    groups, scores = rng.integers(10, size=20_000), rng.random(20_000)
    made = GroupAudit(4.0, group_labels=range(10), score_edges=[0.2, 0.5, 0.8])
    page = AuditReport(made.run(rng.random(20_000) < scores, scores, groups)).html()
    assert page.count('aria-labelledby="roc-') == page.count('aria-labelledby="calibration-') == 8
    assert "8 groups of the most people, of 10" in page


def test_the_sections_are_in_order_and_the_verdict_is_first(result):
    """Models are compared where there are several."""
    asked = {"verdict_metric": "selection_rate"}
    one = AuditReport(result, **asked).html()
    several = AuditReport({"new": result, "old": result}, **asked).html()
    for page, left_out in ((one, {"models", "attributes"}), (several, {"attributes"})):
        sections = [section for section, _ in SECTIONS if section not in left_out]
        (nav,) = re.findall("<nav.*?</nav>", page, re.DOTALL)
        assert Page(nav).values("href") == [f"#{section}" for section in sections]
        places = [page.index(f'<h2 id="{section}"') for section in sections]
        assert places == sorted(places)
        assert ("Models compared" in page) == ("models" not in left_out)


ALIKE, HALF, FEW = ((500, 500), (0, 0)), ((750, 250), (0, 0)), ((9, 7), (0, 0))


@pytest.mark.parametrize(
    ("counts", "answer", "headline"),
    [
        # selected: all alike; half as many; too few people to tell
        ([ALIKE, ALIKE], "passes", "Passes the four-fifths rule."),
        ([ALIKE, HALF], "fails", "Fails the four-fifths rule."),
        ([ALIKE, FEW], "cannot tell", "Cannot tell whether this passes the four-fifths rule."),
    ],
)
def test_the_three_answers(counts, answer, headline):
    result = audit_result(2, noise=None, counts=tuple(counts))
    verdict = AuditReport(result, verdict_metric="selection_rate").dict()["verdict"]
    assert (verdict["answer"], verdict["headline"]) == (answer, headline)
    assert verdict["sentence"] == result.verdict().sentence
    assert bool(verdict["would_tell"]) == (answer == "cannot tell")
    assert ("wrong in at most 2.5 %" in verdict["allows"]) == (answer != "cannot tell")
    other = AuditReport(result, verdict_metric="error_rate", at_least=0.9).dict()["verdict"]
    assert other["headline"].endswith("that every ratio of error rate is at least 0.9.")


WIDE = (((400, 600), (300, 700)), ((450, 550), (320, 680)), ((800, 200), (600, 400)))
QUESTIONS = [
    ({"which": {"within": 0.1}}, "every difference in selection rate is at most 10 percentage"),
    (
        {"verdict_metric": "equalized_odds"},
        "every ratio of true positive rate and false positive rate is at least 0.8",
    ),
    ({"verdict_metric": ["selection_rate", "error_rate"], "at_least": 0.7}, "is at least 0.7"),
    ({"which": {"reference": "Black"}}, "the four-fifths rule beside Black."),
]


@pytest.mark.parametrize(("asked", "rule"), QUESTIONS)
def test_a_page_answers_what_a_verdict_can_be_asked(asked, rule):
    result = audit_result(3, noise=None, counts=WIDE)
    report = AuditReport(result, **({"verdict_metric": "selection_rate"} | asked))
    metric, which = asked.get("verdict_metric", "selection_rate"), asked.get("which", {})
    known = result.verdict(metric, asked.get("at_least"), **which)
    facts = report.dict()
    verdict = facts["verdict"]
    assert rule in verdict["headline"]
    assert verdict["answer"] == known.answer
    assert known.sentence.startswith(verdict["sentence"])
    by_group = result.group_verdicts(metric, asked.get("at_least"), **which)
    assert [row["answer"] for row in facts["groups"]["rows"]] == [one.answer for one in by_group]
    names = [metric] if isinstance(metric, str) else metric
    if metric == "equalized_odds":
        names = ["true_positive_rate", "false_positive_rate"]
    compared = result._comparisons(metric, asked.get("at_least"), **which)
    kind = "difference" if "within" in which else "ratio"
    for name, one in zip(names, compared, strict=True):
        alone = len(names) == 1 and kind == "ratio"
        key = "impact_ratio" if alone else f"{name}_{kind}"
        assert name in facts["groups"]["rows"][0]["rates"]
        shown = [row["rates"][key]["high"] for row in facts["groups"]["rows"]]
        sign = 1.0 if kind == "ratio" else -1.0
        ends = [each.high if kind == "ratio" else each.low for each in one.contrasts]
        assert shown == pytest.approx([sign * end for end in ends])
    terms = [entry["term"] for entry in facts["glossary"]]
    assert ("Difference" in terms, "Impact ratio" in terms) == (kind != "ratio", kind == "ratio")
    page = Page(report.html()).words
    assert verdict["sentence"] in page
    assert not re.search(r"\{\d\}", str(facts["glossary"]))
    assert escape_markdown(verdict["headline"]) in report.markdown()


def test_a_question_that_makes_no_sense_is_refused_when_it_is_asked():
    result = audit_result(3)
    wrong = [
        ({"which": {"foo": 1}}, "which must hold some of leave_out, min_share, .*, got 'foo'"),
        ({"which": {"within": 2.0}}, "within must be"),
        ({"which": {"within": 0.1}, "at_least": 0.8}, "within must be left out where at_least is"),
        ({"which": {"of": "sample"}}, "of must be 'process' or 'records'"),
        ({"which": {"leave_out": ["White", "Black"]}}, "leave_out must leave 2 of the groups"),
        ({"verdict_metric": "odds"}, "metric must be one of selection_rate"),
        ({"verdict_metric": []}, "metric must be one of selection_rate"),
    ]
    for asked, says in wrong:
        with pytest.raises(ValueError, match=says):
            AuditReport(result, **({"verdict_metric": "selection_rate"} | asked))


def test_public_numbers_of_people_are_exact():
    y, groups = np.tile([0, 1], 4100), np.repeat(["a", "b"], [4200, 4000])
    for sizes in ("hidden", "public"):
        audit = GroupAudit(1.0, group_labels=["a", "b"], sizes=sizes)
        facts = AuditReport(audit.run(y, y, groups, kind="decisions")).dict()
        assert ": 8,200 people in 2 groups." in facts["sentences"][0]
        assert facts["groups"]["all"]["size"] == 8200
    assert [row["size"]["estimate"] for row in facts["groups"]["rows"]] == [4200, 4000]
    assert facts["groups"]["rows"][0]["size"]["low"] == 4200


def test_the_table_holds_the_rates_with_their_limits(result):
    groups = AuditReport(result, verdict_metric="selection_rate").dict()["groups"]
    names = ("error_rate", "selection_rate", "false_negative_rate", "false_positive_rate")
    listed = {"impact_ratio": result.impact_ratios()} | {name: result.rates(name) for name in names}
    for place, row in enumerate(groups["rows"]):
        label = result.group_labels[place]
        assert row["group"] == label
        assert row["may_be_worst"] == (label in result.worst_groups("error_rate").groups)
        for name, rates in listed.items():
            rate = rates[place]
            expected = {"estimate": rate.estimate, "low": rate.low, "high": rate.high}
            assert row["rates"][name] == expected
    together = result._overall("error_rate")
    assert groups["all"]["rates"]["error_rate"] == pytest.approx(together)


@pytest.mark.parametrize(
    ("state", "facts"),
    [
        ("private", {}),
        ("unprotected", {"noise": None}),
        # even if somebody says that a guarantee stands for exact counts
        ("unprotected", {"noise": None, "privacy_": GUARANTEE}),
        ("seeded", {"privacy_": replace(GUARANTEE, seeded=True)}),
        ("weak", {"privacy_": WEAK_GUARANTEE}),
    ],
)
def test_the_banner_tells_what_is_protected(state, facts):
    """Of several models the weakest makes it."""
    one = audit_result(2, **facts)
    for results in (one, {"a": audit_result(2), "b": one}):
        report = AuditReport(results)
        privacy = report.dict()["privacy"]
        assert privacy["state"] == state
        if state == "unprotected":
            assert "contains unprotected statistics" in privacy["headline"]
            assert not one.privacy_.is_private or "without noise" in privacy["sentences"][0]
    if state == "unprotected":
        assert "released numbers only" not in Page(report.html()).words
        assert 'class="banner unprotected"' in report.html()
        assert "Nobody is protected" in report.html()


def test_the_words_of_the_guarantee_are_on_the_page(report):
    shown = Page(report.html()).words
    facts = report.dict()
    for part in (*facts["attacker"], *facts["outside"]):
        assert " ".join(part["text"].split()) in shown
    titles = [part["title"] for part in (*facts["attacker"], *facts["outside"])]
    for title in ("Promise", "What an attacker gains", "Public, that is unprotected", "Threshold"):
        assert title in titles
    assert "`" not in " ".join(part["text"] for part in facts["attacker"])
    assert facts["record"]["proof"]["code"].endswith("max(epsilons)")
    assert facts["record"]["facts"]["Command"] == "audit stops.csv"


# --- released numbers and nothing else ---------------------------------------------------------


def test_equal_results_give_equal_bytes_whatever_the_records_were(report, result):
    said = {"notes": "For the board.", "command": "audit stops.csv"}
    again = AuditReport(AuditResult.from_json(result.to_json()), **said)
    for form in ("html", "dict", "markdown"):
        assert getattr(again, form)() == getattr(report, form)()
    (first, second), others = result.counts[0], result.counts[1:]
    counts = (((first[0] + 1, first[1]), second), *others)
    assert AuditReport(replace(result, counts=counts), **said).dict() != report.dict()


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


def test_ids_are_unique_and_links_have_targets(report):
    page = Page(report.html())
    ids = page.values("id")
    assert len(ids) == len(set(ids)) > 20
    targets = {link[1:] for link in page.values("href")}
    targets |= set(re.findall(r"url\(#([^)]+)\)", " ".join(page.values("clip-path"))))
    targets |= set(page.values("aria-labelledby"))
    assert targets <= set(ids)


def test_forty_groups_stay_within_the_budget(forty_groups):
    page = forty_groups.html()
    assert 60_000 < len(page.encode()) < LARGEST_PAGE


# --- labels that mean harm ---------------------------------------------------------------------


def test_hostile_labels_are_text_in_html(hostile):
    page = Page(hostile.html())
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == tags.count("style") == 1
    assert not {"img", "b", "link", "iframe"} & set(tags)
    assert [name for _, attrs in page.elements for name in attrs if name.startswith("on")] == []
    shown = page.words
    for label in ("<script>alert(1)</script>", "{{ 7 * 7 }}{% raw %}", r"$\frac{$", r"nul\0here"):
        assert label in shown
    assert "x" * 5_000 + "</td>" + "y" * 4_995 in shown
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\ud800-\udfff]", hostile.html())
    assert len(hostile.html().encode()) < LARGEST_PAGE


def test_hostile_labels_are_text_in_pictures(hostile):
    picture = re.findall(r"<svg.*?</svg>", hostile.html(), re.DOTALL)[0]
    drawn = [html.unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", picture)]
    for label in (r"$\frac{$", "=1+1", "white & <b>woman</b>", r"nul\0here", "\u2423same"):
        assert label in drawn
    assert "<b>" not in picture
    assert max(map(len, drawn)) < 40


def test_hostile_labels_are_apart(hostile):
    facts = hostile.dict()
    assert facts["groups"]["rows"][0]["group"] == "<script>alert(1)</script>"
    assert len({row["group"] for row in facts["groups"]["rows"]}) == len(HOSTILE)


def test_hostile_labels_are_text_in_markdown(hostile):
    text = hostile.markdown()
    lines = text.split("\n")
    header = next(line for line in lines if line.startswith("| group |"))
    first = lines.index(header) + 2
    rows = lines[first : first + len(HOSTILE)]
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) == len(re.findall(r"(?<!\\)\|", header))
    assert "<" not in text
    assert "\x00" not in text
    assert not [line for line in lines if line.startswith("#") and "title" in line]
    assert re.search(r"(?<!\\)\$", text) is None


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("# b", r"\# b"),
        ("1. b", r"1\. b"),
        ("1.5", "1.5"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("[x](javascript:y)", r"\[x\](javascript:y)"),
        ("https://www.x", "https&#58;//www&#46;x"),
        (r"$\frac{$", r"\$\\frac\{\$"),
    ],
)
def test_markdown_shows_text_as_it_is(text, escaped):
    assert escape_markdown(text) == escaped


# --- ways to get it ----------------------------------------------------------------------------


def test_the_file_is_the_page(report, tmp_path):
    report.write_html(tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_bytes() == report.html().encode()


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(report):
    page = Page(report._repr_html_())
    ((tag, attrs),) = page.elements
    assert tag == "iframe"
    assert attrs["srcdoc"] == report.html()
    assert attrs["sandbox"] == "allow-scripts"


def test_wrong_results_are_refused():
    with pytest.raises(ValueError, match="result must hold at least one AuditResult"):
        AuditReport({})
    with pytest.raises(TypeError, match="got dict for 'a'"):
        AuditReport({"a": {}})
