"""Checks of the parameters of an audit, before anything is read or spent."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Set
from numbers import Real
from typing import Any

from sklearn_dpwg._checks import open_unit, real_number, whole_number
from sklearn_dpwg._lazy_data import refuse_lazy
from sklearn_dpwg.inspection._audited_losses import LOSSES
from sklearn_dpwg.inspection._result_files import plain_label


def two_classes(classes: Any) -> tuple[Hashable, Hashable]:
    """Return the negative and the positive class."""
    if isinstance(classes, Set):
        raise ValueError(f"classes must have an order, negative before positive, got {classes!r}.")
    is_listed = hasattr(classes, "__iter__") and not isinstance(classes, str)
    found = tuple(plain_label(one) for one in classes) if is_listed else ()
    if len(found) > 2:
        raise ValueError(
            f"classes must be two, got {len(found)}: audit one class against the rest, by "
            f"y == class, its column of probabilities, and classes=(False, True)."
        )
    if len(found) != 2 or found[0] == found[1]:
        raise ValueError(
            f"classes must be the negative and the positive class, which differ, got {classes!r}."
        )
    return found[0], found[1]


def threshold_and_edges(threshold: Any, score_edges: Any) -> tuple[float, tuple[float, ...] | None]:
    """Return the threshold, and the inner edges of the bins with it among them."""
    if isinstance(threshold, str):
        raise ValueError(
            f"threshold must be a number fixed in advance, got {threshold!r}, which depends on "
            f"private scores."
        )
    if not _is_inside(threshold):
        raise ValueError(f"threshold must be above 0 and at most 1, got {threshold!r}.")
    threshold = float(threshold)
    if score_edges is None:
        return threshold, None
    edges: tuple[Any, ...] = (
        tuple(score_edges) if hasattr(score_edges, "__iter__") else (score_edges,)
    )
    if not edges or not all(map(_is_inside, edges)):
        raise ValueError(f"score_edges must be numbers above 0 and at most 1, got {score_edges!r}.")
    inner = tuple(float(edge) for edge in edges)
    if list(inner) != sorted(set(inner)):
        raise ValueError(f"score_edges must increase, got {score_edges!r}.")
    if threshold not in inner:
        raise ValueError(
            f"score_edges must hold the threshold, {threshold!r}, got {score_edges!r}."
        )
    return threshold, inner


def _is_inside(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return 0.0 < float(value) <= 1.0


def loss_names(losses: Any) -> tuple[str, ...]:
    """Return the losses by name."""
    if not isinstance(losses, str) and not hasattr(losses, "__iter__"):
        raise TypeError(f"losses must be some of {', '.join(LOSSES)}, got {losses!r}.")
    names = (losses,) if isinstance(losses, str) else tuple(losses)
    for name in names:
        if name not in LOSSES:
            raise ValueError(f"losses must be some of {', '.join(LOSSES)}, got {name!r}.")
    if len(set(names)) < len(names):
        raise ValueError(f"losses must differ, got {losses!r}.")
    return names


def smallest_ratio(at_least: Any) -> float:
    """Return what impact ratios are held against."""
    ratio = real_number(at_least, "at_least")
    if not 0.0 < ratio <= 1.0:
        raise ValueError(f"at_least must be above 0 and at most 1, got {at_least!r}.")
    return ratio


def check_choices(audit: Any) -> None:
    """Refuse wrong names and numbers."""
    if audit.sizes not in ("hidden", "public"):
        raise ValueError(f"sizes must be 'hidden' or 'public', got {audit.sizes!r}.")
    if audit.mechanism not in ("auto", "laplace", "gaussian"):
        raise ValueError(
            f"mechanism must be 'auto', 'laplace' or 'gaussian', got {audit.mechanism!r}."
        )
    open_unit(audit.confidence, "confidence")
    whole_number(audit.n_audits, "n_audits", least=1)


def check_labels(group_labels: Any, *, is_private: bool) -> None:
    """Refuse a private audit of groups that nobody declared, and one of a single group."""
    if group_labels is None:
        if is_private:
            raise ValueError(
                "group_labels must be declared where epsilon is finite, as labels that are found "
                "in the records would be released without noise, got None."
            )
        return
    labels = list(group_labels) if hasattr(group_labels, "__iter__") else []
    if isinstance(group_labels, str) or not labels:
        raise ValueError(
            f"group_labels must be a sequence of labels (tuples for several columns), got "
            f"{group_labels!r}."
        )
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"group_labels must name each group once, got {label!r} twice.")
    check_several(len(labels))


def check_several(n_groups: int) -> None:
    """Refuse a single group."""
    if n_groups < 2:
        raise ValueError(
            f"group_labels must name at least two groups, as one has no ratio, got {n_groups}."
        )


def refuse_lazy_data(y_true: Any, scores: Any, groups: Any) -> None:
    """Refuse what would be computed into memory without a word."""
    of_models = scores if isinstance(scores, Mapping) else {"scores": scores}
    refuse_lazy(y_true=y_true, groups=groups, **{str(k): v for k, v in of_models.items()})
