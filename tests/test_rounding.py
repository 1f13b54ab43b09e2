"""What rounding adds to a record, a sum, a certificate, a round: against exact arithmetic.

Sums are computed in rational numbers, roots and exponentials with 60 digits.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    MultinomialLogLoss,
    SmoothedHinge,
    SquaredHinge,
)
from sklearn_dpwg.optimum.saddle_point import (
    ON_SPHERE,
    ball_gap,
    project_to_ball,
)
from sklearn_dpwg.privacy import Budget, Release
from sklearn_dpwg.privacy.prefix_sums import PREFIX_SUMS, PrefixSumStream, make_prefix_sums
from sklearn_dpwg.solvers import OCO
from sklearn_dpwg.solvers.rounds import (
    STRENGTHS,
    gap_and_sensitivity,
    noise_stds,
    rounding_of_minimiser,
    sensitivities,
    solved_phase,
)
from sklearn_dpwg.solvers.steps import gradient_sum, record_errors, rounding_of_sum
from tests.helpers.prefix_factors import factors
from tests.helpers.replay import Recorder, silent

UNIT = 2.0**-53
BUDGET = Budget(1.0, 1e-6)
SUMS = Release("sums", "gaussian", 1.0, max_count=1)


def exact(values) -> list[Fraction]:
    return [Fraction(value) for value in np.ravel(values).tolist()]


def wide(values) -> list[Decimal]:
    return [Decimal(value) for value in np.ravel(values).tolist()]


def distance(one, other) -> Fraction:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


# --- one record --------------------------------------------------------------------------------


def risks_of_one(loss, row, target, scaling):
    encoder = RecordEncoder(1, 1.0)
    records = encoder.encode(row[None, :], np.array([float(target)]), np.zeros(1, dtype=np.intp))
    return GroupRisks(records, loss, scaling)


def exact_record(loss, row, target, weights, scaling):
    """Return loss and gradient of one record with 60 digits; its row has norm 1 at most."""
    row = [*wide(row), Decimal(scaling)] if scaling else wide(row)
    matrix = [wide(of_output) for of_output in weights.reshape(loss.n_outputs, -1)]
    scores = [sum(w * x for w, x in zip(of_output, row, strict=True)) for of_output in matrix]
    if isinstance(loss, MultinomialLogLoss):
        powers = [score.exp() for score in scores]
        total = sum(powers)
        value = total.ln() - scores[int(target)]
        slopes = [power / total for power in powers]
        slopes[int(target)] -= 1
    elif isinstance(loss, BinaryLogLoss):
        power = (-Decimal(target) * scores[0]).exp()
        value, slopes = (1 + power).ln(), [-Decimal(target) * power / (1 + power)]
    else:
        missing = max(1 - Decimal(target) * scores[0], Decimal(0))
        if isinstance(loss, SquaredHinge):
            value, slopes = missing**2, [-2 * Decimal(target) * missing]
        else:
            width = Decimal(loss.width)
            slope = min(missing / width, Decimal(1))
            value, slopes = slope * (missing - width * slope / 2), [-Decimal(target) * slope]
    return value, [slope * x for slope in slopes for x in row]


RECORDS = [
    (BinaryLogLoss(), 40, 20.0),
    (SquaredHinge(), 40, 20.0),
    (SmoothedHinge(0.3), 40, 20.0),
    (SmoothedHinge(1e-7), 40, 20.0),
    (MultinomialLogLoss(3), 20, 5.0),
    (MultinomialLogLoss(3000), 1, 1e-3),
    (MultinomialLogLoss(2000), 2, 300.0),
]


@pytest.mark.parametrize(("loss", "n_features", "radius"), RECORDS, ids=str)
def test_a_record_errs_by_no_more_than_is_stated(loss, n_features, radius):
    """Lemma 1, next to kinks and edges too, for classes in their thousands."""
    rng = np.random.default_rng(0)
    n_tried = 4 if loss.n_outputs > 100 else 24
    for tried in range(n_tried):
        scaling = 0.5 * (tried % 2)
        problem = Problem(loss, (1,), n_features, radius, (1.0,), scaling)
        row = rng.standard_normal(n_features)
        row *= (1.0 - 1e-15) / np.linalg.norm(row) if tried % 3 else 1e-9
        weights = rng.standard_normal(problem.n_weights)
        weights *= radius / np.linalg.norm(weights)
        target = float(rng.integers(loss.n_outputs)) if loss.n_outputs > 1 else 1.0
        if loss.n_outputs == 1 and tried % 2:  # a score next to 1, where hinges bend
            rest = 1.0 - 1e-8 - scaling * weights[-1] * (scaling > 0)
            row = project_to_ball(row * rest / (row @ weights[:n_features]), 1.0 - 1e-15)
        of_gradient, of_loss = record_errors(problem, problem.constants.supremum)
        risks = risks_of_one(loss, row, target, scaling)
        result, row = risks.risks_and_gradients(weights), risks.records.rows[0].astype(float)
        with localcontext() as context:
            context.prec = 60
            value, gradient = exact_record(loss, row, target, weights, scaling)
        assert abs(Fraction(float(result[0][0])) - Fraction(value)) <= Fraction(of_loss)
        error = distance(exact(result[1]), [Fraction(entry) for entry in gradient])
        assert error <= Fraction(of_gradient) ** 2


# --- the certificate -----------------------------------------------------------------------------


def certificate(weights, gradient, mu, radius):
    """Return √(2G/μ) of the point that weights stand for and its distance, with 60 digits."""
    d = len(weights)
    inside = max(radius - (1.0 + ON_SPHERE * (d + 16.0)) * float(np.linalg.norm(weights)), 0.0)
    point, slope, mu, radius = wide(weights), wide(gradient), Decimal(mu), Decimal(radius)
    aimed = [w - g / mu for w, g in zip(point, slope, strict=True)]
    length = sum(a * a for a in aimed).sqrt()
    moved = point
    if length > radius:
        norm = sum(w * w for w in point).sqrt()
        moved = [w * (radius - Decimal(inside)) / norm if norm else w for w in point]
        aimed = [w - g / mu for w, g in zip(moved, slope, strict=True)]
        length = sum(a * a for a in aimed).sqrt()
    best = [a * min(Decimal(1), radius / length) for a in aimed] if length else aimed
    step = [v - w for v, w in zip(best, moved, strict=True)]
    gap = -sum(g * s for g, s in zip(slope, step, strict=True)) - mu / 2 * sum(s * s for s in step)
    off = sum((a - b) ** 2 for a, b in zip(point, moved, strict=True)).sqrt()
    return (2 * max(gap, Decimal(0)) / mu).sqrt(), off


@given(
    d=st.sampled_from([1, 2, 5, 60]),
    log_mu=st.floats(-9, 3),
    log_slope=st.floats(-12, 1),
    log_radius=st.floats(-2, 3),
    depth=st.sampled_from([0.0, 1e-16, 1e-15, 1e-14, 1e-13, 1e-8, 0.3, 1.0]),
    log_side=st.floats(-17, 0),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=50)
def test_a_certificate_is_off_by_no_more_than_is_paid(
    d, log_mu, log_slope, log_radius, depth, log_side, seed
):
    """Inside, on the sphere, at the edge of what counts as on it; next to solutions and far."""
    rng = np.random.default_rng(seed)
    mu, radius = 10.0**log_mu, 10.0**log_radius
    weights = rng.standard_normal(d)
    weights *= radius * (1.0 - depth) / np.linalg.norm(weights)
    weights = project_to_ball(weights, radius)
    # nearly a solution: outwards, and a little to the side
    gradient = -(10.0**log_slope) * weights / radius + 10.0**log_side * rng.standard_normal(d)
    with localcontext() as context:
        context.prec = 60
        due, off = certificate(weights, gradient, mu, radius)
        stretch = 4.0 + 2.0 * float(np.linalg.norm(gradient)) / (mu * radius)
        paid = Decimal(16.0 * (d + 16.0) * UNIT * radius) * Decimal(stretch).sqrt()
        gap = ball_gap(weights, gradient, mu, radius)
        shown = (2 * Decimal(gap) / Decimal(mu)).sqrt()
        assert due + off <= shown * (1 + Decimal(8 * UNIT)) + paid
        assert shown <= due * (1 + Decimal(64 * UNIT)) + paid  # so a tolerance is within reach


# --- planning knows what a run pays ------------------------------------------------------------


@pytest.mark.parametrize("mu_groups", [math.inf, 0.05])
@pytest.mark.parametrize("size", [50, 10**9])
def test_planned_noise_is_that_of_a_run(mu_groups, size):
    problem = Problem(BinaryLogLoss(), (size, 2 * size), 20, 3.0, (0.6, 0.4), 0.5)
    facts = {"prior": problem.prior, "mu_groups": mu_groups}
    stds = noise_stds(problem, **facts, multiplier=2.0, ratio=0.7)
    places = range(0, len(STRENGTHS), 6 if mu_groups < math.inf else 1)
    for place in places:
        phase = solved_phase(problem, **facts, mu_weights=0.7 * STRENGTHS[place])
        planned = min(stds[place] / 2.0, problem.diameter)
        assert planned == pytest.approx(phase.sensitivity, rel=1e-8)
        (least,) = sensitivities(problem, **facts, mu_weights=[phase.mu_weights])
        assert min(least, problem.diameter) <= phase.sensitivity


@given(log_exact=st.floats(-12, 3), log_mu=st.floats(-20, 3), size=st.integers(1, 10**13))
def test_a_phase_pays_for_its_gap_and_for_rounding(log_exact, log_mu, size):
    problem = Problem(BinaryLogLoss(), (size, size), 20, 3.0, (0.6, 0.4), 0.5)
    mu, exact_move = 10.0**log_mu, 10.0**log_exact
    facts = {"mu_weights": mu, "mu_groups": 0.3}
    tolerance, paid = gap_and_sensitivity(problem, exact_move, **facts)
    rounding = Fraction(float(rounding_of_minimiser(problem, **facts)))
    with localcontext() as context:
        context.prec = 60
        two = 2 * (2 * Decimal(float(tolerance)) / Decimal(mu)).sqrt()
    due = Fraction(exact_move) + Fraction(two) + rounding
    assert Fraction(float(paid)) >= min(due, Fraction(problem.diameter))


# --- rounds of the online solver -----------------------------------------------------------------


@given(
    n=st.sampled_from([1, 5, 300, 2048, 2049, 4100]),
    n_outputs=st.sampled_from([1, 3]),
    scaling=st.sampled_from([0.0, 0.5]),
    spread=st.sampled_from([0, 30, 52]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=10)
def test_the_sum_of_a_round_errs_by_no_more_than_is_paid(n, n_outputs, scaling, spread, seed):
    rng = np.random.default_rng(seed)
    loss = AbsoluteError() if n_outputs == 1 else MultinomialLogLoss(n_outputs)
    problem = Problem(loss, (10**4,), 2, 5.0, (1.0,), scaling)
    slopes = rng.choice([-1.0, 1.0, 2.0**-spread], (n, n_outputs))
    rows = rng.uniform(-1.0, 1.0, (n, 2)) * 2.0 ** -rng.choice([0, spread], (n, 1))
    given_slopes = slopes[:, 0] if n_outputs == 1 else slopes
    result = gradient_sum(problem, rows, given_slopes, n)
    columns = [exact(rows[:, 0]), exact(rows[:, 1])]
    if scaling:
        columns.append([Fraction(scaling)] * n)
    of_outputs = [exact(slopes[:, k]) for k in range(n_outputs)]
    products = [
        [s * x for s, x in zip(of_output, column, strict=True)]
        for of_output in of_outputs
        for column in columns
    ]
    norms = sum(math.sqrt(float(sum(p[i] ** 2 for p in products))) for i in range(n))
    error = distance(exact(result), [sum(p) for p in products])
    assert error <= (Fraction(rounding_of_sum(n, 1)) * Fraction(norms) * Fraction(1 + 1e-9)) ** 2


@pytest.mark.parametrize("name", sorted(PREFIX_SUMS))
@pytest.mark.parametrize("n_steps", [1, 200])
@pytest.mark.parametrize("kind", ["random", "around a power of two"])
def test_rows_of_prefix_sums_err_by_no_more_than_is_paid(name, n_steps, kind):
    """What is handed to the noise against C G in rational numbers."""
    rng = np.random.default_rng(n_steps)
    vectors = rng.uniform(-1.0, 1.0, (n_steps, 2)) / math.sqrt(2.0)
    if kind != "random":
        vectors = np.full((n_steps, 2), -0.26 * n_steps * 2.0**-52)
        vectors[: n_steps // 2 + 1] = 1.0 / math.sqrt(2.0)
    vectors[0] = 1.0 / math.sqrt(2.0)
    mechanism = make_prefix_sums(name, n_steps=n_steps, n_dimensions=2)
    noise = silent()
    stream = PrefixSumStream(mechanism, noise, SUMS)
    for vector in vectors:
        stream.add(vector, 1.0)
    # the coefficients as computed: they are public
    _, encoder = factors(mechanism)
    error = Fraction(0)
    exact_vectors = [exact(vectors[:, j]) for j in range(2)]
    for row, asked in zip(encoder, noise.asked, strict=True):
        places = np.flatnonzero(row)
        fractions = exact(row[places])
        due = [
            sum(c * of_column[s] for c, s in zip(fractions, places.tolist(), strict=True))
            for of_column in exact_vectors
        ]
        error += distance(exact(asked.value), due)
    longest = max(math.sqrt(float(v @ v)) for v in vectors) * (1 + 1e-12)
    paid = Fraction(mechanism.rounding) * Fraction(mechanism.column_norm) * Fraction(longest)
    assert 4 * error <= paid**2  # of both neighbours
    assert name == "independent" or n_steps < 64 or error > 0


@pytest.mark.parametrize("noise", sorted(PREFIX_SUMS))
@pytest.mark.parametrize("play", ["weighted", "sampled"])
def test_the_adversary_moves_all_rows_of_a_game_by_no_more_than_is_stated(noise, play):
    """Ones and values of a quarter of a last digit; the record's own move is all of Γ."""
    n = 4096
    moved = []
    for first in (1.0, -1.0):
        column = np.concatenate([np.ones(n // 2), np.full(n // 2, -0.26 * 2.0**-42)])
        column[0] = first
        rows = column[:, None] * np.full(4, 0.5)
        records = RecordEncoder(1, 1.0).encode(rows, np.full(n, -1.0), np.zeros(n, dtype=np.intp))
        problem = Problem(AbsoluteError(), (n,), 4, 1.0, (1.0,), 0.0)
        risks = GroupRisks(records, AbsoluteError(), 0.0)
        plan = OCO(n_rounds=8, noise=noise, play=play).plan(problem, BUDGET)
        # answers are zero: both neighbours play the same weights
        source = Recorder(lambda release, value, sensitivity: np.zeros_like(value))
        game = OCO(n_rounds=8, noise=noise, play=play).begin(plan, source)
        game.advance(InOrder(records), problem.group_sizes)
        moved.append(source.asked)
        assert risks.n_groups == 1
    total = Fraction(0)
    for one, other in zip(*moved, strict=True):
        assert float(one.sensitivity) == float(other.sensitivity)
        total += (
            distance(exact(one.value), exact(other.value)) / Fraction(float(one.sensitivity)) ** 2
        )
    assert Fraction(999, 1000) <= total <= 1


class InOrder:
    """An oracle that deals records in the order of the rows."""

    def __init__(self, records) -> None:
        self.records, self.next = records, 0

    def draw(self, group, size):
        part = slice(self.next, self.next + size)
        self.next += size
        return self.records.rows[part], self.records.targets[part]
