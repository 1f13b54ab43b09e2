"""Public methods of the private worst-group estimators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.utils.validation import check_array, check_is_fitted

from sklearn_dpwg._checks import FloatArray, without_weights
from sklearn_dpwg.data.frames import is_elsewhere
from sklearn_dpwg.data.groups import check_cell_sizes, columns_of_cells, labelled_sizes
from sklearn_dpwg.data.rows import canonical_rows, row_norms
from sklearn_dpwg.estimators import encode
from sklearn_dpwg.estimators.learn import Facts, unchanged_on_failure
from sklearn_dpwg.estimators.partitions import partitions_of
from sklearn_dpwg.estimators.planning import plan_within, with_start
from sklearn_dpwg.estimators.stream import Streaming
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.solvers import Plan
from sklearn_dpwg.solvers.auto import make_solver
from sklearn_dpwg.solvers.solver import FreshSolver

# What both estimators document alike, by the names of the parameters.
SHARED_PARAMETERS = {
    "epsilon, delta": """\
    epsilon : float, default=1.0
        Privacy budget ε, positive. ``float("inf")`` gives the exact solution without privacy.
    delta : float, default=1e-6
        Privacy budget δ, between 0 and 1; should be far below one over the number of records.
""",
    "data_norm, fit_intercept, prior": """\
    data_norm : float, optional
        Public bound on the norm of a row of X: longer rows are shortened to it. Must not be
        read off the data. Left open it is 1, and a fit warns; where rows are scaled to that, say
        ``data_norm=1.0``.
    fit_intercept : bool, default=True
        Whether to learn an intercept.
    prior : {"proportional", "uniform"}, float or array-like, default="proportional"
        Public weights of the groups before any record is read: group proportions, equal weights,
        a mixture with a share of equal weights, or weights in the order of `group_labels_`.
        Proportional weights need the least noise.
""",
    "group_labels to start": """\
    group_labels : sequence, optional
        All group labels. By default they are found in the groups, and the set of labels that occur,
        as they are written, is public. Setting them catches missing, misspelt and wrong groups, or
        takes these for the group "other" where that is one of them.
    group_by : column name or index, sequence of them, or callable, optional
        How to find the groups in the X that reaches the model: columns, by name where X has names
        and else by index, which are taken out of X before anything is learned, and may be there or
        not in prediction (give a column twice to learn from it too); or a function of X, which
        must decide each row by that row alone and takes nothing out.
    overlap : {"cells", "attributes", "both", "membership"}, default="cells"
        What several columns of groups mean: their intersections; each value of each column, as
        group ``(column, value)``, so that a record is in one group a column; these and the
        intersections of 36 records or more; or columns of True and False, each the members of a
        group, where a record may be in any number of groups. All solvers but "oco" and
        "online-to-batch" know groups that overlap, with ``neighbours="replace-one-within-group"``.
    random_state : int, RandomState or None, default=None
        None draws noise from a floating-point-safe sampler and the operating system's entropy.
        Anything else makes a fit repeatable, for tests: its guarantee is void for whoever knows
        it, holds the estimator, or sees two fits that share it (clones, folds, refits).
    verbose : int, default=0
        Anything but 0 prints the planned steps, and how many of them are done, while a fit runs.
        scikit-learn's callbacks do it in a notebook: ``set_callbacks(ProgressBar())``, from 1.9.
    rows_per_person : int, optional
        Public number k of rows that no person has more of, in all groups together, as
        `preprocessing.bound_rows_per_person` sees to. ε and δ are then those of a person: k rows at
        once, by group privacy of the exact profile. Left open, they are those of one row.
    start : estimator or pair of array-like, optional
        Weights to begin with in place of 0: a fitted linear model with ``coef_`` and
        ``intercept_``, or both as a pair, in the units of X and y; those outside the ball are
        projected to it. They must be public or released: a private model of this package is counted
        with this fit by `privacy_of` and by ledgers, the rest is the caller's word. `aim` of a
        solver is the distance from them. In a grid wrap models in ``FrozenEstimator``.
""",
    "neighbours, optimism_correction": """\
    neighbours : {"replace-one", "replace-one-within-group"}, default="replace-one"
        What the guarantee is for: one record replaced by any other, which protects who is in which
        group too: all that is learned of the groups' sizes are noisy counts, and "auto", "mgr",
        "moments", "oco", "online-to-batch" and "phased-erm" can learn. Or by another of its group,
        where who is in which group is public, and every solver can.
    optimism_correction : float, default=1.0
        How far the learner mistrusts what its own records say of groups: a model that learned from
        few records of a group looks better on them than among new people, and is corrected so many
        times for that. It decides how far weight is moved to groups that are worse off, for every
        solver but "exact", "oco" and "online-to-batch". 0 is the game of the papers, on the records
        themselves.
""",
    "group_weights_ to feature_names_in_": """\
    group_weights_ : ndarray of shape (n_groups,)
        Weights that the learner gave the groups; a private release, which not every solver makes.
    group_gain_ : float or None
        How much weighting groups gains for the worst-off group among new people, in units of the
        loss, as the released numbers tell; None where the solver has no such number.
    group_gain_std_ : float or None
        Standard error of that.
    n_iter_ : int
        Steps taken; planned from public facts.
    plan_ : Plan
        What was released, with how much noise.
    privacy_ : PrivacyGuarantee
        The guarantee; ``print(model.privacy_)``.
    n_features_in_ : int
        Number of features, without columns that `group_by` names.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of these features, where X had names.
""",
}


class DPWorstGroupEstimator(Streaming):
    """Base of the private worst-group estimators; not for direct use."""

    # groups reach fit through every meta-estimator that routes metadata
    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    __metadata_request__partial_fit = {"groups": True}  # noqa: RUF012

    @without_weights
    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
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

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If any input or parameter is wrong; no budget is spent then.
        TypeError
            If a weight is passed, or a parameter or input is of the wrong type; no budget is spent
            then.
        ChangedDataError
            If groups that are read once more, or records that dask computes once more, are not
            what they were.

        Warns
        -----
        UserWarning
            Of an ε or δ that protects nobody, of groups that are missing or hold the targets, of a
            `data_norm` that is left open, of a plan that promises nothing, of noise from a seed.

        Notes
        -----
        A fit that fails leaves the estimator as it was. If noise had been released by then, the
        error carries a note that the budget is spent. Errors and warnings are for who holds the
        records, and are outside the guarantee. X must not change while fit runs: rows are copied
        once at most. Of records that are not in memory targets and
        groups are read once and rows once; what `group_by` makes of rows takes a second reading of
        these.
        """
        with unchanged_on_failure(self):
            budget = self._check_parameters()
            solver = make_solver(self.solver, epsilon=budget.epsilon)
            reads_once = isinstance(solver, FreshSolver) and not solver.reads_again
            if reads_once and is_elsewhere(X, y, groups):
                raise InputError(
                    f"solver must be one that reads all records at once, such as 'auto', with "
                    f"records that are not in memory, got {self.solver!r}: fit_oracle learns from "
                    f"fresh records."
                )
            if self.group_by is not None and getattr(X, "groups", None) is not None:
                raise InputError(
                    "the source names groups and group_by is set: use one of them, not both."
                )
            self._learn(budget, *self._encode(partitions_of(X, y, groups)))
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
            index = getattr(group_sizes, "index", None)
            table = index.to_frame() if isinstance(index, pd.Index) else None
            facts = self._overlapping(facts, columns, table)
        problem, solver = self._problem(facts), make_solver(self.solver, epsilon=budget.epsilon)
        reads_once = isinstance(solver, FreshSolver) and not solver.reads_again
        if math.isinf(problem.n_records) and not reads_once:
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
        X = self._without_groups(X)
        encode.check_columns(X)
        with encode.advice_on_missing_values(X):
            rows = check_array(X, dtype=encode.PRECISIONS, accept_sparse="csr", estimator=self)
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
