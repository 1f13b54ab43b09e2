"""Public methods of the private worst-group estimators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.utils.validation import check_array, check_is_fitted

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.groups import (
    check_cell_sizes,
    columns_of_cells,
    is_elsewhere,
    labelled_sizes,
)
from sklearn_dpwg.data.kernels.passes import canonical_rows, row_norms
from sklearn_dpwg.estimators import encode
from sklearn_dpwg.estimators.learn import Facts, unchanged_on_failure
from sklearn_dpwg.estimators.partitions import Partitioned
from sklearn_dpwg.estimators.planning import plan_within, with_start
from sklearn_dpwg.estimators.stream import Streaming
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.solvers import FreshSolver, Plan, make_solver


class DPWorstGroupEstimator(Partitioned, Streaming):
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
            Group of each record, protected or public as `neighbours` says; cells of several
            columns are intersected, but see `overlap`. As `y`, of the kind that X is of.
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
            If ε is finite and so large that it protects nobody, or δ not below one over the number
            of records.
        GroupsWarning
            If `groups` are, or hold a column with the name of, the targets.
        DataNormWarning
            If `data_norm` is left open.
        UngroupedWarning
            If there are neither `groups` nor `group_by`, or some records are in no group.
        WeakPlanWarning
            If the plan's bound promises no more than a model that predicts nothing.
        SeededNoiseWarning
            If `random_state` is set, so that the noise can be computed again.

        Notes
        -----
        A fit that fails leaves the estimator as it was. If noise had been released by then, the
        error carries a note that the budget is spent. Errors and warnings are for who holds the
        records, and are outside the guarantee. X must not change while fit runs: rows are copied
        once at most. Of records that are not in memory targets and
        groups are read once and rows once; what `group_by` makes of rows takes a second reading of
        these.
        """
        self._refuse(
            refused,
            "X, y and groups",
            sample_weight="a weight would let one record count for many, and the noise hides one",
        )
        with unchanged_on_failure(self):
            if is_elsewhere(X, y, groups):
                self._fit_partitions(X, y, groups)
            else:
                budget = self._check_parameters()
                self._learn(budget, *self._encode(X, y, groups))
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
            ``group_labels_`` after a fit. Where groups overlap, those of the cells that their
            columns make, as ``groups.value_counts()`` returns them. Unless groups are public,
            they are a guess, which a fit replaces by what it counts; what it costs does not depend
            on it.
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
        overlaps = self.overlap != "cells"
        if overlaps:
            check_cell_sizes(group_sizes, group_labels)
        known = (group_labels, None if overlaps else self.group_labels)
        labels, given = labelled_sizes(group_sizes, *known, may_be_unnamed=True)
        sizes = [encode.group_size(size) for size in given]
        n_features = encode.positive_whole(n_features, "n_features")
        facts = Facts(targets, sizes, sum(sizes), n_features, labels)
        if overlaps:
            columns = encode.columns_of_sizes(group_sizes, self.group_by)
            if columns is None and self.overlap != "membership":
                columns = columns_of_cells(labels, sizes, self.group_labels)
            facts = self._overlapping(facts, columns)
        problem, solver = self._problem(facts), make_solver(self.solver, epsilon=budget.epsilon)
        if math.isinf(problem.n_records) and not isinstance(solver, FreshSolver):
            raise InputError(
                f"group_sizes must be finite with solver={self.solver!r}, which needs all records "
                f"at once, got {problem.group_sizes!r}."
            )
        rows = self.rows_per_person if rows_per_person is None else rows_per_person
        # a start for more classes than anybody named is none for the two that stand in
        stands_in = classes is None and hasattr(self, "classes") and self.classes is None
        first = None if stands_in else self._first_weights(facts)
        plan = plan_within(budget, solver, problem, encode.stated_rows(rows))
        return with_start(plan, solver, first)

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
        encode.check_columns(X)
        with encode.advice_on_missing_values(X):
            rows = check_array(X, dtype=encode.precisions(X), accept_sparse="csr", estimator=self)
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

    @property
    def group_weights_(self) -> FloatArray:
        """Privately released weights of the groups, in the order of ``group_labels_``."""
        check_is_fitted(self, "plan_")
        if self._group_weights is None:
            raise AttributeError(f"solver {self.plan_.solver!r} does not release group weights.")
        return np.asarray(self._group_weights)
