"""Measured cells on disk: one JSON file a task, written after every cell."""

from __future__ import annotations

import hashlib
import json
import os
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
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


class Store:
    """Cells of one task, by key; what is in the file is never measured twice.

    Parameters
    ----------
    path : Path
        The file, made with its folder when the first cell is put.
    made_by : dict
        What made the cells. Cells in the file that something else made are forgotten.
    """

    def __init__(self, path: Path, made_by: dict[str, Any]) -> None:
        self.path, self.made_by = path, made_by
        self._cells: dict[str, Any] = {}
        if path.exists():
            content = json.loads(path.read_text())
            if content["made_by"] == made_by:
                self._cells = content["cells"]

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
