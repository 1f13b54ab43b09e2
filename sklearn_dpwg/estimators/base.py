"""Public methods of the private worst-group estimators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.utils.validation import check_array, check_is_fitted

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.groups import ordered_sizes
from sklearn_dpwg.data.kernels import canonical_rows, row_norms
from sklearn_dpwg.data.oracles import SampleOracle
from sklearn_dpwg.estimators import stream as fresh
from sklearn_dpwg.estimators.encode import (
    advice_on_missing_values,
    check_columns,
    group_size,
    positive_whole,
)
from sklearn_dpwg.estimators.learn import Fitting, fit_hidden, precisions
from sklearn_dpwg.estimators.partitions.fit import fit_in_blocks
from sklearn_dpwg.estimators.partitions.survey import is_elsewhere
from sklearn_dpwg.estimators.spending import (
    check_solution,
    plan_within,
    spending,
    unchanged_on_failure,
)
from sklearn_dpwg.estimators.start import told
from sklearn_dpwg.estimators.stream import FreshMethod
from sklearn_dpwg.ledger.ledger import join_ledgers, with_ledgers
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers import FreshSolver, Plan


class DPWorstGroupEstimator(Fitting):
    """Base of the private worst-group estimators; not for direct use."""

    # groups reach fit through every meta-estimator that routes metadata
    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    __metadata_request__partial_fit = {"groups": True}  # noqa: RUF012

    def fit(self, X: Any, y: Any = None, groups: Any = None, **refused: Any) -> Self:
        """Learn a model whose worst-off group does as well as it can, within the budget.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features), or Source
            Rows, as an array, a frame of pandas or polars, or in compressed form. Longer ones are
            shortened to norm `data_norm`. Single precision is kept, sums are in double. Rows that
            memory does not hold are a collection of dask, or, with their targets and groups, a
            `sources.ParquetSource` or `sources.ArraySource`.
        y : array-like of shape (n_records,)
            Targets; a collection of dask where X is one, None with a source.
        groups : array-like of shape (n_records,) or (n_records, n_columns), optional
            Group of each record, public or, with ``neighbours="replace-any"``, protected; cells of
            several columns are intersected. As `y`, of the kind that X is of.
        **refused : dict
            Nothing else is accepted; ``sample_weight`` is refused with a reason.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If any input or parameter is wrong; no budget is spent then.
        TypeError
            If ``sample_weight`` or another unknown argument is passed, or a parameter or input is
            of the wrong type; no budget is spent then.
        ChangedDataError
            If records that are read from a file, or computed by dask, once more are not what they
            were.

        Warns
        -----
        NoProtectionWarning
            If ε is finite and so large that it protects nobody.
        PublicTargetWarning
            If `groups` are, or hold a column with the name of, the targets.
        DataNormWarning
            If `data_norm` is left open.
        UngroupedWarning
            If there are neither `groups` nor `group_by`.
        DeltaWarning
            If δ is not below one over the number of records.
        WeakPlanWarning
            If the plan's bound promises no more than a model that predicts nothing.
        SeededNoiseWarning
            If `random_state` is set, so that the noise can be computed again.

        Notes
        -----
        A fit that fails leaves the estimator as it was. If noise had been released by then, the
        error carries a note that the budget is spent. Whether an input is refused depends on the
        records and is outside the guarantee: keep such errors from whom the records are kept. X
        must not change while fit runs: rows that are sorted by group are not copied, others once.
        Of records that are not in memory targets and groups are read once and rows once; what
        `group_by` makes of rows takes a second reading of these.
        """
        for name in refused:
            reason = (
                "a weight would let one record count for many, and the noise hides one"
                if name == "sample_weight"
                else "fit takes X, y and groups"
            )
            raise TypeError(f"fit of {type(self).__name__} refuses {name}: {reason}.")
        with unchanged_on_failure(self):
            if is_elsewhere(X, y, groups):
                fit_in_blocks(self, X, y, groups)
            else:
                self._fit(X, y, groups)
        return self

    def _fit(self, X: Any, y: ArrayLike, groups: Any) -> None:
        budget = self._check_parameters()
        rows, encoded, codes, labels, targets = self._encode(X, y, groups)
        if self._hides_groups:
            fit_hidden(self, budget, rows, encoded, codes, labels, targets)
            return
        sizes = np.bincount(codes)
        problem = self._problem(targets.loss, sizes.tolist(), rows.shape[1])
        solver = self._make_solver(budget)
        first = self._first_weights(targets, problem)
        plan = self._plan_for(solver, problem, labels, budget, first)
        # without releases nothing is drawn, so random_state does not matter
        seed = self.random_state if plan.releases else None
        noise = NoiseSource(seed, plan.releases)
        with spending(noise, budget, plan, self, self._fit_key) as guarantee:
            data = self._group_risks(rows, encoded, codes, problem)
            del rows, encoded, codes  # copies of them are not kept for as long as the solver runs
            of_solver = replace(plan)  # what it does to its own does not reach `plan_`
            solution = self._with_progress(
                plan, noise, lambda: solver.run(of_solver, data, noise, start=first)
            )
            check_solution(plan, solution, self.solver)
        self._keep_outcome(plan, guarantee, targets, labels, sizes, solution)

    @FreshMethod
    def fit_oracle(
        self,
        oracle: SampleOracle,
        *,
        group_sizes: Sequence[float] | Mapping[Any, float],
        n_features: int,
        group_labels: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Self:
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
        fresh.fit_oracle(self, oracle, group_sizes, n_features, group_labels, classes)
        return self

    @FreshMethod
    def partial_fit(
        self, X: Any, y: Any = None, groups: Any = None, classes: Sequence[Any] | None = None
    ) -> Self:
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
        fresh.partial_fit(self, X, y, groups, classes)
        return self

    def plan(
        self,
        *,
        group_sizes: Sequence[int] | Mapping[Any, int],
        n_features: int,
        classes: Sequence[Any] | None = None,
        group_labels: Sequence[Any] | None = None,
        rows_per_person: int | None = None,
    ) -> Plan:
        """Preview a fit from public facts: releases, noise, steps, predicted excess, guarantee.

        Parameters
        ----------
        group_sizes : sequence of int, or mapping from label to int
            Number of records in each group; infinity for an oracle without end. A sequence is in
            the order of `group_labels`, here or else of the estimator, or else in that of
            ``group_labels_`` after a fit. With ``neighbours="replace-any"`` they are a guess, which
            a fit replaces by what it counts; what it costs does not depend on it.
        n_features : int
            Number of columns of X.
        classes : sequence, optional
            Classes of y, for a classifier; those of the estimator, or else two, by default.
        group_labels : sequence, optional
            Labels of `group_sizes`, where it is a sequence.
        rows_per_person : int, optional
            Largest number of rows of one person, whom the budget is for; that of the estimator by
            default.

        Returns
        -------
        Plan
            Exactly what ``fit`` would do for such data; print it.

        Raises
        ------
        ValueError
            If an argument or a parameter of the estimator is wrong.
        TypeError
            If a parameter is of the wrong type.
        """
        budget = self._check_parameters()
        # where nobody says otherwise, as if y held two classes; a regressor has none
        targets = self._targets(np.array([0, 1]), classes if is_classifier(self) else None)
        sizes = [
            group_size(size) for size in ordered_sizes(group_sizes, group_labels, self.group_labels)
        ]
        problem = self._problem(targets.loss, sizes, positive_whole(n_features, "n_features"))
        solver = self._make_solver(budget)
        if math.isinf(problem.n_records) and not isinstance(solver, FreshSolver):
            raise ValueError(
                f"group_sizes must be finite with solver={self.solver!r}, which needs all records "
                f"at once, got {problem.group_sizes!r}."
            )
        rows = self.rows_per_person if rows_per_person is None else rows_per_person
        plan = plan_within(budget, solver, problem, positive_whole(rows, "rows_per_person"))
        first = None
        # a start for more classes than anybody named is none for the two that stand in
        if classes is not None or not hasattr(self, "classes") or self.classes is not None:
            first = self._first_weights(targets, problem)
        return told(plan, solver, first)

    def check_rows(self, X: Any) -> NDArray[np.bool_]:
        """Tell which rows are longer than `data_norm`, to which training shortens every row.

        Neither `fit` nor `predict` tells, as their rows may be private. Many long rows mean that
        features should be scaled by public bounds, or `data_norm` set to a public bound on the
        norm of a row. The estimator need not be fitted.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows, public ones or seen by those only who may see them.

        Returns
        -------
        ndarray of shape (n_records,)
            True where a row is longer. This is no release: it holds for these rows exactly.

        Raises
        ------
        ValueError
            If X is no matrix of finite numbers, or `data_norm` is wrong.
        """
        self._check_parameters()
        check_columns(X)
        with advice_on_missing_values(X):
            rows = check_array(X, dtype=precisions(X), accept_sparse="csr", estimator=self)
        if issparse(rows):
            rows = canonical_rows(rows)
        # a row of a bound's length may come out longer by its rounding
        return np.asarray(row_norms(rows) > 1.000001 * float(self._row_norm))

    def __sklearn_clone__(self) -> Self:
        """Clone the parameters, and a fitted start with what it learned."""
        copy: Self = super().__sklearn_clone__()
        if hasattr(self.start, "coef_"):  # cloned for its parameters it would forget its fit
            copy.start = self.start
        return copy

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles; inside ledgers, with what lets a worker count to them."""
        return with_ledgers(fresh.without_secrets(super().__getstate__()))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and charge fits to the ledgers that it names."""
        super().__setstate__(join_ledgers(state))

    @property
    def group_weights_(self) -> FloatArray:
        """Privately released weights of the groups, in the order of ``group_labels_``."""
        check_is_fitted(self, "plan_")
        if self._group_weights is None:
            raise AttributeError(f"solver {self.plan_.solver!r} does not release group weights.")
        return np.asarray(self._group_weights)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
