"""Records on the workers of a dask cluster.

Fits take dask arrays and frames as they take arrays: workers hold the records and return sums, the
client adds the sums and alone draws noise. `options` says which cluster, and how long to wait.
"""

from sklearn_dpwg.distributed._collections import hold_collections, is_collection
from sklearn_dpwg.distributed._map_rows import map_rows
from sklearn_dpwg.distributed._options import Options, current_options, engine, options
from sklearn_dpwg.distributed.dask_engine import DaskEngine
from sklearn_dpwg.distributed.table_partition import TablePartition

__all__ = [
    "DaskEngine",
    "Options",
    "TablePartition",
    "current_options",
    "engine",
    "hold_collections",
    "is_collection",
    "map_rows",
    "options",
]
