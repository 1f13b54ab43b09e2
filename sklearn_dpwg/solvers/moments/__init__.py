"""Regression for the worst-off group from noisy second moments.

A group's risk under the squared error is a quadratic function of the weights. A round releases the
second moments of every group's rows and residuals with Gaussian noise, once; what noise explains is
shrunk away, and the exact minimax optimum of the quadratics that are left is the answer. Later
rounds are about the shorter residuals of the weights found so far. Proofs are in
``docs/theory/moments.md``; records meet noise in ``releases.py`` and nowhere else.
"""

from sklearn_dpwg.solvers.moments.moments import Moments

__all__ = ["Moments"]
