"""Docstrings by reader: numpydoc's sections where somebody calls, a sentence everywhere else.

Sections stand on what the pages "For everybody" of `docs/api/index.rst` export, and on the
contracts that the pages for authors export: base classes, protocols, functions. They keep
numpydoc's rules, but for a few that `pyproject.toml` leaves out. A contract stands once: what
overrides it says nothing, or one line. All else has a summary, and prose where there is something
to prove. `numpydoc lint` reads source only: it knows neither the parameters of a dataclass nor a
docstring that is inherited. So the package is imported here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from functools import cache
from pathlib import Path

from numpydoc.hooks.validate_docstrings import parse_config
from numpydoc.validate import validate

ROOT = Path(__file__).parents[1]
PACKAGE = "sklearn_dpwg"
CHECKS = parse_config(ROOT)["checks"]
SECTION = re.compile(r"^ *(\w[\w ]*)\n *-{3,}$", re.MULTILINE)

# What authors are handed, though nobody inherits from it.
HANDED_TO_AUTHORS = {"LearnerPlan", "LossConstants", "Problem"}
# What the library alone fulfils, so prose says what it does.
NO_CONTRACT = {"RiskFunctions", "Risks"}


def pages() -> tuple[list[str], list[str]]:
    """Return the modules that the reference shows everybody, and those for authors."""
    text = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
    parts = text.split("For authors of losses and solvers")
    everybody, authors = (re.findall(rf"^   ({PACKAGE}\S*)$", part, re.M) for part in parts)
    return everybody, authors


def exports(module_name: str) -> dict[str, object]:
    """Map addresses to the classes and functions that a module exports."""
    module = importlib.import_module(module_name)
    own = [name for name, thing in vars(module).items() if is_public_class(name, thing, module)]
    things = {name: getattr(module, name) for name in getattr(module, "__all__", own)}
    return {
        f"{module_name}.{name}": thing
        for name, thing in things.items()
        if inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing))
    }


def is_public_class(name: str, thing: object, module: object) -> bool:
    is_class = inspect.isclass(thing) and not name.startswith("_")
    return is_class and thing.__module__ == module.__name__


def is_contract(thing: object) -> bool:
    """Return whether authors call or fulfil what a page for them exports."""
    if not inspect.isclass(thing):
        return True
    if thing.__name__ in NO_CONTRACT:
        return False
    is_base = inspect.isabstract(thing) or (
        not any(inspect.isabstract(base) for base in thing.__mro__[1:])
        and any(is_of(PACKAGE, heir) for heir in type.__subclasses__(thing))
    )
    return is_protocol(thing) or is_base or thing.__name__ in HANDED_TO_AUTHORS


def is_protocol(thing: object) -> bool:
    """Return whether a class is a contract that others meet without inheriting."""
    return inspect.isclass(thing) and getattr(thing, "_is_protocol", False)


def is_of(package: str, thing: type) -> bool:
    return thing.__module__.partition(".")[0] == package


def public_members(thing: type) -> list[str]:
    return [name for name in vars(thing) if not name.startswith("_")]


def meets(thing: type, protocol: type) -> bool:
    """Return whether a class has the methods of a protocol; attributes may come with an object."""
    methods = [name for base in protocol.__mro__ for name in public_members(base)]
    methods = [name for name in methods if inspect.isfunction(getattr(protocol, name))]
    return bool(methods) and all(hasattr(thing, name) for name in methods)


def says_at_length(owner: type, member: str) -> bool:
    return bool(SECTION.search(getattr(vars(owner).get(member), "__doc__", None) or ""))


def described(things: dict[str, object]) -> dict[tuple[str, str], set[str]]:
    """Map module and qualified name of what may have sections to addresses for numpydoc.

    There is none for what need not have them: an override in a line, or what is overridden itself.
    """
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    protocols = [thing for thing in things.values() if is_protocol(thing)]
    for address, thing in things.items():
        origin = inspect.unwrap(thing)
        found[origin.__module__, origin.__qualname__].add(address)
        if inspect.isclass(thing):
            met = {base for each in protocols if meets(thing, each) for base in each.__mro__}
            for owner, member, has_to in members(thing, met):
                is_own = owner is thing
                name = address if is_own else f"{owner.__module__}.{owner.__qualname__}"
                key = (owner.__module__, f"{owner.__qualname__}.{member}")
                found[key] |= {f"{name}.{member}"} if has_to else set()
    return found


def members(thing: type, protocols: set[type]) -> Iterator[tuple[type, str, bool]]:
    """Yield owner and name of members with sections of their own, and whether they have to."""
    package = thing.__module__.partition(".")[0]
    owners = [owner for owner in thing.__mro__ if is_of(package, owner)]
    seen: set[str] = set()
    for owner in owners:
        bases = {*owner.__mro__[1:], *protocols} - {owner}
        for member in public_members(owner):
            if any(says_at_length(base, member) for base in bases if is_of(package, base)):
                continue
            is_override = member in seen or any(member in vars(base) for base in bases)
            has_to = says_at_length(owner, member) or not is_override
            yield owner, member, has_to and is_method(vars(owner)[member])
        seen.update(public_members(owner))


def is_method(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)


@cache
def documented() -> dict[tuple[str, str], set[str]]:
    """Return what has sections in the package, as `described` does."""
    everybody, authors = pages()
    things = {name: thing for page in everybody for name, thing in exports(page).items()}
    for page in authors:
        things |= {name: thing for name, thing in exports(page).items() if is_contract(thing)}
    return described(things)


def faults(address: str) -> list[str]:
    """Return what numpydoc finds wrong."""
    errors = [error for error in validate(address)["errors"] if error[0] in CHECKS]
    # nobody makes a Protocol, whose signature is (*args, **kwargs)
    is_made = [
        error for error in errors if not ("'*args'" in error[1] and "'**kwargs'" in error[1])
    ]
    return [f"{address}: {code} {text}" for code, text in is_made]


def sections_elsewhere(
    files: Iterable[Path], root: Path, known: Container[tuple[str, str]]
) -> list[str]:
    """Return what has numpydoc's sections and is read by nobody but who reads the code."""
    found = []

    def look(node: ast.AST, module: str, inside: str) -> None:
        for child in ast.iter_child_nodes(node):
            is_named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            here = f"{inside}.{child.name}".removeprefix(".") if is_named else inside
            text = (ast.get_docstring(child) or "") if is_named else ""
            if SECTION.search(text) and (module, here) not in known:
                found.append(f"{module}.{here}")
            look(child, module, here)

    for path in files:
        module = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        look(ast.parse(path.read_text(encoding="utf-8")), module, "")
    return found


def test_docstrings_of_what_somebody_calls():
    addresses = sorted(set().union(*documented().values()))
    assert len(addresses) > 200  # the pages of the reference were found
    found = [fault for address in addresses for fault in faults(address)]
    assert not found, "\n".join(found)


def test_what_nobody_calls_has_a_summary_and_no_sections():
    found = sections_elsewhere(sorted((ROOT / PACKAGE).rglob("*.py")), ROOT, documented())
    assert not found, "\n".join(["a sentence is enough (CONTRIBUTING, House rules):", *found])


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
        '    def fly(self, data):\n        """Fly."""\n\n    def land(self, data):\n' + wrong + "\n"
        'class Meets:\n    """Meets it."""\n\n    def fly(self, data):\n        """Fly."""\n\n'
        "    def land(self, data):\n" + wrong
    )
    (tmp_path / "planted_module.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    known = described(exports("planted_module"))
    found = [fault for names in known.values() for name in sorted(names) for fault in faults(name)]
    assert [fault.removeprefix("planted_module.").split()[:2] for fault in found] == [
        ["Base.run:", "PR01"],
        ["Base.run:", "PR02"],
        ["Child.walk:", "GL08"],
        ["_Hidden.sit:", "GL08"],
        ["Contract.fly:", "PR01"],
        ["Contract.land:", "PR01"],
        ["Contract.land:", "PR02"],
    ]
    elsewhere = sections_elsewhere([tmp_path / "planted_module.py"], tmp_path, known)
    assert [name.removeprefix("planted_module.") for name in elsewhere] == [
        "Other.run",
        "Grandchild.run",
        "Meets.land",
    ]
