"""Statistical attacks on what MGR promises; `make audit` prints the verdicts.

A mechanism that is μ-GDP allows no test between two neighbours with
Φ⁻¹(1 - false alarms) - Φ⁻¹(misses) > μ. Each attack chooses its threshold on a fifth of the runs,
bounds both error rates on the others (Clopper-Pearson), and so gives a lower bound on μ that
is wrong once in a thousand. A right implementation stays below its claim, a planted fault does not.
"""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.noise import source as noise_module
from sklearn_dpwg.privacy.noise.samplers import SeededSampler
from sklearn_dpwg.solvers import MGR, Solution
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.lower_bounds import (
    DELTA,
    audited_mu,
    quiet_source,
    say,
    verdict,
)
from tests.helpers.neighbours import random_data
from tests.helpers.relations import WITHIN_GROUP
from tests.helpers.replay import (
    Instead,
    distances,
    faulty,
    recorded,
    replayed,
    silent,
    tampered,
)

pytestmark = pytest.mark.audit

N_RUNS = {1.0: 30_000, 4.0: 20_000}
N_FITS = 5000


def drawn_twice(run, plan, data, noise, start):
    """Release every gradient twice, and step along the mean."""

    def gaussian(value, *, sensitivity, release):
        times = 2 if release == plan.releases[0] else 1
        return sum(
            noise.gaussian(value, sensitivity=sensitivity, release=release) for _ in range(times)
        ) / times  # fmt: skip

    return run(plan, data, Instead(noise, gaussian=gaussian), start)


def without_the_diameter(run, plan, data, noise, start):
    def undivided(draw, value, stated):
        return draw(value, stated / plan.schedule.gradient_diameter)

    return run(plan, data, tampered(noise, "gradient", undivided), start)


SECOND_DRAW = faulty(MGR, drawn_twice)
NO_DIAMETER = faulty(MGR, without_the_diameter)


# --- lower bounds ------------------------------------------------------------------------------


def test_the_lower_bound_is_right():
    """On known Gaussians: below the truth nearly always, and close to it."""
    rng = np.random.default_rng(0)
    n = 20_000
    for true_mu in (0.0, 0.25, 0.9):
        found = [
            audited_mu(rng.standard_normal(n), true_mu + rng.standard_normal(n)) for _ in range(40)
        ]
        assert sum(mu > true_mu for mu in found) <= 1
        assert np.mean(found) > true_mu - 0.1


# --- a bad pair: one record in a group of its own, weights on the sphere -----------------------

RADIUS = 20.0


def bad_pair(plan, angle):
    """Return data sets whose first record differs, and a start where that record weighs most."""
    problem = plan.problem
    rows, targets = random_data(problem, 0)
    found = []
    for sign in (1.0, -1.0):
        rows, targets = rows.copy(), targets.copy()
        rows[0], targets[0] = (math.sin(angle), sign * math.cos(angle)), -1.0
        found.append(make_data(problem, rows, targets))
    weights = np.array([RADIUS, 0.0])
    group_weights = np.array([1.0 - 1e-9, 1e-9]) if problem.n_groups > 1 else None
    return found, Solution(weights, group_weights, 0)


def planned(epsilon, n_steps, sizes=(1, 30), solver_class=MGR, **parameters):
    """Return a plan that stays where it starts, so that every step is as bad as the first."""
    problem = make_problem(sizes, radius=RADIUS, scaling=0.0)
    options = {"risk_share": 0.2, "step_size": 1e-9, **parameters}
    solver = solver_class(n_steps=n_steps, **options)
    plan = solver.plan(problem, Budget(epsilon, DELTA))
    return solver, replace(plan, schedule=replace(plan.schedule, adapts=False))


def claimed_mu_of(plan):
    return math.sqrt(sum(r.max_count / r.noise_multiplier**2 for r in plan.releases))


def exact_mu(solver, plan, pair, start, seed=0):
    """Return the μ of a transcript: its privacy loss is N(μ²/2, μ²) given the path it took."""
    source = recorded(quiet_source(seed, plan.releases))
    solver.run(plan, pair[0], source, start=start)
    replay = replayed(source.asked, rng=quiet_source(seed).rng)
    solver.run(plan, pair[1], replay, start=start)
    moved = distances(source.asked, replay.asked)
    scales = [asked.release.noise_multiplier for asked in source.asked]
    return math.sqrt(
        sum((distance / z) ** 2 for (_, distance), z in zip(moved, scales, strict=True))
    )


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5])
def test_privacy_loss_of_whole_transcripts(share):
    """With everything Gaussian the loss of a transcript is known exactly; no path exceeds μ."""
    solver, plan = planned(1.0, 20, risk_share=share)
    claimed = claimed_mu_of(plan)
    by_angle = {}
    for angle in np.linspace(0.0, np.pi / 2, 60):
        pair, start = bad_pair(plan, angle)
        by_angle[angle] = exact_mu(solver, plan, pair, start)
    # and where the solver is left to move as it is planned to
    free_solver = MGR(n_steps=20, risk_share=share)
    free = free_solver.plan(plan.problem, Budget(1.0, DELTA))
    pair, start = bad_pair(free, max(by_angle, key=by_angle.get))
    moving = [
        exact_mu(free_solver, free, pair, at, seed) for seed in range(100) for at in (start, None)
    ]
    say(
        f"exact loss of transcripts, risk share {share}: mu = {max(by_angle.values()):.4f} "
        f"at the worst pair, {max(moving):.4f} at most of 200 free runs, claimed {claimed:.4f} "
        f"({max(by_angle.values()) / claimed:.1%})"
    )
    assert max(by_angle.values()) <= claimed * (1 + 1e-9)
    assert max(moving) <= claimed * (1 + 1e-9)
    if share == 0.02:
        assert max(by_angle.values()) > 0.98 * claimed


def test_privacy_loss_where_both_releases_are_at_their_worst():
    """Squared error at w = 0: a target of -Y against Y moves the gradient, against 0 the risk."""
    problem = make_problem((1, 30), loss=SquaredError(), radius=1e-3, scaling=0.0)
    tightest = {}
    for share in (0.05, 0.5, 0.95):
        solver = MGR(n_steps=5, risk_share=share, loss_clip=math.inf)
        plan = solver.plan(problem, Budget(1.0, DELTA))
        rows, targets = random_data(problem, 0)
        data = []
        for other in (-1.0, 1.0, 0.0):
            rows, targets = rows.copy(), targets.copy()
            rows[0], targets[0] = (1.0, 0.0), other
            data.append(make_data(problem, rows, targets))
        start = Solution(np.zeros(2), np.array([1.0 - 1e-9, 1e-9]), 0)
        found = [exact_mu(solver, plan, (data[0], other), start) for other in data[1:]]
        tightest[share] = max(found) / claimed_mu_of(plan)
        assert tightest[share] <= 1.0 + 1e-9
    say(
        "squared error, mu over claim by risk share: "
        + str({k: round(v, 3) for k, v in tightest.items()})
    )
    assert min(tightest.values()) > 0.7
    assert max(tightest.values()) > 0.96


# --- the noise as it is really added -----------------------------------------------------------


def lax_source(seed, plan, n_runs):
    """Return one source for many runs, with an allowance that a faulty run cannot exhaust."""
    return quiet_source(seed, list(plan.releases) * (3 * n_runs))


def transcripts(solver, plan, data, start, n_runs, seed, fault=None):
    """Yield the answers of many runs."""
    source = lax_source(seed, plan, n_runs)
    for _ in range(n_runs):
        recorder = recorded(source)
        if fault is not None:
            honest = recorder.answer_with
            recorder.answer_with = lambda r, v, s, honest=honest: fault(honest(r, v, s), v)
        solver.run(plan, data, recorder, start=start)
        yield recorder.asked


def exact_values(solver, plan, data, start):
    source = silent()
    solver.run(plan, data, source, start=start)
    return source.asked


def scores(solver, plan, pair, start, n_runs, fault=None):
    """Return the likelihood-ratio statistic of the transcripts of two neighbours."""
    first, second = (exact_values(solver, plan, data, start) for data in pair)

    def score(asked):
        total = 0.0
        for one, other, got in zip(first, second, asked, strict=True):
            off_one = (got.answer - one.value) / one.noise_scale
            off_other = (got.answer - other.value) / one.noise_scale
            if got.release.mechanism == "gaussian":
                total += float(np.sum(off_one**2 - off_other**2)) / 2
            else:
                total += float(np.sum(np.abs(off_one) - np.abs(off_other)))
        return total

    return [
        np.array(
            [score(asked) for asked in transcripts(solver, plan, data, start, n_runs, seed, fault)]
        )
        for seed, data in enumerate(pair)
    ]


WORST_ANGLE = 0.2


def worst_pair(solver, plan):
    pairs = [bad_pair(plan, angle) for angle in np.linspace(0.0, 1.2, 25)]
    return max(pairs, key=lambda found: exact_mu(solver, plan, *found))


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_transcripts_keep_the_claim(epsilon):
    solver, plan = planned(epsilon, 2)
    pair, start = worst_pair(solver, plan)
    mu = audited_mu(*scores(solver, plan, pair, start, N_RUNS[epsilon]))
    broken = verdict(f"transcripts, epsilon = {epsilon:g}", mu, claimed_mu_of(plan))
    assert not broken
    assert mu > (0.3 if epsilon == 1.0 else 0.7) * claimed_mu_of(plan)


@pytest.mark.parametrize(
    ("name", "solver_class", "fault"),
    [
        ("noise halved", MGR, lambda noisy, exact: exact + (noisy - exact) / 2),
        ("sensitivity without the diameter", NO_DIAMETER, None),
        ("one release more a step", SECOND_DRAW, None),
        ("noise of one sign", MGR, lambda noisy, exact: exact + np.abs(noisy - exact)),
    ],
)
def test_transcripts_of_a_planted_fault_are_caught(name, solver_class, fault):
    solver, plan = planned(4.0, 1, solver_class=solver_class)
    pair, start = bad_pair(plan, WORST_ANGLE)
    mu = audited_mu(*scores(solver, plan, pair, start, N_RUNS[4.0] // 2, fault))
    assert verdict(f"planted: {name}", mu, claimed_mu_of(plan))


# --- what leaves a run and a fit ---------------------------------------------------------------


def discriminant(null, other):
    """Return scores of a linear discriminant learned on the first fifth, of the other runs."""
    n_train = len(null) // 5
    first, second = null[:n_train], other[:n_train]
    spread = (np.cov(first.T) + np.cov(second.T)) / 2
    spread += 1e-9 * np.trace(spread) * np.eye(len(spread))
    direction = np.linalg.solve(spread, second.mean(axis=0) - first.mean(axis=0))
    return null[n_train:] @ direction, other[n_train:] @ direction


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_outputs_of_runs_keep_the_claim(epsilon):
    """Only the averaged weights and group weights are seen, as a user sees them."""
    solver, plan = planned(epsilon, 2, averaging=1.0)
    n_runs = N_RUNS[epsilon]
    pair, start = worst_pair(solver, plan)
    outputs = []
    for seed, data in enumerate(pair):
        source = lax_source(seed, plan, n_runs)
        runs = [solver.run(plan, data, source, start=start) for _ in range(n_runs)]
        outputs.append(
            np.array(
                [
                    [*(1e9 * (run.weights - start.weights)), 1e9 * run.group_weights[1]]
                    for run in runs
                ]
            )
        )
    mu = audited_mu(*discriminant(*outputs))
    assert not verdict(f"outputs of runs, epsilon = {epsilon:g}", mu, claimed_mu_of(plan))
    assert mu > (0.2 if epsilon == 1.0 else 0.5) * claimed_mu_of(plan)


def fits(solver, epsilon, canary, n_classes, n_fits, seed):
    """Return what many fits publish; the canary is alone in its group."""
    n_others = n_classes
    X = np.zeros((1 + n_others, 1))
    X[0, 0] = canary
    y = np.concatenate([[1], np.arange(n_others)])
    groups = np.array(["canary"] + ["others"] * n_others)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(n_fits):
            model = DPWorstGroupClassifier(
                epsilon, DELTA, solver=solver, radius=0.1, fit_intercept=False,
                random_state=2 * number + seed, data_norm=1.0, **WITHIN_GROUP,
            )  # fmt: skip
            model.fit(X, y, groups=groups)
            found.append([*model.coef_.ravel(), math.log(model.group_weights_[0])])
    return np.array(found), model


def audit_fits(solver, epsilon, *, n_classes=2, n_fits=N_FITS):
    null, model = fits(solver, epsilon, 1.0, n_classes, n_fits, 0)
    other, _ = fits(solver, epsilon, -1.0, n_classes, n_fits, 1)
    return audited_mu(*discriminant(null, other)), claimed_mu_of(model.plan_)


def one_step(solver_class=MGR):
    return solver_class(n_steps=1, step_size=1e-3, risk_share=0.02)


def test_fits_keep_the_claim():
    mu, claimed = audit_fits(one_step(), 4.0)
    assert not verdict("DPWorstGroupClassifier, epsilon = 4", mu, claimed)
    assert mu > 0.7 * claimed


def test_fits_with_half_the_noise_are_caught(monkeypatch):
    add_noise = SeededSampler.add_noise
    monkeypatch.setattr(
        SeededSampler,
        "add_noise",
        lambda self, values, *rest: (values + add_noise(self, values, *rest)) / 2,
    )
    mu, claimed = audit_fits(one_step(), 4.0, n_fits=1500)
    assert verdict("planted in fits: noise halved", mu, claimed)


def test_fits_without_the_diameter_are_caught():
    mu, claimed = audit_fits(one_step(NO_DIAMETER), 4.0, n_classes=8, n_fits=1200)
    assert verdict("planted in fits: sensitivity without the diameter", mu, claimed)


def test_fits_with_a_release_more_are_caught(monkeypatch):
    monkeypatch.setattr(noise_module.NoiseSource, "_spend", lambda *ignored: None)
    mu, claimed = audit_fits(one_step(SECOND_DRAW), 4.0, n_fits=2000)
    assert verdict("planted in fits: one release more", mu, claimed)
