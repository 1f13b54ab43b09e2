"""An HTML report of an audit, and a Markdown card of a model, for readers without Python.

Both show numbers of an `AuditResult` and its verdict, and compute no others.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from textwrap import indent
from typing import Any
from uuid import uuid4

import numpy as np

from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.inspection import words
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.displays import GroupMetricDisplay
from sklearn_dpwg.inspection.histogram import Of, unit_of
from sklearn_dpwg.inspection.verdicts import Verdict
from sklearn_dpwg.inspection.words import cut, texts_of, visible
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.metrics.scorer import inwards
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.privacy.statement import rounded_up, sections


@contextmanager
def written(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary file, which replaces the file at a path if the block raises no error.

    A link at the path is replaced; its target stays.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise InputError(f"{path} is there already: name another file, or say --overwrite.")
    temporary = path.with_name(f".{uuid4().hex}{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


# Metrics that are always in the table of groups, and those that always have a picture.
_COLUMNS = (
    *("base_rate", "selection_rate", "false_positive_rate", "false_negative_rate"),
    *("auc", "calibration_error"),
)
_DRAWN = ("base_rate", "selection_rate")
# The page has a warning if an attacker can be right this often.
_NEARLY_CERTAIN = 0.99
# Most groups in a picture, most groups with a curve each, and most points of a curve.
_MAX_ROWS, _MAX_CURVES, _MAX_POINTS = 30, 8, 10
_CURVES = {
    "Calibration": (
        "How often people with a score turned out positive; on the dashed line scores mean what "
        "they say."
    ),
    "ROC curve": (
        "True over false positive rate, at edges of the bins; the farther above the dashed line, "
        "the better scores tell both classes apart."
    ),
}
_FOR_PROGRAMMERS = ", k rows `for_records(k)`"


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
    verdict : Verdict, optional
        What `AuditResult.verdict` answered, to be shown; by default nothing is judged. The
        four-fifths rule is about selection rates, where people are selected for something. With
        one that is ``of="records"`` all numbers of the page are of these very people; what bins
        of scores tell, of which that is not known, is left out.

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
        verdict: Verdict | None = None,
    ) -> None:
        if not isinstance(result, AuditResult):
            raise InputTypeError(f"result must be an AuditResult, got {type(result).__name__}.")
        self.result = result
        self.title = visible(title or f"Audit by {visible(result.group_name)}")
        self.notes = [visible(note) for note in ((notes,) if isinstance(notes, str) else notes)]
        self.metric = result._default_metric
        self.verdict = verdict
        self.of: Of = "process" if verdict is None else verdict.of
        judged, *_ = result._judged()
        self._left_out = {*result.group_labels} - {result.group_labels[one] for one in judged}
        if verdict is not None:
            if tuple(one.group for one in verdict.groups) != result.group_labels:
                raise InputError("verdict must be of the result, got one of other groups.")
            self._left_out = {one.group for one in verdict.groups if one.answer == "not judged"}
        self.worst = result.worst_groups(leave_out=[*self._left_out], of=self.of)

    def html(self) -> str:
        """Return the page.

        Returns
        -------
        str
            HTML that needs nothing else: it may fetch nothing, and run and style nothing but what
            it brings.
        """
        result, sizes = self.result, self.result.group_sizes()
        judged = () if self.verdict is None else self.verdict.metrics
        metrics = result._histogram_of(self.of).metrics
        names = dict.fromkeys((*_COLUMNS, *judged, self.metric))
        columns = [result.rates(one, of=self.of) for one in names if one in metrics]
        if self.verdict is not None:
            columns += zip(*(one.contrasts for one in self.verdict.groups), strict=True)
        state, warning = _warning(result)
        return _template().render(
            report=self,
            result=result,
            sizes=sizes,
            names=texts_of(result.group_labels),
            columns=columns,
            metrics=metrics,
            pictures=[*self._group_pictures(), *_curves(result), _attacker(result.privacy_)],
            right=math.ceil(1000.0 * _right(result.privacy_) - 1e-9) / 10.0,
            state=state,
            warning=warning,
            promise=[
                (part.title, part.text.replace(_FOR_PROGRAMMERS, ""), "\n".join(part.code))
                for part in sections(result.privacy_)
            ],
        )

    def write_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : path-like
            The file; what is there is replaced.
        """
        with written(path) as temporary:
            temporary.write_bytes(self.html().encode())

    def _repr_html_(self) -> str:
        """Return the page in a frame for a notebook, so that its style affects nothing else."""
        page = html.escape(self.html())
        return (
            f'<iframe title="Audit report" sandbox="allow-scripts" srcdoc="{page}" width="100%" '
            f'height="720" style="border:1px solid rgba(128,128,128,0.5)"></iframe>'
        )

    def _group_pictures(self) -> Iterator[tuple[str, str, str, Any]]:
        """Yield (title, text, kind of picture, display) for each contrast and each rate."""
        result, first = self.result, ""
        if len(result.group_labels) > _MAX_ROWS:
            first = f" These are the first {_MAX_ROWS} of {len(result.group_labels):,} groups."
        judged = () if self.verdict is None else self.verdict.metrics
        for place, metric in enumerate(judged):
            assert self.verdict is not None
            shown = GroupMetricDisplay._of_contrasts(result, self.verdict, place)
            kind = "Difference" if shown.greater_is_worse else "Ratio"
            sides = ("left", "right") if shown.greater_is_worse else ("right", "left")
            yield (
                f"{kind} in {words.of_metric(metric)}",
                f"A group passes where its whole interval is {sides[0]} of {shown.reference_name}, "
                f"and fails where it is {sides[1]} of it.{first}",
                "groups",
                shown,
            )
        known = result._histogram_of(self.of).metrics
        for metric in dict.fromkeys((*_DRAWN, *judged, self.metric)):
            if metric not in known:
                continue
            worst = self.worst.groups if metric == self.metric else ()
            shown = GroupMetricDisplay._of_rates(
                result, metric, worst, not_judged=self._left_out, of=self.of
            )
            text = "The dashed line is the rate of all records together."
            text = "" if shown.reference is None else text
            text += " A diamond stands by every group that may be worst." * bool(worst)
            yield words.capital(words.of_metric(metric)), text + first, "groups", shown


def _right(guarantee: PrivacyGuarantee) -> float:
    """Return the largest probability that an attacker tells which of two records was used."""
    return (1.0 + float(guarantee.profile(0.0))) / 2.0


def _warning(result: AuditResult) -> tuple[str, str]:
    """Return the state of protection, a class of the page's style, and a warning or ""."""
    if not (result.is_private and result.privacy_.is_private):
        return "unprotected", "Not private: contains unprotected statistics"
    if _right(result.privacy_) >= _NEARLY_CERTAIN:
        return "weak", "Hardly private: ε is so large that it protects next to nobody"
    if result.privacy_.seeded:
        return "seeded", "Private only from those who do not know the seed"
    return "private", ""


# Curves, and helpers for the axes of all pictures.


def _curves(result: AuditResult) -> Iterator[tuple[str, str, str, Any]]:
    """Yield pictures of calibration and ROC curves, as `_group_pictures` does, if bins exist."""
    if not result.has_bins:
        return
    names, level = texts_of(result.group_labels), result.confidence
    sizes = np.array([size.estimate for size in result.group_sizes()])
    chosen = np.argsort(-sizes, kind="stable")[:_MAX_CURVES].tolist()
    edges, counted = result.score_edges or (), result._histogram
    at_edges = [
        result.at(edge)._histogram for edge in edges[:: -math.ceil(len(edges) / _MAX_POINTS)]
    ]
    for title, text in _CURVES.items():
        curves = []
        for group in chosen:
            if title == "Calibration":
                ends: list[tuple[float, float]] = []
                points: Iterable[tuple[Any, Any]] = zip(
                    counted.middles, result.calibration(result.group_labels[group]), strict=True
                )
            else:
                ends = [(0.0, 0.0), (1.0, 1.0)]
                points = (
                    (
                        one.fraction("false_positive_rate", group),
                        one.interval("true_positive_rate", group, level),
                    )
                    for one in at_edges
                )
            known = [(x, y) for x, y in points if not math.isnan(x + y.estimate)]
            line, low, high = (
                [*ends[:1], *((x, getattr(y, name)) for x, y in known), *ends[1:]]
                for name in ("estimate", "low", "high")
            )
            curves.append((names[group], line, [*low, *reversed(high)]))
        text += " Each point of a band holds by itself."
        if len(curves) < len(names):
            text += f" These are the {len(curves)} groups of the most people, of {len(names):,}."
        yield f"{title} by group", text, "curves", curves


def _attacker(guarantee: PrivacyGuarantee) -> tuple[str, str, str, Any]:
    """Return a picture of detections by false alarms; its last point is at 5 % false alarms."""
    alarms = np.append(np.linspace(0.0, 1.0, 41) ** 2, 0.05)  # denser near 0
    detected = 1.0 - guarantee.tradeoff(alarms) if guarantee.is_private else np.ones_like(alarms)
    points = list(zip(alarms.tolist(), detected.tolist(), strict=True))
    percent = math.ceil(1000.0 * points[-1][1] - 1e-9) / 10.0
    text = (
        f"At 5 % false alarms an attacker detects at most {percent:g} % of the records (the "
        "diamond); the line has other rates, and on the dashed one an attacker only guesses."
    )
    title = "What an attacker can find out about one record"
    return title, text, "attacker", (points[:-1], points[-1])


def ticks_of(display: GroupMetricDisplay) -> list[float]:
    """Return at most seven round numbers for the axis, which enclose all limits."""
    known = [0.0 if display.reference is None else display.reference]
    known += [end for rate in display.rates for end in (rate.low, rate.high) if math.isfinite(end)]
    low, high = min(known), max(known)
    steps = (step * 10.0**power for power in range(-3, 9) for step in (1, 2, 5))
    step = next(step for step in steps if high - low <= 5.0 * step)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * place for place in range(first, max(last, first + 1) + 1)]


def along(value: float, ends: Sequence[float], first: float, last: float) -> str:
    """Return the coordinate of a value, as text, if the ends are at coordinates first and last."""
    fraction = min(max((value - ends[0]) / (ends[-1] - ends[0]), 0.0), 1.0)
    return f"{first + fraction * (last - first):.4g}"


def path(
    points: Iterable[tuple[float, float]], across: tuple[float, float], up: tuple[float, float]
) -> str:
    """Return an SVG path through points of [0, 1]², drawn between the given coordinates."""
    return "M" + "L".join(f"{along(x, (0, 1), *across)} {along(y, (0, 1), *up)}" for x, y in points)


@cache
def _template() -> Any:
    """Return the Jinja template of the page, with its filters, style and script."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError(
            "AuditReport needs jinja2, which is not installed: pip install 'sklearn-dpwg[audit]'."
        ) from error
    env = Environment(
        loader=PackageLoader("sklearn_dpwg.inspection", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
    )
    env.filters |= {"cut": cut, "words": words.of_metric, "shown": words.number}
    env.filters |= {"visible": visible, "capital": words.capital, "interval": words.interval}
    env.filters |= {"any": any, "unit": unit_of, "rounded_up": rounded_up}
    env.filters |= {"ticks": ticks_of, "along": along, "path": path}
    env.globals |= {"quoted": lambda one: f"‘{words.in_sentence(one)}’", "most_rows": _MAX_ROWS}
    folder = files("sklearn_dpwg.inspection").joinpath("templates")
    for name in ("style.css", "script.js"):
        kind, _, ending = name.partition(".")
        text = folder.joinpath(f"report.{ending}").read_text("utf-8")
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        # the only text without escapes: two files of this package
        env.globals |= {kind: Markup(text), f"{kind}_hash": f"sha256-{digest}"}
    return env.get_template("report.html.jinja")


# Cards that go with a model.

LIMITS = (
    "The model makes the largest mean loss of a group small. That is no promise about differences "
    "of selection rates or of errors between groups, which an audit has to look at.",
    "It was learned for the groups above. How it treats others, or parts of them, is not known.",
    "What was learned holds for people like those of the records. The guarantee protects these; "
    "it says nothing about people whom the model is used on.",
    "A linear model: it cannot make up for features that say less about one group than another.",
)


def model_card(
    model: Any,
    audit: AuditResult | None = None,
    *,
    purpose: str = "Not stated by whoever made this card.",
    limits: Sequence[str] = (),
) -> str:
    """Return a card that goes with a model: purpose, guarantee, groups and limits.

    Parameters
    ----------
    model : estimator
        A fitted private model, or a pipeline or search that ends in one.
    audit : AuditResult, optional
        How it treats groups; without one the card says that nobody has looked.
    purpose : str, optional
        What the model is for, and what not, in Markdown.
    limits : sequence of str, default=()
        Further limits, before those of every worst-group model.

    Returns
    -------
    str
        Markdown. Everything in it is public or was paid for.
    """
    groups = ["How the model treats groups was not audited."]
    inner = next((one for one in inwards(model) if hasattr(one, "plan_")), model)
    if audit is not None:
        worst, privacy = str(audit.worst_groups()), str(audit.privacy_)
        groups = [_code(str(audit)), "Of these numbers:", _code(f"{worst}\n{privacy}")]
    elif hasattr(inner, "group_sizes_"):
        kind = "noisy count" if getattr(inner, "count_std_", 0.0) else "records"
        sizes = [f"{size:,.0f}" for size in inner.group_sizes_]
        rows = zip(texts_of(list(inner.group_labels_)), sizes, strict=True)
        groups.append(_code("\n".join(words.table([("group", kind), *rows]))))
    chapters = {
        "Purpose": purpose,
        "Privacy guarantee": _code(str(privacy_of(model, warn=False))),
        "Groups": "\n\n".join(groups),
        "Limits": "\n".join(f"- {text}" for text in (*limits, *LIMITS)),
    }
    head = f"# {type(inner).__name__}"
    return "\n\n".join([head, *(f"## {name}\n\n{text}" for name, text in chapters.items())]) + "\n"


def _code(text: str) -> str:
    """Return text as an indented code block, in which Markdown interprets no label."""
    return indent(visible(text), "    ")
