"""PhasedERM: exact regularised minimax solutions, released with Gaussian noise.

Each phase solves the saddle point of the worst-group risk, regularised towards the weights that
the phase before released and towards a prior over groups; it releases its weights with noise for
the most that one record can move them. Between phases noisy group risks move the prior towards
the groups that do badly. The output is the average of the last phases. Theory:
docs/theory/phased-erm.md and phased-erm-sensitivity.md. A reader for privacy opens `releases.py`.
"""

from sklearn_dpwg.solvers.phased_erm.phased_erm import PhasedERM

__all__ = ["PhasedERM"]
