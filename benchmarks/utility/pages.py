"""What the benchmark prints, put into the pages that show it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from utility.bounds import bounds_table
from utility.chart import chart
from utility.report import DEFAULT, NOTHING, Cells, docs_text
from utility.settings import EPSILONS

MARKS = ("<!-- printed by make bench -->", "<!-- end of what is printed -->")


def missing_cells(cells: Cells, names: Sequence[str]) -> list[str]:
    """Return what the pages show and nobody has measured.

    Parameters
    ----------
    cells : dict
        What `collect` returns.
    names : sequence of str
        All tasks.

    Returns
    -------
    list of str
        Task and ε of each cell without the default's fits or without a peer.
    """
    return [
        f"{name} at ε = {epsilon:g}"
        for name in names
        for epsilon in EPSILONS
        if DEFAULT not in cells.get((name, epsilon), {}) or NOTHING not in cells[name, epsilon]
    ]


def write_pages(cells: Cells, root: Path) -> None:
    """Refresh the README's chart, the page of results and the guide's bounds.

    Parameters
    ----------
    cells : dict
        What `collect` returns.
    root : Path
        Of the repository.
    """
    replace_between_marks(root / "README.md", f"```text\n{chart(cells)}\n```")
    replace_between_marks(root / "docs" / "utility.md", docs_text(cells))
    replace_between_marks(root / "docs" / "guide" / "choosing_epsilon.md", bounds_table(cells))


def replace_between_marks(page: Path, text: str) -> None:
    """Replace what stands between the two marks of a page."""
    content = page.read_text(encoding="utf-8")
    before, start, rest = content.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (start and end) or any(content.count(mark) > 1 for mark in MARKS):
        raise ValueError(f"{page.name} must have the marks {MARKS} once, in this order.")
    page.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")
