"""Nothing but one histogram depends on the records, and no record moves it by more than stated."""

from __future__ import annotations

import contextlib
import functools
import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sklearn_dpwg.data.problem import LABELS_THAT_OCCUR
from sklearn_dpwg.estimators import learn
from sklearn_dpwg.exceptions import BudgetExceededError, PlanExceededError
from sklearn_dpwg.inspection import GroupAudit
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.postprocessing import DPCalibratedClassifier, DPThresholdClassifier, base
from sklearn_dpwg.postprocessing.base import (
    checked_edges,
    count_scores,
    histogram_guarantee,
    release_counts,
)
from sklearn_dpwg.postprocessing.classifiers import (
    CONSTRAINTS,
    calibrated_fractions,
    least_errors,
    likely_counts,
)
from sklearn_dpwg.privacy import (
    Budget,
    PrivacyGuarantee,
    Relation,
    epsilon_of,
    joint_guarantee,
)
from sklearn_dpwg.privacy.noise.samplers import noise_on_integers
from sklearn_dpwg.solvers import MGR, Solution
from tests.helpers.relations import WITHIN_GROUP

LABELS = ["a", "b", "c", "d"]

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.NoProtectionWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning"),
]


def neighbours(rng):
    """Return records and neighbours: one record is anything else, in another group at times."""
    n_records = int(rng.integers(2, 40))
    # groups of one record, and empty ones, are common
    groups = rng.choice(LABELS, size=n_records, p=[0.7, 0.2, 0.1, 0.0])
    X = np.column_stack([rng.uniform(size=n_records), np.zeros(n_records)])
    y = rng.integers(2, size=n_records)
    other = X.copy(), y.copy(), groups.copy()
    place = rng.integers(n_records)
    other[0][place, 0] = rng.choice([0.0, 1.0, 0.5, rng.uniform()])
    other[1][place] = rng.integers(2)
    other[2][place] = rng.choice(LABELS)
    return (X, y, groups), other


def make(frozen, rng):
    kind = rng.integers(4)
    parameters = {
        "epsilon": float(rng.choice([0.1, 1.0])),
        "per_group": bool(rng.integers(2)),
        "group_labels": LABELS,
        "n_bins": int(rng.choice([2, 10])),
    }
    if kind == 3:
        return DPCalibratedClassifier(frozen, **parameters)
    return DPThresholdClassifier(frozen, constraint=CONSTRAINTS[kind], max_gap=0.1, **parameters)


UNLIKE = ("estimator_", "_costs")  # costs have keys that are drawn at random


def published(model, X, y, groups, predicts):
    """Return all that a fit leaves behind, as text, and at times predictions for fixed rows."""
    model.fit(X, y, groups)
    rows = np.column_stack([np.linspace(0, 1, 8), np.zeros(8)])
    facts = {name: repr(value) for name, value in vars(model).items() if name not in UNLIKE}
    return facts, model.predict(rows, LABELS * 2).tolist() if predicts else None


def leaks(frozen, monkeypatch, n_problems):
    """Return how often what is published differs, given the same released histogram."""
    # what gets no record takes most of the time, and is the same for all problems
    monkeypatch.setattr(base, "histogram_guarantee", functools.cache(histogram_guarantee))
    monkeypatch.setattr(base, "rows_of_person", lambda estimator: 1)
    monkeypatch.setattr(base, "with_frozen", lambda own, model, held_out: (own.guarantee, (own,)))
    monkeypatch.setattr(base, "spending", lambda *_, **facts: contextlib.nullcontext())
    result = 0
    for seed in range(n_problems):
        rng = np.random.default_rng(seed)
        one, other = neighbours(rng)
        model = make(frozen, rng)
        answer = np.rint(rng.normal(3.0, 5.0, size=(4, 2, model.n_bins))).astype(int)
        monkeypatch.setattr(base, "release_counts", lambda *_, answer=answer: answer.copy())
        predicts = seed % 20 == 0
        result += published(model, *one, predicts) != published(model, *other, predicts)
    return result


def moves(n_problems, count=count_scores):
    """Return the largest L1 and L2 distance between the counts of neighbours."""
    farthest = [0.0, 0.0]
    for seed in range(n_problems):
        one, other = neighbours(np.random.default_rng(seed))
        counts = [
            count(X[:, 0], y == 1, np.searchsorted(LABELS, groups), 4, checked_edges(None, 7))
            for X, y, groups in (one, other)
        ]
        difference = np.abs(counts[0] - counts[1])
        moved = difference.sum(), math.sqrt((difference**2).sum())
        farthest = [max(pair) for pair in zip(farthest, moved, strict=True)]
    return farthest


def test_a_record_moves_two_counts_by_one():
    """Lemma 1 of docs/theory/thresholds.md, reached exactly."""
    assert moves(400) == [2.0, math.sqrt(2.0)]


def test_everything_follows_from_the_histogram(frozen, monkeypatch):
    """Theorem 1 of docs/theory/thresholds.md, on records that differ in one, its group too."""
    assert leaks(frozen, monkeypatch, 60) == 0


def test_nothing_else_is_read_where_the_model_hides_groups(private, records, monkeypatch):
    """Given what the model and its counts of groups were, too."""
    settings = Solution(np.ones(3), None, 1)
    monkeypatch.setattr(learn, "release_sizes", lambda *_: (2000, 1500, 500, 1))
    monkeypatch.setattr(MGR, "run", lambda *_, **start: settings)
    monkeypatch.setattr(base, "release_counts", lambda *_: np.full((4, 2, 12), 9))
    model = DPThresholdClassifier(private, epsilon=2.0, group_labels=LABELS, random_state=0)
    seen = [
        published(clone(model), records.X, records.y, groups, True)
        for groups in (records.groups, np.full(4000, "d"), records.groups[::-1])
    ]
    assert seen[0] == seen[1] == seen[2]


def with_true_counts(fault):
    """Return a `_learn` of thresholds that looks at the exact counts, as a fault may."""

    def learn(self, noisy, edges, std):
        wrong = fault(noisy.astype(float), CAUGHT[-1], edges, std)
        if isinstance(self, DPCalibratedClassifier):
            self.probabilities_ = calibrated_fractions(wrong, edges, std, self.per_group)
        else:
            how = edges, self.per_group, self.max_gap, 1.0
            self.thresholds_ = least_errors(self.constraint, wrong, *how)

    return learn


CAUGHT: list[np.ndarray] = []


def one_true_group(noisy, true, edges, std):
    result = likely_counts(noisy, edges, std)
    result[0] = true[0] + 1e-3
    return result


def exact_sizes(noisy, true, edges, std):
    result = likely_counts(noisy, edges, std)
    sizes = true.sum(axis=(1, 2), keepdims=True) + 1e-3
    return result / result.sum(axis=(1, 2), keepdims=True) * sizes


def exact_smoothing(noisy, true, edges, std):
    return likely_counts(noisy + 20.0 * true.sum(axis=0), edges, std)


@pytest.mark.parametrize("fault", [one_true_group, exact_sizes, exact_smoothing])
def test_planted_leaks_are_seen(fault, frozen, monkeypatch):
    def counted(*arguments):
        CAUGHT.append(count_scores(*arguments))
        return CAUGHT[-1]

    monkeypatch.setattr(base, "count_scores", counted)
    for kind in (DPThresholdClassifier, DPCalibratedClassifier):
        monkeypatch.setattr(kind, "_learn", with_true_counts(fault))
    assert leaks(frozen, monkeypatch, 30) > 0


def test_a_record_in_two_cells_would_be_seen():
    def twice(scores, is_positive, codes, n_groups, edges):
        counts = count_scores(scores, is_positive, codes, n_groups, edges)
        return counts + counts.sum(axis=0)

    assert moves(50, twice)[0] > 2.0


# --- noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_noise_has_the_law_that_is_paid_for(epsilon, frozen, records):
    model = DPThresholdClassifier(frozen, epsilon=epsilon, n_bins=50, random_state=1)
    model.fit(*records)
    codes = np.searchsorted(list("abc"), records.groups)
    true = count_scores(records.X[:, 0], records.y == 1, codes, 3, model.score_edges_)
    noise = (model.histogram_ - true).ravel()
    scale = 2.0 / epsilon
    assert model.histogram_.dtype == np.int64
    assert np.abs(noise).mean() == pytest.approx(scale, rel=0.25)
    law = noise_on_integers(model.plan_.release)
    assert (law.mechanism, law.scale) == ("laplace", pytest.approx(scale))
    (event,) = model.privacy_.events
    assert epsilon_of(event, 1e-12) == pytest.approx(epsilon, rel=1e-3)
    assert model.privacy_.epsilon <= epsilon


def test_noise_is_drawn_once_and_against_the_plan(frozen, records, monkeypatch):
    seen = []

    def release(counts, release, noise):
        noisy = release_counts(counts, release, noise)
        seen.append(noise)
        with pytest.raises(PlanExceededError, match="all were made"):
            release_counts(counts, release, noise)
        return noisy

    monkeypatch.setattr(base, "release_counts", release)
    model = DPThresholdClassifier(frozen, epsilon=1.0).fit(*records)
    (noise,) = seen
    assert not noise.seeded
    assert [draw.release for draw in noise.draws] == [model.plan_.release]


# --- what is promised -----------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "fraction"), [(1.0, 0.2), (4.0, 0.5), (0.5, 0.05)])
def test_model_and_histogram_keep_the_total(epsilon, fraction, private, records):
    model = DPThresholdClassifier(
        private, epsilon=epsilon, histogram_fraction=fraction, random_state=0
    )
    model.fit(*records)
    together, of_model = model.privacy_, model.estimator_.privacy_
    alone = PrivacyGuarantee.from_releases([model.plan_.release], 1e-6)
    assert 0.999 * epsilon < together.epsilon <= epsilon == together.requested_epsilon
    assert together.epsilon == joint_guarantee([of_model, alone], 1e-6).epsilon > alone.epsilon
    assert together.epsilon == model.plan_.guarantee.epsilon
    assert together.relation == Relation.REPLACE_ONE
    assert LABELS_THAT_OCCUR in together.public
    paid = math.sqrt(fraction) * Budget(epsilon, 1e-6).mu * (1.0 - 1e-6)  # on the whole numbers
    assert 1.0 / model.plan_.release.noise_multiplier == pytest.approx(paid, rel=1e-9)
    assert privacy_of(model) == together


def test_sampled_batches_keep_the_total(private, records):
    """What is left by fractions of μ² would be a bit too much here."""
    sampled = private.set_params(solver=MGR(n_steps=5, sampling_rate=0.5))
    made = DPCalibratedClassifier(sampled, epsilon=0.5, histogram_fraction=0.8, random_state=0)
    assert 0.499 < made.fit(*records).privacy_.epsilon <= 0.5


def test_persons_with_several_rows(private, records):
    several = private.set_params(rows_per_person=3)
    model = DPThresholdClassifier(several, epsilon=1.0, random_state=0).fit(*records)
    assert model.privacy_.records_per_person == 3
    assert model.privacy_.epsilon <= 1.0
    sizes = {"group_sizes": [10, 10], "group_labels": ["a", "b"]}
    around = DPThresholdClassifier(FrozenEstimator(model.estimator_), epsilon=0.5, delta=1e-12)
    alone = around.plan(**sizes).guarantee
    assert alone.records_per_person == 3
    assert alone.epsilon == pytest.approx(0.5, rel=1e-3)
    one = DPThresholdClassifier(private.set_params(rows_per_person=1), epsilon=1.0)
    multiplier = one.plan(n_features=2, **sizes).release.noise_multiplier
    assert model.plan_.release.noise_multiplier == pytest.approx(3.0 * multiplier)


def test_a_person_with_one_row_is_the_unit_on_the_same_records_and_not_on_others(private, records):
    fitted = private.set_params(rows_per_person=1, random_state=0).fit(*records)
    around = DPThresholdClassifier(FrozenEstimator(fitted), epsilon=0.5, random_state=0)
    assert around.fit(*records).privacy_.of_person
    # a person may have one row among those of the model and one among these
    assert not around.set_params(held_out=True).fit(*records).privacy_.of_person


def test_around_a_frozen_model(private, records):
    fitted = private.set_params(epsilon=0.7, random_state=0, **WITHIN_GROUP).fit(*records)
    around = DPThresholdClassifier(FrozenEstimator(fitted), epsilon=0.5, random_state=0)
    same = around.fit(*records).privacy_
    assert 0.7 < same.epsilon <= 0.7 + 0.5
    assert same.relation == Relation.REPLACE_ONE_WITHIN_GROUP
    apart = around.set_params(held_out=True).fit(*records).privacy_
    assert apart.epsilon == pytest.approx(0.7, rel=1e-3)
    assert any("by the caller's word" in fact for fact in apart.public)
    assert len(apart.events) == 2
    larger = around.set_params(epsilon=0.9).fit(*records).privacy_
    assert larger.epsilon == pytest.approx(0.9, rel=1e-3)


@pytest.mark.parametrize("kind", [DPThresholdClassifier, DPCalibratedClassifier])
def test_the_model_that_another_began_with_is_paid_for(kind, private, records):
    first = private.fit(*records)
    later = clone(private).fit(*records, start=first)
    around = kind(FrozenEstimator(later), epsilon=0.5).fit(*records)
    alone = kind(FrozenEstimator(first), epsilon=0.5, held_out=True)
    parts = [first.privacy_, first.privacy_, alone.plan(group_sizes=[9], n_features=2).guarantee]
    paid = joint_guarantee(parts, 1e-6).epsilon
    assert around.privacy_.epsilon == pytest.approx(paid, rel=1e-4)


def test_an_audit_is_of_the_model_whose_thresholds_follow(private, records):
    first, other = (clone(private).fit(*records) for _ in range(2))
    audit = DPCalibratedClassifier(FrozenEstimator(first)).fit(*records).audit_
    DPThresholdClassifier(FrozenEstimator(first)).fit_audit(audit)
    with pytest.raises(ValueError, match=r"^audit must be of the scores of estimator"):
        DPThresholdClassifier(FrozenEstimator(other)).fit_audit(audit)


def test_what_a_public_model_learned_is_named(frozen, records):
    model = DPThresholdClassifier(frozen, random_state=0)
    assert model.fit(*records).privacy_.outside == ("ScoresInAColumn: all that it learned",)
    held_out = model.set_params(held_out=True).fit(*records).privacy_
    assert held_out.outside == ()
    assert "by the caller's word" in " ".join(str(held_out).split())
    stated = model.set_params(group_labels=["a", "b", "c", "z"]).fit(*records).privacy_
    for one in (held_out, stated):
        assert one.relation == Relation.REPLACE_ONE
        assert (LABELS_THAT_OCCUR in one.public) is (one is held_out)


# --- ledgers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [0.2, 0.98])
def test_a_ledger_counts_model_and_histogram_or_neither(private, records, before):
    model = DPThresholdClassifier(private, epsilon=1.0, random_state=0)
    with PrivacyLedger(epsilon=1.0, delta=1e-6) as ledger:
        clone(private).set_params(epsilon=before).fit(*records)
        with pytest.raises(BudgetExceededError, match="Nothing was spent"):
            model.fit(*records)
        assert ledger.epsilon_spent == pytest.approx(before, rel=1e-5)
        model.set_params(epsilon=0.01).fit(*records)
    assert [row.what for row in ledger.rows].count("DPWorstGroupClassifier") == 2
    assert [row.what for row in ledger.rows].count("DPThresholdClassifier") == 1


def test_wrong_input_spends_nothing(private, frozen, records):
    X, y, groups = records
    missing = np.where(np.arange(len(y))[:, None] == 5, np.nan, X)
    with PrivacyLedger(epsilon=5.0, delta=1e-6) as ledger:
        for wrong in ((missing, y, groups), (X, y[:-1], groups), (X, y, groups[:-1])):
            with pytest.raises(ValueError):  # noqa: PT011 - of many sentences, by scikit-learn
                DPThresholdClassifier(private).fit(*wrong)
        with pytest.raises(ValueError, match="y must hold the classes"):
            DPThresholdClassifier(frozen).fit(X, y + 1, groups)
    assert ledger.epsilon_spent == 0.0
    assert list(ledger.rows) == []


def test_error_after_the_release_says_that_it_is_spent(frozen, private, records, monkeypatch):
    def fail(*_):
        raise RuntimeError("later")

    monkeypatch.setattr(DPThresholdClassifier, "_learn", fail)
    for estimator in (frozen, private):
        model = DPThresholdClassifier(estimator, random_state=0)
        with (
            PrivacyLedger(epsilon=5.0, delta=1e-6) as ledger,
            pytest.raises(RuntimeError, match="later") as caught,
        ):
            model.fit(*records)
        assert any("as spent" in note for note in caught.value.__notes__)
        assert ledger.epsilon_spent > 0.4
        assert not hasattr(model, "histogram_")


def test_one_release_serves_audit_thresholds_and_calibration():
    """Of one model on one data set all three cost what one does."""
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-0.5, 0.5, (3000, 2)), rng.choice(["a", "b"], 3000)
    y = (X[:, 0] + 0.2 * rng.normal(size=3000) > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    frozen = FrozenEstimator(model)
    with PrivacyLedger(1.0, 1e-6) as book:
        made = GroupAudit(1.0, group_labels=["a", "b"], score_edges=[0.2, 0.4, 0.5, 0.7])
        audit = made.run(y, model.predict_proba(X)[:, 1], groups)
        chosen = DPThresholdClassifier(frozen, held_out=True).fit_audit(audit)
        calibrated, again = (
            DPCalibratedClassifier(frozen, held_out=True).fit_audit(each)
            for each in (audit, chosen.audit_)
        )
    assert len(book.rows) == 1
    together = privacy_of([audit, chosen, calibrated, again], warn=False)
    assert together.epsilon == audit.privacy_.epsilon
    assert (again.probabilities_ == calibrated.probabilities_).all()
    assert (chosen.selected()["high"] > 0.0).all()
    fitted = DPThresholdClassifier(frozen, held_out=True).fit(X, y, groups)
    assert fitted.audit_.privacy_ == fitted.privacy_
    assert fitted.audit_.rates("auc")[0].low > 0.6
    assert (np.array(fitted.audit_.counts) == fitted.histogram_).all()
    two = GroupAudit(1.0, group_labels=["a", "b"]).run(y, y, groups, kind="decisions")
    with pytest.raises(ValueError, match="audit must have outcomes and bins"):
        DPThresholdClassifier(frozen).fit_audit(two)
    with pytest.raises(ValueError, match="FrozenEstimator"):
        DPThresholdClassifier(model).fit_audit(audit)
