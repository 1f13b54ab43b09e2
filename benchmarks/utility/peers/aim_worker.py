"""Make a private synthetic table with AIM; run in an environment of its own.

Reads an archive of codes (a column a variable) and numbers of levels, writes one of synthetic codes
and prints the ε that AIM was run at; what takes too much processor time is killed. AIM is private
for adding or removing a record; replacing one moves each of its histograms by √2, so it gets half
of the zero-concentrated ρ.
"""

from __future__ import annotations

import resource
import sys

import numpy as np
import pandas as pd
from dpmm.models.base.mechanisms.cdp2adp import cdp_eps, cdp_rho
from dpmm.pipelines import AIMPipeline

if __name__ == "__main__":
    asked = np.load(sys.argv[1])
    epsilon, delta, size, seed, patience = (float(word) for word in sys.argv[3:])
    resource.setrlimit(resource.RLIMIT_CPU, (int(patience), resource.RLIM_INFINITY))
    stated = cdp_eps(cdp_rho(epsilon, delta) / 2.0, delta)
    names = [f"column {k}" for k in range(asked["codes"].shape[1])]
    table = pd.DataFrame(asked["codes"], columns=names)
    made = AIMPipeline(
        epsilon=stated, delta=delta, disable_processing=True, max_model_size=size, n_jobs=1
    )
    made.fit(table, domain=dict(zip(names, asked["n_levels"].tolist(), strict=True)),
             random_state=int(seed))  # fmt: skip
    synthetic = made.generate(n_records=len(table), random_state=int(seed))
    np.savez(sys.argv[2], codes=synthetic[names].to_numpy())
    print(stated)
