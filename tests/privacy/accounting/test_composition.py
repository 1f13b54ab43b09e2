"""Compositions: of several results on disjoint parts, and what dominates several of them."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given
from hypothesis import strategies as st

from sklearn_dpwg.privacy.accounting import composition
from sklearn_dpwg.privacy.accounting.calibration import (
    composition_epsilon,
    worst_deltas,
    worst_epsilon,
)
from sklearn_dpwg.privacy.accounting.composition import (
    composition_of_event,
    event_of_composition,
    joint,
    joint_compositions,
)

multipliers = st.floats(0.5, 20.0)
gaussians = multipliers.map(dp_event.GaussianDpEvent)
laplaces = multipliers.map(dp_event.LaplaceDpEvent)
sampled = st.builds(dp_event.PoissonSampledDpEvent, st.floats(0.01, 0.9), gaussians)
selected = st.builds(
    dp_event.RepeatAndSelectDpEvent,
    st.one_of(gaussians, laplaces),
    st.sampled_from([2.0, 5.0]),
    st.just(1.0),
)
releases = st.one_of(gaussians, laplaces, sampled, selected)
parts = st.lists(releases, min_size=1, max_size=3).map(dp_event.ComposedDpEvent)
results = st.lists(st.lists(parts, min_size=1, max_size=3), max_size=4)


def dominates(worse, better):
    """Whether one has every release of the other, as often."""

    def counted(one):
        kinds = (one.laplace, one.sampled, one.selected, one.discrete)
        return Counter({(k, *r[:-1]): r[-1] for k, kind in enumerate(kinds) for r in kind})

    return worse.mu >= better.mu * (1 - 1e-12) and counted(better) <= counted(worse)


def combinations(results):
    chosen = itertools.product(*results)
    return [joint([composition_of_event(event) for event in events]) for events in chosen]


@given(results, st.sampled_from([1, 2, 5, 256]))
def test_every_overlap_of_parts_is_covered(results, most):
    """Whatever part of each result a record was in, some total dominates what it paid for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(composition, "_MAX_COMBINATIONS", most)
        totals = joint_compositions(results)
    assert len(totals) <= most
    for paid in combinations(results):
        assert any(dominates(total, paid) for total in totals)


@pytest.mark.parametrize("most", [1, 3])
def test_the_worst_of_each_result_costs_at_least_as_much(monkeypatch, most):
    """The same in numbers, kind by kind: noise alone, and the best of several runs."""

    def best(event):
        return dp_event.RepeatAndSelectDpEvent(event, 4.0, 1.0)

    g, b = dp_event.GaussianDpEvent, dp_event.LaplaceDpEvent
    few = dp_event.PoissonSampledDpEvent
    noisy = [[g(5.0), b(6.0)], [few(0.1, g(1.0)), g(7.0)], [b(9.0), few(0.3, g(2.0))]]
    runs = [[best(g(9.0)), best(b(8.0))], [best(g(10.0)), b(20.0)]]
    for results in (noisy, runs):
        with monkeypatch.context() as patch:
            patch.setattr(composition, "_MAX_COMBINATIONS", most)
            totals = joint_compositions(results)
        assert len(totals) <= most
        exact = combinations(results)
        assert len(exact) > most
        epsilons = np.linspace(0.0, 2.0, 9)
        assert np.all(worst_deltas(totals, epsilons) >= worst_deltas(exact, epsilons) - 1e-9)
        assert worst_epsilon(totals, 1e-5) >= worst_epsilon(exact, 1e-5) * (1 - 1e-6)


@pytest.mark.parametrize(
    "event",
    [
        dp_event.GaussianDpEvent(3.0),
        dp_event.LaplaceDpEvent(3.0),
        dp_event.DiscreteLaplaceDpEvent(0.25, 2),
        dp_event.PoissonSampledDpEvent(0.2, dp_event.GaussianDpEvent(1.0)),
        dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(20.0), 5.0, 1.0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_equal_releases_count_each_time(event):
    """Twice the same costs more than once, and as much as twice in one event."""
    once = composition_of_event(event)
    twice = joint([once, once])
    same = composition_of_event(dp_event.SelfComposedDpEvent(event, 2))
    assert replace(twice, mu=0.0) == replace(same, mu=0.0)
    assert twice.mu == pytest.approx(same.mu, rel=1e-12)
    again = composition_of_event(event_of_composition(same))
    assert (replace(again, mu=0.0), again.mu) == (replace(same, mu=0.0), pytest.approx(same.mu))
    assert composition_epsilon(twice, 1e-6) > 1.3 * composition_epsilon(once, 1e-6)
