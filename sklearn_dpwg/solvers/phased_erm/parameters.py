"""What the parameters of the phased solver may be."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING

from sklearn_dpwg.problem import Problem

if TYPE_CHECKING:
    from sklearn_dpwg.solvers.phased_erm.phased_erm import PhasedERM

# Below it the noise overflows, whatever the records are.
_WEAKEST = 1e-30


def check_parameters(solver: PhasedERM) -> None:
    """Refuse what is out of range.

    Parameters
    ----------
    solver : PhasedERM
        Its parameters.

    Raises
    ------
    ValueError
        If a parameter is out of range or of a wrong type.
    """
    for name, choices in (
        ("schedule", ("planned", "paper")),
        ("composition", ("sequential", "parallel")),
    ):
        if getattr(solver, name) not in choices:
            raise ValueError(
                f"{name} of PhasedERM must be one of {choices}, got {getattr(solver, name)!r}."
            )
    for name in ("n_phases", "max_passes"):
        value = getattr(solver, name)
        is_open = value is None and name == "n_phases"
        if not is_open and not (_is(value, Integral) and value >= 1):
            raise ValueError(f"{name} of PhasedERM must be a positive whole number, got {value!r}.")
    for name in ("mu_weights", "aim", "smoothing_width"):
        value = getattr(solver, name)
        is_open = value is None and name != "aim"
        if not is_open and not (_is(value, Real) and 0.0 < value < math.inf):
            raise ValueError(f"{name} of PhasedERM must be positive and finite, got {value!r}.")
    for name in ("mu_weights", "mu_groups"):
        value = getattr(solver, name)
        if _is(value, Real) and 0.0 < value < _WEAKEST:
            raise ValueError(f"{name} of PhasedERM must be at least {_WEAKEST:g}, got {value!r}.")
    strength, share, averaging = solver.mu_groups, solver.risk_share, solver.averaging
    if strength is not None and not (_is(strength, Real) and strength > 0.0):
        raise ValueError(f"mu_groups of PhasedERM must be positive or infinite, got {strength!r}.")
    if share is not None and not (_is(share, Real) and 0.0 < share < 1.0):
        raise ValueError(f"risk_share of PhasedERM must be between 0 and 1, got {share!r}.")
    if averaging is not None and not (_is(averaging, Real) and 0.0 < averaging <= 1.0):
        raise ValueError(f"averaging of PhasedERM must be above 0, at most 1, got {averaging!r}.")
    sharpening = solver.sharpening
    if sharpening is not None and not (_is(sharpening, Real) and 1.0 <= sharpening <= 10.0):
        raise ValueError(f"sharpening of PhasedERM must be from 1 to 10, got {sharpening!r}.")
    if solver.schedule == "paper":
        for name in (
            "n_phases",
            "mu_weights",
            "sharpening",
            "mu_groups",
            "risk_share",
            "averaging",
        ):
            if getattr(solver, name) is not None:
                raise ValueError(
                    f"{name} of PhasedERM must be None with schedule='paper', which sets it, got "
                    f"{getattr(solver, name)!r}."
                )


def check_groups(solver: PhasedERM, problem: Problem) -> None:
    """Refuse disjoint parts that the groups are too small for."""
    smallest, disjoint = min(problem.group_sizes), solver.composition == "parallel"
    if solver.schedule == "planned" and disjoint and (solver.n_phases or 1) > smallest:
        raise ValueError(
            f"n_phases of PhasedERM must be at most the size of the smallest group, {smallest}, "
            f"where every phase has records of its own, got {solver.n_phases}: leave it open or "
            f"use composition='sequential'."
        )


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
