"""The page of fidelity: what it says of the code is true, nothing of the papers is left out."""

import ast
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq

from sklearn_dpwg.privacy import Budget
from sklearn_dpwg.privacy.gaussian import gdp_delta
from sklearn_dpwg.solvers import AGS, MGR, OCO, OnlineToBatch, PhasedERM
from sklearn_dpwg.solvers.online_to_batch import round_weight
from tests.helpers.group_data import make_problem
from tests.helpers.saddle_bounds import lemma3_sensitivity, saddle_point_sensitivity

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "theory" / "fidelity.md"
TEXT = PAGE.read_text(encoding="utf-8")
DELTA = 1e-6


# --- what the code says ------------------------------------------------------------------------


@cache
def problem_of(*sizes, n_features=10, radius=3.0):
    return make_problem(sizes, n_features=n_features, radius=radius, scaling=0.0)


@cache
def plan_of(solver, *sizes, epsilon=1.0, n_features=10, radius=3.0, **parameters):
    problem = problem_of(*sizes, n_features=n_features, radius=radius)
    return solver(schedule="paper", **parameters).plan(problem, Budget(epsilon, DELTA))


def each_phase(plan):
    phases = plan.schedule
    return [phases.phase(t, np.asarray(phases.solved.prior)) for t in range(phases.n_phases)]


def facts_of(problem, *names, **others):
    """Return what sensitivities of saddle points follow from."""
    names = ("lipschitz", "loss_range", "group_sizes", *names)
    return {name: getattr(problem, name) for name in names} | others


@cache
def fraction_of_lemma_3():
    """Largest over the plans that docs/theory/phased-erm.md names."""
    fractions = []
    for n in (100, 10_000):
        for n_groups, radius in ((2, 20.0), (16, 1.0)):
            plan = plan_of(PhasedERM, *(n,) * n_groups, epsilon=10.0, radius=radius)
            solved = plan.schedule.solved
            for phase in each_phase(plan):
                strengths = {
                    "strong_convexity": phase.mu_weights,
                    "entropy_weight": phase.mu_groups,
                }
                of_the_paper = lemma3_sensitivity(**facts_of(solved), **strengths)
                fractions.append(phase.sensitivity / of_the_paper)
    return max(fractions)


def fraction_of_lemma_3_for_exact_solutions():
    """In the limit of a small range of losses it is what one group has."""
    facts = {"group_sizes": [50], "lipschitz": 1.0, "loss_range": 1e-9, "strong_convexity": 0.1}
    proved = saddle_point_sensitivity(**facts, gradient_diameter=2.0, prior=[1.0], entropy_weight=1)
    return proved / lemma3_sensitivity(**facts, entropy_weight=1.0)


def least_failing_epsilon(delta):
    """Where the multiplier √(2 log(1/δ))/ε no longer keeps δ."""
    root = math.sqrt(2.0 * math.log(1.0 / delta))
    return brentq(lambda e: math.log(gdp_delta(e, e / root) / delta), 0.5, 50.0)


def largest_difference_over_the_papers(power):
    """Largest Δ_t over that of (6) before the factor of the tree, Γ = 2G as for the hinge."""
    schedule = plan_of(OnlineToBatch, 50).schedule
    hinge = SimpleNamespace(pair_diameter=2.0, smoothness=1.0)
    proved = replace(schedule, problem=hinge, rounding=0.0, stretch=1.0)
    fractions, total = [], 0.0
    for t in range(1, 60):
        weight, before = round_weight(t, power), round_weight(t - 1, power)
        total += weight
        for distance in (0.0, 0.1, 1.0, 4.0, 50.0) if t > 1 else (0.0,):
            papers = 2.0 * (power + 1.0) * (1.0 + distance) * t ** (power - 1.0)
            fractions.append(proved.sensitivity(weight, before, weight / total * distance) / papers)
    return max(fractions)


def factor_at_a_small_epsilon():
    remark = plan_of(MGR, 900, 900, epsilon=0.01).schedule.remark
    assert "constant 1 costs" in remark
    return float(remark.rsplit(" ", 1)[1])


def noises_of_a_wrong_choice():
    plan = plan_of(AGS, 300, 300)
    problem, n_steps = plan.problem, plan.schedule.averaged
    gradient, risks = plan.releases
    sigma = gradient.noise_multiplier * plan.schedule.gradient_diameter / 300
    tau = risks.noise_multiplier * plan.schedule.loss_sensitivity / 300
    regret = math.sqrt((problem.lipschitz**2 + 10 * sigma**2) / n_steps) * problem.diameter
    largest = 8.0 * tau * math.log(2 * 300 * n_steps / 2)
    return (plan.predicted_excess - regret) / largest


# What stands in the text, {} for numbers; what they are; how far from it they may be.
COMPUTED = [
    ("with {} for an open constant", factor_at_a_small_epsilon, 1e-9),
    ("at most {} of Lemma 3's", fraction_of_lemma_3, 0.005),
    ("from ε = {} on at", lambda: least_failing_epsilon(1e-3), 0.05),
    ("from {} on at", lambda: least_failing_epsilon(1e-12), 0.05),
    ("proves {} of it for exact saddle points", fraction_of_lemma_3_for_exact_solutions, 1e-6),
    ("{} fresh records", lambda: sum(plan_of(OCO, 99, 99).schedule.weight_rates), 0),
    ("which errs by that of {} |", noises_of_a_wrong_choice, 1e-9),
    ("at the planned k = {} at most {} of it", lambda: (OnlineToBatch().exponent, 0.5), 0),
]


# --- numbers of the page that are not the papers' own -------------------------------------------

WORDS = {"half": 0.5, "two thirds": 2 / 3, "two": 2.0, "three": 3.0, "four": 4.0, "√2": 2**0.5}
NUMBER = rf"({'|'.join(WORDS)}|\d+(?:\.\d+)?)"


@pytest.mark.parametrize(("phrase", "compute", "tolerance"), COMPUTED)
def test_numbers_are_the_codes(phrase, compute, tolerance):
    (match,) = re.finditer(re.escape(phrase).replace(re.escape("{}"), NUMBER), TEXT)
    stated = [WORDS.get(word) or float(word) for word in match.groups()]
    np.testing.assert_allclose(stated, np.atleast_1d(compute()), rtol=0, atol=tolerance + 1e-12)


# --- what is said without a number -------------------------------------------------------------


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_differences_are_never_above_the_papers(power):
    fraction = largest_difference_over_the_papers(power)
    assert fraction == pytest.approx(0.5) if power == 1.0 else fraction <= 1.0


# --- every name on the page exists, and nothing of the papers is left out ------------------------

VERDICTS = ("as written", "better", "different", "not in the code")

# The papers' own numbers; a kind's numbers are shared by none of the other kinds here.
NUMBERED = {
    "Zhou": {
        "Algorithm": [1, 2, 3, 4, 5],
        "Definition": [1, 5],
        "Lemma": [3, 4, 12],
        "Theorem": [2, 6, 7, 9, 10, 11, 13, 14],
        "Corollary": [8],
    },
    "Kang": {
        "Algorithm": [1],
        "Assumption": [1, 2, 3, 4, 5],
        "Definition": list(range(1, 8)),
        "Lemma": list(range(1, 14)),
        "Theorem": list(range(1, 7)),
        "Corollary": [1, 2],
        "Remark": list(range(1, 9)),
    },
    "Zhang": {
        "Algorithm": [1, 2],
        "Assumption": list(range(1, 8)),
        "Definition": list(range(1, 7)),
        "Lemma": [7, 13, 15, 16, 18, 20, 22, 23, 24, 25],
        "Theorem": [1, 3, 4, 6, 8, 10, 11, 17, 19],
        "Proposition": [14, 21],
        "Remark": [2, 5, 9, 12],
    },
}


def sections(text: str) -> dict[str, list[list[str]]]:
    """Map the first author of each part to the cells of its rows."""
    result = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        author = re.match(r"\w+", part)
        rows = [line for line in part.splitlines() if line.startswith("| ")][1:]
        # a bar in a formula is written as a command
        result[author[0]] = [
            [cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows
        ]
    return result


@pytest.fixture(scope="module")
def defined():
    """All names that the package defines, members as ``Class.name`` too, and the tests."""
    result = set()
    for path in [*ROOT.glob("sklearn_dpwg/**/*.py"), *ROOT.glob("tests/**/test_*.py")]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            result |= set(names_of(node))
            for member in getattr(node, "body", ()) if isinstance(node, ast.ClassDef) else ():
                of_class = names_of(member)
                result |= {*of_class, *(f"{node.name}.{name}" for name in of_class)}
    return result


def names_of(node: ast.stmt) -> list[str]:
    """Return what a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def missing(place: str, defined: set[str]) -> list[str]:
    """Return what a cell names that is not in the tree: names, pages and benchmarks."""
    wrong = []
    for role, reference in re.findall(r"(\{doc\})?`([^`]+)`", place):
        if role or "/" in reference:
            there = PAGE.with_name(f"{reference}.md") if role else ROOT / reference
            is_there = there.is_file()
        else:
            is_there = re.sub(r"[(=].*", "", reference) in defined
        wrong += [] if is_there else [reference]
    return wrong


def named(cell: str) -> set[tuple[str, int]]:
    """Return the numbered statements that a row is about: those before its first comma or verb."""
    result = set()
    for kind, first, to, last, second in re.findall(
        r"\b(Algorithm|Assumption|Corollary|Definition|Lemma|Proposition|Remark|Theorem)s? (\d+)"
        r"(?:( to )(\d+)| and (\d+))?",
        cell,
    ):
        result |= {(kind, number) for number in range(int(first), int(last if to else first) + 1)}
        result |= {(kind, int(second))} if second else set()
    return result


@pytest.fixture(scope="module")
def parts():
    return sections(TEXT)


def test_every_name_exists(parts, defined):
    rows = [row for part in parts.values() for row in part]
    assert len(rows) > 60
    assert all(len(row) == 3 and re.search(r"`[^`]+`", row[1]) for row in rows)
    assert all(row[2].startswith(VERDICTS) for row in rows)
    assert missing(TEXT, defined) == []


@pytest.mark.parametrize("author", NUMBERED)
def test_nothing_of_the_papers_is_left_out(parts, author):
    result = set().union(*(named(row[0]) for row in parts[author]))
    assert result == {(kind, number) for kind, all_ in NUMBERED[author].items() for number in all_}
