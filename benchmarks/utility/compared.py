"""The cells of the population, each beside its best peer and our own better solver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from utility.ours import methods_of
from utility.peers.run import NOTHING
from utility.report import (
    DEFAULT,
    IN_ADVANCE,
    PEERS,
    Cells,
    best,
    is_complete,
    is_worse_than_nothing,
)
from utility.summary import Interval, Ratio, difference, interval, ratio

# Below these excesses of the best peer a cell is counted, and left out of the means.
FLOORS = {"classification": 1e-3, "regression": 1e-4}

KINDS = tuple(FLOORS)
HALVES = ("choosing", "checking")


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A task at one budget.

    Parameters
    ----------
    name, source, half, kind : str
        The task.
    epsilon : float
        The budget.
    solver : str
        What the default chose.
    peer : str
        The best peer, by mean excess.
    ours, theirs : Interval
        Excess of the default and of the best peer.
    ratio : Ratio
        Ours over theirs, each seed's at least the floor.
    is_under_floor : bool
        Whether the best peer's mean is under the floor.
    own : str or None
        The better of our own solvers, None where one is not measured.
    own_ratio : Ratio or None
        The default's excess over that solver's.
    held_out : Ratio
        Worst-group loss on test records, ours less the best peer's; the interval is about noise.
    is_worse_than_nothing : bool
        Whether predicting nothing is better beyond the interval.
    seconds : tuple of float
        Of each default fit.
    fresh : Ratio or None
        The best peer's excess on seeds it was not chosen by over that shown.
    n_seeds : tuple of int
        Ours and the best peer's.
    in_advance : dict of str to Ratio
        Ours over each peer whose parameters were fixed in advance, that which did best on the
        choosing half first, and over predicting nothing; empty where none was run.
    """

    name: str
    source: str
    half: str
    kind: str
    epsilon: float
    solver: str
    peer: str
    ours: Interval
    theirs: Interval
    ratio: Ratio
    is_under_floor: bool
    own: str | None
    own_ratio: Ratio | None
    held_out: Ratio
    is_worse_than_nothing: bool
    seconds: tuple[float, ...]
    fresh: Ratio | None
    n_seeds: tuple[int, int]
    in_advance: dict[str, Ratio] = field(default_factory=dict)

    @property
    def at(self) -> str:
        """The cell in words."""
        return f"{self.name} at ε = {self.epsilon:g}"


def compare(cells: Cells, definitions: Iterable[Any]) -> tuple[list[Compared], list[str]]:
    """Compare the complete cells of the population, and name the others.

    Parameters
    ----------
    cells : dict
        What `collect` returns.
    definitions : iterable of Definition
        Of the tasks.

    Returns
    -------
    tuple of lists
        Compared cells, and the names of cells that lack our fits or a peer.
    """
    known = {each.name: each for each in definitions}
    compared, missing = [], []
    for (name, epsilon), cell in cells.items():
        definition = known[name]
        if is_complete(name, definition.kind, cell):
            compared.append(_compare(name, epsilon, cell, definition))
        else:
            missing.append(f"{name} at ε = {epsilon:g}")
    return compared, missing


def _compare(name: str, epsilon: float, cell: dict[str, Any], definition: Any) -> Compared:
    """Compare one cell."""
    floor = FLOORS[definition.kind]
    peer = best(cell, PEERS)
    assert peer is not None
    default, other = cell[DEFAULT], cell[peer]
    own_methods = [each for each in methods_of(name, definition.kind) if each != DEFAULT]
    own = best(cell, own_methods) if all(each in cell for each in own_methods) else None
    theirs = interval(other["train_excess"])
    excess = default["train_excess"]
    return Compared(
        name=name,
        source=definition.source,
        half=definition.half,
        kind=definition.kind,
        epsilon=epsilon,
        solver=default["parameters"]["solver"],
        peer=peer,
        ours=interval(excess),
        theirs=theirs,
        ratio=ratio(excess, other["train_excess"], floor),
        is_under_floor=theirs.mean < floor,
        own=own,
        own_ratio=ratio(excess, cell[own]["train_excess"], floor) if own else None,
        held_out=difference(default["test_loss"], other["test_loss"]),
        is_worse_than_nothing=is_worse_than_nothing(cell),
        seconds=tuple(default["seconds"]),
        fresh=(
            ratio(other["fresh_excess"], other["train_excess"], floor)
            if "fresh_excess" in other
            else None
        ),
        n_seeds=(len(excess), len(other["train_excess"])),
        in_advance={
            name: ratio(excess, cell[name]["train_excess"], floor) for name in _in_advance(cell)
        },
    )


def _in_advance(cell: dict[str, Any]) -> list[str]:
    """Return peers with fixed parameters, the best of the choosing half first, nothing last."""
    known = [name for name in IN_ADVANCE if name in cell]
    found = sorted(known, key=lambda name: cell[name]["choosing_excess"])
    return [*found, NOTHING] if found else []


def in_means(compared: Iterable[Compared], **facts: Any) -> list[Compared]:
    """Return the cells with some facts whose best peer is not under the floor."""
    return [each for each in having(compared, **facts) if not each.is_under_floor]


def having(compared: Iterable[Compared], **facts: Any) -> list[Compared]:
    """Return the cells with some facts."""
    return [
        each
        for each in compared
        if all(getattr(each, name) == value for name, value in facts.items())
    ]
