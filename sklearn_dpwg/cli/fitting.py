"""The estimator that options ask for, records of a file in parts, and how progress is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from sklearn_dpwg.cli.cells import Faults, features, lost_columns, note_lost
from sklearn_dpwg.cli.options import OF_FILES, OF_LEDGER, OF_TASK, OF_THRESHOLD
from sklearn_dpwg.cli.tables import TableFile, WrongInput

if TYPE_CHECKING:
    from sklearn_dpwg.cli.options import Task
    from sklearn_dpwg.data.sources import Table
    from sklearn_dpwg.data.sources.parquet_files import ParquetFile
    from sklearn_dpwg.preprocessing import PublicSchema


# A share of all is missed by more within wide bins than by noise, as all groups are added up.
BINS_OF_SHARE = 24


def make_estimator(task: Task, options: Mapping[str, Any]) -> Any:
    """Return an estimator: a regressor where the target has bounds; options not given are open.

    Where a threshold is asked for, it is one for all: predictions need no groups then.
    """
    from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor

    not_its = (*OF_TASK, *OF_FILES, *OF_LEDGER, *OF_THRESHOLD)
    given = {
        name: value for name, value in options.items() if value is not None and name not in not_its
    }
    asked = {name: options[name] for name in OF_THRESHOLD if options.get(name) is not None}
    if len(asked) > 1:
        raise WrongInput("miss_cost must be left out with --share, which says how many to choose.")
    if asked:
        _check_threshold(next(iter(asked)), task, given)
    if "prior" in given:
        given["prior"] = _prior(given["prior"])
    # rows of a schema have norm at most 1
    given |= {"data_norm": 1.0, "group_labels": task.group_labels}
    if given.get("overlap", "cells") != "cells":
        if given["overlap"] == "membership":
            raise WrongInput("overlap must be cells, attributes or both, got 'membership'.")
        # those of a schema are of cells, which were checked; of "both" large cells are groups too
        given["group_labels"] = None
        if task.values is not None and given["overlap"] == "attributes":
            pairs = zip(task.group_columns, task.values, strict=True)
            given["group_labels"] = [(column, one) for column, values in pairs for one in values]
    if task.target_bounds is not None:
        return DPWorstGroupRegressor(target_bounds=task.target_bounds, **given)
    model = DPWorstGroupClassifier(classes=task.classes, **given)
    return _with_threshold(model, asked, turned=task.looks_for_first) if asked else model


def _check_threshold(name: str, task: Task, given: Mapping[str, Any]) -> None:
    """Refuse a threshold to pay for but where groups are public and disjoint."""
    if task.target_bounds is not None:
        raise WrongInput(f"{name} is for a target of two classes, not for a number.")
    for other, refused in (("neighbours", ("replace-any",)), ("overlap", ("attributes", "both"))):
        if given.get(other) in refused:
            raise WrongInput(
                f"{name} must be left out with --{other} {given[other]}, as it pays for counts of "
                f"scores in public groups that do not overlap: fit without it, and say a public "
                f"`predict --threshold`."
            )


def _with_threshold(model: Any, asked: dict[str, Any], *, turned: bool) -> Any:
    """Return a model with a threshold, which is about the second of the sorted classes."""
    from sklearn_dpwg.postprocessing import DPThresholdClassifier

    share, cost = asked.get("share"), asked.get("miss_cost", "balanced")
    if cost != "balanced":
        cost = _numeral(cost, "miss_cost must be balanced or a number")
        asked["miss_cost"] = 1.0 / cost if turned and 0.0 < cost < np.inf else cost
    if share is not None and turned and 0.0 < share < 1.0:
        asked["share"] = 1.0 - share
    constraint = "worst_error"
    if share is not None:
        constraint, asked["n_bins"] = "selection_rate", BINS_OF_SHARE
    budget = {"epsilon": model.epsilon, "delta": model.delta, "random_state": model.random_state}
    return DPThresholdClassifier(model, constraint=constraint, per_group=False, **budget, **asked)


def _prior(text: str) -> str | float:
    if text in ("proportional", "uniform"):
        return text
    return _numeral(text, "prior must be proportional, uniform, or a number between 0 and 1")


def _numeral(text: str, wanted: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise WrongInput(f"{wanted}, got {text!r}.") from None


# Of a cell as it is read, which may be text: parts are as large as they may be by that.
CELL_BYTES = 64


class PartsOfFile:
    """A source of the records of a file, in runs of its row groups."""

    def __init__(self, table: TableFile, task: Task, schema: PublicSchema, spool: str) -> None:
        if not table.is_parquet:
            raise WrongInput(
                f"spool must be left out with {table.path}, a file of text, which is read as a "
                f"whole: a Parquet file is read in parts."
            )
        # an empty path would be the folder one is in
        if not spool or not Path(spool).is_dir():
            raise WrongInput(f"spool must be a folder that is there, got {spool!r}.")
        from sklearn_dpwg.data.sources.parquet_files import ParquetFile, datasets_of

        (found,) = datasets_of(table.path)
        (fragment,) = found.get_fragments()
        self._file = ParquetFile.of(fragment)
        if not sum(self._file.group_rows):
            raise WrongInput(f"{table.path} must have rows, got a header alone.")
        self._task, self._table, self._columns = task, table, table.empty_frame()
        # a frame of no rows has the columns that a schema is fitted to
        self.schema = schema.fit(self._columns[list(schema.columns)])
        self.spool = spool
        self.target = task.needed_target()
        several = list(task.group_columns)
        self.groups = several if len(several) > 1 else several[0]

    def partitions(self) -> list[Part]:
        """Return the parts, in the order of the records."""
        from sklearn_dpwg.data.sources.parquet_files import runs_of
        from sklearn_dpwg.data.sources.table import rows_per_part

        encoded = 8 * len(self.schema.get_feature_names_out())
        n_rows = rows_per_part(max(encoded, CELL_BYTES * len(self.schema.columns)))
        runs = runs_of(self._file, n_rows)
        return [Part(self._file, run, self._task, self.schema, self._table) for run in runs]

    def check_cells(self) -> None:
        """Refuse targets and groups that are none, and columns that would be lost, of all parts."""
        faults, parts = self._table.faults(), self.partitions()
        for part in parts:
            part.labels(faults)
        frames = (features(part.columns(list(self.schema.columns)), self.schema) for part in parts)
        lost = lost_columns(frames, self.schema)
        for part in parts if lost else ():
            note_lost(part.columns(lost), self.schema, faults)
        faults.refuse()


class Part:
    """Records of some row groups."""

    def __init__(
        self,
        file: ParquetFile,
        row_groups: list[int],
        task: Task,
        schema: PublicSchema,
        table: TableFile,
    ) -> None:
        self._file, self._row_groups = file, row_groups
        self._task, self._schema, self._whole = task, schema, table

    def read(self) -> Table:
        """Return the records, rows as the schema encodes them."""
        return self._table(self._row_groups)

    def read_labels(self) -> Table:
        """Return targets and groups; columns of rows are not read."""
        return self._table([])

    def labels(self, faults: Faults) -> tuple[Any, Any]:
        """Return targets and groups, and note what is wrong with them."""
        names = list(dict.fromkeys([self._task.needed_target(), *self._task.group_columns]))
        columns = self.columns(names)
        return self._task.targets(columns, faults), self._task.groups(columns, faults)

    def columns(self, names: list[str], of_rows: list[int] | None = None) -> dict[str, Any]:
        """Return columns of all rows, or of some row groups."""
        with self._file.open() as file:
            of_rows = self._row_groups if of_rows is None else of_rows
            table = file.read_row_groups(of_rows, columns=names)
        return {name: table.column(name) for name in table.column_names}

    def _table(self, of_rows: list[int]) -> Table:
        from sklearn_dpwg.data.sources import Table

        faults = self._whole.faults()
        targets, groups = self.labels(faults)
        faults.refuse()
        columns = self.columns(list(self._schema.columns), of_rows)
        return Table(self._schema.transform(features(columns, self._schema)), targets, groups)


class Bar:
    """A callback of scikit-learn that moves a bar of rich by each planned release."""

    def __init__(self, progress: Any) -> None:
        self.progress = progress
        self.task: Any = None

    def setup(self, estimator: Any, context: Any) -> None:
        """Show an empty bar."""
        total = context.max_subtasks or None
        self.task = self.progress.add_task("releases", total=total)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Leave the bar as it is."""

    def on_fit_task_begin(self, estimator: Any, context: Any, **_: Any) -> None:
        """Wait for the end of the task."""

    def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> None:
        """Move on by one."""
        if context.parent is not None:
            self.progress.advance(self.task)


@contextmanager
def shown_progress(estimator: Any, stream: TextIO) -> Iterator[None]:
    """Show the progress of a fit inside where the stream is a terminal and callbacks are there."""
    if not stream.isatty() or not hasattr(estimator, "set_callbacks"):
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=stream)) as progress:
        estimator.set_callbacks(Bar(progress))
        try:
            yield
        finally:
            estimator.set_callbacks()  # it would be saved with the model
