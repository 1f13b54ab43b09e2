"""Cases of the solvers that descend: MGR on passes, centred, on batches and for hidden groups."""

from __future__ import annotations

import dataclasses
import math
from copy import copy
from typing import Any

import numpy as np
import pytest

from sklearn_dpwg.data.problem import Cells, Problem
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Hinge,
    MultinomialLogLoss,
    SquaredError,
)
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import AGS, GDA, MGR, batches, descent, steps
from sklearn_dpwg.solvers import centring as centring_module
from sklearn_dpwg.solvers.batches import Batches
from sklearn_dpwg.solvers.mgr import MGRSchedule
from sklearn_dpwg.solvers.steps import SumSensitivity
from tests.helpers.contract import (
    Case,
    exact,
    half,
    instead,
    leaks,
    moves_of_batches,
    no_ceiling,
    output,
    planned,
    states,
    stops,
)
from tests.helpers.neighbours import (
    hidden_problem,
    overlapping_problem,
    random_budget,
    random_problem,
)
from tests.helpers.replay import Instead, tampered
from tests.helpers.selections import chosen

LOSSES = (
    BinaryLogLoss(),
    BinaryLogLoss(0.85),
    MultinomialLogLoss(3),
    MultinomialLogLoss(6),
    SquaredError(),
    SquaredError(0.3),
)
OF_HIDDEN_GROUPS = (*LOSSES[:3], *LOSSES[4:], Hinge(), AbsoluteError())


def _low(problem, fraction):
    """Return a clip that is a fraction of the way from the infimum to the supremum."""
    low, high = problem.constants.infimum, problem.constants.supremum
    return low + fraction * (high - low)


def _diameter(plan):
    return plan.schedule.gradient_diameter


def _sizes(plan):
    return np.array(plan.problem.group_sizes, dtype=float)


def _exact(plan, data, weights):
    return data.risks_and_gradients(weights, loss_clip=plan.schedule.loss_clip)


def _outside(real, weights, radius):
    return weights


def of_every_step(solver):
    """Return the faults that may be in a step of each of these solvers."""
    return {
        "half the gradient's sensitivity": half(solver, "gradient"),
        "half the risks' sensitivity": half(solver, "group risks"),
        "K for n_i in the gradient": states(
            solver, "gradient", lambda stated, plan: _diameter(plan) / _sizes(plan).sum()
        ),
        "means with the range of sums": states(
            solver, "group risks", lambda stated, plan: stated / _sizes(plan).sum()
        ),
        "no clip": no_ceiling,
        "exact risks move the group weights": exact(solver, "group risks"),
        "the exact gradient leaks into the step": leaks(solver, "gradient"),
    }


# --- MGR on passes -----------------------------------------------------------------------------


def mgr_plans(n_plans=48, **parameters):
    rng = np.random.default_rng(0)
    for index in range(n_plans):
        problem = random_problem(rng, LOSSES[index % len(LOSSES)])
        loss_clip: Any = rng.choice([None, np.inf, _low(problem, 0.1), _low(problem, 0.7)])
        solver = MGR(
            n_steps=3,
            schedule="planned" if index % 3 else "paper",
            loss_clip=loss_clip,
            risk_fraction=0.3,
            max_passes=3,
            centring=False,
        ).set_params(**parameters)
        yield solver.plan(problem, random_budget(rng)), solver


def higher_ceilings():
    """Yield plans with the range of one clip and runs with another."""
    for plan, solver in mgr_plans(24, schedule="planned", loss_clip=None):
        supremum = plan.problem.constants.supremum
        if plan.problem.n_groups > 1 and plan.schedule.loss_clip < supremum:
            higher = dataclasses.replace(plan.schedule, loss_clip=supremum)
            yield dataclasses.replace(plan, schedule=higher), solver


def _in_a_step(fault):
    return instead(descent, "release_full_pass", fault)


def _states_in_a_step(wrong, *, step="weighted"):
    """Plant a gradient's sensitivity that is stated as ``wrong(plan, group weights)``."""

    def fault(real, plan, data, weights, group_weights, noise, *limits):
        def change(draw, value, stated):
            return draw(value, wrong(plan, group_weights, stated))

        is_meant = plan.schedule.step == step
        source = tampered(noise, "gradient", change) if is_meant else noise
        return real(plan, data, weights, group_weights, source, *limits)

    return _in_a_step(fault)


def _after_an_update(real, plan, data, weights, group_weights, noise, *limits):
    """State the gradient for the group weights after an update by exact risks."""
    risks, _ = _exact(plan, data, weights)
    after = np.maximum(group_weights, 1e-300) * np.exp(risks)
    after = after / after.sum()

    def change(draw, value, stated):
        return draw(value, _diameter(plan) * (after / _sizes(plan)).max())

    is_meant = plan.schedule.step == "weighted"
    source = tampered(noise, "gradient", change) if is_meant else noise
    return real(plan, data, weights, group_weights, source, *limits)


def _worst_group_drawn(real, plan, data, weights, group_weights, noise, *limits):
    risks, _ = _exact(plan, data, weights)
    rng = Instead(noise.rng, choice=lambda *_, **__: int(risks.argmax()))
    return real(plan, data, weights, group_weights, Instead(noise, rng=rng), *limits)


MGR_FAULTS = of_every_step(MGR) | {
    "gradient without its diameter": states(
        MGR, "gradient", lambda stated, plan: stated / _diameter(plan)
    ),
    "a clip above the planned one": planned,
    "the mean group": _states_in_a_step(
        lambda plan, weights, stated: _diameter(plan) * (weights / _sizes(plan)).mean()
    ),
    "the weighted mean group": _states_in_a_step(
        lambda plan, weights, stated: _diameter(plan) * (weights @ (weights / _sizes(plan)))
    ),
    "the prior for the weights": _states_in_a_step(
        lambda plan, weights, stated: (
            _diameter(plan) * (np.array(plan.schedule.prior) / _sizes(plan)).max()
        )
    ),
    "the largest group drawn": _states_in_a_step(
        lambda plan, weights, stated: _diameter(plan) / _sizes(plan).max(), step="sampled"
    ),
    "group weights after an update by exact risks": _in_a_step(_after_an_update),
    "a draw that reads the risks": _in_a_step(_worst_group_drawn),
    "early stop on an exact risk": stops(
        MGR,
        descent,
        "release_full_pass",
        lambda plan, data, weights, *others: _exact(plan, data, weights)[0].max() > 2.0,
    ),
    "an exact last risk": output(
        MGR,
        lambda result, data, plan: {
            "weights": result.weights + _exact(plan, data, result.weights)[0].max()
        },
    ),
    "weights leave the ball": instead(steps, "project_to_ball", _outside),
    "a warm start outside the ball": instead(
        steps,
        "project_to_ball",
        lambda real, weights, radius: 2.0 * real(weights, radius),
    ),
}


# --- MGR on centred rows -----------------------------------------------------------------------


def centred_plans():
    rng = np.random.default_rng(0)
    for index in range(60):
        loss = [*LOSSES, Hinge()][index % (len(LOSSES) + 1)]
        radius, scaling = float(rng.choice([0.05, 0.2, 3.0, 20.0])), rng.choice([0.3, 1.0, 5.0])
        problem = random_problem(rng, loss, radius=radius, scaling=float(scaling), most=3)
        solver = MGR(n_steps=3, centring=True)
        yield solver.plan(problem, Budget(2.0, 1e-6)), solver


def whitened_plans():
    """Yield plans that release second moments, and ones that release those of columns alone."""
    for index, (plan, _) in enumerate(centred_plans()):
        solver = MGR(n_steps=3, centring=True, whitening=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(centring_module, "MAX_COLUMNS", 200 * (index % 2))
            # noise that hides all moments of few records would leave nothing to whiten by
            yield solver.plan(plan.problem, Budget((2.0, 1e6)[index // 2 % 2], 1e-6)), solver


def low_ceilings():
    """Yield plans whose clip follows released risks; noise that is planned would raise it."""
    rng = np.random.default_rng(1)
    for index in range(40):
        loss = SquaredError((1.0, 0.1)[index % 2])
        problem = random_problem(rng, loss, scaling=float(rng.choice([0.3, 1.0, 5.0])), most=3)
        solver = MGR(n_steps=3, centring=True)
        yield solver.plan(problem, Budget(1e6, 1e-6)), solver


def _unlimited(real, data, center, **facts):
    risks = real(data, center, **facts)
    block = copy(risks.handles[0])
    block.records = dataclasses.replace(block.records, slope_limits=None)
    risks.handles = [block]
    return risks


def _first_ceiling(real, data, weights, *, loss_clip, **facts):
    return real(data, weights, loss_clip=0.5 * data.loss.target_bound**2, **facts)


CENTRING_FAULTS = {
    "slopes without limits": instead(GroupRisks, "centred", _unlimited),
    "limits for rows of another length": instead(
        GroupRisks,
        "centred",
        lambda real, data, center, *, clip, **facts: real(data, center, clip=1.5 * clip, **facts),
    ),
    "a spread of three": instead(
        GroupRisks,
        "spread",
        lambda real, data, center, **facts: 3.0 * real(data, center, **facts),
    ),
    "half the sensitivity of the mean row": instead(
        centring_module, "row_sum_sensitivity", lambda real, problem: 1.0
    ),
    "a diameter of one clip": lambda patch: patch.setattr(
        centring_module.CentredProblem, "gradient_diameter", property(lambda self: self.lipschitz)
    ),
}


def _of_long_rows(real, data, **facts):
    block = copy(data.handles[0])
    block.records = dataclasses.replace(block.records, rows=2.0 * block.records.rows)
    other = copy(data)
    other.handles = [block]
    return real(other, **facts)


def _limits_of_other_rows(real, data, center, *, whitening, **facts):
    risks, usual = real(data, center, whitening=whitening, **facts), real(data, center, **facts)
    limits = usual.handles[0].records.slope_limits
    block = copy(risks.handles[0])
    block.records = dataclasses.replace(block.records, slope_limits=limits)
    risks.handles = [block]
    return risks


WHITENING_FAULTS = {
    "moments without √2": instead(
        centring_module,
        "moment_sum_sensitivity",
        lambda real, problem: real(problem) / math.sqrt(2.0),
    ),
    "moments of rows as long as they come": instead(GroupRisks, "second_moments", _of_long_rows),
    "whitened by exact second moments": exact(MGR, "second moments of rows"),
    "whitened by exact squares": exact(MGR, "mean squares of columns"),
    "limits for rows that are not whitened": instead(GroupRisks, "centred", _limits_of_other_rows),
    "a spread of three": CENTRING_FAULTS["a spread of three"],
}


# --- MGR on batches ----------------------------------------------------------------------------


def batch_plans(n_plans=24):
    rng = np.random.default_rng(0)
    for index in range(n_plans):
        is_centred = index % 3 == 0
        facts = {"scaling": float(rng.choice([0.3, 1.0]))} if is_centred else {}
        problem = random_problem(
            rng,
            LOSSES[index % len(LOSSES)],
            radius=float(rng.choice([0.1, 1.0, 3.0, 20.0])),
            **facts,
        )
        loss_clip: Any = rng.choice([None, np.inf, _low(problem, 0.1)])
        solver = MGR(
            n_steps=3,
            sampling_rate=float(rng.choice([0.1, 0.3, 0.9])),
            loss_clip=None if is_centred else loss_clip,
            risk_fraction=float(rng.choice([0.05, 0.5, 0.95])),
            centring=is_centred,
            whitening=is_centred and index % 2 == 0,
        )
        yield solver.plan(problem, Budget(0.5, 1e-5)), solver


def with_batches(plan, **changes: Any):
    """Return a plan whose batches have other sensitivities."""
    batches = plan.schedule.batches
    batches = dataclasses.replace(batches, sums=dataclasses.replace(batches.sums, **changes))
    return dataclasses.replace(plan, schedule=dataclasses.replace(plan.schedule, batches=batches))


def diameters_for_norms():
    """Yield plans with Γ < 2L, which bounds a replacement; to join or not is another matter."""
    for plan, solver in batch_plans():
        problem = plan.problem
        if problem.gradient_diameter < 1.9 * problem.lipschitz and not plan.schedule.centring:
            yield with_batches(plan, gradient_norm=problem.gradient_diameter / 2), solver


def _stds(name, wrong):
    """Plant ``wrong(batches, right)`` for the noise that batches state."""

    def plant(patch):
        right = vars(Batches)[name].fget
        patch.setattr(Batches, name, property(lambda batches: wrong(batches, right(batches))))

    return plant


def _gradient_std(wrong):
    """Plant ``wrong(group weights, needed by group)`` for the noise of a gradient."""

    def std(real, batches, coefficients):
        return wrong(coefficients, coefficients * batches.gradient_stds)

    return instead(Batches, "gradient_std", std)


def _reads(**wrong):
    """Plant other facts in what is asked of a batch."""

    def read(real, risks, weights, batch, **facts):
        return real(risks, weights, batch, **facts | wrong)

    return instead(GroupRisks, "sampled_sums", read)


def _means_of_the_batch(real, risks, weights, batch, **facts):
    """Divide sums by how many joined: each record changes the weight of all."""
    losses, gradients = real(risks, weights, batch, **facts)
    joined = chosen(batch, risks.group_sizes)
    fractions = risks.group_sizes / np.maximum([len(of_group) for of_group in joined], 1)
    return losses * fractions, gradients * fractions[:, None]


def _batch_beside_the_noise(real, plan, data, *others):
    seen = []

    def sampled(*arguments, **facts):
        seen.append(data.sampled_sums(*arguments, **facts))
        return seen[-1]

    result = real(plan, Instead(data, sampled_sums=sampled), *others)
    return result._replace(gradient=result.gradient + 1e-9 * seen[0][1][0])


BATCH_FAULTS = {
    "noise for n_i, not for q n_i": _stds("gradient_stds", lambda b, right: right * b.rate),
    "the mean group": _gradient_std(lambda coefficients, needed: needed.mean()),
    "the weighted mean group": _gradient_std(lambda coefficients, needed: coefficients @ needed),
    "gradient spends the whole": _stds(
        "gradient_stds", lambda b, right: right * np.sqrt(1.0 - b.risk_fraction)
    ),
    "risks spend the whole": _stds("risk_stds", lambda b, right: right * np.sqrt(b.risk_fraction)),
    "half the noise on risks": _stds("risk_stds", lambda b, right: right / 2.0),
    "no clip": _reads(loss_clip=np.inf),
    "risks that are not centred": _reads(center=0.0),
    "the same coins tell the divisor": instead(GroupRisks, "sampled_sums", _means_of_the_batch),
    "the batch beside the noise": instead(batches, "release_batch", _batch_beside_the_noise),
    "the diameter for twice the norm": planned,
}


# --- MGR where groups are hidden ---------------------------------------------------------------


def hidden_plans(n_plans=63):
    rng = np.random.default_rng(0)
    for index in range(n_plans):
        is_centred = index % 3 == 0
        loss = OF_HIDDEN_GROUPS[index % (5 if is_centred else 7)]
        problem = hidden_problem(rng, loss, scaling=0.5 if is_centred else None)
        loss_clip = None if index % 2 else problem.constants.zero_score * rng.choice([1.01, 2.0])
        solver = MGR(
            n_steps=int(rng.choice([3, 12])),
            risk_fraction=0.3,
            loss_clip=loss_clip,
            centring=is_centred,
            whitening=is_centred and index % 2 == 0,
        )
        yield solver.plan(problem, random_budget(rng)), solver


def hidden_batch_plans():
    rng = np.random.default_rng(0)
    for index in range(42):
        problem = hidden_problem(rng, OF_HIDDEN_GROUPS[index % 7], n_groups=int(rng.integers(2, 5)))
        rate, fraction = float(rng.choice([0.1, 0.3, 0.9])), float(rng.choice([0.05, 0.5]))
        is_centred = index % 2 == 0 and problem.intercept_scaling > 0.0
        settings = {"centring": is_centred, "whitening": is_centred and index % 4 == 0}
        solver = MGR(n_steps=3, sampling_rate=rate, risk_fraction=fraction, **settings)
        yield solver.plan(problem, Budget(0.5, 1e-5)), solver


def _true_sizes(real, plan, data, *others):
    """Divide the last group's gradients by its true size; all noise is as it should be."""

    def sums(*arguments, **facts):
        losses, gradients = data.sums(*arguments, **facts)
        gradients[-1] *= plan.problem.group_sizes[-1] / max(1, data.group_sizes[-1])
        return losses, gradients

    return real(plan, Instead(data, sums=sums), *others)


def _sizes_decide_the_order(real, data, *arguments, **facts):
    losses, gradients = real(data, *arguments, **facts)
    order = np.argsort(data.group_sizes, kind="stable")
    return losses[order], gradients[order]


def _the_largest_group_pays(patch):
    right = Problem.pair_diameter.func
    patch.setattr(Problem, "pair_diameter", property(lambda problem: 0.4 * right(problem)))


HIDDEN_FAULTS = {
    "true sizes in one normaliser": _in_a_step(_true_sizes),
    "uncentred risks": instead(MGRSchedule, "center_of", lambda real, schedule, loss_clip: 0.0),
    "a centre at the end": instead(
        MGRSchedule, "center_of", lambda real, schedule, loss_clip: schedule.lowest_loss or 0
    ),
    "half of what two groups move": instead(
        SumSensitivity,
        "of",
        lambda real, *arguments, **facts: dataclasses.replace(
            real(*arguments, **facts), loss_range=1e-3
        ),
    ),
    "sizes decide the order": instead(GroupRisks, "sums", _sizes_decide_the_order),
    "the largest group pays": _the_largest_group_pays,
}


# --- AGS ---------------------------------------------------------------------------------------


def ags_plans():
    rng = np.random.default_rng(0)
    for index in range(60):
        problem = random_problem(
            rng,
            [*LOSSES, Hinge()][index % (len(LOSSES) + 1)],
            sizes=[1, 2, 3, 4, 25, 400],
            radius=float(rng.choice([0.2, 1.0, 3.0, 20.0, 1e3])),
        )
        solver = AGS(
            n_steps=4,
            schedule="paper" if index % 11 == 0 else "planned",
            loss_clip=rng.choice([None, np.inf, _low(problem, 0.3)]),
            risk_fraction=0.3,
            max_passes=4,
        )
        yield solver.plan(problem, random_budget(rng)), solver


AGS_FAULTS = of_every_step(AGS) | {
    "the largest group": states(
        AGS, "gradient", lambda stated, plan: _diameter(plan) / _sizes(plan).max()
    ),
    "weights leave the ball": instead(steps, "project_to_ball", _outside),
}


# --- GDA ---------------------------------------------------------------------------------------


def gda_plans():
    rng = np.random.default_rng(0)
    for index in range(60):
        problem = random_problem(rng, LOSSES[index % len(LOSSES)])
        is_paper = index % 4 == 0
        ridge = float(rng.choice([1e-3, 0.1, 10.0]))
        loss_clip: Any = rng.choice([None, np.inf, _low(problem, 0.1)])
        stated: Any = rng.choice([None, ridge])
        solver = GDA(
            n_steps=3,
            schedule="paper" if is_paper else "planned",
            loss_clip=None if is_paper else loss_clip,
            ridge=stated if is_paper else None,
            risk_fraction=None if is_paper else 0.3,
        )
        yield solver.plan(problem, random_budget(rng)), solver


_LIKE_MGR = (
    "the mean group",
    "the prior for the weights",
    "weights leave the ball",
    "a warm start outside the ball",
)
GDA_FAULTS = of_every_step(GDA) | {name: MGR_FAULTS[name] for name in _LIKE_MGR}

# --- groups that overlap -----------------------------------------------------------------------


def overlapping_plans():
    rng = np.random.default_rng(0)
    for index in range(60):
        problem = overlapping_problem(rng, [*LOSSES, Hinge()][index % (len(LOSSES) + 1)])
        loss_clip: Any = rng.choice([None, np.inf, _low(problem, 0.7)])
        is_centred = index % 3 == 0 and problem.intercept_scaling > 0.0
        settings = {"risk_fraction": 0.3, "loss_clip": loss_clip, "centring": is_centred}
        yield MGR(n_steps=3, **settings).plan(problem, random_budget(rng)), MGR()


def overlapping(solver, losses=LOSSES):
    """Return plans of a solver for groups that overlap."""

    def plans():
        rng = np.random.default_rng(0)
        for index in range(60):
            problem = overlapping_problem(rng, losses[index % len(losses)])
            yield solver.plan(problem, random_budget(rng)), solver

    return plans


def influence_in(module, wrong):
    """Plant ``wrong(fractions of the groups, membership)`` for what a record weighs."""

    def influence(real, problem, group_weights):
        return wrong(
            group_weights / np.array(problem.group_sizes), problem.cells.membership.toarray()
        )

    return instead(module, "influence", influence)


def disjoint(fractions, membership):
    """Return what a record weighs if it is in one group."""
    return float(fractions.max())


def moves_of_losses(wrong):
    """Plant ``wrong(problem)`` for how far a record moves the sums of groups together."""

    def plant(patch):
        def moves(problem):
            return 1.0 if problem.cells.are_quieter else wrong(problem)

        patch.setattr(Problem, "group_moves", property(wrong))
        patch.setattr(Problem, "loss_moves", property(moves))

    return plant


def of_first_group(fractions, membership):
    """Return the most that a record weighs if only the first of its groups counts."""
    first = membership * (np.cumsum(membership, axis=0) == 1.0)
    return float((fractions @ first).max())


SQRT_M_FORGOTTEN = {"the root of m forgotten": moves_of_losses(lambda problem: 1.0)}
OVERLAP_FAULTS = SQRT_M_FORGOTTEN | {
    "groups as if they were disjoint": influence_in(descent, disjoint),
    "a cell counted once": influence_in(descent, of_first_group),
    "the mean cell": influence_in(
        descent, lambda fractions, membership: (fractions @ membership).mean()
    ),
    "the mean number of groups": moves_of_losses(
        lambda problem: math.sqrt(problem.cells.membership.sum(axis=0).mean())
    ),
}


def overlapping_batch_plans():
    rng = np.random.default_rng(0)
    for index in range(24):
        is_centred = index % 3 == 0
        facts = {"scaling": float(rng.choice([0.3, 1.0]))} if is_centred else {}
        problem = overlapping_problem(rng, LOSSES[index % len(LOSSES)], **facts)
        settings = {"sampling_rate": float(rng.choice([0.1, 0.3, 0.9])), "centring": is_centred}
        solver = MGR(n_steps=3, risk_fraction=float(rng.choice([0.05, 0.5, 0.95])), **settings)
        yield solver.plan(problem, Budget(0.5, 1e-5)), solver


def weighs(wrong):
    """Plant ``wrong(fractions of the groups, membership)`` for what a record of a batch weighs."""

    def influence(real, cells, fractions):
        return wrong(fractions, cells.membership.toarray())

    return instead(Cells, "influence", influence)


OVERLAP_OF_BATCHES = {
    "groups as if they were disjoint": weighs(disjoint),
    "a cell counted once": weighs(of_first_group),
    "the root of m forgotten": _stds("risk_stds", lambda b, right: right / b.problem.group_moves),
    "noise for n_k, not for q n_k": BATCH_FAULTS["noise for n_i, not for q n_i"],
}
OVERLAP_OF_GDA = {name: OVERLAP_FAULTS[name] for name in list(OVERLAP_FAULTS)[:2]}

CASES = {
    "mgr": Case(
        MGR,
        mgr_plans,
        MGR_FAULTS,
        {"a clip above the planned one": higher_ceilings},
        n_pairs=120,
    ),
    "mgr on centred rows": Case(
        MGR,
        centred_plans,
        CENTRING_FAULTS,
        {"a diameter of one clip": centred_plans},
        n_pairs=60,
        strength=0.85,
    ),
    "mgr on whitened rows": Case(MGR, whitened_plans, WHITENING_FAULTS, n_pairs=60, strength=0.85),
    "mgr below a clip that follows risks": Case(
        MGR,
        low_ceilings,
        {"a clip that only the noise follows": instead(GroupRisks, "sums", _first_ceiling)},
        n_pairs=60,
    ),
    "mgr on batches": Case(
        MGR,
        batch_plans,
        BATCH_FAULTS,
        {"the diameter for twice the norm": diameters_for_norms},
        n_pairs=36,
        moves=moves_of_batches,
    ),
    "mgr for hidden groups": Case(
        MGR,
        hidden_plans,
        HIDDEN_FAULTS,
        dict.fromkeys(HIDDEN_FAULTS, lambda: hidden_plans(21)),
        n_pairs=80,
    ),
    "mgr on batches for hidden groups": Case(
        MGR, hidden_batch_plans, n_pairs=42, moves=moves_of_batches
    ),
    "ags": Case(AGS, ags_plans, AGS_FAULTS, n_pairs=120),
    "gda": Case(GDA, gda_plans, GDA_FAULTS, n_pairs=120),
    "mgr for overlapping groups": Case(MGR, overlapping_plans, OVERLAP_FAULTS, n_pairs=60),
    "mgr on batches for overlapping groups": Case(
        MGR, overlapping_batch_plans, OVERLAP_OF_BATCHES, n_pairs=36, moves=moves_of_batches
    ),
    "ags for overlapping groups": Case(
        AGS,
        overlapping(AGS(n_steps=3, risk_fraction=0.3), (*LOSSES, Hinge())),
        SQRT_M_FORGOTTEN,
        n_pairs=120,
    ),
    "gda for overlapping groups": Case(
        GDA,
        overlapping(GDA(n_steps=3, risk_fraction=0.3)),
        OVERLAP_OF_GDA,
        n_pairs=120,
    ),
}
