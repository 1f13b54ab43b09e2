"""Pages made of templates, which get the facts of a report and nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from sklearn_dpwg.inspection._labels import shortened
from sklearn_dpwg.inspection._words import interval, listed, number, words_of

SECTIONS = (
    ("verdict", "Verdict"),
    ("privacy", "Privacy"),
    ("groups", "Groups"),
    ("pictures", "Pictures"),
    ("models", "Models"),
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
# Characters of a name in a table, unless the template says otherwise.
_CUT = 60


def as_html(facts: Mapping[str, Any], pictures: Sequence[Mapping[str, Any]]) -> str:
    """Return the page. It may fetch nothing, and run and style nothing but what it brings."""
    from markupsafe import Markup

    style, script = _read("report.css"), _read("report.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
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
            sections=SECTIONS,
        )
    )


def as_markdown(facts: Mapping[str, Any]) -> str:
    """Return the page as Markdown."""
    return _environment("markdown").get_template("report.md.jinja").render(facts=facts)


def groups_as_markdown(facts: Mapping[str, Any]) -> str:
    """Return the table of groups as Markdown."""
    return _environment("markdown").get_template("groups.md.jinja").render(facts=facts)


def escape_markdown(text: object) -> str:
    """Return text that Markdown shows as it is, on one line."""
    if not isinstance(text, str):
        return str(text)
    line = _MARKUP.sub(r"\\\1", " ".join(text.split("\n")))
    escaped = html.escape(_IN_FRONT.sub(r"\1\\\2", line), quote=False)
    for link, harmless in _LINKS.items():
        escaped = escaped.replace(link, harmless)
    return escaped


def cut(text: str, width: int = _CUT) -> str:
    """Return the beginning and the end of a long text."""
    return shortened([text], width)[0]


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
    made.filters.update(cut=cut, words=words_of, listed=listed, shown=_shown, interval=_interval)
    return made


def _shown(value: float | None, in_percent: bool) -> str:
    return number(value, in_percent=in_percent)


def _interval(rate: Mapping[str, float | None], in_percent: bool) -> str:
    return interval(rate["low"], rate["high"], in_percent=in_percent)


@cache
def _read(name: str) -> str:
    return files("sklearn_dpwg.inspection").joinpath("templates", name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
