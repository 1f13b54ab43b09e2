"""What is measured, and measured cells on disk: one JSON file a task, written after every cell."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".bench" / "utility"


def fingerprint(package: Path = ROOT / "sklearn_dpwg") -> str:
    """Return a digest of a package's sources, so that a change of code is measured again."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def versions(*names: str) -> dict[str, str]:
    """Return installed versions of distributions."""
    result = {}
    for name in names:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            result[name] = "missing"
    return result


class Store:
    """Cells of one task by key; what is in the file, made by the same, is never measured twice."""

    def __init__(self, path: Path, made_by: dict[str, Any]) -> None:
        self.path, self.made_by = path, made_by
        before, cells = read_cells(path)
        self._cells: dict[str, Any] = cells if before == made_by else {}

    def __contains__(self, key: str) -> bool:
        return key in self._cells

    def __getitem__(self, key: str) -> Any:
        return self._cells[key]

    def put(self, cells: dict[str, Any]) -> None:
        """Keep cells; the file is whole at every moment, whenever a run is stopped."""
        self._cells |= cells
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        beside.write_text(json.dumps({"made_by": self.made_by, "cells": self._cells}, indent=1))
        os.replace(beside, self.path)


def read_cells(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what made a file's cells, and the cells; nothing if there is no file."""
    if not path.exists():
        return {}, {}
    content = json.loads(path.read_text())
    return content["made_by"], content["cells"]


class Progress:
    """Count the steps of a long run on standard error."""

    def __init__(self, total: int, title: str) -> None:
        self.total, self.title, self.done, self.start = total, title, 0, time.monotonic()

    def advance(self) -> None:
        """Count one step."""
        self.done += 1

    def note(self, text: str) -> None:
        """Print a line."""
        minutes = (time.monotonic() - self.start) / 60.0
        stated = f"{self.title} {self.done}/{self.total}, {minutes:.1f} min: {text}"
        print(stated, flush=True, file=sys.stderr)
