"""Steps that every way of fitting an estimator shares."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils.validation import validate_data

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data.groups import (
    encode_groups,
    encode_hidden_groups,
    find_groups,
    grouping_names,
)
from sklearn_dpwg.data.kernels import canonical_rows, linear_scores
from sklearn_dpwg.data.problem import HiddenGroups, Problem, equal_sizes
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.estimators.encode import (
    advice_on_missing_values,
    check_columns,
    check_found_groups,
    check_neighbours,
    check_targets,
    positive_whole,
    resolve_prior,
    warn_if_target_is_group,
)
from sklearn_dpwg.estimators.spending import check_solution, plan_within, spending
from sklearn_dpwg.estimators.start import first_weights, told
from sklearn_dpwg.estimators.targets import Targets
from sklearn_dpwg.estimators.warnings import (
    Progress,
    Replan,
    warn_of_small_groups,
    warn_of_weak_bound,
)
from sklearn_dpwg.exceptions import (
    DataNormWarning,
    NoProtectionWarning,
    PlanExceededError,
    SeededNoiseWarning,
    UngroupedWarning,
    warn,
)
from sklearn_dpwg.ledger.costs import StartCost, costs_of_start
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.privacy import Budget, Draw, NoiseSource, PrivacyGuarantee
from sklearn_dpwg.privacy.release import check_delta
from sklearn_dpwg.solvers import Plan, Solution, Solver, make_solver
from sklearn_dpwg.solvers.counts import release_sizes

# From here on e^epsilon is no floating-point number, and the statement says the same in words.
NO_PROTECTION = 700.0


class Fitting(Progress, BaseEstimator):
    """Parameters of an estimator, and the steps from records to fitted attributes."""

    epsilon: float
    delta: float
    solver: str | Solver
    loss: str | Loss
    radius: float
    data_norm: float | None
    fit_intercept: bool
    intercept_scaling: float
    prior: Any
    group_labels: Any
    group_by: Any
    random_state: Any
    verbose: int
    rows_per_person: int
    start: Any
    neighbours: str
    count_share: float
    # of the last fit: the private fits that it began with, and the key that ledgers know it by
    _start_costs: tuple[StartCost, ...] = ()
    _fit_key: str
    _groupings: tuple[str, ...]  # names of what the groups of the last fit are made of

    @property
    def _row_norm(self) -> float:
        """Bound on the norm of a row: what is said, or else 1."""
        return 1.0 if self.data_norm is None else self.data_norm

    @property
    def _hides_groups(self) -> bool:
        """Whether the group of a record is protected too."""
        return self.neighbours == "replace-any" and self.epsilon != math.inf

    @abstractmethod
    def _targets(self, y: NDArray[Any] | None, classes: ArrayLike | None = None) -> Targets:
        """Return what encodes y, of its classes where neither the caller nor a parameter says."""

    def _check_parameters(self) -> Budget:
        """Check what needs no records, before any budget is spent."""
        for name in ("radius", "data_norm", "intercept_scaling"):
            value = self._row_norm if name == "data_norm" else getattr(self, name)
            is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not is_number or not 1e-50 <= float(value) <= 1e50:
                raise ValueError(
                    f"{name} must be a positive finite number, got {value!r}; "
                    f"allowed are 1e-50 to 1e50."
                )
        for name in ("fit_intercept", "verbose"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_ | int | np.integer):
                raise ValueError(f"{name} must be a bool or a whole number, got {value!r}.")
        positive_whole(self.rows_per_person, "rows_per_person")
        check_neighbours(self.neighbours, self.count_share, self.group_labels)
        return Budget(self.epsilon, self.delta)

    def _encode(
        self,
        X: Any,
        y: ArrayLike,
        groups: Any,
        classes: ArrayLike | None = None,
        *,
        first: Targets | None = None,
    ) -> tuple[Any, FloatArray, NDArray[np.intp], NDArray[np.object_], Targets]:
        """Return rows, encoded targets, group codes and labels, and what encoded the targets.

        A later call of ``partial_fit`` says what the first one had.
        """
        check_columns(X)
        check_targets(y, is_classifier=not is_regressor(self))
        passed = y, groups
        with advice_on_missing_values(X):
            rows, y = validate_data(
                self,
                X,
                y,
                dtype=precisions(X),
                accept_sparse="csr",
                y_numeric=is_regressor(self),
                reset=first is None,
            )
        if first is None:
            targets = self._targets(np.asarray(y), classes)
            # where it is protected, a record may change its group by whatever they are made of
            named = () if self._hides_groups else grouping_names(groups, self.group_by)
            self._groupings = named
        else:
            targets = first
            targets.check_later(classes)
        encoded = targets.encode(np.asarray(y))
        groups = find_groups(X, groups, self.group_by)
        encode = self._encode_groups if first is None else self._encode_later_groups
        codes, labels = encode(groups, rows.shape[0])
        if first is None and not self._hides_groups:
            found = targets.attributes.get("classes_", ())
            warn_if_target_is_group(*passed, self.group_by, labels, found)
        return rows, encoded, codes, labels, targets

    def _encode_groups(
        self, groups: Any, n_records: int
    ) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
        if groups is None:
            self._warn_of_no_groups()
            groups = np.zeros(n_records, dtype=int)
        if self._hides_groups:
            return encode_hidden_groups(groups, n_records, self.group_labels)
        codes, labels = encode_groups(groups, n_records, self.group_labels)
        if self.group_labels is None:
            check_found_groups(labels, n_records)
        return codes, labels

    def _warn_of_no_groups(self) -> None:
        """Warn that all records are one group, or refuse it where labels were stated."""
        if self.group_labels is not None:
            raise ValueError(
                "groups must be given where group_labels is set, got None: pass groups=... to "
                "fit, set group_by, or route the metadata (enable_metadata_routing=True)."
            )
        warn(
            "no groups reached fit: one group of all records, so this learns the average risk. "
            "Pass groups=... to fit or set group_by for the worst group's. Groups passed to "
            "cross_val_score or GridSearchCV reach the splitter only: use "
            "params={'groups': ...} with enable_metadata_routing=True, or "
            "fit(..., step__groups=...) in a pipeline.",
            UngroupedWarning,
        )

    def _encode_later_groups(
        self, groups: Any, n_records: int
    ) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
        """Encode groups by the labels of the first call, of which any may be missing."""
        labels = self.group_labels_.tolist()
        if groups is None:
            if len(labels) > 1:
                raise ValueError("groups must be given, as in the first call, got None.")
            groups = np.full(n_records, self.group_labels_[0], dtype=object)
        return encode_groups(groups, n_records, labels, may_be_empty=True)

    def _problem(
        self, loss: Loss, sizes: Sequence[int], n_features: int, n_records: int | None = None
    ) -> Problem:
        """Return the public facts; sizes of hidden groups need not add up to all records."""
        hidden = None
        if self._hides_groups:
            total = sum(sizes) if n_records is None else n_records
            hidden = HiddenGroups(total, float(self.count_share))
        return Problem(
            loss=loss,
            group_sizes=tuple(sizes),
            n_features=n_features,
            radius=float(self.radius),
            prior=resolve_prior(self.prior, sizes),
            intercept_scaling=float(self.intercept_scaling) if self.fit_intercept else 0.0,
            hidden=hidden,
        )

    def _make_solver(self, budget: Budget) -> Solver:
        return make_solver(self.solver, epsilon=budget.epsilon)

    def _first_weights(self, targets: Targets, problem: Problem) -> Solution | None:
        """Return where a run begins, checked before anything is spent."""
        return first_weights(
            self.start,
            targets,
            problem,
            row_norm=float(self._row_norm),
            names=getattr(self, "feature_names_in_", None),
        )

    def _plan_for(
        self,
        solver: Solver,
        problem: Problem,
        labels: NDArray[np.object_],
        budget: Budget,
        first: Solution | None = None,
    ) -> Plan:
        """Return the plan of a fit, and warn of what it promises and of what nobody chose."""
        plan = self._plan_of(solver, problem, budget, first)
        self._begin_fit()
        self._warn_about(plan, labels, budget, self._replan(solver, problem, budget))
        return plan

    def _plan_of(
        self, solver: Solver, problem: Problem, budget: Budget, first: Solution | None
    ) -> Plan:
        """Return the plan of a fit."""
        plan = plan_within(budget, solver, problem, int(self.rows_per_person))
        return told(plan, solver, first)

    def _replan(self, solver: Solver, problem: Problem, budget: Budget) -> Replan:
        """Return what plans the same for groups of other sizes."""

        def replan(sizes: Sequence[int]) -> Plan:
            more = sum(sizes) - sum(problem.group_sizes)
            n_records = problem.n_records + more
            other = self._problem(problem.loss, sizes, problem.n_features, n_records)
            return plan_within(budget, solver, other, int(self.rows_per_person))

        return replan

    def _begin_fit(self) -> None:
        """Note what a fit begins with, before anything is spent."""
        self._start_costs = costs_of_start(self.start)
        self._fit_key = uuid4().hex
        if self.data_norm is None:
            warn_of_row_norm()

    def _warn_about(
        self, plan: Plan, labels: NDArray[np.object_], budget: Budget, replan: Replan
    ) -> None:
        if not plan.releases:
            return
        warn_of_small_groups(plan, labels, replan)
        if plan.counts is None:  # else said before the counts
            self._warn_about_budget(plan, budget)
        warn_of_weak_bound(plan, labels, replan)

    def _warn_about_budget(self, plan: Plan, budget: Budget) -> None:
        """Warn of an ε or δ that protects nobody."""
        if budget.epsilon > NO_PROTECTION:
            warn(
                f"epsilon={budget.epsilon:g} is no protection: whoever knows all records but one "
                f"can tell that one from any other; values from 0.1 to 10 are usual.",
                NoProtectionWarning,
            )
        n_records = plan.problem.n_records if plan.n_drawn is None else plan.n_drawn
        check_delta(budget.delta, n_records)

    def _learn_nothing(self, X: Any, y: ArrayLike, groups: Any) -> None:
        """Take the form of a fitted model without reading a value, to try what uses one."""
        budget = self._check_parameters()
        rows, _, codes, labels, targets = self._encode(X, y, groups)
        sizes = np.bincount(codes)
        if self._hides_groups:
            sizes = np.array(equal_sizes(len(codes), len(labels)))
        problem = self._problem(targets.loss, sizes.tolist(), rows.shape[1])
        plan = plan_within(budget, self._make_solver(budget), problem, int(self.rows_per_person))
        solution = Solution(np.zeros(problem.n_weights), None, n_iter=0)
        self._keep_outcome(plan, plan.guarantee, targets, labels, sizes, solution)

    def _group_risks(
        self, rows: Any, encoded: FloatArray, codes: NDArray[np.intp], problem: Problem
    ) -> GroupRisks:
        hides_groups = problem.hidden is not None
        encoder = RecordEncoder(problem.n_groups, float(self._row_norm), hides_groups)
        records = encoder.encode(rows, encoded, codes)
        return GroupRisks(records, problem.loss, problem.intercept_scaling)

    def _keep_outcome(
        self,
        plan: Plan,
        guarantee: PrivacyGuarantee,
        targets: Targets,
        labels: NDArray[np.object_],
        sizes: NDArray[Any],
        solution: Solution,
    ) -> None:
        """Set the fitted attributes; each is public or paid for."""
        problem = plan.problem
        weights = np.asarray(solution.weights, dtype=float)
        for name, value in targets.attributes.items():
            setattr(self, name, value)
        # whatever an earlier partial_fit began has ended
        self.__dict__.pop("_open", None)
        self.__dict__.pop("_why_closed", None)
        self.plan_ = plan
        self.privacy_ = guarantee
        self.group_labels_ = labels
        self.group_sizes_ = sizes
        self.count_std_ = 0.0 if plan.counts is None else plan.counts.count_std
        self.n_iter_ = solution.n_iter
        self._group_weights = solution.group_weights
        matrix = weights.reshape(problem.loss.n_outputs, problem.n_columns)
        intercept = np.zeros(problem.loss.n_outputs)
        if self.fit_intercept:
            intercept = matrix[:, -1] * problem.intercept_scaling
        coef = matrix[:, : problem.n_features] / float(self._row_norm)
        self.coef_, self.intercept_ = targets.decode(coef, intercept)

    def _linear(self, X: Any, weights: FloatArray) -> FloatArray:
        return linear_of(self, X, weights)


def linear_of(estimator: Any, X: Any, weights: FloatArray) -> FloatArray:
    """Return ``X @ weights.T``; nothing else about the rows, which may be records."""
    check_columns(X)
    with advice_on_missing_values(X):
        X = validate_data(estimator, X, dtype=precisions(X), accept_sparse="csr", reset=False)
    if issparse(X):
        X = canonical_rows(X)
    # an overflow is told by the scores alone
    with np.errstate(all="ignore"):
        return linear_scores(X, weights)


def warn_of_row_norm() -> None:
    """Warn that the norm of a row was left open, which is public whatever the rows are."""
    warn(
        "data_norm was left open and is taken as 1: rows longer than that are shortened to it, and "
        "none of them is told of. Say data_norm=1.0 where rows are scaled to norm 1, or another "
        "public bound on the norm of a row, as row_norm_ of a BoundedScaler.",
        DataNormWarning,
    )


def precisions(X: Any) -> list[Any]:
    """Return the types that rows are taken in as they are; anything else becomes the first."""
    # scikit-learn does not look into the types of a polars frame
    is_single = hasattr(X, "columns") and np.asarray(X[:0]).dtype == np.float32
    return [np.float32, np.float64] if is_single else [np.float64, np.float32]


# Fits that protect who is in which group: nothing but the counts' release sees true sizes.


class StagedNoise:
    """What both stages of a fit have drawn, for whoever asks whether anything was."""

    def __init__(self, first: NoiseSource) -> None:
        self._sources = [first]

    def follow(self, random_state: Any, plan: Any) -> NoiseSource:
        """Return the source of the second stage; that noise is seeded was said of the first."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededNoiseWarning)
            source = NoiseSource(random_state, plan.releases)
        self._sources.append(source)
        return source

    @property
    def draws(self) -> tuple[Draw, ...]:
        """Every draw so far, in order."""
        return tuple(draw for source in self._sources for draw in source.draws)

    @property
    def seeded(self) -> bool:
        """Whether the noise comes from a seed."""
        return self._sources[0].seeded


def fit_hidden(
    estimator: Fitting,
    budget: Budget,
    rows: Any,
    encoded: FloatArray,
    codes: NDArray[np.intp],
    labels: NDArray[np.object_],
    targets: Targets,
) -> None:
    """Release noisy counts, plan for what they show, and learn within what was fixed before.

    What a fit shows, its plan, its warnings and errors after the counts, follows from the counts as
    released; whatever can be wrong otherwise shows before, with groups of equal size.
    """
    n_records, n_groups = len(codes), len(labels)
    solver = estimator._make_solver(budget)
    n_features = rows.shape[1]
    sizes = equal_sizes(n_records, n_groups)
    expected = estimator._problem(targets.loss, sizes, n_features, n_records)
    first = estimator._first_weights(targets, expected)
    plan = estimator._plan_of(solver, expected, budget, first)
    estimator._begin_fit()
    estimator._warn_about_budget(plan, budget)
    stage = plan.counts
    assert stage is not None
    noise = NoiseSource(estimator.random_state, stage.releases)
    both = StagedNoise(noise)
    with spending(both, budget, plan, estimator, estimator._fit_key) as guarantee:
        sizes = release_sizes(stage, codes, n_groups, noise)
        problem = estimator._problem(targets.loss, sizes, n_features, n_records)
        plan = estimator._plan_of(solver, problem, budget, first)
        if plan.counts != stage:
            raise PlanExceededError("what was fixed before the counts must not follow from them.")
        estimator._warn_about(plan, labels, budget, estimator._replan(solver, problem, budget))
        data = estimator._group_risks(rows, encoded, codes, problem)
        del rows, encoded, codes  # copies of them are not kept for as long as the solver runs
        of_solver = plan.second_stage
        source = both.follow(estimator.random_state, of_solver)
        solution = estimator._with_progress(
            of_solver, source, lambda: solver.run(of_solver, data, source, start=first)
        )
        check_solution(plan, solution, estimator.solver)
    estimator._keep_outcome(plan, guarantee, targets, labels, np.asarray(sizes), solution)
