"""Transformers that learn nothing from the records, or pay for what they learn.

An ordinary ``StandardScaler`` or imputer in front of a private model reads every record and is
outside its guarantee. `PublicSchema` takes a raw table – text, dates, gaps – and encodes it by what
is declared of each column: a `Number`, a `Date`, an `Ordered` or `Boolean` one, a `Category`. That
is free, as is `BoundedScaler` for tables of numbers. `DPStandardScaler` releases means and
variances with noise and states what that costs.
"""

from sklearn_dpwg.preprocessing.columns import Boolean, Category, Date, Number, Ordered
from sklearn_dpwg.preprocessing.public_schema import PublicSchema
from sklearn_dpwg.preprocessing.rows_per_person import bound_rows_per_person
from sklearn_dpwg.preprocessing.scalers import BoundedScaler, DPStandardScaler
from sklearn_dpwg.preprocessing.shapes import PublicShapes

__all__ = [
    "Boolean",
    "BoundedScaler",
    "Category",
    "DPStandardScaler",
    "Date",
    "Number",
    "Ordered",
    "PublicSchema",
    "PublicShapes",
    "bound_rows_per_person",
]
