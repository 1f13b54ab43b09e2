"""Environments of their own, for peers whose requirements are not ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from utility.store import FOLDER


def environment(name: str, requirements: Path) -> Path:
    """Return the Python of an environment, made when it is missing."""
    folder = FOLDER / "environments" / name
    python = folder / "bin" / "python"
    done = folder / ".installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "-q", "-r", requirements]
        subprocess.run(install, check=True)
        done.touch()
    return python
