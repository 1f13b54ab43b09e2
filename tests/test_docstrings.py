"""The docstring of everything that is exported keeps numpydoc's rules, but for a few left out.

`pyproject.toml` says which. `numpydoc lint` reads source only: it knows neither the parameters of a
dataclass nor a docstring that is inherited. So the package is imported here. An override may say
nothing, or one line; what is not exported needs the one sentence that ruff asks for.
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

# Packages that other packages of this library import from, and no page of the reference names.
INTERNAL = {"sklearn_dpwg.kernels"}


def exporting_modules() -> list[str]:
    """Return the packages, and the modules at the top, which a user imports from."""
    found = pkgutil.walk_packages(sklearn_dpwg.__path__, "sklearn_dpwg.")
    names = [module.name for module in found if module.ispkg or module.name.count(".") == 1]
    public = (name for name in names if "._" not in name and name not in INTERNAL)
    return ["sklearn_dpwg", *public]


def exported_names(module_name: str) -> Iterator[str]:
    """Yield what a module exports, and what its classes define or override at length."""
    module = importlib.import_module(module_name)
    own = [name for name, thing in vars(module).items() if is_public_class(name, thing, module)]
    for name in getattr(module, "__all__", own):
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing)):
            yield f"{module_name}.{name}"
        for member in documented_members(thing, module) if inspect.isclass(thing) else ():
            yield f"{module_name}.{name}.{member}"


def is_public_class(name: str, thing: object, module: object) -> bool:
    is_class = inspect.isclass(thing) and not name.startswith("_")
    return is_class and thing.__module__ == module.__name__


def documented_members(thing: type, module: object) -> Iterator[str]:
    package = thing.__module__.partition(".")[0]
    contracts = [met for met in vars(module).values() if is_protocol(met) and met is not thing]
    seen = set()
    for place, owner in enumerate(thing.__mro__):
        if owner.__module__.partition(".")[0] != package:
            continue
        for member, value in vars(owner).items():
            if member.startswith("_") or member in seen or not is_method(value):
                continue
            seen.add(member)
            bases = [*thing.__mro__[place + 1 :], *contracts]
            is_override = any(member in vars(base) for base in bases)
            if not is_override or "\n" in (value.__doc__ or "").strip():
                yield member


def is_protocol(thing: object) -> bool:
    """Return whether a class is a contract that others of its package meet without inheriting."""
    return inspect.isclass(thing) and getattr(thing, "_is_protocol", False)


def is_method(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)


def faults(name: str) -> list[str]:
    errors = [error for error in validate(name)["errors"] if error[0] in CHECKS]
    # nobody makes a Protocol, whose signature is (*args, **kwargs)
    is_made = [
        error for error in errors if not ("'*args'" in error[1] and "'**kwargs'" in error[1])
    ]
    return [f"{name}: {code} {text}" for code, text in is_made]


@pytest.mark.parametrize("module_name", exporting_modules())
def test_docstrings_of_what_is_exported(module_name):
    found = [fault for name in exported_names(module_name) for fault in faults(name)]
    assert not found, "\n".join(found)


def test_a_wrong_docstring_would_be_seen(tmp_path, monkeypatch):
    wrong = (
        '        """Run it.\n\n        Parameters\n        ----------\n        date : int\n'
        '            What to run.\n        """\n\n'
    )
    source = (
        '"""A module."""\n\nfrom typing import Protocol\n\n'
        '__all__ = ["Base", "Child", "Grandchild", "Contract", "Meets"]\n\n\n'
        'class _Hidden:\n    """Not exported."""\n\n'
        "    def sit(self, data):\n        pass\n\n\n"
        'class Other:\n    """Not exported either."""\n\n    def run(self, data):\n' + wrong + "\n"
        'class Base:\n    """A base."""\n\n    def run(self, data):\n' + wrong + "\n"
        'class Child(Base, _Hidden):\n    """A child."""\n\n'
        "    def run(self, data):\n        pass\n\n    def walk(self):\n        pass\n\n\n"
        'class Grandchild(Child):\n    """Its child."""\n\n'
        '    def walk(self):\n        """Walk."""\n\n    def run(self, data):\n' + wrong + "\n"
        'class Contract(Protocol):\n    """A contract."""\n\n'
        '    def fly(self, data):\n        """Fly."""\n\n\n'
        'class Meets:\n    """Meets it."""\n\n    def fly(self, data):\n        """Fly."""\n'
    )
    (tmp_path / "planted_module.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    found = [fault for name in exported_names("planted_module") for fault in faults(name)]
    assert [fault.split()[:2] for fault in found] == [
        ["planted_module.Base.run:", "PR01"],
        ["planted_module.Base.run:", "PR02"],
        ["planted_module.Child.walk:", "GL08"],
        ["planted_module.Child.sit:", "GL08"],
        ["planted_module.Grandchild.run:", "PR01"],
        ["planted_module.Grandchild.run:", "PR02"],
        ["planted_module.Grandchild.sit:", "GL08"],
        ["planted_module.Contract.fly:", "PR01"],
    ]
