"""What all tests share: profiles of hypothesis, and the code of README.md and docs/ as tests.

``make test`` tries the same examples every time, so that it fails for a change and not by chance;
``make audit`` draws others (``HYPOTHESIS_PROFILE=explore``).

The code of a page has one namespace and one folder a file. Python blocks are doctests. In a
``console`` block each line after ``$ `` that calls this package is a command of its own, run in
this process; what stands below it is what it has to print.
"""

import gc
import os
import re
import shlex
import tempfile
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker

import pytest
from hypothesis import settings
from sklearn import get_config, set_config
from sybil import Example, Sybil
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser

# Sphinx's configuration and figures, and what Sphinx and its gallery write
collect_ignore_glob = ["docs/*.py", "docs/figures/*", "docs/auto_examples/*", "docs/_build/*"]

# a failure prints what repeats it; a test that says how many examples it takes keeps its number
settings.register_profile(
    "repeat", max_examples=30, derandomize=True, deadline=None, print_blob=True
)
settings.register_profile("explore", max_examples=500, print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

OPTIONS = ELLIPSIS | NORMALIZE_WHITESPACE
COMMAND = "dpwg "
OUTSIDE = "outside the guarantee:sklearn_dpwg.exceptions.NoProtectionWarning"


def enter_folder(namespace: dict) -> None:
    """Let a page write its files where nobody keeps any, and set options for itself alone."""
    namespace["_options"] = get_config()
    namespace["_folder"] = tempfile.TemporaryDirectory()
    namespace["_left"] = os.getcwd()
    os.chdir(namespace["_folder"].name)


def leave_folder(namespace: dict) -> None:
    """Go back, and undo what the page wrote and set."""
    set_config(**namespace["_options"])
    os.chdir(namespace["_left"])
    namespace["_folder"].cleanup()


def run_console(example: Example) -> str | None:
    """Run the commands of a console block; return what is wrong with the first that differs."""
    from click.testing import CliRunner

    from sklearn_dpwg.cli.main import main

    text = example.parsed.replace("\\\n", " ")
    outcome = None
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        if command == "echo $?":
            printed = f"{outcome.exit_code}\n"
        elif command.startswith(COMMAND):
            outcome = CliRunner().invoke(main, shlex.split(command.removeprefix(COMMAND)))
            printed = outcome.output
        else:
            return f"$ {command}\nis no command of this package"
        if not OutputChecker().check_output(expected, printed, OPTIONS):
            return f"$ {command}\nExpected:\n{expected}\nGot:\n{printed}"
    return None


class ConsoleParser(CodeBlockParser):
    """Finds the console blocks."""

    language = "console"

    def evaluate(self, example: Example) -> str | None:
        return run_console(example)


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=OPTIONS),
        ConsoleParser(),
    ],
    setup=enter_folder,
    teardown=leave_folder,
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
).pytest()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let README.md warn as users see it; keep the garbage collector from passing over tests."""
    for item in session.items:
        if item.path.name == "README.md":
            item.add_marker(pytest.mark.filterwarnings(f"ignore:{OUTSIDE}"))
    gc.collect()
    gc.freeze()
