"""What is public of a task: columns, groups, target, as options and a schema file say it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_dpwg.cli._answers import WrongInput
from sklearn_dpwg.cli._tables import TableFile, as_text, numbers, texts

if TYPE_CHECKING:
    import pandas as pd

    from sklearn_dpwg.preprocessing.schema_files import SchemaFile

Label = str | tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """Public facts; labels and classes are text, as they are in a file of text."""

    group_columns: tuple[str, ...]
    group_labels: tuple[Label, ...] | None
    target: str | None
    classes: tuple[str, ...] | None
    target_bounds: tuple[float, float] | None

    def groups(self, columns: Mapping[str, Any]) -> pd.Series | pd.DataFrame:
        """Return the group of each record, all of which have to be among the labels."""
        import pandas as pd

        found = pd.DataFrame(
            {name: texts(columns[name], name, who="groups") for name in self.group_columns}
        )
        labels = set(self.needed_labels())
        several = len(self.group_columns) > 1
        cells = found.drop_duplicates().itertuples(index=False, name=None)
        if not all((cell if several else cell[0]) in labels for cell in cells):
            names = " and ".join(map(repr, self.group_columns))
            raise WrongInput(
                f"column {names} (groups) must hold none but the declared labels, "
                f"{_shown(self.needed_labels())}, and some values differ."
            )
        return found if several else found.iloc[:, 0]

    def targets(self, columns: Mapping[str, Any]) -> np.ndarray:
        """Return the targets: classes as text, or numbers where bounds are declared."""
        name = self.needed_target()
        if self.target_bounds is not None:
            return numbers(columns[name], name, who="target")
        found = texts(columns[name], name, who="target")
        if self.classes is not None and not set(found) <= set(self.classes):
            raise WrongInput(
                f"column {name!r} (target) must hold none but the declared classes, "
                f"{_shown(self.classes)}, and some values differ."
            )
        return found.astype(str)

    def sizes(self, text: str) -> dict[Label, int] | list[int]:
        """Return sizes of groups, by label where the text has labels."""
        parts = [part.rpartition("=") for part in split_list(text, "group_sizes")]
        try:
            counts = [int(count.replace("_", "")) for _, _, count in parts]
        except ValueError:
            raise WrongInput(
                f"group_sizes must be whole numbers, as A=100,B=50 or 100,50, got {text!r}."
            ) from None
        named = [name.strip() for name, _, _ in parts if name]
        if not named:
            return counts
        if len(named) < len(parts) or len(set(named)) < len(named):
            raise WrongInput(f"group_sizes must name each group once, or none, got {text!r}.")
        several = isinstance((self.group_labels or ("",))[0], tuple) or len(self.group_columns) > 1
        labels: list[Label] = [tuple(name.split("/")) if several else name for name in named]
        return dict(zip(labels, counts, strict=True))

    def needed_target(self) -> str:
        """Return the name of the target."""
        if self.target is None:
            raise WrongInput(
                "target must be named: say --target COLUMN, or column under [target] in the schema."
            )
        return self.target

    def needed_labels(self) -> tuple[Label, ...]:
        """Return the labels, which are never taken from the records."""
        if self.group_labels is None:
            raise WrongInput(
                "group_labels must be declared, as labels that are found in records tell who is in "
                "them: say --group-labels A,B,C, or labels under [groups] in the schema."
            )
        return self.group_labels

    def check(self, table: TableFile, columns: Sequence[str] = ()) -> None:
        """Refuse a table without the columns, and a target that is something else too."""
        target = self.needed_target()
        if not self.group_columns:
            raise WrongInput(
                "groups must be named: say --groups COLUMN, or columns under [groups] in the "
                "schema."
            )
        self.needed_labels()
        for other, what in ((self.group_columns, "groups"), (columns, "[columns] of the schema")):
            if target in other:
                raise WrongInput(
                    f"target must be a column of its own, and {target!r} is one of {what} too."
                )
        table.require([target], "--target")
        table.require(self.group_columns, "--groups")


def read_schema(path: Path) -> SchemaFile:
    """Read a schema file, or say what is wrong with it."""
    from sklearn_dpwg.preprocessing import PublicSchema
    from sklearn_dpwg.preprocessing.schema_files import read_schema_file

    if not path.is_file():
        raise WrongInput(f"{path} must be a schema file that is there.")
    PublicSchema.from_toml(path)  # refuses wrong bounds and levels
    return read_schema_file(path)


def make_task(
    schema: SchemaFile | None,
    *,
    groups: Sequence[str] = (),
    group_labels: str | None = None,
    target: str | None = None,
    classes: str | None = None,
    target_bounds: tuple[float, float] | None = None,
) -> Task:
    """Return what the options say, and what the schema says where they are silent."""
    if classes is not None and target_bounds is not None:
        raise WrongInput("classes and target_bounds must not both be said: classes have no bounds.")
    columns = tuple(groups) or (() if schema is None else schema.group_columns or ())
    if len(set(columns)) < len(columns):
        raise WrongInput(f"groups must name each column once, got {_shown(columns)}.")
    labels: tuple[Label, ...] | None = None
    if group_labels is not None:
        parts = split_list(group_labels, "group_labels")
        labels = tuple(tuple(p.split("/")) if len(columns) > 1 else p for p in parts)
    elif schema is not None and schema.group_labels is not None:
        labels = tuple(
            tuple(map(as_text, label)) if isinstance(label, tuple) else as_text(label)
            for label in schema.group_labels
        )
    _check_labels(labels, columns)
    if schema is not None and classes is None and target_bounds is None:
        target_bounds = schema.target_bounds
    known = None if classes is None else tuple(split_list(classes, "classes"))
    if known is None and target_bounds is None and schema is not None and schema.classes:
        known = tuple(map(as_text, schema.classes))
    for name, values in (("group_labels", labels), ("classes", known)):
        if values is not None and len(set(values)) < len(values):
            raise WrongInput(f"{name} must name each one once, got {_shown(values)}.")
    if target is None and schema is not None:
        target = schema.target
    return Task(columns, labels, target, known, target_bounds)


def split_list(text: str, name: str) -> list[str]:
    """Return the parts of a list with commas; quotes protect commas inside."""
    parts = [part.strip() for part in next(csv.reader([text], skipinitialspace=True), [])]
    if not parts or not all(parts):
        raise WrongInput(f"{name} must be a list such as A,B,C, got {text!r}.")
    return parts


def _check_labels(labels: tuple[Label, ...] | None, columns: tuple[str, ...]) -> None:
    """Refuse labels that have more or fewer parts than there are columns of groups."""
    for label in labels or ():
        n_parts = len(label) if isinstance(label, tuple) else 1
        if columns and n_parts != len(columns):
            raise WrongInput(
                f"group_labels must have a part for each of the columns {_shown(columns)}, with / "
                f"between them on the command line, got {label!r}."
            )


def _shown(values: Sequence[Any]) -> str:
    shown = ", ".join(map(repr, values[:10]))
    return shown if len(values) <= 10 else f"{shown}, ... ({len(values)})"
