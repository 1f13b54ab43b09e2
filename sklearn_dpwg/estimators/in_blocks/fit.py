"""A fit of records in partitions, with the plan, the warnings and the answer of one in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from sklearn.base import is_classifier

from sklearn_dpwg._lazy_data import is_source
from sklearn_dpwg.estimators.fitting import Fitting
from sklearn_dpwg.estimators.in_blocks.encoding import (
    Encoder,
    Expected,
    check_kinds,
    encode_partition,
    refusal_of,
    same_block,
    seal_of,
)
from sklearn_dpwg.estimators.in_blocks.facts import Facts, merge
from sklearn_dpwg.estimators.in_blocks.held import Held, hold
from sklearn_dpwg.estimators.in_blocks.lease import Lease
from sklearn_dpwg.estimators.in_blocks.refusal import raise_first
from sklearn_dpwg.estimators.in_blocks.survey import Survey, survey_partition
from sklearn_dpwg.estimators.spending import check_solution, spending
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.risks import BlockRisks, LocalEngine, Risks
from sklearn_dpwg.solvers import FreshSolver


def fit_in_blocks(estimator: Fitting, X: Any, y: Any, groups: Any) -> None:
    """Fit an estimator to a source, or to collections of dask.

    Labels are read once, rows once. Every block is proved sound before the first draw, and none is
    left behind, whatever happens.
    """
    if estimator._hides_groups:
        raise ValueError(
            "neighbours must be 'replace-in-group' with records that are not in memory, got "
            "'replace-any', which is for arrays and frames."
        )
    if estimator.group_by is not None and is_source(X) and getattr(X, "groups", None) is not None:
        raise ValueError("the source names groups and group_by is set: use one of them, not both.")
    budget = estimator._check_parameters()
    solver = estimator._make_solver(budget)
    if isinstance(solver, FreshSolver):
        raise ValueError(
            f"solver must be one that reads all records at once, such as 'auto', with records that "
            f"are not in memory, got {estimator.solver!r}: fit_oracle learns from fresh records."
        )
    with hold(X, y, groups) as held:
        surveys = _survey(estimator, held)
        facts = merge(estimator, surveys, held.names)
        sizes = facts.sizes.sum(axis=0)
        problem = estimator._problem(facts.targets.loss, sizes.tolist(), facts.n_features)
        first = estimator._first_weights(facts.targets, problem)
        plan = estimator._plan_for(solver, problem, facts.labels, budget, first)
        # without releases nothing is drawn, so random_state does not matter
        noise = NoiseSource(estimator.random_state if plan.releases else None, plan.releases)
        with (
            spending(noise, budget, plan, estimator, estimator._fit_key) as guarantee,
            _risks_of_blocks(estimator, held, surveys, facts, problem) as data,
        ):
            of_solver = replace(plan)  # what it does to its own does not reach `plan_`
            solution = estimator._with_progress(
                plan, noise, lambda: solver.run(of_solver, data, noise, start=first)
            )
            check_solution(plan, solution, estimator.solver)
    estimator._keep_outcome(plan, guarantee, facts.targets, facts.labels, sizes, solution)


def _survey(estimator: Fitting, held: Held) -> list[Survey]:
    """Return what is known of every partition, of its labels alone unless groups are in X."""
    ask = partial(
        survey_partition, group_by=estimator.group_by, is_classifier=is_classifier(estimator)
    )
    surveys = held.of_each(ask)
    raise_first(surveys)
    return surveys


@contextmanager
def _risks_of_blocks(
    estimator: Fitting, held: Held, surveys: list[Survey], facts: Facts, problem: Problem
) -> Iterator[Risks]:
    """Make blocks of all partitions, prove them sound, and forget them in the end."""
    engine = Lease(held.engine, held.check)
    with ExitStack() as stack:
        stack.callback(engine.end)
        spool = None
        if held.spool is not None:
            from sklearn_dpwg.sources import Spool

            spool = stack.enter_context(Spool(held.spool))
            # the traceback of a failed fit may hold blocks for as long as the caller likes
            stack.callback(spool.drop)
            n_records = sum(problem.group_sizes)
            spool.reserve(n_records * (problem.n_features * facts.dtype.itemsize + 16))
        expected = [
            Expected(place, each.fingerprint, tuple(sizes), tuple(ranks))
            for place, (each, sizes, ranks) in enumerate(
                zip(surveys, facts.sizes.tolist(), facts.first_ranks.tolist(), strict=True)
            )
        ]
        filled = [each for each in expected if sum(each.sizes)]
        encode = partial(encode_partition, encoder=_encoder(estimator, facts, problem), spool=spool)
        handles = [held.handles[each.place] for each in filled]
        blocks = engine.derive(handles, encode, [(each,) for each in filled])
        if isinstance(held.engine, LocalEngine):
            raise_first(engine.collect(blocks, refusal_of))
        else:  # a worker that is lost takes its blocks along, and they are made once more
            seals = engine.collect(blocks, seal_of)
            raise_first(seals)
            check_kinds(seals)
            places = [(each.place, seal) for each, seal in zip(filled, seals, strict=True)]
            unsealed, blocks = blocks, engine.derive(blocks, same_block, places)
            engine.release(unsealed)
        yield BlockRisks(
            engine,
            blocks,
            loss=problem.loss,
            intercept_scaling=problem.intercept_scaling,
            group_sizes=problem.group_sizes,
            n_features=problem.n_features,
        )


def _encoder(estimator: Fitting, facts: Facts, problem: Problem) -> Encoder:
    return Encoder(
        dtype=facts.dtype,
        group_by=estimator.group_by,
        labels=facts.labels.tolist() if facts.has_groups else None,
        targets=facts.targets,
        is_classifier=is_classifier(estimator),
        row_norm=float(estimator._row_norm),
        loss=problem.loss,
        intercept_scaling=problem.intercept_scaling,
        owner=type(estimator).__name__,
    )
