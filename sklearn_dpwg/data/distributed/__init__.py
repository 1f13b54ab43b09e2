"""Records on the workers of a dask cluster.

Fits take dask arrays and frames as they take arrays: workers hold the records and return sums, the
client adds the sums and alone draws noise. `options` says which cluster, and how long to wait.
"""

from sklearn_dpwg.data.distributed.dask_engine import options

__all__ = ["options"]
