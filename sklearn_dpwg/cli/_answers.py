"""Answers to whatever goes wrong: one sentence on stderr, and a number for the caller's script."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn

import click

FAULT = 1
WRONG_INPUT = 2
BUDGET_REFUSED = 3
FAILS = 4
CANNOT_TELL = 5

_PACKAGE = __name__.partition(".")[0]
# What the extra `cli` installs and a command imports when it needs it.
_EXTRA = ("pyarrow", "skops", "rich", "jinja2", "matplotlib", "fairlearn")
# The types of the errors that this package words itself.
_TOLD = (ValueError, TypeError, OSError, RuntimeError)
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
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    place = frame.f_globals.get("__name__", "")
    if place.partition(".")[0] == _PACKAGE and isinstance(error, _TOLD):
        raise WrongInput(_words(error)) from None
    notes = " ".join(getattr(error, "__notes__", ()))
    raise Fault(
        f"an unexpected {type(error).__name__} came from {place}, whose message is not shown as it "
        f"may hold values of records; --debug before the command shows it. {notes}"
    ) from None


def _words(error: Exception) -> str:
    return " ".join([str(error), *getattr(error, "__notes__", ())])


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say("Warning", str(message))


def _say(kind: str, text: str) -> None:
    click.echo(f"{kind}: {' '.join(text.split())}", err=True)
