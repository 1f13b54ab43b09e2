"""Rules of parameters: what is refused, and in which words."""

import math

import pytest

from sklearn_dpwg._checks import (
    Rules,
    above,
    any_number,
    at_least_zero,
    flag,
    fraction,
    inside,
    key_of,
    one_of,
    positive,
    whole,
    within,
)
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.solvers import AGS, GDA, MGR, OCO, Moments, PhasedERM

SOLVERS = {each.__name__: each for each in (AGS, MGR, PhasedERM, OCO, Moments, GDA)}
POSITIVE = [2.5, 1, 21, 1.0, 0.5, 101, 1e-40]
VALUES = [None, True, "a", 0, -1, 0.0, math.nan, math.inf, *POSITIVE]

# Rules, what they say of others, and which of the values they allow.
TABLE = [
    (whole(), "a positive whole number", [1, 21, 101]),
    (whole(or_none=True), "a positive whole number", [None, 1, 21, 101]),
    (whole(1, 20), "a whole number from 1 to 20", [1]),
    (positive(), "positive and finite", POSITIVE),
    (positive(or_infinite=True, or_none=True), "positive or infinite", [None, math.inf, *POSITIVE]),
    (fraction(or_none=True), "between 0 and 1", [None, 0.5, 1e-40]),
    (fraction(or_all=True), "above 0, at most 1", [1, 1.0, 0.5, 1e-40]),
    (within(1.0, 10.0, or_none=True), "from 1 to 10", [None, 2.5, 1, 1.0]),
    (above(0.5, most=1.0), "above 0.5 and at most 1", [1, 1.0]),
    (inside(0.0, 1.0), "strictly between 0 and 1", [0.5, 1e-40]),
    (any_number(), "a number", [0, -1, 0.0, math.inf, *POSITIVE]),
    (at_least_zero(), "at least 0 and finite", [0, 0.0, *POSITIVE]),
    (one_of("a", "b"), "one of ('a', 'b')", ["a"]),
    (key_of({"b": 1, "a": 2}, or_none=True), "one of ('a', 'b')", [None, "a"]),
    (flag(), "True or False", [True]),
]


class _Parameters:
    def __init__(self, **parameters):
        vars(self).update(parameters)


@pytest.mark.parametrize(("rule", "text", "allowed"), TABLE)
def test_a_rule_refuses_all_but_what_it_allows(rule, text, allowed):
    rules = Rules("It", x=rule)
    for value in VALUES:
        if any(value is one or (value == one and type(value) is type(one)) for one in allowed):
            rules.check(_Parameters(x=value))
        else:
            with pytest.raises(ValueError, match=" of It must be ") as caught:
                rules.check(_Parameters(x=value))
            assert str(caught.value) == f"x of It must be {text}, got {value!r}."


@pytest.mark.parametrize("owner", SOLVERS)
def test_a_solver_refuses_by_the_name_of_its_parameter(owner):
    loss = SquaredError() if owner == "Moments" else BinaryLogLoss()
    problem = Problem(loss, (500, 500), 3, radius=5.0, prior=(0.5, 0.5))
    for name in SOLVERS[owner]().get_params(deep=False):
        with pytest.raises((ValueError, TypeError), match=f"^{name} of {owner} must be"):
            SOLVERS[owner](**{name: "a"}).plan(problem, Budget(1.0, 1e-6))
