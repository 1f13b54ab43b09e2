"""The defaults beside peers whose parameters were fixed in advance, on the checking half."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from utility.clusters import geometric_mean
from utility.compared import KINDS, Compared, having
from utility.peers.run import NOTHING
from utility.report import IN_ADVANCE, table
from utility.summary import Ratio

# One setting of each grid, and what needs none.
SHOWN = (*IN_ADVANCE, NOTHING)


class InAdvance(NamedTuple):
    """Cells of the checking half of one kind, at one ε or at all.

    Parameters
    ----------
    kind : str
        Which.
    epsilon : float or None
        None for all.
    n_cells : int
        Cells in the means: all of them, as which peer is good in hindsight is no matter here.
    means : dict of str to Ratio
        Geometric mean of ours over each peer, with its interval by source.
    best : str or None
        The peer that did best on the choosing half; None where it is not the same in all cells.
    best_mean : Ratio
        Beside the peer that did best on the choosing half at each cell's ε.
    n_won, n_lost : int
        Cells wholly below and above 1 beside that peer.
    """

    kind: str
    epsilon: float | None
    n_cells: int
    means: dict[str, Ratio]
    best: str | None
    best_mean: Ratio
    n_won: int
    n_lost: int


def in_advance_rows(compared: Sequence[Compared]) -> list[InAdvance]:
    """Return a row for each kind and ε that has such peers, all budgets first."""
    every = having(compared, half="checking")
    kept = [each for each in every if set(SHOWN) <= set(each.in_advance)]
    found = []
    for kind in KINDS:
        of_kind = [each for each in kept if each.kind == kind]
        for epsilon in (None, *sorted({each.epsilon for each in of_kind})):
            cells = [each for each in of_kind if epsilon in (None, each.epsilon)]
            if cells:
                found.append(_row(kind, epsilon, cells))
    return found


def _row(kind: str, epsilon: float | None, cells: Sequence[Compared]) -> InAdvance:
    """Return the row of some cells, at least one."""
    sources = [each.source for each in cells]
    firsts = [next(iter(each.in_advance.items())) for each in cells]
    names = {name for name, _ in firsts}
    return InAdvance(
        kind,
        epsilon,
        len(cells),
        {
            name: geometric_mean([each.in_advance[name].value for each in cells], sources)
            for name in SHOWN
        },
        names.pop() if len(names) == 1 else None,
        geometric_mean([each.value for _, each in firsts], sources),
        sum(each.high < 1.0 for _, each in firsts),
        sum(each.low > 1.0 for _, each in firsts),
    )


def in_advance_table(compared: Sequence[Compared]) -> str:
    """Return the rows as Markdown, nothing where no such peer was run."""
    rows = in_advance_rows(compared)
    if not rows:
        return ""
    titles = (
        *("kind", "ε", "cells", "ours / the one that did best on the choosing half", "which"),
        *("won", "lost", *(f"ours / {_grid(name)}" for name in SHOWN)),
    )
    return table(
        titles,
        [
            (
                *(row.kind, "all" if row.epsilon is None else f"{row.epsilon:g}", row.n_cells),
                *(row.best_mean, _grid(row.best) if row.best else "by ε", row.n_won, row.n_lost),
                *(f"{row.means[name].value:.2f}" for name in SHOWN),
            )
            for row in rows
        ],
    )


def _grid(name: str) -> str:
    """Return the grid's name."""
    return name.partition(",")[0]
