"""The audit of the public interface can fail: its bounds, its attack, its faults, its table."""

import os

import cloudpickle
import numpy as np
import pytest
from scipy.stats import norm

from sklearn_dpwg.data.oracles import RecordOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.estimators import learn
from sklearn_dpwg.estimators.encode import BoundedTargets
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.preprocessing import scalers as dp_standard_scaler
from sklearn_dpwg.privacy import NoiseSource, PrivacyGuarantee, Release
from sklearn_dpwg.privacy.noise.source import GaussianRows
from sklearn_dpwg.solvers import phased_erm
from tests.audit.front_door import fits_together as together
from tests.audit.front_door.attack import Verdict, judge, upper_bound
from tests.audit.front_door.faults import FAULTS
from tests.audit.front_door.scenarios import SCENARIOS

DELTA = 1e-6
# Everything that a fault may be planted in.
PLACES = (
    BoundedTargets,
    GaussianRows,
    Risks,
    NoiseSource,
    PrivacyLedger,
    Problem,
    RecordEncoder,
    RecordOracle,
    dp_standard_scaler,
    learn,
    os,
    phased_erm,
    together,
)

pytestmark = pytest.mark.filterwarnings("ignore")


def claim_of(multiplier, mechanism="gaussian"):
    return PrivacyGuarantee.from_releases([Release("sum", mechanism, multiplier, 1)], DELTA)


def seen(mu, n_runs=1000, seed=0, n_columns=3):
    """Return releases of unit noise on two neighbours that are mu apart."""
    rng = np.random.default_rng(seed)
    null, other = rng.normal(size=(2, n_runs, n_columns))
    return null, other + mu / np.sqrt(n_columns)


# --- bounds and attack --------------------------------------------------------------------------


def test_bounds_on_error_rates_are_clopper_and_pearsons():
    # of no errors in n runs: (1 - p)^n = wrong / 2
    assert upper_bound(0.0, 50, 0.02) == pytest.approx(1.0 - 0.01 ** (1 / 50))
    assert upper_bound(1.0, 50, 0.02) == 1.0
    rng = np.random.default_rng(0)
    rates = rng.binomial(80, 0.3, size=20_000) / 80
    too_low = (upper_bound(rates, 80, 0.1) < 0.3).mean()
    assert 0.02 < too_low <= 0.05  # half of what may go wrong: there are two bounds


@pytest.mark.parametrize("seed", range(2))
def test_a_true_claim_holds_and_half_the_noise_breaks_it(seed):
    claim = claim_of(1.0 / 1.5)
    honest = judge(claim, *seen(1.5, seed=seed), 1e-3)
    assert not honest.is_broken
    assert 0.0 < honest.audited_epsilon < claim.epsilon
    faulty = judge(claim, *seen(3.0, seed=seed), 1e-3)
    assert faulty.is_broken
    assert faulty.audited_epsilon > claim.epsilon


def test_runs_without_noise_break_every_claim():
    apart = np.repeat([[0.0], [1.0]], 2000, axis=0)
    assert judge(claim_of(0.2), apart[:2000], apart[2000:], 1e-3).is_broken


def test_the_audited_epsilon_of_other_noise_is_by_definition():
    verdict = Verdict(claim_of(1.0, "laplace"), alarms=0.2, misses=0.1)
    assert verdict.audited_epsilon == pytest.approx(np.log((0.8 - DELTA) / 0.1))
    gaussian = Verdict(claim_of(1.0), alarms=norm.cdf(-0.5), misses=norm.cdf(-0.5))
    assert gaussian.audited_epsilon == pytest.approx(claim_of(1.0).epsilon)


# --- faults -------------------------------------------------------------------------------------


def now():
    return {
        (place, name): value
        for place in PLACES
        for name, value in vars(place).items()
        # what the first copy of an object leaves on its class, and the first warning in its module
        if name not in ("__slotnames__", "__warningregistry__")
    }


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_planted_in_what_its_scenario_calls_and_is_gone_after(name, monkeypatch):
    fault = FAULTS[name]
    before, called = now(), []

    def watched(planted):
        if isinstance(planted, property):
            return property(watched(planted.fget))

        def call(*arguments, **options):
            called.append(planted)
            return planted(*arguments, **options)

        return call

    with fault.plant():
        changed = {key: value for key, value in now().items() if before.get(key) is not value}
        assert changed
        with monkeypatch.context() as patched:
            for (place, attribute), planted in changed.items():
                patched.setattr(place, attribute, watched(planted))
            SCENARIOS[fault.scenario].run(True)
    assert called
    after = now()
    assert after.keys() == before.keys()
    assert all(after[key] is before[key] for key in before)


def test_faults_go_to_other_processes():
    assert cloudpickle.dumps(FAULTS)


def test_folds_by_label_are_named_outside_and_others_are_not():
    name = "folds by label, which privacy_of names outside"
    with FAULTS[name].plant():
        _, by_label = together.calibrated(True)
    _, by_place = together.calibrated(True)
    assert by_label.outside[0].startswith("CalibratedClassifierCV: who is in which fold, which lab")
    assert by_place.outside == by_label.outside[1:] == ("CalibratedClassifierCV: the calibration",)
