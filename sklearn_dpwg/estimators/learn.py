"""The steps of a fit, the same for records in memory, in partitions or from an oracle.

`_encode` reads public facts of the records, `_problem` and `plan_within` turn them into a plan,
`_learn` runs the solver with the plan's noise, and `_keep` sets the fitted attributes. Hidden
groups are counted, with noise, between the plan and the run.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_dpwg._checks import FloatArray, whole_number, without_weights
from sklearn_dpwg.data import frames
from sklearn_dpwg.data import groups as grouping
from sklearn_dpwg.data.problem import Cells, HiddenGroups, Problem, equal_sizes, largest_reach
from sklearn_dpwg.estimators import encode
from sklearn_dpwg.estimators.encode import Targets, encode_start
from sklearn_dpwg.estimators.partitions import (
    Blocks,
    Encoder,
    Labels,
    Partitions,
    all_targets,
    common_form,
    partitions_of,
    read_labels,
)
from sklearn_dpwg.estimators.planning import (
    check_solution,
    plan_within,
    warn_of_plan,
    with_progress,
)
from sklearn_dpwg.estimators.private import (
    PrivateEstimator,
    unchanged_on_failure,
    warn_of_row_norm,
)
from sklearn_dpwg.exceptions import (
    InputError,
    PlanExceededError,
    SeededNoiseWarning,
    UngroupedWarning,
    warn,
)
from sklearn_dpwg.ledger.costs import costs_of_start
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee
from sklearn_dpwg.solvers import Plan, Solution, Solver
from sklearn_dpwg.solvers.auto import make_solver
from sklearn_dpwg.solvers.counts import release_sizes
from sklearn_dpwg.solvers.solver import FreshSolver

# Public fact that a guarantee lists for a `start` without a guarantee of its own.
PUBLIC_START = (
    "the weights that the fit began with, which by the caller's word were not learned from these "
    "records"
)


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts about the records that a plan is made from, before a solver reads any record."""

    targets: Targets  # encodes y for the loss
    sizes: Sequence[Any]  # records of each group; equal sizes until hidden groups are counted
    n_records: float  # of all groups together
    n_features: int
    labels: Any = None  # of the groups, in the order of `sizes`; a preview needs none
    cells: Cells | None = None  # intersections of the groups, where groups overlap
    fresh_calls: int = 0  # planned calls of partial_fit or fit_oracle; 0 where fit reads all


# Opens the records of a problem: a context that yields `Risks` or an oracle while a solver runs.
Records = Callable[[Problem], AbstractContextManager[Any]]
# Called in place of the solver's `run`: (solver, plan, records, noise, start=...) -> Solution.
Run = Callable[..., Solution]


@dataclass(eq=False, repr=False)
class DPWorstGroupEstimator(PrivateEstimator):
    """Base of the private worst-group estimators: from records to fitted attributes."""

    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    solver: str | Solver = "auto"
    loss: str | Loss
    radius: float | None = None
    data_norm: float | None = None
    fit_intercept: bool = True
    prior: Any = "proportional"
    group_labels: Sequence[Any] | None = None
    group_by: Any = None
    overlap: Literal["cells", "attributes", "both", "membership"] = "cells"
    random_state: Any = None
    verbose: int = 0
    rows_per_person: int | None = None
    neighbours: Literal["replace-one", "replace-one-within-group"] = "replace-one"

    # value of the constant column behind rows of norm 1
    _intercept_scaling: ClassVar[float]
    _is_classifier: ClassVar[bool]

    # groups reach fit through every meta-estimator that routes metadata
    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    __metadata_request__partial_fit = {"groups": True}  # noqa: RUF012

    @abstractmethod
    def _targets(self, y: NDArray[Any] | None, classes: ArrayLike | None = None) -> Targets:
        """Return the encoder of y. Classes are the parameter's, else `classes`, else those in y."""

    @without_weights
    def fit(self, X: Any, y: Any = None, groups: Any = None, *, start: Any = None) -> Self:
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
        start : estimator or pair of array-like, optional
            Weights to begin with in place of 0: a fitted linear model with ``coef_`` and
            ``intercept_``, or both as a pair, in the units of X and y; those outside the ball are
            projected to it. They must be public or released: a private model of this package is
            counted with this fit by `privacy_of` and by ledgers, the rest is the caller's word.
            `initial_distance` of a solver is the distance from them.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If an input or parameter is wrong, or a weight is passed; no budget is spent then.
        ChangedDataError
            If records that are read once more are not what they were.

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
        once at most.
        """
        with unchanged_on_failure(self):
            budget = self._check_parameters()
            solver = make_solver(self.solver, epsilon=budget.epsilon)
            if _reads_once(solver) and frames.is_elsewhere(X, y, groups):
                raise InputError(
                    f"solver must be one that reads all records at once, such as 'auto', with "
                    f"records that are not in memory, got {self.solver!r}: fit_oracle learns from "
                    f"fresh records."
                )
            facts, records = self._encode(partitions_of(X, y, groups))
            self._learn(budget, solver, facts, records, start=start)
        return self

    def plan(
        self,
        *,
        group_sizes: Sequence[int] | Mapping[Any, int],
        n_features: int,
        classes: Sequence[Any] | None = None,
        group_labels: Sequence[Any] | None = None,
        rows_per_person: int | None = None,
        start: Any = None,
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
        start : estimator or pair of array-like, optional
            Where the fit begins, as there.

        Returns
        -------
        Plan
            Exactly what ``fit`` would do for such data; print it.
        """
        budget = self._check_parameters()
        solver = make_solver(self.solver, epsilon=budget.epsilon)
        # a classifier without stated classes is planned for two
        targets = self._targets(np.array([0, 1]), classes if self._is_classifier else None)
        overlaps = self.overlap != "cells"
        own_labels = None if overlaps else self.group_labels
        labels, stated_sizes = grouping.labelled_sizes(
            group_sizes, group_labels, own_labels, may_be_unnamed=not overlaps
        )
        sizes = [encode.group_size(size) for size in stated_sizes]
        n_features = whole_number(n_features, "n_features", least=1)
        facts = Facts(targets, sizes, sum(sizes), n_features, labels)
        if overlaps:
            index: Any = getattr(group_sizes, "index", None)
            cell_table = index.to_frame() if isinstance(index, pd.Index) else None
            columns = self.group_by if isinstance(self.group_by, list | tuple) else None
            if cell_table is not None and None not in index.names:
                columns = index.names
            facts = self._with_overlapping_groups(facts, columns, cell_table)
        problem = self._problem(facts, solver)
        if math.isinf(problem.n_records) and not _reads_once(solver):
            raise InputError(
                f"group_sizes must be finite with solver={self.solver!r}, which needs all records "
                f"at once, got {problem.group_sizes!r}."
            )
        max_rows = encode.stated_rows(rows_per_person) or self.rows_per_person
        start_weights = encode_start(start, targets, n_features, self)
        return plan_within(budget, solver, problem, rows_per_person=max_rows, start=start_weights)

    @property
    def group_weights_(self) -> FloatArray:
        """Privately released weights of the groups, in the order of ``group_labels_``."""
        check_is_fitted(self, "plan_")
        if self._group_weights is None:
            raise AttributeError(f"solver {self.plan_.solver!r} does not release group weights.")
        return np.asarray(self._group_weights)

    @property
    def _hides_groups(self) -> bool:
        """Whether the guarantee protects the group of a record too."""
        return self.neighbours == "replace-one" and self.epsilon != math.inf

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the solver too: a name stands for its default instance."""
        solver = params.get("solver", self.solver)
        if isinstance(solver, str) and any(name.startswith("solver__") for name in params):
            params["solver"] = make_solver(solver, epsilon=1.0)
        super().set_params(**params)
        return self

    def _check_parameters(self) -> Budget:
        """Check all parameters, before any record is read, and return the budget."""
        budget = self._check_common(radius=self.radius)
        for name in ("fit_intercept", "verbose"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_ | int | np.integer):
                raise InputError(f"{name} must be a bool or a whole number, got {value!r}.")
        encode.check_protection(self.neighbours, self.overlap, hides_groups=self._hides_groups)
        return budget

    def _learn(
        self,
        budget: Budget,
        solver: Solver,
        facts: Facts,
        records: Records,
        *,
        start: Any = None,
        run: Run | None = None,
    ) -> None:
        """Plan from the facts, run the solver on the records, and set the fitted attributes.

        Hidden groups are planned as equal sizes first, so that every other error is raised before
        noise is drawn. After their noisy counts are released, all depends on these counts alone.
        """
        problem = self._problem(facts, solver)
        start_weights = encode_start(start, facts.targets, facts.n_features, self)
        replan = partial(
            plan_within, budget, solver, rows_per_person=self.rows_per_person, start=start_weights
        )
        plan = replan(problem)
        count_stage, plan_guarantee = plan.counts, plan.guarantee  # no stage for public groups
        self._start_costs = () if start is None else costs_of_start(start)
        if start is not None and not self._start_costs:
            public = (*plan_guarantee.public, PUBLIC_START)
            plan_guarantee = replace(plan_guarantee, public=public)
        if self.data_norm is None:
            warn_of_row_norm()
        if plan.releases:
            n_drawn = plan.n_drawn if count_stage is None else None
            self._warn_of_budget(budget, problem.n_records if n_drawn is None else n_drawn)
        if count_stage is None:
            warn_of_plan(plan, facts.labels)
        # without releases nothing is drawn, so random_state does not matter
        count_releases = () if count_stage is None else count_stage.releases
        seed = self.random_state if plan.releases else None
        noise = NoiseSource(seed, count_releases or plan.releases)
        # `records` checks all of them before the first draw of noise
        with self._spending(noise, budget, plan_guarantee) as guarantee, records(problem) as data:
            if count_stage is not None:
                # the only use of the true sizes
                noisy_sizes = release_sizes(count_stage.release, data.group_sizes, noise)
                n_calls = facts.fresh_calls or 1
                facts = replace(facts, sizes=[n_calls * size for size in noisy_sizes])
                plan = replan(self._problem(facts, solver))
                if plan.counts != count_stage:
                    raise PlanExceededError(
                        "what was fixed before the counts must not follow from them."
                    )
                warn_of_plan(plan, facts.labels)
            if count_releases:
                with warnings.catch_warnings():
                    # the noise of the counts has warned of the seed
                    warnings.simplefilter("ignore", SeededNoiseWarning)
                    noise = NoiseSource(self.random_state, plan.second_stage.releases)
            # a copy: a solver that changes it does not change `plan_`
            run_plan = plan.second_stage
            learn = solver.run if run is None else partial(run, solver)
            solution = with_progress(
                self, run_plan, noise, lambda: learn(run_plan, data, noise, start=start_weights)
            )
            check_solution(plan, solution, self.solver)
        self._keep(plan, guarantee, facts, solution)

    def _learn_nothing(self, X: Any, y: ArrayLike, groups: Any) -> None:
        """Set the fitted attributes with weights of 0, to check a search before it spends."""
        budget = self._check_parameters()
        solver = make_solver(self.solver, epsilon=budget.epsilon)
        facts, _ = self._encode(partitions_of(X, y, groups))
        problem = self._problem(facts, solver)
        plan = plan_within(budget, solver, problem, rows_per_person=self.rows_per_person)
        solution = Solution(weights=np.zeros(problem.n_weights), group_weights=None, n_iter=0)
        self._keep(plan, plan.guarantee, facts, solution)

    def _problem(self, facts: Facts, solver: Solver) -> Problem:
        """Return the problem that a solver plans for, from the facts and the parameters."""
        hidden_groups = None
        if self._hides_groups:
            n_calls = facts.fresh_calls or 1
            n_records: Any = n_calls * facts.n_records
            hidden_groups = HiddenGroups(
                n_records, n_calls=n_calls, labels_are_stated=self.group_labels is not None
            )
        loss = facts.targets.loss
        # by default so large that the ball does not bind, in units of the loss's reach
        radius = solver.room * largest_reach(loss) if self.radius is None else float(self.radius)
        return Problem(
            loss=loss,
            group_sizes=tuple(facts.sizes),
            n_features=facts.n_features,
            radius=radius,
            prior=encode.resolve_prior(self.prior, facts.sizes),
            intercept_scaling=self._intercept_scaling if self.fit_intercept else 0.0,
            hidden=hidden_groups,
            cells=facts.cells,
            fresh_calls=facts.fresh_calls,
        )

    def _encode(
        self,
        partitions: Partitions,
        classes: ArrayLike | None = None,
        *,
        first_targets: Targets | None = None,
    ) -> tuple[Facts, Blocks]:
        """Return facts from targets and groups, and the `Blocks` that encode rows for a solver.

        A later call of ``partial_fit`` passes the encoder of targets of the first.
        """
        is_later_call = first_targets is not None
        read = partial(
            read_labels,
            group_by=self.group_by,
            is_classifier=self._is_classifier,
            stated=self.group_labels,
        )
        parts: list[Labels] = partitions.of_each(read)
        n_records = sum([part.n_records for part in parts])
        form = common_form(parts)
        encode.check_columns(form)
        validate_data(
            self,
            form,
            dtype=encode.PRECISIONS,
            accept_sparse="csr",
            ensure_min_samples=0 if n_records else 1,
            reset=not is_later_call,
        )
        sizes_by_partition, labels = self._sizes_by_partition(parts, n_records, is_later_call)
        if first_targets is not None:
            targets = first_targets
            targets.check_later_classes(classes)
        else:
            y = all_targets(parts, n_records, is_classifier=self._is_classifier)
            targets = self._targets(y, classes)
            # the guarantee names the columns that make public groups, as a record must keep them
            self._grouping_names = ()
            if not self._hides_groups:
                self._grouping_names = grouping.grouping_names(partitions.groups, self.group_by)
                encode.warn_if_target_is_group(partitions.y, partitions.groups, self.group_by)
        encoder = Encoder(
            group_by=self.group_by,
            labels=None if parts[0].groups is None else labels.tolist(),
            targets=targets,
            row_norm=self._row_norm,
            owner=type(self).__name__,
        )
        # hidden groups have equal sizes until they are counted, with noise
        equal = equal_sizes(n_records, len(labels)) if self._hides_groups else None
        sizes = sizes_by_partition.sum(axis=0).tolist() if equal is None else equal
        facts = Facts(targets, sizes, n_records, self.n_features_in_, labels)
        groups = parts[0].group_form
        if self.overlap != "cells" and groups is not None:
            columns = grouping.columns_of(groups, self.group_by)
            facts = self._with_overlapping_groups(facts, columns, frames.as_pandas(groups))
        return facts, Blocks(partitions, sizes_by_partition, encoder)

    def _sizes_by_partition(
        self, parts: Sequence[Labels], n_records: int, is_later_call: bool
    ) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
        """Return the numbers of records, (n_partitions, n_groups), and the labels of the groups.

        A later call of ``partial_fit`` has the labels of the first call, any of which may have no
        records. Where groups overlap, labels are those of the cells of their columns.
        """
        counts = [part.counts for part in parts]
        if len({part.groups is None for part in parts}) > 1:
            raise InputError("groups must be given for every partition or for none, got some.")
        if parts[0].groups is None:
            if is_later_call and len(self.group_labels_) > 1:
                raise InputError("groups must be given, as in the first call, got None.")
            if not is_later_call:
                self._warn_of_no_groups()
            labels = self.group_labels_ if is_later_call else np.array([0], dtype=object)
            return np.array(counts), labels
        # one entry for each label of each partition, with its count in `counts`
        column = frames.label_column([label for part in parts for label in part.groups or ()])
        overlaps, stated_labels = self.overlap != "cells", self.group_labels
        options: dict[str, Any] = {"overlap": self.overlap, "form": parts[0].group_form}
        if is_later_call:
            stated_labels, options = self.group_labels_.tolist(), {}
        codes, labels = grouping.encode_groups(
            column,
            len(column),
            None if overlaps else stated_labels,
            may_be_empty=is_later_call or self._hides_groups,
            **options,
        )
        if stated_labels is None:
            for found_labels in grouping.by_column(labels) if overlaps else [labels]:
                encode.check_found(found_labels, n_records, "group_labels")
        sizes = np.zeros((len(parts), len(labels)), dtype=np.intp)
        partition = np.repeat(np.arange(len(parts)), list(map(len, counts)))
        np.add.at(sizes, (partition, codes), np.concatenate(counts))
        return sizes, labels

    def _with_overlapping_groups(
        self, facts: Facts, columns: Sequence[Any] | None, table: Any = None
    ) -> Facts:
        """Return facts of overlapping groups, from those of the disjoint cells of `columns`."""
        labels, members = grouping.overlapping_groups(
            facts.labels,
            facts.sizes,
            self.overlap,
            columns=columns,
            group_labels=self.group_labels,
            table=table,
        )
        cells = Cells(tuple(facts.sizes), members)
        n_ungrouped = int(np.asarray(cells.sizes)[cells.groups_of_cells == 0].sum())
        if n_ungrouped:
            warn(
                f"{n_ungrouped:,} of {facts.n_records:,} records are in no group, so that what the "
                "model does for them counts to nobody's loss: add a column of all, or of the "
                "others, where it should.",
                UngroupedWarning,
            )
        sizes = list(cells.group_sizes)
        return replace(facts, labels=labels, sizes=sizes, cells=None if cells.are_groups else cells)

    def _warn_of_no_groups(self) -> None:
        """Warn that all records are one group; raise an error where labels were stated."""
        if self.group_labels is not None:
            raise InputError(
                "groups must be given where group_labels is set, got None: pass groups=... to "
                "fit, set group_by, or route the metadata (enable_metadata_routing=True)."
            )
        warn(
            "no groups reached fit: one group of all records, so this learns the average risk. "
            "Pass groups=... to fit or set group_by for the worst group's. Those passed to "
            "cross_val_score or GridSearchCV reach the splitter only: use params={'groups': ...} "
            "with enable_metadata_routing=True, or fit(..., step__groups=...) in a pipeline.",
            UngroupedWarning,
        )

    def _keep(
        self, plan: Plan, guarantee: PrivacyGuarantee, facts: Facts, solution: Solution
    ) -> None:
        """Set the fitted attributes; each is public or paid for by the plan."""
        problem = plan.problem
        if facts.targets.classes is not None:
            self.classes_ = facts.targets.classes
        # a fit ends the game of earlier calls of partial_fit
        self.__dict__.pop("_open_game", None)
        self.__dict__.pop("_why_closed", None)
        self.plan_ = plan
        self.privacy_ = guarantee
        self.group_labels_ = facts.labels
        self.group_sizes_ = np.asarray(facts.sizes)
        self.count_std_ = 0.0 if plan.counts is None else plan.counts.count_std
        self.n_iter_ = solution.n_iter
        self._group_weights = solution.group_weights
        self.group_gain_, self.group_gain_std_ = solution.group_gain, solution.group_gain_std
        # one row an output, the weight of the constant column last
        weights = np.asarray(solution.weights, dtype=float)
        matrix = weights.reshape(problem.loss.n_outputs, problem.n_columns)
        intercept = np.zeros(problem.loss.n_outputs)
        if self.fit_intercept:
            intercept = matrix[:, -1] * problem.intercept_scaling
        coef = matrix[:, : problem.n_features] / self._row_norm
        self.coef_, self.intercept_ = facts.targets.decode(coef, intercept)


def _reads_once(solver: Solver) -> bool:
    """Return whether a solver uses each record once only, as `fit_oracle` needs."""
    return isinstance(solver, FreshSolver) and not solver.reads_again
