"""Audit results as JSON, and back: each field is checked as it is read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict
from typing import Any

from sklearn_dpwg._checks import open_unit, read_json, whole_number
from sklearn_dpwg.data.frames import same_text
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection.audit_rows import threshold_and_edges, two_classes
from sklearn_dpwg.privacy import Budget, IntegerNoise, PrivacyGuarantee

Plain = dict[str, Any]


def to_json(values: Plain) -> str:
    """Return the fields of a result as a JSON object."""
    values = values | {"epsilon": "inf" if math.isinf(values["epsilon"]) else values["epsilon"]}
    for name in ("group_labels", "classes"):
        values[name] = [_label_to_plain(label) for label in values[name]]
    return json.dumps(values, allow_nan=False, indent=1, default=_to_plain)


def from_json(kind: type, text: str, names: Sequence[str]) -> Plain:
    """Return the fields of a result, of these names, each checked."""
    with read_json(kind, text, names) as plain:
        found: Plain = {
            name: None if plain[name] is None and name in _MAY_BE_NULL else read(plain[name], name)
            for name, read in _READERS.items()
        }
        found["threshold"], found["score_edges"] = _threshold_and_edges(plain)
        _check_counts(plain, len(found["group_labels"]))
        spent = found["privacy_"].epsilon
        if found["model_privacy_"] is None and found["epsilon"] < spent * (1.0 - 1e-6):
            raise InputError(f"epsilon must be at least what was spent, {spent!r}.")
        counts = plain["counts"]
        return found | {"counts": tuple(tuple(map(tuple, table)) for table in counts)}


def _to_plain(value: Any) -> Any:
    return json.loads(value.to_json()) if isinstance(value, PrivacyGuarantee) else asdict(value)


def _label_to_plain(label: Hashable) -> Any:
    if isinstance(label, tuple):
        return {"tuple": [_label_to_plain(part) for part in label]}
    return label


def _label_from_plain(plain: Any) -> Hashable:
    if isinstance(plain, dict) and list(plain) == ["tuple"] and isinstance(plain["tuple"], list):
        return tuple(map(_label_from_plain, plain["tuple"]))
    if not isinstance(plain, str | bool | int | float) or (
        isinstance(plain, float) and not math.isfinite(plain)
    ):
        raise InputError(f"group_labels and classes must be texts or numbers, got {plain!r}.")
    return plain


def _labels(plain: Any, name: str) -> tuple[Hashable, ...]:
    labels = tuple(map(_label_from_plain, _list(plain, name)))
    if not labels or same_text(labels) is not None:
        raise InputError(f"{name} must be labels that differ, got {plain!r}.")
    return labels


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list, got {value!r}.")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, got {value!r}.")
    return value


def _whole(value: Any, name: str) -> int:
    return whole_number(value, name, least=1)


def _sizes(plain: Any, name: str) -> tuple[int, ...]:
    return tuple(whole_number(one, name, least=0) for one in _list(plain, name))


def _noise(plain: Any, name: str) -> IntegerNoise:
    if not isinstance(plain, dict) or set(plain) != {"mechanism", "scale"}:
        raise InputError(f"{name} must have a mechanism and a scale, got {plain!r}.")
    return IntegerNoise(**plain)


def _guarantee(plain: Any, name: str) -> PrivacyGuarantee:
    return PrivacyGuarantee.from_json(json.dumps(plain))


def _versions(plain: Any, name: str) -> dict[str, str]:
    if not isinstance(plain, dict):
        raise InputError(f"{name} must be texts by name, got {plain!r}.")
    return {library: _text(one, name) for library, one in plain.items()}


def _epsilon(plain: Any, name: str) -> float:
    return Budget(math.inf if plain == "inf" else plain, 0.5).epsilon


def _classes(plain: Any, name: str) -> tuple[Hashable, Hashable]:
    return two_classes(tuple(map(_label_from_plain, _list(plain, name))))


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "group_labels": _labels,
    "group_name": _text,
    "classes": _classes,
    "noise": _noise,
    "sizes": _sizes,
    "confidence": open_unit,
    "privacy_": _guarantee,
    "model_privacy_": _guarantee,
    "created": _text,
    "versions": _versions,
    "n_cells": _whole,
    "epsilon": _epsilon,
    "n_records": _whole,
}
_MAY_BE_NULL = ("noise", "sizes", "model_privacy_", "n_records")


def _threshold_and_edges(plain: Plain) -> tuple[float | None, tuple[float, ...] | None]:
    threshold, edges = plain["threshold"], plain["score_edges"]
    if threshold is None:
        if edges is not None:
            raise InputError(f"score_edges must be null where threshold is, got {edges!r}.")
        return None, None
    return threshold_and_edges(threshold, None if edges is None else _list(edges, "score_edges"))


def _check_counts(plain: Plain, n_groups: int) -> None:
    """Refuse counts that are not of all groups, by class and bin."""
    counts, edges, sizes = plain["counts"], plain["score_edges"], plain["sizes"]
    n_bins = 2 if edges is None else len(edges) + 1
    tables = _list(counts, "counts")
    n_classes = {len(table) if isinstance(table, list) else 0 for table in tables}
    rows = [row for table in tables if isinstance(table, list) for row in table]
    are_rows = all(isinstance(row, list) and len(row) == n_bins for row in rows)
    if len(tables) != n_groups or n_classes not in ({1}, {2}) or not are_rows:
        raise InputError(
            f"counts must be of {n_groups} groups by class, each of {n_bins} bins, and are not."
        )
    for row in rows:
        for count in row:
            whole_number(count, "counts", least=-(10**15))
            if count > 10**15:
                raise InputError(f"counts must be at most 1e15, got {count}.")
    if sizes is not None and len(sizes) != n_groups:
        raise InputError(f"sizes must be of {n_groups} groups, got {len(sizes)}.")
