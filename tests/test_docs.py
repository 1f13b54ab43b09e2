"""The pages list what there is: public names, solvers, and each other."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import posixpath
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import sklearn_dpwg
from sklearn_dpwg.solvers import SOLVERS
from sklearn_dpwg.solvers.solver import FreshSolver

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# made by the build: the gallery, and a page a name of the API
BUILT = ("_build/", "auto_examples/", "api/generated/")


def pages(docs: Path = DOCS) -> dict[str, str]:
    """Map the name of every page to its text."""
    found = {
        path.relative_to(docs).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted([*docs.rglob("*.md"), *docs.rglob("*.rst")])
    }
    return {
        name: text
        for name, text in found.items()
        if not name.startswith((*BUILT, "_templates/", "sg_execution_times"))
    }


# --- every page is reached ---------------------------------------------------------------------


def toctree_entries(text: str) -> Iterator[str]:
    """Yield what the Markdown toctrees of a page name."""
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from (line for line in block.splitlines() if line and not line.startswith(":"))


def reached(texts: dict[str, str]) -> set[str]:
    found, waiting = set(), ["index"]
    while waiting:
        page = waiting.pop()
        if page in found:
            continue
        found.add(page)
        for entry in toctree_entries(texts.get(page, "")):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), entry))
            pattern = re.escape(target).replace(r"\*", "[^/]*")
            waiting += [name for name in texts if re.fullmatch(pattern, name)] or [target]
    return found


def lost(texts: dict[str, str]) -> list[str]:
    """Return pages that no toctree names, and entries that are no page."""
    named = {name for name in reached(texts) if not name.startswith(BUILT)}
    return sorted(named ^ set(texts))


def test_every_page_is_in_the_toctree():
    assert lost(pages()) == []


def test_a_lost_page_would_be_seen():
    tree = "```{toctree}\n:maxdepth: 1\n\n%s\n```\n"
    texts = {
        "index": tree % "guide/index",
        "guide/index": tree % "*\ngone",
        "guide/here": "",
        "x": "",
    }
    assert lost(texts) == ["guide/gone", "x"]


# --- the API pages name everything public ------------------------------------------------------


# Packages within packages that a user imports from.
PUBLIC_INSIDE = [
    "data.distributed",
    "data.oracles",
    "data.risks",
    "data.sources",
    "metrics.intervals",
    "solvers.learners",
]


def public_objects() -> dict[str, object]:
    """Map every name of every ``__all__`` of the public packages to what it is."""
    packages = [info.name for info in pkgutil.iter_modules(sklearn_dpwg.__path__) if info.ispkg]
    packages.remove("data")
    packages += PUBLIC_INSIDE
    found = {}
    for name in ["sklearn_dpwg", *(f"sklearn_dpwg.{package}" for package in packages)]:
        module = importlib.import_module(name)
        for public in module.__all__:
            found[f"{name}.{public}"] = getattr(module, public)
    return found


def listed_modules() -> list[str]:
    """Return the modules whose names the API pages are generated from."""
    return re.findall(r"^   (sklearn_dpwg[\w.]*)$", pages()["api/index"], re.MULTILINE)


def documented(module_name: str) -> Iterator[object]:
    """Yield what the page of a module shows: its ``__all__``, or else the classes it defines."""
    module = importlib.import_module(module_name)
    if hasattr(module, "__all__"):
        yield from (getattr(module, name) for name in module.__all__)
    else:
        yield from (
            value
            for value in vars(module).values()
            if inspect.isclass(value) and value.__module__ == module_name
        )


def test_every_public_name_is_on_an_api_page():
    modules = listed_modules()
    assert len(modules) == len(set(modules))
    shown = [thing for name in modules for thing in documented(name)]
    missing = [
        name for name, thing in public_objects().items() if not any(s is thing for s in shown)
    ]
    assert missing == []
    assert len(shown) > 40


@pytest.mark.parametrize("module", ["exceptions", "data.problem", "data.records", "data.risks"])
def test_modules_without_all_are_on_an_api_page(module):
    assert f"sklearn_dpwg.{module}" in listed_modules()
    assert list(documented(f"sklearn_dpwg.{module}"))


# --- the solver table is the registry ----------------------------------------------------------


def solver_rows() -> dict[str, list[str]]:
    """Map the names in the table of solvers to the other cells of their rows."""
    rows = {}
    for line in pages()["solvers"].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if match := re.fullmatch(r'`"([\w-]+)"`', cells[0]):
            assert match[1] not in rows
            rows[match[1]] = cells[1:]
    return rows


def test_the_solver_table_is_the_registry():
    rows = solver_rows()
    assert sorted(rows) == sorted(SOLVERS)
    for name, (class_cell, data_model, *others) in rows.items():
        assert f".{SOLVERS[name].__name__}`" in class_cell
        kind = SOLVERS[name]
        fresh = "fresh" if not getattr(kind, "reads_again", False) else "both"
        assert data_model == (fresh if issubclass(kind, FreshSolver) else "fixed")
        assert len(others) == 3
        assert all(others)


# --- files that pages name are there -----------------------------------------------------------


def test_files_that_are_named_exist():
    folders = "tests|benchmarks|examples|docs"
    named = {
        path
        for text in written().values()
        for path in re.findall(rf"(?<![\w/])(?:{folders})/[\w/-]+\.(?:py|md)\b", text)
    }
    assert len(named) > 50
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


# --- nothing waits to be filled in -------------------------------------------------------------

PLACEHOLDER = re.compile(
    r"@@|\b(?:TODO|FIXME|XXX|TBD)\b|lorem ipsum|^<{7}|^>{7}|\{\{|\?\?\?", re.MULTILINE
)
# code, formulas, and the names of roles and directives
NO_PROSE = re.compile(
    r"^( *)(`{3,}|:{3,}).*?^\1\2|\$\$.+?\$\$|(\{[\w:]+\})?(`+).+?\4|\$[^$\n]+\$|^:::+\{\w+\}",
    re.MULTILINE | re.DOTALL,
)
UNFILLED = re.compile(r"(?<!=)\{\w*\}")  # a default may be the empty dict


@cache
def written() -> dict[str, str]:
    """Map the name of everything that people read to its prose; code has its docstrings."""
    texts = {f"docs/{name}": text for name, text in pages().items()}
    texts |= {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("*.md")}
    for path in [*ROOT.glob("sklearn_dpwg/**/*.py"), *ROOT.glob("examples/*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
        comments = re.findall(r"(?:^|  )# .*", path.read_text(encoding="utf-8"), re.MULTILINE)
        texts[str(path.relative_to(ROOT))] = "\n\n".join(filter(None, [*found, *comments]))
    return texts


def unfinished(text: str) -> list[str]:
    """Return the placeholders of a text; braces count in prose only."""
    return PLACEHOLDER.findall(text) + UNFILLED.findall(NO_PROSE.sub("", text))


def named_tests(text: str) -> set[str]:
    """Return the tests that a page names between backticks, with their files where it says so."""
    return set(re.findall(r"`((?:[\w/.]*::)?test_\w+)`", text))


def defined_tests() -> set[str]:
    """Return the test functions of the tree, audits included, alone and behind their files."""
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found |= {node.name, f"{path.relative_to(ROOT).as_posix()}::{node.name}"}
    return found


def test_tests_that_are_named_exist():
    named = {name for text in written().values() for name in named_tests(text)}
    assert named
    assert sorted(named - defined_tests()) == []


def test_nothing_waits_to_be_filled_in():
    texts = written()
    assert len(texts) > 150
    found = {name: unfinished(text) for name, text in texts.items()}
    assert {name: marks for name, marks in found.items() if marks} == {}


@pytest.mark.parametrize(
    "text",
    [
        "costs 0.1 (TODO: measure)",
        "```python\nx = 1\n```\ntakes {seconds} s",
    ],
)
def test_what_waits_would_be_seen(text):
    assert unfinished(text)


def test_what_is_written_passes():
    text = '{doc}`mgr` and `{x}`\n\n```python\nprint(f"{x}")\n```\n\n$\\max_{i}$'
    assert unfinished(text) == []
