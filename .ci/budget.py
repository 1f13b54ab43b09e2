"""Print what the packages weigh beside their budgets; fail where one is over it without a reason.

The budgets stand in `pyproject.toml`, as lines with docstrings, and so do the reasons. A twentieth
above a budget is let pass.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "sklearn_dpwg"
SLACK = 1.05


def weigh(folder: Path) -> tuple[int, int, int]:
    """Return the lines of a folder, those of its imports, and how many files it has."""
    lines = imports = n_files = 0
    for file in folder.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        nodes = ast.walk(ast.parse(text))
        found = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        imports += sum(node.end_lineno - node.lineno + 1 for node in found)
        lines += len(text.splitlines())
        n_files += 1
    return lines, imports, n_files


def main() -> int:
    """Print the table, and return how many budgets are exceeded."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["budget"]
    reasons = config["reasons"]
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    known = {name for names in config["lines"] for name in names.split()}
    faults = [f"{name} has no budget" for name in sorted(folders - known)]
    for names, budget in config["lines"].items():
        weights = [weigh(PACKAGE / name) for name in names.split()]
        lines, n_files = sum(each[0] for each in weights), sum(each[2] for each in weights)
        print(f"{lines:7,} of {budget:6,} lines {n_files:4} files  {names}")
        if lines > SLACK * budget and names not in reasons:
            faults.append(f"{names}: {lines:,} lines, and {budget:,} are its budget")
    lines, imports, n_files = weigh(PACKAGE)
    total, most = config["total"], config["files"]
    print(
        f"{lines:7,} of {total:6,} lines {n_files:4} of {most} files, imports {imports / lines:.1%}"
    )
    if lines > SLACK * total and "all" not in reasons:
        faults.append(f"all: {lines:,} lines, and {total:,} are the budget")
    if n_files > most:
        faults.append(f"all: {n_files} files, and {most} are the budget")
    for names, reason in reasons.items():
        print(f"over its budget: {names}: {reason}")
    for fault in faults:
        print(f"OVER BUDGET: {fault}. Join, delete, or give a reason in pyproject.toml.")
    return len(faults)


if __name__ == "__main__":
    sys.exit(main())
