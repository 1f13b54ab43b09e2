"""Checks of the inputs and parameters of an audit; classes and scores as integer codes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import real_number
from sklearn_dpwg._version import __version__
from sklearn_dpwg.data.frames import label_column, places, plain, plain_list, same_text
from sklearn_dpwg.data.groups import GroupBy, names_of_columns
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.ledger.costs import Holdings, StartCost, holdings_of
from sklearn_dpwg.privacy import PrivacyGuarantee


def group_name(groups: Any, group_by: GroupBy | None) -> str:
    """Return the names of the columns that define the groups, joined; "group" if there are none."""
    return " and ".join(map(str, names_of_columns(groups, group_by))) or "group"


def class_codes(
    values: NDArray[Any], classes: tuple[Hashable, Hashable], name: str
) -> NDArray[np.bool_]:
    """Return whether each value is the second of two classes; raise an error for other values."""
    class_places = places(values, classes)
    if (class_places < 0).any():
        raise InputError(
            f"{name} must hold the classes {classes[0]!r} and {classes[1]!r} alone, none missing: "
            f"classes=(negative, positive) names others, and of probabilities say kind='scores'."
        )
    return np.asarray(class_places == 1)


def bins_of(scores: NDArray[Any], inner: Sequence[float]) -> NDArray[np.intp]:
    """Return the number of the bin of each score; a score at an inner edge is in the upper bin."""
    if scores.dtype.kind not in "fiu" or not ((scores >= 0.0) & (scores <= 1.0)).all():
        raise InputError(
            "scores must be probabilities between 0 and 1, none missing; of classes say "
            "kind='decisions'."
        )
    return np.searchsorted(np.array(inner), scores.astype(np.float64, copy=False), side="right")


def one_a_record(values: Any, name: str, n_records: int | None = None) -> NDArray[Any]:
    """Return values as an array with one entry per record; of two columns of scores the second."""
    array = np.atleast_1d(np.asarray(values))
    if name == "scores" and array.ndim == 2 and array.shape[1] == 2:
        array = array[:, 1]
    if array.ndim != 1 or (n_records is not None and len(array) != n_records):
        raise InputError(f"{name} must have one entry a record, got shape {array.shape}.")
    if not len(array):
        raise InputError(f"{name} must have at least one record, got none.")
    return array


def holdings_of_model(same_records_as: Any) -> Holdings:
    """Return the privacy costs of a model that was fitted to the same records; none for None."""
    if same_records_as is None:
        return Holdings((), None, ())
    if isinstance(same_records_as, PrivacyGuarantee):
        stated = StartCost(uuid4().hex, "stated", same_records_as)
        return Holdings((stated,), same_records_as, same_records_as.outside)
    holdings = holdings_of(same_records_as)
    if holdings.guarantee is None:
        name = type(same_records_as).__name__
        raise InputError(f"same_records_as must hold a private fit, or be None, got {name}.")
    return holdings


def plain_label(label: Any) -> Hashable:
    """Return a label that JSON can store: a plain value, a tuple of them, or else text."""
    label = plain(label)
    if isinstance(label, tuple):
        return tuple(map(plain_label, label))
    return label if isinstance(label, str | bool | int | float) else str(label)


def versions_now() -> dict[str, str]:
    """Return the installed versions of the libraries that compute a result, by name."""
    return {
        "sklearn_dpwg": __version__,
        **{name: version(name) for name in ("opendp", "dp-accounting", "numpy", "scikit-learn")},
    }


# Checks of the parameters of an audit, before anything is read or spent.


def two_classes(classes: Any) -> tuple[Hashable, Hashable]:
    """Return the negative and the positive class; raise an error if they are not two."""
    is_sequence = hasattr(classes, "__iter__") and not isinstance(classes, str | Set)
    labels = tuple(plain_label(label) for label in classes) if is_sequence else ()
    if len(labels) != 2 or same_text(labels) is not None:
        raise InputError(
            f"classes must be the negative and the positive class, in this order, which differ, "
            f"got {classes!r}: of more audit one against the rest, by y == class, its column of "
            f"probabilities, and classes=(False, True)."
        )
    return labels[0], labels[1]


def inner_edges_of(score_edges: Any, threshold: float) -> tuple[float, ...] | None:
    """Return the inner edges of the bins, which include the threshold; None for no parameter."""
    if score_edges is None:
        return None
    edges = np.asarray(score_edges, dtype=np.float64)
    increase = edges.ndim == 1 and bool((np.diff(edges, prepend=0.0) > 0.0).all())
    if not increase or threshold not in edges or edges[-1] > 1.0:
        raise InputError(
            f"score_edges must be numbers above 0 and at most 1 that increase, the threshold "
            f"{threshold!r} among them, got {score_edges!r}."
        )
    return tuple(edges.tolist())


def left_out_by_name(
    group_labels: Sequence[Hashable], leave_out: Any, min_fraction: Any, reference: Hashable
) -> tuple[list[Hashable], Hashable]:
    """Check parameters of a verdict; return groups to leave out, and the reference, as labels."""
    if not 0.0 <= real_number(min_fraction, "min_fraction") < 1.0:
        raise InputError(f"min_fraction must be at least 0 and below 1, got {min_fraction!r}.")

    def audit_labels(labels: list[Hashable], name: str) -> list[Hashable]:
        group_places = places(label_column(labels), group_labels).tolist()
        if -1 in group_places:
            wrong = labels[group_places.index(-1)]
            raise InputError(f"{name} must be of the groups {group_labels!r}, got {wrong!r}.")
        return [group_labels[place] for place in group_places]

    excluded: list[Hashable] = [leave_out] if isinstance(leave_out, str) else plain_list(leave_out)
    excluded = audit_labels(excluded, "leave_out")
    if reference is not None:
        (reference,) = audit_labels([reference], "reference")
        if reference in excluded:
            raise InputError(f"reference must be a group that is not left out, got {reference!r}.")
    return excluded, reference


def nested(values: Any) -> Any:
    """Return a list as a tuple, with all lists inside as tuples too; other values unchanged."""
    return tuple(map(nested, values)) if isinstance(values, list) else values
