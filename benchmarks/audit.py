"""Private audits: the deviation of counts and of mean losses by the share of epsilon for losses.

python benchmarks/audit.py losses
"""

from __future__ import annotations

import numpy as np
from common import run_tables

from sklearn_dpwg.inspection import GroupAudit, audit_plan


def losses() -> None:
    """Print the noise of counts and of mean losses by the share of a loss."""
    for share in (0.25, 0.5, 1.0, 2.0):
        audit_plan._SHARE_OF_A_LOSS = share
        audit_plan.plan_releases.cache_clear()
        rng = np.random.default_rng(0)
        y, groups = rng.integers(0, 2, 1000), np.repeat(["a", "b"], 500)
        audit = GroupAudit(1.0, group_labels=["a", "b"], losses=("squared_error",))
        result = audit.run(y, rng.beta(2.0, 2.0, 1000), groups)
        (loss,) = result.losses
        print(
            f"share {share:4.2f}: a count {result.noise.std:5.2f}, selection rate "
            f"{result.rates('selection_rate')[0].width:.3f} wide, mean of 500 losses "
            f"{loss.sum_noise_std / 500:.4f}, {result.rates('squared_error')[0].width:.3f} wide"
        )


if __name__ == "__main__":
    run_tables({"losses": losses})
