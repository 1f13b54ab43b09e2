"""What a report says of privacy, in the words of the guarantees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn_dpwg.inspection._words import visible
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.privacy.statement import rounded_up, sections

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
    sentences = [_capital(gains)]
    if state == "unprotected" and guarantee.is_private:
        sentences = ["The counts were released without noise and may reveal any record."]
    if state == "seeded":
        sentences.append(_capital(said["Randomness"]))
    covers = "the audit alone"
    if results[name].model_privacy_ is not None:
        covers = "the audit and the model together, as both read the same records"
    if len(results) > 1:
        covers += (
            ". Models that were audited in one run share it; of several runs on the same records "
            "the costs add up"
        )
    if guarantee.is_private:
        sentences.append(f"This covers {covers}.")
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
    return f"ε = {epsilon} at δ = {guarantee.delta:.4g}; neighbours: {relation}"


def attacker(results: Mapping[str, AuditResult], names: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what the guarantees promise against an attacker, once where they say the same."""
    return _of_all(results, names, lambda title: title in _ATTACKER)


def outside(results: Mapping[str, AuditResult], names: Mapping[str, str]) -> list[dict[str, str]]:
    """Return what the guarantees take as public, and what they do not cover."""
    known = (*_ATTACKER, _PROOF, "Differential privacy")
    return _of_all(results, names, lambda title: title not in known)


def proof(result: AuditResult) -> dict[str, Any]:
    """Return code that computes ε without this library."""
    for section in sections(result.privacy_):
        if section.title == _PROOF:
            return {"text": _capital(section.text), "code": "\n".join(section.code)}
    return {"text": "Nothing is promised, so there is nothing to check.", "code": ""}


def _of_all(
    results: Mapping[str, AuditResult], names: Mapping[str, str], wanted: Any
) -> list[dict[str, str]]:
    by_text: dict[tuple[str, str], list[str]] = {}
    for name, result in results.items():
        for section in sections(result.privacy_):
            if wanted(section.title):
                text = section.text.replace(_FOR_PROGRAMMERS, "")
                by_text.setdefault((section.title, text), []).append(names[name])
    return [
        {
            "title": title if len(which) == len(results) else f"{title} ({', '.join(which)})",
            "text": visible(_capital(text)),
        }
        for (title, text), which in by_text.items()
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
