"""A Parquet file that is read in parts, each encoded by the schema as the whole table would be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn_dpwg.cli._answers import WrongInput
from sklearn_dpwg.cli._tables import TableFile, features
from sklearn_dpwg.cli._task import Task

if TYPE_CHECKING:
    from sklearn_dpwg.preprocessing import PublicSchema
    from sklearn_dpwg.sources import Table
    from sklearn_dpwg.sources.parquet_files import ParquetFile


# Of a cell as it is read, which may be text: parts are as large as they may be by that.
CELL_BYTES = 64


class PartsOfFile:
    """A source of the records of a file, in runs of its row groups."""

    def __init__(self, table: TableFile, task: Task, schema: PublicSchema, spool: str) -> None:
        if table.is_csv:
            raise WrongInput(
                f"spool must be left out with {table.path}, a file of text, which is read as a "
                f"whole: a Parquet file is read in parts."
            )
        # an empty path would be the folder one is in
        if not spool or not Path(spool).is_dir():
            raise WrongInput(f"spool must be a folder that is there, got {spool!r}.")
        from sklearn_dpwg.sources.parquet_files import ParquetFile, datasets_of

        (found,) = datasets_of(table.path)
        (fragment,) = found.get_fragments()
        self._file = ParquetFile.of(fragment)
        if not sum(self._file.group_rows):
            raise WrongInput(f"{table.path} must have rows, got a header alone.")
        self._task, self._columns = task, table.empty_frame()
        # a frame of no rows has the columns that a schema is fitted to
        self.schema = schema.fit(self._columns[list(schema.columns)])
        self.spool = spool
        self.target = task.needed_target()
        several = list(task.group_columns)
        self.groups = several if len(several) > 1 else several[0]

    def partitions(self) -> list[Part]:
        """Return the parts, in the order of the records."""
        from sklearn_dpwg.sources.parquet_files import runs_of
        from sklearn_dpwg.sources.partition import rows_per_part

        encoded = 8 * len(self.schema.get_feature_names_out())
        n_rows = rows_per_part(max(encoded, CELL_BYTES * len(self.schema.columns)))
        runs = runs_of(self._file, n_rows)
        return [Part(self._file, run, self._task, self.schema) for run in runs]

    def check_labels(self) -> None:
        """Refuse cells of targets and groups that are none, part by part."""
        for part in self.partitions():
            part.read_labels()


class Part:
    """Records of some row groups."""

    def __init__(
        self, file: ParquetFile, row_groups: list[int], task: Task, schema: PublicSchema
    ) -> None:
        self._file, self._row_groups = file, row_groups
        self._task, self._schema = task, schema

    def read(self) -> Table:
        """Return the records, rows as the schema encodes them."""
        return self._table(self._row_groups)

    def read_labels(self) -> Table:
        """Return targets and groups; columns of rows are not read."""
        return self._table([])

    def _table(self, of_rows: list[int]) -> Table:
        from sklearn_dpwg.sources import Table

        task, kinds = self._task, self._schema.columns
        labels = list(dict.fromkeys([task.needed_target(), *task.group_columns]))
        with self._file.open() as file:
            found = file.read_row_groups(self._row_groups, columns=labels)
            columns = file.read_row_groups(of_rows, columns=list(kinds))
        X = self._schema.transform(features(_by_name(columns), kinds))
        of_labels = _by_name(found)
        return Table(X, task.targets(of_labels), task.groups(of_labels))


def _by_name(table: Any) -> dict[str, Any]:
    return {name: table.column(name) for name in table.column_names}
