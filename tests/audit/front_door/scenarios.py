"""Everything that a user can fit, each as a run on one of two neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
from scipy.sparse import csr_array

from sklearn_dpwg.postprocessing import DPCalibratedClassifier
from sklearn_dpwg.solvers import AGS, GDA, MGR, OCO, Moments, PhasedERM
from tests.audit.front_door import fits_of_oracles as oracles
from tests.audit.front_door import fits_together as together
from tests.audit.front_door.attack import Run
from tests.audit.front_door.data import one_group, outlier, pairs
from tests.audit.front_door.fits import (
    SLOW,
    classifier,
    fitted,
    in_two_calls,
    membership,
    online,
    ranked,
    regressor,
    scaled,
    scores_counted,
    with_thresholds,
)


@dataclass(frozen=True)
class Scenario:
    """What is run, and how often on each neighbour."""

    run: Run
    n_runs: int = 300


# The last of several tiny steps is the sum of all that was released, and so is the last phase.
CANARYS = [0.99, 0.01]  # prior of the groups
LAST = {"averaging": 1e-3, "step_size": 1e-6}
RISKS = {"n_steps": 1, "averaging": 1.0, "step_size": 1e-6, "risk_fraction": 0.9}
PHASES = {"mu_weights": 1e3, "mu_groups": np.inf, "sharpening": 1.0, "averaging": 0.1}
ENDS = {"values": (-1.0, 1.0)}
LOSSES = {"values": (0.0, 1.0)}
LONG = {"long": 10.0}
POLARS = partial(pl.DataFrame, schema=["a", "b"], orient="row")
SINGLE = partial(np.asarray, dtype=np.float32)
# So much of a ridge that the weights are the released products of rows and targets.
MOMENTS = {"ridge": 1e6, "smoothing": 0.0}


def mgr(**parameters):
    """Return a classifier whose noise follows the canary's group, and no other."""
    return classifier(solver=MGR(**LAST, **parameters, risk_fraction=0.02), prior=CANARYS)


def gda(**parameters):
    """Return a classifier of tiny steps, the last of which is the sum of all that was released."""
    tiny = {"initial_distance": 1e-6, "averaging": 1e-3, "risk_fraction": 0.02}
    return classifier(solver=GDA(**tiny, **parameters), prior=CANARYS)


def centred():
    """Return a classifier of one step, on rows relative to a released centre."""
    return classifier(
        solver=MGR(**LAST, n_steps=1, risk_fraction=0.02, centring=True),
        prior=CANARYS,
        fit_intercept=True,
    )


def of_losses(**parameters):
    """Return a regressor whose losses at zero are the targets, most of the budget on them."""
    return regressor(solver=MGR(**RISKS, **parameters), loss="absolute_error")


def online_losses(**parameters):
    return regressor(solver=OCO(SLOW, averaging=100.0, **parameters), loss="absolute_error")


def phased(**parameters):
    return classifier(solver=PhasedERM(**PHASES, **parameters))


def ledger(fits, n_runs=250):
    return Scenario(partial(together.in_ledger, fits), n_runs)


def with_large_constant():
    """Return a classifier whose constant column is five times as long as a row."""
    model = classifier(fit_intercept=True)
    model._intercept_scaling = 5.0
    return model


SCENARIOS: dict[str, Scenario] = {
    "MGR, a pass": Scenario(fitted(classifier())),
    "MGR, many passes": Scenario(fitted(mgr(n_steps=8))),
    "MGR, group risks": Scenario(fitted(of_losses(loss_clip=0.1), **LOSSES)),
    "MGR, batches": Scenario(fitted(mgr(n_steps=4, sampling_rate=0.25))),
    "MGR, large batches": Scenario(fitted(mgr(n_steps=1, sampling_rate=0.9))),
    "MGR, the paper's schedule": Scenario(
        fitted(classifier(solver=MGR(schedule="paper"), prior="uniform"))
    ),
    "MGR, three classes": Scenario(fitted(classifier(classes=[0, 1, 2]), n_classes=3)),
    "MGR, regression": Scenario(fitted(regressor(), **ENDS)),
    "MGR, targets outside": Scenario(fitted(regressor(), values=(1.0, 50.0))),
    "MGR, large intercept": Scenario(fitted(with_large_constant())),
    "MGR, centred rows": Scenario(fitted(centred())),
    "MGR, long rows, dense": Scenario(fitted(classifier(), **LONG)),
    "MGR, long rows, CSR": Scenario(fitted(classifier(), form=csr_array, **LONG)),
    "MGR, long rows, float32": Scenario(fitted(classifier(), form=SINGLE, **LONG)),
    "MGR, long rows, pandas": Scenario(fitted(classifier(), form=pd.DataFrame, **LONG)),
    "MGR, long rows, polars": Scenario(fitted(classifier(), form=POLARS, **LONG)),
    "MGR, hidden groups": Scenario(membership),
    "GDA, a pass": Scenario(fitted(gda(n_steps=1))),
    "GDA, many passes": Scenario(fitted(gda(n_steps=8))),
    "GDA, the paper's schedule": Scenario(
        fitted(classifier(solver=GDA(8, schedule="paper", ridge=1e3), prior="uniform"))
    ),
    "AGS, one group of all": Scenario(
        fitted(
            classifier(
                solver=AGS(4, initial_distance=1e-6, averaging=1e-3, risk_fraction=0.02),
                prior="uniform",
            ),
            one_group,
        )
    ),
    "phased ERM, one phase": Scenario(fitted(phased(n_phases=1).set_params(prior=CANARYS))),
    "phased ERM, four phases": Scenario(
        fitted(phased(n_phases=4, risk_fraction=0.05).set_params(prior=CANARYS))
    ),
    "phased ERM, the paper's schedule": Scenario(
        fitted(classifier(solver=PhasedERM(schedule="paper"), prior="uniform"), pairs), 150
    ),
    "moments": Scenario(
        fitted(regressor(solver=Moments(1, **MOMENTS), radius=3.0), one_group, **ENDS)
    ),
    "moments, three rounds": Scenario(
        fitted(regressor(solver=Moments(3, **MOMENTS), radius=3.0), one_group, **ENDS)
    ),
    "moments, an outlier": Scenario(
        # without a ridge nothing of the first round is left in the weights
        fitted(regressor(solver=Moments(2, ridge=0.0, smoothing=0.0), radius=3.0), outlier)
    ),
    "class moments": Scenario(ranked),
    "class moments, long rows": Scenario(partial(ranked, **LONG)),
    "auto, classifier": Scenario(
        fitted(classifier(solver="auto", radius=20.0, fit_intercept=True)), 200
    ),
    "auto, regressor": Scenario(
        fitted(regressor(solver="auto", radius=20.0, fit_intercept=True), **ENDS), 200
    ),
    "OCO, weighted": Scenario(fitted(online(n_rounds=8, batch_size=1), one_group)),
    "OCO, sampled": Scenario(fitted(online(n_rounds=8, batch_size=1, play="sampled"), one_group)),
    "OCO, group losses": Scenario(
        fitted(online_losses(n_rounds=4, weight_fraction=0.5, group_rate=1e-3), pairs, **LOSSES)
    ),
    "OCO, the paper's schedule": Scenario(
        fitted(online(schedule="paper").set_params(prior="uniform"), pairs), 150
    ),
    "OCO, two calls, Toeplitz noise": Scenario(in_two_calls),
    "OCO, two calls, tree noise": Scenario(partial(in_two_calls, noise="tree")),
    "OCO, two calls, independent noise": Scenario(partial(in_two_calls, noise="independent")),
    "OCO, InMemoryOracle": Scenario(oracles.from_memory),
    "OCO, GeneratorOracle": Scenario(oracles.from_generator),
    "DPStandardScaler": Scenario(scaled),
    "DPStandardScaler, values outside": Scenario(partial(scaled, ends=(1.0, 9.0))),
    "DPThresholdClassifier, a frozen model": Scenario(scores_counted),
    "DPCalibratedClassifier, a frozen model": Scenario(
        partial(scores_counted, around=DPCalibratedClassifier)
    ),
    "DPThresholdClassifier and its model": Scenario(with_thresholds, 100),
    "ledger: scaler and model": ledger(together.scaler_and_model),
    "ledger: a model fitted twice": ledger(together.fit_twice),
    "ledger: a scaler fitted six times": ledger(together.fit_scaler_often),
    "ledger: clones": ledger(together.clones),
    "ledger: forked processes": ledger(together.forks, 150),
    "DPSearchCV": Scenario(together.search, 200),
    "CalibratedClassifierCV on PublicKFold": Scenario(together.calibrated, 100),
}
