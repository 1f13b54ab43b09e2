"""Effects that may only rise, or only fall: released weights moved as little as that takes."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
from scipy.optimize import nnls

from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.preprocessing.shapes import parts_of


def monotone(model: Any, effects: Mapping[str, int], schema: Any = None) -> Any:
    """Return a copy of a model in which some effects only rise or only fall.

    Parameters
    ----------
    model : pipeline or estimator
        A fitted pipeline of a `PublicSchema` or `PublicShapes` and a linear model with one score.
    effects : mapping from column name to 1 or -1
        1 for a number, date or order whose effect may only rise, -1 for one that may only fall.
    schema : transformer, optional
        What stands in front of the model, where that is no pipeline.

    Returns
    -------
    pipeline or estimator
        A copy with other weights; what it cost is what the model cost.

    Raises
    ------
    ValueError
        If a column is unknown or has no order, or a model has several scores.
    TypeError
        If there is no transformer, or no fitted model.

    See Also
    --------
    sklearn_dpwg.inspection.ShapeDisplay : Shows the effects.

    Notes
    -----
    The weights of a column move to the nearest ones, in norm, with that sign on every piece: a
    projection onto a cone, made of released weights alone. Where the truth is monotone it brings no
    column's weights farther from those of the truth.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_dpwg import DPWorstGroupClassifier
    >>> from sklearn_dpwg.inspection import shape_functions
    >>> from sklearn_dpwg.postprocessing import monotone
    >>> from sklearn_dpwg.preprocessing import PublicShapes
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.uniform(0, 10, (2000, 1)), rng.choice(["a", "b"], 2000)
    >>> y = X[:, 0] + 3.0 * rng.normal(size=2000) > 5.0
    >>> model = make_pipeline(PublicShapes((0, 10)), DPWorstGroupClassifier(0.3, data_norm=1.0))
    >>> model = model.fit(X, y, dpworstgroupclassifier__groups=groups)
    >>> rising = monotone(model, {"x0": 1})
    >>> bool((np.diff(shape_functions(rising)[0].effects) > -1e-9).all())
    True
    """
    bent = deepcopy(model)
    inner, schema = parts_of(bent, schema)
    weights = np.array(np.atleast_2d(inner.coef_), dtype=np.float64)
    if len(weights) > 1:
        raise InputError(f"model must have one score, got {len(weights)}: one a class.")
    columns = {one.name: one for one in schema._seen()}
    for name, sign in effects.items():
        if name not in columns:
            raise InputError(f"effects must be of columns {list(columns)!r}, got {name!r}.")
        if sign not in (1, -1):
            raise InputError(f"effects must be 1 or -1, got {sign!r} for {name!r}.")
        if not (one := columns[name]).has_order:
            raise InputError(f"effects must be of numbers, dates or orders, got {name!r}.")
        if any(name in each.of for each in columns.values()):
            raise InputError(f"effects must be of columns without interactions, got {name!r}.")
        # the nearest weights for which no step falls are w + Aᵀν for the best ν at least 0
        steps = sign * np.diff(one.rows[: one.n_known], axis=0)
        steps = np.unique(steps / np.linalg.norm(steps, axis=1, keepdims=True), axis=0)
        moved, _ = nnls(steps.T, -weights[0, one.columns])
        weights[0, one.columns] += steps.T @ moved
    inner.coef_ = weights.reshape(np.shape(inner.coef_))
    return bent
