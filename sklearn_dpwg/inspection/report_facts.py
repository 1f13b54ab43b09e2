"""What a report says, as plain values that follow from the tables of audits alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sklearn_dpwg.inspection import comparisons, words
from sklearn_dpwg.inspection.audit_result import AuditResult, WorstGroups
from sklearn_dpwg.inspection.comparisons import Comparison
from sklearn_dpwg.inspection.histogram import RATES, GroupRate, Of, unit_of
from sklearn_dpwg.inspection.words import texts_of, visible
from sklearn_dpwg.privacy import PrivacyGuarantee, Relation
from sklearn_dpwg.privacy.statement import rounded_up, sections

NOT_JUDGED = "not judged"
# An attacker who is right 99 times in a hundred is held back by nothing worth a blue banner.
NEARLY_CERTAIN = 0.99
HEADLINES = {
    "private": "Private: what can be learned of any one person is limited",
    "weak": "Hardly private: ε is so large that it protects next to nobody",
    "seeded": "Private only from those who do not know the seed",
    "unprotected": "Not private: contains unprotected statistics",
}
_ATTACKER = ("No privacy", "Promise", "What an attacker gains", "Unit of privacy", "Randomness")
_PROOF = "To check it"
_FOR_PROGRAMMERS = ", k rows `for_records(k)`"
# Metrics beside the base rate and the selection rate, and what is in the table only if asked for.
COLUMNS = (
    *("base_rate", "selection_rate", "false_positive_rate", "false_negative_rate"),
    *("auc", "calibration_error"),
)
ANSWERS = {
    "passes": "Passes {}.",
    "fails": "Fails {}.",
    "cannot tell": "Cannot tell whether this passes {}.",
}
GLOSSARY = (
    (
        "Impact ratio",
        "A group's rate over that of the best-off group, or of the one that all are compared with; "
        "of a harm, such as an error rate, the other way round. 1 is equal.",
    ),
    (
        "Difference",
        "How far a group's rate is behind that of the best-off group, or from that of the one that "
        "all are compared with. 0 is equal.",
    ),
    (
        "Four-fifths rule",
        "A rule of thumb of US agencies about whom an employer selects: a ratio below 0.8 is taken "
        "as evidence of adverse impact, tempered where numbers are small (29 CFR 1607.4 D).",
    ),
    (
        "Base rate",
        "Share of a group that truly is {1}. Where it differs between groups, so do the selection "
        "rates of a perfect model.",
    ),
    ("Selection rate", "Share of a group that is selected: decided, or predicted, to be {1}."),
    ("Error rate", "Share of a group whose decision or prediction is not what turned out."),
    ("True positive rate", "Share that is selected among those who truly are {1}."),
    ("False positive rate", "Share that is selected among those who truly are {0}."),
    ("False negative rate", "Share that is not selected among those who truly are {1}."),
    ("Precision", "Share that truly is {1} among those who are selected."),
    (
        "AUC",
        "How often somebody who truly is {1} has a higher score than somebody who is {0}, of the "
        "same group; ties count one half.",
    ),
    (
        "Calibration error",
        "How far scores are, in the mean, from the share that truly is {1} among people of such "
        "scores.",
    ),
    (
        "Interval",
        "What the true value of the population may be, with the stated confidence. It covers that "
        "the people are a sample, and the noise that protects them.",
    ),
    ("May be worst", "With the stated confidence this group may be the worst off."),
    ("Cannot tell", "The interval reaches to both sides of the limit: neither a pass nor a fail."),
    (
        "ε (epsilon)",
        "How much one person's record can change the probability of anything that is released, "
        "as a power of e: at 0.1 next to nothing, at 1 a factor of 2.7, at 10 nearly any.",
    ),
    ("δ (delta)", "The small probability with which the promise of ε may be broken."),
)
# What is said otherwise where the records are everybody.
OF_RECORDS = {
    "Interval": "What the true value among these very people may be, with the stated confidence. "
    "It covers the noise that protects them, and says nothing of anybody else."
}


@dataclass(frozen=True)
class Asked:
    """An audit with what is asked of it: by what groups are worst off, and which verdict, if any.

    ``judged`` and ``which`` are the metric and the keywords of `AuditResult.verdict`.
    """

    result: AuditResult
    metric: str
    judged: str | Sequence[str] | None
    at_least: float | None
    which: Mapping[str, Any]

    @cached_property
    def compared(self) -> list[Comparison]:
        """The comparison of each rate that is judged; none without a verdict."""
        if self.judged is None:
            return []
        return self.result._comparisons(self.judged, self.at_least, **self.which)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The groups that are judged, or may be worst."""
        return self.result._comparison(self.result.METRICS[0], None, **self.which).judged

    def check(self) -> None:
        """Refuse what cannot be asked."""
        self.result._check_metric(self.metric, self.result._counts_of(self.of).metrics)
        _ = self.compared, self.places

    @cached_property
    def worst(self) -> WorstGroups:
        """The groups that may be worst."""
        return self.result.worst_groups(self.metric, **self.which)

    @property
    def of(self) -> Of:
        """Of whom the rates are: of a process, or of the very records."""
        found: Of = self.which.get("of", "process")
        return found

    @property
    def metrics(self) -> list[str]:
        """The rates that are judged."""
        return [one.metric for one in self.compared]

    @cached_property
    def answers(self) -> list[str]:
        """The answer about each group; empty texts without a verdict."""
        places = range(len(self.result.group_labels))
        if not self.compared:
            return ["" for _ in places]
        return [comparisons.together(self.compared, place).answer for place in places]

    @property
    def rule(self) -> str:
        """What is passed or failed, in words."""
        names = words.listed([words.of_metric(one) for one in self.metrics])
        margin, one = self.compared[0].margin, self.which.get("reference")
        beside = "" if one is None else f" beside {words.in_sentence(words.text_of(one))}"
        if not margin.is_ratio:
            gap = f"{100 * margin.gap:g} percentage points"
            return f"the test that every difference in {names}{beside} is at most {gap}"
        if (names, margin.factor) == ("selection rate", 0.8):
            return f"the four-fifths rule{beside}"
        return f"the test that every ratio of {names}{beside} is at least {margin.factor:g}"

    def of_attribute(self, result: AuditResult) -> Asked:
        """Return the same question of an attribute, without what is about single groups."""
        kept = {
            name: self.which[name] for name in ("min_share", "of", "within") if name in self.which
        }
        return Asked(result, self.metric, self.judged, self.at_least, kept)


def report_facts(
    every: Mapping[str, Asked],
    *,
    title: str | None,
    notes: tuple[str, ...],
    command: str | None,
    by_attribute: bool = False,
) -> dict[str, Any]:
    """Return all that a page says, section by section."""
    asked = next(iter(every.values()))
    result, results = asked.result, {name: one.result for name, one in every.items()}
    names = dict(zip(results, texts_of(results), strict=True))
    known = (*_ATTACKER, _PROOF, "Differential privacy")
    attributes = result.by_attribute().items() if by_attribute else ()
    return {
        "title": visible(title) if title is not None else f"Audit by {visible(result.group_name)}",
        "sentences": [_who(asked), _what(result), _protects(results)],
        "model": next(iter(names.values())) if len(results) > 1 else None,
        "notes": [visible(note) for note in notes],
        "verdict": verdict_facts(asked) if asked.compared else None,
        "worst": worst_facts(asked),
        "confidence": result.confidence,
        "privacy": _banner(results),
        "groups": group_facts(asked),
        "attributes": [
            {
                "name": visible(name),
                "verdict": verdict_facts(of_one) if of_one.compared else None,
                "groups": group_facts(of_one),
            }
            for name, of_one in ((name, asked.of_attribute(one)) for name, one in attributes)
        ],
        "models": [_model_facts(names[name], one) for name, one in every.items()],
        "attacker": _said(results, names, lambda title: title in _ATTACKER),
        "outside": _said(results, names, lambda title: title not in known) + _caveats(asked),
        "record": _record(result, command) | {"proof": _proof(result)},
        "glossary": _glossary(asked),
    }


# The three sentences on top, and what is promised.


def _who(asked: Asked) -> str:
    """Return when the audit was made, of how many people in which groups, and what is selected."""
    result = asked.result
    number, n_groups = _total(result), len(result.group_labels)
    exact = result.n_records is not None or result.sizes is not None or not result.is_private
    name = visible(result.group_name)
    by = "" if name == "group" else f" by {words.cut(name)}"
    return (
        f"Audited {visible(result.created)}: {'' if exact else 'about '}{number:,.0f} people in "
        f"{n_groups:,} {'group' if n_groups == 1 else 'groups'}{by}. {_selected(result)}"
    )


def _what(result: AuditResult) -> str:
    """Return what was released."""
    bins = "each decision"
    if result.threshold is not None:
        bins = f"a score on either side of {result.threshold:g}"
    if result.score_edges is not None:
        bins = f"a score in each of {len(result.score_edges) + 1} bins"
    outcome = "each outcome and " if result.has_outcomes else ""
    how = "with noise" if result.is_private else "exactly"
    n = sum(len(row) for table in result.counts for row in table)
    return (
        f"Released {how}, and once: how many people of each group have {outcome}{bins}; every "
        f"number below follows from these {n:,} counts."
    )


def _protects(results: Mapping[str, AuditResult]) -> str:
    """Return what one person may lose at most, and whether that covers the model."""
    result = results[_weakest(results)]
    guarantee, model = result.privacy_, result.model_privacy_
    if not (result.is_private and guarantee.is_private):
        return "Nobody is protected: the counts may reveal any record."
    right = math.ceil(1000.0 * (1.0 + float(guarantee.profile(0.0))) / 2.0 - 1e-9) / 10.0
    who = "two people" if guarantee.of_person else "two records"
    gains = (
        f"Protected is each one of them: who knows all others, and guesses which of {who} is in, "
        f"is right in {right:g} % of cases at most, and in 50 % without this page"
    )
    covers = "This covers the audit alone: no guarantee of a model was stated with it"
    if model is not None:
        alone = rounded_up(model.epsilon)
        covers = f"This covers the audit and the model, which has ε = {alone} by itself"
    return visible(f"{gains}. {covers}.")


def _banner(results: Mapping[str, AuditResult]) -> dict[str, Any]:
    """Return the weakest protection of what is on the page, in a headline and sentences."""
    result = results[_weakest(results)]
    state, guarantee = _state(result), result.privacy_
    said = {section.title: section.text for section in sections(guarantee)}
    sentences = [said.get("What an attacker gains", said.get("No privacy", ""))]
    if state == "unprotected" and guarantee.is_private:
        sentences = ["The counts were released without noise and may reveal any record."]
    if state == "seeded":
        sentences.append(said["Randomness"])
    if guarantee.is_private:
        sentences.append("Costs of other runs on these records add up.")
    epsilon = rounded_up(guarantee.epsilon) if guarantee.is_private else "∞"
    relation = visible(str(guarantee.relation))
    return {
        "state": state,
        "headline": HEADLINES[state],
        "cost": f"ε = {epsilon} at δ = {rounded_up(guarantee.delta)}; neighbours: {relation}",
        "sentences": [visible(words.capital(sentence)) for sentence in sentences],
    }


def _weakest(results: Mapping[str, AuditResult]) -> str:
    order = list(HEADLINES)
    return max(results, key=lambda name: order.index(_state(results[name])))


def _state(result: AuditResult) -> str:
    guarantee = result.privacy_
    if not (result.is_private and guarantee.is_private):
        return "unprotected"
    if (1.0 + float(guarantee.profile(0.0))) / 2.0 >= NEARLY_CERTAIN:
        return "weak"
    return "seeded" if guarantee.seeded else "private"


def _proof(result: AuditResult) -> dict[str, Any]:
    """Return code that computes ε without this library."""
    for section in sections(result.privacy_):
        if section.title == _PROOF:
            return {"text": words.capital(section.text), "code": "\n".join(section.code)}
    return {"text": "Nothing is promised, so there is nothing to check.", "code": ""}


def _said(
    results: Mapping[str, AuditResult], names: Mapping[str, str], wanted: Callable[[str], bool]
) -> list[dict[str, str]]:
    """Return what the guarantees say under some titles, once where they say the same."""
    by_text: dict[tuple[str, str], list[str]] = {}
    for name, result in results.items():
        for section in sections(result.privacy_):
            if wanted(section.title):
                text = section.text.replace(_FOR_PROGRAMMERS, "")
                by_text.setdefault((section.title, text), []).append(names[name])
    return [
        {
            "title": title if len(which) == len(results) else f"{title} ({', '.join(which)})",
            "text": visible(words.capital(text)),
        }
        for (title, text), which in by_text.items()
    ]


def _total(result: AuditResult) -> float:
    """Return the number of records, which is public, or an estimate if it was not kept."""
    if result.n_records is not None:
        return float(result.n_records)
    return sum(size.estimate for size in result.group_sizes())


def _classes(result: AuditResult) -> list[str]:
    """Return both classes as a sentence quotes them."""
    return [f"‘{words.in_sentence(visible(str(one)))}’" for one in result.classes]


def _selected(result: AuditResult) -> str:
    no, yes = _classes(result)
    how = "" if result.threshold is None else f": by a score of {result.threshold:g} or more"
    return f"Selected is whoever is decided, or predicted, to be {yes}, and not {no}{how}."


def _glossary(asked: Asked) -> list[dict[str, str]]:
    """Return what explains the terms of the page."""
    terms = dict(GLOSSARY) | (OF_RECORDS if asked.of == "records" else {})
    is_ratio = [one.margin.is_ratio for one in asked.compared[:1]]
    for term, is_asked in (
        ("Impact ratio", True in is_ratio),
        ("Difference", False in is_ratio),
        ("Four-fifths rule", bool(is_ratio) and "four-fifths" in asked.rule),
        ("Cannot tell", bool(is_ratio)),
    ):
        if not is_asked:
            del terms[term]
    no, yes = _classes(asked.result)
    of_metrics = {*RATES, "auc", "calibration_error"}
    return [
        {"term": term, "text": text.replace("{0}", no).replace("{1}", yes)}
        for term, text in terms.items()
        for key in [term.lower().replace(" ", "_")]
        if key not in of_metrics or key in asked.result.METRICS
    ]


# The verdict, if one was asked for, and who may be worst.


def verdict_facts(asked: Asked) -> dict[str, Any]:
    """Return the verdict that was asked for, and about whom it is."""
    result, verdict = asked.result, comparisons.together(asked.compared)
    said = words.with_short_names(verdict.sentence, result.group_labels)
    sentence, mark, left_out = said.partition(" Not judged, as ")
    texts = [words.in_sentence(text) for text in texts_of(result.group_labels)]
    names = [text for text, one in zip(texts, asked.answers, strict=True) if one != NOT_JUDGED]
    rates = words.listed([words.of_metric(one) for one in asked.metrics])
    together = verdict.answer == "fails" and "fails" not in asked.answers
    return {
        "answer": verdict.answer,
        "judged": asked.judged if isinstance(asked.judged, str) else list(asked.judged or ()),
        "headline": ANSWERS[verdict.answer].format(asked.rule),
        "sentence": sentence,
        "scope": f"Judged by {rates}: {words.listed(names) or 'nobody'}.{mark}{left_out}",
        "together": _TOGETHER * together,
        "would_tell": words.with_short_names(verdict.would_tell, result.group_labels),
        "allows": _allows(asked, verdict.answer, sentence),
    }


_TOGETHER = "Which single group fails these numbers cannot tell; groups taken together do."


def _allows(asked: Asked, answer: str, sentence: str) -> str:
    confidence = asked.result.confidence
    name = "ratio" if asked.compared[0].margin.is_ratio else "difference"
    brackets = f"In brackets is the {100 * confidence:g} % interval of the {name} of these two."
    if answer == "cannot tell":
        return brackets if "[" in sentence else ""
    rarely = f"{100 * (1 - confidence) / 2:.3g} %"
    chance = "the chance in who is among these people and for "
    return (
        f"{brackets} “{answer.capitalize()}” allows for {chance * (asked.of == 'process')}noise: "
        f"it is to be wrong in at most {rarely} of such audits."
    )


def worst_facts(asked: Asked) -> dict[str, Any]:
    """Return who may be worst off by how much."""
    result, worst, shown = asked.result, asked.worst, words.of_metric(asked.metric)
    names = dict(zip(result.group_labels, texts_of(result.group_labels), strict=True))
    if not worst.groups:
        return {"metric": asked.metric, "sentence": "Nobody is judged.", "may_be_worst": []}
    in_percent = unit_of(asked.metric) == "%"
    low, high = (words.number(end, unit=unit_of(asked.metric)) for end in (worst.low, worst.high))
    found = words.listed([words.in_sentence(names[label]) for label in worst.groups], "or")
    who = f"the worst-off group {'is' if len(worst.groups) == 1 else 'may be'} {found}"
    if len(worst.groups) == len(names):
        who = f"any of the {len(names)} groups may be the worst off"
    unit, gap = " percentage points" if in_percent else "", worst.gap
    size, least, most = (
        f"{100 * end:.1f}" if in_percent else f"{end:.3g}"
        for end in (gap.estimate, gap.low, gap.high)
    )
    sentence = (
        f"By {shown}, {who}. The {shown} of whichever group is worst lies between {low} and "
        f"{high}. It is {size}{unit} from the best-off group ({least} to {most})."
    )
    may_be_worst = [names[label] for label in worst.groups]
    return {"metric": asked.metric, "sentence": sentence, "may_be_worst": may_be_worst}


# The table of groups.


def group_facts(asked: Asked) -> dict[str, Any]:
    """Return the table of groups: a row a group, numbers and notes."""
    result, sizes = asked.result, asked.result.group_sizes()
    texts, listed_rates = texts_of(result.group_labels), _columns(asked)
    rows = []
    for place, (label, text) in enumerate(zip(result.group_labels, texts, strict=True)):
        rates = {name: rates[place] for name, rates in listed_rates.items()}
        rows.append(
            {
                "group": text,
                "size": _numbers(sizes[place]),
                "rates": {name: _numbers(rate) for name, rate in rates.items()},
                "answer": asked.answers[place],
                "may_be_worst": label in asked.worst.groups,
                "notes": _notes(text, sizes[place].note, rates),
            }
        )
    limit = asked.compared[0].margin.factor if asked.compared else None
    said = {name: rates[0].metric for name, rates in listed_rates.items()}
    return {
        "name": visible(result.group_name),
        "metric": asked.metric,
        "has_answers": bool(asked.compared),
        "confidence": result.confidence,
        "columns": [
            {
                "key": name,
                "words": words.of_metric("impact_ratio" if name == "impact_ratio" else said[name]),
                "unit": unit_of(said[name]),
                "is_contrast": name not in result.METRICS,
                "limit": limit if said[name].endswith("ratio") else None,
            }
            for name in said
        ],
        "rows": rows,
        "all": {
            "size": _total(result),
            "rates": {name: result._overall(name) for name in listed_rates},
        },
        "limits": _limits(result, rows),
    }


def _columns(asked: Asked) -> dict[str, tuple[GroupRate, ...]]:
    """Return the rates and contrasts of all groups by column."""
    result = asked.result
    known = result._counts_of(asked.of).metrics
    names = [name for name in COLUMNS if name in known]
    names += [name for name in (*asked.metrics, asked.metric) if name in known]
    found = {name: result.rates(name, of=asked.of) for name in dict.fromkeys(names)}
    for one in asked.compared:
        rates = result._contrasts(one)
        is_alone = len(asked.compared) == 1 and one.margin.is_ratio
        found["impact_ratio" if is_alone else rates[0].metric.replace(" ", "_")] = rates
    return found


def _limits(result: AuditResult, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return how many of the intervals in the table may miss, as each holds by itself."""
    rates = [one for row in rows for one in (row["size"], *row["rates"].values())]
    number = sum(one["low"] is not None and one["low"] != one["high"] for one in rates)
    return (
        f"Each interval holds by itself, with {100 * result.confidence:g} % confidence: of the "
        f"{number:,} in this table about {number * (1.0 - result.confidence):.0f} may miss."
    )


def _notes(text: str, of_size: str, rates: Mapping[str, GroupRate]) -> list[str]:
    notes = [visible(of_size)] if of_size else []
    if "unknown" in text.casefold():
        notes.append("group not known")
    said: dict[str, list[str]] = {}
    for name, rate in rates.items():
        if rate.note:
            said.setdefault(visible(rate.note), []).append(words.of_metric(name))
    for note, names in said.items():
        of_some = f"{words.listed(names)}: " if len(names) < len(rates) - 1 else ""
        notes.append(f"{of_some}{note}")
    return notes


def _numbers(rate: GroupRate) -> dict[str, float | None]:
    """Return an estimate and its limits; None, as JSON knows no NaN, where nobody can tell."""
    found = {"estimate": rate.estimate, "low": rate.low, "high": rate.high}
    return {name: value if math.isfinite(value) else None for name, value in found.items()}


def _model_facts(name: str, asked: Asked) -> dict[str, Any]:
    result, worst = asked.result, asked.worst
    model: PrivacyGuarantee | None = result.model_privacy_
    verdict = comparisons.together(asked.compared) if asked.compared else None
    return {
        "model": name,
        "epsilon": None if model is None else rounded_up(model.epsilon),
        "audit_epsilon": rounded_up(result.privacy_.epsilon) if result.is_private else "∞",
        "worst": {"low": worst.low, "high": worst.high},
        "unit": unit_of(asked.metric),
        "may_be_worst": worst_facts(asked)["may_be_worst"],
        "answer": "" if verdict is None else verdict.answer,
        "sentence": ""
        if verdict is None
        else words.with_short_names(verdict.sentence, result.group_labels),
    }


# What no guarantee covers, and how the page was made.


def _caveats(asked: Asked) -> list[dict[str, str]]:
    """Return what no guarantee covers, whatever the numbers are."""
    result, model = asked.result, asked.result.model_privacy_
    sizes = (
        "The sizes of the groups were stated as public; they are exact and unprotected."
        if result.sizes is not None
        else "The audit hides the sizes of the groups; the page shows estimates of them."
    )
    is_apart = model is not None and model.is_private and model.relation != Relation.REPLACE_ONE
    if result.sizes is None and is_apart:
        sizes += (
            " The model does not: its guarantee, and so that of both together, takes the sizes of "
            "its own groups, and who is in which, as public."
        )
    several = (
        "Intervals and verdicts take rows for people. If a person has k rows that are alike, "
        "intervals are about √k times too narrow, and verdicts are wrong more often."
    )
    if result.privacy_.of_person:
        several = "Each person has one row, so intervals and verdicts are about people."
    if asked.of == "records":
        several = "Rates are of rows: a person with k rows counts k times."
    learned = "rates of others may lie outside of the intervals on this page"
    if result.has_outcomes:
        learned = f"expect the model to err more often on others, and {learned}"
    began = "None of these people were said to be among them. If they were:"
    if model is not None:
        began = "It learned from these very people:"
    found = {
        "Names and sizes of groups": sizes,
        "Several rows of a person": several,
        "People the model learned from": f"{began} {learned}.",
    }
    if result.threshold is not None:
        found["Threshold"] = (
            "It was given to the audit as a public number. Had it been chosen by looking at these "
            "records, that choice would be outside the guarantee."
        )
    return [{"title": title, "text": text} for title, text in found.items()]


def _record(result: AuditResult, command: str | None) -> dict[str, Any]:
    noise = result.noise
    drawn = "none; the counts are exact"
    if noise is not None:
        several = f", which is a sum of {result.n_cells}" if result.n_cells > 1 else ""
        drawn = (
            f"discrete {noise.mechanism.capitalize()} of scale {noise.scale:.4g}, standard "
            f"deviation {noise.std:.3g}, on each count{several}"
        )
    facts = {
        "Date": visible(result.created),
        "Noise": drawn,
        "Confidence of intervals": f"{100 * result.confidence:g} %",
        "Classes": " and ".join(repr(visible(str(one))) for one in result.classes),
        "Command": visible(command) if command is not None else "not stated",
    }
    facts |= {f"Version of {visible(name)}": visible(v) for name, v in result.versions.items()}
    texts = texts_of(result.group_labels)
    cells = [[*map(int, table.ravel())] for table in result.cells()]
    classes = [words.cut(visible(str(one))) for one in result.classes]
    truly = [f"truly {y}, " for y in classes] if result.has_outcomes else [""]
    header = [f"{y}predicted {p}" for y in truly for p in classes]
    rows = [{"group": text, "counts": row} for text, row in zip(texts, cells, strict=True)]
    counts = {"header": header, "rows": rows}
    return {"private": noise is not None, "facts": facts, "counts": counts}
