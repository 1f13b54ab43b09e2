"""Group risks against a reimplementation that looks at one record at a time."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from sklearn_dpwg.data.risks import record_block as risks_module
from sklearn_dpwg.losses import BinaryLogLoss, MultinomialLogLoss, SquaredError
from tests.helpers.group_data import make_risks, naive
from tests.helpers.selections import Listed, with_records

LOSSES = (BinaryLogLoss(), SquaredError(1.0), MultinomialLogLoss(3), MultinomialLogLoss(5))
SHAPES = ((7, 1, 30), (25,), (1,) * 12, (64, 65, 128, 129))


@pytest.fixture(params=LOSSES, ids=repr)
def loss(request):
    return request.param


def check(risks, seed=0):
    rng = np.random.default_rng(seed)
    weights = 2.0 * rng.normal(size=risks.n_weights)
    group_weights = rng.dirichlet(np.ones(risks.n_groups))
    values, gradients, hessians = naive(risks, weights)
    np.testing.assert_allclose(risks.risks(weights), values, rtol=1e-12)
    both = risks.risks_and_gradients(weights)
    np.testing.assert_allclose(both[0], values, rtol=1e-12)
    np.testing.assert_allclose(both[1], gradients, rtol=1e-10, atol=1e-14)
    hessian = risks.hessian(weights, group_weights)
    expected = np.einsum("i,ijk->jk", group_weights, hessians)
    np.testing.assert_allclose(hessian, expected, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-15)


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("intercept", [0.0, 0.5])
def test_everything(loss, sizes, intercept):
    check(make_risks(loss, sizes, intercept=intercept))


@pytest.mark.parametrize("block_bytes", [1, 8 * 3 * 65])
def test_block_boundaries(loss, block_bytes, monkeypatch):
    monkeypatch.setattr(risks_module, "BLOCK_BYTES", block_bytes)
    check(make_risks(loss, (63, 64, 65, 200)))


def test_weights_are_one_output_after_the_other():
    risks = make_risks(MultinomialLogLoss(3), (20,), n_features=2)
    matrix = np.zeros((3, 3))
    matrix[1, -1] = 50.0  # the intercept of class 1 alone decides
    values = risks.loss.value(np.tile([0.0, 50.0, 0.0], (20, 1)), risks.records.targets)
    np.testing.assert_allclose(risks.risks(matrix.ravel()), [values.mean()], rtol=1e-13)


@pytest.mark.parametrize("loss_clip", [0.3, 0.8, 100.0])
def test_ceiling_caps_each_record_not_the_mean(loss, loss_clip):
    risks = make_risks(loss, (30, 11, 1))
    weights = np.random.default_rng(3).normal(size=risks.n_weights)
    capped, gradients, _ = naive(risks, weights, loss_clip)
    np.testing.assert_allclose(risks.risks(weights, loss_clip=loss_clip), capped, rtol=1e-12)
    both = risks.risks_and_gradients(weights, loss_clip=loss_clip)
    np.testing.assert_allclose(both[0], capped, rtol=1e-12)
    np.testing.assert_allclose(both[1], gradients, rtol=1e-10, atol=1e-14)
    if loss_clip == 0.8:
        assert np.any(np.minimum(risks.risks(weights), loss_clip) > capped + 1e-6)


def test_groups_of_weight_zero_are_not_read(loss):
    risks = make_risks(loss, (10, 10))
    risks.records.rows[:10] = np.nan
    with np.errstate(invalid="raise"):
        hessian = risks.hessian(np.zeros(risks.n_weights), np.array([0.0, 1.0]))
    assert np.isfinite(hessian).all()


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, csr_array])
def test_part_holds_whole_records_of_its_groups(loss, layout):
    risks = make_risks(loss, (7, 1, 30, 64))
    rows, names = risks.records.rows, np.linspace(0.1, 0.5, 102)
    risks = with_records(risks, rows=layout(rows), slope_limits=names)
    rng, sizes = np.random.default_rng(0), zip((7, 1, 30, 64), (3, 1, 30, 20), strict=True)
    part = risks.part(Listed([np.sort(rng.choice(*size, replace=False)) for size in sizes]))
    assert part.group_sizes == (3, 1, 30, 20)
    found = np.searchsorted(names, part.records.slope_limits)
    assert len(set(found)) == 54
    of_group = np.searchsorted([7, 8, 38], found, "right")
    np.testing.assert_array_equal(of_group, np.repeat([0, 1, 2, 3], [3, 1, 30, 20]))
    drawn = part.records.rows.toarray() if layout is csr_array else part.records.rows
    np.testing.assert_array_equal(drawn, rows[found])
    np.testing.assert_array_equal(part.records.targets, risks.records.targets[found])
    weights = np.random.default_rng(1).normal(size=risks.n_weights)
    # groups drawn in full have their own risk
    np.testing.assert_allclose(part.risks(weights)[1:3], risks.risks(weights)[1:3], rtol=1e-12)
    assert (part.n_passes, risks.n_passes) == (1, 1)
