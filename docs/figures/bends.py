"""What each column of the guide's example adds to the log odds."""

import warnings

import numpy as np
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import SeededNoiseWarning
from sklearn_dpwg.inspection import ShapeDisplay
from sklearn_dpwg.preprocessing import PublicShapes

warnings.simplefilter("ignore", SeededNoiseWarning)  # so that the picture stays as it is
rng = np.random.default_rng(0)
X = np.column_stack([rng.uniform(0, 100, 20_000), rng.uniform(0, 1, 20_000)])
groups = rng.choice(["north", "south"], 20_000)
y = abs(X[:, 0] - 50) < 25
learner = DPWorstGroupClassifier(epsilon=1.0, data_norm=1.0, random_state=0)
model = make_pipeline(PublicShapes(bounds=[(0, 100), (0, 1)]), learner)
model.fit(X, y, dpworstgroupclassifier__groups=groups)
ShapeDisplay.from_estimator(model)
