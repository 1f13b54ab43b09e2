"""Learning from sample oracles and from records that come in parts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from sklearn_dpwg.estimators.fresh_method import FreshMethod
from sklearn_dpwg.estimators.open_game import OpenGame
from sklearn_dpwg.estimators.precisions import precisions
from sklearn_dpwg.estimators.sizes import group_size, positive_whole
from sklearn_dpwg.estimators.spending import spending
from sklearn_dpwg.exceptions import UnusedRecordsWarning
from sklearn_dpwg.groups import encode_groups, labelled_sizes, select_groups
from sklearn_dpwg.oracles import EncodingOracle, SampleOracle
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers import FreshSolver, make_solver


class FreshFitting:
    """``fit_oracle`` and ``partial_fit`` of the estimators, for solvers that use records once."""

    _groupings: tuple[str, ...] = ()  # what the groups of the last fit are made of

    @FreshMethod
    def fit_oracle(
        self: Any,
        oracle: SampleOracle,
        *,
        group_sizes: Sequence[float] | Mapping[Any, float],
        n_features: int,
        group_labels: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Any:
        """Learn from records that an oracle draws, each used once.

        Only with a solver for fresh records, such as ``solver="oco"``.

        Parameters
        ----------
        oracle : SampleOracle
            Anything with a method ``draw(group, size)`` that returns X and y of `size` fresh
            records of the group with that label. Longer rows are shortened to norm `data_norm`.
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
        ValueError
            If a parameter is wrong; no budget is spent then.
        OracleError
            If the oracle fails, runs dry, or gives anything but finite records with known
            targets. The estimator is left as it was, and a note says whether the budget is spent.

        Notes
        -----
        The guarantee is about records that are drawn once; see `SampleOracle` for what an oracle
        has to promise.
        """
        before = dict(vars(self))
        try:
            return self._fit_oracle(oracle, group_sizes, group_labels, n_features, classes)
        except BaseException:
            self.__dict__ = before
            raise

    def _fit_oracle(
        self: Any,
        oracle: SampleOracle,
        group_sizes: Any,
        group_labels: Any,
        n_features: Any,
        classes: Any,
    ) -> Any:
        budget = self._check_parameters()
        labels, given = labelled_sizes(group_sizes, group_labels, self.group_labels)
        self._groupings = ("groups of the oracle",)
        sizes = [group_size(size) for size in given]
        n_features = positive_whole(n_features, "n_features")
        encode_targets, loss = self._target_encoder(classes)
        problem = self._problem(loss, sizes, n_features)
        encoded = EncodingOracle(
            oracle, labels.tolist(), n_features, float(self.data_norm), encode_targets
        )
        solver, plan = self._plan_for(problem, labels, budget)
        noise = NoiseSource(self.random_state, plan.releases)
        with spending(noise, budget, plan, self):
            solution = self._with_progress(plan, noise, lambda: solver.run(plan, encoded, noise))
        self.__dict__.pop("feature_names_in_", None)
        self.n_features_in_ = n_features
        self._keep_outcome(plan, noise, labels, np.asarray(sizes), solution)
        return self

    @FreshMethod
    def partial_fit(
        self: Any, X: Any, y: ArrayLike, groups: Any = None, classes: Sequence[Any] | None = None
    ) -> Any:
        """Go on learning from records that were never seen before.

        Only with a solver for fresh records, such as ``solver="oco"``. The first call makes the
        plan, for `horizon` (of the solver) calls with as many records of each group as it has
        itself, and the budget is that of all calls together. Each call plays as many rounds as
        its records allow; those that are left over are not kept.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Rows. Longer ones are shortened to norm `data_norm`.
        y : array-like of shape (n_records,)
            Targets.
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
        ValueError
            If an input is wrong, or a parameter has changed since the first call.
        RuntimeError
            If the game was lost: running sums and unused noise are secrets and not part of a copy
            or pickle, and a call that fails after its first release ends the game. Prediction
            works all the same, and ``clone`` gives an estimator that can begin anew. Also in a
            forked process, and while another thread's call runs.

        Warns
        -----
        UnusedRecordsWarning
            If no round could be played with these records.

        Notes
        -----
        A record that is passed in k calls pays k times: that is up to the caller. After `fit` or
        `fit_oracle` the next call begins anew, with a new budget.
        """
        opened = getattr(self, "_open", None)
        with nullcontext() if opened is None else opened.one_call():
            before = dict(vars(self))
            try:
                if hasattr(self, "_why_closed"):
                    raise RuntimeError(
                        f"partial_fit cannot go on, as {self._why_closed}: predict still works, "
                        f"and clone gives an estimator that can begin anew."
                    )
                if hasattr(self, "_open"):
                    return self._go_on(X, y, groups, classes)
                return self._begin(X, y, groups, classes)
            except BaseException:
                self.__dict__ = before
                if opened is not None and opened.is_lost:
                    self.__dict__.pop("_open", None)
                    self._why_closed = "an earlier call failed when values had been released"
                raise

    def _begin(self: Any, X: Any, y: ArrayLike, groups: Any, classes: Any) -> Any:
        budget = self._check_parameters()
        rows, targets, codes, loss, labels = self._encode(X, y, groups, classes)
        sizes = np.bincount(codes)
        solver = make_solver(self.solver, epsilon=budget.epsilon)
        assert isinstance(solver, FreshSolver)
        horizon = positive_whole(solver.horizon, "horizon of the solver")
        problem = self._problem(loss, [horizon * int(size) for size in sizes], rows.shape[1])
        _, plan = self._plan_for(problem, labels, budget)
        noise = NoiseSource(self.random_state, plan.releases)
        key = uuid4().hex
        with spending(noise, budget, plan, self, key):
            game = solver.begin(plan, noise)
            data = self._group_risks(rows, targets, codes, problem)
            n_played = self._with_progress(
                plan, noise, lambda: game.advance(data.as_oracle(noise.rng), sizes.tolist())
            )
        self._keep_outcome(plan, noise, labels, sizes, game.finish())
        self._open = OpenGame(game, plan, budget, noise, OpenGame.describe(self), key)
        _warn_if_unused(n_played, False)
        return self

    def _go_on(self: Any, X: Any, y: ArrayLike, groups: Any, classes: Any) -> Any:
        opened: OpenGame = self._open
        if OpenGame.describe(self) != opened.parameters:
            raise ValueError(
                "parameters must not change between calls of partial_fit, as the plan was made on "
                "the first: set them back, or clone the estimator to begin anew."
            )
        rows, y = validate_data(
            self,
            X,
            y,
            dtype=precisions(X),
            accept_sparse="csr",
            y_numeric=self._y_numeric,
            reset=False,
        )
        problem = opened.plan.problem
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()!r}, got "
                f"{classes!r}."
            )
        encode_targets, _ = self._target_encoder(getattr(self, "classes_", None))
        targets = encode_targets(np.asarray(y))
        if groups is not None and self.group_by is not None:
            raise ValueError("groups were passed and group_by is set: use one of them, not both.")
        if self.group_by is not None:
            groups = select_groups(X, self.group_by)
        if groups is None:
            if problem.n_groups > 1:
                raise ValueError("groups must be given, as in the first call, got None.")
            groups = np.full(rows.shape[0], self.group_labels_[0], dtype=object)
        codes, _ = encode_groups(
            groups, rows.shape[0], self.group_labels_.tolist(), may_be_empty=True
        )
        sizes = np.bincount(codes, minlength=problem.n_groups)
        # a ledger that was opened since the first call is charged for the whole plan
        with spending(opened.noise, opened.budget, opened.plan, self, opened.key):
            opened.is_lost = True  # until the rounds are through
            data = self._group_risks(rows, targets, codes, problem)
            was_over = opened.game.is_over
            n_played = self._with_progress(
                opened.plan,
                opened.noise,
                lambda: opened.game.advance(data.as_oracle(opened.noise.rng), sizes.tolist()),
            )
            opened.is_lost = False
        solution = opened.game.finish()
        # records of a call without a round were not looked at, and may come again
        labels, total = self.group_labels_, self.group_sizes_ + sizes * (n_played > 0)
        self._keep_outcome(opened.plan, opened.noise, labels, total, solution)
        self._open = opened
        _warn_if_unused(n_played, was_over)
        return self

    def __getstate__(self) -> dict[str, Any]:
        # BaseEstimator, next in line, adds the version
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
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
    warnings.warn(
        f"these records were not used and may be passed again: {reason}.",
        UnusedRecordsWarning,
        stacklevel=4,
    )
