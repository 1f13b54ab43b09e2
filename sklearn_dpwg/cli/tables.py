"""Tables in files, of which no type is guessed from a value.

A CSV file has no types: its cells are text until a schema says what they are. What is wrong with a
file is said by the names of its columns, which are public, and never by a value.
"""

from __future__ import annotations

import codecs
import csv
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, NoReturn

import click
import numpy as np

from sklearn_dpwg._checks import as_text, shown
from sklearn_dpwg.cli.cells import Faults, WrongTable

if TYPE_CHECKING:
    import pandas as pd


# Answers to whatever goes wrong: one sentence on stderr, and a number for the script that called.

FAULT = 1
WRONG_INPUT = 2
BUDGET_REFUSED = 3
FAILS = 4
CANNOT_TELL = 5

# What the extra `cli` installs and a command imports when it needs it.
_EXTRA = ("pyarrow", "skops", "rich", "jinja2", "matplotlib", "fairlearn", "openpyxl")
_TO_SEE = "--debug before the command shows them"


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
            if isinstance(error, click.exceptions.NoArgsIsHelpError):
                error.show()  # no command was named
            elif isinstance(error, WrongTable):
                click.echo(f"Error: {error.format_message()}", err=True)  # in lines
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
        with _sentences(lambda text: self._by_flags(ctx, text)):
            return super().invoke(ctx)

    def _by_flags(self, ctx: click.Context, text: str) -> str:
        """Return a sentence in words of the command: with the flags that were said."""
        command, said = self.commands.get(ctx.invoked_subcommand or ""), ctx.meta["arguments"]
        said = {one.partition("=")[0] for one in said}
        for option in () if command is None else command.params:
            if not said.intersection(option.opts):
                continue
            flag, name = max(option.opts, key=len), f"(?<![\\w'\"`/.-]){option.name}"
            text = re.sub(rf"{name}='([^']*)'", rf"{flag} \1", text)
            # a name that is no word of English is one anywhere, others at the beginning
            if "_" in str(option.name):
                text = re.sub(rf"{name}=(?=\S)", f"{flag} ", text)
                text = re.sub(rf"{name}\b(?!\.\w)", flag, text)  # but no file's name
            text = re.sub(rf"^{option.name}(?= must | is for )", flag, text)
        return text.replace("those of group_labels=", "those of the groups ")  # of a schema


def unknown_name(name: str, known: list[str]) -> str:
    """Return a name that is not there, with the nearest one that is."""
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    folded = [each for each in known if each.strip().lower() == name.strip().lower()]
    return f"{name!r}: did you mean {(folded or near)[0]!r}?" if folded or near else f"{name!r}."


@contextmanager
def _sentences(of_command: Callable[[str], str]) -> Iterator[None]:
    """Answer errors in the words of a command, and say the package's warnings on stderr."""
    from sklearn_dpwg import exceptions

    own = [each for each in vars(exceptions).values() if isinstance(each, type)]
    with warnings.catch_warnings():
        # other libraries speak to programmers
        warnings.simplefilter("ignore")
        for category in own:
            if issubclass(category, Warning):
                warnings.simplefilter("always", category)
        # put back on leaving
        warnings.showwarning = lambda one, *_, **__: _say("Warning", of_command(str(one)))
        try:
            yield
        except exceptions.BudgetExceededError as error:
            raise BudgetRefused(_words(error)) from None
        except WrongInput as error:
            raise WrongInput(of_command(error.message)) from None
        except ModuleNotFoundError as error:
            if error.name not in _EXTRA:
                raise
            raise WrongInput(
                f"the command line needs {error.name}: pip install 'sklearn-dpwg[cli]'."
            ) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            _refuse(error, of_command)


def _refuse(error: Exception, of_command: Callable[[str], str]) -> NoReturn:
    """Show the message of this package's errors; that of others may hold values of records."""
    from sklearn_dpwg import exceptions

    notes = [note for note in getattr(error, "__notes__", ()) if type(note) is exceptions.Note]
    if isinstance(error, exceptions.DPWGError) and exceptions.is_told(error):
        # a note says that the budget is spent
        kind = Fault if notes or isinstance(error, exceptions.ForeignError) else WrongInput
        raise kind(of_command(_words(error)).replace(exceptions.TO_SEE, _TO_SEE)) from None
    if isinstance(error, OSError) and error.strerror:
        raise WrongInput(f"{error.filename or 'a file'}: {error.strerror}.") from None
    place, _ = exceptions.place_of(error)
    raise Fault(
        f"an unexpected {type(error).__name__} came from {place}, whose message is not shown as it "
        f"may hold values of records; {_TO_SEE}. {' '.join(notes)}"
    ) from None


def _words(error: Exception) -> str:
    return " ".join([str(error), *getattr(error, "__notes__", ())])


def tell(text: str) -> None:
    """Print what a command found; a reader who has gone, as ``head`` does, ends no command.

    What was to be written is written, and the exit code is that of what was done.
    """
    try:
        click.echo(text)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _say(kind: str, text: str) -> None:
    click.echo(f"{kind}: {' '.join(text.split())}", err=True)


WRITTEN = ("delimiter", "missing_values", "encoding", "sheet")
CSV_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET = (".parquet", ".pq")
SHEETS = ".xlsx"


@dataclass(frozen=True)
class TableFile:
    """A table on disk."""

    path: Path
    # what stands between the cells of a CSV file; by default what the name of the file says
    delimiter: str | None = None
    # cells of a CSV file or a sheet that stand for a missing value, beside empty ones
    missing_values: tuple[str, ...] = ()
    encoding: str = "utf-8"
    sheet: str | None = None
    show_examples: bool = False

    @classmethod
    def of(
        cls, path: Path, options: Mapping[str, Any], known: Mapping[str, Any] | None = None
    ) -> TableFile:
        """Return a table as the options, or else a schema or a model, say that it is written."""
        given = {name: options[name] for name in WRITTEN if options[name] not in (None, ())}
        return cls(path, show_examples=options["show_examples"], **{**(known or {}), **given})

    def __post_init__(self) -> None:
        try:
            "".encode(self.encoding)
        except LookupError:
            raise WrongInput(
                f"encoding must be one that Python knows, as latin-1 or cp1252, got "
                f"{self.encoding!r}."
            ) from None

    @property
    def written(self) -> dict[str, Any]:
        """How a person says that the file is written, for a model to keep."""
        said = {name: getattr(self, name) for name in WRITTEN}
        return {name: one for name, one in said.items() if one not in (None, (), "utf-8")}

    @property
    def is_parquet(self) -> bool:
        """Whether the columns of the file have types."""
        return self.path.suffix.lower() in PARQUET

    def faults(self) -> Faults:
        """Return where cells that cannot be used are noted."""
        return Faults(self.path, show_examples=self.show_examples)

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
        names = self._header()
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise WrongInput(
                f"{self.path} must have a name of its own for each column, got {twice[0]!r} twice."
            )
        return names

    def empty_frame(self) -> pd.DataFrame:
        """Return a frame without rows that has the names and, of Parquet, the types."""
        import pandas as pd

        if not self.is_parquet:
            return pd.DataFrame({name: pd.Series(dtype=object) for name in self.names})
        _ = self.names
        return self._parquet_schema().empty_table().to_pandas()

    def require(self, wanted: Mapping[str, Iterable[str]]) -> None:
        """Refuse a file without some of the columns, which are listed by who names them."""
        absent = [
            (who, unknown_name(name, self.names))
            for who, names in wanted.items()
            for name in names
            if name not in self.names
        ]
        if len(absent) == 1:
            ((who, said),) = absent
            raise WrongInput(f"{self.path} must have the columns of {who}, and has no {said}")
        if absent:
            lines = [f"  of {who} it has no {said}" for who, said in absent]
            raise WrongTable("\n".join([f"{self.path} must have columns that it has not:", *lines]))

    def read(self, names: Sequence[str]) -> dict[str, Any]:
        """Read columns, and no others, as arrays of pyarrow; those without types as text."""
        names = list(dict.fromkeys(names))
        if self.is_parquet:
            table = self._read_parquet(names)
        else:
            table = self._read_sheet(names) if self._is_sheet else self._read_csv(names)
        if not table.num_rows:
            raise WrongInput(f"{self.path} must have rows, got a header alone.")
        return {name: table.column(name) for name in names}

    def _header(self) -> list[str]:
        if self.is_parquet:
            found: list[str] = self._parquet_schema().names
            return found
        if not self._is_sheet:
            return self._csv_header()
        names = [as_text(self._cells.iat[0, place]) for place in self._places()]
        if not names:
            raise WrongInput(f"{self.path} must begin with the names of its columns, got none.")
        return names

    def _csv_header(self) -> list[str]:
        delimiter, encoding = self._delimiter, self.encoding
        if codecs.lookup(encoding).name == "utf-8":
            encoding = "utf-8-sig"  # a mark at the beginning is no part of a name
        try:
            with self.path.open(encoding=encoding, newline="") as file:
                names = next(csv.reader(file, delimiter=delimiter), [])
        except (UnicodeError, csv.Error, OSError) as error:
            raise self._unreadable(error) from None
        if not any(names):
            raise WrongInput(f"{self.path} must begin with the names of its columns, got none.")
        other = next((each for each in ";\t|," if each in names[0]), None)
        if len(names) == 1 and other is not None:
            raise WrongInput(
                f"{self.path} must have cells with {delimiter!r} between them, and there seems to "
                f"be {other!r}: say --delimiter {other!r}, or delimiter under [file] in the schema."
            )
        return names

    @property
    def _delimiter(self) -> str:
        suffix = self.path.suffix.lower()
        if suffix not in CSV_DELIMITERS:
            allowed = ", ".join((*CSV_DELIMITERS, *PARQUET, SHEETS))
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
                read_options=arrow_csv.ReadOptions(encoding=self.encoding),
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
        except (pa.ArrowException, UnicodeError, OSError) as error:
            raise self._unreadable(error) from None

    # A sheet of a workbook: each cell has a type of its own, and is read as a text file has it.

    @property
    def _is_sheet(self) -> bool:
        return self.path.suffix.lower() == SHEETS

    @cached_property
    def _cells(self) -> pd.DataFrame:
        """Cells of the sheet, its header in the first row."""
        import pandas as pd

        import_module("openpyxl")  # its absence is answered by the name of the extra
        try:
            with pd.ExcelFile(self.path, engine="openpyxl") as book:
                sheets = book.sheet_names
                if (self.sheet or sheets[0]) in sheets and (self.sheet or len(sheets) == 1):
                    cells = book.parse(
                        self.sheet or sheets[0], header=None, dtype=object, keep_default_na=False
                    )
                    return cells.replace("", None).dropna(how="all")
        except Exception as error:  # whatever a broken archive raises
            raise self._unreadable(error) from None
        got = "none" if self.sheet is None else repr(self.sheet)
        raise WrongInput(
            f"sheet must be one of those of {self.path}, {shown(sheets)}, as --sheet NAME, got "
            f"{got}."
        )

    def _places(self) -> list[int]:
        """Return the columns of a sheet that have a name."""
        first = self._cells.iloc[:1].notna().to_numpy()
        return [int(place) for place in np.flatnonzero(first)]

    def _read_sheet(self, names: list[str]) -> Any:
        import pyarrow as pa

        places = dict(zip(self.names, self._places(), strict=True))
        found = {}
        for name in names:
            cells = self._cells.iloc[1:, places[name]]
            said = [
                None if gap else as_text(cell)
                for cell, gap in zip(cells, cells.isna(), strict=True)
            ]
            found[name] = pa.array(
                [None if each in ("", *self.missing_values) else each for each in said], pa.string()
            )
        return pa.table(found)

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
        kind = "an Excel" if self._is_sheet else "a Parquet" if self.is_parquet else "a CSV"
        reason = "it cannot be read"
        if isinstance(error, UnicodeError) or "utf8" in said or "utf-8" in said:
            reason = (
                f"some text is not {self.encoding.upper()}: say --encoding, as cp1252, or encoding "
                f"under [file] in the schema"
            )
        elif "expected" in said and "columns, got" in said:
            reason = "some row has more or fewer cells than the header"
        elif isinstance(error, PermissionError):
            reason = "its permissions forbid to read it"
        return WrongInput(f"{self.path} must be {kind} file, and {reason}.")


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
