"""The page of defaults: values are the code's, commands exist, nothing is left out."""

import dataclasses
import inspect
import pkgutil
import re
import shlex
from fractions import Fraction
from pathlib import Path

import pytest

import sklearn_dpwg
from sklearn_dpwg import losses, postprocessing, solvers

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "defaults.md"

ESTIMATORS = ("DPWorstGroupClassifier", "DPWorstGroupRegressor")
TUNED_OF_ESTIMATORS = ("radius", "prior", "solver")
SOLVERS = ("AGS", "MGR", "PhasedERM", "Moments", "OCO", "GDA", "OnlineToBatch")
LOSSES = {"Huber": "threshold", "SmoothedHinge": "width", "Quantile": "level"}


def rows(text: str) -> dict[str, list[str]]:
    """Map the names in the tables to the other cells of their rows."""
    result = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if match := re.fullmatch(r"`([\w.]+)`", cells[0]):
            assert match[1] not in result
            result[match[1]] = cells[1:]
    return result


def value_of(name: str) -> object:
    """Look up the default of a parameter, or a constant of a module."""
    owner, _, last = name.rpartition(".")
    for package in (sklearn_dpwg, solvers, losses, postprocessing):
        if "." not in owner and inspect.isclass(getattr(package, owner, None)):
            return inspect.signature(getattr(package, owner)).parameters[last].default
    return getattr(pkgutil.resolve_name(f"sklearn_dpwg.{owner}"), last)


def stated(cell: str) -> object:
    """Read a value as the page writes it."""
    words = {"planned": None, "on": True}
    if cell in words:
        return words[cell]
    return cell.strip('"') if cell.startswith('"') else float(Fraction(cell))


def differing(result: dict[str, list[str]]) -> list[str]:
    """Return names whose value is not the code's."""
    return [name for name, (value, *_) in result.items() if stated(value) != value_of(name)]


def unprintable(result: dict[str, list[str]]) -> list[str]:
    """Return names whose command is of no script, or has a word that the script does not know."""
    wrong = []
    for name, (*_, command) in result.items():
        match = re.fullmatch(r"`(benchmarks/[\w/]+\.py)((?: [-\w.=\"]+)*)`", command)
        if match is None:
            if command.startswith("`") or not command:
                wrong.append(name)
            continue
        script = ROOT / match[1]
        source = script.read_text(encoding="utf-8") if script.exists() else ""
        # of where.name=value the script knows where
        words = [re.split(r"[.=]", word.removeprefix("--"))[0] for word in shlex.split(match[2])]
        if not source or any(not re.search(rf"\b{word}\b", source) for word in words):
            wrong.append(name)
    return wrong


def test_the_table_of_defaults_is_the_code():
    result = rows(PAGE.read_text(encoding="utf-8"))
    assert differing(result) == []
    assert unprintable(result) == []
    assert all(len(cells) == 3 and cells[1] for cells in result.values())


def test_no_default_is_left_out():
    expected = {f"{kind}.{name}" for kind in ESTIMATORS for name in TUNED_OF_ESTIMATORS}
    expected |= {f"{loss}.{name}" for loss, name in LOSSES.items()}
    for name in SOLVERS:
        expected |= {
            f"{name}.{field.name}"
            for field in dataclasses.fields(getattr(solvers, name))
            if isinstance(field.default, int | float)
        }
    assert len(expected) > 20
    assert expected - set(rows(PAGE.read_text(encoding="utf-8"))) == set()


@pytest.mark.parametrize(
    ("row", "differs", "cannot"),
    [
        (
            "| `MGR.initial_distance` | 0.3 | why | `benchmarks/ablation.py MGR.averaging=1` |",
            False,
            False,
        ),
        (
            "| `MGR.initial_distance` | 0.31 | why | `benchmarks/ablation.py MGR.averaging=1` |",
            True,
            False,
        ),
        ("| `MGR.risk_fraction` | planned | why | `benchmarks/none.py` |", False, True),
    ],
)
def test_a_wrong_row_would_be_seen(row, differs, cannot):
    result = rows(row)
    assert bool(differing(result)) == differs
    assert bool(unprintable(result)) == cannot
