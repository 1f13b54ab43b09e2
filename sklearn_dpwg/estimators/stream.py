"""Learning from sample oracles, and from records that come in parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from types import MethodType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg.data.groups import labelled_sizes
from sklearn_dpwg.data.oracles import EncodingOracle, SampleOracle
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.estimators.encode import group_size, positive_whole
from sklearn_dpwg.estimators.learn import Fitting
from sklearn_dpwg.estimators.spending import check_solution, spending, unchanged_on_failure
from sklearn_dpwg.estimators.targets import Targets
from sklearn_dpwg.exceptions import UnusedRecordsWarning, warn
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import SOLVERS, FreshSolver, Game, Plan


class FreshMethod:
    """A method that an estimator has with a fresh solver only; else an AttributeError says why.

    scikit-learn's ``available_if`` would raise a sentence of its own in place of the reason.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:  # documentation and routing look at the class
            return self._method
        solver = instance.solver
        if isinstance(solver, str):
            solver = SOLVERS.get(solver)
        is_fresh = isinstance(solver, FreshSolver) or (
            isinstance(solver, type) and issubclass(solver, FreshSolver)
        )
        name = f"{type(instance).__name__} has no {self._method.__name__} with"
        if not is_fresh:
            raise AttributeError(
                f"{name} solver={instance.solver!r}, which needs all records at once: use fit."
            )
        if instance.epsilon == float("inf"):
            raise AttributeError(
                f"{name} epsilon=inf, as the exact solution needs all records at once: use fit."
            )
        if instance.neighbours == "replace-any":
            raise AttributeError(
                f"{name} neighbours='replace-any': a record that changes its group would shift "
                "those behind it in two queues."
            )
        return MethodType(self._method, instance)


@dataclass(eq=False)
class OpenGame:
    """What an estimator keeps between two calls of ``partial_fit``; a secret."""

    game: Game  # with exact sums and unused noise
    plan: Plan
    budget: Budget  # of all calls together
    noise: NoiseSource
    targets: Targets
    parameters: str  # of the estimator, on the first call
    key: str  # under which ledgers know the plan
    # whether a call failed between releases, so that the state is unknown
    is_lost: bool = field(default=False, init=False)
    _process: int = field(default_factory=os.getpid, init=False)
    _lock: Any = field(default_factory=Lock, init=False)

    @contextmanager
    def one_call(self) -> Iterator[None]:
        """Let one call at a time go on, in the process that began."""
        # both halves of a fork would add noise of their own to the same sums
        if os.getpid() != self._process:
            raise RuntimeError(
                "partial_fit cannot go on in a forked process, as it would draw other noise for "
                "the same sums as the process that began: go on there, or clone gives an "
                "estimator that can begin anew."
            )
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "partial_fit of this estimator is running already: call it from one thread at a "
                "time."
            )
        try:
            yield
        finally:
            self._lock.release()


def fit_oracle(
    estimator: Fitting,
    oracle: SampleOracle,
    group_sizes: Sequence[float] | Mapping[Any, float],
    n_features: int,
    group_labels: Sequence[Any] | None,
    classes: Sequence[Any] | None,
) -> None:
    """Fit an estimator to records that an oracle draws."""
    with unchanged_on_failure(estimator):
        budget = estimator._check_parameters()
        labels, given = labelled_sizes(group_sizes, group_labels, estimator.group_labels)
        sizes = [group_size(size) for size in given]
        n_features = positive_whole(n_features, "n_features")
        estimator._groupings = ("groups of the oracle",)
        targets = estimator._targets(None, classes)
        problem = estimator._problem(targets.loss, sizes, n_features)
        encoded = EncodingOracle(
            oracle, labels.tolist(), n_features, float(estimator._row_norm), targets.encode
        )
        solver = estimator._make_solver(budget)
        assert isinstance(solver, FreshSolver)
        first = estimator._first_weights(targets, problem)
        plan = estimator._plan_for(solver, problem, labels, budget, first)
        noise = NoiseSource(estimator.random_state, plan.releases)
        with spending(noise, budget, plan, estimator, estimator._fit_key) as guarantee:
            of_solver = replace(plan)  # what it does to its own does not reach `plan_`
            solution = estimator._with_progress(
                plan, noise, lambda: solver.run(of_solver, encoded, noise, start=first)
            )
            check_solution(plan, solution, estimator.solver)
        estimator.__dict__.pop("feature_names_in_", None)
        estimator.n_features_in_ = n_features
        estimator._keep_outcome(plan, guarantee, targets, labels, np.asarray(sizes), solution)


def partial_fit(
    estimator: Fitting, X: Any, y: ArrayLike, groups: Any, classes: Sequence[Any] | None
) -> None:
    """Begin a game on records that come in parts, or go on with the one that is open."""
    opened: OpenGame | None = getattr(estimator, "_open", None)
    with nullcontext() if opened is None else opened.one_call():
        try:
            with unchanged_on_failure(estimator):
                if hasattr(estimator, "_why_closed"):
                    raise RuntimeError(
                        f"partial_fit cannot go on, as {estimator._why_closed}: predict still "
                        f"works, and clone gives an estimator that can begin anew."
                    )
                go_on = _go_on if hasattr(estimator, "_open") else _begin
                go_on(estimator, X, y, groups, classes)
        except BaseException:
            if opened is not None and opened.is_lost:
                estimator.__dict__.pop("_open", None)
                estimator._why_closed = "an earlier call failed when values had been released"
            raise


def _begin(
    estimator: Fitting, X: Any, y: ArrayLike, groups: Any, classes: Sequence[Any] | None
) -> None:
    """Plan for all calls, and play the first one's rounds."""
    budget = estimator._check_parameters()
    rows, encoded, codes, labels, targets = estimator._encode(X, y, groups, classes)
    sizes = np.bincount(codes)
    solver = estimator._make_solver(budget)
    assert isinstance(solver, FreshSolver)
    horizon = positive_whole(solver.horizon, "horizon of the solver")
    all_sizes = [horizon * int(size) for size in sizes]
    problem = estimator._problem(targets.loss, all_sizes, rows.shape[1])
    first = estimator._first_weights(targets, problem)
    plan = estimator._plan_for(solver, problem, labels, budget, first)
    noise = NoiseSource(estimator.random_state, plan.releases)
    key = estimator._fit_key
    with spending(noise, budget, plan, estimator, key) as guarantee:
        game = solver.begin(replace(plan), noise, start=first)
        opened = OpenGame(game, plan, budget, noise, targets, _parameters(estimator), key)
        data = estimator._group_risks(rows, encoded, codes, problem)
        n_played = _play(estimator, opened, data, sizes)
        solution = game.finish()
        check_solution(plan, solution, estimator.solver)
    estimator._keep_outcome(plan, guarantee, targets, labels, sizes, solution)
    estimator._open = opened
    _warn_if_unused(n_played, False)


def _go_on(
    estimator: Fitting, X: Any, y: ArrayLike, groups: Any, classes: Sequence[Any] | None
) -> None:
    """Play the rounds of a later call."""
    opened: OpenGame = estimator._open
    if _parameters(estimator) != opened.parameters:
        raise ValueError(
            "parameters must not change between calls of partial_fit, as the plan was made on "
            "the first: set them back, or clone the estimator to begin anew."
        )
    plan, noise = opened.plan, opened.noise
    rows, encoded, codes, labels, targets = estimator._encode(
        X, y, groups, classes, first=opened.targets
    )
    sizes = np.bincount(codes, minlength=plan.problem.n_groups)
    # a ledger that was opened since the first call is charged for the whole plan
    with spending(noise, opened.budget, plan, estimator, opened.key) as guarantee:
        opened.is_lost = True  # until the rounds are through
        data = estimator._group_risks(rows, encoded, codes, plan.problem)
        was_over = opened.game.is_over
        n_played = _play(estimator, opened, data, sizes)
        solution = opened.game.finish()
        check_solution(plan, solution, estimator.solver)
        opened.is_lost = False
    # records of a call without a round were not looked at, and may come again
    total = estimator.group_sizes_ + sizes * (n_played > 0)
    estimator._keep_outcome(plan, guarantee, targets, labels, total, solution)
    estimator._open = opened
    _warn_if_unused(n_played, was_over)


def _play(estimator: Fitting, opened: OpenGame, data: GroupRisks, sizes: np.ndarray) -> int:
    """Play as many rounds as the records of one call allow, and return their number."""
    game, noise = opened.game, opened.noise
    return estimator._with_progress(
        opened.plan, noise, lambda: game.advance(data.as_oracle(noise.rng), sizes.tolist())
    )


def _parameters(estimator: Fitting) -> str:
    """Return all parameters as text: some may be arrays, which do not compare to one truth."""
    return repr(sorted(estimator.get_params().items(), key=lambda item: str(item[0])))


def without_secrets(state: Any) -> dict[str, Any]:
    """Return an estimator's state for a pickle, without the game that is open."""
    state = dict(state)
    if state.pop("_open", None) is not None:
        state["_why_closed"] = (
            "running sums and unused noise are secrets, which a copy or a pickle leaves out"
        )
    return state


def _warn_if_unused(n_played: int, was_over: bool) -> None:
    """Say that records were not used; that follows from public facts and releases."""
    if n_played:
        return
    reason = (
        "all rounds of the plan were played before; a plan for more calls has a larger horizon"
        if was_over
        else "no round could be played with so few of them; pass more in a call, of every group"
    )
    warn(
        f"these records were not used and may be passed again: {reason}.",
        UnusedRecordsWarning,
    )
