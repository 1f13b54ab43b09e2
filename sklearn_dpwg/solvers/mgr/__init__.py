"""Noisy gradient descent with multiplicative group reweighting (Zhou and Bassily, Algorithm 3).

Every step releases the gradient of a weighted sum of the group risks, and the group risks, with
noise. The weights move against the gradient and stay in their ball (`heavy_ball`); the group
weights are multiplied by the exponential of the noisy risks and normalised. A step reads all
records or a Poisson batch, whichever the planning bound is less for. The average of the last
iterates is returned. Proofs are in ``docs/theory/mgr.md``; records meet noise in ``releases.py``
and nowhere else.
"""

from sklearn_dpwg.solvers.mgr.mgr import MGR

__all__ = ["MGR"]
