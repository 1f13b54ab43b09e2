"""Audits from parameters to result: plans, inputs, refusals, ledgers, models."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.exceptions import BudgetExceededError
from sklearn_dpwg.inspection import AuditResult, GroupAudit
from sklearn_dpwg.inspection.verdicts import CountedRates, LossSums, mean_interval
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.metrics.intervals import rate_interval
from sklearn_dpwg.privacy import (
    IntegerNoise,
    NoiseSource,
    PrivacyGuarantee,
    Relation,
    Release,
    joint_guarantee,
)
from tests.helpers.relations import WITHIN_GROUP

LABELS = ("a", "b", "c")
N = 600


@pytest.fixture(scope="module")
def table():
    """Return classes, scores and groups of some records."""
    rng = np.random.default_rng(5)
    groups = rng.choice(LABELS, N, p=(0.6, 0.3, 0.1))
    y = (rng.random(N) < np.where(groups == "a", 0.5, 0.3)).astype(int)
    scores = np.clip(0.25 + 0.5 * y + 0.25 * rng.normal(size=N), 0.0, 1.0)
    return y, scores, groups


def audit(**changes) -> GroupAudit:
    return GroupAudit(**({"group_labels": LABELS} | changes))


def test_plan_needs_no_records_and_tells_widths():
    plan = audit().plan(group_sizes={"a": 300, "b": 1000, "c": 0})
    assert plan.count_std == pytest.approx(2.80, abs=0.005)
    assert [size for _, size, _ in plan.widths] == [300, 1000, 0]
    for metric, (width, sampling) in plan.widths[0][2].items():
        assert sampling < width < 1.6 * sampling, metric
    text = str(plan)
    for said in ("epsilon = 1 at delta = 1e-06", "standard deviation 2.80"):
        assert said in text
    assert "0.300" not in str(audit(epsilon=math.inf).plan())
    assert "unprotected" in str(audit(epsilon=math.inf).plan())
    assert "one of 8 that keep the budget" in str(audit(n_audits=8).plan())
    with pytest.raises(ValueError, match="base_rate must be strictly between 0 and 1, got"):
        audit().plan(base_rate=1.5)
    with pytest.raises(TypeError, match=r"base_rate must be a number, got '0.3'"):
        audit().plan(base_rate="0.3")


def test_a_plan_without_outcomes_is_of_selection_alone_and_narrower():
    sizes = {"a": 300, "b": 1000, "c": 0}
    alone, whole = (audit().plan(group_sizes=sizes, outcomes=one) for one in (False, True))
    assert (alone.releases, alone.noise) == (whole.releases, whole.noise)
    for (_, size, one), (_, _, other) in zip(alone.widths, whole.widths, strict=True):
        ((name, (width, sampling)),) = one.items()
        assert sampling == other[name][1]
        assert width < other[name][0] or size == 0
    assert "at a selection rate of 0.3" in str(alone)
    assert "error_rate" not in str(alone)
    for changes in ({"losses": ["log_loss"]}, {"score_edges": np.array([0.2, 0.5])}):
        with pytest.raises(ValueError, match="must be left out of an audit without outcomes"):
            audit(**changes).plan(outcomes=False)


@pytest.mark.parametrize(("n_audits", "quieter"), [(1, "laplace"), (20, "gaussian")])
def test_the_quieter_mechanism_is_taken(n_audits, quieter):
    known = {
        name: audit(mechanism=name, n_audits=n_audits).plan()
        for name in ("laplace", "gaussian", "auto")
    }
    assert known["auto"].noise.mechanism == quieter
    assert known["auto"].count_std == min(plan.count_std for plan in known.values())


def test_planned_audits_keep_the_budget_together(table):
    made = audit(n_audits=3)
    with PrivacyLedger(epsilon=1.0, delta=1e-6) as book:
        for _ in range(3):
            result = made.run(*table)
        assert result.privacy_.epsilon < 0.4
        with pytest.raises(BudgetExceededError):
            made.run(*table)
    assert book.epsilon_spent == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("form", ["scores", "two columns", "classes", "words", "booleans"])
def test_exact_counts_in_every_form(table, form):
    y, scores, groups = table
    predicted = (scores >= 0.5).astype(int)
    words = np.array(["no", "yes"])
    classes, truth, given = {
        "scores": ((0, 1), y, scores),
        "two columns": ((0, 1), y, np.column_stack([1.0 - scores, scores])),
        "classes": ((1, 2), y + 1, predicted + 1),
        "words": (("no", "yes"), words[y], pd.Series(words[predicted])),
        "booleans": ((False, True), y == 1, predicted == 1),
    }[form]
    result = audit(epsilon=math.inf, classes=classes).run(truth, given, groups)
    for label, cells in zip(LABELS, result.cells(), strict=True):
        inside = groups == label
        expected = np.bincount(2 * y[inside] + predicted[inside], minlength=4)
        assert cells.ravel().tolist() == expected.tolist()
    assert result.privacy_.epsilon == math.inf
    assert not result.is_private


def test_decisions_alone_are_counted(table):
    y, scores, groups = table
    whole = audit(epsilon=math.inf).run(y, scores, groups)
    chosen = np.where(scores >= 0.5, "yes", "no")
    for classes, taken in (((0, 1), scores), (("no", "yes"), chosen)):
        alone = audit(epsilon=math.inf, classes=classes).run(None, taken, groups)
        assert (alone.cells() == whole.cells().sum(axis=1, keepdims=True)).all()
        assert alone.rates() == whole.rates("selection_rate")
        assert alone.verdict() == whole.verdict()
    both = {"one": scores, "other": 1.0 - scores}
    for name, one in audit(epsilon=math.inf).run(None, both, groups).items():
        assert one.counts == audit(epsilon=math.inf).run(None, both[name], groups).counts
        assert one.n_cells == 2
    private, other = audit().run(None, scores, groups), audit().run(*table)
    assert private.privacy_.events == other.privacy_.events
    assert AuditResult.from_json(private.to_json()) == private


def test_groups_are_found_as_models_find_them(table):
    y, scores, groups = table
    frame = pd.DataFrame({"place": groups, "sex": np.where(np.arange(N) % 2, "f", "m")})
    labels = [(place, sex) for place in LABELS for sex in "fm"]
    both = audit(epsilon=math.inf, group_labels=labels).run(y, scores, frame)
    assert both.group_name == "place and sex"
    named = audit(epsilon=math.inf, group_by="place").run(y, scores, frame)
    assert named.group_name == "place"
    assert named.cells().sum(axis=(1, 2)).tolist() == [(groups == one).sum() for one in LABELS]
    called = audit(epsilon=math.inf, group_by=lambda rows: rows["place"]).run(y, scores, frame)
    assert called.counts == named.counts
    assert called.group_name == "group"


def test_hidden_and_public_sizes(table):
    hidden = audit().run(*table)
    assert hidden.sizes is None
    assert hidden.privacy_.relation == Relation.REPLACE_ONE
    assert hidden.privacy_.epsilon <= 1.0
    assert "the size of every group" not in hidden.privacy_.public
    public = audit(sizes="public").run(*table)
    assert public.sizes == tuple(int((table[2] == one).sum()) for one in LABELS)
    assert public.privacy_.relation == Relation.REPLACE_ONE_WITHIN_GROUP
    assert "the size of every group" in public.privacy_.public


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
def test_an_empty_group_is_one_of_which_nobody_can_tell(table):
    result = audit(group_labels=[*LABELS, "nobody"], random_state=0).run(*table)
    size = result.group_sizes()[3]
    assert size.low == 0.0 < size.high
    assert result.rates()[3].note == "fewer than three noise deviations"
    assert result.group_verdicts()[3].answer == "not judged"
    exact = audit(epsilon=math.inf, group_labels=[*LABELS, "nobody"]).run(*table)
    assert exact.rates()[3].note == "no records"
    assert exact.group_verdicts()[3].answer == "not judged"


def test_several_models_share_one_release(table):
    y, scores, groups = table
    models = {"one": scores, "other": 1.0 - scores, "third": np.full(N, 0.7)}
    exact = audit(epsilon=math.inf).run(y, models, groups)
    for name, result in exact.items():
        alone = audit(epsilon=math.inf).run(y, models[name], groups)
        assert result.counts == alone.counts
        assert result.n_cells == 4
    with PrivacyLedger(epsilon=1.01, delta=1e-6) as book:
        noisy = audit().run(y, models, groups)
    assert len(book.rows) == 1
    assert noisy["one"].privacy_ == noisy["third"].privacy_
    sizes = [result.cells().sum(axis=(1, 2)).tolist() for result in noisy.values()]
    assert sizes[0] == sizes[1] == sizes[2]
    alone = audit().run(*table).rates()[0]
    assert noisy["one"].rates()[0].width > alone.width


def test_bins_give_calibration_and_the_same_rates(table):
    y, scores, groups = table
    plain = audit(epsilon=math.inf).run(y, scores, groups)
    binned = audit(epsilon=math.inf, score_edges=(0.2, 0.5, 0.8)).run(y, scores, groups)
    assert (binned.cells() == plain.cells()).all()
    shown = binned.calibration("a")
    assert len(shown) == 4
    inside = (groups == "a") & (scores >= 0.5) & (scores < 0.8)
    assert shown[2].estimate == pytest.approx(y[inside].mean())
    with pytest.raises(ValueError, match="needs an audit with score_edges"):
        plain.calibration("a")
    with pytest.raises(ValueError, match="group must be one of"):
        binned.calibration("z")


def test_losses_are_clipped_means(table):
    y, scores, groups = table
    names = ("log_loss", "squared_error")
    exact = audit(epsilon=math.inf, losses=names).run(y, scores, groups)
    chance = np.where(y == 1, scores, 1.0 - scores)
    truth = {"log_loss": -np.log(np.maximum(chance, 0.01)), "squared_error": (y - scores) ** 2}
    for name in names:
        for rate in exact.rates(name):
            inside = groups == rate.group
            assert rate.estimate == pytest.approx(truth[name][inside].mean(), abs=1e-5)
            half = 1.96 * truth[name][inside].std() / math.sqrt(inside.sum())
            assert 2.0 * half < rate.width < 4.0 * half
    noisy = audit(epsilon=50.0, losses=names).run(y, scores, groups)
    assert noisy.rates("log_loss")[0].estimate == pytest.approx(
        exact.rates("log_loss")[0].estimate, abs=0.1
    )
    assert noisy.worst_groups("log_loss").groups
    assert noisy.privacy_.epsilon == pytest.approx(50.0, rel=1e-3)
    assert AuditResult.from_json(noisy.to_json()) == noisy


def released(losses, codes, epsilon=math.inf):
    """Return the rates of any losses: squared errors of scores, of negatives alone."""
    made = audit(epsilon=epsilon, group_labels=range(codes[-1] + 1), losses=("squared_error",))
    return made.run(np.zeros(len(codes), dtype=int), np.sqrt(losses), codes).rates("squared_error")


@pytest.mark.parametrize(("values", "side"), [((0.3, 1.0), "high"), ((0.0, 0.6), "low")])
def test_limits_of_losses_of_two_values_are_exact(values, side):
    """The upper one where the greater is the bound, the lower one where the smaller is 0."""
    hits, n = (0, 3, 40, 80), 80
    losses = np.concatenate([np.where(np.arange(n) < k, values[1], values[0]) for k in hits])
    for k, rate in zip(hits, released(losses, np.repeat(np.arange(4), n)), strict=True):
        limit = getattr(rate_interval(k, n), side)
        expected = values[0] + (values[1] - values[0]) * limit
        # a variance that is rounded to 0 or not
        assert getattr(rate, side) == pytest.approx(expected, abs=2e-4), k


@pytest.mark.parametrize("epsilon", [math.inf, 4.0, 1.0])
def test_intervals_of_losses_cover(epsilon):
    """Where one loss in a hundred is large; a normal interval holds in 78 % without noise."""
    rng = np.random.default_rng(0)
    losses = np.where(rng.random(300 * 300) < 0.01, 1.0, 0.002)
    rates = released(losses, np.repeat(np.arange(300), 300), epsilon)
    mean = 0.01 + 0.99 * 0.002
    assert np.mean([rate.low <= mean <= rate.high for rate in rates]) >= 0.94


@given(
    st.floats(-1.5, 1.5),
    st.floats(-1.5, 1.5),
    st.integers(-5, 60) | st.integers(1, 10**7),
    st.sampled_from([None, IntegerNoise("laplace", 3.0), IntegerNoise("gaussian", 9.0)]),
    st.booleans(),
)
def test_limits_of_losses_are_in_order_whatever_noise_made_of_sums(mean, square, n, noise, public):
    """And widen with the confidence."""
    stds = (0.0, 0.0) if noise is None else (12.0, 20.0)
    loss = LossSums("any", 4.0, (2.0 * mean * n,), (2.0 * square * n,), *stds)
    cells = np.array([[[n, 0], [0, 0]]])
    counted = CountedRates(cells, (1, 1), noise, (max(n, 0),) if public else None)
    inner, outer = (mean_interval(loss, 0, counted, level) for level in (0.9, 0.9999))
    assert 0.0 <= outer.low <= inner.low <= inner.high <= outer.high <= 4.0
    assert math.isnan(inner.estimate) or inner.low <= inner.estimate <= inner.high


def test_an_audit_of_the_records_of_a_fit_costs_both(table):
    y, scores, groups = table
    X = np.column_stack([scores, np.ones(N)])
    known = {"data_norm": 2.0, "radius": 1.0, "solver": "phased-erm"} | WITHIN_GROUP
    model = DPWorstGroupClassifier(epsilon=1.0, **known).fit(X, y, groups=groups)
    own = audit().run(y, scores, groups)
    both = audit().run(y, scores, groups, same_records_as=model)
    assert own.model_privacy_ is None
    assert both.model_privacy_ == model.privacy_
    assert 1.5 < both.privacy_.epsilon < 2.0
    assert both.privacy_.relation == Relation.REPLACE_ONE_WITHIN_GROUP
    by_guarantee = audit().run(y, scores, groups, same_records_as=model.privacy_)
    assert by_guarantee.privacy_.epsilon == pytest.approx(both.privacy_.epsilon)
    assert audit().run(y, scores, groups, model=model, same_records_as=True).model_privacy_
    other = audit().run(y, scores, groups, model=model, same_records_as=False)
    assert other.privacy_.epsilon <= 1.0
    with pytest.raises(ValueError, match="same_records_as must be the model where it was fitted"):
        audit().run(y, scores, groups, model=model)
    later = clone(model).set_params(start=model).fit(X, y, groups=groups)
    parts = [one.privacy_ for one in (model, later, own)]
    for said in ({"same_records_as": later}, {"model": later, "same_records_as": True}):
        total = audit().run(y, scores, groups, **said).privacy_
        assert total.epsilon == pytest.approx(joint_guarantee(parts, 1e-6).epsilon, rel=1e-9)
    half = slice(0, N // 2)
    assert audit().run(y[half], scores[half], groups[half], model=model).model_privacy_ is None


def test_a_ledger_counts_audits(table):
    with PrivacyLedger(epsilon=1.5, delta=1e-6) as book:
        audit().run(*table)
        with pytest.raises(BudgetExceededError, match="Nothing was spent"):
            audit().run(*table)
        with pytest.raises(ValueError, match="y_true must hold the classes"):
            audit(epsilon=0.1).run(np.full(N, 7), *table[1:])
    assert [row.what for row in book.rows] == ["GroupAudit"]
    assert book.epsilon_spent == pytest.approx(1.0, rel=1e-3)
    with (
        PrivacyLedger(epsilon=2.0, delta=1e-6, neighbours="replace-one"),
        pytest.raises(ValueError, match="says nothing of the neighbours 'replace-one'"),
    ):
        audit(sizes="public").run(*table)
    with PrivacyLedger(epsilon=9.0, delta=1e-6), pytest.raises(BudgetExceededError):
        audit(epsilon=math.inf).run(*table)


def test_result_holds_plain_values_alone(table):
    """Also of labels of NumPy's types, so that whatever is made of it can be written."""
    y, scores, groups = table
    numbers = np.array([LABELS.index(one) for one in groups])
    result = audit(group_labels=np.arange(3)).run(y, scores, numbers)
    assert [type(label) for label in result.group_labels] == [int] * 3
    assert AuditResult.from_json(result.to_json()) == result
    text = json.dumps(json.loads(result.to_json()))
    assert len(text) < 6_000


@pytest.mark.parametrize("kind", [np.int64, np.uint8, bool])
def test_whole_numbers_are_classes_in_whatever_order_these_are(kind):
    y = np.arange(N) % 2
    groups = np.resize(LABELS, N)
    for classes in ((0, 1), (1, 0)):
        exact = audit(epsilon=math.inf, classes=classes).run(y, y.astype(kind), groups)
        assert {rate.estimate for rate in exact.rates("error_rate")} == {0.0}, classes


SEEN: dict[str, tuple[dict, dict, str]] = {
    "epsilon": ({"epsilon": 0.0}, {}, "epsilon must be positive"),
    "no labels": ({"group_labels": None}, {}, "group_labels must be declared where epsilon is fin"),
    "labels twice": ({"group_labels": ["a", "b", "a"]}, {}, "must name each group once, got 'a'"),
    "NaN group": ({}, {"groups": [None] * N}, "groups contains NaN or None"),
    "unknown label": ({}, {"groups": ["z"] * N}, "groups must hold labels"),
    "y outside": ({}, {"y_true": np.full(N, 2)}, "y_true must hold the classes 0 and 1 alone"),
    "scores NaN": ({}, {"scores": np.full(N, np.nan)}, "scores must be probabilities between"),
    "median": ({"threshold": "median"}, {}, "threshold must be a number fixed in advance"),
    "falling edges": ({"score_edges": (0.8, 0.5)}, {}, "score_edges must increase"),
    "sizes": ({"sizes": "secret"}, {}, "sizes must be 'hidden' or 'public', got 'secret'"),
    "losses": ({"losses": ["hinge"]}, {}, "losses must be some of log_loss, squared_error, got"),
    "one class": ({"classes": (1, 1)}, {}, "classes must be the negative and the positive class"),
    "short scores": ({}, {"scores": np.zeros(5)}, r"got shape \(5,\) for 600 records"),
    "no records": ({}, {"y_true": [], "scores": [], "groups": []}, "at least one record, got none"),
    "many models": (
        {},
        {"scores": {str(i): np.zeros(N) for i in range(6)}},
        "at most 5 models at once, got 6: audit each by itself, with n_audits=6",
    ),
    "losses of no outcomes": (
        {"losses": ["log_loss"]},
        {"y_true": None},
        "losses must be left out of an audit without outcomes, got",
    ),
    "decisions of others": (
        {},
        {"y_true": None, "scores": ["no"] * N},
        r"decisions 0 and 1 alone, and some values differ; classes=\(negative, positive\) names",
    ),
    "missing decisions": (
        {"classes": ("no", "yes")},
        {"y_true": None, "scores": np.array(["no", "yes", None] * N, dtype=object)[:N]},
        r"decisions 'no' and 'yes' alone, and some values are missing; .* names others\.$",
    ),
    "no model": ({}, {"same_records_as": True}, "must be the model or its guarantee where no"),
}


@pytest.mark.parametrize("what", SEEN)
def test_one_sentence_before_anything_is_spent(what, table, monkeypatch):
    changes, inputs, said = SEEN[what]
    drawn = []
    monkeypatch.setattr(NoiseSource, "integers", lambda *args, **kwargs: drawn.append(args))
    given = dict(zip(("y_true", "scores", "groups"), table, strict=True)) | inputs
    with (
        PrivacyLedger(epsilon=2.0, delta=1e-6) as book,
        pytest.raises((TypeError, ValueError), match=said) as caught,
    ):
        audit(**changes).run(**given)
    assert drawn == []
    assert book.rows == []
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
def test_a_ledger_knows_that_noise_came_from_a_seed(table):
    release = Release("weights", "gaussian", 5.0, max_count=1)
    of_persons = PrivacyGuarantee.from_releases([release], 1e-6).for_records(2)
    with PrivacyLedger(9.0, 1e-6) as book:
        # what cannot be stated together is refused before it is spent
        with pytest.raises(ValueError, match="equally many records of a person"):
            audit().run(*table, same_records_as=of_persons)
        assert book.rows == []
        result = audit(random_state=0).run(*table)
    assert result.privacy_.seeded
    assert book.guarantee.seeded
    assert book.report()["seeded"].tolist() == [True]


@pytest.mark.parametrize("n_before", [0, 1])
def test_an_error_is_charged_and_says_so_once_something_is_released(n_before, table, monkeypatch):
    draw, drawn = NoiseSource.integers, []

    def fail(self, counts, **kwargs):
        if len(drawn) == n_before:
            raise KeyboardInterrupt
        drawn.append(counts)
        return draw(self, counts, **kwargs)

    monkeypatch.setattr(NoiseSource, "integers", fail)
    with PrivacyLedger(1.5, 1e-6) as book, pytest.raises(KeyboardInterrupt) as caught:
        audit(losses=("squared_error",)).run(*table)
    assert len(book.rows) == n_before
    notes = getattr(caught.value, "__notes__", [])
    assert [("as spent" in note) for note in notes] == [True] * n_before
