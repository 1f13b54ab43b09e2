"""Options that several commands share, each named as the parameter of the estimators."""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from sklearn_dpwg._checks import as_text, shown
from sklearn_dpwg.cli.cells import Faults, numbers, words
from sklearn_dpwg.cli.tables import WrongInput

if TYPE_CHECKING:
    import pandas as pd

    from sklearn_dpwg.preprocessing.schema_files import SchemaFile


Decorator = Callable[[Any], Any]

FILE = click.Path(path_type=Path)

table_argument = click.argument("table", type=FILE)

schema_option = click.option(
    "--schema", type=FILE, help="Schema file (TOML): what is public of the columns."
)


def _together(*options: Decorator) -> Decorator:
    """Return one decorator of several options, in the order in which help lists them."""
    return lambda function: reduce(lambda done, option: option(done), reversed(options), function)


def number_option(name: str, text: str, kind: type = float) -> Decorator:
    """Return an option that takes a number."""
    return click.option(name, type=kind, metavar="NUMBER", help=text)


table_options = _together(
    click.option(
        "--delimiter",
        metavar="CHARACTER",
        help="Between the cells of a CSV file; by default a comma, or a tab in .tsv and .txt.",
    ),
    click.option(
        "--missing-value",
        "missing_values",
        multiple=True,
        metavar="TEXT",
        help="A cell of a CSV file or sheet that stands for a missing value, beside empty ones. "
        "Repeatable.",
    ),
    click.option(
        "--encoding",
        metavar="NAME",
        help="Of a CSV file, as latin-1 or cp1252: utf-8 by default.",
    ),
    click.option("--sheet", metavar="NAME", help="Sheet of an .xlsx file that has several."),
    click.option(
        "--show-examples",
        is_flag=True,
        help="Show a few values of cells that cannot be used, which is not private.",
    ),
)
groups_options = _together(
    click.option(
        "--groups",
        multiple=True,
        metavar="COLUMN",
        help="Column that says the group of a record. Repeatable: cells are intersected.",
    ),
    click.option(
        "--group-labels",
        metavar="A,B,C",
        help="All group labels. Of two columns of groups: A/x,A/y,B/x; with --overlap the values "
        "of each, as race/A,race/B,sex/x,sex/y.",
    ),
)
missing_label_option = click.option(
    "--missing-label",
    metavar="LABEL",
    help="Group of the records whose group is missing, which are refused otherwise.",
)
target_options = _together(
    click.option("--target", metavar="COLUMN", help="Column to predict."),
    click.option(
        "--classes",
        metavar="A,B",
        help="All classes; of two the last is looked for, and an audit counts it as selected.",
    ),
)
target_bounds_option = click.option(
    "--target-bounds",
    type=float,
    nargs=2,
    metavar="LOW HIGH",
    help="Public bounds on a target that is a number; without them it is a class.",
)
budget_options = _together(
    number_option("--epsilon", "Privacy budget ε: 1 by default."),
    number_option("--delta", "Privacy budget δ: 1e-6 by default."),
)
ledger_options = _together(
    click.option(
        "--ledger",
        type=FILE,
        help="Ledger file that counts what is spent on these records, and refuses to overspend.",
    ),
    number_option("--ledger-epsilon", "ε of a new ledger."),
    number_option("--ledger-delta", "δ of a new ledger."),
)
estimator_options = _together(
    click.option("--solver", metavar="NAME", help="Solver, as mgr: auto by default."),
    click.option("--loss", metavar="NAME", help="Loss, as log_loss, hinge or squared_error."),
    number_option("--radius", "Radius of the ball of weights."),
    click.option(
        "--fit-intercept/--no-fit-intercept", default=None, help="Whether to learn an intercept."
    ),
    number_option("--intercept-scaling", "Value of the constant column."),
    click.option(
        "--prior",
        metavar="WORD|NUMBER",
        help="Public weights of the groups: proportional, uniform, or a share of uniform ones.",
    ),
    click.option(
        "--overlap",
        metavar="cells|attributes|both",
        help="What several columns of groups mean to the learner: their cells (by default), each "
        "value of each column, or both.",
    ),
    click.option(
        "--neighbours",
        metavar="replace-in-group|replace-any",
        help="Whether who is in which group is public, as by default, or is protected too; then "
        "sizes of groups are counted with noise.",
    ),
    number_option(
        "--rows-per-person",
        "Most rows of one person, whom the budget is then for: 1 by default.",
        int,
    ),
)
threshold_options = _together(
    number_option(
        "--share",
        "Share of the records, as 0.1, that `predict` is to choose for the last of two classes in "
        "the schema or --classes: a part of ε pays for one threshold that does.",
    ),
    click.option(
        "--miss-cost",
        metavar="NUMBER|balanced",
        help="In place of a share: how many wrongly chosen records one counts as that should have "
        "been. ε pays for the threshold with the least errors of the worst-off group.",
    ),
)
no_outcomes_option = click.option(
    "--no-outcomes",
    is_flag=True,
    default=None,
    help="Audit decisions alone, though the schema names a target.",
)
shapes_option = click.option(
    "--shapes",
    default="auto",
    show_default=True,
    metavar="auto|ramps|linear",
    help="How the model may bend in numbers and dates; linear draws a line.",
)
question_options = _together(
    click.option(
        "--metric",
        metavar="NAME",
        help="Rate that the verdict compares: selection_rate by default; several with commas, or "
        "equalized_odds.",
    ),
    number_option(
        "--fail-below",
        "Smallest ratio that passes, 0.8 by default. Where it is said an audit exits with 4 "
        "if one is below it, with 5 if nobody can tell; else always with 0.",
    ),
    number_option(
        "--fail-above",
        "In place of a ratio the largest difference that passes, as 0.1; exits likewise.",
    ),
)
reference_option = click.option(
    "--reference", metavar="GROUP", help="Compare all others with this group, not every pair."
)
leave_out_option = click.option(
    "--leave-out",
    multiple=True,
    metavar="GROUP",
    help="Group that is not judged, chosen without a look at the records. Repeatable.",
)
which_options = _together(
    question_options,
    click.option(
        "--of",
        type=click.Choice(["process", "records"]),
        default="process",
        show_default=True,
        help="Whether the records are a sample of what is judged, or are everybody.",
    ),
    reference_option,
    leave_out_option,
    click.option(
        "--min-share",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="Do not judge groups that surely have a smaller share of the people, as 0.02.",
    ),
)
by_attribute_option = click.option(
    "--by-attribute",
    is_flag=True,
    help="Of several columns of groups judge the values of each column, not the cells, of which "
    "every combination has to be declared.",
)
random_state_option = click.option(
    "--random-state",
    type=int,
    metavar="SEED",
    help="Makes noise repeatable, for tests alone: whoever knows the seed can subtract it.",
)
overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace output files that are there already."
)


# What is public of a task: columns, groups, target, as options and a schema file say it.

Label = str | tuple[str, ...]

# Options that are no parameters of an estimator.
OF_TASK = ("groups", "group_labels", "missing_label", "target", "classes", "target_bounds")
OF_FILES = ("delimiter", "missing_values", "encoding", "sheet", "show_examples")
OF_LEDGER = ("ledger_epsilon", "ledger_delta")
OF_THRESHOLD = ("share", "miss_cost")


@dataclass(frozen=True)
class Task:
    """Public facts; labels and classes are text, as they are in a file of text."""

    group_columns: tuple[str, ...]
    group_labels: tuple[Label, ...] | None
    target: str | None
    classes: tuple[str, ...] | None
    target_bounds: tuple[float, float] | None
    missing_label: str | None = None  # of a record whose group is missing
    # of each column of groups, where labels are of values and not of cells, as groups overlap
    values: tuple[tuple[str, ...], ...] | None = None
    cells: Any = None  # the rules of a schema by which cells are read
    target_kind: Any = None  # of a target that is a number
    outcome: str | None = None  # the target's name, whose words decisions are in too

    def reader(self, name: str | None, words: Sequence[str]) -> Callable[[Any], Any]:
        """Return what reads a cell of a column of words: as text, or None for a missing value."""
        if self.cells is None or name is None:
            return as_text
        read = self.cells.reader(name, words)

        def one(value: Any) -> str | None:
            found = read(value)
            return None if found is None else as_text(found)

        return one

    def groups(self, columns: Mapping[str, Any], faults: Faults) -> pd.Series | pd.DataFrame:
        """Return the group of each record, all of which have to be among the labels."""
        import pandas as pd

        labels, of_columns = [], self.values
        if of_columns is None:
            stated = self.needed_labels()
            labels = [label if isinstance(label, tuple) else (label,) for label in stated]
            of_columns = tuple(zip(*labels, strict=True))
        found, right = {}, []
        for name, parts in zip(self.group_columns, of_columns, strict=True):
            said = f"{name!r} (groups)"
            allowed = list(dict.fromkeys(parts))
            read = self.reader(name, allowed)
            found[name], known = words(
                columns[name], said, faults, allowed, "labels", self.missing_label, read
            )
            right.append(known)
        frame = pd.DataFrame(found)
        if len(found) == 1:
            return frame.iloc[:, 0]
        if not labels:
            return frame
        other = np.all(right, axis=0) & ~pd.MultiIndex.from_frame(frame).isin(labels)
        names = " and ".join(map(repr, found))
        cells = list(frame[other].itertuples(index=False, name=None))
        faults.add(f"{names} (groups)", "not one of the declared labels", cells)
        return frame

    def check_gaps(self, groups: pd.Series | pd.DataFrame) -> None:
        """Refuse a group of those who have none where everybody has one, and groups are public."""
        label, is_alone = self.missing_label, len(self.group_columns) == 1 and self.values is None
        if label is not None and is_alone and not (groups == label).to_numpy().any():
            raise WrongInput(
                f"missing_label must be left out, and no label be {label!r}, where nobody is "
                f"without a group: a group without records cannot be learned for."
            )

    def targets(self, columns: Mapping[str, Any], faults: Faults) -> np.ndarray:
        """Return the targets: classes as text, or numbers where bounds are declared."""
        name = self.needed_target()
        said = f"{name!r} (target)"
        if self.target_bounds is not None:
            kind = self.target_kind
            read = None if self.cells is None else self.cells.reader(name, (), kind)
            return numbers(columns[name], said, faults, None, kind, read)
        read = self.reader(name, self.classes or ())
        return words(columns[name], said, faults, self.classes, read=read)[0].astype(str)

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
        return dict(zip((as_label(name, several) for name in named), counts, strict=True))

    def cell_sizes(self, sizes: dict[Label, int] | list[int]) -> pd.Series:
        """Return sizes of the cells of columns of groups, which groups that overlap are made of."""
        import pandas as pd

        labels = list(sizes) if isinstance(sizes, dict) else list(self.group_labels or ())
        counts = list(sizes.values()) if isinstance(sizes, dict) else sizes
        rows = [label if isinstance(label, tuple) else (label,) for label in labels]
        if not self.group_columns or len(counts) != len(rows):
            raise WrongInput(
                "overlap needs --groups, and --group-sizes that name cells, as A/x=100,A/y=200 of "
                f"two columns, got {len(self.group_columns)} column(s) and {len(counts)} size(s)."
            )
        n_columns = len(self.group_columns)
        values = self.values or ((),) * n_columns
        named = self.values is None and {row[0] for row in rows} <= set(self.group_columns)
        for row in rows:
            known = all(not each or part in each for part, each in zip(row, values, strict=False))
            if named or len(row) != n_columns or not known:
                raise WrongInput(
                    "group_sizes must be those of cells where groups overlap, with a value of each "
                    f"of the columns {shown(self.group_columns)}, as A/x=100,A/y=200 of two, got "
                    f"{'/'.join(row)!r}."
                )
        index: Any = pd.MultiIndex.from_tuples(rows, names=self.group_columns)
        if len(self.group_columns) == 1:
            index = pd.Index([label for (label,) in rows], name=self.group_columns[0])
        return pd.Series(counts, index=index)

    @property
    def looks_for_first(self) -> bool:
        """Whether the last of two classes, which is looked for, is the first one where sorted."""
        classes = self.classes or ()
        return len(classes) == 2 and classes[1] < classes[0]

    def kinds(self, unseen: Mapping[str, Any]) -> dict[str, Any]:
        """Return kinds of columns that a model does not see, the target's last with its classes."""
        from sklearn_dpwg.preprocessing import Category

        found = dict(unseen)
        for name in self.group_columns if self.missing_label is not None else ():
            if name in found:
                found[name] = replace(found[name], missing=True)
        kind = found.pop(self.target or "", None)
        if self.classes is not None:
            kind = Category(self.classes, other=False)
        return found if kind is None else {**found, str(self.target): kind}

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

    def wanted(
        self, columns: Sequence[str] = (), *, has_target: bool = True
    ) -> dict[str, Sequence[str]]:
        """Return the columns of target and groups by option; refuse a target that is another."""
        targets = [self.needed_target()] if has_target else []
        if not self.group_columns:
            raise WrongInput(
                "groups must be named: say --groups COLUMN, or columns under [groups] in the "
                "schema."
            )
        if self.values is None:
            self.needed_labels()
        for other, what in ((self.group_columns, "groups"), (columns, "[columns] of the schema")):
            if set(targets) & set(other):
                raise WrongInput(
                    f"target must be a column of its own, and {self.target!r} is one of {what} too."
                )
        return {"--target": targets, "--groups": self.group_columns}


def read_schema(path: Path) -> SchemaFile:
    """Read a schema file, or say what is wrong with it."""
    from sklearn_dpwg.preprocessing import PublicSchema
    from sklearn_dpwg.preprocessing.schema_files import read_schema_file

    if not path.is_file():
        raise WrongInput(f"{path} must be a schema file that is there.")
    PublicSchema.from_toml(path)  # refuses wrong bounds and levels
    return read_schema_file(path)


def make_task(schema: SchemaFile | None, options: Mapping[str, Any]) -> Task:
    """Return what the options say, and what the schema says where they are silent."""
    classes, target_bounds = options.get("classes"), options.get("target_bounds")
    if classes is not None and target_bounds is not None:
        raise WrongInput("classes and target_bounds must not both be said: classes have no bounds.")
    columns = tuple(options["groups"]) or (() if schema is None else schema.group_columns or ())
    if len(set(columns)) < len(columns):
        raise WrongInput(f"groups must name each column once, got {shown(columns)}.")
    labels, of_columns = _declared(schema, options, columns)
    _check_labels(labels, columns)
    missing_label = options.get("missing_label")
    if missing_label is None and schema is not None:
        missing_label = schema.missing_label
    if missing_label is not None:
        missing_label = as_text(missing_label)
        if of_columns is None:
            labels = _with_missing(labels, missing_label)
        elif not any(missing_label in each for each in of_columns):
            raise WrongInput(
                f"missing_label must be a value of a column in group_labels, got {missing_label!r}."
            )
    if schema is not None and classes is None and target_bounds is None:
        target_bounds = schema.target_bounds
    known = None if classes is None else tuple(map(as_text, split_list(classes, "classes")))
    if known is None and target_bounds is None and schema is not None and schema.classes:
        known = tuple(map(as_text, schema.classes))
    for name, values in (("group_labels", labels), ("classes", known)):
        if values is not None and len(set(values)) < len(values):
            raise WrongInput(f"{name} must name each one once, got {shown(values)}.")
    target = options.get("target")
    if target is None and schema is not None:
        target = schema.target
    rules = (None, None) if schema is None else (schema.cells, schema.unseen.get(target or ""))
    return Task(
        columns, labels, target, known, target_bounds, missing_label, of_columns, *rules, target
    )


def as_label(text: str, several: bool) -> Label:
    """Return a label as it is written on the command line: of several columns with / between."""
    return tuple(map(as_text, text.split("/"))) if several else as_text(text)


def label_of(text: str, labels: Sequence[Hashable]) -> Hashable:
    """Return the label that is written so, of several columns with / between."""
    written = as_label(text, isinstance(labels[0], tuple))
    # a stored audit that Python made may have labels that are no text
    known = (one for one in labels if not isinstance(one, tuple | str) and str(one) == written)
    return next(known, written)


def checked_question(
    metric: str | None, fail_below: float | None, fail_above: float | None
) -> tuple[Any, dict[str, Any]]:
    """Return the rates and the limit that a verdict is asked for; refuse one about nothing."""
    from sklearn_dpwg.inspection.verdicts import JOINT, RATES

    names = ["selection_rate"] if metric is None else split_list(metric, "metric")
    for name in names:
        if name not in (*RATES, *JOINT):
            raise WrongInput(f"metric must be one of {', '.join([*RATES, *JOINT])}, got {name!r}.")
    if fail_below is not None and fail_above is not None:
        raise WrongInput("fail_above must be left out where --fail-below is said.")
    if fail_below is not None and not 0.0 < fail_below <= 1.0:
        raise WrongInput(f"fail_below must be above 0 and at most 1, got {fail_below!r}.")
    if fail_above is not None and not 0.0 < fail_above < 1.0:
        raise WrongInput(f"fail_above must be above 0 and below 1, got {fail_above!r}.")
    given = {"at_least": fail_below, "within": fail_above}
    known = {name: value for name, value in given.items() if value is not None}
    return (names[0] if len(names) == 1 else names), known


def _declared(
    schema: SchemaFile | None, options: Mapping[str, Any], columns: tuple[str, ...]
) -> tuple[tuple[Label, ...] | None, tuple[tuple[str, ...], ...] | None]:
    """Return declared labels, or where these are of groups that overlap the values of columns."""
    if options["group_labels"] is not None:
        parts = split_list(options["group_labels"], "group_labels")
        several = len(columns) > 1
        labels = tuple(as_label(part, several) for part in parts)
        if several and options.get("overlap") not in (None, "cells"):
            return None, _values_of(labels, columns)
        return labels, None
    if schema is None or schema.group_labels is None:
        return None, None
    labels = tuple(
        tuple(map(as_text, label)) if isinstance(label, tuple) else as_text(label)
        for label in schema.group_labels
    )
    return labels, None


def _values_of(labels: Sequence[Label], columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the values of each column, of labels that are of a column and a value each."""
    of: dict[str, list[str]] = {column: [] for column in columns}
    for label in labels:
        if len(label) != 2 or label[0] not in of or label[1] in of[label[0]]:
            raise WrongInput(
                "group_labels must be values of the columns where groups overlap, each once, as "
                f"{columns[0]}/A,{columns[0]}/B,{columns[-1]}/x, got {'/'.join(label)!r}."
            )
        of[label[0]].append(label[1])
    empty = next((column for column, values in of.items() if not values), None)
    if empty is not None:
        raise WrongInput(f"group_labels must have values of {empty!r} too, as {empty}/A, got none.")
    return tuple(map(tuple, of.values()))


def _with_missing(labels: tuple[Label, ...] | None, missing: str) -> tuple[Label, ...] | None:
    """Return the labels and that of records without group, which several columns must declare."""
    if labels is None or missing in labels:
        return labels
    if not isinstance(labels[0], tuple):
        return (*labels, missing)
    if not any(missing in label for label in labels):
        raise WrongInput(
            f"missing_label must be a part of the group labels of several columns, as "
            f"{'/'.join([missing, *labels[0][1:]])!r}, which are not added by themselves, got "
            f"{missing!r}."
        )
    return labels


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
                f"group_labels must have a part for each of the columns {shown(columns)}, with / "
                f"between them on the command line, got {label!r}."
            )
