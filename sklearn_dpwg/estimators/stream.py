"""Learning from records that are used once each: ``fit_oracle`` and ``partial_fit``."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg._checks import whole_number, without_weights
from sklearn_dpwg.data.frames import in_memory
from sklearn_dpwg.data.groups import labelled_sizes
from sklearn_dpwg.data.oracles import EncodingOracle, SampleOracle
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.estimators.encode import Targets, group_size
from sklearn_dpwg.estimators.learn import DPWorstGroupEstimator, Facts
from sklearn_dpwg.estimators.partitions import partitions_of
from sklearn_dpwg.estimators.planning import check_solution, with_progress
from sklearn_dpwg.estimators.private import only_if, unchanged_on_failure
from sklearn_dpwg.exceptions import InputError, warn
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import SOLVERS, Plan, Solution
from sklearn_dpwg.solvers.auto import make_solver
from sklearn_dpwg.solvers.solver import FreshSolver, Game


def _check_fresh(estimator: Any) -> bool:
    """Return True if the estimator can use records once each, or raise an AttributeError."""
    solver = SOLVERS.get(estimator.solver) if isinstance(estimator.solver, str) else None
    if not issubclass(solver or type(estimator.solver), FreshSolver):
        why = f"solver={estimator.solver!r} needs all records at once: use fit"
    elif estimator.epsilon == math.inf:
        why = "the exact solution, of epsilon=inf, needs all records at once: use fit"
    elif estimator.overlap != "cells":
        why = f"a record that is used once is of one group, but overlap={estimator.overlap!r}"
    else:
        return True
    raise AttributeError(f"{why}.")


def _check_oracle(estimator: Any) -> bool:
    """Return True if the estimator can learn from an oracle, or raise an AttributeError."""
    if _check_fresh(estimator) and estimator.neighbours == "replace-one":
        raise AttributeError(
            "an oracle draws by group, but neighbours='replace-one' protects groups: take "
            "neighbours='replace-one-within-group'."
        )
    return True


@dataclass(eq=False)
class OpenGame:
    """State that an estimator keeps between two calls of ``partial_fit``; it is a secret."""

    game: Game  # the solver's state: exact sums and unused noise
    plan: Plan
    budget: Budget  # of all calls together
    noise: NoiseSource
    targets: Targets  # encodes y as in the first call
    parameters: str  # of the estimator at the first call, as text
    # whether a call failed after its first release, so that the game cannot go on
    is_lost: bool = field(default=False, init=False)
    _process: int = field(default_factory=os.getpid, init=False)
    _lock: Any = field(default_factory=Lock, init=False)

    @contextmanager
    def one_call(self) -> Iterator[None]:
        """Hold the lock for one call; refuse other threads and forked processes."""
        # a forked process would add other noise to the same sums
        if os.getpid() != self._process:
            raise RuntimeError(
                "partial_fit cannot go on in a forked process, which would draw other noise for "
                "the same sums: go on where it began, or clone to begin anew."
            )
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("partial_fit of this estimator is running already in a thread.")
        try:
            yield
        finally:
            self._lock.release()


class StreamingEstimator(DPWorstGroupEstimator):
    """Adds ``fit_oracle`` and ``partial_fit``, for solvers that use each record once."""

    _open_game: OpenGame  # there only while partial_fit can go on
    _why_closed: str  # reason why partial_fit cannot go on, for its error

    @only_if(_check_oracle)
    def fit_oracle(
        self,
        oracle: SampleOracle,
        *,
        group_sizes: Sequence[float] | Mapping[Any, float],
        n_features: int,
        group_labels: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Self:
        """Learn from records that an oracle draws, each used once, with a solver for fresh records.

        Parameters
        ----------
        oracle : SampleOracle
            Anything with a method ``draw(group, size)`` that returns X and y of `size` fresh
            records of the group with that label, as `SampleOracle` promises. Longer rows are
            shortened to norm `data_norm`.
        group_sizes : sequence, or mapping from label to number
            How many records the oracle has of each group, a public fact; infinity for a group
            without end, and then the solver's `n_rounds` must be set.
        n_features : int
            Number of columns of X.
        group_labels : sequence, optional
            Labels of a sequence of sizes; by default those of the estimator.
        classes : sequence, optional
            Classes of y, for a classifier that has no parameter `classes`.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        OracleError
            If the oracle runs dry or gives anything but finite records; its own errors pass. The
            estimator is left as it was, and a note says whether the budget is spent.
        """
        with unchanged_on_failure(self):
            budget = self._check_parameters()
            solver = make_solver(self.solver, epsilon=budget.epsilon)
            labels, stated_sizes = labelled_sizes(group_sizes, group_labels, self.group_labels)
            sizes = [group_size(size) for size in stated_sizes]
            n_features = whole_number(n_features, "n_features", least=1)
            # the guarantee names what makes the groups, which are public
            self._grouping_names = ("groups of the oracle",)
            targets = self._targets(None, classes)
            facts = Facts(targets, sizes, sum(sizes), n_features, labels, fresh_calls=1)
            # an oracle has no column names, but an earlier fit may have set some
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = n_features
            encoding_oracle = EncodingOracle(
                oracle, labels.tolist(), n_features, self._row_norm, targets.encode
            )

            # `_learn` opens the records of a problem; an oracle is the same for every problem
            self._learn(budget, solver, facts, lambda problem: nullcontext(encoding_oracle))
        return self

    @only_if(_check_fresh)
    @without_weights
    def partial_fit(
        self, X: Any, y: Any = None, groups: Any = None, classes: Sequence[Any] | None = None
    ) -> Self:
        """Go on learning from records that were never seen before.

        Only with a solver for fresh records, as `fit_oracle`. The first call makes the plan, for
        `horizon` (of the solver) calls with as many records of each group as it has itself, and
        the budget is that of all calls together. Each call plays as many rounds as its records
        allow; those that are left over are not kept. With ``neighbours="replace-one"`` groups are
        counted once, in the first call.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows. Longer ones are shortened to norm `data_norm`.
        y : array-like of shape (n_records,)
            Targets. They may not be left out: what says them itself, a source, is refused.
        groups : array-like of shape (n_records,) or (n_records, n_columns), optional
            Public group of each record. The first call must have records of every group.
        classes : sequence, optional
            All classes, for a classifier that has no parameter `classes`; by default those that
            the first call holds.

        Returns
        -------
        self : object
            The estimator, fitted to all calls so far.

        Raises
        ------
        RuntimeError
            If the game was lost: running sums and unused noise are secrets and not part of a copy
            or pickle, and a call that fails after its first release ends the game. Prediction
            works all the same, and ``clone`` gives an estimator that can begin anew. Also in a
            forked process, and while another thread's call runs.

        Notes
        -----
        A call of which no round can be played warns. A record that is passed in k calls pays k
        times: that is up to the caller. After `fit` or `fit_oracle` the next call begins anew, with
        a new budget.
        """
        in_memory(X=X, y=y, groups=groups)
        open_game: OpenGame | None = getattr(self, "_open_game", None)
        with nullcontext() if open_game is None else open_game.one_call():
            try:
                with unchanged_on_failure(self):
                    if hasattr(self, "_why_closed"):
                        raise RuntimeError(
                            f"partial_fit cannot go on, as {self._why_closed}: predict still "
                            f"works, and clone gives an estimator that can begin anew."
                        )
                    is_later_call = hasattr(self, "_open_game")
                    play_call = self._play_later if is_later_call else self._play_first
                    play_call(X, y, groups, classes)
            except BaseException:
                # unchanged_on_failure has put the game back, which must not go on
                if open_game is not None and open_game.is_lost:
                    self.__dict__.pop("_open_game", None)
                    self._why_closed = "an earlier call failed when values had been released"
                raise
        return self

    def _play_first(self, X: Any, y: ArrayLike, groups: Any, classes: Sequence[Any] | None) -> None:
        """Plan for all calls, play the rounds that these records allow, and keep the game."""
        budget = self._check_parameters()
        facts, records = self._encode(partitions_of(X, y, groups), classes)
        solver = make_solver(self.solver, epsilon=budget.epsilon)
        assert isinstance(solver, FreshSolver)
        horizon = whole_number(solver.horizon, "horizon of the solver", least=1)
        games: list[tuple[Game, NoiseSource, int]] = []  # `play` is called once, and fills it

        def play(solver: Any, plan: Plan, data: Risks, noise: NoiseSource, start: Any) -> Solution:
            game = solver.begin(plan, noise, start=start)
            # hidden groups are drawn from together, so only the number of all records counts
            n_available = facts.sizes if plan.problem.hidden is None else [facts.n_records]
            n_played = game.advance(data.as_oracle(noise.rng), n_available)
            games.append((game, noise, n_played))
            return game.finish()

        sizes = [horizon * size for size in facts.sizes]
        facts_of_all_calls = replace(facts, sizes=sizes, fresh_calls=horizon)
        self._learn(budget, solver, facts_of_all_calls, records, run=play)
        self.group_sizes_ = np.asarray(self.plan_.problem.group_sizes) // horizon
        ((game, noise, n_played),) = games
        parameters = self._parameters_as_text()
        self._open_game = OpenGame(game, self.plan_, budget, noise, facts.targets, parameters)
        _warn_if_unused(n_played, was_over=False)

    def _play_later(self, X: Any, y: ArrayLike, groups: Any, classes: Sequence[Any] | None) -> None:
        """Play the rounds that the records of a later call allow, within the plan of the first."""
        open_game = self._open_game
        if self._parameters_as_text() != open_game.parameters:
            raise InputError(
                "parameters must not change between calls of partial_fit, as the plan was made on "
                "the first: set them back, or clone the estimator to begin anew."
            )
        game, plan, noise = open_game.game, open_game.plan, open_game.noise
        partitions = partitions_of(X, y, groups)
        facts, records = self._encode(partitions, classes, first_targets=open_game.targets)
        # `records` checks all of them before the game changes; a ledger that was opened since the
        # first call is charged for the whole plan
        with (
            np.errstate(all="ignore"),
            records(plan.problem) as data,
            self._spending(noise, open_game.budget, plan.guarantee, self._fit_key) as guarantee,
        ):
            open_game.is_lost = True  # until all rounds have been played
            was_over = game.is_over
            # hidden groups are drawn from together, so only the number of all records counts
            n_available = facts.sizes if plan.problem.hidden is None else [facts.n_records]
            n_played = with_progress(
                self, plan, noise, lambda: game.advance(data.as_oracle(noise.rng), n_available)
            )
            solution = game.finish()
            check_solution(plan, solution, self.solver)
            open_game.is_lost = False
        # a call without a round used no record, and hidden groups are counted in the first call
        adds_sizes = n_played > 0 and plan.counts is None
        total_sizes = self.group_sizes_ + np.asarray(facts.sizes) * adds_sizes
        self._keep(plan, guarantee, replace(facts, sizes=total_sizes), solution)
        self._open_game = open_game  # which _keep has removed
        _warn_if_unused(n_played, was_over=was_over)

    def _parameters_as_text(self) -> str:
        """Return all parameters as text, as arrays among them cannot be compared by ==."""
        return repr(sorted(self.get_params().items(), key=lambda item: str(item[0])))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles, without the open game, which is secret."""
        state = dict(super().__getstate__())
        if state.pop("_open_game", None) is not None:
            state["_why_closed"] = (
                "running sums and unused noise are secrets, which a copy or a pickle leaves out"
            )
        return state


def _warn_if_unused(n_played: int, *, was_over: bool) -> None:
    """Warn if no round was played; `was_over` if all planned ones had been played before."""
    if not n_played:
        reason = "no round could be played with so few of them; pass more in a call, of every group"
        if was_over:
            reason = "all rounds of the plan were played before; a larger horizon plans for more"
        warn(f"these records were not used and may be passed again: {reason}.", UserWarning)
