"""Results of audits as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from dataclasses import asdict, fields
from importlib.metadata import version
from typing import Any

import numpy as np

from sklearn_dpwg.inspection.loss_sums import LossSums
from sklearn_dpwg.privacy import IntegerNoise, PrivacyGuarantee

_PLAIN = (
    "group_name",
    "threshold",
    "confidence",
    "created",
    "n_cells",
)


def plain_label(label: Any) -> Hashable:
    """Return a label as JSON can hold it: plain values and tuples of them, the rest as text."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, tuple):
        return tuple(plain_label(part) for part in label)
    return label if isinstance(label, str | bool | int | float) else str(label)


def result_to_dict(result: Any) -> dict[str, Any]:
    """Return plain values."""
    plain: dict[str, Any] = {name: getattr(result, name) for name in _PLAIN}
    plain["epsilon"] = "inf" if math.isinf(result.epsilon) else result.epsilon
    for name in ("privacy_", "model_privacy_"):
        guarantee = getattr(result, name)
        plain[name] = None if guarantee is None else json.loads(guarantee.to_json())
    noise = result.noise
    edges = result.score_edges
    return plain | {
        "group_labels": [_label_to_plain(label) for label in result.group_labels],
        "classes": [_label_to_plain(label) for label in result.classes],
        "counts": [[list(row) for row in table] for table in result.counts],
        "sizes": None if result.sizes is None else list(result.sizes),
        "score_edges": None if edges is None else list(edges),
        "noise": noise and {field.name: getattr(noise, field.name) for field in fields(noise)},
        "versions": dict(result.versions),
        "losses": [asdict(loss) for loss in result.losses],
    }


def result_from_dict(described: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the result that `result_to_dict` described."""
    found: dict[str, Any] = {name: described[name] for name in _PLAIN}
    found["epsilon"] = float(described["epsilon"])
    for name in ("privacy_", "model_privacy_"):
        one = described[name]
        found[name] = None if one is None else PrivacyGuarantee.from_json(json.dumps(one))
    for name in ("group_labels", "classes"):
        found[name] = tuple(_label_from_plain(label) for label in described[name])
    for name in ("sizes", "score_edges"):
        found[name] = None if described[name] is None else tuple(described[name])
    noise = described["noise"]
    return found | {
        "counts": tuple(tuple(map(tuple, table)) for table in described["counts"]),
        "noise": None if noise is None else IntegerNoise(**noise),
        "versions": dict(described["versions"]),
        "losses": tuple(_loss_from_plain(loss) for loss in described["losses"]),
    }


def _label_to_plain(label: Hashable) -> Any:
    if isinstance(label, tuple):
        return {"tuple": [_label_to_plain(part) for part in label]}
    return label


def _loss_from_plain(plain: dict[str, Any]) -> LossSums:
    sums, squares = tuple(plain["sums"]), tuple(plain["squares"])
    return LossSums(**(plain | {"sums": sums, "squares": squares}))


def _label_from_plain(plain: Any) -> Hashable:
    if isinstance(plain, dict):
        return tuple(_label_from_plain(part) for part in plain["tuple"])
    found: Hashable = plain
    return found


def versions_now() -> dict[str, str]:
    """Return the versions of the libraries that a result rests on."""
    return {
        "sklearn_dpwg": version("sklearn-dpwg"),
        **{name: version(name) for name in ("opendp", "dp-accounting", "numpy", "scikit-learn")},
    }
