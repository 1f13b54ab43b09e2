"""One page about an audit, and a card of a model, for people who were not there."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from reprlib import Repr
from tempfile import NamedTemporaryFile
from typing import Any

from sklearn.base import BaseEstimator

from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.inspection import words
from sklearn_dpwg.inspection.audit_result import AuditResult, default_metric
from sklearn_dpwg.inspection.displays import pictures_of
from sklearn_dpwg.inspection.report_facts import Asked, group_facts, report_facts, worst_facts
from sklearn_dpwg.inspection.shape_display import ModelEffects, effects_of
from sklearn_dpwg.inspection.words import cut, texts_of, visible
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.privacy.statement import sections


@contextmanager
def written(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary file beside a path, which takes its place if nothing fails.

    A link is replaced, and what it points to stays.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise InputError(f"{path} is there already: name another file, or say --overwrite.")
    with NamedTemporaryFile(dir=path.parent, suffix=path.suffix, delete=False) as file:
        part = Path(file.name)
    try:
        yield part
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)  # temporary files are for their owner alone
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


# Pages made of templates, which get the facts of a report and nothing else.

SECTIONS = (
    ("verdict", "Verdict"),
    ("groups", "Groups"),
    ("attributes", "By attribute"),
    ("pictures", "Pictures"),
    ("models", "Models"),
    ("privacy", "Privacy"),
    ("attacker", "Attacker"),
    ("outside", "Not covered"),
    ("record", "How it was made"),
    ("glossary", "Glossary"),
)
# What Markdown, its tables or its formulas take for something else: anywhere, and in front.
_MARKUP = re.compile(r"([\\`*_{}\[\]|~$])")
_IN_FRONT = re.compile(r"^(\s*(?:\d+(?=[.)](?:\s|$)))?)([#+=.)>-])")
# What GitHub makes into links.
_LINKS = {"://": "&#58;//", "www.": "www&#46;", "@": "&#64;"}


def as_html(facts: Mapping[str, Any], pictures: Sequence[Mapping[str, Any]]) -> str:
    """Return the page. It may fetch nothing, and run and style nothing but what it brings."""
    from markupsafe import Markup

    style, script = _read("report.css"), _read("report.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    keys = {"models": "model", "attributes": "attributes", "verdict": "verdict"}
    absent = {name for name, key in keys.items() if not facts[key]}
    return (
        _environment("html")
        .get_template("report.html.jinja")
        .render(
            facts=facts,
            # the only text that is not escaped: two files of this package, and pictures that are
            # written by an XML library
            style=Markup(style),
            script=Markup(script),
            pictures=[{**picture, "svg": Markup(picture["svg"])} for picture in pictures],
            policy=policy,
            sections=[one for one in SECTIONS if one[0] not in absent],
        )
    )


def as_markdown(facts: Mapping[str, Any], part: str = "report") -> str:
    """Return the page, or its table of groups, as Markdown."""
    return _environment("markdown").get_template(f"{part}.md.jinja").render(facts=facts)


def escape_markdown(text: object) -> str:
    """Return text that Markdown shows as it is, on one line."""
    if not isinstance(text, str):
        return str(text)
    line = _MARKUP.sub(r"\\\1", " ".join(text.split("\n")))
    escaped = html.escape(_IN_FRONT.sub(r"\1\\\2", line), quote=False)
    for link, harmless in _LINKS.items():
        escaped = escaped.replace(link, harmless)
    return escaped


@cache
def _environment(kind: str) -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "AuditReport needs jinja2, which is not installed: pip install 'sklearn-dpwg[audit]'."
        ) from error
    of_kind: dict[str, Any] = {"autoescape": True}
    if kind == "markdown":
        of_kind = {"autoescape": False, "finalize": escape_markdown}
    made = Environment(
        loader=PackageLoader("sklearn_dpwg.inspection", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        **of_kind,
    )
    made.filters.update(
        cut=words.cut,
        words=words.of_metric,
        listed=words.listed,
        shown=lambda value, unit: words.number(value, unit=unit),
        interval=lambda rate, unit, limit=None: words.interval(
            rate["low"], rate["high"], unit=unit, limit=limit
        ),
    )
    return made


@cache
def _read(name: str) -> str:
    return files("sklearn_dpwg.inspection").joinpath("templates", name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


# What else a verdict is asked with.
_WHICH = ("leave_out", "min_share", "reference", "of", "within")


class AuditReport:
    """A page that says who may be worst off, how sure that is, and what it costs in privacy.

    It is made of released numbers alone: whatever could be said about the guarantee of the
    `AuditResult` holds for the page, and the same result gives the same bytes.

    Parameters
    ----------
    result : AuditResult, or mapping from name to AuditResult
        The audit; of several models the first is the one the page is about, and the others are
        compared with it.
    title : str, optional
        Title of the page.
    notes : str, or sequence of str, default=()
        Paragraphs under the title, such as what the model is for.
    command : str, optional
        What the audit was made with, to be made again.
    metric : str, optional
        By which groups are worst off: one of `AuditResult.METRICS`; by default the first of
        ``verdict_metric``, or else the error rate if outcomes were counted.
    verdict_metric : str or sequence of str, optional
        The rate that is judged, or several, as in `AuditResult.verdict`; by default none is. The
        four-fifths rule is about "selection_rate", where people are selected for something.
    at_least : float, default=0.8
        What impact ratios are held against.
    which : mapping, optional
        What else `AuditResult.verdict` takes: ``within``, ``leave_out``, ``min_share``,
        ``reference`` and ``of``. By ``of="records"`` all numbers of the page are of these very
        people; what bins of scores tell, of which that is not known, is left out.
    model : pipeline, optional
        The private model that the page is about, behind a `PublicSchema` or `PublicShapes`: the
        page shows what it does with each column (`ShapeDisplay`), and names its cost.
    by_attribute : bool, default=False
        Where groups are all cells of several columns, whether there is a part for each column too,
        with a verdict that leaves nobody out and compares every two of its values.

    See Also
    --------
    GroupMetricDisplay : One of its pictures.
    model_card : The same facts about a model, in Markdown.

    Notes
    -----
    The page is one file without any request, and needs no script: a short one, whose hash is in
    the page's content security policy, sorts tables. Title, notes and command are public by the
    caller's word.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.inspection import AuditReport, GroupAudit
    >>> rng = np.random.default_rng(0)
    >>> y, groups = rng.integers(2, size=4000), np.where(rng.random(4000) < 0.3, "a", "b")
    >>> result = GroupAudit(epsilon=1.0, group_labels=["a", "b"]).run(y, y, groups)
    >>> report = AuditReport(result, title="Loans")
    >>> report.dict()["title"], len(report.html()) < 500_000
    ('Loans', True)
    """

    def __init__(
        self,
        result: AuditResult | Mapping[str, AuditResult],
        *,
        title: str | None = None,
        notes: str | Sequence[str] = (),
        command: str | None = None,
        metric: str | None = None,
        verdict_metric: str | Sequence[str] | None = None,
        at_least: float | None = None,
        which: Mapping[str, Any] | None = None,
        model: Any = None,
        by_attribute: bool = False,
    ) -> None:
        results = dict(result) if isinstance(result, Mapping) else {"the model": result}
        if not results:
            raise InputError("result must hold at least one AuditResult, got an empty mapping.")
        for name, one in results.items():
            if not isinstance(one, AuditResult):
                raise InputTypeError(
                    f"result must be an AuditResult or a mapping of them, got "
                    f"{type(one).__name__} for {name!r}."
                )
        for name in which or {}:
            if name not in _WHICH:
                raise InputError(f"which must hold some of {', '.join(_WHICH)}, got {name!r}.")
        self.results = results
        self.title = title
        self.notes = (notes,) if isinstance(notes, str) else tuple(notes)
        self.command = command
        first = Asked(next(iter(results.values())), "", verdict_metric, at_least, which or {})
        self.metric = metric or (first.metrics or [default_metric(results.values())])[0]
        if metric is None and first.metrics[:1] == ["selection_rate"]:
            self.metric = default_metric(results.values())
        self._asked = {
            name: Asked(one, self.metric, verdict_metric, at_least, which or {})
            for name, one in results.items()
        }
        for asked in self._asked.values():
            asked.check()
        self.by_attribute = by_attribute
        if by_attribute:
            next(iter(results.values())).by_attribute()  # which refuses what it cannot tell
        is_made = model is None or isinstance(model, ModelEffects)
        wanted = next(iter(results.values())).classes[1]
        self.effects = model if is_made else ModelEffects.from_model(model, wanted)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        found = report_facts(
            self._asked,
            title=self.title,
            notes=self.notes,
            command=self.command,
            by_attribute=self.by_attribute,
        )
        if self.effects is None:
            return found | {"effects": None}
        is_counted = next(iter(self.results.values())).model_privacy_ is not None
        return found | {"effects": self.effects.facts(is_counted=is_counted)}

    @cached_property
    def _page(self) -> str:
        pictures = pictures_of(next(iter(self._asked.values())))
        if self.effects is not None:
            drawn = {"svg": self.effects.pictures(), "is_wide": True}
            pictures.append(self._facts["effects"] | drawn)
        return as_html(self._facts, pictures)

    def html(self) -> str:
        """Return the page.

        Returns
        -------
        str
            HTML that needs nothing else.
        """
        return self._page

    def dict(self) -> dict[str, Any]:
        """Return all that the page says as plain values.

        Returns
        -------
        dict
            By section; a copy that may be changed.
        """
        plain: dict[str, Any] = json.loads(json.dumps(self._facts))
        return plain

    def markdown(self) -> str:
        """Return the page without its pictures as Markdown.

        Returns
        -------
        str
            With tables, as GitHub reads it.
        """
        return as_markdown(self._facts)

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : path-like
            The file; what is there is replaced.
        """
        with written(path) as part:
            part.write_bytes(self.html().encode())

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the page in a frame, where its style stays."""
        page = html.escape(self.html())
        return (
            f'<iframe title="Audit report" sandbox="allow-scripts" srcdoc="{page}" width="100%" '
            f'height="720" style="border:1px solid rgba(128,128,128,0.5)"></iframe>'
        )


# Cards that go with a model.

LIMITS = (
    "The model makes the largest mean loss of a group small. That is no promise about differences "
    "of selection rates or of errors between groups, which an audit has to look at.",
    "It was learned for the groups below. How it treats others, or parts of them, is not known.",
    "What was learned holds for people like those of the records. The guarantee protects these; "
    "it says nothing about people whom the model is used on.",
    "A linear model: it cannot make up for features that say less about one group than another.",
)
# A seed in a published card would void the guarantee that stands above it.
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
) -> str:
    """Return a card that goes with a model: guarantee, groups, limits, and how it was made.

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

    Returns
    -------
    str
        Markdown. Everything in it is public or was paid for; a seed is not shown.

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
        "Groups": _groups(inner, audit),
        "Limits": "\n".join(f"- {escape_markdown(visible(text))}" for text in (*limits, *LIMITS)),
        **_effects(model, None if audit is None else audit.classes[1]),
        "Parameters": _parameters(inner),
    }
    card = Card(model, template=None, model_diagram=False)
    over = escape_markdown(cut(name, 120)).replace("/", r"\/")  # else it opens a section within
    card.add(**{over: ""})
    card.add(**{f"{over}/{title}": text for title, text in found.items()})
    text = str(card.render())
    if path is not None:
        with written(path) as part:
            part.write_bytes(text.encode())
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


def _parameters(model: Any) -> str:
    rows = ["| parameter | value |", "| --- | --- |"]
    for name, value in sorted(model.get_params(deep=False).items()):
        is_seed = name == "random_state" and value is not None
        shown = "a seed, not shown" if is_seed else _shown(value)
        rows.append(f"| {escape_markdown(name)} | {escape_markdown(visible(shown))} |")
    return "\n".join(rows)


def _shown(value: Any) -> str:
    """Return a value in short, without the seeds of estimators inside."""
    if not isinstance(value, BaseEstimator):
        return _REPR.repr(value)
    # the whole of it, as what is cut could begin in the middle of a seed
    whole = " ".join(value.__repr__(N_CHAR_MAX=10**6).split())
    return cut(_SEED.sub("random_state=(a seed, not shown)", whole), _REPR.maxother)


def _effects(model: Any, wanted: Any) -> dict[str, str]:
    effects = effects_of(model, wanted)
    if effects is None:
        return {}
    facts = effects.facts()
    found = as_markdown({"effects": facts}, "effects").strip()
    return {"Effects": f"{escape_markdown(facts['text'])}\n\n{found}"}


def _groups(model: Any, audit: AuditResult | None) -> str:
    if audit is not None:
        asked = Asked(audit, default_metric([audit]), None, None, {})
        privacy = sections(audit.privacy_)[0]
        return "\n\n".join(
            [
                as_markdown({"groups": group_facts(asked)}, "groups").strip(),
                escape_markdown(worst_facts(asked)["sentence"]),
                _bullets([(f"Privacy of these numbers: {privacy.title}", privacy.text)]),
            ]
        )
    nobody = "How the model treats groups was not audited."
    if not hasattr(model, "group_sizes_"):
        return nobody
    records = "noisy count" if getattr(model, "count_std_", 0.0) else "records"
    rows = [f"| group | {records} |", "| --- | ---: |"]
    texts = texts_of(list(model.group_labels_))
    for text, size in zip(texts, model.group_sizes_, strict=True):
        rows.append(f"| {escape_markdown(cut(text, 200))} | {size:,.0f} |")
    return "\n".join([nobody, "", *rows])
