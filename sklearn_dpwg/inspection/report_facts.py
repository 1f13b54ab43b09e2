"""What a report says and shows, as plain values that follow from released numbers alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sklearn_dpwg.inspection import words
from sklearn_dpwg.inspection.asked import Asked, overall_rate
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.displays import (
    NOT_JUDGED,
    GroupMetricDisplay,
    PrivacyProfileDisplay,
    contrasts_shown,
    rates_shown,
)
from sklearn_dpwg.inspection.drawing import INCHES, height_of, svg_of
from sklearn_dpwg.inspection.verdicts import RATES, GroupRate, greater_is_worse, unit_of
from sklearn_dpwg.inspection.words import texts_of, visible
from sklearn_dpwg.privacy import PrivacyGuarantee, Relation
from sklearn_dpwg.privacy.statement import rounded_up, sections

# What a report says of privacy, in the words of the guarantees.

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


def banner(results: Mapping[str, AuditResult]) -> dict[str, Any]:
    """Return the weakest protection of what is on the page, in a headline and sentences."""
    states = {name: _state(result) for name, result in results.items()}
    name = max(states, key=lambda one: list(HEADLINES).index(states[one]))
    state, guarantee = states[name], results[name].privacy_
    said = {section.title: section.text for section in sections(guarantee)}
    gains = said.get("What an attacker gains", said.get("No privacy", ""))
    sentences = [words.capital(gains)]
    if state == "unprotected" and guarantee.is_private:
        sentences = ["The counts were released without noise and may reveal any record."]
    if state == "seeded":
        sentences.append(words.capital(said["Randomness"]))
    if guarantee.is_private:
        model = results[name].model_privacy_ is not None
        covers = "the audit and the model, which read the same records" if model else "the audit"
        sentences.append(f"This covers {covers}; costs of other runs on these records add up.")
    return {
        "state": state,
        "headline": HEADLINES[state],
        "cost": _cost(guarantee),
        "sentences": [visible(sentence) for sentence in sentences],
    }


def _state(result: AuditResult) -> str:
    guarantee = result.privacy_
    if not (result.is_private and guarantee.is_private):
        return "unprotected"
    if (1.0 + float(guarantee.profile(0.0))) / 2.0 >= NEARLY_CERTAIN:
        return "weak"
    return "seeded" if guarantee.seeded else "private"


def _cost(guarantee: PrivacyGuarantee) -> str:
    epsilon = rounded_up(guarantee.epsilon) if guarantee.is_private else "∞"
    relation = visible(str(guarantee.relation))
    return f"ε = {epsilon} at δ = {rounded_up(guarantee.delta)}; neighbours: {relation}"


def proof(result: AuditResult) -> dict[str, Any]:
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


COLUMNS = (
    "selection_rate",
    "impact_ratio",
    "error_rate",
    "true_positive_rate",
    "false_positive_rate",
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
        "A rule of thumb of US agencies: a ratio below 0.8 is taken as evidence of adverse impact, "
        "tempered where numbers are small (29 CFR 1607.4 D).",
    ),
    ("Selection rate", "Share of a group that is selected: decided, or predicted, to be {1}."),
    ("Error rate", "Share of a group whose decision or prediction is not what turned out."),
    ("True positive rate", "Share that is selected among those who truly are {1}."),
    ("False positive rate", "Share that is selected among those who truly are {0}."),
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
    ("Noise", "Random whole numbers that were added to counts before anybody saw them."),
)
# What is said otherwise where the records are everybody.
OF_RECORDS = {
    "Interval": "What the true value among these very people may be, with the stated confidence. "
    "It covers the noise that protects them, and says nothing of anybody else."
}


def report_facts(
    results: Mapping[str, AuditResult],
    *,
    title: str | None,
    notes: tuple[str, ...],
    command: str | None,
    metric: str,
    asked: Asked,
    by_attribute: bool = False,
) -> dict[str, Any]:
    """Return all that a page says, section by section."""
    first = next(iter(results.values()))
    names = dict(zip(results, texts_of(results), strict=True))
    group_name = visible(first.group_name)
    known = (*_ATTACKER, _PROOF, "Differential privacy")
    verdicts = {name: verdict_facts(one, metric, asked) for name, one in results.items()}
    return {
        "title": visible(title) if title is not None else f"Fairness audit by {group_name}",
        "about": _about(first),
        "model": next(iter(names.values())) if len(results) > 1 else None,
        "notes": [visible(note) for note in notes],
        "verdict": next(iter(verdicts.values())),
        "privacy": banner(results),
        "groups": group_facts(first, metric, asked),
        "attributes": _attributes(first, metric, asked) if by_attribute else [],
        "models": [
            _model_facts(names[name], result, metric, asked, verdicts[name])
            for name, result in results.items()
        ],
        "attacker": _said(results, names, lambda title: title in _ATTACKER),
        "outside": _said(results, names, lambda title: title not in known) + _caveats(first, asked),
        "record": _record(results, command) | {"proof": proof(first)},
        "glossary": _glossary(first, asked),
    }


def _attributes(result: AuditResult, metric: str, asked: Asked) -> list[dict[str, Any]]:
    """Return verdict and groups of each attribute, asked what is not about single groups."""
    which = {
        name: asked.which[name] for name in ("min_share", "of", "within") if name in asked.which
    }
    same = replace(asked, which=which)
    return [
        {
            "name": visible(name),
            "verdict": verdict_facts(one, metric, same),
            "groups": group_facts(one, metric, same),
        }
        for name, one in result.by_attribute().items()
    ]


def _about(result: AuditResult) -> str:
    """Return when the audit was made, of how many people in which groups."""
    number, n_groups = _total(result), len(result.group_labels)
    exact = result.n_records is not None or result.sizes is not None or not result.is_private
    name = visible(result.group_name)
    return (
        f"Audited {visible(result.created)}: {'' if exact else 'about '}{number:,.0f} people in "
        f"{n_groups:,} {'group' if n_groups == 1 else 'groups'}"
        f"{'' if name == 'group' else f' by {words.cut(name)}'}."
    )


def _total(result: AuditResult) -> float:
    """Return the number of records, which is public, or an estimate if it was not kept."""
    if result.n_records is not None:
        return float(result.n_records)
    return sum(size.estimate for size in result.group_sizes())


def _classes(result: AuditResult) -> list[str]:
    """Return both classes as a sentence quotes them."""
    return [f"‘{words.in_sentence(visible(str(one)))}’" for one in result.classes]


def _glossary(result: AuditResult, asked: Asked) -> list[dict[str, str]]:
    """Return what explains the terms of the page: there are no errors without outcomes."""
    there = [words.of_metric(name) for name in result.METRICS]
    terms = dict(GLOSSARY) | (OF_RECORDS if asked.of == "records" else {})
    del terms["Difference" if asked.margin.is_ratio else "Impact ratio"]
    no, yes = _classes(result)
    return [
        {"term": term, "text": text.replace("{0}", no).replace("{1}", yes)}
        for term, text in terms.items()
        if term.lower().replace(" ", "_") not in RATES or term.lower() in there
    ]


def verdict_facts(result: AuditResult, metric: str, asked: Asked) -> dict[str, Any]:
    """Return the verdict that was asked for, about whom it is, and who may be worst off."""
    verdict, answers = asked.verdict(result), asked.answers(result)
    said = words.with_short_names(verdict.sentence, result.group_labels)
    sentence, mark, left_out = said.partition(" Not judged, as ")
    return {
        "confidence": result.confidence,
        "answer": verdict.answer,
        "judged": asked.metric if isinstance(asked.metric, str) else list(asked.metric),
        "headline": ANSWERS[verdict.answer].format(asked.rule),
        "sentence": sentence,
        "scope": f"{_scope(result, asked, answers)}{mark}{left_out}",
        "selected": _selected(result),
        "together": _TOGETHER if verdict.answer == "fails" and "fails" not in answers else "",
        "would_tell": words.with_short_names(verdict.would_tell, result.group_labels),
        "allows": _allows(result, asked, verdict.answer, sentence),
        "trained": "" if result.model_privacy_ is None else _TRAINED[result.has_outcomes],
        **_worst_facts(result, metric, asked),
    }


_TOGETHER = "Which single group fails these numbers cannot tell; groups taken together do."
_TRAINED = {
    True: "The model learned from these very people: expect it to err more often on others, and "
    "rates of others to lie outside of the intervals.",
    False: "The model learned from these very people: expect rates of others to lie outside of the "
    "intervals.",
}


def _scope(result: AuditResult, asked: Asked, answers: Sequence[str]) -> str:
    """Return by what and about whom the verdict is."""
    texts = [words.in_sentence(text) for text in texts_of(result.group_labels)]
    names = [text for text, answer in zip(texts, answers, strict=True) if answer != NOT_JUDGED]
    rates = words.listed([words.of_metric(one) for one in asked.metrics])
    return f"Judged by {rates}: {words.listed(names) or 'nobody'}."


def _selected(result: AuditResult) -> str:
    no, yes = _classes(result)
    how = "" if result.threshold is None else f": by a score of {result.threshold:g} or more"
    return f"Selected is whoever is decided, or predicted, to be {yes}, and not {no}{how}."


def _allows(result: AuditResult, asked: Asked, answer: str, sentence: str) -> str:
    name = "ratio" if asked.margin.is_ratio else "difference"
    level = f"{100 * result.confidence:g} %"
    brackets = f"In brackets is the {level} interval of the {name} of these two."
    if answer == "cannot tell":
        return brackets if "[" in sentence else ""
    rarely = f"{100 * (1 - result.confidence) / 2:.3g} %"
    chance = "the chance in who is among these people and for "
    return (
        f"{brackets} “{answer.capitalize()}” allows for {chance * (asked.of == 'process')}noise: "
        f"it is to be wrong in at most {rarely} of such audits."
    )


def _worst_facts(result: AuditResult, metric: str, asked: Asked) -> dict[str, Any]:
    """Return who may be worst off by how much."""
    names = dict(zip(result.group_labels, texts_of(result.group_labels), strict=True))
    worst, shown = result.worst_groups(metric, **asked.which), words.of_metric(metric)
    if not worst.groups:
        none = {"worst": "Nobody is judged.", "value": "", "gap": "", "may_be_worst": []}
        return {"metric": metric, **none}
    in_percent = metric in RATES
    low, high = (words.number(end, unit=unit_of(metric)) for end in (worst.low, worst.high))
    found = words.listed([words.in_sentence(names[label]) for label in worst.groups], "or")
    who = f"the worst-off group {'is' if len(worst.groups) == 1 else 'may be'} {found}"
    if len(worst.groups) == len(names):
        who = f"any of the {len(names)} groups may be the worst off"
    unit, gap = " percentage points" if in_percent else "", worst.gap
    size, least, most = (
        f"{100 * end:.1f}" if in_percent else f"{end:.3g}"
        for end in (gap.estimate, gap.low, gap.high)
    )
    return {
        "metric": metric,
        "worst": f"By {shown}, {who}.",
        "value": f"The {shown} of whichever group is worst lies between {low} and {high}.",
        "gap": f"It is {size}{unit} from the best-off group ({least} to {most}).",
        "may_be_worst": [names[label] for label in worst.groups],
    }


def group_facts(result: AuditResult, metric: str, asked: Asked) -> dict[str, Any]:
    """Return the table of groups: a row a group, numbers and notes."""
    texts = texts_of(result.group_labels)
    worst = set(result.worst_groups(metric, **asked.which).groups)
    answers, listed_rates = asked.answers(result), _columns(result, metric, asked)
    sizes = result.group_sizes()
    rows = []
    for place, (label, text) in enumerate(zip(result.group_labels, texts, strict=True)):
        rates = {name: rates[place] for name, rates in listed_rates.items()}
        rows.append(
            {
                "group": text,
                "size": _numbers(sizes[place]),
                "rates": {name: _numbers(rate) for name, rate in rates.items()},
                "answer": answers[place],
                "may_be_worst": label in worst,
                "notes": _notes(text, sizes[place].note, rates),
            }
        )
    together = {name: overall_rate(result, name) for name in listed_rates}
    named = {name: rates[0].metric for name, rates in listed_rates.items()}
    named |= {name: "impact_ratio" for name in named if named[name] == "selection_rate ratio"}
    return {
        "name": visible(result.group_name),
        "metric": metric,
        "columns": [
            {
                "key": name,
                "words": words.of_metric(said),
                "unit": unit_of(said),
                "is_contrast": name not in (*result.METRICS, *(one.name for one in result.losses)),
                "limit": asked.margin.factor if said.endswith("ratio") else None,
            }
            for name, said in named.items()
        ],
        "rows": rows,
        "all": {"size": _total(result), "rates": together},
        "limits": _limits(result, rows),
    }


def _columns(result: AuditResult, metric: str, asked: Asked) -> dict[str, tuple[GroupRate, ...]]:
    """Return the rates and contrasts of all groups by column; losses are never of records."""
    names = [name for name in COLUMNS if name in result.METRICS] + [metric, *asked.metrics]
    names += [loss.name for loss in result.losses if asked.of == "process"]
    first, *others = ((name, result.rates(name, of=asked.of)) for name in dict.fromkeys(names))
    return dict([first, *asked.contrasts(result).items(), *others])


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


def _model_facts(
    name: str, result: AuditResult, metric: str, asked: Asked, verdict: Mapping[str, Any]
) -> dict[str, Any]:
    worst = result.worst_groups(metric, **asked.which)
    model, audit = result.model_privacy_, result.privacy_
    return {
        "model": name,
        "epsilon": None if model is None else rounded_up(model.epsilon),
        "audit_epsilon": rounded_up(audit.epsilon) if result.is_private else "∞",
        "worst": {"low": worst.low, "high": worst.high},
        "unit": unit_of(metric),
        "may_be_worst": verdict["may_be_worst"],
        "answer": verdict["answer"],
        "sentence": verdict["sentence"],
    }


def _caveats(result: AuditResult, asked: Asked) -> list[dict[str, str]]:
    """Return what no guarantee covers, whatever the numbers are."""
    sizes = (
        "The sizes of the groups were stated as public; they are exact and unprotected."
        if result.sizes is not None
        else "The audit hides the sizes of the groups; the page shows estimates of them."
    )
    model = result.model_privacy_
    is_apart = model is not None and model.is_private and model.relation != Relation.REPLACE_ONE
    if result.sizes is None and is_apart:
        sizes += (
            " The model does not: its guarantee, and so that of both together, takes the sizes of "
            "its own groups, and who is in which, as public."
        )
    several = (
        "Intervals and the verdict take rows for people. If a person has k rows that are alike, "
        "intervals are about √k times too narrow, and the verdict is wrong more often."
    )
    if result.privacy_.of_person:
        several = "Each person has one row, so intervals and the verdict are about people."
    if asked.of == "records":
        several = "Rates are of rows: a person with k rows counts k times."
    found = {"Names and sizes of groups": sizes, "Several rows of a person": several}
    if result.threshold is not None:
        found["Threshold"] = (
            "It was given to the audit as a public number. Had it been chosen by looking at these "
            "records, that choice would be outside the guarantee."
        )
    if result.model_privacy_ is None:
        others = (
            "the model errs more often on others than"
            if result.has_outcomes
            else ("rates of others may differ from those")
        )
        found["People the model learned from"] = (
            f"None of these people were said to be among them. If they were, {others} on this page."
        )
    return [{"title": title, "text": text} for title, text in found.items()]


def _record(results: Mapping[str, AuditResult], command: str | None) -> dict[str, Any]:
    result = next(iter(results.values()))
    noise = result.noise
    n_groups, n_bins = len(result.group_labels), len(result.counts[0][0])
    n_counts, of_classes = n_groups * n_bins * len(result.counts[0]), ""
    if result.has_outcomes:
        of_classes = "2 classes × "
    released = f"{n_counts:,} counts: {n_groups:,} groups × {of_classes}{n_bins} "
    released += "predictions" if result.score_edges is None else "bins of scores"
    several = f", which is a sum of {result.n_cells}" if result.n_cells > 1 else ""
    if noise is None:
        drawn = "none; the counts are exact"
    else:
        drawn = (
            f"discrete {noise.mechanism.capitalize()} of scale {noise.scale:.4g}, standard "
            f"deviation {noise.std:.3g}, on each count{several}"
        )
    threshold = "none, as there were decisions"
    if result.threshold is not None:
        threshold = f"{result.threshold:g}"
    facts = {
        "Date": visible(result.created),
        "Released": released,
        "Noise": drawn,
        "Confidence of intervals": f"{100 * result.confidence:g} %",
        "Classes": " and ".join(repr(visible(str(one))) for one in result.classes),
        "Threshold": threshold,
        "Command": visible(command) if command is not None else "not stated",
    }
    facts |= {f"Version of {visible(name)}": visible(v) for name, v in result.versions.items()}
    texts = texts_of(result.group_labels)
    cells = [[*map(int, table.ravel())] for table in result.cells()]
    classes = [words.cut(visible(str(one))) for one in result.classes]
    truly = [f"truly {y}, " for y in classes] if result.has_outcomes else [""]
    header = [f"{y}predicted {p}" for y in truly for p in classes]
    rows = [{"group": text, "counts": row} for text, row in zip(texts, cells, strict=True)]
    return {
        "private": noise is not None,
        "facts": facts,
        "counts": {"header": header, "rows": rows},
    }


# Pictures, whose numbers are in the tables of the page.

_HEIGHT = 3.9  # inches of a picture with two axes of numbers

# What is drawn, title and sentence.
_Picture = tuple[Any, str, str]


def pictures_of(
    results: Mapping[str, AuditResult], *, metric: str, asked: Asked
) -> list[dict[str, Any]]:
    """Return the pictures: a title, a sentence and the SVG."""
    result = next(iter(results.values()))
    pictures = [_of_contrasts(result, one) for one in asked.each]
    losses = [loss.name for loss in result.losses if asked.of == "process"]
    pictures += [
        (
            GroupMetricDisplay(**rates_shown(result, name, asked)),
            f"{words.capital(words.of_metric(name))} of each group",
            "A diamond and the words stand by every judged group that may be worst. The dashed "
            "line is the rate of all records together.",
        )
        for name in dict.fromkeys(["selection_rate", *asked.metrics, metric, *losses])
    ]
    if len(results) > 1:
        pictures.append(_of_models(results, metric, asked))
    pictures.append(
        (
            PrivacyProfileDisplay(result.privacy_),
            "What an attacker can find out about one record",
            "Who raises a false alarm so often detects a record at most so often; on the dashed "
            "line an attacker only guesses.",
        )
    )
    return [_drawn(f"p{place}", *each) for place, each in enumerate(pictures, start=1)]


def _drawn(prefix: str, display: Any, title: str, text: str) -> dict[str, Any]:
    is_rows = isinstance(display, GroupMetricDisplay)
    size = INCHES, height_of(len(display.rates)) if is_rows else _HEIGHT
    svg = svg_of(lambda ax: display.plot(ax, title=""), prefix=prefix, size=size, title=title)
    return {"title": title, "text": text, "rows": [], "svg": svg, "is_wide": False}


def _of_contrasts(result: AuditResult, asked: Asked) -> _Picture:
    rate, shown = words.of_metric(asked.metrics[0]), contrasts_shown(result, asked)
    kind, sides = "Difference", ("left", "right")
    if asked.margin.is_ratio:
        kind, sides = "Impact ratio", ("right", "left")
    text = (
        f"A group passes where its whole interval is {sides[0]} of {shown['reference_name']}, and "
        f"fails where it is {sides[1]} of it."
    )
    return GroupMetricDisplay(**shown), f"{kind} of each group in {rate}", text


def _of_models(results: Mapping[str, AuditResult], metric: str, asked: Asked) -> _Picture:
    """Return a row a model: where the metric of its worst group may lie."""
    rates = []
    for name, result in zip(texts_of(results), results.values(), strict=True):
        worst = result.worst_groups(metric, **asked.which)
        mine = [one for one in result.rates(metric, of=asked.of) if one.group in worst.groups]
        known = [one.estimate for one in mine if math.isfinite(one.estimate)]
        known = known or [(worst.low + worst.high) / 2.0]
        value = max(known) if greater_is_worse(metric) else min(known)
        value = min(max(value, worst.low), worst.high)
        rates.append(GroupRate(name, metric, value, worst.low, worst.high))
    display = GroupMetricDisplay(
        rates,
        answers=[""] * len(rates),
        is_private=all(one.is_private for one in results.values()),
        confidence=next(iter(results.values())).confidence,
        greater_is_worse=greater_is_worse(metric),
    )
    title = f"{words.capital(words.of_metric(metric))} of the worst group, by model"
    return display, title, "The bar is where the worst group's value may lie."
