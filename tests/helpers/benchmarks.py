"""The package of the utility benchmark, which is not installed, for tests of what it computes."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")


@contextmanager
def utility_with(*modules: str) -> Iterator[ModuleType]:
    """Import modules of `utility`, hand over the package, and forget all of it afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        for name in modules:
            importlib.import_module(f"utility.{name}")
        yield sys.modules["utility"]
    for name in [name for name in sys.modules if name.split(".")[0] == "utility"]:
        sys.modules.pop(name)
