"""OnlineToBatch: the average risk of a stream, by noisy sums of gradient differences.

Every record is used once. The learner is told, in each round, the gradient of the whole risk at an
average of its own weights, kept up to date by differences that one record moves little, so that one
noisy prefix sum is as good as all records so far. It minimises the risk of one distribution, or of
a fixed mixture of groups: not that of the worst group. Theory: docs/theory/online-to-batch.md. A
reader for privacy opens `releases.py` and `sensitivity.py`.
"""

from sklearn_dpwg.solvers.online_to_batch.online_to_batch import OnlineToBatch

__all__ = ["OnlineToBatch"]
