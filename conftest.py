"""Run the Python code blocks of README.md and docs/ as tests, one namespace a file."""

from doctest import ELLIPSIS, NORMALIZE_WHITESPACE

from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser

# Sphinx's configuration and figures, and what Sphinx and its gallery write
collect_ignore_glob = ["docs/*.py", "docs/figures/*", "docs/auto_examples/*", "docs/_build/*"]

pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
        SkipParser(),
    ],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
).pytest()
