"""House rules that a parser can hold, and the import contracts held against planted faults."""

from __future__ import annotations

import ast
import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

from sklearn_dpwg.privacy import NoiseSource

ROOT = Path(__file__).parents[1]
PACKAGE = "sklearn_dpwg"
MAX_LINES = 800
MIN_LINES = 60  # of a module that one neighbour alone imports
MAX_FUNCTION_LINES = 60  # its signature and docstring left out


# What makes an independent stream; every other name in numpy.random shares the global state.
LOCAL_RANDOMNESS = {"Generator", "PCG64", "RandomState", "SeedSequence", "default_rng"}

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
    """One parsed file; what several rules ask for is worked out once."""

    def __init__(self, path: Path, package: Path) -> None:
        parts = (PACKAGE, *path.relative_to(package).with_suffix("").parts)
        self.path = path
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        self.home = self.name if self.is_package else self.name.rpartition(".")[0]
        text = path.read_text(encoding="utf-8")
        self.n_lines = len(text.splitlines())
        self.nodes = list(ast.walk(ast.parse(text, filename=str(path))))

    @cached_property
    def imports(self) -> list[tuple[str, int]]:
        """Absolute dotted names and their lines, ``a.b.c`` for ``from a.b import c``."""
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [(alias.name, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):  # ruff allows no relative one
                found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
        return found

    @cached_property
    def attributes(self) -> list[tuple[str, int]]:
        """The dotted names that are read and their lines, import aliases written out."""
        aliases = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.split(".")[0]
                    aliases[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        found = []
        for node in self.nodes:
            names: list[str] = []
            inner: ast.AST = node
            while isinstance(inner, ast.Attribute):
                names.append(inner.attr)
                inner = inner.value
            if names and isinstance(inner, ast.Name) and inner.id in aliases:
                found.append((".".join([aliases[inner.id], *reversed(names)]), node.lineno))
        return found


def read(package: Path) -> dict[str, Module]:
    """Parse every module of a package directory."""
    modules = [Module(path, package) for path in sorted(package.rglob("*.py"))]
    return {module.name: module for module in modules}


# --- the rules ---------------------------------------------------------------------------------


def is_private(name: str) -> bool:
    return any(p.startswith("_") and not p.endswith("__") for p in name.split("."))


def breaks_public_scikit_learn(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        for name, line in [*module.imports, *module.attributes]:
            if name.split(".")[0] == "sklearn" and is_private(name):
                yield f"{module.path}:{line}: {name} is private to scikit-learn"


def breaks_local_randomness(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        for name, line in [*module.imports, *module.attributes]:
            if name.startswith("numpy.random."):
                drawn = name.split(".")[2]
                if drawn not in LOCAL_RANDOMNESS:
                    yield f"{module.path}:{line}: numpy.random.{drawn} draws from the global state"
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


def breaks_smallness(modules: dict[str, Module]) -> Iterator[str]:
    """A short file that one neighbour alone imports is a part of that neighbour."""
    importers: dict[str, set[str]] = {}
    for module in modules.values():
        for name, _ in module.imports:
            for asked in {name, name.rpartition(".")[0]} & set(modules):
                importers.setdefault(asked, set()).add(module.name)
    for module in modules.values():
        users = importers.get(module.name, set())
        if module.is_package or module.n_lines >= MIN_LINES or len(users) != 1:
            continue
        (user,) = users
        if modules[user].home == module.home and not modules[user].is_package:
            yield f"{module.path}: {module.n_lines} lines that {user} alone imports"


def breaks_function_length(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node, clean=False) else node.body
                n_lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                if n_lines > MAX_FUNCTION_LINES:
                    yield f"{module.path}:{node.lineno}: {node.name} has {n_lines} lines"


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
    breaks_function_length,
    breaks_releases,
]


@pytest.fixture(scope="module")
def package() -> dict[str, Module]:
    return read(ROOT / PACKAGE)


@pytest.mark.parametrize("rule", RULES)
def test_package_keeps(rule, package):
    assert PACKAGE in package
    found = list(rule(package))
    assert not found, "\n".join(found)


def plant(package: Path, files: dict[str, str]) -> None:
    for relative, source in files.items():
        path = package / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")


LONG_FUNCTION = 'def f():\n    """One."""\n' + "    x = 1\n" * MAX_FUNCTION_LINES


@pytest.mark.parametrize(
    ("rule", "files", "message"),
    [
        (breaks_public_scikit_learn, {"a.py": "from sklearn.linear_model import _glm"}, "_glm"),
        (breaks_public_scikit_learn, {"a.py": "import sklearn.utils as u\nu._x()"}, "_x"),
        (breaks_local_randomness, {"a.py": "from numpy.random import rand"}, "rand"),
        (breaks_local_randomness, {"a.py": "from scipy.stats import norm\nnorm.rvs()"}, "rvs"),
        (breaks_length, {"a.py": "x = 1\n" * (MAX_LINES + 1)}, "801 lines"),
        (
            breaks_smallness,
            {"a/__init__.py": "", "a/b.py": "x = 1", "a/c.py": "from sklearn_dpwg.a.b import x"},
            "1 lines that sklearn_dpwg.a.c alone imports",
        ),
        (
            breaks_releases,
            {"solvers/mgr.py": "def f(noise, x): return noise.gaussian(x)"},
            ":1: noise.gaussian",
        ),
        (breaks_function_length, {"a.py": LONG_FUNCTION + "    x = 1\n"}, ":1: f has 61 lines"),
    ],
)
def test_planted_violation_is_found(rule, files, message, tmp_path):
    plant(tmp_path / PACKAGE, {"__init__.py": "", **files})
    found = list(rule(read(tmp_path / PACKAGE)))
    assert len(found) >= 1
    assert any(message in violation for violation in found), found


@pytest.mark.parametrize("rule", RULES)
def test_what_is_allowed_passes(rule, tmp_path):
    files = {
        "solvers/base.py": "from sklearn_dpwg.losses import Loss\n" + LONG_FUNCTION,
        "solvers/descent.py": "def f(noise, x): return noise.gaussian(x)",
        "solvers/mgr.py": "def f(noise): return noise.gradient",
        "exceptions.py": "import numpy as np\nfrom sklearn import __version__",
        "privacy.py": "import numpy as np\nrng = np.random.default_rng(0)\nrng.normal()\n"
        "def f(x: np.random.Generator, d): d.rvs(random_state=x)",
        "losses/__init__.py": "x = 1\n" * MAX_LINES,
    }
    plant(tmp_path / PACKAGE, files)
    assert list(rule(read(tmp_path / PACKAGE))) == []


# --- the import contracts of pyproject.toml ----------------------------------------------------

TYPES_ONLY = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "
# Each planted fault and the lines of import-linter that name it. Everything else is an empty file.
FAULTS = {
    "a circle for types alone": (
        {
            "estimators/stream.py": f"{TYPES_ONLY}from .encode import P",
            "estimators/encode.py": "from sklearn_dpwg.estimators.stream import S",
        },
        ["No cycles are allowed in sklearn_dpwg.estimators."],
    ),
    "a family of solvers that knows another": (
        {"solvers/oco.py": "def f():\n    from .phased_erm import S"},
        ["sklearn_dpwg.solvers.oco -> sklearn_dpwg.solvers.phased_erm (l.2)"],
    ),
    "rows that know what reads them": (
        {"data/rows.py": "from sklearn_dpwg.data.risks.record_block import E"},
        ["sklearn_dpwg.data.rows -> sklearn_dpwg.data.risks.record_block (l.1)"],
    ),
    "a way up": (
        {
            "losses/base.py": "from sklearn_dpwg.data.problem import P",
            "privacy/guarantee.py": f"{TYPES_ONLY}from ..solvers.plan import Plan",
        },
        [
            "sklearn_dpwg.losses.base -> sklearn_dpwg.data.problem (l.1)",
            "sklearn_dpwg.privacy.guarantee -> sklearn_dpwg.solvers.plan (l.3)",
        ],
    ),
    "neighbours that may not meet": (
        {"losses/classification.py": "import sklearn_dpwg.privacy.release"},
        ["sklearn_dpwg.losses.classification -> sklearn_dpwg.privacy.release (l.1)"],
    ),
    "scikit-learn in privacy": (
        {
            "privacy/release.py": "def f():\n    from sklearn.base import clone",
            "exceptions.py": "import sklearn.exceptions",
            "privacy/statement.py": "from sklearn_dpwg.exceptions import E",
        },
        [
            "sklearn_dpwg.privacy.release -> sklearn (l.2)",
            "sklearn_dpwg.exceptions -> sklearn (l.1)",
        ],
    ),
    "a folder without a place": ({"utils.py": ""}, ["- sklearn_dpwg.utils"]),
    "side folders where they do not belong": (
        {
            "estimators/base.py": "import sklearn_dpwg.metrics, sklearn_dpwg.datasets",
            "metrics/__init__.py": "from sklearn_dpwg.losses import base",
            "model_selection/search.py": "import sklearn_dpwg.preprocessing",
        },
        [
            "sklearn_dpwg.estimators.base -> sklearn_dpwg.metrics (l.1)",
            "sklearn_dpwg.estimators.base -> sklearn_dpwg.datasets (l.1)",
            "sklearn_dpwg.metrics -> sklearn_dpwg.losses.base (l.1)",
            "sklearn_dpwg.model_selection.search -> sklearn_dpwg.preprocessing (l.1)",
        ],
    ),
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory) -> str:
    """Say what the contracts find in a package with this one's files and all of the faults."""
    pytest.importorskip("importlinter", reason="environments of `make compat` have no linters")
    directory = tmp_path_factory.mktemp("planted")
    shutil.copy(ROOT / "pyproject.toml", directory)
    names = [path.relative_to(ROOT / PACKAGE) for path in (ROOT / PACKAGE).rglob("*.py")]
    plant(directory / PACKAGE, {str(name): "" for name in names})
    for files, _ in FAULTS.values():
        plant(directory / PACKAGE, files)
    run = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=directory,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    return run.stdout


@pytest.mark.parametrize("fault", FAULTS)
def test_the_import_contracts_find(fault, findings):
    for line in FAULTS[fault][1]:
        assert line in findings, findings
