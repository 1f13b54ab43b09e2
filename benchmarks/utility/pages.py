"""What the benchmark prints, put into the page that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from utility.chart import chart
from utility.compared import Compared
from utility.population_figures import EPSILON_FIGURE, TASK_FIGURE, draw_by_epsilon, draw_tasks
from utility.population_report import short_report
from utility.report import Cells, against_peers, summary_lines

MARKS = ("<!-- printed by make bench -->", "<!-- end of what is printed -->")

# The half that the page draws: on the other, defaults were chosen.
HALF = "checking"


def write_page(
    compared: Sequence[Compared], missing: Sequence[str], page: Cells, root: Path
) -> None:
    """Refresh the page of results and its figures; `missing` are cells that it names."""
    docs = root / "docs"
    draw_by_epsilon(compared, docs / "figures")
    draw_tasks(compared, HALF, docs / "figures")
    replace_between_marks(docs / "utility.md", results_text(compared, missing, page))


def results_text(compared: Sequence[Compared], missing: Sequence[str], page: Cells) -> str:
    """Return chart, figures and sentences of the population, and those of the page's tasks."""
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
