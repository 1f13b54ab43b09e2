"""Verdicts as lines, and as the table of the page on checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.audit.front_door.attack import Verdict
from tests.audit.front_door.faults import FAULTS
from tests.audit.front_door.scenarios import SCENARIOS

MARKS = ("<!-- printed by make audit -->", "<!-- end of what is printed -->")
CLAIMED = 8.0  # by most scenarios


def line(name: str, verdict: Verdict, seconds: float) -> str:
    """Return a verdict for a terminal."""
    planted = name in FAULTS
    return (
        f"{'planted: ' if planted else ''}{name}: claimed epsilon {verdict.claim.epsilon:.3g}, "
        f"audited >= {verdict.audited_epsilon:.3g}: {word(planted, verdict)} ({seconds:.0f} s)"
    )


def word(planted: bool, verdict: Verdict) -> str:
    """Return what became of a claim."""
    if planted:
        return "caught" if verdict.is_broken else "MISSED"
    return "BROKEN" if verdict.is_broken else "holds"


def tables(verdicts: Mapping[str, Verdict], *, seconds: float) -> str:
    """Return what the page says, the answer first."""
    n_held = sum(not verdicts[name].is_broken for name in SCENARIOS)
    n_caught = sum(verdicts[name].is_broken for name in FAULTS)
    rows = [
        f"**{n_held} of {len(SCENARIOS)} claims hold, and {n_caught} of {len(FAULTS)} planted "
        f"faults are caught**, in {seconds / 60.0:.0f} minutes on two cores. Claimed is "
        f"ε = {CLAIMED:g} where nothing else is said.",
        "",
        "| what is fitted | audited ε, at least |",
        "|---|--:|",
    ]
    rows += [f"| {name} | {cell(verdicts[name])} |" for name in SCENARIOS]
    rows += [
        "",
        "| planted fault | where | audited ε, at least |",
        "|---|---|--:|",
    ]
    rows += [
        f"| {name} | {fault.scenario} | {cell(verdicts[name])} |" for name, fault in FAULTS.items()
    ]
    return "\n".join(rows)


def cell(verdict: Verdict) -> str:
    claimed = verdict.claim.epsilon
    other = "" if f"{claimed:.2f}" == f"{CLAIMED:.2f}" else f" of {claimed:.2f}"
    return f"{verdict.audited_epsilon:.2f}{other}"


def write_page(page: Path, verdicts: Mapping[str, Verdict], *, seconds: float) -> None:
    """Put the tables between the marks of a page."""
    content = page.read_text(encoding="utf-8")
    before, start, rest = content.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (start and end) or any(content.count(mark) > 1 for mark in MARKS):
        raise ValueError(f"{page.name} must have the marks {MARKS} once, in this order.")
    text = tables(verdicts, seconds=seconds)
    page.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")
