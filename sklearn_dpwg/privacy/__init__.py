"""Privacy as data: what is released, what it costs, what is promised, and the noise itself.

A `Release` states a mechanism, its noise in units of sensitivity and how often it is used. A
solver's plan is a tuple of releases; `calibrate` scales their noise to a `Budget` before any
record is read; a `NoiseSource` made from them adds the noise and refuses every draw that was not
paid for; and a `PrivacyGuarantee` states in numbers and words what follows from them. It names its
neighbours, a `Relation`; noise multipliers are always noise over the sensitivity Δ to them.
"""

from sklearn_dpwg.privacy.accounting.calibration import calibrate, epsilon_of
from sklearn_dpwg.privacy.guarantee import PrivacyGuarantee, joint_guarantee
from sklearn_dpwg.privacy.noise.integer_noise import IntegerNoise
from sklearn_dpwg.privacy.noise.source import NoiseSource
from sklearn_dpwg.privacy.release import Budget, Relation, Release

__all__ = [
    "Budget",
    "IntegerNoise",
    "NoiseSource",
    "PrivacyGuarantee",
    "Relation",
    "Release",
    "calibrate",
    "epsilon_of",
    "joint_guarantee",
]
