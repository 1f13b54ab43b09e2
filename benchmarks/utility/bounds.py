"""How far planning bounds are above what fits lose."""

from __future__ import annotations

import math
from typing import Any

from utility.report import DEFAULT, Cells, table
from utility.summary import interval

SHOWN_EPSILON = 1.0

# Excess below this is the yardstick's own error.
LEAST = 1e-6


def looseness(cells: Cells) -> dict[tuple[str, float], float]:
    """Return the quotient of the default's bound and its mean excess, by task and ε.

    Parameters
    ----------
    cells : dict
        What `collect` returns.

    Returns
    -------
    dict
        Of what has been measured; what was measured before bounds were kept has none.
    """
    return {
        key: cell[DEFAULT]["predicted_excess"]
        / max(interval(cell[DEFAULT]["train_excess"]).mean, LEAST)
        for key, cell in cells.items()
        if cell.get(DEFAULT, {}).get("predicted_excess")
    }


def bounds_table(cells: Cells) -> str:
    """Return bound and measured excess of the default fits, and how many times one is the other.

    Parameters
    ----------
    cells : dict
        What `collect` returns.

    Returns
    -------
    str
        A Markdown table, a row a task, and sentences.
    """
    quotients = looseness(cells)
    if not quotients:
        return "No bounds were kept: `make bench` measures again once the sources have changed."
    epsilons = sorted({epsilon for _, epsilon in quotients})
    rows = []
    for name in dict.fromkeys(name for name, _ in quotients):
        row: list[Any] = [name, "–", "–"]
        if (name, SHOWN_EPSILON) in quotients:
            own = cells[name, SHOWN_EPSILON][DEFAULT]
            row[1:] = f"{own['predicted_excess']:.3g}", interval(own["train_excess"])
        row += [
            f"{quotients[name, epsilon]:.1f}" if (name, epsilon) in quotients else "–"
            for epsilon in epsilons
        ]
        rows.append(row)
    means = [
        math.exp(math.fsum(map(math.log, found)) / len(found))
        for found in (
            [quotient for (_, own), quotient in quotients.items() if own == epsilon]
            for epsilon in epsilons
        )
    ]
    rows.append(["geometric mean", "", "", *(f"{mean:.1f}" for mean in means)])
    at = f"at ε = {SHOWN_EPSILON:g}"
    titles = (
        "task",
        f"bound {at}",
        f"measured {at}",
        *(f"ratio at ε = {epsilon:g}" for epsilon in epsilons),
    )
    above = [
        f"{name} at ε = {epsilon:g}"
        for (name, epsilon), quotient in quotients.items()
        if quotient < 1.0
    ]
    return f"{table(titles, rows)}\n\nMeasured above its bound: {', '.join(above) or 'no cell'}."
