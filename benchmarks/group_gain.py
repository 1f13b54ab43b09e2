"""Whether `group_gain_` tells where weighting groups helps new people.

python benchmarks/group_gain.py choosing    # rank correlation with held-out gains over group-blind
"""

import sys

import numpy as np
from scipy.stats import spearmanr
from utility import held_out
from utility.ours import make_model
from utility.population import load_by_name

half, n_splits = (sys.argv[1:] or ["choosing"])[0], 2
for epsilon in (np.inf, 4.0, 1.0):
    told, gained = [], []
    for name in held_out.names_of_half(half):
        if held_out.kind_of(name) != "classification":
            continue
        gains, ours, blind = [], [], []
        for seed, task in enumerate(held_out.splits(load_by_name(name), n_splits)):
            X, y, groups = task.train.X, task.train.y, task.train.groups
            model = make_model(task, "auto", epsilon, None if epsilon == np.inf else seed)
            with held_out.quiet():
                ours.append(
                    held_out.losses_of(task, task.test, task.unit_weights(model.fit(X, y, groups)))
                )
                gains.append(model.group_gain_[0])
                blind.append(
                    held_out.losses_of(task, task.test, task.unit_weights(model.fit(X, y)))
                )
        told.append(np.mean(gains))
        gained.append(np.mean(blind, axis=0).max() - np.mean(ours, axis=0).max())
    print(f"epsilon = {epsilon:g}: {spearmanr(told, gained).statistic:.2f} of {len(told)} tasks")
