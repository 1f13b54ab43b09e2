"""Blocks of records on workers answer bit for bit what they answer in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sklearn_dpwg.data.distributed.dask_engine import DaskEngine
from sklearn_dpwg.data.risks.selection import keyed_parts
from sklearn_dpwg.losses import BinaryLogLoss, Hinge
from sklearn_dpwg.privacy.noise.poisson import PoissonSample
from tests.helpers import toy_blocks as toy
from tests.helpers.group_data import make_risks
from tests.helpers.storage import in_blocks

SIZES = (37, 1, 90)


def itself(block):
    return block


def answers(risks):
    weights = np.linspace(-0.5, 0.5, risks.n_weights)
    sample = PoissonSample(0.3, bytes(range(32)), False)
    part = keyed_parts(SIZES, [(10, 1, 20)], np.random.default_rng(3))[0]
    found = [
        risks.risks(weights),
        *risks.risks_and_gradients(weights),
        risks.hessian(weights, np.array([0.2, 0.3, 0.5])),
        *risks.sums(weights, ceiling=0.8),
        *risks.sampled_sums(weights, sample, ceiling=0.8, center=2.0**-3),
        *risks.part(part).risks_and_gradients(weights),
        risks.with_loss(Hinge()).risks(weights),
    ]
    return [np.asarray(one).tobytes() for one in found]


def test_workers_answer_what_memory_answers(threads):
    blocks = in_blocks(make_risks(BinaryLogLoss(), SIZES), 5)
    engine = DaskEngine(threads, pass_timeout=60.0)
    handles = engine.derive(engine.hold(blocks.handles), itself)
    assert answers(replace(blocks, engine=engine, handles=handles)) == answers(blocks)


def test_forgotten_risks_leave_nothing_on_the_workers(threads):
    blocks = in_blocks(make_risks(BinaryLogLoss(), SIZES), 5)
    engine = DaskEngine(threads, pass_timeout=60.0)
    handles = engine.derive(engine.hold(blocks.handles), itself)
    answers(replace(blocks, engine=engine, handles=handles))
    toy.wait_until_held(threads, len(handles), prefix="dpwg")
