"""What the benchmark prints, put into the pages that show it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from utility.bounds import bounds_table
from utility.chart import chart
from utility.compared import Compared
from utility.peers.run import NOTHING
from utility.population_figures import EPSILON_FIGURE, TASK_FIGURE, draw_by_epsilon, draw_tasks
from utility.population_report import short_report, summary_table, tasks_text
from utility.report import DEFAULT, Cells, against_peers, docs_text, summary_lines
from utility.settings import EPSILONS

MARKS = ("<!-- printed by make bench -->", "<!-- end of what is printed -->")

# The half that the pages draw: on the other, defaults were chosen.
HALF = "checking"


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


def write_page_tables(cells: Cells, root: Path) -> None:
    """Refresh the tables of the page's tasks, and their bounds beside fits.

    Parameters
    ----------
    cells : dict
        What `collect` returns.
    root : Path
        Of the repository.
    """
    replace_between_marks(root / "docs" / "utility_tables.md", docs_text(cells))
    bounds = root / "docs" / "theory" / "bounds-beside-fits.md"
    replace_between_marks(bounds, bounds_table(cells))


def write_population_pages(
    compared: Sequence[Compared],
    missing: Sequence[str],
    page: Cells,
    definitions: Sequence[Any],
    root: Path,
) -> None:
    """Refresh the page of results with its chart and figures, and the list of tasks.

    Parameters
    ----------
    compared : sequence of Compared
        All cells of the population.
    missing : sequence of str
        Cells that were not compared, which the page names.
    page : dict
        What `collect` returns for the page's tasks.
    definitions : sequence of Definition
        Of the population.
    root : Path
        Of the repository.
    """
    docs = root / "docs"
    draw_by_epsilon(compared, docs / "figures")
    draw_tasks(compared, HALF, docs / "figures")
    replace_between_marks(docs / "utility.md", results_text(compared, missing, page))
    tables = "\n\n".join((summary_table(compared), tasks_text(compared, definitions)))
    replace_between_marks(docs / "utility_population.md", tables)


def results_text(compared: Sequence[Compared], missing: Sequence[str], page: Cells) -> str:
    """Return the population's chart, figures and summaries, and the page's tasks in short."""
    task_figure = TASK_FIGURE.format(half=HALF)
    own = against_peers(page)
    return "\n\n".join(
        (
            f"```text\n{chart(compared, page, HALF)}\n```",
            "Geometric mean of ours / best peer by ε, with the 95 % interval by source; grey: "
            f"tasks of the {HALF} half.",
            f"![Geometric means by ε](figures/{EPSILON_FIGURE})",
            short_report(compared, missing, HALF),
            f"All cells of the {HALF} half:",
            f"![Ratios by task and ε](figures/{task_figure})",
            *(["On the package's own data sets:", summary_lines(page, own)] if own else []),
        )
    )


def replace_between_marks(page: Path, text: str) -> None:
    """Replace what stands between the two marks of a page."""
    content = page.read_text(encoding="utf-8")
    before, start, rest = content.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (start and end) or any(content.count(mark) > 1 for mark in MARKS):
        raise ValueError(f"{page.name} must have the marks {MARKS} once, in this order.")
    page.write_text(f"{before}{MARKS[0]}\n\n{text}\n\n{MARKS[1]}{after}", encoding="utf-8")
