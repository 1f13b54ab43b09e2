"""Privacy as data: what is released, what it costs, what is promised, and the noise itself.

A `Release` states a mechanism, its noise in units of sensitivity and how often it is used. A
solver's plan is a tuple of releases; `calibrate` scales their noise to a `Budget` before any
record is read; a `NoiseSource` made from them adds the noise and refuses every draw that was not
paid for; and a `PrivacyGuarantee` states in numbers and words what follows from them. It names its
neighbours, a `Relation`: most often data sets where one record of one group is replaced by another
record of the same group; noise multipliers are always noise over the sensitivity Δ to them.
Gaussian noise has a closed form (`gdp_delta`, `gdp_epsilon`, `gdp_mu`); the rest is accounted
for by dp_accounting's privacy-loss distributions (`delta_of`, `epsilon_of`), and what those do
not state tightly is refused. Sensitivities that take a proof (`saddle_point_sensitivity`,
`moment_sensitivity`) are functions of public numbers. `sklearn_dpwg.ledger` adds several fits up.
"""

from sklearn_dpwg.privacy.accounting import (
    calibrate,
    delta_of,
    epsilon_of,
    is_gaussian,
    part_events,
    predict_multiplier,
)
from sklearn_dpwg.privacy.gaussian import gdp_delta, gdp_epsilon, gdp_mu
from sklearn_dpwg.privacy.guarantee import PrivacyGuarantee, joint_guarantee
from sklearn_dpwg.privacy.noise import (
    LARGEST_QUOTIENT,
    SECONDS_PER_SECURE_CALL,
    SECONDS_PER_SECURE_COORDINATE,
    GaussianRows,
    IntegerNoise,
    NoiseSource,
    PoissonSample,
    noise_on_integers,
    poisson_sample,
)
from sklearn_dpwg.privacy.release import Budget, Draw, Relation, Release, check_delta
from sklearn_dpwg.privacy.sensitivity import (
    SumGrid,
    grid_step,
    hidden_group_sensitivities,
    lemma3_sensitivity,
    moment_sensitivity,
    record_rounding,
    saddle_point_sensitivities,
    saddle_point_sensitivity,
    summation_slack,
    weighting_slack,
)

__all__ = [
    "LARGEST_QUOTIENT",
    "SECONDS_PER_SECURE_CALL",
    "SECONDS_PER_SECURE_COORDINATE",
    "Budget",
    "Draw",
    "GaussianRows",
    "IntegerNoise",
    "NoiseSource",
    "PoissonSample",
    "PrivacyGuarantee",
    "Relation",
    "Release",
    "SumGrid",
    "calibrate",
    "check_delta",
    "delta_of",
    "epsilon_of",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "grid_step",
    "hidden_group_sensitivities",
    "is_gaussian",
    "joint_guarantee",
    "lemma3_sensitivity",
    "moment_sensitivity",
    "noise_on_integers",
    "part_events",
    "poisson_sample",
    "predict_multiplier",
    "record_rounding",
    "saddle_point_sensitivities",
    "saddle_point_sensitivity",
    "summation_slack",
    "weighting_slack",
]
