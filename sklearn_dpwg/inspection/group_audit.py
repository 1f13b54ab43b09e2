"""Audit of what a model does to groups, released with differential privacy."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Literal, overload
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from sklearn_dpwg._checks import open_unit, whole_number
from sklearn_dpwg.data.frames import PlainlyStored
from sklearn_dpwg.data.groups import GroupBy, grouping_names, labelled_sizes
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import audit_plan, audit_rows
from sklearn_dpwg.inspection.audit_plan import AuditPlan, PlannedReleases
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.audit_rows import AuditedRows
from sklearn_dpwg.inspection.verdicts import LossSums
from sklearn_dpwg.ledger.costs import StartCost
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.privacy import Budget, NoiseSource, PrivacyGuarantee, Relation, joint_guarantee
from sklearn_dpwg.privacy.release import check_delta

PUBLIC_FACTS = (
    "the number of records",
    "the labels of the groups",
    "every parameter of the audit, and whether it got scores or decisions",
)
# Sizes of groups that a preview shows where none are guessed.
_SIZES = (100, 1_000, 10_000)

Scores = ArrayLike | Mapping[str, ArrayLike]


class GroupAudit(PlainlyStored, BaseEstimator):
    """Count what a model does to each group, with noise that protects every record.

    One release of the counts of truth and prediction in every group gives all rates, ratios and
    group sizes, each with an interval that covers noise and sampling. Without outcomes it is that
    of decisions alone, with half as many counts.

    Parameters
    ----------
    epsilon : float, default=1.0
        ε of all planned audits together; ``inf`` for exact counts without privacy.
    delta : float, default=1e-6
        δ at which ε is stated.
    group_labels : sequence, optional
        Every group, declared in advance (tuples for several columns); required at finite ε. A
        group without records is no error: it is shown as one of which nobody can tell.
    group_by : column name, column index, sequence of them or callable, optional
        Finds the groups in rows that are passed as ``groups``.
    classes : sequence of two classes, default=(0, 1)
        The negative and the positive class.
    threshold : float, default=0.5
        Scores from here on predict the positive class; fixed in advance.
    score_edges : sequence of float, optional
        Inner edges of bins of scores, the threshold among them, for calibration; rates are of
        sums over bins then, and √(bins/2) times as noisy.
    sizes : {"hidden", "public"}, default="hidden"
        Whether groups have secret sizes, so that a record may be replaced by one of any group, or
        public ones, which narrow intervals and protect no record's group.
    losses : sequence of {"log_loss", "squared_error"}, default=()
        Losses whose means are released too, on a share of ε: each gets half of what the counts
        get. Log loss counts probabilities below 0.01 as 0.01.
    mechanism : {"auto", "laplace", "gaussian"}, default="auto"
        Law of the noise; by default that of the smaller deviation by the accountant, which is
        Laplace but for many audits of the same records.
    confidence : float, default=0.95
        Probability of each interval to hold the truth.
    random_state : int, RandomState or Generator, optional
        A seed makes the noise repeatable and voids the guarantee for whoever knows it.
    n_audits : int, default=1
        How many audits of the same records keep ε and δ together; each run is one of them.
    rows_per_person : {None, 1}, default=None
        1 says that each person has one of the records, as `bound_rows_per_person` with ``k=1``
        sees to: ε and δ are a person's then, also beside a model of several rows of each.

    See Also
    --------
    AuditResult : What a run returns.
    sklearn_dpwg.metrics.group_table : Exact metrics, for those who may see the records.

    Notes
    -----
    A record is in one cell of one group, so a replacement, its group included, moves two counts by
    one each: Laplace noise of scale 2/ε hides that with δ = 0. ``docs/theory/group-audit.md``
    proves what is promised.

    On records that the model was fitted to, say so by ``same_records_as``: the cost of both is
    stated together. On held-out records the audit costs only its own.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.inspection import GroupAudit
    >>> audit = GroupAudit(epsilon=1.0, group_labels=["a", "b"])
    >>> round(audit.plan().count_std, 2)
    2.8
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(["a", "b"], 5000)
    >>> y = (rng.random(10_000) < 0.4).astype(int)
    >>> result = audit.run(y, rng.random(10_000), groups)
    >>> result.verdict().answer
    'passes'
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        group_labels: Sequence[Hashable] | None = None,
        group_by: GroupBy | None = None,
        classes: Sequence[Hashable] = (0, 1),
        threshold: float = 0.5,
        score_edges: Sequence[float] | None = None,
        sizes: Literal["hidden", "public"] = "hidden",
        losses: Sequence[str] = (),
        mechanism: Literal["auto", "laplace", "gaussian"] = "auto",
        confidence: float = 0.95,
        random_state: Any = None,
        n_audits: int = 1,
        rows_per_person: Literal[1] | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.group_labels = group_labels
        self.group_by = group_by
        self.classes = classes
        self.threshold = threshold
        self.score_edges = score_edges
        self.sizes = sizes
        self.losses = losses
        self.mechanism = mechanism
        self.confidence = confidence
        self.random_state = random_state
        self.n_audits = n_audits
        self.rows_per_person = rows_per_person

    def plan(
        self,
        *,
        group_sizes: Any = None,
        base_rate: float = 0.3,
        outcomes: bool = True,
    ) -> AuditPlan:
        """Return what an audit releases and how wide its intervals will be, without any record.

        Parameters
        ----------
        group_sizes : sequence of int, or mapping from label to int, optional
            Guesses of the sizes; by default widths are shown for 100, 1,000 and 10,000 records.
        base_rate : float
            Share of the positive class that the widths assume, with a model that selects as many
            and is wrong half as often as by chance.
        outcomes : bool, default=True
            Whether outcomes will be passed; without them ``base_rate`` is the share selected.

        Returns
        -------
        AuditPlan
            Noise, guarantee and widths; print it.
        """
        facts = self._facts(has_outcomes=outcomes)
        base_rate = open_unit(base_rate, "base_rate")
        groups: list[tuple[Hashable, int]] = [(None, size) for size in _SIZES]
        if group_sizes is not None:
            labels, sizes = labelled_sizes(group_sizes, None, self.group_labels)
            guessed = [whole_number(size, "group_sizes", least=0) for size in sizes]
            groups = list(zip(labels, guessed, strict=True))
        noise = None if facts.planned is None else facts.planned.noise
        known = {
            size: audit_plan.expected_widths(
                size,
                base_rate,
                noise,
                facts.n_bins,
                has_outcomes=outcomes,
                is_public=self.sizes == "public",
                confidence=self.confidence,
            )
            for size in {size for _, size in groups}
        }
        return AuditPlan(
            releases=() if facts.planned is None else facts.planned.all,
            noise=noise,
            guarantee=facts.guarantee,
            n_audits=self.n_audits,
            base_rate=base_rate,
            confidence=self.confidence,
            widths=tuple((label, size, known[size]) for label, size in groups),
        )

    @overload
    def run(
        self,
        y_true: ArrayLike | None,
        scores: Mapping[str, ArrayLike],
        groups: Any,
        *,
        same_records_as: Any = None,
        model: Any = None,
    ) -> dict[str, AuditResult]: ...

    @overload
    def run(
        self,
        y_true: ArrayLike | None,
        scores: ArrayLike,
        groups: Any,
        *,
        same_records_as: Any = None,
        model: Any = None,
    ) -> AuditResult: ...

    def run(
        self,
        y_true: ArrayLike | None,
        scores: Scores,
        groups: Any,
        *,
        same_records_as: Any = None,
        model: Any = None,
    ) -> AuditResult | dict[str, AuditResult]:
        """Release the counts of every group.

        Parameters
        ----------
        y_true : array-like of shape (n_records,) or None
            True classes. None counts decisions alone: selection rates and their ratios follow, from
            half as many noisy counts, and no errors.
        scores : array-like of shape (n_records,) or (n_records, 2), or mapping of names to such
            Probabilities of the positive class, or predicted classes. Of several models, up to
            five, the joint counts are released once, and the noise of a model's counts grows by
            √2 with each further model; that is less than what audits one by one would cost.
        groups : array-like of shape (n_records,) or (n_records, n_columns)
            Groups; several columns are intersected. With ``group_by`` the rows to find them in.
        same_records_as : estimator, PrivacyGuarantee, True or False, optional
            What was fitted to these very records, whose cost is stated together with the audit's;
            True for ``model``, False for a model that was fitted to others.
        model : estimator, optional
            The model that gave the scores. One that was fitted to as many records as there are here
            needs ``same_records_as``.

        Returns
        -------
        AuditResult or dict
            Released numbers alone; a mapping of scores has one result each, whose ``privacy_`` is
            that of all together.

        Raises
        ------
        ValueError
            If a parameter or input is wrong; nothing is spent then.
        BudgetExceededError
            If an open `PrivacyLedger` has less left; nothing is spent then.

        Warns
        -----
        NoProtectionWarning
            If δ is not below one over the number of records.
        SeededNoiseWarning
            If `random_state` is set.
        """
        audit_rows.check_same_records(y_true, scores, groups)
        facts = self._facts(has_outcomes=y_true is not None)
        rows = self._rows(facts, y_true, scores, groups)
        before = audit_rows.holdings_of_model(
            same_records_as, model, len(rows.codes), is_private=facts.planned is not None
        )
        guarantee, noise = facts.guarantee, self._noise(facts)
        if noise is not None:
            check_delta(self.delta, len(rows.codes))
            named = grouping_names(groups, self.group_by) if self.sizes == "public" else ()
            guarantee = replace(guarantee, seeded=noise.seeded, groupings=named)
        # what cannot be stated together is refused while nothing is spent
        total = guarantee
        if before.guarantee is not None:
            total = joint_guarantee([before.guarantee, guarantee], self.delta)
        own = StartCost(uuid4().hex, type(self).__name__, guarantee)
        counts, losses = self._release(facts, rows, guarantee, noise, own.key)
        whole = AuditResult(
            group_labels=tuple(audit_rows.plain_label(label) for label in rows.labels),
            group_name=audit_rows.group_name(groups, self.group_by),
            classes=facts.classes,
            counts=(),
            noise=None if facts.planned is None else facts.planned.noise,
            sizes=rows.sizes if self.sizes == "public" else None,
            threshold=None if self._are_decisions(facts, scores) else facts.threshold,
            score_edges=facts.edges,
            confidence=float(self.confidence),
            privacy_=total,
            model_privacy_=before.guarantee,
            created=datetime.now(UTC).date().isoformat(),
            versions=audit_rows.versions_now(),
            losses=losses,
            n_cells=rows.n_cells,
            epsilon=float(self.epsilon),
            n_records=len(rows.codes),
        )
        found = {
            name: replace(whole, counts=_nested(of_model))
            for name, of_model in zip(rows.names, rows.of_models(counts), strict=True)
        }
        for result in found.values():
            object.__setattr__(result, "_costs", (*before.costs, own))
        return found if isinstance(scores, Mapping) else found[""]

    def _facts(self, *, has_outcomes: bool = True) -> _Facts:
        """Return what follows from the parameters alone, all of them checked."""
        budget = Budget(self.epsilon, self.delta)
        audit_rows.check_choices(self)
        is_private = budget.epsilon < math.inf
        audit_rows.check_labels(self.group_labels, is_private=is_private)
        classes = audit_rows.two_classes(self.classes)
        threshold, edges = audit_rows.threshold_and_edges(self.threshold, self.score_edges)
        losses = audit_rows.loss_names(self.losses)
        if not has_outcomes:
            audit_rows.check_without_outcomes(losses=losses, score_edges=edges)
        relation = Relation.REPLACE_ONE
        public: tuple[str, ...] = PUBLIC_FACTS
        if self.sizes == "public":
            relation, public = (
                Relation.REPLACE_ONE_WITHIN_GROUP,
                (*PUBLIC_FACTS, "the size of every group"),
            )
        n_bins = (1, 1)
        if edges is not None:
            n_bins = (edges.index(threshold) + 1, len(edges) - edges.index(threshold))
        if not is_private:
            none = PrivacyGuarantee.non_private(budget.delta, public=public, relation=relation)
            none = none.for_person(self.rows_per_person)
            return _Facts(classes, threshold, edges, losses, n_bins, None, none)
        planned = audit_plan.plan_releases(budget, losses, self.mechanism, self.n_audits)
        guarantee = PrivacyGuarantee.from_releases(
            planned.all, budget, public=public, relation=relation
        ).for_person(self.rows_per_person)
        return _Facts(classes, threshold, edges, losses, n_bins, planned, guarantee)

    def _rows(
        self, facts: _Facts, y_true: ArrayLike | None, scores: Scores, groups: Any
    ) -> AuditedRows:
        """Return the records as codes, all of them checked."""
        positive = None
        if y_true is not None:
            positive = audit_rows.class_codes(y_true, facts.classes, "y_true")
        n_records = audit_rows.n_decided(scores) if positive is None else len(positive)
        if n_records == 0:
            name = "scores" if positive is None else "y_true"
            raise InputError(f"{name} must have at least one record, got none.")
        codes, labels = audit_rows.group_codes(groups, n_records, self.group_labels, self.group_by)
        audit_rows.check_several(len(labels))
        sizes = tuple(np.bincount(codes, minlength=len(labels)).tolist())
        if isinstance(scores, Mapping):
            if facts.edges is not None or facts.losses:
                raise InputError(
                    f"scores of several models must be audited without score_edges and losses, or "
                    f"each by itself with n_audits={len(scores)}."
                )
            bins = audit_rows.joint_bins(scores, n_records, facts.classes, facts.threshold)
            return AuditedRows(codes, labels, sizes, positive, bins, names=tuple(scores))
        array = np.asarray(scores)
        if facts.edges is None and not facts.losses:
            selected = audit_rows.is_predicted(
                array, n_records, facts.classes, facts.threshold, "scores"
            )
            return AuditedRows(codes, labels, sizes, positive, selected)
        if audit_rows.are_predictions(array, facts.classes):
            raise InputError(
                f"scores must be probabilities for score_edges and losses, got "
                f"{array.dtype.type.__name__}."
            )
        score = audit_rows.probabilities(array, n_records, "scores")
        edges = facts.edges or (facts.threshold,)
        bins = np.searchsorted(np.array(edges), score, side="right").astype(np.int16)
        return AuditedRows(codes, labels, sizes, positive, bins, score)

    def _are_decisions(self, facts: _Facts, scores: Scores) -> bool:
        """Return whether no threshold decides about anybody."""
        if facts.edges is not None or facts.losses:
            return False
        return all(
            map(
                audit_rows.are_decisions,
                scores.values() if isinstance(scores, Mapping) else [scores],
            )
        )

    def _noise(self, facts: _Facts) -> NoiseSource | None:
        """Return the source of the planned noise, or None where there is none."""
        return None if facts.planned is None else NoiseSource(self.random_state, facts.planned.all)

    def _release(
        self,
        facts: _Facts,
        rows: AuditedRows,
        guarantee: PrivacyGuarantee,
        noise: NoiseSource | None,
        key: str | None = None,
    ) -> tuple[NDArray[np.int64], tuple[LossSums, ...]]:
        """Return counts and sums of losses with noise, charged to every open ledger."""
        counts = rows.counts(2**rows.n_models if rows.n_models > 1 else sum(facts.n_bins))
        sums = [rows.sums_of(loss) for loss in facts.losses]
        # exact counts are a release too
        drawn = noise or SimpleNamespace(draws=("exact counts",))
        name, values = type(self).__name__, "counts"
        with spending(guarantee, drawn, name, self, key=key, whose="audit", values=values):
            if noise is None or facts.planned is None:
                return counts, audit_rows.loss_sums(facts.losses, sums, ())
            counts = noise.integers(counts, release=facts.planned.counts)
            noisy = [
                tuple(
                    noise.integers(one, release=release, sensitivity=audit_rows.UNITS)
                    for one, release in zip(pair, releases, strict=True)
                )
                for pair, releases in zip(sums, facts.planned.losses, strict=True)
            ]
        return counts, audit_rows.loss_sums(facts.losses, noisy, facts.planned.losses)


@dataclass(frozen=True)
class _Facts:
    """What follows from the parameters of an audit."""

    classes: tuple[Hashable, Hashable]
    threshold: float
    edges: tuple[float, ...] | None
    losses: tuple[str, ...]
    n_bins: tuple[int, int]
    planned: PlannedReleases | None
    guarantee: PrivacyGuarantee


def _nested(counts: NDArray[np.int64]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return tuple(tuple(map(tuple, table)) for table in counts.tolist())
