"""Model cards."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from reprlib import Repr
from typing import Any

from sklearn.base import BaseEstimator

from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.report import escape_markdown, groups_as_markdown
from sklearn_dpwg.inspection.report_facts import group_facts, verdict_facts
from sklearn_dpwg.inspection.words import cut, texts_of, visible
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.privacy.statement import sections

LIMITS = (
    "The model makes the largest mean loss of a group small. That is no promise about differences "
    "of selection rates or of errors between groups, which an audit has to look at.",
    "It was learned for the groups below. How it treats others, or parts of them, is not known.",
    "What was learned holds for people like those of the records. The guarantee protects these; "
    "it says nothing about people whom the model is used on.",
    "A linear model: it cannot make up for features that say less about one group than another.",
)
# A seed in a published card would void the guarantee that stands above it.
_SECRET = ("random_state",)
_SEED = re.compile(r"random_state=(?!None\b)[^,()]*(\([^()]*\)[^,()]*)?")
_REPR = Repr()
_REPR.maxstring = _REPR.maxother = 80


def model_card(
    model: Any,
    audit: AuditResult | None = None,
    *,
    title: str | None = None,
    purpose: str | None = None,
    limits: Sequence[str] = (),
    path: str | os.PathLike[str] | None = None,
    at_least: float = 0.8,
) -> str:
    """Return a card that goes with a model: guarantee, plan, groups, limits.

    Parameters
    ----------
    model : estimator
        A fitted private model, or a pipeline or search that ends in one.
    audit : AuditResult, optional
        How it treats groups; without one the card says that nobody has looked.
    title : str, optional
        Title of the card.
    purpose : str, optional
        What the model is for, and what not.
    limits : sequence of str, default=()
        Further limits, before those of every worst-group model.
    path : path-like, optional
        Where to write the card too.
    at_least : float, default=0.8
        What impact ratios are held against.

    Returns
    -------
    str
        Markdown. Everything in it is public or was paid for; a seed is not shown.

    Raises
    ------
    ValueError
        If there is no private model inside.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg import DPWorstGroupClassifier
    >>> from sklearn_dpwg.inspection import model_card
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(20_000, 2))
    >>> y, groups = X[:, 0] > 0, np.where(X[:, 1] > 0.2, "a", "b")
    >>> model = DPWorstGroupClassifier(data_norm=1.0).fit(X, y, groups)
    >>> print(model_card(model, purpose="A toy.").splitlines()[1])
    # DPWorstGroupClassifier
    """
    try:
        from skops.card import Card
    except ImportError as error:
        raise ImportError(
            "model_card needs skops, which is not installed: pip install 'sklearn-dpwg[audit]'."
        ) from error
    guarantee = privacy_of(model, warn=False)
    inner = _private_part(model)
    name = visible(title) if title is not None else type(inner).__name__
    found = {
        "Purpose": escape_markdown(visible(purpose or "Not stated by whoever made this card.")),
        "Privacy guarantee": _guarantee(guarantee),
        "Plan": _plan(inner),
        "Parameters": _parameters(inner),
        "Groups": _groups(inner, audit, at_least),
        "Limits": "\n".join(f"- {escape_markdown(visible(text))}" for text in (*limits, *LIMITS)),
    }
    card = Card(model, template=None, model_diagram=False)
    over = escape_markdown(cut(name, 120)).replace("/", r"\/")  # else it opens a section within
    card.add(**{over: ""})
    card.add(**{f"{over}/{title}": text for title, text in found.items()})
    text = str(card.render())
    if path is not None:
        Path(path).write_bytes(text.encode())
    return text


def _private_part(model: Any) -> Any:
    """Return the estimator with a plan inside searches and pipelines, or the outermost one."""
    inner = model
    while not hasattr(inner, "plan_"):
        if hasattr(inner, "best_estimator_"):
            inner = inner.best_estimator_
        elif hasattr(inner, "steps"):
            inner = inner.steps[-1][1]
        else:
            return model
    return inner


def _bullets(pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join(
        f"- **{escape_markdown(visible(name))}**: {escape_markdown(visible(text))}"
        for name, text in pairs
    )


def _guarantee(guarantee: PrivacyGuarantee) -> str:
    parts = sections(guarantee)
    code = [f"    {line}" for part in parts for line in part.code]
    return "\n".join([_bullets((part.title, part.text) for part in parts), "", *code]).strip()


def _plan(model: Any) -> str:
    if not hasattr(model, "plan_"):
        return "The model does not tell its plan."
    lines = str(model.plan_).split("\nDifferential privacy:")[0].split("\nNo privacy:")[0]
    return "\n".join(f"    {visible(line)}" for line in lines.strip().split("\n"))


def _parameters(model: Any) -> str:
    rows = ["| parameter | value |", "| --- | --- |"]
    for name, value in sorted(model.get_params(deep=False).items()):
        shown = _shown(value)
        if name in _SECRET and value is not None:
            shown = "a seed, not shown"
        rows.append(f"| {escape_markdown(name)} | {escape_markdown(visible(shown))} |")
    return "\n".join(rows)


def _shown(value: Any) -> str:
    """Return a value in short, without the seeds of estimators inside."""
    if not isinstance(value, BaseEstimator):
        return _REPR.repr(value)
    # the whole of it, as what is cut could begin in the middle of a seed
    whole = " ".join(value.__repr__(N_CHAR_MAX=10**6).split())
    return cut(_SEED.sub("random_state=(a seed, not shown)", whole), _REPR.maxother)


def _groups(model: Any, audit: AuditResult | None, at_least: float) -> str:
    if audit is not None:
        verdict = verdict_facts(audit, "error_rate", at_least)
        said = [verdict[key] for key in ("worst", "value", "gap", "impact", "deciding")]
        privacy = sections(audit.privacy_)[0]
        facts = {"groups": group_facts(audit, "error_rate", at_least)}
        return "\n\n".join(
            [
                escape_markdown(" ".join(said)),
                groups_as_markdown(facts).strip(),
                _bullets([(f"Privacy of these numbers: {privacy.title}", privacy.text)]),
            ]
        )
    nobody = "How the model treats groups was not audited."
    if not hasattr(model, "group_sizes_"):
        return nobody
    rows = ["| group | records |", "| --- | ---: |"]
    texts = texts_of(list(model.group_labels_))
    for text, size in zip(texts, model.group_sizes_, strict=True):
        rows.append(f"| {escape_markdown(cut(text, 200))} | {size:,.0f} |")
    return "\n".join([nobody, "", *rows])
