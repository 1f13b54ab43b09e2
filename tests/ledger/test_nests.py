"""Random nests of wrappers: what is stated of them, what a ledger counted, and what was drawn."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.optimize import brentq
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.estimators import learn
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.postprocessing import DPCalibratedClassifier, DPThresholdClassifier
from sklearn_dpwg.preprocessing import BoundedScaler, DPStandardScaler
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers import MGR
from tests.helpers.ledger_cases import DELTA, ones

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, size=(60, 2))
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)
FOLDS = KFold(2)
NORMAL = NormalDist()


def epsilon_of_draws(sources):
    """Return ε at DELTA of Gaussian draws, by the formula of Balle and Wang and nothing of ours."""
    mu = math.sqrt(sum(draw.release.noise_multiplier**-2 for one in sources for draw in one.draws))

    def delta(epsilon):
        far = NORMAL.cdf(-epsilon / mu - mu / 2)
        return NORMAL.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * far - DELTA

    return brentq(delta, 0.0, 500.0, xtol=1e-12)


class Nest:
    """Fits random things in each other, and writes down what learned without noise."""

    def __init__(self, rng):
        self.rng = rng
        self.models = []
        self.outside = set()

    def model(self):
        epsilon = float(self.rng.choice([0.5, 1.0]))
        public = {"data_norm": 1.0, "solver": MGR(n_steps=2), "group_by": ones, "random_state": 1}
        return DPWorstGroupClassifier(epsilon, DELTA, **public)

    def fitted(self, estimator, **begun):
        return estimator.fit(X, Y, **begun)

    def grow(self, depth):
        """Return something fitted with a private model in it."""
        kinds = ["leaf", "started", "pipeline", "private"]
        if depth:
            kinds += ["frozen", "frozen", *["wrapped"] * 4, "vote"]
        made = getattr(self, f"_{self.rng.choice(kinds)}")(depth)
        self.models.append(made)
        return made

    def inner(self, depth):
        """Return something to be frozen: new, or in use elsewhere too."""
        if self.models and self.rng.random() < 0.3:
            return self.rng.choice(np.array([*self.models, None], dtype=object)[:-1])
        if self.rng.random() < 0.15:
            self.outside.add("LogisticRegression: all that it learned")
            return self.fitted(LogisticRegression())
        return self.grow(depth - 1)

    def learner(self):
        """Return something unfitted that a meta-estimator may fit again and again."""
        if self.rng.random() < 0.4:
            self.outside.add("StandardScaler: all that it learned")
            return make_pipeline(StandardScaler(), self.model())
        return self.model()

    def _leaf(self, _):
        return self.fitted(self.model())

    def _started(self, _):
        known = [one for one in self.models if hasattr(one, "coef_")]
        known = [one for one in known if isinstance(one, DPWorstGroupClassifier)]
        start = known[self.rng.integers(len(known))] if known else self._leaf(0)
        return self.fitted(self.model(), start=start)

    def _pipeline(self, _):
        scaler = DPStandardScaler(0.5, DELTA, bounds=(-1, 1), random_state=1)
        steps = [BoundedScaler(bounds=(-1, 1)), scaler, self.learner()]
        return self.fitted(make_pipeline(*steps[self.rng.integers(3) :]))

    def _private(self, _):
        kind = self.rng.choice([DPThresholdClassifier, DPCalibratedClassifier])
        model = self.model().set_params(group_by=None)
        return self.fitted(kind(model, epsilon=1.0, delta=DELTA, group_by=ones, random_state=1))

    def _frozen(self, depth):
        kind = self.rng.choice([DPThresholdClassifier, DPCalibratedClassifier, "steps", "sigmoid"])
        inner = FrozenEstimator(self.inner(depth))
        if kind == "steps":
            return self.fitted(make_pipeline(BoundedScaler(bounds=(-1, 1)), inner))
        if kind == "sigmoid":
            self.outside.add("CalibratedClassifierCV: the calibration")
            return self.fitted(CalibratedClassifierCV(inner, cv=FOLDS))
        return self.fitted(kind(inner, epsilon=0.5, delta=DELTA, group_by=ones, random_state=1))

    def _wrapped(self, _):
        learner = self.learner()
        name = "epsilon" if hasattr(learner, "epsilon") else "dpworstgroupclassifier__epsilon"
        whole = bool(self.rng.integers(2))
        made, learned = [
            (GridSearchCV(learner, {name: [0.5, 1.0]}, cv=FOLDS), "the choice by scores of held"),
            (CalibratedClassifierCV(learner, cv=FOLDS, ensemble=whole), "the calibration"),
            (TunedThresholdClassifierCV(learner, cv=FOLDS), "the choice of the threshold"),
            (BaggingClassifier(learner, n_estimators=2, bootstrap=False), ""),
        ][self.rng.integers(4)]
        self.outside |= {f"{type(made).__name__}: {learned}"} if learned else set()
        return self.fitted(made)

    def _vote(self, depth):
        parts = [(str(i), FrozenEstimator(self.inner(depth))) for i in range(2)]
        return self.fitted(VotingClassifier(parts, voting="soft"))

    def audited(self, models):
        """Return models with the result of an audit of their records."""
        audit = GroupAudit(0.5, DELTA, group_labels=[1.0, 2.0], random_state=1)
        return [*models, audit.run(Y, Y, ones(X), kind="decisions", same_records_as=models)]


def check(seed, sources):
    """Hold a random nest against its ledger and against what was drawn for it."""
    nest = Nest(np.random.default_rng(seed))
    sources.clear()
    with PrivacyLedger(1e6, DELTA) as book:
        fitted = [nest.grow(2) for _ in range(nest.rng.integers(1, 3))]
        if nest.rng.random() < 0.4 and sources:
            fitted = nest.audited(fitted)
    if not any(one.draws for one in sources):
        with pytest.raises(ValueError, match="holds no private fit"):
            privacy_of(fitted, warn=False)
        return False
    stated = privacy_of(fitted if len(fitted) > 1 else fitted[0], warn=False)
    spent = book.epsilon_spent
    assert spent >= stated.epsilon * (1 - 1e-6), seed
    missing = {name for name in nest.outside if not any(name in text for text in stated.outside)}
    assert not missing, (seed, missing)
    assert not [text for text in stated.outside if "began with" in text], seed  # it is counted
    if all(draw.release.mechanism == "gaussian" for one in sources for draw in one.draws):
        drawn = epsilon_of_draws(sources)
        assert drawn * (1 - 1e-6) <= stated.epsilon <= 1.01 * drawn, seed
        assert spent <= 1.01 * drawn, seed
        return True
    return False


@pytest.fixture
def sources(monkeypatch):
    """Return the sources of noise that are made from now on."""
    made = []
    begin = NoiseSource.__init__

    def noted(self, *args, **kwargs):
        begin(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(NoiseSource, "__init__", noted)
    # how much data would do is half of the time of a fit
    monkeypatch.setattr(learn, "warn_of_plan", lambda *_, **__: None)
    return made


def test_no_entry_of_a_nest_is_lost(sources):
    assert sum(check(seed, sources) for seed in range(12)) >= 4


@pytest.mark.audit
@pytest.mark.parametrize("first", range(0, 10_000, 2_500))
def test_no_entry_of_ten_thousand_nests_is_lost(first, sources):
    seeds = range(first, first + 2_500)
    n_gaussian = sum(check(seed, sources) for seed in seeds)
    verdict = f"nests {seeds}: ledger >= stated >= drawn, within 1 % for {n_gaussian} Gaussian ones"
    print(verdict)  # noqa: T201
