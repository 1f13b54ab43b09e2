"""What goes into an audit, checked: rows as codes, parameters, and the fields of a file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from numbers import Real
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sklearn_dpwg._checks import open_unit, real_number, whole_number
from sklearn_dpwg._version import __version__
from sklearn_dpwg.data.frames import (
    checked_labels,
    label_column,
    places,
    plain,
    plain_list,
    same_text,
)
from sklearn_dpwg.data.groups import GroupBy, names_of_columns
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.ledger.costs import Holdings, StartCost, holdings_of
from sklearn_dpwg.privacy import Budget, IntegerNoise, PrivacyGuarantee


def group_name(groups: Any, group_by: GroupBy | None) -> str:
    """Say what the groups are made of: names of columns, or just "group"."""
    return " and ".join(map(str, names_of_columns(groups, group_by))) or "group"


def class_codes(
    values: NDArray[Any], classes: tuple[Hashable, Hashable], name: str
) -> NDArray[np.bool_]:
    """Return whether each value is the second class."""
    at = places(values, classes)
    if (at < 0).any():
        is_truth = name == "y_true"
        differ = "are missing" if pd.isna(values[at < 0]).any() else "differ"
        hint = "" if is_truth else ", and of scores say kind='scores'"
        raise InputError(
            f"{name} must hold the {'classes' if is_truth else 'decisions'} {classes[0]!r} and "
            f"{classes[1]!r} alone, and some values {differ}; classes=(negative, positive) names "
            f"others{hint}."
        )
    return np.asarray(at == 1)


def bins_of(scores: NDArray[Any], inner: Sequence[float]) -> NDArray[np.intp]:
    """Return the bin of each score between inner edges."""
    if scores.dtype.kind not in "fiu":
        raise InputError(
            f"scores must be numbers, of classes say kind='decisions', got {scores.dtype}."
        )
    if not ((scores >= 0.0) & (scores <= 1.0)).all():
        raise InputError(
            f"scores must be probabilities between 0 and 1, and some are "
            f"{'missing' if np.isnan(scores).any() else 'not'}; of classes say kind='decisions'."
        )
    return np.searchsorted(np.array(inner), scores.astype(np.float64, copy=False), side="right")


def one_a_record(values: Any, name: str, n_records: int | None = None) -> NDArray[Any]:
    """Return an array with an entry a record, of two columns of probabilities the second."""
    array = np.atleast_1d(np.asarray(values))
    if name == "scores" and array.ndim == 2 and array.shape[1] == 2:
        array = array[:, 1]
    if array.ndim != 1 or (n_records is not None and len(array) != n_records):
        raise InputError(f"{name} must have one entry a record, got shape {array.shape}.")
    if not len(array):
        raise InputError(f"{name} must have at least one record, got none.")
    return array


def holdings_of_model(same_records_as: Any) -> Holdings:
    """Return what a model that saw these records cost, or nothing where there is none."""
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
    """Return a label as JSON can hold it: plain values and tuples of them, the rest as text."""
    label = plain(label)
    if isinstance(label, tuple):
        return tuple(map(plain_label, label))
    return label if isinstance(label, str | bool | int | float) else str(label)


def versions_now() -> dict[str, str]:
    """Return the versions of the libraries that a result rests on."""
    return {
        "sklearn_dpwg": __version__,
        **{name: version(name) for name in ("opendp", "dp-accounting", "numpy", "scikit-learn")},
    }


# Checks of the parameters of an audit, before anything is read or spent.


def two_classes(classes: Any) -> tuple[Hashable, Hashable]:
    """Return the negative and the positive class."""
    is_listed = hasattr(classes, "__iter__") and not isinstance(classes, str | Set)
    listed = tuple(plain_label(one) for one in classes) if is_listed else ()
    if len(listed) > 2:
        raise InputError(
            f"classes must be two, got {len(listed)}: audit one class against the rest, by "
            f"y == class, its column of probabilities, and classes=(False, True)."
        )
    if len(listed) != 2 or same_text(listed) is not None:
        raise InputError(
            f"classes must be the negative and the positive class, in this order, which differ, "
            f"got {classes!r}."
        )
    return listed[0], listed[1]


def threshold_and_edges(threshold: Any, score_edges: Any) -> tuple[float, tuple[float, ...] | None]:
    """Return the threshold, and the inner edges of the bins with it among them."""
    if not _is_inside(threshold):
        raise InputError(
            f"threshold must be a number fixed in advance, above 0 and at most 1, got "
            f"{threshold!r}."
        )
    threshold = float(threshold)
    if score_edges is None:
        return threshold, None
    edges = tuple(score_edges) if np.iterable(score_edges) else ()
    if not edges or not all(map(_is_inside, edges)):
        raise InputError(f"score_edges must be numbers above 0 and at most 1, got {score_edges!r}.")
    inner = tuple(float(edge) for edge in edges)
    if list(inner) != sorted(set(inner)):
        raise InputError(f"score_edges must increase, got {score_edges!r}.")
    if threshold not in inner:
        raise InputError(
            f"score_edges must hold the threshold, {threshold!r}, got {score_edges!r}."
        )
    return threshold, inner


def _is_inside(value: Any) -> bool:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return is_number and 0.0 < float(value) <= 1.0


def left_out_by_name(
    group_labels: Sequence[Hashable],
    leave_out: Any,
    min_share: Any,
    reference: Hashable,
) -> tuple[list[Hashable], Hashable]:
    """Return the groups declared not to be judged, and the reference, as the labels are written."""
    if not np.iterable(leave_out):
        raise InputError(f"leave_out must be a sequence of labels of groups, got {leave_out!r}.")
    if not 0.0 <= real_number(min_share, "min_share") < 1.0:
        raise InputError(f"min_share must be at least 0 and below 1, got {min_share!r}.")

    def as_written(labels: list[Hashable], name: str) -> list[Hashable]:
        at = places(label_column(labels), group_labels).tolist()
        if -1 in at:
            wrong = labels[at.index(-1)]
            raise InputError(f"{name} must be of the groups {group_labels!r}, got {wrong!r}.")
        return [group_labels[place] for place in at]

    named: list[Hashable] = [leave_out] if isinstance(leave_out, str) else plain_list(leave_out)
    named = as_written(named, "leave_out")
    if reference is not None:
        (reference,) = as_written([reference], "reference")
        if reference in named:
            raise InputError(f"reference must be a group that is not left out, got {reference!r}.")
    if len(set(group_labels).difference(named)) < 2:
        raise InputError(
            f"leave_out must leave 2 of the groups {group_labels!r} at least, got {named!r}."
        )
    return named, reference


def check_choices(audit: Any, kind: Any) -> None:
    """Refuse wrong names and numbers, and a private audit of groups that nobody declared."""
    if kind not in ("scores", "decisions"):
        raise InputError(f"kind must be 'scores' or 'decisions', got {kind!r}.")
    if audit.sizes not in ("hidden", "public"):
        raise InputError(f"sizes must be 'hidden' or 'public', got {audit.sizes!r}.")
    open_unit(audit.confidence, "confidence")
    if audit.rows_per_person not in (None, 1):
        raise InputError(
            f"rows_per_person of an audit must be 1 or None, got {audit.rows_per_person!r}: keep "
            f"one row of each person, as preprocessing.bound_rows_per_person(..., k=1) does."
        )
    if audit.group_labels is not None:
        check_several(len(checked_labels(audit.group_labels)))
    elif audit.epsilon < math.inf:
        raise InputError(
            "group_labels must be declared where epsilon is finite, as labels that are found "
            "in the records would be released without noise, got None."
        )


def check_several(n_groups: int) -> None:
    """Refuse a single group."""
    if n_groups < 2:
        raise InputError(
            f"group_labels must name at least two groups, as one has no ratio, got {n_groups}."
        )


# Fields of a file, each checked as it is read; of what has another type `read_json` says so.


def value_to_plain(value: Any) -> Any:
    """Return a guarantee or a law of noise as JSON holds it."""
    return json.loads(value.to_json()) if isinstance(value, PrivacyGuarantee) else asdict(value)


def label_to_plain(label: Hashable) -> Any:
    """Return a label as JSON holds it, which knows no tuples."""
    if isinstance(label, tuple):
        return {"tuple": [label_to_plain(part) for part in label]}
    return label


def _typed(value: Any, *kinds: type) -> Any:
    if type(value) not in kinds:
        raise TypeError
    return value


def _label(plain: Any) -> Hashable:
    if isinstance(plain, dict):
        return tuple(map(_label, _typed(plain["tuple"], list)))
    if isinstance(plain, float) and not math.isfinite(plain):
        raise TypeError
    label: Hashable = _typed(plain, str, bool, int, float)
    return label


def _labels(plain: Any, name: str) -> tuple[Hashable, ...]:
    labels = tuple(map(_label, _typed(plain, list)))
    if not labels or same_text(labels) is not None:
        raise InputError(f"{name} must be labels that differ, got {plain!r}.")
    return labels


def _counts(plain: Any, name: str, depth: int = 3) -> Any:
    """Return nested lists of whole numbers as tuples."""
    if depth:
        return tuple(_counts(one, name, depth - 1) for one in _typed(plain, list))
    if abs(whole_number(plain, name, least=-math.inf)) > 10**15:
        raise InputError(f"{name} must be at most 1e15, got {plain}.")
    return int(plain)


def _edges(plain: Any, _: str) -> tuple[float, ...] | None:
    return threshold_and_edges(_typed(plain, list)[0], plain)[1]


_MAY_BE_NULL = ("noise", "sizes", "threshold", "score_edges", "model_privacy_", "n_records")
_READERS: dict[str, Callable[[Any, str], Any]] = {
    "group_labels": _labels,
    "classes": lambda plain, name: two_classes(_labels(plain, name)),
    "counts": _counts,
    "noise": lambda plain, _: IntegerNoise(plain["mechanism"], plain["scale"]),
    "sizes": lambda plain, name: tuple(whole_number(one, name, least=0) for one in plain),
    "threshold": lambda plain, _: threshold_and_edges(plain, None)[0],
    "score_edges": _edges,
    "confidence": open_unit,
    "versions": lambda plain, _: {name: _typed(one, str) for name, one in plain.items()},
    "epsilon": lambda plain, _: Budget(math.inf if plain == "inf" else plain, 0.5).epsilon,
}
_READERS |= dict.fromkeys(("group_name", "created"), lambda plain, _: _typed(plain, str))
_READERS |= dict.fromkeys(("n_cells", "n_records"), partial(whole_number, least=1))
_READERS |= dict.fromkeys(
    ("privacy_", "model_privacy_"),
    lambda plain, _: PrivacyGuarantee.from_json(json.dumps(plain)),
)


def read_field(name: str, plain: Any) -> Any:
    """Return the value of a field of a result, checked."""
    return None if plain is None and name in _MAY_BE_NULL else _READERS[name](plain, name)
