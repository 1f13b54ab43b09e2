"""Records on disk, read in parts: a fit needs memory for one part, not for all of them.

`ParquetSource` names columns of Parquet files, `ArraySource` arrays that may be memory-mapped.
Either is passed to ``fit`` in place of X, y and groups. Parts are read once, encoded, sorted by
group and, where ``spool`` names a directory, kept there and mapped, so that every further pass runs
at the speed of memory.
"""

from sklearn_dpwg.data.sources.parquet import ParquetSource
from sklearn_dpwg.data.sources.source import ArraySource, group_sizes

__all__ = ["ArraySource", "ParquetSource", "group_sizes"]
