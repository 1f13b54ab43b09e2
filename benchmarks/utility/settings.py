"""What is measured, and where it is kept."""

from __future__ import annotations

from pathlib import Path

from utility.store import FOLDER

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
N_SEEDS = 5
POPULATION_EPSILONS = (1.0, 2.0, 4.0, 8.0)
# Peers are run once, so that their means can be of more seeds.
N_PEER_SEEDS = 8

# A first look in three minutes: a part of the whole, kept with it.
QUICK_EPSILONS = (1.0,)
QUICK_N_SEEDS = 3
QUICK_WITHOUT = ("census-income-kdd",)


def peer_path(task: str, method: str, folder: Path = FOLDER) -> Path:
    """Return the file of one peer on one task."""
    plain = "".join(letter if letter.isalnum() else "-" for letter in method)
    return folder / "peers" / task / f"{plain}.json"


def ours_path(task: str, folder: Path = FOLDER) -> Path:
    """Return the file of this package's fits on one task."""
    return folder / "ours" / f"{task}.json"
