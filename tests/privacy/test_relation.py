"""Relations: their order, what a guarantee says under another one, and mixtures."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest

from sklearn_dpwg.privacy import PrivacyGuarantee, Relation, Release, joint_guarantee
from sklearn_dpwg.privacy.gaussian import gdp_epsilon

NAMES = ("add-or-remove", "replace-one", "replace-one-within-group")


def guarantee_of(neighbours: str, mechanism: str = "gaussian") -> PrivacyGuarantee:
    releases = [Release("w", mechanism, 4.0, max_count=1)]
    return PrivacyGuarantee.from_releases(releases, 1e-6, relation=neighbours)


def test_relations_have_a_name_a_sentence_and_an_order():
    relations = [Relation(name) for name in NAMES]
    for name, relation in zip(NAMES, relations, strict=True):
        assert relation.short_name == name
        assert Relation(str(relation)) == Relation(relation) == str(relation)
        for twin in (copy.deepcopy(relation), pickle.loads(pickle.dumps(relation))):
            assert twin == relation
            assert type(twin) is Relation
    assert sorted(set(relations)) == relations
    assert len({*relations, *map(Relation, NAMES)}) == 3
    for wrong in ("replace", "", None, 3):
        with pytest.raises(ValueError, match="neighbours must be one of 'add-or-remove', "):
            Relation(wrong)


def test_a_guarantee_under_every_other_relation():
    for had, expected in itertools.product(NAMES, repeat=2):
        one = guarantee_of(had).for_records(3)
        if NAMES.index(had) > NAMES.index(expected):
            with pytest.raises(ValueError, match=f"for the neighbours '{had}' says nothing of"):
                one.under(expected)
            continue
        result = one.under(expected)
        assert result.relation == Relation(expected)
        doubled = had == "add-or-remove" != expected
        mu = 1.5 if doubled else 0.75
        assert result.epsilon == pytest.approx(gdp_epsilon(1e-6, mu), rel=1e-9)
        assert result.records_per_person == 3
        assert result.epsilon == pytest.approx(result.epsilon_at(1e-6), rel=1e-12)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_a_replacement_costs_as_much_as_two_records_of_add_or_remove(mechanism):
    """The profile is that of two steps, and no two steps are counted as two releases."""
    one = guarantee_of("add-or-remove", mechanism)
    result = one.under("replace-one")
    epsilons = np.linspace(0.0, 2.0, 21)
    np.testing.assert_allclose(result.profile(epsilons), one.for_records(2).profile(epsilons))
    composed = joint_guarantee([one, one], 1e-6).profile(epsilons)
    assert (result.profile(epsilons) >= composed - 1e-6).all()
    # group privacy by hand: delta(2e) of two steps is at most (1 + exp e) delta(e)
    bound = (1.0 + np.exp(epsilons / 2.0)) * one.profile(epsilons / 2.0)
    assert (result.profile(epsilons) <= bound + 1e-12).all()


def test_every_pair_together_is_stated_under_the_weaker():
    for first, second in itertools.product(NAMES, repeat=2):
        one, other = guarantee_of(first), guarantee_of(second)
        joint = joint_guarantee([one, other], 1e-6)
        weaker = max(Relation(first), Relation(second))
        assert joint.relation == weaker
        mus = [
            0.5 if name == "add-or-remove" != weaker.short_name else 0.25
            for name in (first, second)
        ]
        assert joint.epsilon == pytest.approx(gdp_epsilon(1e-6, math.hypot(*mus)), rel=1e-9)
