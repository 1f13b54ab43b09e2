"""Error rates of seven groups as a private audit releases them."""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.inspection import GroupAudit, GroupMetricDisplay

warnings.simplefilter("ignore", SeededNoiseWarning)  # so that the picture stays as it is
sizes = {"White": 9143, "Black": 641, "Latino": 407, "Asian": 422, "Other": 196, "Native": 88}
errors = {"White": 0.11, "Black": 0.27, "Latino": 0.24, "Asian": 0.19, "Other": 0.22, "Native": 0.2}
rng = np.random.default_rng(0)
groups = np.repeat(list(sizes), list(sizes.values()))
passed = rng.random(len(groups)) < 0.7
wrong = rng.random(len(groups)) < np.array([errors[group] for group in groups])
predicted = np.where(wrong, ~passed, passed)

audit = GroupAudit(epsilon=1.0, group_labels=list(sizes), random_state=0)
result = audit.run(passed.astype(int), predicted.astype(int), groups, kind="decisions")
_, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
GroupMetricDisplay.from_audit(result, ax=axes)
