"""Steps in front of a private model that learn from the records."""

from __future__ import annotations

from typing import Any

from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection

# Their fit looks at the number of columns alone.
_SHAPE_ONLY = (PolynomialFeatures, GaussianRandomProjection, SparseRandomProjection)
# They learn nothing where categories are stated; others, like TargetEncoder, do all the same.
_ENCODERS = (OneHotEncoder, OrdinalEncoder)


def learning_steps(step: Any) -> list[str]:
    """Return the class names of what may have learned from the records, or will, in a step.

    The step may be fitted or not. A ``FunctionTransformer``, and a function that chooses columns,
    is taken to treat every row by itself: what it does inside cannot be seen.
    """
    for name in ("steps", "transformers_", "transformers", "transformer_list"):
        if hasattr(step, name):
            inner = (part[1] for part in getattr(step, name))
            return [found for part in inner for found in learning_steps(part)]
    return [type(step).__name__] if _learns(step) else []


def _learns(step: Any) -> bool:
    if step is None or isinstance(step, str) or not getattr(step, "_learns_from_records", True):
        return False
    if isinstance(step, _SHAPE_ONLY):
        return False
    if isinstance(step, _ENCODERS) and isinstance(step.categories, list | tuple):
        # an encoder whose categories are stated, and which drops or unites none by their counts
        counted = ("min_frequency", "max_categories")
        return any(getattr(step, name, None) is not None for name in counted)
    tags = getattr(step, "__sklearn_tags__", None)
    return tags is None or bool(tags().requires_fit)
