"""Noisy gradient descent on the group that looks worst off (Zhou and Bassily, Algorithm 5).

Every step releases the group risks with noise, takes the group whose running mean is the largest,
and steps along the noisy gradient of that group alone. A group can be taken so often and no more;
a record pays for the visits of its own group. Proofs are in ``docs/theory/ags.md``.
"""

from sklearn_dpwg.solvers.ags.ags import AGS

__all__ = ["AGS"]
