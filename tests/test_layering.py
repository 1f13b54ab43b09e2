"""House rules that a parser can hold; pyproject.toml has the contracts of imports."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sklearn_dpwg.privacy import NoiseSource

ROOT = Path(__file__).parents[1]
PACKAGE = "sklearn_dpwg"
MAX_LINES = 800
MIN_LINES = 60  # of a module that one neighbour alone imports
MAX_FUNCTION_LINES = 60  # its signature and docstring left out

# The methods of NoiseSource that take data or decide which data is read: they name a release.
DRAWS = {
    name
    for name, method in inspect.getmembers(NoiseSource, inspect.isfunction)
    if not name.startswith("_")
    and {"release", "releases"} & set(inspect.signature(method).parameters)
}
# Every file in which records may meet noise: what a review of privacy reads.
MEETS_NOISE = {
    f"{PACKAGE}.{name}"
    for name in (
        "inspection.group_audit",
        "model_selection.fit_then_release",
        "estimators.auc",
        "postprocessing.base",
        "preprocessing.scalers",
        "privacy.noise.source",
        "privacy.prefix_sums",
        "solvers.centring",
        "solvers.counts",
        "solvers.batches",
        "solvers.descent",
        "solvers.fresh_records",
        "solvers.moments",
        "solvers.oco",
        "solvers.rounds",
    )
}


class Module:
    """One parsed file."""

    def __init__(self, path: Path, package: Path) -> None:
        parts = (PACKAGE, *path.relative_to(package).with_suffix("").parts)
        self.path = path
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.home = self.name if self.is_package else self.name.rpartition(".")[0]
        text = path.read_text(encoding="utf-8")
        self.n_lines = len(text.splitlines())
        self.nodes = list(ast.walk(ast.parse(text, filename=str(path))))
        # absolute dotted names and their lines, a.b.c for `from a.b import c`
        self.imports: list[tuple[str, int]] = []
        for node in self.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                self.imports += [(prefix + alias.name, node.lineno) for alias in node.names]


@cache
def read(package: Path) -> dict[str, Module]:
    """Parse every module of a package directory."""
    modules = [Module(path, package) for path in sorted(package.rglob("*.py"))]
    return {module.name: module for module in modules}


# --- the rules ---------------------------------------------------------------------------------


def breaks_public_scikit_learn(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        for name, line in module.imports:
            first, *others = name.split(".")
            if first == "sklearn" and any(p[0] == "_" and not p.endswith("__") for p in others):
                yield f"{module.path}:{line}: {name} is private to scikit-learn"


def breaks_local_randomness(modules: dict[str, Module]) -> Iterator[str]:
    """What ruff does not see of the global state of numpy.random."""
    for module in modules.values():
        for node in module.nodes:
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "rvs"
                and all(keyword.arg != "random_state" for keyword in node.keywords)
            ):
                yield f"{module.path}:{node.lineno}: rvs without random_state is global randomness"


def breaks_length(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        if module.n_lines > MAX_LINES:
            yield f"{module.path}: {module.n_lines} lines, is it two things?"
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node, clean=False) else node.body
                n_lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                if n_lines > MAX_FUNCTION_LINES:
                    yield f"{module.path}:{node.lineno}: {node.name} has {n_lines} lines"


def breaks_smallness(modules: dict[str, Module]) -> Iterator[str]:
    """A short file that one neighbour alone imports is a part of that neighbour."""
    importers: dict[str, set[str]] = {}
    for module in modules.values():
        for name, _ in module.imports:
            for imported in {name, name.rpartition(".")[0]} & set(modules):
                importers.setdefault(imported, set()).add(module.name)
    for module in modules.values():
        users = importers.get(module.name, set())
        if module.is_package or module.n_lines >= MIN_LINES or len(users) != 1:
            continue
        (user,) = users
        if modules[user].home == module.home and not modules[user].is_package:
            yield f"{module.path}: {module.n_lines} lines that {user} alone imports"


def breaks_releases(modules: dict[str, Module]) -> Iterator[str]:
    """The files in which records meet noise are listed, and no other draws any."""
    for module in modules.values():
        for node in module.nodes:
            if (
                isinstance(node, ast.Attribute)
                and node.attr in DRAWS
                and module.name not in MEETS_NOISE
                and "noise" in (owner := ast.unparse(node.value).rpartition(".")[2])
            ):
                yield f"{module.path}:{node.lineno}: {owner}.{node.attr} is in no listed file"


RULES = [
    breaks_public_scikit_learn,
    breaks_local_randomness,
    breaks_length,
    breaks_smallness,
    breaks_releases,
]


@pytest.mark.parametrize("rule", RULES)
def test_package_keeps(rule):
    modules = read(ROOT / PACKAGE)
    assert PACKAGE in modules
    broken = list(rule(modules))
    assert not broken, "\n".join(broken)


LONG_FUNCTION = 'def f():\n    """One."""\n' + "    x = 1\n" * (MAX_FUNCTION_LINES + 1)
NEIGHBOURS = {"a/__init__.py": "", "a/b.py": "x = 1", "a/c.py": "from sklearn_dpwg.a.b import x"}


@pytest.mark.parametrize(
    ("rule", "files"),
    [
        (breaks_public_scikit_learn, {"a.py": "from sklearn.linear_model import _glm"}),
        (breaks_local_randomness, {"a.py": "from scipy.stats import norm\nnorm.rvs()"}),
        (breaks_length, {"a.py": "x = 1\n" * (MAX_LINES + 1)}),
        (breaks_length, {"a.py": LONG_FUNCTION}),
        (breaks_smallness, NEIGHBOURS),
        (breaks_releases, {"solvers/mgr.py": "def f(noise, x): return noise.gaussian(x)"}),
    ],
)
def test_planted_violation_is_found(rule, files, tmp_path):
    for relative, source in ({"__init__.py": ""} | files).items():
        path = tmp_path / PACKAGE / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    assert len(list(rule(read(tmp_path / PACKAGE)))) == 1
