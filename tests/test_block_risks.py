"""Many blocks answer as one does: however records are stored, and whatever an engine does."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.data.risks.record_block import RecordBlock, keyed_parts
from sklearn_dpwg.data.risks.risks import LocalEngine
from sklearn_dpwg.data.rows import linear_scores
from sklearn_dpwg.losses import BinaryLogLoss, Hinge, MultinomialLogLoss, Quantile, SquaredError
from sklearn_dpwg.privacy.noise.poisson import PoissonSample
from sklearn_dpwg.solvers.centring import WHITENING_STEP
from tests.helpers.group_data import make_risks
from tests.helpers.selections import Listed
from tests.helpers.storage import RestlessEngine, in_blocks
from tests.helpers.sum_cases import PlainAbsoluteError, laid_out

LOSSES = (BinaryLogLoss(), MultinomialLogLoss(3), SquaredError(1.0), PlainAbsoluteError())
SIZES = (37, 1, 90)
MOMENTS = {"clip": 1.0, "constant": 0.75, "length": 1.25}


def _white(n):
    """Return a symmetric matrix whose products with rows are exact."""
    found = np.eye(n) + 0.1 * np.cos(np.add.outer(np.arange(n), np.arange(n)))
    return np.rint(found / WHITENING_STEP) * WHITENING_STEP


WHITE = _white(3)


def answers(risks, weights, *, exact):
    """Return what blocks answer: exact ones, or the others."""
    some = np.linspace(0.2, 0.8, risks.n_groups)
    if not exact:
        centred = risks.with_loss(BinaryLogLoss()) if risks.loss.n_outputs == 1 else risks
        found = [
            risks.risks(weights, loss_clip=0.8),
            *risks.risks_and_gradients(weights),
            risks.over(np.full(risks.n_groups, 7.0), loss_center=0.3).risks(weights),
            centred.hessian(weights, some),
        ]
        if risks.loss.n_outputs == 1:
            view = centred.centred(np.full(3, 0.1), constant=0.25, clip=0.4)
            found += [*view.risks_and_gradients(weights), view.hessian(weights, some)]
            view = centred.centred(np.full(3, 0.1), constant=0.25, clip=0.4, whitening=WHITE)
            found += [*view.risks_and_gradients(weights), view.hessian(weights, some)]
        return found
    sample = PoissonSample(0.4, bytes(32))
    found = [
        *risks.sums(weights, loss_clip=0.8, center=2.0**-4),
        risks.sums(weights, loss_clip=0.8, gradients=False)[0],
        *risks.sampled_sums(weights, sample, loss_clip=0.8, center=2.0**-3),
        risks.row_sum(),
        np.array(risks.spread(np.full(3, 0.1))),
        np.array(risks.spread(np.full(3, 0.1), whitening=WHITE)),
        *(risks.second_moments(columns_alone=alone) for alone in (True, False)),
    ]
    if risks.loss.n_outputs == 1:
        found.append(risks.residual_moments(weights, **MOMENTS))
    return found


@pytest.mark.parametrize("layout", ["rows", "columns", "csr"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_many_blocks_answer_as_one(loss, layout):
    """Hessians to rounding, sums to the last bit, wherever blocks end."""
    rng = np.random.default_rng(0)
    rows = laid_out(rng.standard_normal((sum(SIZES), 3)), layout)
    one = make_risks(loss, SIZES, intercept=0.5, rows=rows)
    weights = rng.standard_normal(one.n_weights)
    many = in_blocks(one, 5, engine=RestlessEngine())
    for exact, tolerance in ((False, {"rtol": 1e-12, "atol": 1e-14}), (True, {"rtol": 0.0})):
        pairs = zip(*(answers(each, weights, exact=exact) for each in (many, one)), strict=True)
        for found, expected in pairs:
            np.testing.assert_allclose(found, expected, **tolerance)


# --- parts ---------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(0, 2**32))
def test_parts_and_parts_of_parts_hold_the_same_records(n_blocks, seed):
    rng = np.random.default_rng(seed)
    one = make_risks(BinaryLogLoss(), SIZES)
    one.records.targets[:] = np.arange(128)  # who is who
    many = in_blocks(one, n_blocks, seed, engine=RestlessEngine())
    parts = keyed_parts(SIZES, [[size // 3 for size in SIZES]] * 2, rng)
    for part in parts:
        few, same = many.part(part), one.part(part)
        assert few.group_sizes == same.group_sizes
        assert few.n_passes == 0
        assert names(few) == names(same)
        fewer = [rng.integers(0, size + 1, 2) for size in few.group_sizes]
        again = Listed([np.arange(*sorted(ends)) for ends in fewer])
        assert names(few.part(again)) == names(same.part(again))


def names(risks):
    """Return the targets of each group."""
    by_group = [[] for _ in risks.group_sizes]
    for block in risks.handles:
        starts = block.records.starts
        for group, of_group in enumerate(by_group):
            of_group += block.records.targets[starts[group] : starts[group + 1]].tolist()
    return by_group


def test_records_in_several_blocks_have_no_oracle():
    risks = in_blocks(make_risks(BinaryLogLoss(), SIZES), 2)
    with pytest.raises(ValueError, match=r"in memory, in one block, .* got 2 block\(s\) of Local"):
        risks.as_oracle(np.random.default_rng(0))


def test_a_block_shows_nothing():
    (block,) = make_risks(BinaryLogLoss(), SIZES).handles
    assert "RecordBlock object at" in repr(block)


@given(
    loss=st.sampled_from([*LOSSES, Hinge(), Quantile(0.8)]),
    layout=st.sampled_from(["rows", "csr"]),
    dtype=st.sampled_from([np.float64, np.float32]),
    n_features=st.sampled_from([1, 5, 60]),
    is_sorted=st.booleans(),
    cuts=st.lists(st.integers(0, 120), max_size=6),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_border_changes_a_bit_of_what_is_released(
    loss, layout, dtype, n_features, is_sorted, cuts, seed
):
    """Blocks that are encoded each by itself; targets where slopes jump, rows of all lengths."""
    rng, n = np.random.default_rng(seed), 120
    rows = rng.standard_normal((n, n_features)).astype(dtype)
    rows[rng.random(rows.shape) < 0.3] = 0.0
    rows[rng.random(n) < 0.2] *= 1e3
    codes = rng.integers(0, 3, n)
    codes = np.sort(codes) if is_sorted else codes
    weights = rng.standard_normal(loss.n_outputs * (n_features + 1))
    weights /= np.linalg.norm(weights)
    encoder = RecordEncoder(3, 1.0)
    targets = rng.choice([-1.0, 1.0], n)
    if loss.task == "multiclass":
        targets = rng.integers(0, loss.n_outputs, n).astype(float)
    elif loss.task == "regression":
        whole = encoder.encode(laid_out(rows, layout, dtype), targets, np.zeros(n, np.intp))
        targets = linear_scores(whole.rows, weights[None, :-1])[:, 0] + 0.5 * weights[-1]

    def stored(edges):
        blocks, ranks = [], np.zeros(3, dtype=int)
        for first, last in pairwise(edges):
            part = laid_out(rows[first:last], layout, dtype), targets[first:last], codes[first:last]
            blocks.append(RecordBlock(encoder.encode(*part), loss, 0.5, first_ranks=tuple(ranks)))
            ranks = ranks + np.bincount(codes[first:last], minlength=3)
        facts = {"loss": loss, "intercept_scaling": 0.5, "group_sizes": tuple(ranks.tolist())}
        return Risks(LocalEngine(), blocks, n_features=n_features, **facts)

    def released(risks):
        center = np.full(n_features, 0.5 / n_features)
        sample = PoissonSample(0.4, bytes(range(32)))
        found = [
            *risks.sums(weights, loss_clip=3.0),
            *risks.sampled_sums(weights, sample, loss_clip=3.0, center=0.25),
            risks.row_sum(),
            np.array(risks.spread(center)),
        ]
        if loss.has_ends:
            for white in (None, np.linspace(0.5, 2.0, n_features), _white(n_features)):
                view = risks.centred(center, constant=0.25, clip=0.3, whitening=white)
                found += view.sums(weights, loss_clip=3.0)
        if loss.n_outputs == 1:
            found.append(risks.residual_moments(weights, **MOMENTS))
        return found

    one, many = stored([0, n]), stored([0, *sorted(cuts), n])
    for found, expected in zip(released(many), released(one), strict=True):
        np.testing.assert_array_equal(found, expected)
