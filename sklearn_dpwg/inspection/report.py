"""One page about an audit, and a card of a model, for people who were not there.

Both read the table of an `AuditResult` and its verdict, and compute nothing of their own.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from reprlib import Repr
from tempfile import NamedTemporaryFile
from typing import Any

from sklearn.base import BaseEstimator

from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.inspection import displays, words
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.histogram import GroupRate, unit_of
from sklearn_dpwg.inspection.verdicts import Verdict, metrics_of
from sklearn_dpwg.inspection.words import cut, texts_of, visible
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.privacy.statement import rounded_up, sections


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


# What else a verdict is asked with.
_WHICH = ("leave_out", "min_share", "reference", "of", "within")
# Metrics in the table of groups beside those that are asked for, and in pictures.
_COLUMNS = (
    *("base_rate", "selection_rate", "false_positive_rate", "false_negative_rate"),
    *("auc", "calibration_error"),
)
_DRAWN = ("base_rate", "selection_rate")
# An attacker who is right so often is held back by nothing worth a page without a warning.
_NEARLY_CERTAIN = 0.99
_WARNINGS = {
    "weak": "Hardly private: ε is so large that it protects next to nobody",
    "seeded": "Private only from those who do not know the seed",
    "unprotected": "Not private: contains unprotected statistics",
}
_FOR_PROGRAMMERS = ", k rows `for_records(k)`"
_MOST_ROWS = 30  # of a picture


class AuditReport:
    """A page that says who was audited, what was released, what that protects, and how groups fare.

    It is made of released numbers alone: whatever could be said about the guarantee of the
    `AuditResult` holds for the page, and the same result gives the same bytes.

    Parameters
    ----------
    result : AuditResult
        The audit.
    title : str, optional
        Title of the page.
    notes : str, or sequence of str, default=()
        Paragraphs under the title, such as what the model is for, or how the audit was made.
    metric : str, optional
        By which groups are worst off: one of `AuditResult.METRICS`; by default the error rate, or
        the selection rate where no outcomes were counted.
    verdict_metric : str or sequence of str, optional
        The rate that is judged, or several, as in `AuditResult.verdict`; by default none is. The
        four-fifths rule is about "selection_rate", where people are selected for something.
    at_least : float, default=0.8
        What impact ratios are held against.
    which : mapping, optional
        What else `AuditResult.verdict` takes: ``within``, ``leave_out``, ``min_share``,
        ``reference`` and ``of``. By ``of="records"`` all numbers of the page are of these very
        people; what bins of scores tell, of which that is not known, is left out.

    See Also
    --------
    GroupMetricDisplay : One of its pictures.
    model_card : The same facts about a model, in Markdown.

    Notes
    -----
    The page is one file without any request, and needs no script: a short one, whose hash is in
    the page's content security policy, sorts tables. Title and notes are public by the caller's
    word.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.inspection import AuditReport, GroupAudit
    >>> rng = np.random.default_rng(0)
    >>> y, groups = rng.integers(2, size=4000), np.where(rng.random(4000) < 0.3, "a", "b")
    >>> result = GroupAudit(epsilon=1.0, group_labels=["a", "b"]).run(y, y, groups)
    >>> page = AuditReport(result, title="Loans").html()
    >>> "<h1>Loans</h1>" in page, len(page) < 300_000
    (True, True)
    """

    def __init__(
        self,
        result: AuditResult,
        *,
        title: str | None = None,
        notes: str | Sequence[str] = (),
        metric: str | None = None,
        verdict_metric: str | Sequence[str] | None = None,
        at_least: float | None = None,
        which: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(result, AuditResult):
            raise InputTypeError(f"result must be an AuditResult, got {type(result).__name__}.")
        self.result = result
        self.title = title
        self.notes = (notes,) if isinstance(notes, str) else tuple(notes)
        self.which = dict(which or {})
        for name in self.which:
            if name not in _WHICH:
                raise InputError(f"which must hold some of {', '.join(_WHICH)}, got {name!r}.")
        self.metric = metric or result._shown_by
        self.limit = self.which.get("within") or at_least or 0.8
        self.verdict: Verdict | None = None
        self.judged: tuple[str, ...] = ()
        if verdict_metric is not None:
            self.verdict = result.verdict(verdict_metric, at_least, **self.which)
            self.judged = metrics_of(verdict_metric)
        about = {name: self.which[name] for name in _WHICH[:2] if name in self.which}
        self.worst = result.worst_groups(self.metric, of=self.of, **about)

    @property
    def of(self) -> Any:
        """Of whom the rates are: of a process, or of the very records."""
        return self.which.get("of", "process")

    @cached_property
    def _page(self) -> str:
        result, sizes = self.result, self.result.group_sizes()
        columns = _columns(result, [*self.judged, self.metric], self.of, self.verdict)
        facts: dict[str, Any] = {
            "title": visible(self.title or f"Audit by {visible(result.group_name)}"),
            "sentences": [_who(result), _what(result), _protects(result)],
            "notes": [visible(note) for note in self.notes],
            "warning": _WARNINGS.get(_state(result)),
            "state": _state(result),
            "verdict": self.verdict,
            "result": result,
            "names": texts_of(result.group_labels),
            "of": self.of,
            "metric": self.metric,
            "worst": self.worst,
            "columns": columns,
            "remarks": [notes_of(size, place, columns) for place, size in enumerate(sizes)],
            "metrics": result._counts_of(self.of).metrics,
            "promise": [
                (part.title, part.text.replace(_FOR_PROGRAMMERS, ""), "\n".join(part.code))
                for part in sections(result.privacy_)
            ],
        }
        return as_html(facts, self._pictures())

    def _pictures(self) -> list[tuple[str, str, str, bool]]:
        """Return title, text and SVG of each picture, and whether these are many small ones."""
        result = self.result
        found: list[tuple[displays.Display, str, str]] = []
        for place, metric in enumerate(self.judged if self.verdict is not None else ()):
            assert self.verdict is not None
            shown = displays.contrasts_shown(result, self.verdict, self.limit, place)
            is_ratio = shown["rates"][0].metric.endswith("ratio")
            sides = ("right", "left") if is_ratio else ("left", "right")
            title = f"{'Ratio' if is_ratio else 'Difference'} in {words.of_metric(metric)}"
            text = (
                f"A group passes where its whole interval is {sides[0]} of "
                f"{shown['reference_name']}, and fails where it is {sides[1]} of it."
            )
            found.append((displays.GroupMetricDisplay(**shown, most=_MOST_ROWS), title, text))
        known = result._counts_of(self.of).metrics
        judged, _, _ = result._judged(
            self.which.get("leave_out", ()), self.which.get("min_share", 0)
        )
        out = [one for place, one in enumerate(result.group_labels) if place not in judged]
        for metric in dict.fromkeys((*_DRAWN, *self.judged, self.metric)):
            if metric in known:
                worst = self.worst.groups if metric == self.metric else ()
                shown = displays.rates_shown(result, metric, worst, not_judged=out, of=self.of)
                text = "The dashed line is the rate of all records together." * (
                    shown["reference"] is not None
                )
                text += " A diamond stands by every group that may be worst." * bool(worst)
                display = displays.GroupMetricDisplay(**shown, most=_MOST_ROWS)
                found.append((display, words.capital(words.of_metric(metric)), text.strip()))
        attacker = displays.PrivacyProfileDisplay(result.privacy_)
        text = (
            "Who raises a false alarm so often detects a record at most so often; on the dashed "
            "line an attacker only guesses."
        )
        found.append((attacker, "What an attacker can find out about one record", text))
        drawn = [_drawn(f"p{place}", *each) for place, each in enumerate(found, start=1)]
        return [*drawn[:-1], *_curves(result), drawn[-1]]

    def html(self) -> str:
        """Return the page.

        Returns
        -------
        str
            HTML that needs nothing else.
        """
        return self._page

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


# The three sentences on top.


def _who(result: AuditResult) -> str:
    """Return when the audit was made, of how many people in which groups, and what is selected."""
    number = float(result.n_records or sum(size.estimate for size in result.group_sizes()))
    is_exact = result.n_records is not None or result.sizes is not None or not result.is_private
    name = visible(result.group_name)
    no, yes = (f"‘{words.in_sentence(one)}’" for one in result.classes)
    by = "" if result.threshold is None else f", by a score of {result.threshold:g} or more"
    return (
        f"Audited {visible(result.created)}: {'' if is_exact else 'about '}{number:,.0f} people in "
        f"{len(result.group_labels):,} groups{'' if name == 'group' else f' by {cut(name)}'}. "
        f"Selected is whoever is decided, or predicted, to be {yes}, and not {no}{by}."
    )


def _what(result: AuditResult) -> str:
    """Return what was released."""
    bins = "each decision"
    if result.threshold is not None:
        bins = f"a score on either side of {result.threshold:g}"
    if result.score_edges is not None:
        bins = f"a score in each of {len(result.score_edges) + 1} bins"
    outcome = "each outcome and " if result.has_outcomes else ""
    n = sum(len(row) for table in result.counts for row in table)
    return (
        f"Released {'with noise' if result.is_private else 'exactly'}, and once: how many people "
        f"of each group have {outcome}{bins}; every number below follows from these {n:,} counts."
    )


def _protects(result: AuditResult) -> str:
    """Return what one person may lose at most, and whether that covers the model."""
    guarantee, model = result.privacy_, result.model_privacy_
    if not (result.is_private and guarantee.is_private):
        return "Nobody is protected: the counts may reveal any record."
    right = math.ceil(1000.0 * _right(guarantee) - 1e-9) / 10.0
    covers = "This covers the audit alone: no guarantee of a model was stated with it"
    if model is not None:
        alone = rounded_up(model.epsilon)
        covers = f"This covers the audit and the model, which has ε = {alone} by itself"
    return (
        f"Protected is each one of them: who knows all others, and guesses which of two "
        f"{'people' if guarantee.of_person else 'records'} is in, is right in {right:g} % of cases "
        f"at most, and in 50 % without this page. {covers}."
    )


def _right(guarantee: PrivacyGuarantee) -> float:
    """Return how often an attacker is right who chooses between two records."""
    return (1.0 + float(guarantee.profile(0.0))) / 2.0


def _state(result: AuditResult) -> str:
    """Return what the page has to warn of: "private" needs no warning."""
    if not (result.is_private and result.privacy_.is_private):
        return "unprotected"
    if _right(result.privacy_) >= _NEARLY_CERTAIN:
        return "weak"
    return "seeded" if result.privacy_.seeded else "private"


# Rows of the table of groups, and pictures.


@dataclass(frozen=True)
class _Column:
    """A metric of all groups as a column, with that of all records; contrasts have none."""

    metric: str
    rates: tuple[GroupRate, ...]
    overall: float

    @property
    def unit(self) -> str:
        """What a hundred times a number is in."""
        return unit_of(self.metric)

    @property
    def name(self) -> str:
        """The heading."""
        return words.of_metric(self.metric)


def _columns(
    result: AuditResult, metrics: Iterable[str], of: Any = "process", verdict: Any = None
) -> list[_Column]:
    known = result._counts_of(of).metrics
    names = [one for one in dict.fromkeys((*_COLUMNS, *metrics)) if one in known]
    found = [_Column(one, result.rates(one, of=of), result._overall(one)) for one in names]
    contrasts = [one.contrasts for one in verdict.groups] if verdict else []
    return found + [
        _Column(each[0].metric, each, math.nan) for each in zip(*contrasts, strict=True)
    ]


def notes_of(size: GroupRate, place: int, columns: Sequence[_Column]) -> list[str]:
    """Return what to know of a group: of its size, and of its rates."""
    notes: dict[str, list[str]] = {size.note: []} if size.note else {}
    for column in columns:
        if column.rates[place].note:
            notes.setdefault(column.rates[place].note, []).append(column.name)
    of_some = {
        note: f"{words.listed(names)}: " if len(names) < len(columns) - 1 and names else ""
        for note, names in notes.items()
    }
    return [f"{of_some[note]}{note}" for note in notes]


def _drawn(
    prefix: str, display: displays.Display, title: str, text: str
) -> tuple[str, str, str, bool]:
    if isinstance(display, displays.GroupMetricDisplay) and len(display.rates) > len(display.order):
        text += f" These are the first {len(display.order)} of {len(display.rates):,} groups."
    svg = displays.svg_of(
        lambda ax: display.plot(ax, title=""),
        prefix=prefix,
        size=(displays.INCHES, display.height),
        title=title,
    )
    return title, text, svg, False


def _curves(result: AuditResult) -> list[tuple[str, str, str, bool]]:
    """Return small pictures of calibration and ROC curves, where the audit has bins."""
    of_kind = {
        "calibration": (
            "Calibration",
            "How often people with a score turned out positive; on the dashed line scores mean "
            "what they say.",
        ),
        "roc": (
            "ROC curve",
            "True over false positive rate, at edges of the bins; the farther above the dashed "
            "line, the better scores tell both classes apart.",
        ),
    }
    found, n_groups = [], len(result.group_labels)
    for kind, (title, text) in of_kind.items() if result.has_bins else ():
        curves = displays.curves_of(result, kind)
        text += " Each point of a band holds by itself."
        if len(curves) < n_groups:
            text += f" These are the {len(curves)} groups of the most people, of {n_groups:,}."
        svg = displays.GroupCurvesDisplay(curves, kind)._pictures()
        found.append((f"{title} by group", text, svg, True))
    return found


# The page, which gets these facts and nothing else.


def as_html(facts: Mapping[str, Any], pictures: Sequence[Any]) -> str:
    """Return the page. It may fetch nothing, and run and style nothing but what it brings."""
    from markupsafe import Markup

    style, script = _read("report.css"), _read("report.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    # the only text that is not escaped: two files of this package, and pictures that are written
    # by an XML library
    raw = {"style": Markup(style), "script": Markup(script)}
    drawn = [(title, text, Markup(svg), is_small) for title, text, svg, is_small in pictures]
    return str(_template().render(**facts, **raw, pictures=drawn, policy=policy))


@cache
def _template() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(
            "AuditReport needs jinja2, which is not installed: pip install 'sklearn-dpwg[audit]'."
        ) from error
    made = Environment(
        loader=PackageLoader("sklearn_dpwg.inspection", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
    )
    made.filters |= {"cut": cut, "words": words.of_metric, "shown": words.number}
    made.filters |= {"visible": visible, "capital": words.capital, "interval": words.interval}
    made.filters["any"] = any
    made.globals |= {"quoted": lambda one: f"‘{words.in_sentence(one)}’"}
    return made.get_template("report.html.jinja")


@cache
def _read(name: str) -> str:
    return files("sklearn_dpwg.inspection").joinpath("templates", name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


# Cards that go with a model.

LIMITS = (
    "The model makes the largest mean loss of a group small. That is no promise about differences "
    "of selection rates or of errors between groups, which an audit has to look at.",
    "It was learned for the groups below. How it treats others, or parts of them, is not known.",
    "What was learned holds for people like those of the records. The guarantee protects these; "
    "it says nothing about people whom the model is used on.",
    "A linear model: it cannot make up for features that say less about one group than another.",
)
# What Markdown, its tables or its formulas take for something else: anywhere, and in front.
_MARKUP = re.compile(r"([\\`*_{}\[\]|~$])")
_IN_FRONT = re.compile(r"^(\s*(?:\d+(?=[.)](?:\s|$)))?)([#+=.)>-])")
# What GitHub makes into links.
_LINKS = {"://": "&#58;//", "www.": "www&#46;", "@": "&#64;"}
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
    >>> print(model_card(model, purpose="A toy.").splitlines()[0])
    # DPWorstGroupClassifier
    """
    inner = _private_part(model)
    name = visible(title) if title is not None else type(inner).__name__
    parts = sections(privacy_of(model, warn=False))
    code = [f"    {line}" for part in parts for line in part.code]
    promise = [_bullets((part.title, part.text) for part in parts), "", *code]
    found = {
        "Purpose": escape_markdown(visible(purpose or "Not stated by whoever made this card.")),
        "Privacy guarantee": "\n".join(promise).strip(),
        "Groups": _sizes(inner) if audit is None else _audited(audit),
        "Limits": "\n".join(f"- {escape_markdown(visible(text))}" for text in (*limits, *LIMITS)),
        "Parameters": _parameters(inner),
    }
    head = f"# {escape_markdown(cut(name, 120))}"
    text = "\n\n".join([head, *(f"## {title}\n\n{part}" for title, part in found.items())]) + "\n"
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


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    line = _MARKUP.sub(r"\\\1", " ".join(text.split("\n")))
    escaped = html.escape(_IN_FRONT.sub(r"\1\\\2", line), quote=False)
    for link, harmless in _LINKS.items():
        escaped = escaped.replace(link, harmless)
    return escaped


def _bullets(pairs: Iterable[tuple[str, str]]) -> str:
    escaped = ([escape_markdown(visible(text)) for text in pair] for pair in pairs)
    return "\n".join(f"- **{name}**: {text}" for name, text in escaped)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    lines += [[escape_markdown(cut(visible(cell), 200)) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _parameters(model: Any) -> str:
    rows = []
    for name, value in sorted(model.get_params(deep=False).items()):
        is_seed = name == "random_state" and value is not None
        rows.append((name, "a seed, not shown" if is_seed else _shown(value)))
    return _table(["parameter", "value"], rows)


def _shown(value: Any) -> str:
    """Return a value in short, without the seeds of estimators inside."""
    if not isinstance(value, BaseEstimator):
        return _REPR.repr(value)
    # the whole of it, as what is cut could begin in the middle of a seed
    whole = " ".join(value.__repr__(N_CHAR_MAX=10**6).split())
    return cut(_SEED.sub("random_state=(a seed, not shown)", whole), _REPR.maxother)


def _audited(audit: AuditResult) -> str:
    """Return how an audit saw the groups, and what that cost."""
    columns, sizes = _columns(audit, [audit._shown_by]), audit.group_sizes()
    rows = []
    for place, (name, size) in enumerate(zip(texts_of(audit.group_labels), sizes, strict=True)):
        cells = [name, f"{size.estimate:,.0f} ± {size.width / 2:,.0f}"]
        for column in columns:
            rate = column.rates[place]
            limits = words.interval(rate.low, rate.high, column.unit)
            cells.append(f"{words.number(rate.estimate, column.unit)} ({limits})")
        rows.append([*cells, "; ".join(notes_of(size, place, columns))])
    privacy = sections(audit.privacy_)[0]
    return "\n\n".join(
        [
            _table(["group", "people", *(column.name for column in columns), "notes"], rows),
            escape_markdown(str(audit.worst_groups())),
            _bullets([(f"Privacy of these numbers: {privacy.title}", privacy.text)]),
        ]
    )


def _sizes(model: Any) -> str:
    """Return the groups that a model learned for, where no audit tells how it treats them."""
    nobody = "How the model treats groups was not audited."
    if not hasattr(model, "group_sizes_"):
        return nobody
    records = "noisy count" if getattr(model, "count_std_", 0.0) else "records"
    texts = texts_of(list(model.group_labels_))
    sizes = [f"{size:,.0f}" for size in model.group_sizes_]
    return f"{nobody}\n\n{_table(['group', records], zip(texts, sizes, strict=True))}"
