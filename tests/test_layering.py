"""The house rules that a parser can hold: imports only go down, nothing private, nothing global."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "sklearn_dpwg"
MAX_LINES = 450

# Highest first. A unit may import everything below its floor, and its neighbours on it as long
# as no cycle arises. Units of the ground floor stand alone.
FLOORS = (
    {"cli"},
    {"model_selection", "inspection"},
    {"estimators"},
    {"solvers", "minimax", "ledger"},
    {"learners"},
    {"optimum"},
    {"risks", "oracles"},
    {"problem", "records", "kernels"},
    {"losses", "privacy", "groups"},
)
# Beside the floors: what a unit may import, and who may import it.
SIDE_IMPORTS = {
    "metrics": {"privacy", "groups"},
    "preprocessing": {"ledger", "privacy"},
    "datasets": set(),
}
SIDE_IMPORTERS = {
    "metrics": {"cli", "model_selection", "inspection"},
    "preprocessing": {"cli"},
    "datasets": {"cli"},
}
# All may import these, and they nothing of the package.
EVERYWHERE = {"exceptions", "_checks", "_typing"}

# What makes an independent stream; every other name in numpy.random shares the global state.
LOCAL_RANDOMNESS = {
    "BitGenerator", "Generator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "RandomState",
    "SFC64", "SeedSequence", "default_rng",
}  # fmt: skip


def allowed_imports() -> dict[str, set[str]]:
    """Map every unit of the layout to the units it may import."""
    allowed: dict[str, set[str]] = {unit: set() for unit in EVERYWHERE}
    for height, floor in enumerate(FLOORS):
        below = set().union(*FLOORS[height + 1 :])
        for unit in floor:
            allowed[unit] = below | (floor if below else set()) | EVERYWHERE
    for unit, imports in SIDE_IMPORTS.items():
        allowed[unit] = imports | EVERYWHERE
    for unit, importers in SIDE_IMPORTERS.items():
        for importer in importers:
            allowed[importer].add(unit)
    return {unit: imports - {unit} for unit, imports in allowed.items()}


class Import(NamedTuple):
    """One imported dotted name; ``for_types`` under ``if TYPE_CHECKING``."""

    name: str
    line: int
    for_types: bool


class Module(NamedTuple):
    name: str
    path: Path
    text: str
    tree: ast.Module
    imports: list[Import]

    @property
    def unit(self) -> str:
        """First name below the package; empty for the package itself."""
        return unit_of(self.name)


def unit_of(name: str) -> str:
    return f"{name}.".split(".")[1]


def read(package: Path) -> dict[str, Module]:
    """Parse every module of a package directory."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = (PACKAGE, *path.relative_to(package).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, filename=str(path))
        home = name if is_package else name.rpartition(".")[0]
        modules[name] = Module(name, path, text, tree, list(imports_of(tree, home)))
    return modules


def imports_of(node: ast.AST, home: str, for_types: bool = False) -> Iterator[Import]:
    """Yield absolute dotted names, ``a.b.c`` for ``from a.b import c``."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, for_types)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = home.split(".")[: len(home.split(".")) - node.level + 1]
            base = ".".join([*above, *([base] if base else [])])
        for alias in node.names:
            yield Import(f"{base}.{alias.name}", node.lineno, for_types)
    elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for child in node.body:
            yield from imports_of(child, home, for_types=True)
        for child in node.orelse:
            yield from imports_of(child, home, for_types)
    else:
        for child in ast.iter_child_nodes(node):
            yield from imports_of(child, home, for_types)


def breaks_direction(modules: dict[str, Module]) -> Iterator[str]:
    allowed = allowed_imports()
    for module in modules.values():
        unit = module.unit
        if unit in {"", "__main__"}:  # they re-export and start what lies below
            continue
        if unit not in allowed:
            yield f"{module.path}: {unit} has no place in the layout, give it one in FLOORS"
            continue
        for name, line, _ in module.imports:
            if name.split(".")[0] != PACKAGE:
                continue
            target = unit_of(name)
            if target in allowed:
                if target not in allowed[unit] | {unit}:
                    yield f"{module.path}:{line}: {unit} may not import {target}"
            elif unit != "cli":  # the command line may ask for the version
                yield f"{module.path}:{line}: {unit} may not import {name}"


def breaks_acyclicity(modules: dict[str, Module]) -> Iterator[str]:
    layout = allowed_imports()
    by_module: dict[str, set[str]] = {}
    by_unit: dict[str, set[str]] = {}
    for module in modules.values():
        for name, _, for_types in module.imports:
            if for_types or name.split(".")[0] != PACKAGE:
                continue
            is_module = name in modules or (name.count(".") == 1 and unit_of(name) in layout)
            target = name if is_module else name.rpartition(".")[0]
            by_module.setdefault(module.name, set()).add(target)
            if module.unit and unit_of(target) not in {"", module.unit}:
                by_unit.setdefault(module.unit, set()).add(unit_of(target))
    for graph in (by_module, by_unit):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            yield "cycle: " + " < ".join(error.args[1])


def is_private(name: str) -> bool:
    return any(p.startswith("_") and not p.endswith("__") for p in name.split("."))


def breaks_public_scikit_learn(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        names = [(name, line) for name, line, _ in module.imports]
        names += [(dotted, line) for dotted, line in attributes(module)]
        for name, line in names:
            if name.split(".")[0] == "sklearn" and is_private(name):
                yield f"{module.path}:{line}: {name} is private to scikit-learn"


def attributes(module: Module) -> Iterator[tuple[str, int]]:
    """Yield the dotted names that a module reads, its import aliases written out."""
    aliases = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                aliases[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            first, dot, rest = ast.unparse(node).partition(".")
            if first in aliases:
                yield aliases[first] + dot + rest, node.lineno


def breaks_local_randomness(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        names = [(name, line) for name, line, _ in module.imports]
        for name, line in [*names, *attributes(module)]:
            if name.startswith("numpy.random."):
                drawn = name.split(".")[2]
                if drawn not in LOCAL_RANDOMNESS:
                    yield f"{module.path}:{line}: numpy.random.{drawn} draws from the global state"
        for node in ast.walk(module.tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "rvs"
                and all(keyword.arg != "random_state" for keyword in node.keywords)
            ):
                yield f"{module.path}:{node.lineno}: rvs without random_state is global randomness"


def breaks_length(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        n_lines = len(module.text.splitlines())
        if n_lines > MAX_LINES:
            yield f"{module.path}: {n_lines} lines, is it two things?"


RULES = [
    breaks_direction,
    breaks_acyclicity,
    breaks_public_scikit_learn,
    breaks_local_randomness,
    breaks_length,
]


@pytest.mark.parametrize("rule", RULES)
def test_package_keeps(rule):
    modules = read(Path(__file__).parents[1] / PACKAGE)
    assert PACKAGE in modules
    found = list(rule(modules))
    assert not found, "\n".join(found)


def plant(package: Path, files: dict[str, str]) -> dict[str, Module]:
    for relative, source in {"__init__.py": "", **files}.items():
        path = package / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return read(package)


@pytest.mark.parametrize(
    ("rule", "files", "message"),
    [
        (breaks_direction, {"losses/a.py": "from sklearn_dpwg.problem import P"}, "losses may not"),
        (breaks_direction, {"losses/a.py": "from ..problem import P"}, "import problem"),
        (breaks_direction, {"losses/a.py": "from sklearn_dpwg import privacy"}, "import privacy"),
        (breaks_direction, {"privacy/a.py": "import sklearn_dpwg.losses"}, "import losses"),
        (breaks_direction, {"solvers/a.py": "def f():\n    from .. import estimators"}, ":2: solv"),
        (
            breaks_direction,
            {
                "privacy/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
                "    from sklearn_dpwg.solvers import Plan"
            },
            "privacy may not import solvers",
        ),
        (breaks_direction, {"estimators/a.py": "from sklearn_dpwg.metrics import m"}, "metrics"),
        (breaks_direction, {"metrics/a.py": "from sklearn_dpwg.losses import m"}, "import losses"),
        (breaks_direction, {"datasets/a.py": "import sklearn_dpwg.privacy"}, "import privacy"),
        (breaks_direction, {"exceptions.py": "import sklearn_dpwg.privacy"}, "import privacy"),
        (breaks_direction, {"risks.py": "from sklearn_dpwg import __version__"}, "__version__"),
        (breaks_direction, {"utils.py": ""}, "utils has no place"),
        (
            breaks_acyclicity,
            {
                "solvers/a.py": "from sklearn_dpwg.solvers.b import x",
                "solvers/b.py": "from sklearn_dpwg.solvers import a",
            },
            "solvers.a < ",
        ),
        (
            breaks_acyclicity,
            {
                "risks.py": "import sklearn_dpwg.oracles.base",
                "oracles/base.py": "",
                "oracles/groups.py": "import sklearn_dpwg.risks",
            },
            "oracles < risks",
        ),
        (
            breaks_acyclicity,
            {
                "losses/__init__.py": "from sklearn_dpwg.losses.a import x",
                "losses/a.py": "from sklearn_dpwg.losses import y",
            },
            "cycle",
        ),
        (breaks_public_scikit_learn, {"a.py": "from sklearn.linear_model._glm import x"}, "_glm"),
        (breaks_public_scikit_learn, {"a.py": "from sklearn.linear_model import _glm"}, "_glm"),
        (breaks_public_scikit_learn, {"a.py": "import sklearn\nsklearn.utils._x.y()"}, ":2: "),
        (breaks_public_scikit_learn, {"a.py": "import sklearn.utils as u\nu._x()"}, "_x"),
        (breaks_local_randomness, {"a.py": "import numpy as np\nnp.random.normal()"}, "normal"),
        (breaks_local_randomness, {"a.py": "import numpy\nnumpy.random.seed(0)"}, "seed"),
        (breaks_local_randomness, {"a.py": "from numpy.random import rand"}, "rand"),
        (breaks_local_randomness, {"a.py": "from numpy import random as r\nr.choice(3)"}, "choice"),
        (breaks_local_randomness, {"a.py": "from scipy.stats import norm\nnorm.rvs()"}, "rvs"),
        (breaks_length, {"a.py": "x = 1\n" * (MAX_LINES + 1)}, "451 lines"),
    ],
)
def test_planted_violation_is_found(rule, files, message, tmp_path):
    found = list(rule(plant(tmp_path / PACKAGE, files)))
    assert len(found) >= 1
    assert any(message in violation for violation in found), found


@pytest.mark.parametrize("rule", RULES)
def test_what_is_allowed_passes(rule, tmp_path):
    files = {
        "__init__.py": "from sklearn_dpwg.estimators import a\n__version__ = '0'",
        "__main__.py": "from sklearn_dpwg.cli import main",
        "cli/main.py": "from sklearn_dpwg import __version__, datasets, inspection, metrics",
        "inspection/a.py": "from sklearn_dpwg.metrics import m\nimport sklearn_dpwg.estimators",
        "metrics/a.py": "from sklearn_dpwg.privacy import b",
        "estimators/a.py": "from ..solvers import b\nfrom ..exceptions import E",
        "minimax/a.py": "from sklearn_dpwg.solvers.b import Plan",
        "solvers/__init__.py": "from sklearn_dpwg.solvers.b import Plan",
        "solvers/b.py": "from sklearn_dpwg.solvers.solver import Plan",
        "solvers/base.py": "from sklearn_dpwg.privacy import b\nimport sklearn_dpwg.losses",
        "risks.py": "from sklearn_dpwg.oracles.base import SampleOracle",
        "oracles/base.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
        "    from sklearn_dpwg.risks import GroupRisks",
        "exceptions.py": "import numpy as np\nfrom sklearn import __version__",
        "privacy/b.py": "import numpy as np\nrng = np.random.default_rng(0)\nrng.normal()\n"
        "def f(x: np.random.Generator, d): d.rvs(random_state=x)",
        "losses/long.py": "x = 1\n" * MAX_LINES,
    }
    assert list(rule(plant(tmp_path / PACKAGE, files))) == []
