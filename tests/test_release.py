"""What is released says one version, true ranges of what it needs, and what is to be filled in."""

from __future__ import annotations

import datetime
import importlib.util
import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from sklearn_dpwg import __version__

ROOT = Path(__file__).parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


PROJECT = tomllib.loads(text("pyproject.toml"))["project"]


def newest_entry(changelog: str) -> tuple[bool, str, str]:
    """Return whether work goes on above the newest release, its version and its day."""
    result = re.search(
        r"^(## Unreleased\n.*?)?^## (\S+) – (\d{4}-\d{2}-\d{2})$", changelog, re.M | re.S
    )
    assert result is not None
    assert result.start() == changelog.index("\n## ") + 1
    return result[1] is not None, result[2], str(datetime.date.fromisoformat(result[3]))


def test_package_changelog_and_citation_are_of_one_version():
    assert "version" in PROJECT["dynamic"]
    cited = dict(
        re.findall(r"^(version|date-released): (\S+)$", text("CITATION.cff"), re.MULTILINE)
    )
    goes_on, version, day = newest_entry(text("CHANGELOG.md"))
    assert (cited["version"], cited["date-released"]) == (version, day)
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", __version__)
    assert (__version__ != version) == goes_on == (".dev" in __version__)


def test_pythons_that_are_promised_are_those_that_are_tested():
    oldest = re.match(r">=(\d+)\.(\d+)$", PROJECT["requires-python"])
    promised = {
        tuple(map(int, v)) for v in re.findall(r":: (\d)\.(\d+)", str(PROJECT["classifiers"]))
    }
    assert min(promised) == tuple(map(int, oldest.groups()))
    assert sys.version_info[:2] in promised or sys.version_info[:2] > max(promised)
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (ROOT / "sklearn_dpwg" / "py.typed").is_file()


def test_each_requirement_states_its_lowest_version():
    ranges = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]
    bare = [r for r in map(Requirement, ranges) if r.name != "sklearn-dpwg" and not r.specifier]
    assert bare == []
    low = {r.name: str(r.specifier) for r in map(Requirement, PROJECT["dependencies"])}
    for name in ("dp-accounting", "opendp"):  # they decide what a guarantee means
        assert "<" in low[name], name


def test_no_address_is_invented_and_what_is_missing_is_named():
    spec = importlib.util.spec_from_file_location("try_wheel", ROOT / ".ci" / "try_wheel.py")
    spec.loader.exec_module(try_wheel := importlib.util.module_from_spec(spec))
    places = try_wheel.to_fill_in()
    assert [place.partition(":")[0] for place in places] == ["pyproject.toml", "SECURITY.md"]
    assert "urls" not in PROJECT
    for name in ("SECURITY.md", "CITATION.cff", "pyproject.toml"):
        assert not re.search(r"github\.com/\S*dpwg|\w@\w", text(name)), name
