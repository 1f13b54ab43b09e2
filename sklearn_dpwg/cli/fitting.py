"""How the records of a file reach a fit in parts, and how its progress is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from sklearn_dpwg.cli.cells import Faults, features
from sklearn_dpwg.cli.tables import TableFile, WrongInput

if TYPE_CHECKING:
    from sklearn_dpwg.cli.options import Task
    from sklearn_dpwg.data.sources import Table
    from sklearn_dpwg.data.sources.parquet_files import ParquetFile
    from sklearn_dpwg.preprocessing import PublicSchema


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

    def check_labels(self) -> None:
        """Refuse cells of targets and groups that are none, those of all parts at once."""
        faults = self._table.faults()
        for part in self.partitions():
            part.labels(faults)
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
        with self._file.open() as file:
            columns = _by_name(file.read_row_groups(self._row_groups, columns=names))
        return self._task.targets(columns, faults), self._task.groups(columns, faults)

    def _table(self, of_rows: list[int]) -> Table:
        from sklearn_dpwg.data.sources import Table

        faults, kinds = self._whole.faults(), self._schema.columns
        targets, groups = self.labels(faults)
        faults.refuse()
        with self._file.open() as file:
            columns = _by_name(file.read_row_groups(of_rows, columns=list(kinds)))
        return Table(self._schema.transform(features(columns, self._schema)), targets, groups)


def _by_name(table: Any) -> dict[str, Any]:
    return {name: table.column(name) for name in table.column_names}


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
