"""The names of the registered data sets."""

from __future__ import annotations

from .entries import ENTRIES

__all__ = ["dataset_names"]


def dataset_names(task: str | None = None) -> tuple[str, ...]:
    """List the data sets that :func:`load_dataset` knows.

    Parameters
    ----------
    task : {"classification", "regression"}, default=None
        Only those with this kind of target; ``None`` lists them all.

    Returns
    -------
    tuple of str
        Names, sorted.

    Raises
    ------
    ValueError
        If the task is neither of the two.

    Examples
    --------
    >>> from sklearn_dpwg.datasets import dataset_names
    >>> dataset_names("regression")
    ('cps-hourly-earnings', 'cps-weekly-wages')
    """
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task={task!r} must be 'classification', 'regression' or None.")
    return tuple(sorted(name for name, entry in ENTRIES.items() if task in (None, entry.task)))
