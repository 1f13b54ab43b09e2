"""Cases of the solvers that use each record once: OCO in both plays, OnlineToBatch."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from sklearn_dpwg import losses
from sklearn_dpwg.data.oracles import RecordOracle
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.prefix_sums import PrefixSumStream
from sklearn_dpwg.solvers import OCO, OnlineToBatch, fresh_records, oco, online_to_batch
from sklearn_dpwg.solvers.learners import FTRL, OptimisticFTRL, ParameterFree
from sklearn_dpwg.solvers.online_to_batch import OnlineToBatchSchedule
from tests.helpers.contract import Case, draws, exact, half, instead, leaks, states
from tests.helpers.group_data import make_problem
from tests.helpers.neighbours import hidden_problem, random_problem
from tests.helpers.replay import wrap

LOSSES = (
    losses.BinaryLogLoss(),
    SquaredError(),
    losses.MultinomialLogLoss(3),
    losses.SmoothedHinge(0.3),
    losses.Huber(0.5),
    losses.SquaredHinge(),
)
NOISES = ("toeplitz", "tree", "independent")
BUDGET = Budget(1.0, 1e-6)
SIZES = range(2, 12)


def _start_outside(patch):
    """Plant a start that is not brought back, and a learner whose ball is larger."""

    def start(real, learner, initial, radius, strength):
        return real(learner, initial, 9 * radius, strength)

    for module in (fresh_records, online_to_batch):
        wrap(patch, module, "project_to_ball", lambda real, weights, radius: weights)
    for kind in (FTRL, OptimisticFTRL, ParameterFree):
        wrap(patch, kind, "start", start)


# --- OCO ---------------------------------------------------------------------------------------


def oco_plans(play):
    rng = np.random.default_rng(2)
    for index in range(48):
        problem = random_problem(
            rng,
            LOSSES[index % 3],
            sizes=SIZES,
            most=3,
            n_features=2,
            radius=float(rng.choice([0.3, 3.0, 20.0])),
            scaling=float(rng.choice([0.0, 0.5])),
        )
        solver = OCO(
            str(rng.choice(["ftrl", "optimistic"])),
            play=play,
            noise=str(rng.choice(NOISES)),
            n_rounds=int(rng.integers(1, 6)),
        )
        yield solver.plan(problem, BUDGET), solver


def _sums_of_losses(draw, value, stated, plan):
    """Release sums for means."""
    rates = np.asarray(plan.schedule.feedback_rates)
    return draw(value * (rates if np.ndim(value) else rates[0]), stated)


def _by_target(real, oracle, records, rng):
    """The order is outside the game, so the attack sees it too: both roles move."""
    real(oracle, records, rng)
    oracle._order = [order[np.argsort(records.targets[order])] for order in oracle._order]


def _ends_on_a_target(patch):
    def play_round(real, game, oracle, group):
        draw, drawn = oracle.draw, []

        def watched(*arguments):
            drawn.append(draw(*arguments))
            return drawn[-1]

        with pytest.MonkeyPatch.context() as watching:
            watching.setattr(oracle, "draw", watched)
            real(game, oracle, group)
        game.has_ended = drawn[0][1][0] > 0

    over = oco.OCOGame.is_over.fget
    wrap(patch, oco.SampledGame, "_play_round", play_round)
    patch.setattr(
        oco.OCOGame,
        "is_over",
        property(lambda game: getattr(game, "has_ended", False) or over(game)),
    )


OCO_FAULTS = {
    "gradients of both roles": instead(
        oco,
        "gradient_sum",
        lambda real, problem, rows, *others: real(problem, rows, others[0], len(rows)),
    ),
    "losses of both roles": instead(
        oco, "clipped_losses", lambda real, schedule, values, n_weight: real(schedule, values, 0)
    ),
    "no clip": instead(
        oco, "clipped_losses", lambda real, schedule, values, n: values[n:] - schedule.center
    ),
    "batch not divided": instead(
        oco, "gradient_sum", lambda real, *batch: batch[-1] * real(*batch)
    ),
    "half the sensitivity": half(OCO, "gradient sums"),
    "losses not divided": draws(OCO, "group losses", _sums_of_losses),
    "half the sensitivity of the losses": half(OCO, "group losses"),
    "exact losses move the groups": exact(OCO, "group losses"),
    "an exact sum leaks": leaks(OCO, "gradient sums"),
    "an order that follows values": instead(RecordOracle, "__init__", _by_target),
}
WEIGHTED_FAULTS = {
    "the mean influence": instead(
        oco.OCOGame,
        "_influence",
        lambda real, game, weights: float((weights / game._schedule.weight_rates).mean()),
    ),
    "the first influence for ever": instead(
        oco.OCOGame,
        "_influence",
        lambda real, game, weights: vars(game).setdefault("first", real(game, weights)),
    ),
}
SAMPLED_FAULTS = {
    "no diameter": states(
        OCO, "gradient sums", lambda stated, plan: stated / plan.schedule.gradient_diameter
    ),
    "play ends on a target": _ends_on_a_target,
    "a start outside the ball": _start_outside,
}


# --- hidden groups -----------------------------------------------------------------------------


def hidden_plans(make, n_plans=60):
    rng = np.random.default_rng(7)
    for index in range(n_plans):
        problem = hidden_problem(rng, LOSSES[index % 6], scaling=float(rng.choice([0.0, 0.5])))
        settings = {"noise": str(rng.choice(NOISES)), "n_rounds": int(rng.integers(1, 6))}
        solver = make(str(rng.choice(["ftrl", "optimistic"])), **settings)
        # group weights move where there is little noise
        yield solver.plan(problem, Budget(float(rng.choice([1.0, 1e4])), 1e-6)), solver


def _groups_decide_the_order(real, oracle, records, rng):
    real(oracle, records, rng)
    oracle._order = [order[np.argsort(oracle._groups[order])] for order in oracle._order]


def _true_sizes(real, values, codes, n_groups):
    counts = np.maximum(1, np.bincount(codes, minlength=n_groups))
    return real(values, codes, n_groups) * (len(codes) / n_groups / counts)


def _half_of_a_pair(patch):
    right = Problem.pair_diameter.func
    patch.setattr(Problem, "pair_diameter", property(lambda problem: 0.5 * right(problem)))


# made once the fault is there
OF_HALF_A_PAIR = "half of what a pair moves"
HIDDEN_FAULTS = {
    "groups decide the order": instead(RecordOracle, "__init__", _groups_decide_the_order),
    OF_HALF_A_PAIR: _half_of_a_pair,
}
HIDDEN_OCO_FAULTS = {
    "true sizes": instead(oco, "sums_by_group", _true_sizes),
    "uncentred losses": instead(
        oco,
        "clipped_losses",
        lambda real, schedule, *batch: real(schedule, *batch) + schedule.center,
    ),
    "no clip": OCO_FAULTS["no clip"],
    "half the sensitivity of the losses": half(OCO, "group losses"),
} | WEIGHTED_FAULTS


# --- OnlineToBatch -----------------------------------------------------------------------------


def batch_plans():
    rng = np.random.default_rng(5)
    learners = (FTRL(), OptimisticFTRL(), ParameterFree())
    for index in range(60):
        facts = {"prior": None} if rng.random() < 0.5 else {}
        problem = random_problem(
            rng,
            LOSSES[index % 6],
            sizes=range(1, 12),
            most=3,
            n_features=2,
            radius=float(rng.choice([1e-3, 0.3, 3.0, 20.0, 1e3])),
            scaling=float(rng.choice([0.0, 0.5])),
            **facts,
        )
        solver = OnlineToBatch(
            learners[int(rng.integers(3))],
            power=float(rng.choice([0.0, 0.5, 1.0, 2.0, 3.0])),
            noise=str(rng.choice(NOISES)),
            n_rounds=int(rng.integers(1, 8)),
            schedule="planned" if rng.random() < 0.8 else "paper",
            convexity=float(rng.choice([0.0, 0.0, 0.5])),
        )
        yield solver.plan(problem, BUDGET), solver


def far_moves():
    """Yield plans whose weights cross the ball, so that residuals change their sign."""
    for n_records in (2, 3, 9):
        problem = make_problem(
            (n_records,), loss=SquaredError(), n_features=1, radius=20.0, scaling=0.0
        )
        solver = OnlineToBatch(FTRL(), n_rounds=2, power=1.0, noise="independent")
        yield solver.plan(problem, BUDGET), solver


def _wrong_batch(patch):
    """The gradient at the point before is that of the batch before: a record moves two rounds."""
    last = []

    def other_batch(real, problem, rows, targets, here, before):
        difference = real(problem, rows, targets, here, (0.0, before[1]))
        if before[0] and last:
            difference = difference - real(problem, *last, before, (0.0, before[1]))
        last[:] = rows, targets
        return difference

    wrap(patch, online_to_batch, "difference_sum", other_batch)


def _no_weight_for_the_first(patch):
    """0^0 = 1: the first difference would have nothing but the gradients' change."""

    def nothing_at_first(real, self, weight, before, moved):
        return real(self, weight, np.where(before, before, weight), moved)

    wrap(patch, online_to_batch, "round_weight", lambda real, step, power: float(step) ** power)
    wrap(patch, OnlineToBatchSchedule, "sensitivity", nothing_at_first)


def _influence(of_game):
    """Plant an influence that a game takes as ``of_game(game, schedule)``."""

    def begin(real, game, plan, *others):
        real(game, plan, *others)
        game._influence = float(of_game(game, plan.schedule))

    return instead(online_to_batch.OnlineToBatchGame, "__init__", begin)


def _exact_sum(real, self, difference, sensitivity):
    self.exact = getattr(self, "exact", 0.0) + difference
    real(self, difference, sensitivity=sensitivity)
    return self.exact


BATCH_FAULTS = {
    "the wrong batch in the difference": _wrong_batch,
    "no smoothness": instead(
        OnlineToBatchSchedule,
        "sensitivity",
        lambda real, self, weight, before, moved: real(self, weight, before, 0.0 * moved),
    ),
    "half the diameter": half(OnlineToBatch, "sums of gradient differences"),
    "no weight for the first round of all": _no_weight_for_the_first,
    "batch not divided": instead(
        online_to_batch,
        "difference_sum",
        lambda real, problem, rows, *others: len(rows) * real(problem, rows, *others),
    ),
    "the mean influence": _influence(lambda game, schedule: game._fractions.mean()),
    "the planned mixture for another": _influence(
        lambda game, schedule: np.divide(schedule.problem.prior, schedule.group_rates).max()
    ),
    "an exact sum teaches": instead(PrefixSumStream, "add", _exact_sum),
    "an exact difference leaks": instead(
        PrefixSumStream,
        "add",
        lambda real, self, value, **stated: real(self, value, **stated) + 1e-9 * value,
    ),
    "a start outside the ball": _start_outside,
}

CASES = {
    "oco, weighted": Case(
        OCO, partial(oco_plans, "weighted"), OCO_FAULTS | WEIGHTED_FAULTS, n_pairs=192
    ),
    "oco, sampled": Case(
        OCO, partial(oco_plans, "sampled"), OCO_FAULTS | SAMPLED_FAULTS, n_pairs=192
    ),
    "online-to-batch": Case(
        OnlineToBatch, batch_plans, BATCH_FAULTS, {"no smoothness": far_moves}, n_pairs=300
    ),
}
for make, faults in ((OCO, HIDDEN_OCO_FAULTS), (OnlineToBatch, {})):
    plans = partial(hidden_plans, make)
    CASES[f"{make.name} for hidden groups"] = Case(
        make, plans, HIDDEN_FAULTS | faults, {OF_HALF_A_PAIR: plans}, n_pairs=180
    )
