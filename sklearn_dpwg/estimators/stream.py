"""Learning from records that are used once: those of an oracle, and those that come in parts."""

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


def _is_fresh(estimator: Any) -> bool:
    """Whether records may be used once each; else an AttributeError says why not."""
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


def _has_oracle(estimator: Any) -> bool:
    """Whether records may be drawn by group, too."""
    if _is_fresh(estimator) and estimator.neighbours == "replace-one":
        raise AttributeError(
            "an oracle draws by group, but neighbours='replace-one' protects groups: take "
            "neighbours='replace-one-within-group'."
        )
    return True


@dataclass(eq=False)
class OpenGame:
    """What an estimator keeps between two calls of ``partial_fit``; a secret."""

    game: Game  # with exact sums and unused noise
    plan: Plan
    budget: Budget  # of all calls together
    noise: NoiseSource
    targets: Targets
    parameters: str  # of the estimator, on the first call
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
    """The methods that an estimator has with a solver for fresh records too."""

    _open: OpenGame
    _why_closed: str  # said where no game can go on

    @only_if(_has_oracle)
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
            labels, given = labelled_sizes(group_sizes, group_labels, self.group_labels)
            sizes = [group_size(size) for size in given]
            n_features = whole_number(n_features, "n_features", least=1)
            self._groupings = ("groups of the oracle",)
            targets = self._targets(None, classes)
            facts = Facts(targets, sizes, sum(sizes), n_features, labels, fresh_calls=1)
            # of what the fit before had
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = n_features
            known = (n_features, self._row_norm, targets.encode)
            encoded = EncodingOracle(oracle, labels.tolist(), *known)
            self._learn(budget, solver, facts, lambda _: nullcontext(encoded))
        return self

    @only_if(_is_fresh)
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
        opened: OpenGame | None = getattr(self, "_open", None)
        with nullcontext() if opened is None else opened.one_call():
            try:
                with unchanged_on_failure(self):
                    if hasattr(self, "_why_closed"):
                        raise RuntimeError(
                            f"partial_fit cannot go on, as {self._why_closed}: predict still "
                            f"works, and clone gives an estimator that can begin anew."
                        )
                    go_on = self._go_on if hasattr(self, "_open") else self._begin
                    go_on(X, y, groups, classes)
            except BaseException:
                if opened is not None and opened.is_lost:
                    self.__dict__.pop("_open", None)
                    self._why_closed = "an earlier call failed when values had been released"
                raise
        return self

    def _begin(self, X: Any, y: ArrayLike, groups: Any, classes: Sequence[Any] | None) -> None:
        """Plan for all calls, and play the first one's rounds."""
        budget = self._check_parameters()
        facts, records = self._encode(partitions_of(X, y, groups), classes)
        solver = make_solver(self.solver, epsilon=budget.epsilon)
        assert isinstance(solver, FreshSolver)
        horizon = whole_number(solver.horizon, "horizon of the solver", least=1)
        begun: list[tuple[Game, NoiseSource, int]] = []

        def play(solver: Any, plan: Plan, data: Risks, noise: NoiseSource, start: Any) -> Solution:
            game = solver.begin(plan, noise, start=start)
            available = facts.sizes if plan.problem.hidden is None else [facts.n_records]
            begun.append((game, noise, game.advance(data.as_oracle(noise.rng), available)))
            return game.finish()

        sizes = [horizon * size for size in facts.sizes]
        of_all = replace(facts, sizes=sizes, fresh_calls=horizon)
        self._learn(budget, solver, of_all, records, run=play)
        self.group_sizes_ = np.asarray(self.plan_.problem.group_sizes) // horizon
        ((game, noise, n_played),) = begun
        self._open = OpenGame(game, self.plan_, budget, noise, facts.targets, self._as_text())
        _warn_if_unused(n_played, False)

    def _go_on(self, X: Any, y: ArrayLike, groups: Any, classes: Sequence[Any] | None) -> None:
        """Play the rounds of a later call."""
        opened = self._open
        if self._as_text() != opened.parameters:
            raise InputError(
                "parameters must not change between calls of partial_fit, as the plan was made on "
                "the first: set them back, or clone the estimator to begin anew."
            )
        game, plan, noise = opened.game, opened.plan, opened.noise
        facts, records = self._encode(partitions_of(X, y, groups), classes, first=opened.targets)
        # whatever is wrong with records shows before anything is lost, and a ledger that was opened
        # since the first call is charged for the whole plan
        with (
            np.errstate(all="ignore"),
            records(plan.problem) as data,
            self._spending(noise, opened.budget, plan.guarantee, self._fit_key) as guarantee,
        ):
            opened.is_lost = True  # until the rounds are through
            was_over = game.is_over
            available = facts.sizes if plan.problem.hidden is None else [facts.n_records]
            n_played = with_progress(
                self, plan, noise, lambda: game.advance(data.as_oracle(noise.rng), available)
            )
            solution = game.finish()
            check_solution(plan, solution, self.solver)
            opened.is_lost = False
        # records of a call without a round were not looked at, and may come again; hidden groups
        # are not counted again
        is_counted = n_played > 0 and plan.counts is None
        total = self.group_sizes_ + np.asarray(facts.sizes) * is_counted
        self._keep(plan, guarantee, replace(facts, sizes=total), solution)
        self._open = opened
        _warn_if_unused(n_played, was_over)

    def _as_text(self) -> str:
        """Return all parameters as text: some may be arrays, which do not compare to one truth."""
        return repr(sorted(self.get_params().items(), key=lambda item: str(item[0])))

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles, without the game that is open."""
        state = dict(super().__getstate__())
        if state.pop("_open", None) is not None:
            state["_why_closed"] = (
                "running sums and unused noise are secrets, which a copy or a pickle leaves out"
            )
        return state


def _warn_if_unused(n_played: int, was_over: bool) -> None:
    """Warn that records were not used; that follows from public facts and releases."""
    if not n_played:
        reason = "no round could be played with so few of them; pass more in a call, of every group"
        if was_over:
            reason = "all rounds of the plan were played before; a larger horizon plans for more"
        warn(f"these records were not used and may be passed again: {reason}.", UserWarning)
