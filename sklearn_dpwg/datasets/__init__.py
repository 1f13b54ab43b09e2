"""Data to learn from and to measure on, with everything public about them said in advance.

Real data sets have a file of public facts each, written before anybody looked; records are read
from installed packages, as no data are shipped. Made ones have a known optimum.
"""

from sklearn_dpwg.datasets.generators import make_worst_group_classification
from sklearn_dpwg.datasets.load import dataset_names, load_dataset

__all__ = ["dataset_names", "load_dataset", "make_worst_group_classification"]
