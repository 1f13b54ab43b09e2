"""Tables in CSV and Parquet files, of which no type is guessed from a value.

A CSV file has no types: its cells are text until a schema says what they are. What is wrong with a
file is said by the names of its columns, which are public, and never by a value.
"""

from __future__ import annotations

import csv
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, NoReturn

import click
import numpy as np

if TYPE_CHECKING:
    import pandas as pd


# Answers to whatever goes wrong: one sentence on stderr, and a number for the script that called.

FAULT = 1
WRONG_INPUT = 2
BUDGET_REFUSED = 3
FAILS = 4
CANNOT_TELL = 5

# What the extra `cli` installs and a command imports when it needs it.
_EXTRA = ("pyarrow", "skops", "rich", "jinja2", "matplotlib", "fairlearn")
_TO_SEE = "--debug before the command shows them"
# click before 8.2 shows help by itself where nothing is asked for
_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


class WrongInput(click.ClickException):
    """Something that the caller can put right; nothing was spent."""

    exit_code = WRONG_INPUT


class Fault(click.ClickException):
    """Something unexpected, whose own words may hold values of records."""

    exit_code = FAULT


class BudgetRefused(click.ClickException):
    """A ledger has less left than this would cost; nothing was spent."""

    exit_code = BUDGET_REFUSED


class OneSentence(click.Group):
    """A group of commands that answer wrong input without usage or traceback."""

    def main(  # type: ignore[override]  # click overloads it by one argument
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and, in standalone mode, end the process with its number."""
        try:
            outcome = super().main(args, prog_name, standalone_mode=False, **extra)
        except click.ClickException as error:
            if not standalone_mode:
                raise
            if isinstance(error, _HELP):
                error.show()  # no command was named
            else:
                _say("Error", error.format_message())
            sys.exit(error.exit_code)
        except click.Abort:
            if not standalone_mode:
                raise
            _say("Error", "interrupted; what a ledger says is spent stays spent.")
            sys.exit(FAULT)
        if not standalone_mode:
            return outcome
        sys.exit(outcome if isinstance(outcome, int) else 0)

    def make_context(
        self, info_name: str | None, args: list[str], *rest: Any, **extra: Any
    ) -> click.Context:
        """Keep the words of the command, which a report quotes."""
        words = list(args)
        ctx = super().make_context(info_name, args, *rest, **extra)
        ctx.meta["arguments"] = words
        return ctx

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they are used."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, whose errors and warnings become sentences."""
        if ctx.params.get("debug"):
            from sklearn_dpwg.exceptions import show_records

            with show_records():
                return super().invoke(ctx)
        with _sentences():
            return super().invoke(ctx)


def unknown_name(what: str, name: str, known: list[str]) -> WrongInput:
    """Return the refusal of a name that is not there, with the nearest one that is."""
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    folded = [each for each in known if each.strip().lower() == name.strip().lower()]
    advice = f": did you mean {(folded or near)[0]!r}?" if folded or near else "."
    return WrongInput(f"{what} {name!r}{advice}")


@contextmanager
def _sentences() -> Iterator[None]:
    """Answer errors of the package in its words, and say its warnings on stderr."""
    from sklearn_dpwg import exceptions

    own = [each for each in vars(exceptions).values() if isinstance(each, type)]
    with warnings.catch_warnings():
        # other libraries speak to programmers
        warnings.simplefilter("ignore")
        for category in own:
            if issubclass(category, Warning):
                warnings.simplefilter("always", category)
        warnings.showwarning = _show_warning  # put back on leaving
        try:
            yield
        except exceptions.BudgetExceededError as error:
            raise BudgetRefused(_words(error)) from None
        except ModuleNotFoundError as error:
            if error.name not in _EXTRA:
                raise
            raise WrongInput(
                f"the command line needs {error.name}: pip install 'sklearn-dpwg[cli]'."
            ) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            _refuse(error)


def _refuse(error: Exception) -> NoReturn:
    """Show the message of this package's errors; that of others may hold values of records."""
    from sklearn_dpwg import exceptions

    notes = [note for note in getattr(error, "__notes__", ()) if type(note) is exceptions.Note]
    if isinstance(error, exceptions.DPWGError) and exceptions.is_told(error):
        # a note says that the budget is spent
        kind = Fault if notes or isinstance(error, exceptions.ForeignError) else WrongInput
        raise kind(_words(error).replace(exceptions.TO_SEE, _TO_SEE)) from None
    if isinstance(error, OSError) and error.strerror:
        raise WrongInput(f"{error.filename or 'a file'}: {error.strerror}.") from None
    place, _ = exceptions.place_of(error)
    raise Fault(
        f"an unexpected {type(error).__name__} came from {place}, whose message is not shown as it "
        f"may hold values of records; {_TO_SEE}. {' '.join(notes)}"
    ) from None


def _words(error: Exception) -> str:
    return " ".join([str(error), *getattr(error, "__notes__", ())])


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say("Warning", str(message))


def _say(kind: str, text: str) -> None:
    click.echo(f"{kind}: {' '.join(text.split())}", err=True)


CSV_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class TableFile:
    """A table on disk."""

    path: Path
    # what stands between the cells of a CSV file; by default what the name of the file says
    delimiter: str | None = None
    # cells of a CSV file that stand for a missing value, beside empty ones
    missing_values: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: Path, options: Mapping[str, Any]) -> TableFile:
        """Return a table as the options say that it is written."""
        return cls(path, options["delimiter"], options["missing_values"])

    @property
    def is_csv(self) -> bool:
        """Whether the file is one of text."""
        return self.path.suffix.lower() not in PARQUET

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns; no value is read."""
        if self.path.is_dir():
            raise WrongInput(
                f"{self.path} must be one file, got a folder: several files are read in Python, by "
                f"sources.ParquetSource."
            )
        if not self.path.is_file():
            raise WrongInput(f"{self.path} must be a file that is there.")
        names = self._csv_header() if self.is_csv else self._parquet_schema().names
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise WrongInput(
                f"{self.path} must have a name of its own for each column, got {twice[0]!r} twice."
            )
        return names

    def empty_frame(self) -> pd.DataFrame:
        """Return a frame without rows that has the names and, of Parquet, the types."""
        import pandas as pd

        if self.is_csv:
            return pd.DataFrame({name: pd.Series(dtype=object) for name in self.names})
        _ = self.names
        return self._parquet_schema().empty_table().to_pandas()

    def guessed_frame(self) -> pd.DataFrame:
        """Return a frame without rows whose types pandas guessed from the values of a CSV file."""
        import pandas as pd

        if not self.is_csv:
            return self.empty_frame()
        _ = self.names
        gaps = list(self.missing_values)
        try:
            guessed = pd.read_csv(self.path, sep=self._delimiter, na_values=gaps)
        except (ValueError, OSError) as error:
            raise self._unreadable(error) from None
        return guessed.iloc[:0]

    def require(self, names: Iterable[str], who: str) -> None:
        """Refuse a file without one of the columns that somebody names."""
        for name in names:
            if name not in self.names:
                raise unknown_name(
                    f"{self.path} must have the columns of {who}, and has no", name, self.names
                )

    def read(self, names: Sequence[str]) -> dict[str, Any]:
        """Read columns, and no others, as arrays of pyarrow; those of CSV as text."""
        names = list(dict.fromkeys(names))
        table = self._read_csv(names) if self.is_csv else self._read_parquet(names)
        if not table.num_rows:
            raise WrongInput(f"{self.path} must have rows, got a header alone.")
        return {name: table.column(name) for name in names}

    def _csv_header(self) -> list[str]:
        delimiter = self._delimiter
        try:
            with self.path.open(encoding="utf-8-sig", newline="") as file:
                names = next(csv.reader(file, delimiter=delimiter), [])
        except (UnicodeDecodeError, csv.Error, OSError) as error:
            raise self._unreadable(error) from None
        if not any(names):
            raise WrongInput(f"{self.path} must begin with the names of its columns, got none.")
        other = next((each for each in ";\t|," if each in names[0]), None)
        if len(names) == 1 and other is not None:
            raise WrongInput(
                f"{self.path} must have cells with {delimiter!r} between them, and there seems to "
                f"be {other!r}: say --delimiter {other!r}."
            )
        return names

    @property
    def _delimiter(self) -> str:
        suffix = self.path.suffix.lower()
        if suffix not in CSV_DELIMITERS:
            allowed = ", ".join((*CSV_DELIMITERS, *PARQUET))
            raise WrongInput(f"{self.path} must have a name that ends in one of {allowed}.")
        if self.delimiter is None:
            return CSV_DELIMITERS[suffix]
        delimiter = self.delimiter.replace("\\t", "\t")  # as it is typed in a shell
        if len(delimiter) != 1:
            raise WrongInput(f"delimiter must be one character, got {self.delimiter!r}.")
        return delimiter

    def _read_csv(self, names: list[str]) -> Any:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        try:
            return arrow_csv.read_csv(
                self.path,
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True
                ),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=names,
                    column_types={name: pa.string() for name in names},
                    null_values=["", *self.missing_values],
                    strings_can_be_null=True,
                ),
            )
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from None

    def _parquet_schema(self) -> Any:
        import pyarrow as pa
        from pyarrow import parquet

        try:
            return parquet.read_schema(self.path)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from None

    def _read_parquet(self, names: list[str]) -> Any:
        import pyarrow as pa
        from pyarrow import parquet

        try:
            return parquet.read_table(self.path, columns=names)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> WrongInput:
        """Return a refusal without the words of a parser, which may hold cells."""
        said = str(error).lower()
        kind = "a CSV" if self.is_csv else "a Parquet"
        reason = "it cannot be read"
        if "utf8" in said or "utf-8" in said:
            reason = "some text is not UTF-8"
        elif "expected" in said and "columns, got" in said:
            reason = "some row has more or fewer cells than the header"
        elif isinstance(error, PermissionError):
            reason = "its permissions forbid to read it"
        return WrongInput(f"{self.path} must be {kind} file, and {reason}.")


def texts(column: Any, name: str, *, who: str) -> np.ndarray:
    """Return a column as text without blanks at its ends, or refuse one with gaps."""
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_floating(column.type):
        values = column.to_numpy()
        gaps = bool(np.isnan(values).any())
        words = None if gaps else np.array([as_text(value) for value in values], dtype=object)
    else:
        try:
            cells = compute.utf8_trim_whitespace(column.cast(pa.string()))
        except pa.ArrowException:
            raise WrongInput(
                f"column {name!r} ({who}) must hold text, numbers or yes and no, got {column.type}."
            ) from None
        words = cells.to_numpy()
        gaps = column.null_count > 0 or bool((words == "").any())
    if gaps or words is None:
        raise WrongInput(
            f"column {name!r} ({who}) must have no missing values, and some are: give them a value "
            f"of their own, or leave these rows out."
        )
    return np.asarray(words, dtype=object)


def numbers(column: Any, name: str, *, who: str) -> np.ndarray:
    """Return a column as finite numbers, or refuse it."""
    import pandas as pd

    values = column.to_pandas()
    try:
        found = np.asarray(pd.to_numeric(values), dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array([math.nan])
        if not values.isna().any():
            raise WrongInput(
                f"column {name!r} ({who}) must hold numbers, and some are none."
            ) from None
    if not np.isfinite(found).all():
        raise WrongInput(
            f"column {name!r} ({who}) must hold finite numbers, and some are missing or infinite."
        )
    return found


def as_text(value: Any) -> str:
    """Return a label as a file of text has it: yes and no in small letters, 1.0 as 1."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def features(columns: Mapping[str, Any], kinds: Mapping[str, Any]) -> pd.DataFrame:
    """Return the columns of a schema, levels that a file has in another type as the schema says."""
    import pandas as pd

    frame = {}
    for name, kind in kinds.items():
        values = columns[name].to_pandas()
        levels = _levels(kind)
        if levels is not None:
            values = _in_type_of(values, levels)
        frame[name] = values
    return pd.DataFrame(frame)


def _levels(kind: Any) -> tuple[Any, ...] | None:
    """Return the levels of a kind, if it has some."""
    if hasattr(kind, "levels"):
        return tuple(kind.levels)
    return (kind.true, kind.false) if hasattr(kind, "true") else None


def _in_type_of(values: pd.Series, levels: tuple[Any, ...]) -> pd.Series:
    """Return the level for each text of one, and other values as text where levels are text."""
    import pandas as pd

    codes, distinct = pd.factorize(values.astype(object))
    by_text: dict[str, Any] = {as_text(level): level for level in levels}
    if all(isinstance(level, bool) for level in levels):
        by_text |= dict.fromkeys(("True", "TRUE", "1"), True)
        by_text |= dict.fromkeys(("False", "FALSE", "0"), False)
    found = [by_text.get(as_text(value), as_text(value)) for value in distinct]
    table = np.array([*found, None], dtype=object)  # code -1 is a missing value
    return pd.Series(table[codes], dtype=object)


# Files that a command writes: all of one, or none, and never over another by accident.


def check_outputs(outputs: Iterable[Path], inputs: Iterable[Path], *, overwrite: bool) -> None:
    """Refuse what cannot be written, before anything is spent."""
    read = {path.resolve() for path in inputs}
    written: set[Path] = set()
    for path in outputs:
        place = path.resolve()
        if place in read or place in written:
            other = "read" if place in read else "written twice"
            raise WrongInput(f"{path} must be a file of its own, and it is {other}.")
        written.add(place)
        if path.is_dir():
            raise WrongInput(f"{path} must be a file, and it is a folder.")
        if path.exists() and not overwrite:
            raise WrongInput(f"{path} is there already: name another file, or say --overwrite.")
        if not path.parent.is_dir():
            raise WrongInput(f"{path} must be in a folder that is there.")
        try:
            with NamedTemporaryFile(dir=path.parent):
                pass
        except OSError:
            raise WrongInput(f"{path} must be in a folder that can be written to.") from None


@contextmanager
def paid_for(what: str) -> Iterator[None]:
    """Say of a file that cannot be written any more that what it was to hold is spent."""
    try:
        yield
    except OSError as error:
        raise Fault(
            f"the budget of this {what} is spent, and what it released could not be written: "
            f"{error.strerror or 'the system said no more'}."
        ) from None


def write_text(path: Path, text: str) -> None:
    """Write a file of text."""
    write(path, lambda part: part.write_text(text, encoding="utf-8"))


def write(path: Path, content: Callable[[Path], object]) -> None:
    """Let a function write a file beside its place, and move it there when it is whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part{path.suffix}")
    try:
        content(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
