"""Print what each package weighs beside its budget; fail where one is over it without a reason.

The budgets and the reasons stand in `pyproject.toml`; a twentieth above a budget is let pass.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "sklearn_dpwg"
SLACK = 1.05


def lines_of(folder: Path) -> tuple[int, int, int]:
    """Return the lines, the lines of imports and the number of files below a folder."""
    lines = imports = 0
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else []
    for file in files:
        text = file.read_text(encoding="utf-8")
        lines += len(text.splitlines())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports += node.end_lineno - node.lineno + 1
    return lines, imports, len(files)


def main() -> int:
    """Print the table and return how many budgets are exceeded."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "budget"
    ]
    budgets, reasons = settings["lines"], settings.get("reasons", {})
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    faults = [f"{name}: no budget" for name in sorted(folders - set(budgets))]
    for name, budget in sorted(budgets.items()):
        lines, _, files = lines_of(PACKAGE / name)
        over = lines > SLACK * budget
        print(f"{name:16}{lines:7,} of {budget:6,} lines {files:4} files  {reasons.get(name, '')}")
        if over and name not in reasons:
            faults.append(f"{name}: {lines:,} lines, its budget is {budget:,}")
    lines, imports, files = lines_of(PACKAGE)
    total = settings["total"]
    print(
        f"{'all':16}{lines:7,} of {total:6,} lines {files:4} files  imports {imports / lines:.1%}"
    )
    if lines > SLACK * total and "all" not in reasons:
        faults.append(f"all: {lines:,} lines, the budget is {total:,}")
    if files > settings["files"]:
        faults.append(f"{files} files, the budget is {settings['files']}")
    for fault in faults:
        print(f"over budget: {fault}", file=sys.stderr)
    return len(faults)


if __name__ == "__main__":
    sys.exit(main())
