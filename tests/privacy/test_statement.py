"""What the words of a guarantee say."""

import math
import re
from pathlib import Path

import pytest

import sklearn_dpwg
from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.privacy import Release
from sklearn_dpwg.privacy.statement import rounded_up
from tests.helpers.guarantees import guarantee_of, words


def test_statement_holds_the_facts(gaussian, mixed):
    message = words(gaussian)
    for fact in (
        "epsilon = 1 at delta = 1e-06",
        "one record of one group is replaced by any other record of the same group",
        "which group each record is in; the group sizes.",
        "one row",
        "for_records(k)",
        "errors, warnings, logs, progress and scores on records",
        "time that the computation took",
        "preprocessing",
        "cannot be computed again",
        "2 disjoint parts",
        "PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)",
        "sensitivity",
    ):
        assert fact in message
    for event in gaussian.events:
        assert repr(event) in str(gaussian)
    assert "void" not in message
    assert "The guarantee is void for anyone who knows or can guess the seed" in words(mixed)
    assert "floating point" not in message  # what rounding does to sums is proved and paid for
    assert max(map(len, str(gaussian).split("To check it")[0].splitlines())) <= 88


@pytest.mark.parametrize("n_iter", [1, 50])
def test_a_search_says_no_more_than_its_epsilon_and_delta_imply(n_iter):
    guarantee = (
        DPSearchCV(DPWorstGroupClassifier(), {}, epsilon=1.0, n_iter=n_iter).plan().guarantee
    )
    guess = float(re.search(r"right at most ([\d.]+)% of the time", words(guarantee))[1])
    fraction = math.exp(guarantee.epsilon) / (1.0 + math.exp(guarantee.epsilon))
    assert guess <= 100.0 * (fraction + (1.0 - fraction) * guarantee.delta) + 0.0101
    caught = float(re.search(r"detects it at most ([\d.]+)%", words(guarantee))[1])
    most = 0.05 * math.exp(guarantee.epsilon) + guarantee.delta
    assert caught <= 1.02 * 100.0 * most  # duality runs over a grid of ε


def test_the_code_in_the_statement_runs(gaussian, mixed):
    sampled = guarantee_of([Release("g", "gaussian", 1.0, 10, sampling_rate=0.1)])
    parts = guarantee_of(
        [
            Release("g", "gaussian", 1.0, 10, sampling_rate=0.1, part=0),
            Release("g", "gaussian", 5.0, 10, part=1),
        ]
    )
    search = DPSearchCV(DPWorstGroupClassifier(), {}, epsilon=2.0, n_iter=3).plan().guarantee
    for guarantee in (gaussian, mixed, sampled, parts, search):
        lines = [line[2:] for line in str(guarantee).split("To check it")[1].splitlines()]
        code = lines[next(i for i, line in enumerate(lines) if line.startswith("from")) :]
        scope = {}
        exec("\n".join(code[:-1]), scope)
        assert len(scope["epsilons"]) == len(guarantee.events)
        # dp_accounting looks at fewer orders of Rényi divergence, so it finds a little more
        tolerance = 5e-3 if guarantee is search else 1e-3
        assert eval(code[-1], scope) == pytest.approx(guarantee.epsilon, rel=tolerance)


def test_a_spent_epsilon_is_never_rounded_down():
    """At 3.868453 a page would say 3.869 and a terminal 3.868 of one sum."""
    spent = 3.868453647099273
    assert rounded_up(spent) == "3.869"
    assert rounded_up(3.868) == "3.868"
    down = re.compile(r"\{[^{}]*(epsilon\w*|delta|spent|total):\.?\d*[fg]\}")
    wrong = {
        f"{path.name}: {result[0]}"
        for path in Path(sklearn_dpwg.__file__).parent.rglob("*.py")
        for result in down.finditer(path.read_text(encoding="utf-8"))
    }
    assert not wrong
