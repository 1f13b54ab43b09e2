"""Docstrings of what somebody calls keep numpydoc's rules but those that pyproject.toml leaves out.

They stand on what the pages "For everybody" of `docs/api/index.rst` export, and on the contracts
that the pages for authors export. `numpydoc lint` reads source only: it knows neither the
parameters of a dataclass nor a docstring that is inherited. So the package is imported here.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
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


def exports(module_name: str) -> dict[str, object]:
    """Map addresses to the classes and functions that a module exports."""
    module = importlib.import_module(module_name)
    own = [
        name
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and not name.startswith("_") and thing.__module__ == module_name
    ]
    things = {name: getattr(module, name) for name in getattr(module, "__all__", own)}
    return {
        f"{module_name}.{name}": thing
        for name, thing in things.items()
        if inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing))
    }


def is_contract(thing: object) -> bool:
    """Return whether authors call or fulfil what a page for them exports."""
    if not inspect.isclass(thing) or thing.__name__ in HANDED_TO_AUTHORS:
        return True
    is_base = inspect.isabstract(thing) or (
        not any(inspect.isabstract(base) for base in thing.__mro__[1:])
        and any(is_ours(heir) for heir in type.__subclasses__(thing))
    )
    return thing.__name__ not in NO_CONTRACT and (is_protocol(thing) or is_base)


def is_protocol(thing: object) -> bool:
    return getattr(thing, "_is_protocol", False)


def is_ours(thing: type) -> bool:
    return thing.__module__.startswith(PACKAGE)


def documented() -> Iterator[str]:
    """Yield the addresses of what is exported and of methods that no base has described."""
    text = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
    parts = text.split("For authors of losses and solvers")
    everybody, authors = (re.findall(rf"^   ({PACKAGE}\S*)$", part, re.M) for part in parts)
    things = {name: thing for page in everybody for name, thing in exports(page).items()}
    for page in authors:
        things |= {name: thing for name, thing in exports(page).items() if is_contract(thing)}
    protocols = {thing for thing in things.values() if is_protocol(thing)}
    for address, thing in things.items():
        yield address
        for owner in filter(is_ours, thing.__mro__ if inspect.isclass(thing) else ()):
            bases = {*owner.__mro__[1:], *protocols} - {owner}
            for name, value in vars(owner).items():
                is_new = not any(name in vars(base) for base in bases)
                at_length = SECTION.search(getattr(value, "__doc__", None) or "")
                is_method = inspect.isfunction(value) or isinstance(
                    value, property | classmethod | staticmethod
                )
                if not name.startswith("_") and is_method and (is_new or at_length):
                    yield f"{owner.__module__}.{owner.__qualname__}.{name}"


def faults(address: str) -> list[str]:
    """Return what numpydoc finds wrong."""
    errors = [error for error in validate(address)["errors"] if error[0] in CHECKS]
    # nobody makes a Protocol, whose signature is (*args, **kwargs)
    return [
        f"{address}: {code} {text}"
        for code, text in errors
        if not ("'*args'" in text and "'**kwargs'" in text)
    ]


def test_docstrings_of_what_somebody_calls():
    addresses = sorted(set(documented()))
    assert len(addresses) > 150  # the pages of the reference were found
    wrong = [fault for address in addresses for fault in faults(address)]
    assert not wrong, "\n".join(wrong)
