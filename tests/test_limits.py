"""The ratchet of `.ci/limits.toml` fails above a limit, and where a limit was raised."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci" / "limits.py"
MODULE = """__all__ = ["A", "B"]
@dataclass
class Something:
    epsilon: float = 1.0
@dataclass(kw_only=True)
class DPSomething(Something):
    delta: float = 1e-6
    limit: ClassVar[int] = 2
"""
SIZES = {
    "package lines": 8,
    "package files": 1,
    "exported names": 2,
    "test lines": 1,
    "benchmark lines": 1,
    "docs words": 2,
    "parameters of DPSomething": 2,
}


@pytest.fixture
def tree(tmp_path):
    files = {
        "sklearn_dpwg/estimators/something.py": MODULE,
        "tests/test_something.py": "pass\n",
        "benchmarks/speed.py": "pass\n",
        "docs/guide/page.md": "two words\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "limits.py").write_text(SCRIPT.read_text())
    git(tmp_path, "init", "-q")
    commit(tmp_path, SIZES)
    return tmp_path


def git(tree, *words):
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *names, *words], cwd=tree, check=True, capture_output=True)


def write(tree, limits):
    text = "".join(f'"{name}" = {limit}\n' for name, limit in limits.items())
    (tree / ".ci" / "limits.toml").write_text(text)


def commit(tree, limits):
    write(tree, limits)
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "lower")


def run(tree):
    done = subprocess.run(
        [sys.executable, tree / ".ci" / "limits.py"], capture_output=True, text=True
    )
    assert not done.stderr
    return done.returncode, [line for line in done.stdout.splitlines() if "LIMIT" in line]


def test_a_tree_at_its_limits_passes(tree):
    assert run(tree) == (0, [])


@pytest.mark.parametrize("name", ["package lines", "exported names", "parameters of DPSomething"])
def test_a_tree_above_a_limit_fails(tree, name):
    write(tree, SIZES | {name: SIZES[name] - 1})
    code, lines = run(tree)
    assert code == 1
    assert name in lines[0]


def test_a_file_that_nobody_has_added_yet_counts(tree):
    (tree / "sklearn_dpwg" / "more.py").write_text('__all__ = ["C"]\n')
    assert run(tree)[0] == 3


def test_a_limit_that_was_raised_or_is_left_out_fails(tree):
    commit(tree, SIZES | {"package lines": 9})
    git(tree, "commit", "-q", "--allow-empty", "-m", "and a commit later still")
    code, lines = run(tree)
    assert (code, "package lines" in lines[0], "only fall" in lines[0]) == (1, True, True)
    commit(tree, {name: limit for name, limit in SIZES.items() if name != "docs words"})
    code, lines = run(tree)
    assert code == 2
    assert all("docs words" in line for line in lines)
