"""Faults planted one at a time in the path of a fit, each with the scenario that has to see it."""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from unittest.mock import patch

import numpy as np

from sklearn_dpwg.data.oracles import RecordOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.estimators import learn
from sklearn_dpwg.estimators.encode import BoundedTargets
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.preprocessing import scalers as dp_standard_scaler
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.privacy.noise.source import GaussianRows
from tests.audit.front_door import fits_together as together
from tests.helpers.selections import EveryRecord

Patch = Callable[[], contextlib.AbstractContextManager[object]]


@dataclass(frozen=True)
class Fault:
    """What is planted, the scenario that has to notice, and how often it is run for that."""

    plant: Patch
    scenario: str
    n_runs: int = 250


# Runs that show twice the signal almost surely; three times as much shows in fewer.
MANY = 600


THIRD = 1.0 / 3.0


def wrapped(owner: object, name: str, change: Callable[..., object]) -> Patch:
    """Plant a method that gets the true one before its own arguments."""
    true = getattr(owner, name)

    def planted(self: object, *arguments: object, **options: object) -> object:
        return change(true, self, *arguments, **options)

    return lambda: patch.object(owner, name, planted)


def quiet(name: str, by: float = 0.5) -> Patch:
    def change(true, self, value, *, sensitivity, **options):
        return true(self, value, sensitivity=np.multiply(sensitivity, by), **options)

    return wrapped(NoiseSource, name, change)


def quiet_counts(true, self, counts, *, release, **options):
    """Draw a quarter of the noise: of counts four times as large, and divide."""
    noisy = true(self, 4 * counts, release=release, **options)
    return np.rint(0.25 * noisy).astype(np.int64)


def true_sizes(true, release, counts, noise):
    true(release, counts, noise)
    return tuple(np.maximum(1, counts).tolist())


def quiet_sizes(true, release, counts, noise):
    quiet = release.scaled(1e-3)
    return true(quiet, counts, NoiseSource(None, [quiet]))


def quiet_in_units(true, self, value, *, units, **options):
    return true(self, value, units=np.multiply(units, THIRD), **options)


def all_join(true, self, release, **kind):
    """Have everybody join, whoever was drawn."""
    return EveryRecord(true(self, release, **kind).by_place)


def quiet_row(true, self, row, sensitivity):
    return true(self, row, THIRD * sensitivity)


def unclipped_values(X, low, high):
    return (X - low) / (0.5 * high - 0.5 * low) - 1.0


def unclipped(true, self, rows, targets, codes):
    records = true(replace(self, data_norm=1e6), rows, targets, codes)
    return replace(records, rows=records.rows * np.float32(1e6 / self.data_norm))


UNCLIPPED = wrapped(RecordEncoder, "encode", unclipped)


def no_ceiling(true, self, weights, *, loss_clip, **options):
    return true(self, weights, loss_clip=math.inf, **options)


def a_third_of_the_sizes(true, self, weights, **options):
    losses, gradients = true(self, weights, **options)
    return 3.0 * losses, 3.0 * gradients


def wide_residuals(true, self, weights, *, clip, length, **options):
    return true(self, weights, clip=20.0 * clip, length=20.0 * length, **options)


def first_again(true, self, group, size):
    """Hand out the first records of a group, whatever was drawn before."""
    true(self, group, size)
    return self._rows[:size].astype(float), self._targets[:size]


def unclipped_targets(true, self, y):
    """Map targets to the unit interval, wherever they are."""
    return (np.asarray(y, dtype=float) - self._center) / self._half_width


@contextlib.contextmanager
def shared_noise() -> Iterator[None]:
    """Seed the sources of two fits alike: the noise of the one comes again in the other."""
    true = NoiseSource.__init__
    state = {"seed": 0, "n_made": 0}

    def planted(self, random_state=None, releases=(), **options):
        if state["n_made"] % 2 == 0:
            state["seed"] = int(np.random.default_rng().integers(2**31))
        state["n_made"] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            true(self, state["seed"], releases, **options)

    with patch.object(NoiseSource, "__init__", planted):
        yield


@contextlib.contextmanager
def noise_of_the_parent() -> Iterator[None]:
    """Seed from a generator that forks share: what the children draw is the same."""
    true = NoiseSource.__init__
    generator = np.random.default_rng()

    def planted(self, random_state=None, releases=(), **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            true(self, generator, releases, **options)

    fork = os.fork

    def forked():
        if forked.n % 2 == 0:
            generator.random()
        forked.n += 1
        return fork()

    forked.n = 0
    with patch.object(NoiseSource, "__init__", planted), patch.object(os, "fork", forked):
        yield


def narrow(name: str, by: float) -> Patch:
    """Make a constant of the problem smaller than it is."""
    true = getattr(Problem, name)
    # not the property, whose lock goes to no other process
    value_of = true.func if isinstance(true, cached_property) else true.fget

    def planted(self: Problem) -> float:
        return by * value_of(self)

    return lambda: patch.object(Problem, name, property(planted))


def charged_once(true, self, connection, rows):
    """Charge the first fit of its kind, and let those after it have it for nothing."""
    charged = {what for (what,) in connection.execute("SELECT what FROM entries")}
    return true(self, connection, [row for row in rows if row.what not in charged])


FAULTS: dict[str, Fault] = {
    "half the noise on gradients": Fault(quiet("gaussian"), "MGR, a pass", MANY),
    "a third of the noise in every pass": Fault(quiet("gaussian", THIRD), "MGR, many passes"),
    "a third of the noise on centred rows": Fault(quiet("gaussian", THIRD), "MGR, centred rows"),
    "half the noise on group risks": Fault(quiet("gaussian"), "MGR, group risks", MANY),
    "a third of the noise on batches": Fault(
        wrapped(NoiseSource, "gaussian_in_units", quiet_in_units), "MGR, large batches", MANY
    ),
    "a third of the noise on the group that is taken": Fault(
        quiet("gaussian", THIRD), "AGS, one group of all"
    ),
    "a third of the noise on phases": Fault(quiet("gaussian", THIRD), "phased ERM, one phase"),
    "a third of the noise of descent-ascent": Fault(quiet("gaussian", THIRD), "GDA, a pass"),
    "a third of the noise on moments": Fault(quiet("gaussian", THIRD), "moments"),
    "a third of the noise on class moments": Fault(quiet("gaussian", THIRD), "class moments"),
    "a third of the noise on prefix sums": Fault(
        wrapped(GaussianRows, "add", quiet_row), "OCO, two calls, independent noise"
    ),
    "half the noise of a scaler": Fault(quiet("gaussian"), "DPStandardScaler", MANY),
    "a quarter of the noise on counts of scores": Fault(
        wrapped(NoiseSource, "integers", quiet_counts),
        "DPThresholdClassifier, a frozen model",
        MANY,
    ),
    "true sizes of hidden groups": Fault(
        wrapped(learn, "release_sizes", true_sizes), "MGR, hidden groups"
    ),
    "hardly any noise on sizes of hidden groups": Fault(
        wrapped(learn, "release_sizes", quiet_sizes), "MGR, hidden groups"
    ),
    "everybody joins a batch": Fault(
        wrapped(NoiseSource, "poisson_sample", all_join), "MGR, batches"
    ),
    "sums over a third of the group sizes": Fault(
        wrapped(Risks, "sums", a_third_of_the_sizes), "MGR, a pass"
    ),
    "a diameter of a third of the size": Fault(
        narrow("gradient_diameter", THIRD), "MGR, three classes"
    ),
    "the intercept's column forgotten": Fault(
        narrow("gradient_diameter", 0.2), "MGR, large intercept"
    ),
    "rows not clipped, dense": Fault(UNCLIPPED, "MGR, long rows, dense"),
    "rows not clipped, CSR": Fault(UNCLIPPED, "MGR, long rows, CSR"),
    "rows not clipped, float32": Fault(UNCLIPPED, "MGR, long rows, float32"),
    "rows not clipped, pandas": Fault(UNCLIPPED, "MGR, long rows, pandas"),
    "rows not clipped, polars": Fault(UNCLIPPED, "MGR, long rows, polars"),
    "losses counted beyond the clip": Fault(wrapped(Risks, "sums", no_ceiling), "MGR, group risks"),
    "residuals not clipped": Fault(
        wrapped(Risks, "residual_moments", wide_residuals), "moments, an outlier"
    ),
    "targets not clipped": Fault(
        wrapped(BoundedTargets, "encode", unclipped_targets), "MGR, targets outside"
    ),
    "a scaler's values not clipped": Fault(
        lambda: patch.object(dp_standard_scaler, "scale_to_bounds", unclipped_values),
        "DPStandardScaler, values outside",
    ),
    "a record in every round": Fault(wrapped(RecordOracle, "draw", first_again), "OCO, weighted"),
    "a clone draws the same noise": Fault(shared_noise, "ledger: clones"),
    "forks draw the same noise": Fault(noise_of_the_parent, "ledger: forked processes"),
    "a refit that is not charged": Fault(
        wrapped(PrivacyLedger, "_reserve", charged_once), "ledger: a scaler fitted six times"
    ),
    "folds by label, which privacy_of names outside": Fault(
        lambda: patch.object(together, "folds", together.folds_by_label),
        *("CalibratedClassifierCV on PublicKFold", 100),
    ),
}
