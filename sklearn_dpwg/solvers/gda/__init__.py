"""Noisy gradient descent–ascent on the group game (Kang et al., Algorithm 1).

Every step releases the gradient of a weighted sum of the group risks, and the group risks, with
noise, both at one point. The weights move against the gradient and stay in their ball, the group
weights move with the risks and are projected onto the simplex in Euclidean distance; averages are
returned. The loop is `sklearn_dpwg.minimax.descent_ascent`. Proofs are in ``docs/theory/gda.md``;
records meet noise in ``releases.py`` and nowhere else.
"""

from sklearn_dpwg.solvers.gda.gda import GDA

__all__ = ["GDA"]
