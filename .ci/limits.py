"""Measure the tree against `.ci/limits.toml`; fail above a limit, or where a limit was raised.

There are no reasons and no slack. A change that makes the tree smaller lowers the file too. What
earlier commits allowed is read from git: no limit may be above the least of them, or be left out.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

LIMITS = ".ci/limits.toml"
PACKAGE, PUBLIC = "sklearn_dpwg/", "sklearn_dpwg/estimators/"


def git(root: Path, *words: str) -> str:
    """Return what a git command prints."""
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout


def files(root: Path, *patterns: str) -> list[Path]:
    """Return the files that git tracks or would add."""
    listed = git(root, "ls-files", "-z", "-co", "--exclude-standard", "--", *patterns)
    return sorted({path for name in listed.split("\0") if name and (path := root / name).exists()})


def n_lines(paths: list[Path]) -> int:
    """Return how many lines files have together."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def exported(path: Path) -> list[str]:
    """Return the names in `__all__` of a module, which must be written out."""
    names: list[str] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
            names += ast.literal_eval(node.value)
    return names


def parameters(paths: list[Path]) -> Iterator[tuple[str, int]]:
    """Yield each public estimator and the number of its parameters: fields of it and its bases."""
    classes = {
        node.name: node
        for path in paths
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    }

    def fields(name: str) -> set[str]:
        node = classes[name]
        bases = [base.id for base in node.bases if getattr(base, "id", None) in classes]
        own = {
            part.target.id
            for part in node.body
            if node.decorator_list  # @dataclass
            if isinstance(part, ast.AnnAssign) and "ClassVar" not in ast.unparse(part.annotation)
        }
        return {name for name in own if name[0] != "_"}.union(*map(fields, bases))

    bases = {getattr(base, "id", None) for node in classes.values() for base in node.bases}
    for name in sorted(classes.keys() - bases):
        if name.startswith("DP"):
            yield name, len(fields(name))


def measure(root: Path) -> dict[str, int]:
    """Return each number that has a limit."""
    package = files(root, f"{PACKAGE}*.py")
    words = [path.read_text(encoding="utf-8").split() for path in files(root, "docs/*.md")]
    sizes = {
        "package lines": n_lines(package),
        "package files": len(package),
        "exported names": sum(len(exported(path)) for path in package),
        "test lines": n_lines(files(root, "tests/*.py", "conftest.py")),
        "benchmark lines": n_lines(files(root, "benchmarks/*.py")),
        "docs words": sum(map(len, words)),
    }
    of_estimators = parameters(files(root, f"{PUBLIC}*.py"))
    return sizes | {f"parameters of {name}": number for name, number in of_estimators}


def earlier_limits(root: Path) -> dict[str, int]:
    """Return the least that any commit before allowed, by name."""
    least: dict[str, int] = {}
    for commit in git(root, "log", "--full-history", "--format=%H", "--", LIMITS).split():
        shown = subprocess.run(
            ["git", "show", f"{commit}:{LIMITS}"], cwd=root, capture_output=True, text=True
        )
        if shown.returncode == 0:  # a commit that deletes the file has none to show
            for name, limit in tomllib.loads(shown.stdout).items():
                least[name] = min(limit, least.get(name, limit))
    return least


def faults(sizes: dict[str, int], limits: dict[str, int], earlier: dict[str, int]) -> Iterator[str]:
    """Yield a sentence for each limit that is passed, missing or raised."""
    for name, size in sizes.items():
        if name not in limits:
            yield f"{name}: there is no limit"
        elif size > limits[name]:
            yield f"{name}: {size:,}, and {limits[name]:,} is the limit: join or delete"
    for name, least in earlier.items():
        if name in sizes and limits.get(name, least + 1) > least:
            yield f"{name}: an earlier commit allowed {least:,}, and limits only fall"


def main(root: Path) -> int:
    """Print sizes and limits, and return how many faults there are."""
    limits = tomllib.loads((root / LIMITS).read_text(encoding="utf-8"))
    sizes = measure(root)
    for name, size in sizes.items():
        print(f"{size:7,} of {limits.get(name, 0):7,}  {name}")
    sentences = list(faults(sizes, limits, earlier_limits(root)))
    for sentence in sentences:
        print(f"LIMIT: {sentence}.")
    return len(sentences)


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parent.parent))
