"""Sensitivities of what solvers release.

A sensitivity is the largest L2 distance between the outputs on two data sets that differ in one
record of one group; of `hidden_group_sensitivities` the other record may be of another group.
Everything here is a function of public numbers: sizes, constants of the loss, strengths of the
regularisation, norms.
"""

from sklearn_dpwg.privacy.sensitivity.saddle_point import (
    hidden_group_sensitivities,
    lemma3_sensitivity,
    saddle_point_sensitivities,
    saddle_point_sensitivity,
)
from sklearn_dpwg.privacy.sensitivity.sums import (
    SumGrid,
    grid_step,
    moment_sensitivity,
    moment_steps,
    record_rounding,
    summation_slack,
    weighting_slack,
)

__all__ = [
    "SumGrid",
    "grid_step",
    "hidden_group_sensitivities",
    "lemma3_sensitivity",
    "moment_sensitivity",
    "moment_steps",
    "record_rounding",
    "saddle_point_sensitivities",
    "saddle_point_sensitivity",
    "summation_slack",
    "weighting_slack",
]
