"""The words of a privacy guarantee."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from typing import Any

from sklearn_dpwg.exceptions import UnsupportedMechanismError
from sklearn_dpwg.privacy.accounting.composition import composition_of_event, scaled_event
from sklearn_dpwg.privacy.release import Relation

_WIDTH = 88  # of a line
_FALSE_ALARM = 0.05  # probability of a false alarm of the test in the statement
_MAX_EVENTS = 3  # in the code of a statement
# From this ε on e^ε is not stated: it is near the largest floating-point number.
_NO_FACTOR = 700.0
# Words for each relation: the change, then for one record and for several: which, and replaced by.
_CHANGES = {
    Relation.REPLACE_ONE_WITHIN_GROUP: (
        "replaced",
        ("one record of one group", " by any other record of the same group"),
        ("{} records", ", each by any other record of its group"),
    ),
    Relation.REPLACE_ONE: (
        "replaced",
        ("one record", " by any other record, of whatever group"),
        ("{} records", ", each by any other record of whatever group"),
    ),
    Relation.ADD_OR_REMOVE: ("added or removed", ("one record", ""), ("{} records", "")),
}
# Public fact if the unit of privacy is a person.
ROWS_OF_A_PERSON = "which rows belong to one person, though not to whom"
# Public fact if joint results state different numbers of rows of a person.
SEVERAL_NUMBERS = (
    "that a person has no more rows among the records of each result than it says, {}; where two "
    "read the same table, the larger number is true of both and has to be said of both"
)
# Public facts that are left out if another fact contains one of these words: it implies them.
_IMPLIED_BY = {
    "which group each record is in": ("which group each record is in, and ",),
    "the number of records": ("number of records in each group", "number of records of all groups"),
    "the group labels and the classes": (", the group labels and the classes",),
}
# Words of a public fact if groups overlap.
_OVERLAP = "is in exactly the same ones"


# A `PrivacyGuarantee`, whose module imports this one.
Stated = Any


@dataclass(frozen=True)
class Section:
    """One section of a statement: its heading, its text, and lines of code after the text."""

    title: str
    text: str
    code: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = textwrap.fill(
            f"{self.title}: {self.text}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False
        )
        return "\n".join([text, *(f"  {line}" for line in self.code)])


_NOTHING = Section(
    "No privacy",
    "epsilon is infinite. The result was computed without noise and may reveal any record it was "
    "computed from; nothing whatever is promised.",
)
_OUTSIDE = (
    "errors, warnings, logs, progress and scores on records, which are for whoever holds the "
    "records; the time that the computation took; anything learned from the data before or around "
    "it (preprocessing, choice of settings); and other results computed from the same records: "
    "each of them spends a budget of its own."
)
_UNSEEDED = "the noise comes from the operating system's entropy and cannot be computed again."
_SEEDED = (
    "the noise was computed from a seed. The guarantee is void for anyone who knows or can guess "
    "the seed, holds the estimator or its pickle, or sees another result drawn from the same seed; "
    "and the noise is not proof against floating-point attacks."
)


def sections(guarantee: Stated) -> tuple[Section, ...]:
    """Return the statement of a guarantee: what it promises and does not promise, by heading."""
    if not guarantee.is_private:
        return (_NOTHING,)
    texts = {
        "Differential privacy": _headline(guarantee),
        "Promise": _promise(guarantee),
        "What an attacker gains": _attack(guarantee),
        "Unit of privacy": _unit(guarantee),
        "Groups": _groups(guarantee),
        "Public, that is unprotected": _public(guarantee.public),
        "Outside the guarantee": _OUTSIDE,
        "Not covered here": "; ".join(guarantee.outside) + "." * bool(guarantee.outside),
        "Randomness": _SEEDED if guarantee.seeded else _UNSEEDED,
    }
    return (*(Section(title, text) for title, text in texts.items() if text), _checking(guarantee))


def _headline(guarantee: Stated) -> str:
    text = cost_of(guarantee)
    if guarantee.requested_epsilon is not None:
        text += f" (epsilon = {rounded_up(guarantee.requested_epsilon, 6)} was asked for)"
    return f"{text}, neighbours: {guarantee.relation}."


def _public(public: tuple[str, ...]) -> str:
    all_facts = "; ".join(public)
    stated_facts = [
        fact
        for fact in public
        if not any(words in all_facts for words in _IMPLIED_BY.get(fact, ()))
    ]
    nothing = "nothing was listed; whatever was not released with noise must be taken as public"
    return f"{'; '.join(stated_facts) or nothing}."


def _promise(guarantee: Stated) -> str:
    count = guarantee.records_per_person
    change, for_one_record, for_several = _CHANGES[guarantee.relation]
    records, replacement = for_several if count > 1 else for_one_record
    records = records.format(count)
    changed = f"{records} {'are' if count > 1 else 'is'} {change}{replacement}"
    if guarantee.of_person:
        up_to = "up to " if count > 1 else ""
        changed = f"one person is {change} ({up_to}{records}{replacement})"
    if any(_OVERLAP in fact for fact in guarantee.public):
        changed = changed.replace("the same group", "exactly the same groups")
        changed = changed.replace("of its group", "of exactly its groups")
    if guarantee.epsilon >= _NO_FACTOR:
        epsilon = rounded_up(guarantee.epsilon)
        return (
            f"none that protects anybody. If {changed}, the probability of any outcome may grow by "
            f"the factor e^epsilon, which at epsilon = {epsilon} is more than any number that a "
            f"computer writes."
        )
    factor = math.exp(guarantee.epsilon)
    return (
        f"if {changed}, the probability of any outcome grows at most by the factor e^epsilon = "
        f"{rounded_up(factor)} plus {rounded_up(guarantee.delta, 6)}. This holds against anyone, "
        "whatever else they know and however long they compute."
    )


def _attack(guarantee: Stated) -> str:
    count = guarantee.records_per_person
    other_records, target = "every other record", "this one"
    if count > 1:
        other_records, target = f"all records but these {count}", "them"
    prior_belief = f"thought two candidates for {target} equally likely"
    if guarantee.relation == Relation.ADD_OR_REMOVE:
        prior_belief = f"thought it equally likely to find {target} among them and not to"
    total_variation = float(guarantee.profile(0.0))  # δ at ε = 0
    detection_rate = 1.0 - float(guarantee.tradeoff(_FALSE_ALARM))
    return (
        f"an attacker who knows {other_records} and {prior_belief} can be right at most "
        f"{_percent((1.0 + total_variation) / 2.0)} of the time after seeing everything that was "
        f"released (50% is guessing). A test for "
        f"{'the record' if count == 1 else 'these records'} "
        f"that raises a false alarm {_percent(_FALSE_ALARM)} of the time detects it at most "
        f"{_percent(detection_rate)} of the time."
    )


def _unit(guarantee: Stated) -> str:
    count = guarantee.records_per_person
    person = "a person" if count == 1 else f"a person with up to {count} rows"
    if guarantee.of_person:
        rows_were = "one row of each was" if count == 1 else f"{count} rows of each were"
        return f"{person}. That at most {rows_were} used is the word of whoever released this."
    if count > 1:
        return f"{person}."
    text = "one row. It protects a person only if no person has more than one row"
    try:
        two_rows = guarantee.for_records(2)
    except UnsupportedMechanismError:
        return f"{text}; for several rows no guarantee is known."
    return (
        f"{text}; two rows have epsilon = {rounded_up(two_rows.epsilon)}, k rows `for_records(k)`."
    )


def _groups(guarantee: Stated) -> str:
    if not guarantee.groupings:
        return ""
    by_each = ", by each of these" if len(guarantee.groupings) > 1 else ""
    within_group = guarantee.relation == Relation.REPLACE_ONE_WITHIN_GROUP
    same = "group" if within_group else "value"
    other = "from another group" if within_group else "with another value"
    return (
        f"{'; '.join(guarantee.groupings)}. A record counts as replaced by one of the same {same}"
        f"{by_each}; a replacement {other} is not covered."
    )


def _checking(guarantee: Stated) -> Section:
    events = list({repr(event): event for event in guarantee.events}.values())  # distinct ones
    moved = "added or removed" if guarantee.relation == Relation.ADD_OR_REMOVE else "replaced"
    intro = (
        "noise multipliers are noise over the sensitivity D (standard deviation over L2 for "
        "Gaussian, scale over L1 for Laplace), where D is the most that the released value moves "
        f"when a record is {moved}. In these units the pair of neighbours is that of "
        "ADD_OR_REMOVE_ONE."
    )
    compositions = [composition_of_event(event) for event in events]
    if any(composition.discrete for composition in compositions):
        intro += (
            " Discrete Laplace events hold one over the scale, and by how much a count moves: a "
            "record moves two."
        )
    if any(composition.sampled for composition in compositions):
        intro += (
            " Poisson-sampled events take D = 2C with C the largest norm of one record's "
            "contribution; dp_accounting's REPLACE_ONE reads multipliers in units of C, so they "
            "are doubled below."
        )
    if any(composition.selected for composition in compositions):
        intro += " The selection among runs is accounted for by Renyi divergences."
    if len(guarantee.events) > 1 and guarantee.records_per_person > 1:
        intro += (
            f" What a person pays depends on how many of these rows are in which part of the "
            f"records: of {len(guarantee.events)} cases the largest epsilon counts."
        )
    elif len(guarantee.events) > 1:
        intro += (
            f" The records are in {len(guarantee.events)} disjoint parts. A record pays for the "
            "event of its own part, so the largest epsilon counts."
        )
    code = [
        "from dp_accounting.dp_event import *; from dp_accounting import NeighboringRelation",
        "from dp_accounting.pld import PLDAccountant",
        "from dp_accounting.rdp import RdpAccountant",
        "epsilons = []",
    ]
    shown = list(zip(events, compositions, strict=True))[:_MAX_EVENTS]
    for event, composition in shown:
        accountant, relation = "PLDAccountant(", "ADD_OR_REMOVE_ONE"
        if composition.sampled:
            relation = "REPLACE_ONE"
        elif composition.selected:
            accountant = "RdpAccountant(neighboring_relation="
        code += [
            f"accountant = {accountant}NeighboringRelation.{relation})",
            f"event = {scaled_event(event, 2.0) if composition.sampled else event!r}",
            f"epsilons += [accountant.compose(event).get_epsilon({guarantee.delta!r})]",
        ]
    if len(events) > _MAX_EVENTS:
        code.append(f"# and {len(events) - _MAX_EVENTS} other events in the attribute `events`")
    return Section("To check it", intro, (*code, "max(epsilons)"))


def cost_of(guarantee: Stated) -> str:
    """Return ε and δ of a guarantee in words, both rounded up."""
    return f"epsilon = {rounded_up(guarantee.epsilon)} at delta = {rounded_up(guarantee.delta, 6)}"


def rounded_up(number: float, digits: int = 4) -> str:
    """Return a number as text, rounded up to ``digits`` significant digits: no ε looks smaller."""
    above = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(number)))
    return f"{float(above):.{digits}g}"


def _percent(probability: float) -> str:
    """Return a probability in percent with two decimals, rounded up beyond rounding errors."""
    return f"{min(100.0, math.ceil(probability * 1e4 * (1.0 - 1e-12)) / 100.0):g}%"
