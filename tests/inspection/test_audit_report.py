"""The page about an audit: what it says, that it says nothing else, and that it stays text."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from sklearn_dpwg.inspection import AuditReport, AuditResult, GroupAudit
from sklearn_dpwg.inspection.asked import overall_rate
from sklearn_dpwg.inspection.report import SECTIONS, escape_markdown
from sklearn_dpwg.privacy import Relation
from tests.helpers.audit_cases import (
    GUARANTEE,
    HOSTILE,
    MODEL_GUARANTEE,
    WEAK_GUARANTEE,
    audit_result,
)

LARGEST_PAGE = 500_000
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


def test_the_sections_are_in_order_and_the_verdict_is_first(report, result):
    """Models are compared where there are several."""
    several = AuditReport({"new": result, "old": result}).html()
    for page, left_out in ((report.html(), {"models", "attributes"}), (several, {"attributes"})):
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
    verdict = AuditReport(result).dict()["verdict"]
    assert (verdict["answer"], verdict["headline"]) == (answer, headline)
    assert verdict["sentence"] == result.verdict().sentence
    assert bool(verdict["would_tell"]) == (answer == "cannot tell")
    assert ("wrong in at most 2.5 %" in verdict["allows"]) == (answer != "cannot tell")
    other = AuditReport(result, verdict_metric="error_rate", at_least=0.9).dict()["verdict"]
    assert other["headline"].endswith("that every ratio of error rate is at least 0.9.")


def test_who_is_not_judged_is_named_and_has_no_verdict():
    counts = (ALIKE, HALF, ((3, 2), (0, 0)))
    result = audit_result(3, noise=None, counts=counts)
    facts = AuditReport(result).dict()
    assert [row["answer"] for row in facts["groups"]["rows"]] == ["passes", "fails", "not judged"]
    assert facts["verdict"]["scope"] == (
        "Judged by selection rate: White and Black. Not judged, as they have fewer than 10 people: "
        "Asian."
    )
    held = AuditReport(result, which={"reference": "Black"}).dict()["verdict"]
    assert held["scope"].startswith("Judged by selection rate: White and Black. Not judged, as ")
    assert held["sentence"].endswith("Each group is compared with Black alone.")
    alone = AuditReport(result, which={"leave_out": ["Black"]}).dict()["verdict"]
    assert alone["sentence"] == "Fewer than two groups can be judged."
    assert alone["scope"].startswith("Judged by selection rate: nobody. Not judged, as they are le")
    assert alone["allows"] == ""
    nobody = AuditReport(audit_result(2, noise=None, counts=(((3, 2), (0, 0)),) * 2))
    assert nobody.dict()["verdict"]["worst"] == "Nobody is judged."
    assert "Nobody is judged." in Page(nobody.html()).words


def test_only_judged_groups_may_be_worst_on_the_page():
    result = audit_result(3, noise=None, counts=(ALIKE, HALF, ((3, 2), (0, 0))))
    for asked, named in (
        ({}, ["White"]),
        ({"leave_out": ["White"], "reference": "Black"}, ["Black"]),
    ):
        if asked:
            result = audit_result(3, noise=None, counts=(ALIKE, HALF, HALF))
        report = AuditReport({"new": result, "old": result}, which=asked)
        facts = report.dict()
        worst = list(result.worst_groups("error_rate", **asked).groups)
        assert set(named) <= set(worst)
        assert facts["verdict"]["may_be_worst"] == facts["models"][1]["may_be_worst"] == worst
        rows = facts["groups"]["rows"]
        assert [row["group"] for row in rows if row["may_be_worst"]] == worst
        drawn = report.html().count("may be worst</text>")
        assert drawn == sum(
            len(result.worst_groups(one, **asked).groups)
            for one in ("selection_rate", "error_rate")
        )


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
def test_a_page_about_these_very_people_says_one_thing():
    """Nothing on it is of a process that they would be a sample of, nor any number."""
    y, groups = np.tile([0, 1], 900), np.repeat(["a", "b"], [1000, 800])
    audit = GroupAudit(2.0, group_labels=["a", "b"], losses=["log_loss"], random_state=0)
    result = audit.run(y, np.where(np.arange(1800) % 7 < 3, 0.8, 0.3), groups)
    process, report = AuditReport(result), AuditReport(result, which={"of": "records"})
    facts, said = report.dict(), Page(report.html()).words
    for part, row in enumerate(facts["groups"]["rows"]):
        for name in ("selection_rate", "error_rate", "true_positive_rate"):
            rate = result.rates(name, of="records")[part]
            assert (row["rates"][name]["low"], row["rates"][name]["high"]) == (rate.low, rate.high)
        ratio = result.impact_ratios(of="records")[part]
        assert row["rates"]["impact_ratio"]["low"] == ratio.low
    worst = result.worst_groups("error_rate", of="records")
    assert facts["models"][0]["worst"] == {"low": worst.low, "high": worst.high}
    assert "of these very people" in facts["verdict"]["sentence"]
    assert "allows for noise" in facts["verdict"]["allows"]
    of_samples = (
        "the chance in who",
        "are a sample,",
        "of the population",
        "times too narrow",
    )
    assert [word for word in of_samples if word in said] == []
    other = Page(process.html()).words
    assert [word for word in of_samples if word in other] == list(of_samples)
    assert "says nothing of anybody else" in said
    shown = result.rates("error_rate", of="records")[0]
    limits = f"{100 * shown.low:.1f} to {100 * shown.high:.1f}\u00a0%"
    assert limits in report.html()
    with pytest.raises(ValueError, match="metric must be"):
        AuditReport(result, metric="log_loss", which={"of": "records"}).html()


WIDE = (((400, 600), (300, 700)), ((450, 550), (320, 680)), ((800, 200), (600, 400)))
QUESTIONS = [
    ({"which": {"within": 0.1}}, "every difference in selection rate is at most 10 percentage"),
    (
        {"verdict_metric": "equalized_odds"},
        "every ratio of true positive rate and false positive rate is at least 0.8",
    ),
    ({"verdict_metric": ["selection_rate", "error_rate"], "at_least": 0.7}, "is at least 0.7"),
    (
        {"verdict_metric": "equalized_odds", "which": {"within": 0.4, "reference": "Black"}},
        "every difference in true positive rate and false positive rate beside Black is at most 40",
    ),
    ({"verdict_metric": "equalized_odds", "which": {"reference": "Black"}}, "rate beside Black is"),
    ({"at_least": 0.7, "which": {"reference": "Black"}}, "selection rate beside Black is at least"),
    ({"which": {"reference": "Black"}}, "the four-fifths rule beside Black."),
    ({"at_least": None}, "the four-fifths rule"),
]


def test_a_reference_is_called_so_and_differences_are_in_points():
    result = audit_result(3, noise=None, counts=WIDE)
    report = AuditReport(result, which={"within": 0.1, "reference": "Black"})
    (row,) = [row for row in report.dict()["groups"]["rows"] if row["answer"] == "reference"]
    assert row["group"] == "Black"
    assert report.html().count(">reference</td>") == 1
    assert report.markdown().count(" reference |") == 2
    assert "0.0 to 0.0" not in report.html()
    gap = result.differences(reference="Black")[0]
    limits = f"{100 * gap.low:.1f} to {100 * gap.high:.1f}\u00a0points"
    assert limits in report.html()
    assert limits in report.markdown()
    assert "Difference of each group in selection rate" in report.html()


def test_worst_off_is_by_what_is_asked():
    result = audit_result(3, noise=None, counts=WIDE)
    for asked, metric in (
        ("selection_rate", "error_rate"),
        ("equalized_odds", "true_positive_rate"),
        (["accuracy", "error_rate"], "accuracy"),
    ):
        facts = AuditReport(result, verdict_metric=asked).dict()
        assert facts["verdict"]["metric"] == facts["groups"]["metric"] == metric


@pytest.mark.parametrize(("asked", "rule"), QUESTIONS)
def test_a_page_answers_what_a_verdict_can_be_asked(asked, rule):
    result = audit_result(3, noise=None, counts=WIDE)
    report = AuditReport(result, **asked)
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
            AuditReport(result, **asked)


def test_selected_is_said_in_the_classes_words_and_scores_only_where_there_were_some(report):
    assert report.dict()["verdict"]["selected"] == (
        "Selected is whoever is decided, or predicted, to be ‘yes’, and not ‘no’: by a score of "
        "0.5 or more."
    )
    y, groups = np.array(["no", "yes"] * 100), np.array(["a", "a", "b", "b"] * 50)
    audit = GroupAudit(math.inf, classes=("no", "yes"))
    scores = np.where(y == "yes", 0.7, 0.2)
    scored, decided = (audit.run(y, one, groups) for one in (scores, y))
    assert (scored.threshold, decided.threshold) == (0.5, None)
    # whole numbers may have their type from all values, of which one person's could tell
    ones = (y == "yes").astype(int)
    numbers = GroupAudit(math.inf)
    kept = [numbers.run(ones, each, groups).threshold for each in (ones, ones.tolist())]
    assert kept == [0.5, 0.5]
    several = numbers.run(ones, {"a": ones, "b": scores}, groups)["a"]
    assert several.threshold == 0.5
    page = AuditReport(decided)
    assert "score" not in page.dict()["verdict"]["selected"]
    assert "0.5" not in page.markdown()
    header = page.dict()["record"]["counts"]["header"]
    assert header[1] == "truly no, predicted yes"


def test_public_numbers_of_people_are_exact(result):
    y, groups = np.tile([0, 1], 4100), np.repeat(["a", "b"], [4200, 4000])
    for sizes in ("hidden", "public"):
        audit = GroupAudit(1.0, group_labels=["a", "b"], sizes=sizes)
        facts = AuditReport(audit.run(y, y, groups)).dict()
        assert ": 8,200 people in 2 groups." in facts["about"]
        assert facts["groups"]["all"]["size"] == 8200
    assert [row["size"]["estimate"] for row in facts["groups"]["rows"]] == [4200, 4000]
    assert facts["groups"]["rows"][0]["size"]["low"] == 4200
    # an earlier version kept no number
    assert "about " in AuditReport(result).dict()["about"]


def test_people_who_trained_the_model_and_rows_that_are_no_people_are_spoken_of(report):
    trained = AuditReport(audit_result(2, model_privacy_=MODEL_GUARANTEE))
    assert "learned from these very people" in Page(trained.html()).words
    assert "learned from these very people" not in Page(report.html()).words
    titles = [[part["title"] for part in one.dict()["outside"]] for one in (report, trained)]
    assert ["People the model learned from" in each for each in titles] == [True, False]
    assert all("Several rows of a person" in each for each in titles)


def test_whose_sizes_of_groups_are_hidden_is_said():
    """The audit may hide what the guarantee of the model, and so the total, calls public."""
    model = "The model does not: its guarantee, and so that of both together, takes the sizes"
    for relation, is_said in ((Relation.REPLACE_IN_GROUP, True), (Relation.REPLACE_ANY, False)):
        of_model = replace(MODEL_GUARANTEE, relation=relation)
        page = Page(AuditReport(audit_result(2, model_privacy_=of_model)).html()).words
        assert "The audit hides the sizes of the groups" in page
        assert (model in page) == is_said
    unprotected = replace(MODEL_GUARANTEE, epsilon=np.inf)
    for of_model in (None, unprotected):
        result = audit_result(2, model_privacy_=of_model)
        assert model not in Page(AuditReport(result).html()).words


def test_what_is_below_the_limit_does_not_look_like_it(report, result):
    assert 0.7985 < result.impact_ratios()[3].low < 0.7995
    assert result.verdict().answer == "cannot tell"
    assert "[0.799, 1.07], which may be below 0.8 or not" in report.dict()["verdict"]["sentence"]
    for text in (report.html(), report.markdown()):
        assert text.count("0.799") == 2  # headline and table


def test_the_table_holds_the_rates_with_their_limits(report, result):
    groups = report.dict()["groups"]
    names = ("error_rate", "selection_rate", "true_positive_rate", "false_positive_rate")
    listed = {"impact_ratio": result.impact_ratios()} | {name: result.rates(name) for name in names}
    for place, row in enumerate(groups["rows"]):
        label = result.group_labels[place]
        assert row["group"] == label
        assert row["may_be_worst"] == (label in result.worst_groups("error_rate").groups)
        for name, rates in listed.items():
            rate = rates[place]
            expected = {"estimate": rate.estimate, "low": rate.low, "high": rate.high}
            assert row["rates"][name] == expected
    together = overall_rate(result, "error_rate")
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


def test_several_models_are_compared():
    results = {
        name: audit_result(3, seed=seed, model_privacy_=MODEL_GUARANTEE)
        for seed, name in enumerate(("new", "old"))
    }
    report = AuditReport(results)
    models = report.dict()["models"]
    assert [model["model"] for model in models] == ["new", "old"]
    for model, result in zip(models, results.values(), strict=True):
        worst = result.worst_groups("error_rate")
        assert model["worst"] == {"low": worst.low, "high": worst.high}
        assert model["answer"] == result.verdict().answer
        assert model["sentence"] == result.verdict().sentence
        assert model["epsilon"] == "0.9812"
    page = report.html()
    assert page.count("<svg") == 5  # one more, as both models have a known ε


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


def test_pictures_table_and_verdict_are_of_the_same_numbers(report, result):
    assert report.html().count("<svg") == 4
    rows = report.dict()["groups"]["rows"]
    for row, ratio, verdict in zip(
        rows, result.impact_ratios(), result.group_verdicts(), strict=True
    ):
        assert row["answer"] == verdict.answer
        assert row["rates"]["impact_ratio"]["low"] == ratio.low
        assert report.html().count(f"{verdict.answer}</text>") >= 1


# --- released numbers and nothing else ---------------------------------------------------------


def test_equal_results_give_equal_bytes_whatever_the_records_were(report, result):
    said = {"notes": "For the board.", "command": "audit stops.csv"}
    again = AuditReport(AuditResult.from_json(result.to_json()), **said)
    for form in ("html", "json", "markdown"):
        assert getattr(again, form)() == getattr(report, form)()
    (first, second), others = result.counts[0], result.counts[1:]
    counts = (((first[0] + 1, first[1]), second), *others)
    assert AuditReport(replace(result, counts=counts), **said).json() != report.json()


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
    assert 100_000 < len(page.encode()) < LARGEST_PAGE


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
    for label in (r"$\frac{$", "=1+1", "white × <b>woman</b>", r"nul\0here", "\u2423same"):
        assert label in drawn
    assert "<b>" not in picture
    assert max(map(len, drawn)) < 40


def test_hostile_labels_are_text_in_json(hostile):
    text = hostile.json()
    assert text.isascii()
    assert not set("<>&\x00") & set(text)
    facts = json.loads(text)
    assert facts == hostile.dict()
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
        ("a\n# b", "a # b"),
        ("# b", r"\# b"),
        ("- b", r"\- b"),
        ("1. b", r"1\. b"),
        ("1.5", "1.5"),
        ("1)", r"1\)"),
        ("2024", "2024"),
        ("a-b (c)", "a-b (c)"),
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
