"""Files that a command writes: all of one, or none, and never over another by accident."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

from sklearn_dpwg.cli._answers import WrongInput


def check_outputs(outputs: Iterable[Path], inputs: Iterable[Path], *, overwrite: bool) -> None:
    """Refuse what cannot be written, before anything is spent."""
    read = {path.resolve() for path in inputs}
    written: set[Path] = set()
    for path in outputs:
        place = path.resolve()
        if place in read or place in written:
            other = "read" if place in read else "written twice"
            raise WrongInput(f"{path} must be a file of its own, and it is {other}.")
        written.add(place)
        if path.is_dir():
            raise WrongInput(f"{path} must be a file, and it is a folder.")
        if path.exists() and not overwrite:
            raise WrongInput(f"{path} is there already: name another file, or say --overwrite.")
        if not path.parent.is_dir():
            raise WrongInput(f"{path} must be in a folder that is there.")
        try:
            with NamedTemporaryFile(dir=path.parent):
                pass
        except OSError:
            raise WrongInput(f"{path} must be in a folder that can be written to.") from None


def write(path: Path, content: Callable[[Path], object]) -> None:
    """Let a function write a file beside its place, and move it there when it is whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part{path.suffix}")
    try:
        content(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
