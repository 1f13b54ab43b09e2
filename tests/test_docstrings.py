"""Every public docstring keeps numpydoc's rules, but for those that pyproject.toml leaves out.

`numpydoc lint` reads source only: it knows neither the parameters of a dataclass nor a docstring
that is inherited. So the package is imported here. Docstrings of modules are left to ruff.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from numpydoc.hooks.validate_docstrings import parse_config
from numpydoc.validate import validate

import sklearn_dpwg

CHECKS = parse_config(Path(__file__).parents[1])["checks"]


def public_modules() -> list[str]:
    found = pkgutil.walk_packages(sklearn_dpwg.__path__, "sklearn_dpwg.")
    names = [module.name for module in found if "._" not in module.name]
    return ["sklearn_dpwg", *names]


def public_names(module_name: str) -> Iterator[str]:
    """Yield what a module defines and what its classes do, unless its docstring is inherited."""
    module = importlib.import_module(module_name)
    for name, thing in vars(module).items():
        is_defined = inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing))
        if name.startswith("_") or not is_defined or thing.__module__ != module_name:
            continue
        yield f"{module_name}.{name}"
        for member, value in vars(thing).items() if inspect.isclass(thing) else ():
            if member.startswith("_") or not is_method(value):
                continue
            if value.__doc__ or not inspect.getdoc(getattr(thing, member)):
                yield f"{module_name}.{name}.{member}"


def is_method(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)


def faults(name: str) -> list[str]:
    return [f"{name}: {code} {text}" for code, text in validate(name)["errors"] if code in CHECKS]


@pytest.mark.parametrize("module_name", public_modules())
def test_public_docstrings(module_name):
    found = [fault for name in public_names(module_name) for fault in faults(name)]
    assert not found, "\n".join(found)


def test_a_wrong_docstring_would_be_seen(tmp_path, monkeypatch):
    source = (
        '"""A module."""\n\n\nclass Base:\n    """A base."""\n\n    def run(self, data):\n'
        '        """Run it.\n\n        Parameters\n        ----------\n        date : int\n'
        '            What to run.\n        """\n\n\nclass Child(Base):\n    """A child."""\n\n'
        "    def run(self, data):\n        pass\n\n    def walk(self):\n        pass\n"
    )
    (tmp_path / "planted_module.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    found = [fault for name in public_names("planted_module") for fault in faults(name)]
    assert [fault.split()[:2] for fault in found] == [
        ["planted_module.Base.run:", "PR01"],
        ["planted_module.Base.run:", "PR02"],
        ["planted_module.Child.walk:", "GL08"],
    ]
