"""An audit of cells, told by each attribute that the cells are of.

Counts of a value of an attribute are sums of those of its cells, and their noise is that of as many
noisy numbers: it follows from one release, and costs no more privacy. Whoever is in a cell of no
stated label is in none, so every combination of values has to be declared, people in it or not.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection.verdicts import LossSums


def results_by_attribute(result: Any) -> dict[str, Any]:
    """Return an `AuditResult` an attribute, of one of cells; of one column the result itself."""
    first = result.group_labels[0]
    width = len(first) if isinstance(first, tuple) else 1
    if width == 1:
        return {result.group_name: result}
    names = result.group_name.split(" and ")
    if len(set(names)) != width:  # columns had no names, some that hold the word, or 1 and "1"
        names = [str(place) for place in range(width)]
    return {name: _of_attribute(result, place, name) for place, name in enumerate(names)}


def cells_by_value(labels: Sequence[Any], place: int, name: Hashable) -> dict[Hashable, list[int]]:
    """Return the cells of each value in one place of the labels, as many for each, or refuse."""
    cells: dict[Hashable, list[int]] = {}
    for cell, label in enumerate(labels):
        cells.setdefault(label[place], []).append(cell)
    n_cells = {len(one) for one in cells.values()}
    if len(n_cells) > 1:
        raise InputError(
            "group_labels of the audit must hold every combination of values, as itertools.product "
            f"lists them, to be told by attribute, got some values of {name!r} in "
            f"{min(n_cells)} and some in {max(n_cells)}."
        )
    return cells


def _of_attribute(result: Any, place: int, name: str) -> Any:
    """Return the result of the values in one place of the labels."""
    cells = cells_by_value(result.group_labels, place, name)
    each = list(cells.values())
    n_added = len(each[0])
    found = replace(
        result,
        group_labels=tuple(cells),
        group_name=name,
        counts=tuple(tuple(map(tuple, table)) for table in _added(result.counts, each)),
        sizes=None if result.sizes is None else tuple(_added(result.sizes, each)),
        losses=tuple(_added_loss(loss, each, n_added) for loss in result.losses),
        n_cells=n_added * result.n_cells,
    )
    object.__setattr__(found, "_costs", result._costs)  # one release, whoever adds costs up
    return found


def _added(numbers: Any, cells: Sequence[list[int]]) -> list[Any]:
    """Return the sums over the cells of each value."""
    return [np.array(numbers)[one].sum(axis=0).tolist() for one in cells]


def _added_loss(loss: LossSums, cells: Sequence[list[int]], n_added: int) -> LossSums:
    """Return the sums of a loss, with noise that grows with the root of their number."""
    louder = math.sqrt(n_added)
    return replace(
        loss,
        sums=tuple(_added(loss.sums, cells)),
        squares=tuple(_added(loss.squares, cells)),
        sum_noise_std=louder * loss.sum_noise_std,
        square_noise_std=louder * loss.square_noise_std,
    )
