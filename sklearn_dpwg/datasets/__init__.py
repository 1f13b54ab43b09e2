"""Data to learn from and to measure on, with everything public about them said in advance.

A private estimator may use a fact about the data only if the fact is public or was paid for.
Scaling a column by its largest value is neither. So each data set here is an *entry*, a record of
constants written before anybody looks: the bounds of every column, the categories there can be, how
rows fall into groups, what a row is, and which columns are left out and why. :func:`load_dataset`
encodes the rows with the entry alone: every row comes out the same whatever the others are, with a
norm of at most ``data_norm``, so that an estimator given this bound never clips.

The files are read from installed packages, and no data are shipped or downloaded.

What real data cannot give is the true optimum. The generators do:
:func:`make_worst_group_regression` and :func:`make_worst_group_classification` choose the best
coefficients first and build groups around them, so the excess *population* risk of a fit is a
number and not an estimate. :func:`make_lower_bound` is the instance on which no private method can
do well.
"""

from sklearn_dpwg.datasets.entry import DatasetEntry
from sklearn_dpwg.datasets.generators import (
    make_worst_group_classification,
    make_worst_group_regression,
)
from sklearn_dpwg.datasets.load import dataset_names, load_dataset
from sklearn_dpwg.datasets.lower_bound import make_lower_bound
from sklearn_dpwg.datasets.population import Population

__all__ = [
    "DatasetEntry",
    "Population",
    "dataset_names",
    "load_dataset",
    "make_lower_bound",
    "make_worst_group_classification",
    "make_worst_group_regression",
]
