"""OCO: any private online learner against a player of groups, on fresh records.

Every record is used once, by one of two players, so each player has the whole budget. The weights
player learns from noisy prefix sums of gradients, the group player from noisy losses of batches.
In a weighted game a round takes records of every group, in a sampled one of a group drawn from the
group weights. The output is a weighted average of the rounds. Theory: docs/theory/oco.md. A reader
for privacy opens `releases.py`.
"""

from sklearn_dpwg.solvers.oco.oco import OCO

__all__ = ["OCO"]
