"""Data to learn from and to measure on, with everything public about them said in advance.

Each real data set is a file of constants, written before anybody looks, and :func:`load_dataset`
encodes its rows with these alone: every row comes out the same whatever the others are, with a
norm of at most ``data_norm``. Files are read from installed packages; no data are shipped.

What real data cannot give is the true optimum. The generators choose the best coefficients first
and build groups around them, so the excess *population* risk of a fit is a number and no estimate.
"""

from sklearn_dpwg.datasets.generators import (
    make_worst_group_classification,
    make_worst_group_regression,
)
from sklearn_dpwg.datasets.load import dataset_names, load_dataset
from sklearn_dpwg.datasets.lower_bound import make_lower_bound

__all__ = [
    "dataset_names",
    "load_dataset",
    "make_lower_bound",
    "make_worst_group_classification",
    "make_worst_group_regression",
]
