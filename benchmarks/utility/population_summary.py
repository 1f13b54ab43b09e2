"""What the cells of the population come to: means by half, kind and ε, and what is held beside."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from utility.clusters import clustered, gap, geometric_mean
from utility.compared import HALVES, KINDS, Compared, having, in_means
from utility.report import ALARM
from utility.summary import Interval, Ratio


class Row(NamedTuple):
    """Cells of one half and kind, at one ε or at all.

    Parameters
    ----------
    half, kind : str
        Which.
    epsilon : float or None
        None for all.
    n_cells, n_left_out, n_sources : int
        Cells in the mean, cells whose best peer is under the floor, and sources of the former.
    mean : Ratio
        Geometric mean of ours over the best peer, with its interval by source.
    worst : Compared
        The cell with the largest ratio.
    n_won, n_lost, n_above : int
        Cells in the mean with the whole interval below 1, above 1, and above the alarm.
    n_left_out_above : int
        Cells left out whose ratio to the floor is wholly above the alarm.
    """

    half: str
    kind: str
    epsilon: float | None
    n_cells: int
    n_left_out: int
    n_sources: int
    mean: Ratio
    worst: Compared
    n_won: int
    n_lost: int
    n_above: int
    n_left_out_above: int


def rows(compared: Sequence[Compared]) -> list[Row]:
    """Return a row for each half, kind and ε with cells in the mean, all budgets first."""
    epsilons = sorted({each.epsilon for each in compared})
    found = [
        row_of(compared, half, kind, epsilon)
        for half in HALVES
        for kind in KINDS
        for epsilon in (None, *epsilons)
    ]
    return [row for row in found if row is not None]


def row_of(
    compared: Sequence[Compared], half: str, kind: str, epsilon: float | None = None
) -> Row | None:
    """Return one row, None without a cell in its mean."""
    facts: dict[str, Any] = {"half": half, "kind": kind}
    if epsilon is not None:
        facts["epsilon"] = epsilon
    kept = in_means(compared, **facts)
    if not kept:
        return None
    left_out = having(compared, is_under_floor=True, **facts)
    return Row(
        half,
        kind,
        epsilon,
        len(kept),
        len(left_out),
        len({each.source for each in kept}),
        mean_of(kept),
        max(kept, key=lambda each: each.ratio.value),
        sum(each.ratio.high < 1.0 for each in kept),
        sum(each.ratio.low > 1.0 for each in kept),
        len(above(kept)),
        len(above(left_out)),
    )


def mean_of(kept: Sequence[Compared]) -> Ratio:
    """Return the geometric mean of ratios with its interval by source."""
    return geometric_mean([each.ratio.value for each in kept], [each.source for each in kept])


def above(compared: Sequence[Compared]) -> list[Compared]:
    """Return the cells whose whole interval is above the alarm, the worst first."""
    return worst_of([each for each in compared if each.ratio.low > ALARM])


def worst_of(compared: Sequence[Compared], most: int | None = None) -> list[Compared]:
    """Return cells by ratio, the worst first."""
    return sorted(compared, key=lambda each: -each.ratio.value)[:most]


def gap_of(compared: Sequence[Compared], kind: str) -> tuple[float, float] | None:
    """Return checking less choosing of the geometric means, and half its interval."""
    halves = [in_means(compared, half=half, kind=kind) for half in HALVES]
    if not all(halves):
        return None
    choosing, checking = (
        ([each.ratio.value for each in half], [each.source for each in half]) for half in halves
    )
    return gap(checking, choosing)


class HeldOut(NamedTuple):
    """Worst-group loss on test records, ours less the best peer's.

    Parameters
    ----------
    mean : Interval
        Mean over cells, with its interval by source.
    n_lower, n_higher, n_cells : int
        Cells where ours is lower or higher beyond the noise of the fits.
    """

    mean: Interval
    n_lower: int
    n_higher: int
    n_cells: int


def held_out(compared: Sequence[Compared]) -> HeldOut:
    """Return the held-out losses of some cells, at least one."""
    mean = clustered([each.held_out.value for each in compared], [each.source for each in compared])
    return HeldOut(
        Interval(mean.mean, mean.half),
        sum(each.held_out.high < 0.0 for each in compared),
        sum(each.held_out.low > 0.0 for each in compared),
        len(compared),
    )


class Choice(NamedTuple):
    """`auto` beside the better of our own solvers, chosen in hindsight.

    Parameters
    ----------
    n_within, n_cells : int
        Cells where it has at most 1.2 times the other's mean excess, and all.
    mean : Ratio
        Geometric mean of its excess over the other's, with an interval by source.
    hindsight : Ratio or None
        What the mean of ours over the best peer would be with the better solver in every cell that
        counts in it.
    worst : list of Compared
        Cells beyond 1.2, the worst first.
    """

    n_within: int
    n_cells: int
    mean: Ratio
    hindsight: Ratio | None
    worst: list[Compared]


def choice(compared: Sequence[Compared]) -> Choice | None:
    """Return how `auto` chooses on some cells, None where no other solver was measured."""
    known = [(each, each.own_ratio) for each in compared if each.own_ratio is not None]
    if not known:
        return None
    beyond = [(each, own) for each, own in known if own.value > ALARM]
    kept = [(each, own) for each, own in known if not each.is_under_floor]
    return Choice(
        len(known) - len(beyond),
        len(known),
        geometric_mean([own.value for _, own in known], [each.source for each, _ in known]),
        geometric_mean(
            [each.ratio.value / own.value for each, own in kept],
            [each.source for each, _ in kept],
        )
        if kept
        else None,
        [each for each, own in sorted(beyond, key=lambda pair: -pair[1].value)],
    )


class Seconds(NamedTuple):
    """Seconds of default fits: their median, the most, and whose it is."""

    median: float
    most: float
    slowest: str


def seconds(compared: Sequence[Compared]) -> Seconds:
    """Return the seconds of the default fits of some cells, at least one."""
    slowest = max(compared, key=lambda each: max(each.seconds))
    every = [value for each in compared for value in each.seconds]
    return Seconds(statistics.median(every), max(slowest.seconds), slowest.at)


def curse(compared: Sequence[Compared]) -> Ratio | None:
    """Return what best peers have on seeds they were not chosen by over what is shown."""
    known = [
        (each, each.fresh)
        for each in compared
        if each.fresh is not None and not each.is_under_floor
    ]
    if not known:
        return None
    return geometric_mean([fresh.value for _, fresh in known], [each.source for each, _ in known])
