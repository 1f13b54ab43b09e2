"""Parameters of solvers: what is refused, and in which words."""

import math

import pytest

from sklearn_dpwg._checks import (
    Rules,
    any_number,
    at_least_zero,
    key_of,
    one_of,
    positive,
    share,
    whole,
    within,
)
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.losses import BinaryLogLoss, SquaredError
from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.prefix_sums import PREFIX_SUMS
from sklearn_dpwg.solvers import AGS, GDA, MGR, OCO, Moments, PhasedERM

SOLVERS = {each.__name__: each for each in (AGS, MGR, PhasedERM, OCO, Moments, GDA)}
NUMBERS = [0, -1, 2.5, 1, 21, 1.0, 0.5, 0.0, 101, math.nan, math.inf, 1e-40]
VALUES = [None, True, "a", *NUMBERS]
POSITIVE = [2.5, 1, 21, 1.0, 0.5, 101, 1e-40]
ONE_OF_SCHEDULES = "one of ('planned', 'paper')"

# Of every rule a parameter, the sentence's end, and which of the values are allowed.
TABLE = [
    ("AGS", "n_steps", "a positive whole number", [None, 1, 21, 101]),
    ("AGS", "schedule", ONE_OF_SCHEDULES, []),
    ("AGS", "risk_share", "between 0 and 1", [None, 0.5, 1e-40]),
    ("AGS", "loss_ceiling", "a number", [None, 0, -1, 0.0, math.inf, *POSITIVE]),
    ("AGS", "aim", "positive and finite", POSITIVE),
    ("AGS", "step_size", "positive and finite", [None, *POSITIVE]),
    ("AGS", "averaging", "above 0, at most 1", [1, 1.0, 0.5, 1e-40]),
    ("PhasedERM", "max_passes", "a positive whole number", [1, 21, 101]),
    ("PhasedERM", "mu_weights", "positive and finite", [None, 2.5, 1, 21, 1.0, 0.5, 101]),
    ("PhasedERM", "mu_groups", "positive or infinite", [None, 2.5, 1, 21, 1.0, 0.5, 101, math.inf]),
    ("PhasedERM", "averaging", "above 0, at most 1", [None, 1, 1.0, 0.5, 1e-40]),
    ("PhasedERM", "sharpening", "from 1 to 10", [None, 2.5, 1, 1.0]),
    ("OCO", "averaging", "from 0 to 100", [0, 2.5, 1, 21, 1.0, 0.5, 0.0, 1e-40]),
    ("PhasedERM", "horizon", "a whole number from 1 to 128", [1, 21, 101]),
    ("OCO", "play", "one of ('weighted', 'sampled')", [None]),
    ("OCO", "noise", "one of ('independent', 'toeplitz', 'tree')", [None]),
    ("Moments", "n_rounds", "a whole number from 1 to 20", [1]),
    ("Moments", "ridge", "at least 0 and finite", [0, 0.0, *POSITIVE]),
]

# The words of a rule, with whether None is allowed.
RULES = {
    ("a positive whole number", False): whole(),
    ("a positive whole number", True): whole(or_none=True),
    ("a whole number from 1 to 20", False): whole(1, 20),
    ("a whole number from 1 to 128", False): whole(1, 128),
    ("positive and finite", False): positive(),
    ("positive and finite", True): positive(or_none=True),
    ("positive or infinite", True): positive(least=1e-30, or_infinite=True, or_none=True),
    ("between 0 and 1", True): share(or_none=True),
    ("above 0, at most 1", False): share(or_all=True),
    ("above 0, at most 1", True): share(or_all=True, or_none=True),
    ("from 1 to 10", True): within(1.0, 10.0, or_none=True),
    ("from 0 to 100", False): within(0.0, 100.0),
    ("a number", True): any_number(or_none=True),
    ("at least 0 and finite", False): at_least_zero(),
    ("at least 0 and finite", True): at_least_zero(or_none=True),
    ("one of ('weighted', 'sampled')", True): one_of("weighted", "sampled", or_none=True),
    (ONE_OF_SCHEDULES, False): one_of("planned", "paper"),
    ("one of ('independent', 'toeplitz', 'tree')", True): key_of(PREFIX_SUMS, or_none=True),
}


class _Parameters:
    def __init__(self, **parameters):
        vars(self).update(parameters)


def _sentence(owner, name, wanted, value):
    if name in ("mu_weights", "mu_groups") and value == 1e-40:
        wanted = "at least 1e-30"
    return f"{name} of {owner} must be {wanted}, got {value!r}."


def _is_allowed(value, allowed):
    return any(
        value is other or (value == other and type(value) is type(other)) for other in allowed
    )


@pytest.mark.parametrize(("owner", "name", "wanted", "allowed"), TABLE)
def test_a_rule_refuses_in_the_words_recorded(owner, name, wanted, allowed):
    rule = (
        positive(least=1e-30, or_none=True)
        if name == "mu_weights"
        else RULES[wanted, None in allowed]
    )
    rules = Rules(owner, **{name: rule})
    for value in VALUES:
        if _is_allowed(value, allowed):
            rules.check(_Parameters(**{name: value}))
        else:
            with pytest.raises(ValueError, match=" of ") as caught:
                rules.check(_Parameters(**{name: value}))
            assert str(caught.value) == _sentence(owner, name, wanted, value)


@pytest.mark.parametrize("owner", SOLVERS)
def test_a_solver_refuses_by_the_name_of_its_parameter(owner):
    loss = SquaredError() if owner == "Moments" else BinaryLogLoss()
    problem = Problem(loss, (500, 500), 3, radius=5.0, prior=(0.5, 0.5))
    for name in SOLVERS[owner]().get_params(deep=False):
        with pytest.raises((ValueError, TypeError), match=f"^{name} of {owner} must be"):
            SOLVERS[owner](**{name: "a"}).plan(problem, Budget(1.0, 1e-6))


def test_rules_come_in_order_and_relations_last():
    def a_is_below_b(parameters):
        if parameters.a >= parameters.b:
            raise ValueError("a of It must be below b.")

    rules = Rules("It", a_is_below_b, b=positive(), a=positive())
    rules.check(_Parameters(a=1, b=2))
    for a, b, wanted in ((-1, 0, "^b of"), (-1, 1, "^a of It must be p"), (2, 1, "be below b")):
        with pytest.raises(ValueError, match=wanted):
            rules.check(_Parameters(a=a, b=b))
