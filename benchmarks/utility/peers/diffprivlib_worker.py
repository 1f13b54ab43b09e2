"""Fit diffprivlib's LogisticRegression; run by the peers' command in an environment of its own.

Reads an archive of unit rows (without the column of ones) and classes, a file of jobs
``[[epsilon, C, seed], ...]``, and prints one JSON list of ``[weights, seconds]``.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression

if __name__ == "__main__":
    archive = np.load(sys.argv[1])
    rows, y = archive["rows"], archive["y"]
    fit_intercept = bool(archive["fit_intercept"])
    found = []
    for epsilon, c, seed in json.loads(sys.argv[2]):
        model = LogisticRegression(
            epsilon=epsilon,
            data_norm=1.0,
            C=c,
            fit_intercept=fit_intercept,
            max_iter=200,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            model.fit(rows, y)
            seconds = time.perf_counter() - start
        weights = model.coef_.ravel().tolist()
        if fit_intercept:
            weights.append(float(np.ravel(model.intercept_)[0]))
        found.append([weights, seconds])
    print(json.dumps(found))
