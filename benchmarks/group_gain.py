"""Whether `group_gain_` tells where weighting groups helps new people.

python benchmarks/group_gain.py choosing    # rank correlation with held-out gains over group-blind
"""

import sys

import numpy as np
from scipy.stats import spearmanr
from utility import held_out
from utility.ours import make_model
from utility.population import load_by_name

every = held_out.names_of_half((sys.argv[1:] or ["choosing"])[0])
names = [name for name in every if held_out.kind_of(name) == "classification"]
for epsilon in (np.inf, 4.0, 1.0):
    facts, gained = np.zeros((2, len(names)))
    for place, name in enumerate(names):
        losses = {True: [], False: []}
        for seed, task in enumerate(held_out.splits(load_by_name(name), 2)):
            model = make_model(task, "auto", epsilon, None if epsilon == np.inf else seed)
            for grouped, result in losses.items():
                with held_out.quiet():
                    model.fit(task.train.X, task.train.y, task.train.groups if grouped else None)
                result.append(held_out.losses_of(task, task.test, task.unit_weights(model)))
                facts[place] += model.group_gain_ if grouped else 0.0
        blind, ours = (np.mean(losses[each], axis=0).max() for each in (False, True))
        gained[place] = blind - ours
    print(f"epsilon = {epsilon:g}: {spearmanr(facts, gained).statistic:.2f} of {len(names)} tasks")
