"""Sensitivities of what solvers release, in closed form.

A sensitivity is the largest L2 distance between the outputs on two data sets that differ in one
record of one group. Everything here is a function of public numbers: sizes, constants of the
loss, strengths of the regularisation, norms. ``docs/theory/phased-erm-sensitivity.md`` and
``docs/theory/moments.md`` have the proofs.
"""

from sklearn_dpwg.privacy.sensitivity._lemma3 import lemma3_sensitivity
from sklearn_dpwg.privacy.sensitivity._moments import moment_sensitivity
from sklearn_dpwg.privacy.sensitivity._saddle_point import saddle_point_sensitivity

__all__ = ["lemma3_sensitivity", "moment_sensitivity", "saddle_point_sensitivity"]
