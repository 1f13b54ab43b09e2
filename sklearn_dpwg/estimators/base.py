"""What the classifier and the regressor share: validate, plan, run, keep what was released."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.estimators.fresh_fitting import FreshFitting
from sklearn_dpwg.estimators.precisions import precisions
from sklearn_dpwg.estimators.prior import resolve_prior
from sklearn_dpwg.estimators.progress import Progress
from sklearn_dpwg.estimators.sizes import group_size, positive_whole
from sklearn_dpwg.estimators.spending import spending
from sklearn_dpwg.exceptions import LongRowsWarning, UngroupedWarning, WeakPlanWarning
from sklearn_dpwg.groups import encode_groups, ordered_sizes, select_groups
from sklearn_dpwg.kernels import canonical_rows, linear_scores, row_norms
from sklearn_dpwg.ledger.charge import join_ledgers, with_ledgers
from sklearn_dpwg.losses import Loss
from sklearn_dpwg.privacy import Budget, NoiseSource, check_delta
from sklearn_dpwg.problem import Problem
from sklearn_dpwg.records import RecordEncoder
from sklearn_dpwg.risks import GroupRisks
from sklearn_dpwg.solvers import FreshSolver, Plan, Solution, Solver, make_solver

TargetEncoder = Callable[[NDArray[Any]], FloatArray]

# A group whose bound is this many times what predicting nothing costs gets a warning of its own.
HOPELESS = 3.0


class DPWorstGroupEstimator(FreshFitting, Progress, BaseEstimator):
    """Base of the private worst-group estimators; not for direct use."""

    # groups reach fit through every meta-estimator that routes metadata
    __metadata_request__fit = {"groups": True}  # noqa: RUF012
    __metadata_request__partial_fit = {"groups": True}  # noqa: RUF012

    epsilon: float
    delta: float
    solver: str | Solver
    loss: str | Loss
    radius: float
    data_norm: float
    fit_intercept: bool
    intercept_scaling: float
    prior: Any
    group_labels: Any
    group_by: Any
    random_state: Any
    verbose: int

    def fit(self, X: Any, y: ArrayLike, groups: Any = None, **refused: Any) -> Self:
        """Learn a model whose worst-off group does as well as it can, within the budget.

        Parameters
        ----------
        X : array-like or sparse array (CSR) of shape (n_records, n_features)
            Rows, as an array, a frame of pandas or polars, or in compressed form. Longer ones are
            shortened to norm `data_norm`. Single precision is kept, sums are in double.
        y : array-like of shape (n_records,)
            Targets.
        groups : array-like of shape (n_records,) or (n_records, n_columns), optional
            Public group of each record; cells of several columns are intersected.
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
            If ``sample_weight`` or another unknown argument is passed, or a parameter is of the
            wrong type; no budget is spent then.

        Warns
        -----
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
        """
        for name in refused:
            reason = (
                "a weight would let one record count for many, and the noise hides one"
                if name == "sample_weight"
                else "fit takes X, y and groups"
            )
            raise TypeError(f"fit of {type(self).__name__} refuses {name}: {reason}.")
        before = dict(vars(self))
        try:
            return self._fit(X, y, groups)
        except BaseException:
            self.__dict__ = before
            raise

    def _fit(self, X: Any, y: ArrayLike, groups: Any) -> Self:
        budget = self._check_parameters()
        rows, targets, codes, loss, labels = self._encode(X, y, groups)
        sizes = np.bincount(codes)
        problem = self._problem(loss, sizes.tolist(), rows.shape[1])
        solver, plan = self._plan_for(problem, labels, budget)
        # without releases nothing is drawn, so random_state does not matter
        seed = self.random_state if plan.releases else None
        noise = NoiseSource(seed, plan.releases, stacklevel=4)
        with spending(noise, budget, plan, self):
            data = self._group_risks(rows, targets, codes, problem)
            del rows, targets, codes  # copies of them are not kept for as long as the solver runs
            solution = self._with_progress(plan, noise, lambda: solver.run(plan, data, noise))
        self._keep_outcome(plan, noise, labels, sizes, solution)
        return self

    def _encode(
        self, X: Any, y: ArrayLike, groups: Any, classes: Any = None
    ) -> tuple[Any, FloatArray, NDArray[np.intp], Loss, NDArray[np.object_]]:
        """Return rows, encoded targets and group codes, with the loss and labels they imply."""
        if groups is not None and self.group_by is not None:
            raise ValueError("groups were passed and group_by is set: use one of them, not both.")
        rows, y = validate_data(
            self, X, y, dtype=precisions(X), accept_sparse="csr", y_numeric=self._y_numeric
        )
        targets, loss = self._encode_targets(np.asarray(y), classes)
        if self.group_by is not None:
            groups = select_groups(X, self.group_by)
        codes, labels = self._encode_groups(groups, rows.shape[0])
        return rows, targets, codes, loss, labels

    def _plan_for(
        self, problem: Problem, labels: NDArray[np.object_], budget: Budget
    ) -> tuple[Solver, Plan]:
        solver = make_solver(self.solver, epsilon=budget.epsilon)
        plan = solver.plan(problem, budget)
        self._warn_about(plan, labels, budget)
        return solver, plan

    def _group_risks(
        self, rows: Any, targets: FloatArray, codes: NDArray[np.intp], problem: Problem
    ) -> GroupRisks:
        encoder = RecordEncoder(problem.n_groups, float(self.data_norm))
        records = encoder.encode(rows, targets, codes)
        return GroupRisks(records, problem.loss, problem.intercept_scaling)

    def _keep_outcome(
        self,
        plan: Plan,
        noise: NoiseSource,
        labels: NDArray[np.object_],
        sizes: NDArray[Any],
        solution: Solution,
    ) -> None:
        """Set the fitted attributes; each is public or paid for."""
        problem = plan.problem
        weights = np.asarray(solution.weights, dtype=float)
        if weights.shape != (problem.n_weights,) or not np.isfinite(weights).all():
            raise RuntimeError(
                f"solver {self.solver!r} must return {problem.n_weights} weights, all finite, got "
                f"an array of shape {weights.shape}."
            )
        # whatever an earlier partial_fit began has ended
        self.__dict__.pop("_open", None)
        self.__dict__.pop("_why_closed", None)
        self.plan_ = plan
        self.privacy_ = replace(plan.guarantee, seeded=noise.seeded)
        self.group_labels_ = labels
        self.group_sizes_ = sizes
        self.n_iter_ = solution.n_iter
        self._group_weights = solution.group_weights
        matrix = weights.reshape(problem.loss.n_outputs, problem.n_columns)
        intercept = np.zeros(problem.loss.n_outputs)
        if self.fit_intercept:
            intercept = matrix[:, -1] * problem.intercept_scaling
        self._keep(matrix[:, : problem.n_features] / float(self.data_norm), intercept)

    def plan(
        self,
        *,
        group_sizes: Sequence[int] | Mapping[Any, int],
        n_features: int,
        classes: Sequence[Any] | None = None,
        group_labels: Sequence[Any] | None = None,
    ) -> Plan:
        """Preview a fit from public facts: releases, noise, steps, predicted excess, guarantee.

        Parameters
        ----------
        group_sizes : sequence of int, or mapping from label to int
            Number of records in each group; infinity for an oracle without end. A sequence is in
            the order of `group_labels`, here or else of the estimator, or else in that of
            ``group_labels_`` after a fit.
        n_features : int
            Number of columns of X.
        classes : sequence, optional
            Classes of y, for a classifier; those of the estimator, or else two, by default.
        group_labels : sequence, optional
            Labels of `group_sizes`, where it is a sequence.

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
        loss = self._loss_for(classes)
        sizes = [
            group_size(size) for size in ordered_sizes(group_sizes, group_labels, self.group_labels)
        ]
        problem = self._problem(loss, sizes, positive_whole(n_features, "n_features"))
        solver = make_solver(self.solver, epsilon=budget.epsilon)
        if math.isinf(problem.n_records) and not isinstance(solver, FreshSolver):
            raise ValueError(
                f"group_sizes must be finite with solver={self.solver!r}, which needs all records "
                f"at once, got {problem.group_sizes!r}."
            )
        return solver.plan(problem, budget)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles; inside ledgers, with what lets a worker count to them."""
        return with_ledgers(super().__getstate__())

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

    # what a subclass decides

    _y_numeric = False

    @abstractmethod
    def _encode_targets(self, y: NDArray[Any], classes: Any) -> tuple[FloatArray, Loss]: ...

    @abstractmethod
    def _target_encoder(self, classes: Any) -> tuple[TargetEncoder, Loss]: ...

    @abstractmethod
    def _loss_for(self, classes: ArrayLike | None) -> Loss: ...

    @abstractmethod
    def _keep(self, coef: FloatArray, intercept: FloatArray) -> None: ...

    # checks, each before any budget is spent

    def _check_parameters(self) -> Budget:
        for name in ("radius", "data_norm", "intercept_scaling"):
            value = getattr(self, name)
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
        return Budget(self.epsilon, self.delta)

    def _encode_groups(
        self, groups: Any, n_records: int
    ) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
        if groups is None:
            if self.group_labels is not None:
                raise ValueError(
                    "groups must be given where group_labels is set, got None: pass groups=... to "
                    "fit, set group_by, or route the metadata (enable_metadata_routing=True)."
                )
            warnings.warn(
                "no groups reached fit: one group of all records, so this learns the average risk. "
                "Pass groups=... to fit or set group_by for the worst group's. Groups passed to "
                "cross_val_score or GridSearchCV reach the splitter only: use "
                "params={'groups': ...} with enable_metadata_routing=True, or "
                "fit(..., step__groups=...) in a pipeline.",
                UngroupedWarning,
                stacklevel=5,
            )
            groups = np.zeros(n_records, dtype=int)
        return encode_groups(groups, n_records, self.group_labels)

    def _problem(self, loss: Loss, sizes: Sequence[int], n_features: int) -> Problem:
        return Problem(
            loss=loss,
            group_sizes=tuple(sizes),
            n_features=n_features,
            radius=float(self.radius),
            prior=resolve_prior(self.prior, sizes),
            intercept_scaling=float(self.intercept_scaling) if self.fit_intercept else 0.0,
        )

    def _linear(self, X: Any, weights: FloatArray) -> FloatArray:
        """Return ``X @ weights.T``, and warn of rows that are longer than training saw."""
        X = validate_data(self, X, dtype=precisions(X), accept_sparse="csr", reset=False)
        if issparse(X):
            X = canonical_rows(X)
        # what is predicted for is not what was learned from: a warning about it leaks nothing
        longest = float(row_norms(X).max())
        if longest > 1.000001 * self.data_norm:
            warnings.warn(
                f"rows to predict for have norms up to {longest:.3g}, longer than data_norm="
                f"{self.data_norm:g}, to which training shortened every row, so predictions "
                f"extrapolate: scale the features by public bounds, or set data_norm to a public "
                f"bound on the norm of a row.",
                LongRowsWarning,
                stacklevel=4,
            )
        return linear_scores(X, weights)

    def _warn_about(self, plan: Plan, labels: NDArray[np.object_], budget: Budget) -> None:
        if not plan.releases:
            return
        worst = int(np.argmax(plan.predicted_excess_if_worst))
        size, bound = plan.problem.group_sizes[worst], plan.predicted_excess_if_worst[worst]
        cost = plan.problem.constants.zero_score
        if not plan.is_weak and bound > HOPELESS * cost and size < math.inf:
            warnings.warn(
                f"group {labels[worst]!r} has {size:,} record(s), too few to learn from if it is "
                f"the worst off (the plan's bound is then {bound:.3g}, predicting nothing costs at "
                f"most {cost:.3g}): merge it, leave it out, or bring about "
                f"{math.ceil(size * bound / cost):,} records; is the label misspelt?",
                WeakPlanWarning,
                stacklevel=5,
            )
        n_records = plan.problem.n_records if plan.n_drawn is None else plan.n_drawn
        check_delta(budget.delta, n_records, stacklevel=6)
        if plan.is_weak:
            warnings.warn(
                f"the plan's bound on the excess worst-group loss is "
                f"{plan.predicted_excess:.3g}, while predicting nothing costs at most "
                f"{plan.problem.constants.zero_score:.3g}: more records, a larger epsilon, "
                f"fewer groups or features, or a smaller radius would help; "
                f"print(estimator.plan(...)) previews them.",
                WeakPlanWarning,
                stacklevel=5,
            )
