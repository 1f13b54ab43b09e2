"""Public facts that a plan is made from: counts, and the prior weights of the groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

NEIGHBOURS = ("replace-in-group", "replace-any")

_ALLOWED = (
    "prior must be 'proportional', 'uniform', a number between 0 and 1 (the share of equal "
    "weights in a mixture with the proportional ones) or one positive weight a group"
)


def positive_whole(value: Any, name: str) -> int:
    """Return a positive whole number, or refuse it by name."""
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
    return int(value)


def group_size(value: Any) -> Any:
    """Return the size of a group: a positive whole number, or infinity where it has no end."""
    if isinstance(value, float | np.floating) and value == math.inf:
        return math.inf
    return positive_whole(value, "an entry of group_sizes")


def check_neighbours(neighbours: Any, count_share: Any, group_labels: Any) -> None:
    """Refuse what neighbours a fit cannot be private for."""
    if not isinstance(neighbours, str) or neighbours not in NEIGHBOURS:
        raise ValueError(
            f"neighbours must be one of {', '.join(map(repr, NEIGHBOURS))}, got {neighbours!r}."
        )
    is_number = isinstance(count_share, int | float | np.number) and not isinstance(
        count_share, bool
    )
    if not is_number or not 0.0 < float(count_share) < 1.0:
        raise ValueError(
            f"count_share must be a share of the budget above 0 and below 1, got {count_share!r}."
        )
    if neighbours == "replace-any" and group_labels is None:
        raise ValueError(
            "group_labels must be stated with neighbours='replace-any', as those found in the "
            "groups would show who is in one, got None."
        )


def resolve_prior(prior: Any, group_sizes: Sequence[float]) -> tuple[float, ...]:
    """Return the positive weights, summing to 1, that the parameter `prior` stands for."""
    n_groups = len(group_sizes)
    proportional = _proportional(np.asarray(group_sizes, dtype=float), prior)
    share = {"proportional": 0.0, "uniform": 1.0}.get(prior) if isinstance(prior, str) else prior
    try:
        found = np.asarray(share, dtype=float)  # None and NaN fail the comparisons below
    except (TypeError, ValueError):
        raise ValueError(f"{_ALLOWED}, got {prior!r}.") from None
    if found.ndim == 0 and 0.0 <= found <= 1.0:
        found = found / n_groups + (1.0 - found) * proportional
    elif (
        found.shape == (n_groups,)
        and ((found > 0) & (found < 1)).all()
        and abs(found.sum() - 1) > 1e-6
    ):
        raise ValueError(
            f"prior must sum to 1 where its weights are shares below 1, got {prior!r}, which sums "
            f"to {found.sum():.6g}."
        )
    elif found.shape == (n_groups,) and (found > 0).all() and np.isfinite(found).all():
        found = found / found.sum()
    else:
        raise ValueError(f"{_ALLOWED}, {n_groups} here, got {prior!r}.")
    return tuple(float(weight) for weight in found)


def _proportional(sizes: np.ndarray, prior: Any) -> np.ndarray:
    """Return the shares of the groups; groups without end have equal ones."""
    endless = np.isinf(sizes)
    if endless.any():
        if not endless.all() and (np.ndim(prior) == 0 and prior not in ("uniform", 1, 1.0)):
            raise ValueError(
                f"prior must be 'uniform' or one positive weight a group where some groups have "
                f"an end and others have none, got {prior!r}."
            )
        sizes = endless.astype(float)
    return np.asarray(sizes / sizes.sum())
