"""The flow of a fit, whatever holds the records: from public facts to what is kept of a solution.

Facts make a problem, the problem a plan, and the plan warnings; then its noise is spent on the
records. `DPWorstGroupEstimator._learn` writes this once, for records in memory and in partitions,
for fresh ones, and for those whose groups are hidden, which are counted first.
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
from sklearn_dpwg.estimators.encode import Targets, first_weights
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

# What a guarantee calls first weights that carry none of their own.
PUBLIC_START = (
    "the weights that the fit began with, which by the caller's word were not learned from these "
    "records"
)


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of records before a solver reads one."""

    targets: Targets  # what encodes y
    sizes: Sequence[Any]  # of the groups: hidden ones are equal, until they are counted
    n_records: float  # of all groups together
    n_features: int
    labels: Any = None  # of the groups; a preview needs none
    cells: Cells | None = None  # where groups overlap
    fresh_calls: int = 0  # with as many records each, read once, which are planned for


# What yields risks or an oracle for a problem, for as long as a solver learns from them.
Records = Callable[[Problem], AbstractContextManager[Any]]
# How a solver learns, where that is not its `run`: it, plan, records, noise.
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
        """Return what encodes y, of its classes where neither the caller nor a parameter says."""

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
        # where nobody says otherwise, as if y held two classes; a regressor has none
        targets = self._targets(np.array([0, 1]), classes if self._is_classifier else None)
        overlaps = self.overlap != "cells"
        known = (group_labels, None if overlaps else self.group_labels)
        labels, given = grouping.labelled_sizes(group_sizes, *known, may_be_unnamed=not overlaps)
        sizes = [encode.group_size(size) for size in given]
        n_features = whole_number(n_features, "n_features", least=1)
        facts = Facts(targets, sizes, sum(sizes), n_features, labels)
        if overlaps:
            index: Any = getattr(group_sizes, "index", None)
            table = index.to_frame() if isinstance(index, pd.Index) else None
            columns = self.group_by if isinstance(self.group_by, list | tuple) else None
            if table is not None and None not in index.names:
                columns = index.names
            facts = self._overlapping(facts, columns, table)
        problem = self._problem(facts, solver)
        if math.isinf(problem.n_records) and not _reads_once(solver):
            raise InputError(
                f"group_sizes must be finite with solver={self.solver!r}, which needs all records "
                f"at once, got {problem.group_sizes!r}."
            )
        rows = encode.stated_rows(rows_per_person) or self.rows_per_person
        first = first_weights(start, targets, n_features, self)
        return plan_within(budget, solver, problem, rows, first)

    @property
    def group_weights_(self) -> FloatArray:
        """Privately released weights of the groups, in the order of ``group_labels_``."""
        check_is_fitted(self, "plan_")
        if self._group_weights is None:
            raise AttributeError(f"solver {self.plan_.solver!r} does not release group weights.")
        return np.asarray(self._group_weights)

    @property
    def _hides_groups(self) -> bool:
        """Whether the group of a record is protected too."""
        return self.neighbours == "replace-one" and self.epsilon != math.inf

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the solver too: a name stands for its default instance."""
        solver = params.get("solver", self.solver)
        if isinstance(solver, str) and any(name.startswith("solver__") for name in params):
            params["solver"] = make_solver(solver, epsilon=1.0)
        super().set_params(**params)
        return self

    def _check_parameters(self) -> Budget:
        """Check what needs no records, before any budget is spent."""
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
        """Plan by facts, spend the plan's noise on the records, and keep the outcome.

        What a fit with hidden groups shows after their counts follows from the counts as released;
        whatever can be wrong otherwise shows before, with groups of equal size.
        """
        problem, people = self._problem(facts, solver), self.rows_per_person
        first = first_weights(start, facts.targets, facts.n_features, self)
        plan = plan_within(budget, solver, problem, people, first)
        stage, planned = plan.counts, plan.guarantee
        self._start_costs = () if start is None else costs_of_start(start)
        if start is not None and not self._start_costs:
            planned = replace(planned, public=(*planned.public, PUBLIC_START))
        if self.data_norm is None:
            warn_of_row_norm()
        if plan.releases:
            drawn = plan.n_drawn if stage is None else None
            self._warn_of_budget(budget, problem.n_records if drawn is None else drawn)
        if stage is None:
            warn_of_plan(plan, facts.labels)
        # without releases nothing is drawn, so random_state does not matter
        counts = () if stage is None else stage.releases
        noise = NoiseSource(self.random_state if plan.releases else None, counts or plan.releases)
        # whatever is wrong with records shows before the first draw
        with self._spending(noise, budget, planned) as guarantee, records(problem) as data:
            if stage is not None:
                # nothing else follows from the true sizes
                counted = release_sizes(stage.release, data.group_sizes, noise)
                n_calls = facts.fresh_calls or 1
                facts = replace(facts, sizes=[n_calls * size for size in counted])
                plan = plan_within(budget, solver, self._problem(facts, solver), people, first)
                if plan.counts != stage:
                    raise PlanExceededError(
                        "what was fixed before the counts must not follow from them."
                    )
                warn_of_plan(plan, facts.labels)
            if counts:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SeededNoiseWarning)  # of the counts' noise
                    noise = NoiseSource(self.random_state, plan.second_stage.releases)
            # a copy: what a solver does to it does not reach `plan_`
            of_solver = plan.second_stage
            learn = solver.run if run is None else partial(run, solver)
            solution = with_progress(
                self, of_solver, noise, lambda: learn(of_solver, data, noise, start=first)
            )
            check_solution(plan, solution, self.solver)
        self._keep(plan, guarantee, facts, solution)

    def _learn_nothing(self, X: Any, y: ArrayLike, groups: Any) -> None:
        """Take the form of a fitted model without reading a value, to try what uses one."""
        budget = self._check_parameters()
        solver = make_solver(self.solver, epsilon=budget.epsilon)
        facts, _ = self._encode(partitions_of(X, y, groups))
        problem = self._problem(facts, solver)
        plan = plan_within(budget, solver, problem, self.rows_per_person)
        solution = Solution(np.zeros(problem.n_weights), None, n_iter=0)
        self._keep(plan, plan.guarantee, facts, solution)

    def _problem(self, facts: Facts, solver: Solver) -> Problem:
        """Return the public facts of a problem."""
        hidden = None
        if self._hides_groups:
            n_calls, is_stated = facts.fresh_calls or 1, self.group_labels is not None
            n_records: Any = n_calls * facts.n_records
            hidden = HiddenGroups(n_records, n_calls=n_calls, labels_are_stated=is_stated)
        loss = facts.targets.loss
        radius = solver.room * largest_reach(loss) if self.radius is None else float(self.radius)
        return Problem(
            loss=loss,
            group_sizes=tuple(facts.sizes),
            n_features=facts.n_features,
            radius=radius,
            prior=encode.resolve_prior(self.prior, facts.sizes),
            intercept_scaling=self._intercept_scaling if self.fit_intercept else 0.0,
            hidden=hidden,
            cells=facts.cells,
            fresh_calls=facts.fresh_calls,
        )

    def _encode(
        self,
        partitions: Partitions,
        classes: ArrayLike | None = None,
        *,
        first: Targets | None = None,
    ) -> tuple[Facts, Blocks]:
        """Return what is known of records without their rows, and what makes blocks of them.

        A later call says what encoded the first targets.
        """
        ask = partial(
            read_labels,
            group_by=self.group_by,
            is_classifier=self._is_classifier,
            stated=self.group_labels,
        )
        known: list[Labels] = partitions.of_each(ask)
        n_records = sum([each.n_records for each in known])
        form = common_form(known)
        encode.check_columns(form)
        validate_data(
            self,
            form,
            dtype=encode.PRECISIONS,
            accept_sparse="csr",
            ensure_min_samples=0 if n_records else 1,
            reset=first is None,
        )
        by_partition, labels = self._sizes_by_partition(known, n_records, first is not None)
        targets = first
        if targets is not None:
            targets.check_later(classes)
        else:
            y = all_targets(known, n_records, is_classifier=self._is_classifier)
            targets = self._targets(y, classes)
            # where it is protected, a record may change its group by whatever they are made of
            self._groupings = ()
            if not self._hides_groups:
                self._groupings = grouping.grouping_names(partitions.groups, self.group_by)
                encode.warn_if_target_is_group(partitions.y, partitions.groups, self.group_by)
        encoder = Encoder(
            group_by=self.group_by,
            labels=None if known[0].groups is None else labels.tolist(),
            targets=targets,
            row_norm=self._row_norm,
            owner=type(self).__name__,
        )
        # sizes of hidden groups are equal, until they are counted
        hidden = equal_sizes(n_records, len(labels)) if self._hides_groups else None
        sizes = by_partition.sum(axis=0).tolist() if hidden is None else hidden
        facts = Facts(targets, sizes, n_records, self.n_features_in_, labels)
        groups = known[0].group_form
        if self.overlap != "cells" and groups is not None:
            columns = grouping.columns_of(groups, self.group_by)
            facts = self._overlapping(facts, columns, frames.as_pandas(groups))
        return facts, Blocks(partitions, by_partition, encoder)

    def _sizes_by_partition(
        self, known: Sequence[Labels], n_records: int, is_later: bool
    ) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
        """Return how many records of each group each partition has, and the groups' labels.

        A later call has the labels of the first, of which any may be missing. Where groups overlap,
        labels are those of the cells of their columns.
        """
        counts = [each.counts for each in known]
        if len({each.groups is None for each in known}) > 1:
            raise InputError("groups must be given for every partition or for none, got some.")
        if known[0].groups is None:
            if is_later and len(self.group_labels_) > 1:
                raise InputError("groups must be given, as in the first call, got None.")
            if not is_later:
                self._warn_of_no_groups()
            labels = self.group_labels_ if is_later else np.array([0], dtype=object)
            return np.array(counts), labels
        column = frames.label_column([label for each in known for label in each.groups or ()])
        overlaps, stated = self.overlap != "cells", self.group_labels
        how: dict[str, Any] = {"overlap": self.overlap, "form": known[0].group_form}
        if is_later:
            stated, how = self.group_labels_.tolist(), {}
        codes, labels = grouping.encode_groups(
            column,
            len(column),
            None if overlaps else stated,
            may_be_empty=is_later or self._hides_groups,
            **how,
        )
        if stated is None:
            for each in grouping.by_column(labels) if overlaps else [labels]:
                encode.check_found(each, n_records, "group_labels")
        sizes = np.zeros((len(known), len(labels)), dtype=np.intp)
        partition = np.repeat(np.arange(len(known)), list(map(len, counts)))
        np.add.at(sizes, (partition, codes), np.concatenate(counts))
        return sizes, labels

    def _overlapping(self, facts: Facts, columns: Sequence[Any] | None, table: Any = None) -> Facts:
        """Return the facts of overlapping groups, of those of the cells of some columns."""
        labels, members = grouping.overlapping_groups(
            facts.labels,
            facts.sizes,
            self.overlap,
            columns=columns,
            group_labels=self.group_labels,
            table=table,
        )
        cells = Cells(tuple(facts.sizes), members)
        nobodys = int(np.asarray(cells.sizes)[cells.groups_of_cells == 0].sum())
        if nobodys:
            warn(
                f"{nobodys:,} of {facts.n_records:,} records are in no group, so that what the "
                "model does for them counts to nobody's loss: add a column of all, or of the "
                "others, where it should.",
                UngroupedWarning,
            )
        sizes = list(cells.group_sizes)
        return replace(facts, labels=labels, sizes=sizes, cells=None if cells.are_groups else cells)

    def _warn_of_no_groups(self) -> None:
        """Warn that all records are one group, or refuse it where labels were stated."""
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
        """Set the fitted attributes; each is public or paid for."""
        problem = plan.problem
        if facts.targets.classes is not None:
            self.classes_ = facts.targets.classes
        # whatever an earlier partial_fit began has ended
        self.__dict__.pop("_open", None)
        self.__dict__.pop("_why_closed", None)
        self.plan_ = plan
        self.privacy_ = guarantee
        self.group_labels_ = facts.labels
        self.group_sizes_ = np.asarray(facts.sizes)
        self.count_std_ = 0.0 if plan.counts is None else plan.counts.count_std
        self.n_iter_ = solution.n_iter
        self._group_weights = solution.group_weights
        self.group_gain_, self.group_gain_std_ = solution.group_gain, solution.group_gain_std
        weights = np.asarray(solution.weights, dtype=float)
        matrix = weights.reshape(problem.loss.n_outputs, problem.n_columns)
        intercept = np.zeros(problem.loss.n_outputs)
        if self.fit_intercept:
            intercept = matrix[:, -1] * problem.intercept_scaling
        coef = matrix[:, : problem.n_features] / self._row_norm
        self.coef_, self.intercept_ = facts.targets.decode(coef, intercept)


def _reads_once(solver: Solver) -> bool:
    """Whether a solver uses each record once, as those of an oracle."""
    return isinstance(solver, FreshSolver) and not solver.reads_again
