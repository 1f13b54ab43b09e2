"""The pages list what there is: public names, solvers, and each other."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import sklearn_dpwg
from sklearn_dpwg.solvers import SOLVERS
from sklearn_dpwg.solvers.solver import FreshSolver

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# made by the build: the gallery, and a page a name of the API
BUILT = ("_build/", "auto_examples/", "api/generated/")


def pages(docs: Path = DOCS) -> dict[str, str]:
    """Map the name of every page to its text."""
    result = {
        path.relative_to(docs).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted([*docs.rglob("*.md"), *docs.rglob("*.rst")])
    }
    return {
        name: text
        for name, text in result.items()
        if not name.startswith((*BUILT, "_templates/", "sg_execution_times"))
    }


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
    result = {}
    for name in ["sklearn_dpwg", *(f"sklearn_dpwg.{package}" for package in packages)]:
        module = importlib.import_module(name)
        for public in module.__all__:
            result[f"{name}.{public}"] = getattr(module, public)
    return result


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
        assert len(others) == 2
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


# --- tests that pages name are there -----------------------------------------------------------


@cache
def written() -> dict[str, str]:
    """Map the name of everything that people read to its prose; code has its docstrings."""
    texts = {f"docs/{name}": text for name, text in pages().items()}
    texts |= {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("*.md")}
    for path in [*ROOT.glob("sklearn_dpwg/**/*.py"), *ROOT.glob("examples/*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
        result = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
        comments = re.findall(r"(?:^|  )# .*", path.read_text(encoding="utf-8"), re.MULTILINE)
        texts[str(path.relative_to(ROOT))] = "\n\n".join(filter(None, [*result, *comments]))
    return texts


def defined_tests() -> set[str]:
    """Return the test functions of the tree, audits included, alone and behind their files."""
    result = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                result |= {node.name, f"{path.relative_to(ROOT).as_posix()}::{node.name}"}
    return result


def test_tests_that_are_named_exist():
    named = set(re.findall(r"`((?:[\w/.]*::)?test_\w+)`", "\n".join(written().values())))
    assert named
    assert sorted(named - defined_tests()) == []
