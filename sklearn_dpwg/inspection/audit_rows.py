"""Rows of an audit as codes: groups, classes, predictions and bins of scores."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from importlib.metadata import version
from numbers import Real
from typing import Any
from uuid import uuid4

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from sklearn_dpwg._checks import FloatArray, open_unit, real_number
from sklearn_dpwg._version import __version__
from sklearn_dpwg.data.frames import (
    checked_labels,
    label_column,
    places,
    plain,
    plain_list,
    same_rows,
    same_text,
)
from sklearn_dpwg.data.groups import GroupBy, encode_groups, names_of_columns, select_groups
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.ledger.costs import Holdings, StartCost, holdings_of
from sklearn_dpwg.privacy import PrivacyGuarantee

Codes = NDArray[np.signedinteger[Any]]
# Rows that are read at a time: a few megabytes of labels.
_BLOCK = 50_000

# Models whose predictions are counted together: from six on, noise on so many joint counts is
# louder than that of an audit each.
_MOST_MODELS = 5


def group_codes(
    groups: Any,
    n_records: int,
    group_labels: Sequence[Hashable] | None,
    group_by: GroupBy | None,
) -> tuple[Codes, tuple[Hashable, ...]]:
    """Return the position of each record's group among the labels, and these."""
    if groups is None:
        raise InputError(
            "groups must be passed: labels, columns of them, or rows in which group_by finds them."
        )
    if group_by is not None:
        groups = select_groups(groups, group_by)
    codes, labels = encode_groups(groups, n_records, group_labels, may_be_empty=True)
    return codes.astype(np.int32), tuple(labels)


def blocks(n_records: int) -> Iterator[slice]:
    """Yield slices of so many rows that what is computed of them needs little memory."""
    for start in range(0, n_records, _BLOCK):
        yield slice(start, min(start + _BLOCK, n_records))


def group_name(groups: Any, group_by: GroupBy | None) -> str:
    """Say what the groups are made of: names of columns, or just "group"."""
    return " and ".join(map(str, names_of_columns(groups, group_by))) or "group"


def class_codes(values: Any, classes: tuple[Hashable, Hashable], name: str) -> NDArray[np.bool_]:
    """Return whether each value is the second class."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InputError(f"{name} must have one entry a record, got shape {array.shape}.")
    at = places(array, classes)
    known = at >= 0
    if not known.all():
        what = "classes" if name == "y_true" else "decisions"
        differ = "are missing" if pd.isna(array[~known]).any() else "differ"
        hint = "classes=(negative, positive) names others"
        if name != "y_true":
            hint += ", and of scores say kind='scores'"
        raise InputError(
            f"{name} must hold the {what} {classes[0]!r} and {classes[1]!r} alone, and some values "
            f"{differ}; {hint}."
        )
    return np.asarray(at == 1)


def scores_of(values: Any, n_records: int, name: str) -> FloatArray:
    """Return the score in [0, 1] of each record, of two columns the second."""
    scores = np.asarray(values)
    if scores.dtype.kind not in "fiu":
        raise InputError(
            f"{name} must be numbers, of classes say kind='decisions', got {scores.dtype}."
        )
    if scores.ndim == 2 and scores.shape[1] == 2:
        scores = scores[:, 1]
    if scores.shape != (n_records,):
        raise InputError(
            f"{name} must have one entry a record: got shape {scores.shape} for {n_records} "
            f"records."
        )
    found = scores.astype(np.float64, copy=False)
    if not ((found >= 0.0) & (found <= 1.0)).all():
        raise InputError(
            f"{name} must be probabilities between 0 and 1, and some are "
            f"{'missing' if np.isnan(found).any() else 'not'}; of classes say kind='decisions'."
        )
    return found


def is_selected(
    values: Any,
    n_records: int,
    classes: tuple[Hashable, Hashable],
    threshold: float | None,
    name: str,
) -> NDArray[np.bool_]:
    """Return whether each record is decided, or scored, to be of the second class."""
    if threshold is not None:
        return scores_of(values, n_records, name) >= threshold
    array = np.asarray(values)
    if array.shape != (n_records,):
        raise InputError(
            f"{name} must have one entry a record: got shape {array.shape} for {n_records} records."
        )
    return class_codes(array, classes, name)


def n_decided(scores: Any) -> int:
    """Return of how many records there are scores, of the first model if of several."""
    one = next(iter(scores.values()), ()) if isinstance(scores, Mapping) else scores
    shape = np.asarray(one).shape
    if not shape:
        raise InputError("scores must have one entry a record, got shape ().")
    return shape[0]


def joint_bins(
    scores: Mapping[str, ArrayLike],
    n_records: int,
    classes: tuple[Hashable, Hashable],
    threshold: float | None,
) -> NDArray[np.int8]:
    """Return the decisions of several models as the digits of a binary number."""
    if not 1 <= len(scores) <= _MOST_MODELS:
        raise InputError(
            f"scores must be of at most {_MOST_MODELS} models at once, got {len(scores)}."
        )
    bins = np.zeros(n_records, dtype=np.int8)
    for digit, (name, one) in enumerate(scores.items()):
        selected = is_selected(one, n_records, classes, threshold, f"scores of {name!r}")
        bins += selected.astype(np.int8) << digit
    return bins


@dataclass(frozen=True)
class AuditedRows:
    """Records as codes: group, class, bin of scores or joint predictions."""

    codes: Codes
    labels: tuple[Hashable, ...]
    sizes: tuple[int, ...]
    positive: NDArray[np.bool_] | None
    bins: NDArray[Any]
    n_bins: int
    names: tuple[str, ...] = ("",)

    @property
    def n_models(self) -> int:
        """How many models were audited at once."""
        return len(self.names)

    @property
    def n_cells(self) -> int:
        """Of how many noisy counts those of one model are sums."""
        return int(2 ** (self.n_models - 1))

    def counts(self) -> NDArray[np.int64]:
        """Return the exact counts by group, class and bin: a record is in one of them.

        Without outcomes all records count as of one class.
        """
        n_bins = self.n_bins
        shape = (len(self.labels), 1 if self.positive is None else 2, n_bins)
        counts = np.zeros(math.prod(shape), dtype=np.int64)
        for rows in blocks(len(self.codes)):
            cells = self.codes[rows].astype(np.intp) * (shape[1] * n_bins)
            if self.positive is not None:
                cells += self.positive[rows] * n_bins
            cells += self.bins[rows]
            counts += np.bincount(cells, minlength=counts.size)
        return counts.reshape(shape)

    def of_models(self, counts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the counts of each model, of joint ones."""
        if self.n_models == 1:
            return [counts]
        joint = counts.reshape(*counts.shape[:2], *[2] * self.n_models)
        places = range(2, 2 + self.n_models)
        # the prediction of the first model is the last binary digit
        return [
            joint.sum(axis=tuple(other for other in places if other != place))
            for place in reversed(places)
        ]


# The guarantee of a model that was fitted to the records of an audit.


def holdings_of_model(
    same_records_as: Any, model: Any, n_records: int, *, is_private: bool
) -> Holdings:
    """Return what the model that saw these records cost, or nothing where it saw others.

    A model that was fitted to just as many records, which is public, most likely saw these: then
    one has to say so, or say that it did not.
    """
    nothing = Holdings((), None, ())
    if same_records_as is False:
        return nothing
    if same_records_as is None:
        if is_private and n_records in _numbers_fitted(model):
            raise InputError(
                f"same_records_as must be the model where it was fitted to these records, or False "
                f"where it was not, got None for a model that was fitted to as many, {n_records:,}."
            )
        return nothing
    if isinstance(same_records_as, PrivacyGuarantee):
        stated = StartCost(uuid4().hex, "stated", same_records_as)
        return Holdings((stated,), same_records_as, same_records_as.outside)
    if same_records_as is True:
        if model is None:
            raise InputError(
                "same_records_as must be the model or its guarantee where no model is passed, got "
                "True."
            )
        same_records_as = model
    found = holdings_of(same_records_as)
    if found.guarantee is None:
        name = type(same_records_as).__name__
        raise InputError(f"same_records_as holds no private fit, got {name}.")
    return found


def n_records_of(model: Any) -> int:
    """Return how many records a model was fitted to, whose groups may overlap or be hidden."""
    problem = getattr(getattr(model, "plan_", None), "problem", None)
    if problem is not None and (problem.cells is not None or problem.hidden is not None):
        return int(problem.n_records)
    return round(float(np.sum(model.group_sizes_)))


def _numbers_fitted(model: Any) -> set[int]:
    """Return to how many records a model, and whatever is inside it, was fitted where they tell."""
    numbers = set()
    if hasattr(model, "_n_records"):
        numbers.add(int(model._n_records))
    if hasattr(model, "group_sizes_"):
        numbers.add(n_records_of(model))
    inner = [step for _, step in getattr(model, "steps", ())]
    names = ("best_estimator_", "estimator_", "estimator")
    inner += [getattr(model, name) for name in names if hasattr(model, name)]
    return numbers.union(*map(_numbers_fitted, inner))


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
    if isinstance(classes, Set):
        raise InputError(f"classes must have an order, negative before positive, got {classes!r}.")
    is_listed = hasattr(classes, "__iter__") and not isinstance(classes, str)
    found = tuple(plain_label(one) for one in classes) if is_listed else ()
    if len(found) > 2:
        raise InputError(
            f"classes must be two, got {len(found)}: audit one class against the rest, by "
            f"y == class, its column of probabilities, and classes=(False, True)."
        )
    if len(found) != 2 or same_text(found) is not None:
        raise InputError(
            f"classes must be the negative and the positive class, which differ, got {classes!r}."
        )
    return found[0], found[1]


def threshold_and_edges(threshold: Any, score_edges: Any) -> tuple[float, tuple[float, ...] | None]:
    """Return the threshold, and the inner edges of the bins with it among them."""
    if isinstance(threshold, str):
        raise InputError(
            f"threshold must be a number fixed in advance, got {threshold!r}, which depends on "
            f"private scores."
        )
    if not _is_inside(threshold):
        raise InputError(f"threshold must be above 0 and at most 1, got {threshold!r}.")
    threshold = float(threshold)
    if score_edges is None:
        return threshold, None
    edges: tuple[Any, ...] = (
        tuple(score_edges) if hasattr(score_edges, "__iter__") else (score_edges,)
    )
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
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return 0.0 < float(value) <= 1.0


def smallest_ratio(at_least: Any) -> float:
    """Return what impact ratios are held against."""
    ratio = real_number(at_least, "at_least")
    if not 0.0 < ratio <= 1.0:
        raise InputError(f"at_least must be above 0 and at most 1, got {at_least!r}.")
    return ratio


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
    check_several(len(group_labels))
    group_labels = list(group_labels)
    named: list[Hashable] = [leave_out] if isinstance(leave_out, str) else plain_list(leave_out)
    compared = [] if reference is None else [reference]
    for name, labels in (("leave_out", named), ("reference", compared)):
        for place, at in enumerate(places(label_column(labels), group_labels)):
            if at < 0:
                raise InputError(
                    f"{name} must be of the groups {group_labels!r}, got {labels[place]!r}."
                )
            labels[place] = group_labels[at]
    reference = compared[0] if compared else None
    if reference is not None and reference in named:
        raise InputError(f"reference must be a group that is not left out, got {reference!r}.")
    if len(set(group_labels).difference(named)) < 2:
        raise InputError(
            f"leave_out must leave 2 of the groups {group_labels!r} at least, got {named!r}."
        )
    return named, reference


def check_choices(audit: Any, kind: Any) -> None:
    """Refuse wrong names and numbers."""
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


def check_labels(group_labels: Any, *, is_private: bool) -> None:
    """Refuse a private audit of groups that nobody declared, and one of a single group."""
    if group_labels is None:
        if is_private:
            raise InputError(
                "group_labels must be declared where epsilon is finite, as labels that are found "
                "in the records would be released without noise, got None."
            )
        return
    check_several(len(checked_labels(group_labels)))


def check_several(n_groups: int) -> None:
    """Refuse a single group."""
    if n_groups < 2:
        raise InputError(
            f"group_labels must name at least two groups, as one has no ratio, got {n_groups}."
        )


def check_same_records(y_true: Any, scores: Any, groups: Any) -> None:
    """Refuse what would be computed into memory without a word, and rows that are not paired."""
    of_models = {"scores": scores}
    if isinstance(scores, Mapping):
        of_models = {f"scores[{name!r}]": each for name, each in scores.items()}
    same_rows(y_true=y_true, groups=groups, **of_models)
