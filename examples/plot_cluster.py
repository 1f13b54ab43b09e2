"""
A cluster gives the answer of one machine
=========================================

Records on the workers of a dask cluster are fitted where they lie: workers return sums, the client
adds them and draws the noise. Sums are rounded to a public grid block by block, so that they are
exact in any order: the coefficients do not depend on how many workers there are, and hardly on
there being any.
:doc:`/guide/larger_than_memory` says whom that trusts, and what it costs.
"""

import logging
import time
import warnings

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.solvers import MGR

# the same noise in every fit is what this page compares
warnings.simplefilter("ignore", SeededNoiseWarning)

# %%
# Records in two groups that want different weights
# -------------------------------------------------

rng = np.random.default_rng(0)
N = 60_000
X = rng.uniform(-0.5, 0.5, size=(N, 3))
groups = np.where(rng.random(N) < 0.2, "few", "many")
y = X[:, 0] + np.where(groups == "few", -0.6, 0.6) * X[:, 1] > 0


def fit(X, y, groups):
    """Return the coefficients of a fit, and the seconds it took."""
    model = DPWorstGroupClassifier(
        epsilon=1.0, data_norm=1.0, solver=MGR(n_steps=40), random_state=0
    )
    start = time.perf_counter()
    coef = model.fit(X, y, groups=groups).coef_.ravel()
    return coef, time.perf_counter() - start


# %%
# The same fit in memory, and on one, two and three workers
# ---------------------------------------------------------
#
# Here workers are threads of this process; on a cluster only the address differs.

fit(X, y, groups)  # what is loaded once is not timed
results = {"in memory": fit(X, y, groups)}
cut = [da.from_array(part, chunks=(N // 6, *part.shape[1:])) for part in (X, y, groups)]
for n_workers in (1, 2, 3):
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=False,
            dashboard_address=":0",
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster),
    ):
        results[f"workers: {n_workers}"] = fit(*cut)

in_memory = results["in memory"][0]
for name, (coef, seconds) in results.items():
    far = np.abs(coef - in_memory).max()
    print(f"{name:>10} {seconds:7.2f} s, farthest coefficient from in memory {far:.1e}")
bits = {coef.tobytes() for name, (coef, _) in results.items() if name != "in memory"}
print("the same bits on one, two and three workers:", len(bits) == 1)

# %%
# What the workers add to this small fit is dask's part of a step. On a cluster it stays as it is
# while the records grow.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for shift, (name, (coef, _)) in enumerate(results.items()):
    left.plot(np.arange(3) + 0.12 * (shift - 1.5), coef, "o", label=name)
left.set_xticks(range(3), ["x0", "x1", "x2"])
left.set_ylabel("coefficient")
left.legend()
right.barh(list(results), [seconds for _, seconds in results.values()])
right.set_xlabel("seconds a fit")
right.invert_yaxis()
plt.show()
