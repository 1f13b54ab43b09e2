"""The flow of a fit, whatever holds the records: from public facts to what is kept of a solution.

Facts make a problem, the problem a plan, and the plan warnings; then its noise is spent on the
records. `Fitting._learn` writes this once, for records in memory and in partitions, for fresh ones,
and for those whose groups are hidden, which are counted first.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.data import frames
from sklearn_dpwg.data import groups as grouping
from sklearn_dpwg.data.problem import Cells, HiddenGroups, Problem, equal_sizes, largest_reach
from sklearn_dpwg.data.rows import canonical_rows, linear_scores
from sklearn_dpwg.estimators import encode, planning
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
from sklearn_dpwg.estimators.planning import Progress, warn_of_plan
from sklearn_dpwg.exceptions import (
    DataNormWarning,
    InputError,
    NoProtectionWarning,
    PlanExceededError,
    SeededNoiseWarning,
    UngroupedWarning,
    warn,
)
from sklearn_dpwg.ledger.costs import StartCost, costs_of_start, in_words
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.privacy import Budget, Draw, NoiseSource, PrivacyGuarantee
from sklearn_dpwg.privacy.release import check_delta
from sklearn_dpwg.solvers import Plan, Solution, Solver
from sklearn_dpwg.solvers.auto import make_solver
from sklearn_dpwg.solvers.counts import release_sizes

# From here on e^epsilon is no floating-point number, and the statement says the same in words.
NO_PROTECTION = 700.0

# What a guarantee calls first weights that carry none of their own.
PUBLIC_START = (
    "the weights that the fit began with, which by the caller's word were not learned from these "
    "records"
)


@contextmanager
def unchanged_on_failure(estimator: object) -> Iterator[None]:
    """Give an estimator all its attributes back if what is done inside fails."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise


def warn_of_row_norm() -> None:
    """Warn that the norm of a row was left open, which is public whatever the rows are."""
    warn(
        "data_norm was left open and is taken as 1: rows longer than that are shortened to it, and "
        "none of them is told of. Say data_norm=1.0 where rows are scaled to norm 1, or another "
        "public bound on the norm of a row, as row_norm_ of a BoundedScaler.",
        DataNormWarning,
    )


class Stages:
    """What the sources of a fit's stages have drawn, for whoever asks whether anything was."""

    def __init__(self, first: NoiseSource) -> None:
        self._sources = [first]

    def follow(self, random_state: Any, plan: Plan) -> NoiseSource:
        """Return the source of the second stage; that noise is seeded was said of the first."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededNoiseWarning)
            self._sources.append(NoiseSource(random_state, plan.releases))
        return self._sources[-1]

    @property
    def draws(self) -> tuple[Draw, ...]:
        """Every draw so far, in order."""
        return tuple(draw for source in self._sources for draw in source.draws)

    @property
    def seeded(self) -> bool:
        """Whether the noise comes from a seed."""
        return self._sources[0].seeded


class PrivateEstimator(frames.PlainlyStored, BaseEstimator):
    """What every private estimator checks, warns of, spends and stores alike."""

    epsilon: float
    delta: float
    data_norm: float | None
    random_state: Any
    rows_per_person: int | None
    # of the last fit: the private fits that it began with, and the key that ledgers know it by
    _start_costs: tuple[StartCost, ...] = ()
    _fit_key: str
    _groupings: tuple[str, ...] = ()  # names of what the groups of the last fit are made of

    @property
    def _row_norm(self) -> float:
        """Bound on the norm of a row: what is said, or else 1."""
        return 1.0 if self.data_norm is None else self.data_norm

    def _check_sizes(self, *names: str) -> None:
        """Refuse parameters that are no positive numbers, and a wrong number of rows."""
        for name in names:
            value = self._row_norm if name == "data_norm" else getattr(self, name)
            is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not is_number or not 1e-50 <= float(value) <= 1e50:
                raise InputError(
                    f"{name} must be a positive finite number, got {value!r}; "
                    f"allowed are 1e-50 to 1e50."
                )

    def _without_groups(self, X: Any) -> Any:
        """Return rows in memory, without the columns of groups that `group_by` names."""
        (X,) = frames.in_memory(X=X)
        return grouping.without_groups(X, getattr(self, "group_by", None), self)

    def _begin_fit(self) -> None:
        """Note what a fit begins with, before anything is spent."""
        start = getattr(self, "start", None)
        self._start_costs = () if start is None else costs_of_start(start)
        if self.data_norm is None:
            warn_of_row_norm()

    def _warn_about_budget(self, budget: Budget, n_records: int) -> None:
        """Warn of an ε or δ that protects nobody."""
        if budget.epsilon > NO_PROTECTION:
            warn(
                f"epsilon={budget.epsilon!r} is no protection: whoever knows all records but one "
                f"can tell that one from any other; values from 0.1 to 10 are usual.",
                NoProtectionWarning,
            )
        check_delta(budget.delta, n_records)

    @contextmanager
    def _spending(
        self,
        noise: NoiseSource | Stages,
        budget: Budget,
        planned: PrivacyGuarantee,
        key: str | None = None,
    ) -> Iterator[PrivacyGuarantee]:
        """Charge a fit, once a key, say in errors if it is spent, and yield its guarantee."""
        # a key of its own, which the object has once it is fitted: other threads may use it too
        key = uuid4().hex if key is None else key
        costs, public = self._start_costs, planned.public
        if getattr(self, "start", None) is not None and not costs:
            public = (*public, PUBLIC_START)
        # of this fit alone: ledgers are charged for its starts beside it
        own = replace(planned, seeded=noise.seeded, groupings=self._groupings, public=public)
        name, is_paid = type(self).__name__, self.__dict__.pop("_is_paid", False)
        with (
            np.errstate(all="ignore"),  # over- and underflows depend on the records
            spending(own, noise, name, budget, key=key, is_paid=is_paid, before=costs),
        ):
            yield replace(own, outside=(*own.outside, *in_words(costs))) if costs else own
        self._fit_key = key

    def _linear(self, X: Any, weights: FloatArray) -> FloatArray:
        """Return ``X @ weights.T``; nothing else about the rows, which may be records."""
        X = self._without_groups(X)
        encode.check_columns(X)
        with encode.advice_on_missing_values(X):
            X = validate_data(self, X, dtype=encode.PRECISIONS, accept_sparse="csr", reset=False)
        if issparse(X):
            X = canonical_rows(X)
        # an overflow is told by the scores alone
        with np.errstate(all="ignore"):
            return linear_scores(X, weights)

    def to_sklearn(self) -> LogisticRegression | LinearSVC | LinearRegression:
        """Return a linear model of scikit-learn itself that predicts the same.

        Converters (ONNX, PMML), explainers and servers take it. It holds the released weights, so
        it costs no privacy; the guarantee stays in ``privacy_`` of this estimator.

        Returns
        -------
        LogisticRegression, LinearSVC or LinearRegression
            Fitted: a `LogisticRegression` where the model has probabilities, a `LinearSVC` for a
            classifier without, a `LinearRegression` for a regressor.

        Notes
        -----
        Only what is fitted is copied. A clone has scikit-learn's own parameters, and a fit of it is
        not private.
        """
        check_is_fitted(self, "plan_")
        kind = LinearRegression
        if hasattr(self, "classes_"):
            kind = LogisticRegression if hasattr(self, "predict_proba") else LinearSVC
        linear = kind()
        linear.n_features_in_ = self.n_features_in_
        for name in ("coef_", "intercept_", "classes_", "feature_names_in_"):
            if hasattr(self, name):  # a number of NumPy, as scikit-learn has it, stays one
                setattr(linear, name, np.array(getattr(self, name))[()])
        return linear

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


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

    @property
    def n_calls(self) -> int:
        """Number of calls that are planned for."""
        return self.fresh_calls or 1


# What yields risks or an oracle for a problem, for as long as a solver learns from them.
Records = Callable[[Problem], AbstractContextManager[Any]]
# How a solver learns, where that is not its `run`: it, plan, records, noise and start.
Run = Callable[..., Solution]


class Fitting(Progress, PrivateEstimator):
    """Parameters of a worst-group estimator, and the steps from records to fitted attributes."""

    solver: str | Solver
    loss: Any
    radius: float | None
    fit_intercept: bool
    prior: Any
    group_labels: Any
    group_by: Any
    overlap: str
    start: Any
    neighbours: str
    # value of the constant column behind rows of norm 1
    _intercept_scaling: ClassVar[float]
    optimism_correction: float

    @abstractmethod
    def _targets(self, y: NDArray[Any] | None, classes: ArrayLike | None = None) -> Targets:
        """Return what encodes y, of its classes where neither the caller nor a parameter says."""

    @property
    def _hides_groups(self) -> bool:
        """Whether the group of a record is protected too."""
        return self.neighbours == "replace-one" and self.epsilon != math.inf

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the solver too: a name stands for its default instance.

        Parameters
        ----------
        **params : dict
            Values by name, such as ``solver__n_steps=50``.

        Returns
        -------
        self : object
            The estimator.
        """
        solver = params.get("solver", self.solver)
        if isinstance(solver, str) and any(name.startswith("solver__") for name in params):
            params["solver"] = make_solver(solver, epsilon=1.0)
        super().set_params(**params)
        return self

    def _check_parameters(self) -> Budget:
        """Check what needs no records, before any budget is spent."""
        self._check_sizes("data_norm", *(["radius"] if self.radius is not None else []))
        for name in ("fit_intercept", "verbose"):
            value = getattr(self, name)
            if not isinstance(value, bool | np.bool_ | int | np.integer):
                raise InputError(f"{name} must be a bool or a whole number, got {value!r}.")
        encode.stated_rows(self.rows_per_person)
        encode.check_neighbours(self.neighbours)
        encode.check_overlap(self.overlap, hides_groups=self._hides_groups)
        encode.check_correction(self.optimism_correction)
        return Budget(self.epsilon, self.delta)

    def _learn(
        self, budget: Budget, facts: Facts, records: Records, run: Run | None = None
    ) -> None:
        """Plan by facts, spend the plan's noise on the records, and keep the outcome.

        What a fit with hidden groups shows after their counts follows from the counts as released;
        whatever can be wrong otherwise shows before, with groups of equal size.
        """
        solver = make_solver(self.solver, epsilon=budget.epsilon)
        problem, first = self._problem(facts), self._first_weights(facts)
        plan = self._plan_within(budget, solver, problem, first)
        self._begin_fit()
        if plan.counts is None:
            self._warn_about(plan, facts, budget)
        else:
            self._warn_about_budget(budget, plan.problem.n_records)
        stage, planned = plan.counts, plan.guarantee
        releases = plan.releases if stage is None else stage.releases
        # without releases nothing is drawn, so random_state does not matter
        noise = NoiseSource(self.random_state if plan.releases else None, releases)
        stages = Stages(noise)
        # whatever is wrong with records shows before the first draw
        with self._spending(stages, budget, planned) as guarantee, records(problem) as data:
            if stage is not None:
                # nothing else follows from the true sizes
                counted = release_sizes(stage.release, data.group_sizes, noise)
                facts = replace(facts, sizes=[facts.n_calls * size for size in counted])
                problem = self._problem(facts)
                plan = self._plan_within(budget, solver, problem, first)
                if plan.counts != stage:
                    raise PlanExceededError(
                        "what was fixed before the counts must not follow from them."
                    )
                self._warn_about(plan, facts, budget)
                noise = stages.follow(self.random_state, plan.second_stage)
            # a copy: what a solver does to it does not reach `plan_`
            of_solver = plan.second_stage
            learn = solver.run if run is None else partial(run, solver)
            solution = self._with_progress(
                of_solver, noise, lambda: learn(of_solver, data, noise, start=first)
            )
            planning.check_solution(plan, solution, self.solver)
        self._keep(plan, guarantee, facts, solution)

    def _learn_nothing(self, X: Any, y: ArrayLike, groups: Any) -> None:
        """Take the form of a fitted model without reading a value, to try what uses one."""
        budget = self._check_parameters()
        facts, _ = self._encode(partitions_of(X, y, groups))
        problem, solver = self._problem(facts), make_solver(self.solver, epsilon=budget.epsilon)
        plan = self._plan_within(budget, solver, problem)
        solution = Solution(np.zeros(problem.n_weights), None, n_iter=0)
        self._keep(plan, plan.guarantee, facts, solution)

    def _problem(self, facts: Facts) -> Problem:
        """Return the public facts of a problem."""
        n_records: Any = facts.n_calls * facts.n_records
        hidden = None
        if self._hides_groups:
            is_stated = self.group_labels is not None
            hidden = HiddenGroups(n_records, n_calls=facts.n_calls, labels_are_stated=is_stated)
        radius, loss = self.radius, facts.targets.loss
        if radius is None:
            solver = make_solver(self.solver, epsilon=float(self.epsilon))
            radius = solver.room * largest_reach(loss)
        return Problem(
            loss=loss,
            group_sizes=tuple(facts.sizes),
            n_features=facts.n_features,
            radius=float(radius),
            prior=encode.resolve_prior(self.prior, facts.sizes),
            intercept_scaling=self._intercept_scaling if self.fit_intercept else 0.0,
            hidden=hidden,
            optimism_correction=float(self.optimism_correction),
            cells=facts.cells,
            fresh_calls=facts.fresh_calls,
        )

    def _first_weights(self, facts: Facts) -> Solution | None:
        """Return where a run begins, checked before anything is spent."""
        if self.start is None:
            return None
        return first_weights(
            self.start,
            facts.targets,
            facts.n_features,
            row_norm=float(self._row_norm),
            intercept_scaling=self._intercept_scaling if self.fit_intercept else 0.0,
            names=getattr(self, "feature_names_in_", None),
        )

    def _plan_within(
        self, budget: Budget, solver: Solver, problem: Problem, first: Solution | None = None
    ) -> Plan:
        rows = encode.stated_rows(self.rows_per_person)
        plan = planning.plan_within(budget, solver, problem, rows)
        return planning.with_start(plan, solver, first)

    def _warn_about(self, plan: Plan, facts: Facts, budget: Budget) -> None:
        """Warn of what a plan promises, and of what nobody chose."""
        if plan.releases and plan.counts is None:  # else said before the counts
            n_drawn = plan.n_drawn
            self._warn_about_budget(budget, plan.problem.n_records if n_drawn is None else n_drawn)
        warn_of_plan(plan, facts.labels)

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
        is_class, stated = is_classifier(self), self.group_labels
        ask = partial(
            read_labels,
            group_by=self.group_by,
            is_classifier=is_class,
            is_stated=stated is not None,
            takes_others=stated is not None and grouping.OTHER in stated,
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
        if True in [each.is_column for each in known]:
            column_or_1d(known[0].targets[:1, None], warn=True)
        targets = first
        if targets is None:
            targets = self._targets(all_targets(known, n_records, is_classifier=is_class), classes)
        else:
            targets.check_later(classes)
        by_partition, labels = self._sizes_by_partition(known, n_records, first is not None)
        if first is None:
            self._name_groups(partitions.y, partitions.groups)
        encoder = Encoder(
            group_by=self.group_by,
            labels=None if known[0].groups is None else labels.tolist(),
            hides_groups=self._hides_groups,
            targets=targets,
            is_classifier=is_class,
            row_norm=float(self._row_norm),
            owner=type(self).__name__,
        )
        sizes = self._public_sizes(by_partition.sum(axis=0))
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

        A later call has the labels of the first, of which any may be missing.
        """
        if len({each.groups is None for each in known}) > 1:
            raise InputError("groups must be given for every partition or for none, got some.")
        if known[0].groups is None:
            if is_later and len(self.group_labels_) > 1:
                raise InputError("groups must be given, as in the first call, got None.")
            if not is_later:
                self._warn_of_no_groups()
            labels = self.group_labels_ if is_later else np.array([0], dtype=object)
            return np.array([each.counts for each in known]), labels
        found = [label for each in known for label in each.groups or ()]
        column = frames.label_column(found)
        if is_later:
            codes, labels = grouping.encode_groups(
                column, len(found), self.group_labels_.tolist(), may_be_empty=True
            )
        else:
            codes, labels = self._encode_labels(column, n_records, known[0].group_form)
        sizes = np.zeros((len(known), len(labels)), dtype=np.intp)
        partition = np.repeat(np.arange(len(known)), [len(each.counts) for each in known])
        np.add.at(sizes, (partition, codes), np.concatenate([each.counts for each in known]))
        return sizes, labels

    def _public_sizes(self, sizes: NDArray[np.intp]) -> Sequence[int]:
        """Return the sizes of the groups, and where these are hidden equal ones in their place."""
        if self._hides_groups:
            return equal_sizes(int(sizes.sum()), len(sizes))
        return sizes.tolist()

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

    def _name_groups(self, y: Any, groups: Any) -> None:
        """Note what groups are made of, and warn if that is y."""
        # where it is protected, a record may change its group by whatever they are made of
        self._groupings = ()
        if not self._hides_groups:
            self._groupings = grouping.grouping_names(groups, self.group_by)
            encode.warn_if_target_is_group(y, groups, self.group_by)

    def _encode_labels(
        self, groups: NDArray[np.object_], n_records: int, form: Any
    ) -> tuple[NDArray[np.intp], NDArray[np.object_]]:
        """Return indices of labels and these; where groups overlap, of the cells of columns."""
        overlaps = self.overlap != "cells"
        stated = None if overlaps else self.group_labels
        how = {"overlap": self.overlap, "form": form, "may_be_empty": self._hides_groups}
        codes, labels = grouping.encode_groups(groups, len(groups), stated, **how)
        if self.group_labels is None:
            for found in grouping.by_column(labels) if overlaps else [labels]:
                encode.check_found_groups(found, n_records)
        return codes, labels

    def _warn_of_no_groups(self) -> None:
        """Warn that all records are one group, or refuse it where labels were stated."""
        if self.group_labels is not None:
            raise InputError(
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

    def _keep(
        self, plan: Plan, guarantee: PrivacyGuarantee, facts: Facts, solution: Solution
    ) -> None:
        """Set the fitted attributes; each is public or paid for."""
        problem = plan.problem
        for name, value in facts.targets.attributes.items():
            setattr(self, name, value)
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
        coef = matrix[:, : problem.n_features] / float(self._row_norm)
        self.coef_, self.intercept_ = facts.targets.decode(coef, intercept)
