"""Fits and predictions of records in partitions: a `Source`, or collections of dask.

What is known of each partition is gathered first, without its rows; plan and warnings follow from
it as they do in memory. Then each partition becomes a block, and all are proved sound before the
first draw. Rows stay where they are.
"""
