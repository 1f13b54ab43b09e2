"""Transformers that learn nothing from the records, or pay for what they learn.

An ordinary ``StandardScaler`` or imputer in front of a private model reads every record and is
outside its guarantee. `BoundedScaler` scales by stated bounds, which is free; `DPStandardScaler`
releases means and variances with noise and states what that costs. Categories are free too where
they are stated: scikit-learn's ``OneHotEncoder(categories=...)``.
"""

from sklearn_dpwg.preprocessing.bounded_scaler import BoundedScaler
from sklearn_dpwg.preprocessing.dp_standard_scaler import DPStandardScaler

__all__ = ["BoundedScaler", "DPStandardScaler"]
