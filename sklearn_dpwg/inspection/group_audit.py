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
from sklearn_dpwg.inspection.audit_plan import AuditPlan
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.audit_rows import AuditedRows
from sklearn_dpwg.ledger.costs import StartCost
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.privacy import (
    Budget,
    NoiseSource,
    PrivacyGuarantee,
    Relation,
    Release,
    joint_guarantee,
)
from sklearn_dpwg.privacy.noise.samplers import noise_on_integers
from sklearn_dpwg.privacy.release import check_delta

PUBLIC_FACTS = (
    "the number of records",
    "the labels of the groups",
    "every parameter of the audit, and whether it got scores or decisions",
)
# Sizes of groups that a preview shows where none are guessed.
_SIZES = (100, 1_000, 10_000)

Scores = ArrayLike | Mapping[str, ArrayLike]
# What scores are: probabilities of the positive class, or classes that were decided for.
Kind = Literal["scores", "decisions"]


class GroupAudit(PlainlyStored, BaseEstimator):
    """Count what a model does to each group, with noise that protects every record.

    One histogram of group, outcome and bin of score is released. It gives the size of each group,
    its base rate, all rates of decisions at each edge, calibration, AUC and losses, each with an
    interval that covers noise and sampling.

    Parameters
    ----------
    epsilon : float, default=1.0
        ε of a run; ``inf`` for exact counts without privacy.
    delta : float, default=1e-6
        δ at which ε is stated; the noise needs none.
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
        Inner edges of the bins of scores, the threshold among them. By default there are 20 bins
        of equal width where these make the interval of a selection rate, in a group of a quarter
        of the mean size, wider by at most a tenth (`AuditPlan` says by how much), and else two,
        on both sides of the threshold; ``[threshold]`` asks for these.
    sizes : {"hidden", "public"}, default="hidden"
        Whether groups have secret sizes, so that a record may be replaced by one of any group, or
        public ones, which narrow intervals and protect no record's group.
    confidence : float, default=0.95
        Probability of each interval to hold the truth.
    random_state : int, RandomState or Generator, optional
        A seed makes the noise repeatable and voids the guarantee for whoever knows it.
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
    >>> edges = [0.25, 0.5, 0.75]
    >>> audit = GroupAudit(epsilon=1.0, group_labels=["a", "b"], score_edges=edges)
    >>> round(audit.plan().count_std, 2)
    2.8
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(["a", "b"], 5000)
    >>> y = (rng.random(10_000) < 0.4).astype(int)
    >>> result = audit.run(y, rng.random(10_000), groups)
    >>> bool(abs(result.rates("auc")[0].estimate - 0.5) < 0.05)
    True
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
        confidence: float = 0.95,
        random_state: Any = None,
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
        self.confidence = confidence
        self.random_state = random_state
        self.rows_per_person = rows_per_person

    def plan(
        self,
        *,
        group_sizes: Any = None,
        base_rate: float = 0.3,
        outcomes: bool = True,
        kind: Kind = "scores",
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
        kind : {"scores", "decisions"}, default="scores"
            What will be passed, as in `run`.

        Returns
        -------
        AuditPlan
            Noise, guarantee and widths; print it.
        """
        facts = self._facts(kind)
        base_rate = open_unit(base_rate, "base_rate")
        groups: list[tuple[Hashable, int]] = [(None, size) for size in _SIZES]
        if group_sizes is not None:
            labels, sizes = labelled_sizes(group_sizes, None, self.group_labels)
            guessed = [whole_number(size, "group_sizes", least=0) for size in sizes]
            groups = list(zip(labels, guessed, strict=True))
        mean = sum(size for _, size in groups) // len(groups)

        def bins(size: int) -> tuple[tuple[int, int], float | None]:
            edges, price = self._edges(facts, size, has_outcomes=outcomes)
            if edges is None or facts.threshold is None:
                return (1, 1), price
            below = edges.index(facts.threshold) + 1
            return (below, len(edges) + 1 - below), price

        known = {
            size: audit_plan.expected_widths(
                size,
                base_rate,
                facts.noise,
                bins(size if group_sizes is None else mean)[0],
                has_outcomes=outcomes,
                is_public=self.sizes == "public",
                confidence=self.confidence,
            )
            for size in {size for _, size in groups}
        }
        n_bins, price = bins(mean)
        return AuditPlan(
            release=facts.release,
            noise=facts.noise,
            guarantee=facts.guarantee,
            base_rate=base_rate,
            confidence=self.confidence,
            widths=tuple((label, size, known[size]) for label, size in groups),
            n_bins=sum(n_bins),
            price=price,
            small_size=round(audit_plan.SMALL * mean),
        )

    @overload
    def run(
        self,
        y_true: ArrayLike | None,
        scores: Mapping[str, ArrayLike],
        groups: Any,
        *,
        kind: Kind = "scores",
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
        kind: Kind = "scores",
        same_records_as: Any = None,
        model: Any = None,
    ) -> AuditResult: ...

    def run(
        self,
        y_true: ArrayLike | None,
        scores: Scores,
        groups: Any,
        *,
        kind: Kind = "scores",
        same_records_as: Any = None,
        model: Any = None,
    ) -> AuditResult | dict[str, AuditResult]:
        """Release the histogram of every group.

        Parameters
        ----------
        y_true : array-like of shape (n_records,) or None
            True classes. None counts scores or decisions alone: selection rates follow, from half
            as many noisy counts, and no errors.
        scores : array-like of shape (n_records,) or (n_records, 2), or mapping of names to such
            Probabilities of the positive class, or predicted classes. Of several models, up to
            five, the joint decisions are counted once, and the noise of a model's counts grows by
            √2 with each further model; that is less than what audits one by one would cost.
        groups : array-like of shape (n_records,) or (n_records, n_columns)
            Groups; several columns are intersected. With ``group_by`` the rows to find them in.
        kind : {"scores", "decisions"}, default="scores"
            What ``scores`` are: probabilities, or classes. No value tells, so the caller does.
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
        facts = self._facts(kind)
        rows, edges = self._rows(facts, y_true, scores, groups)
        n_records, noise = len(rows.codes), None
        before = audit_rows.holdings_of_model(
            same_records_as, model, n_records, is_private=facts.release is not None
        )
        guarantee = facts.guarantee
        if facts.release is not None:
            noise = NoiseSource(self.random_state, [facts.release])
            check_delta(self.delta, n_records)
            named = grouping_names(groups, self.group_by) if self.sizes == "public" else ()
            guarantee = replace(guarantee, seeded=noise.seeded, groupings=named)
        # what cannot be stated together is refused while nothing is spent
        total = guarantee
        if before.guarantee is not None:
            total = joint_guarantee([before.guarantee, guarantee], self.delta)
        own = StartCost(uuid4().hex, type(self).__name__, guarantee)
        counts = rows.counts()
        # exact counts are a release too
        drawn: Any = noise or SimpleNamespace(draws=("exact counts",))
        name = type(self).__name__
        with spending(guarantee, drawn, name, self, key=own.key, whose="audit", values="counts"):
            if noise is not None and facts.release is not None:
                counts = noise.integers(counts, release=facts.release)
        whole = AuditResult(
            group_labels=tuple(audit_rows.plain_label(label) for label in rows.labels),
            group_name=audit_rows.group_name(groups, self.group_by),
            classes=facts.classes,
            counts=(),
            noise=facts.noise,
            sizes=rows.sizes if self.sizes == "public" else None,
            threshold=facts.threshold,
            score_edges=edges,
            confidence=float(self.confidence),
            privacy_=total,
            model_privacy_=before.guarantee,
            created=datetime.now(UTC).date().isoformat(),
            versions=audit_rows.versions_now(),
            n_cells=rows.n_cells,
            epsilon=float(self.epsilon),
            n_records=n_records,
        )
        found = {
            name: replace(whole, counts=nested(of_model))
            for name, of_model in zip(rows.names, rows.of_models(counts), strict=True)
        }
        for result in found.values():
            object.__setattr__(result, "_costs", (*before.costs, own))
        return found if isinstance(scores, Mapping) else found[""]

    def _facts(self, kind: Any) -> _Facts:
        """Return what follows from the parameters alone, all of them checked."""
        budget = Budget(self.epsilon, self.delta)
        audit_rows.check_choices(self, kind)
        is_private = budget.epsilon < math.inf
        audit_rows.check_labels(self.group_labels, is_private=is_private)
        classes = audit_rows.two_classes(self.classes)
        threshold: float | None
        threshold, edges = audit_rows.threshold_and_edges(self.threshold, self.score_edges)
        if kind == "decisions":
            if edges is not None:
                raise InputError(
                    f"score_edges must be None for kind='decisions', got {self.score_edges!r}."
                )
            threshold = None
        relation = Relation.REPLACE_ONE
        public: tuple[str, ...] = PUBLIC_FACTS
        if self.sizes == "public":
            relation = Relation.REPLACE_ONE_WITHIN_GROUP
            public = (*PUBLIC_FACTS, "the size of every group")
        said: dict[str, Any] = {"public": public, "relation": relation}
        if not is_private:
            none = PrivacyGuarantee.non_private(budget.delta, **said)
            return _Facts(classes, threshold, edges, None, none.for_person(self.rows_per_person))
        release = audit_plan.release_of(budget)
        guarantee = PrivacyGuarantee.from_releases([release], budget, **said)
        return _Facts(
            classes, threshold, edges, release, guarantee.for_person(self.rows_per_person)
        )

    def _edges(
        self, facts: _Facts, mean_size: int, *, has_outcomes: bool
    ) -> tuple[tuple[float, ...] | None, float | None]:
        """Return inner edges of more than two bins, and the price of those by default."""
        if facts.threshold is None:
            return None, None
        if facts.edges is not None:
            return (facts.edges if len(facts.edges) > 1 else None), None
        edges = audit_plan.default_edges(facts.threshold)
        price = audit_plan.price_of_bins(
            edges,
            facts.threshold,
            facts.noise,
            audit_plan.SMALL * mean_size,
            1 + has_outcomes,
        )
        return (edges if price <= audit_plan.MOST_PRICE else None), price

    def _rows(
        self, facts: _Facts, y_true: ArrayLike | None, scores: Scores, groups: Any
    ) -> tuple[AuditedRows, tuple[float, ...] | None]:
        """Return the records as codes, all of them checked, and the edges of bins."""
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
        known = codes, labels, sizes, positive
        decide = n_records, facts.classes, facts.threshold
        if isinstance(scores, Mapping):
            if facts.edges is not None and len(facts.edges) > 1:
                raise InputError(
                    "scores of several models must be audited without score_edges, or each by "
                    "itself."
                )
            joint = audit_rows.joint_bins(scores, *decide)
            return AuditedRows(*known, joint, 2 ** len(scores), names=tuple(scores)), None
        mean = n_records // len(labels)
        edges, _ = self._edges(facts, mean, has_outcomes=positive is not None)
        if edges is None:
            selected = audit_rows.is_selected(scores, *decide, "scores")
            return AuditedRows(*known, selected, 2), None
        values = audit_rows.scores_of(scores, n_records, "scores")
        bins = np.searchsorted(np.array(edges), values, side="right").astype(np.int32)
        return AuditedRows(*known, bins, len(edges) + 1), edges


@dataclass(frozen=True)
class _Facts:
    """What follows from the parameters of an audit; no threshold of decisions."""

    classes: tuple[Hashable, Hashable]
    threshold: float | None
    edges: tuple[float, ...] | None
    release: Release | None
    guarantee: PrivacyGuarantee

    @property
    def noise(self) -> Any:
        """Law of the noise on every count."""
        return None if self.release is None else noise_on_integers(self.release)


def nested(counts: NDArray[np.int64]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return counts as a result keeps them."""
    return tuple(tuple(map(tuple, table)) for table in counts.tolist())
