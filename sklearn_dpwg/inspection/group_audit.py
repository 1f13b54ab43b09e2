"""Private audit of how a model treats groups, and the plan of an audit."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Literal
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from sklearn_dpwg._checks import Rules, above, inside, one_of, open_unit, whole, whole_number
from sklearn_dpwg.data.frames import PlainlyStored, same_rows
from sklearn_dpwg.data.groups import (
    GroupBy,
    encode_groups,
    grouping_names,
    labelled_sizes,
    select_groups,
)
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import audit_rows, words
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.histogram import OF_DECISIONS, Histogram
from sklearn_dpwg.ledger.costs import StartCost
from sklearn_dpwg.ledger.ledger import spending
from sklearn_dpwg.privacy import (
    Budget,
    IntegerNoise,
    NoiseSource,
    PrivacyGuarantee,
    Relation,
    Release,
    calibrate,
    joint_guarantee,
)
from sklearn_dpwg.privacy.noise.samplers import noise_on_integers
from sklearn_dpwg.privacy.release import check_delta
from sklearn_dpwg.privacy.statement import cost_of

PUBLIC_FACTS = (
    "the number of records",
    "the labels of the groups",
    "every parameter of the audit, and whether it got scores or decisions",
)
# Sizes of groups that a plan shows if the caller guesses none, and the rates that it shows.
_SIZES = (100, 1_000, 10_000)
_RATES = ("selection_rate", "error_rate", "true_positive_rate", "false_positive_rate")
# Default number of bins; by what fraction they may widen the interval of a selection rate; and the
# size of the group for which this is checked, as a part of the mean size (true sizes are secret).
N_BINS, MAX_PRICE, SMALL = 20, 0.1, 0.25

_RULES = Rules(
    "GroupAudit",
    sizes=one_of("hidden", "public"),
    confidence=inside(0.0, 1.0),
    threshold=above(0.0, most=1.0),
    rows_per_person=whole(most=1, or_none=True),
)

# Meaning of scores: probabilities of the positive class, or predicted classes.
Kind = Literal["scores", "decisions"]
# Inner edges of the bins of scores; None for decisions.
Edges = tuple[float, ...] | None


@dataclass(frozen=True)
class AuditPlan:
    """Noise, cost and expected precision of an audit, from public facts alone; ``print`` it."""

    release: Release | None  # None without privacy
    noise: IntegerNoise | None
    guarantee: PrivacyGuarantee
    base_rate: float  # fraction of the positive class that the widths assume
    confidence: float
    # (group, or None if only sizes are shown; guessed size; by metric the expected width of the
    # interval and the width without noise)
    widths: tuple[tuple[Hashable, int, Mapping[str, tuple[float, ...]]], ...]
    n_bins: int
    # by how much 20 bins widen the interval of a selection rate in a group of ``small_size``, as a
    # fraction; None if edges or decisions were given
    price: float | None
    small_size: int

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise on a count, 0 without privacy."""
        return 0.0 if self.noise is None else self.noise.std

    def __str__(self) -> str:
        """Return the plan as text."""
        metrics = list(self.widths[0][2])
        rows = [["group", "size", *metrics]]
        for group, size, widths in self.widths:
            cells = [f"{width:.3f} ({sampling:.3f})" for width, sampling in widths.values()]
            rows.append(["any" if group is None else words.in_line(group), f"{size:,}", *cells])
        rate = "base rate" if len(metrics) > 1 else "selection rate"  # decisions alone
        assumed = (
            f"Widths of {100 * self.confidence:g} % intervals to expect at a {rate} of "
            f"{self.base_rate:g}, in brackets those of sampling alone:"
        )
        table = words.table(rows, (5, 9, *[13] * len(metrics)))
        lines = ["Audit without privacy: exact counts, which contain unprotected statistics."]
        if self.noise is not None:
            relation, std = self.guarantee.relation, self.noise.std
            lines = [
                f"Private audit: {cost_of(self.guarantee)}, neighbours: {relation}.",
                f"Every count has discrete Laplace noise of standard deviation {std:.2f}.",
            ]
        if self.price is not None:
            done = "are counted" if self.n_bins > 2 else "would be too many"
            lines.append(
                f"{N_BINS} bins of scores {done}: in a group of {self.small_size:,} people they "
                f"widen the interval of a selection rate by {100 * self.price:.0f} %."
            )
        return "\n".join([*lines, "", assumed, *table])


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
        of the mean size, wider by at most a tenth (a plan says by how much), and else two,
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
        """Return the noise, cost and expected widths of intervals of an audit, without any record.

        Parameters
        ----------
        group_sizes : sequence of int, or mapping from label to int, optional
            Guesses of the sizes; by default widths are shown for 100, 1,000 and 10,000 records.
        base_rate : float
            Fraction of the positive class that the widths assume, with a model that selects as many
            and is wrong half as often as by chance.
        outcomes : bool, default=True
            Whether outcomes will be passed; without them ``base_rate`` is the fraction selected.
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
        edges, price = facts.inner_edges(mean, has_outcomes=outcomes)
        widths = {}
        for size in {size for _, size in groups}:
            inner = edges
            if group_sizes is None:  # each size stands for an audit with groups of this size
                inner, _ = facts.inner_edges(size, has_outcomes=outcomes)
            n_bins = facts.n_bins(inner)
            counts = _expected_counts(size, base_rate, n_bins, has_outcomes=outcomes)
            public_sizes = (int(counts.sum()),) if self.sizes == "public" else None
            noisy = Histogram(counts, n_bins[0], noise=facts.noise, sizes=public_sizes)
            widths[size] = {
                metric: tuple(
                    histogram.interval(metric, 0, self.confidence).width
                    for histogram in (noisy, noisy.without_noise())
                )
                for metric in (_RATES if outcomes else OF_DECISIONS)
            }
        return AuditPlan(
            release=facts.release,
            noise=facts.noise,
            guarantee=facts.guarantee,
            base_rate=base_rate,
            confidence=self.confidence,
            widths=tuple((label, size, widths[size]) for label, size in groups),
            n_bins=sum(facts.n_bins(edges)),
            price=price,
            small_size=round(SMALL * mean),
        )

    def run(
        self,
        y_true: ArrayLike | None,
        scores: ArrayLike,
        groups: Any,
        *,
        kind: Kind = "scores",
        same_records_as: Any = None,
    ) -> AuditResult:
        """Release the histogram of every group.

        Parameters
        ----------
        y_true : array-like of shape (n_records,) or None
            True classes. None counts scores or decisions alone: selection rates follow, from half
            as many noisy counts, and no errors.
        scores : array-like of shape (n_records,) or (n_records, 2)
            Probabilities of the positive class, or predicted classes.
        groups : array-like of shape (n_records,) or (n_records, n_columns)
            Groups; several columns are intersected. With ``group_by`` the rows to find them in.
        kind : {"scores", "decisions"}, default="scores"
            What ``scores`` are: probabilities, or classes. No value tells, so the caller does.
        same_records_as : estimator or PrivacyGuarantee, optional
            What was fitted to these very records, such as the model that gave the scores: its cost
            is stated together with the audit's.

        Returns
        -------
        AuditResult
            Released numbers alone.

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
        facts = self._facts(kind)
        labels, counts, edges = self._count(facts, y_true, scores, groups)
        sizes, n_records = counts.sum(axis=(1, 2)), int(counts.sum())
        model_costs, noise = audit_rows.holdings_of_model(same_records_as), None
        guarantee = facts.guarantee
        if facts.release is not None:
            noise = NoiseSource(self.random_state, [facts.release])
            check_delta(self.delta, n_records)
            public_groups = grouping_names(groups, self.group_by) if self.sizes == "public" else ()
            guarantee = replace(guarantee, seeded=noise.seeded, groupings=public_groups)
        # an error about guarantees that cannot be joined has to come before anything is spent
        total = guarantee
        if model_costs.guarantee is not None:
            total = joint_guarantee([model_costs.guarantee, guarantee], self.delta)
        name = type(self).__name__
        cost = StartCost(uuid4().hex, name, guarantee)
        # without noise the exact counts are recorded as the release
        source: Any = noise or SimpleNamespace(draws=("exact counts",))
        with spending(guarantee, source, name, self, key=cost.key, whose="audit", values="counts"):
            if noise is not None and facts.release is not None:
                counts = noise.integers(counts, release=facts.release)
        result = AuditResult(
            group_labels=tuple(audit_rows.plain_label(label) for label in labels),
            group_name=audit_rows.group_name(groups, self.group_by),
            classes=facts.classes,
            counts=audit_rows.nested(counts.tolist()),
            noise=facts.noise,
            sizes=tuple(sizes.tolist()) if self.sizes == "public" else None,
            threshold=None if edges is None else facts.threshold,
            score_edges=None if edges is None or len(edges) == 1 else edges,
            confidence=float(self.confidence),
            privacy_=total,
            model_privacy_=model_costs.guarantee,
            epsilon=float(self.epsilon),
            n_records=n_records,
        )
        object.__setattr__(result, "_costs", (*model_costs.costs, cost))
        return result

    def _facts(self, kind: Any) -> _Facts:
        """Check all parameters, and return the values that follow from them alone."""
        budget = Budget(self.epsilon, self.delta)
        _RULES.check(self)
        if kind not in ("scores", "decisions"):
            raise InputError(f"kind must be 'scores' or 'decisions', got {kind!r}.")
        if self.group_labels is None and self.epsilon < math.inf:
            raise InputError(
                "group_labels must be declared where epsilon is finite, as labels that are found "
                "in the records would be released without noise, got None."
            )
        edges = audit_rows.inner_edges_of(self.score_edges, self.threshold)
        if kind == "decisions" and edges is not None:
            raise InputError(
                f"score_edges must be None for kind='decisions', got {self.score_edges!r}."
            )
        about: dict[str, Any] = {"public": PUBLIC_FACTS, "relation": Relation.REPLACE_ONE}
        if self.sizes == "public":
            about["public"] = (*PUBLIC_FACTS, "the size of every group")
            about["relation"] = Relation.REPLACE_ONE_WITHIN_GROUP
        release = release_of(budget) if budget.epsilon < math.inf else None
        guarantee = PrivacyGuarantee.from_releases([release] if release else [], budget, **about)
        return _Facts(
            audit_rows.two_classes(self.classes),
            kind,
            float(self.threshold),
            edges,
            release,
            guarantee.for_person(self.rows_per_person),
        )

    def _count(
        self, facts: _Facts, y_true: ArrayLike | None, scores: ArrayLike, groups: Any
    ) -> tuple[NDArray[np.object_], NDArray[np.int64], Edges]:
        """Check the records; return labels, counts by (group, class, bin), and edges of bins."""
        y_true, scores, groups = same_rows(y_true=y_true, scores=scores, groups=groups)
        positive, has_outcomes = None, y_true is not None
        if has_outcomes:
            truth = audit_rows.one_a_record(y_true, "y_true")
            positive = audit_rows.class_codes(truth, facts.classes, "y_true")
        values = audit_rows.one_a_record(
            scores, "scores", None if positive is None else len(positive)
        )
        if groups is None:
            raise InputError(
                "groups must be passed: labels, columns of them, or rows in which group_by finds "
                "them."
            )
        if self.group_by is not None:
            groups = select_groups(groups, self.group_by)
        codes, labels = encode_groups(groups, len(values), self.group_labels, may_be_empty=True)
        if len(labels) < 2:
            raise InputError(f"group_labels must name two groups at least, got {len(labels)}.")
        edges, _ = facts.inner_edges(len(values) // len(labels), has_outcomes=has_outcomes)
        if edges is None:
            bins = audit_rows.class_codes(values, facts.classes, "decisions").astype(np.intp)
        else:
            bins = audit_rows.bins_of(values, edges)
        # a record's number is that of its (group, class, bin); without outcomes the class is 0
        shape = (len(labels), 1 if positive is None else 2, sum(facts.n_bins(edges)))
        cells = codes.astype(np.intp) * shape[1] + (0 if positive is None else positive)
        counts = np.bincount(cells * shape[2] + bins, minlength=math.prod(shape))
        return labels, counts.astype(np.int64, copy=False).reshape(shape), edges


@dataclass(frozen=True)
class _Facts:
    """Checked parameters of an audit, and the release and guarantee that follow from them."""

    classes: tuple[Hashable, Hashable]
    kind: Kind
    threshold: float
    edges: Edges
    release: Release | None
    guarantee: PrivacyGuarantee

    @property
    def noise(self) -> IntegerNoise | None:
        """Law of the noise on every count; None without privacy."""
        return None if self.release is None else noise_on_integers(self.release)

    def inner_edges(self, mean_size: int, *, has_outcomes: bool) -> tuple[Edges, float | None]:
        """Return the inner edges of bins, and ``AuditPlan.price``."""
        if self.kind == "decisions" or self.edges is not None:
            return self.edges, None
        equal_edges = {place / N_BINS for place in range(1, N_BINS)}
        edges = tuple(sorted({*equal_edges, self.threshold}))
        price = 0.0
        if self.noise is not None:
            # variances, at a selection rate of 0.3, of sampling and of noise in all bins
            noise = (1 + has_outcomes) * self.noise.std**2
            variance, variance_of_two_bins = (
                0.3 * 0.7 * SMALL * mean_size + noise * (0.7**2 * n_above + 0.3**2 * n_below)
                for n_below, n_above in (self.n_bins(edges), (1, 1))
            )
            price = math.sqrt(variance / variance_of_two_bins) - 1.0
        return (edges if price <= MAX_PRICE else (self.threshold,)), price

    def n_bins(self, edges: Edges) -> tuple[int, int]:
        """Return the numbers of bins below and above the threshold."""
        if edges is None:
            return 1, 1
        below = edges.index(self.threshold) + 1
        return below, len(edges) + 1 - below


@lru_cache(maxsize=64)  # the accountant is slow, and every run plans
def release_of(budget: Budget) -> Release:
    """Return the release of the histogram, with noise calibrated to a budget."""
    (release,) = calibrate([Release("counts", "discrete-laplace", 1.0, max_count=1)], budget)
    return release


def _expected_counts(
    size: int, base_rate: float, n_bins: tuple[int, int], *, has_outcomes: bool
) -> NDArray[np.int64]:
    """Return expected counts of one group, of shape (1, n_classes, n_bins), for a plan."""
    # the model selects as many records as are positive, and errs half as often as chance does
    wrong = 0.5 * base_rate * (1.0 - base_rate)
    # by class and decision; all records of a decision are put into one bin
    fractions = [[1.0 - base_rate - wrong, wrong], [wrong, base_rate - wrong]]
    cells = np.rint(size * np.array([fractions])).astype(np.int64)
    if not has_outcomes:
        cells = cells.sum(axis=1, keepdims=True)
    counts = np.zeros((1, len(cells[0]), sum(n_bins)), dtype=np.int64)
    counts[:, :, [0, n_bins[0]]] = cells
    return counts
