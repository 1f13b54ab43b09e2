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
from scipy.stats import chi2

from sklearn_dpwg import losses
from sklearn_dpwg.privacy import Budget, Release, calibrate
from sklearn_dpwg.privacy.gaussian import gdp_delta
from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums
from sklearn_dpwg.solvers import AGS, GDA, MGR, OCO, OnlineToBatch, PhasedERM
from sklearn_dpwg.solvers.online_to_batch import round_weight
from sklearn_dpwg.solvers.rounds import certified, rounding_of_minimiser
from tests.helpers.group_data import make_data, make_problem
from tests.helpers.neighbours import random_records
from tests.helpers.replay import silent
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
def share_of_lemma_3():
    """Largest over the plans that docs/theory/phased-erm.md names."""
    shares = []
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
                shares.append(phase.sensitivity / of_the_paper)
    return max(shares)


def share_of_lemma_3_for_exact_solutions():
    """In the limit of a small range of losses it is what one group has."""
    facts = {"group_sizes": [50], "lipschitz": 1.0, "loss_range": 1e-9, "strong_convexity": 0.1}
    proved = saddle_point_sensitivity(**facts, gradient_diameter=2.0, prior=[1.0], entropy_weight=1)
    return proved / lemma3_sensitivity(**facts, entropy_weight=1.0)


def least_failing_epsilon(delta):
    """Where the multiplier √(2 log(1/δ))/ε no longer keeps δ."""
    root = math.sqrt(2.0 * math.log(1.0 / delta))
    return brentq(lambda e: math.log(gdp_delta(e, e / root) / delta), 0.5, 50.0)


def factor_of_a_finite_strength():
    """Of the noise at μ_λ = B/10 over that of fixed weights, in units of K/n_min."""
    sizes = (18_000, 1_300, 1_000)
    problem = problem_of(*sizes)
    facts = facts_of(problem, "gradient_diameter", "prior", strong_convexity=0.01)
    finite, fixed = (
        saddle_point_sensitivity(**facts, entropy_weight=at)
        for at in (problem.loss_range / 10.0, math.inf)
    )
    return finite / fixed / (sum(sizes) / min(sizes))


def largest_difference_over_the_papers(power):
    """Largest Δ_t over that of (6) before the factor of the tree, Γ = 2G as for the hinge."""
    schedule = plan_of(OnlineToBatch, 50).schedule
    hinge = SimpleNamespace(pair_diameter=2.0, smoothness=1.0)
    proved = replace(schedule, problem=hinge, rounding=0.0, stretch=1.0)
    shares, total = [], 0.0
    for t in range(1, 60):
        weight, before = round_weight(t, power), round_weight(t - 1, power)
        total += weight
        for distance in (0.0, 0.1, 1.0, 4.0, 50.0) if t > 1 else (0.0,):
            papers = 2.0 * (power + 1.0) * (1.0 + distance) * t ** (power - 1.0)
            shares.append(proved.sensitivity(weight, before, weight / total * distance) / papers)
    return max(shares)


def quieter_than_the_tree():
    both = [make_prefix_sums(name, n_steps=256, n_dimensions=1) for name in ("toeplitz", "tree")]
    return np.divide(*(each.worst_standard_deviation for each in both)), 256


def price_of_a_second_player():
    asked = [Release(str(k), "gaussian", 1.0, 9) for k in range(2)]
    two, one = (calibrate(asked[:n], Budget(1.0, DELTA))[0].noise_multiplier for n in (2, 1))
    return two / one


def steps_above_the_passes():
    """T, points that are averaged, where many more are asked for."""
    plans = [plan_of(solver, 9_000, 9_000, max_passes=7, radius=20.0) for solver in (MGR, AGS)]
    (steps,) = {plan.schedule.averaged - 7 for plan in plans}
    return steps


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


def constant_of_the_betting_regulariser():
    schedule = plan_of(OnlineToBatch, 50, learner="parameter-free", power=3.0).schedule
    facts = SimpleNamespace(lipschitz=3.0, smoothness=5.0)
    schedule = replace(schedule, problem=facts, effective_batch=1.0)
    slope, curve = schedule.regulariser(4.0, 0.0)
    assert slope / 3.0 == curve / 5.0
    return slope / (3.0 * 4**2.5)


def diameter_over_lipschitz():
    names = ("AbsoluteError", "BinaryLogLoss", "Hinge", "Huber", "Quantile", "SquaredError")
    constants = [getattr(losses, name)().constants(2.0) for name in names]
    return max(each.gradient_diameter / each.lipschitz for each in constants)


def power_of_level_noise():
    """The k at which the paper's node noise neither rises nor falls."""
    schedule = plan_of(OnlineToBatch, 50, power=0.0).schedule
    slope = math.log2(schedule.papers_sensitivity(2, 0.0) / schedule.papers_sensitivity(1, 0.0))
    return -slope


# What stands in the text, {} for numbers; what they are; how far from it they may be.
COMPUTED = [
    ("with {} for an open constant", factor_at_a_small_epsilon, 1e-9),
    ("at most {} of Lemma 3's", share_of_lemma_3, 0.005),
    ("from ε = {} on at", lambda: least_failing_epsilon(1e-3), 0.05),
    ("from {} on at", lambda: least_failing_epsilon(1e-12), 0.05),
    ("proves {} of it for exact saddle points", share_of_lemma_3_for_exact_solutions, 1e-6),
    ("{} fresh records", lambda: sum(plan_of(OCO, 99, 99).schedule.weight_rates), 0),
    ("{} of the noise at {} rounds", quieter_than_the_tree, 0.005),
    ("`max_passes` + {} |", steps_above_the_passes, 0),
    ("which errs by that of {} |", noises_of_a_wrong_choice, 1e-9),
    ("which costs {} in noise", price_of_a_second_player, 1e-4),
    ("gradients, at most {}G", diameter_over_lipschitz, 1e-9),
    ("for k < {} node noise", power_of_level_noise, 1e-9),
    ("at the planned k = {} at most {} of it", lambda: (OnlineToBatch().exponent, 0.5), 0),
    ("with constants {} and a planning bound", constant_of_the_betting_regulariser, 0),
]


# --- formulas that say what the code does ------------------------------------------------------


def _noise_of_theorem_2():
    plan = plan_of(PhasedERM, 400, 900)
    solved, root = plan.problem, math.log2(400) * math.log(1 / DELTA)
    eta = 2.0 / (plan.schedule.mu_weights[0] * plan.schedule.solved.group_sizes[0])
    square = 72.0 * 10 * max(solved.lipschitz, solved.loss_range) ** 2 * root * eta**2
    multipliers = np.array([release.noise_multiplier for release in plan.releases])
    stds = multipliers * [phase.sensitivity for phase in each_phase(plan)]
    papers = square * 0.5 ** np.arange(1, len(stds) + 1)
    return np.allclose(10 * stds**2, papers, rtol=1e-9) and square <= solved.diameter**2 * (
        1 + 1e-9
    )


def _slack_of_a_phase():
    solved, strengths = (
        plan_of(PhasedERM, 400, 900).schedule.solved,
        {"mu_weights": 0.3, "mu_groups": 0.1},
    )
    gap, paid = certified(solved, 0.01, **strengths)
    slack = paid - 0.01 - rounding_of_minimiser(solved, **strengths)
    return math.isclose(slack, 2.0 * math.sqrt(2.0 * gap / 0.3), rel_tol=1e-9)


def _phases_and_parts():
    plan = plan_of(PhasedERM, 700, 900)
    return plan.n_steps == 9 and plan.schedule.solved.group_sizes == (700 // 9,) * 2


def _room_of_a_sampled_game():
    plan = plan_of(OCO, 60, 60)
    schedule, loss_range = plan.schedule, plan.problem.loss_range
    game = OCO(schedule="paper").begin(plan, silent())
    room = 2.0 * schedule.feedback_multiplier * math.log(schedule.n_rounds)
    return (
        math.isclose(schedule.feedback_bound, loss_range * (1.0 + room), rel_tol=1e-9)
        and game._groups.loss_clip == 2.0 * schedule.feedback_bound
    )


def _rate_of_theorem_7():
    schedule = plan_of(OCO, 60, 60).schedule
    square = 2 * schedule.n_rounds * schedule.feedback_bound**2
    return math.isclose(schedule.group_rate, math.sqrt(math.log(2) / square), rel_tol=1e-9)


def _step_of_theorem_10():
    plan = plan_of(MGR, 900, 900)
    problem, schedule = plan.problem, plan.schedule
    sigma = plan.releases[0].noise_multiplier * schedule.gradient_diameter / 900
    square = schedule.averaged * (problem.lipschitz**2 + 10 * sigma**2)
    return math.isclose(schedule.step_size, problem.diameter / math.sqrt(square), rel_tol=1e-9)


def _constant_of_gda():
    """Sigma over the printed c is G √(T log(1/δ))/(Kε)."""
    plan = plan_of(GDA, 30, 70)
    problem, rho, n_steps = plan.problem, plan.schedule.ridge, plan.schedule.averaged
    of_weights = 100 / 30 * problem.lipschitz + rho * problem.diameter
    gradient = max(of_weights, 100 / 30 * problem.loss_range + math.sqrt(2.0) * rho)
    sigma = plan.releases[0].noise_multiplier * plan.schedule.gradient_diameter / 30
    constant = sigma * 100 / (gradient * math.sqrt(n_steps * math.log(1 / DELTA)))
    return plan.schedule.remark.endswith(f"budget: {constant:.3g}")


def _steps_of_gda():
    plan = plan_of(GDA, 30, 70, ridge=0.5)
    assert plan.schedule.ridge == 0.5
    n_steps = math.ceil(100 ** (2 / 3))
    return (plan.n_steps, plan.schedule.averaged) == (n_steps - 1, n_steps)


def _norms_of_a_normal_vector():
    """P(‖X‖ ≥ x) over exp(-x²/2)."""
    x = np.linspace(0.5, 4.0, 9)
    first, second, third = (chi2.sf(x**2, d) / np.exp(-(x**2) / 2) for d in (1, 2, 3))
    return (first < 1).all() and np.allclose(second, 1) and (third > 1).all()


# Each a function that is true; which formula it is, with words around it if it stands twice.
OF_THE_CODE = {
    r"$T=\lfloor\log_2n\rfloor$": _phases_and_parts,
    r"$\mu_\lambda=B/10$": lambda: abs(factor_of_a_finite_strength() - 1) < 0.01,
    r"$d\sigma_t^2=72dD^2\log_2n\log(1/\delta)2^{-t}\eta^2/\varepsilon^2\le2^{-t}M^2$": (
        _noise_of_theorem_2
    ),
    r"$[0,2U]$": _room_of_a_sampled_game,
    r"$U=B+\frac{2B}\varepsilon\log T$": _room_of_a_sampled_game,
    r"$\eta=\sqrt{\ln p/(pTU^2)}$": _rate_of_theorem_7,
    r"$T-1$ steps, averages of $w_1,\dots,w_T$ and $\lambda_1,": (
        lambda: (
            [getattr(plan_of(MGR, 900, 900).schedule, name) for name in ("averaged", "n_steps")]
            == [151, 150]
        )
    ),
    r"$\eta_w=M/\sqrt{T(L^2+d\sigma^2)}$": _step_of_theorem_10,
    r"$\sqrt{2\alpha/\mu_w}$ for each neighbour": _slack_of_a_phase,
    r"$(K/n_{\min})B+\sqrt2\rho$": _constant_of_gda,
    r"$\eta_t=1/(\rho t)$": _steps_of_gda,
    r"averages of $w_1,\dots,w_T$ (which": _steps_of_gda,
    r"$T=\lceil n^{2/3}\rceil$, $n=K$": _steps_of_gda,
    r"with σ = 1 for $d\le2$ alone (at 2 with equality)": _norms_of_a_normal_vector,
}


# --- numbers of the page that are not the papers' own -------------------------------------------

WORDS = {"half": 0.5, "two thirds": 2 / 3, "two": 2.0, "three": 3.0, "four": 4.0, "√2": 2**0.5}
NUMBER = rf"({'|'.join(WORDS)}|\d+(?:\.\d+)?)"


@pytest.mark.parametrize(("phrase", "compute", "tolerance"), COMPUTED)
def test_numbers_are_the_codes(phrase, compute, tolerance):
    (match,) = re.finditer(re.escape(phrase).replace(re.escape("{}"), NUMBER), TEXT)
    stated = [WORDS.get(word) or float(word) for word in match.groups()]
    np.testing.assert_allclose(stated, np.atleast_1d(compute()), rtol=0, atol=tolerance + 1e-12)


@pytest.mark.parametrize("formula", OF_THE_CODE)
def test_formulas_are_the_codes(formula):
    assert formula in TEXT
    assert OF_THE_CODE[formula]()


# --- what is said without a number -------------------------------------------------------------


def test_phases_are_solved_far_better_than_the_paper_asks():
    for plan in (plan_of(PhasedERM, 100, 100), plan_of(PhasedERM, 10**6, 10**6, radius=20.0)):
        solved, n = plan.schedule.solved, plan.schedule.solved.group_sizes[0]
        for phase in each_phase(plan):
            of_the_paper = solved.lipschitz**2 / phase.mu_weights
            of_the_paper += solved.loss_range**2 / phase.mu_groups
            assert phase.tolerance < 0.01 * of_the_paper / (8 * n**2)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_differences_are_never_above_the_papers(power):
    share = largest_difference_over_the_papers(power)
    assert share == pytest.approx(0.5) if power == 1.0 else share <= 1.0


def test_a_larger_group_has_less_noise_for_the_same_price():
    plan, source = plan_of(MGR, 30, 300, max_passes=20), silent()
    data = make_data(plan.problem, *random_records(plan.problem, np.random.default_rng(0)))
    MGR(schedule="paper").run(plan, data, source)
    gradients = [asked.noise_scale for asked in source.asked if asked.release is plan.releases[0]]
    assert max(gradients) / min(gradients) == pytest.approx(300 / 30)
    # phases read as many records of every group instead
    assert plan_of(PhasedERM, 64, 900).schedule.solved.group_sizes == (64 // 6,) * 2


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
    found = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        author = re.match(r"\w+", part)
        rows = [line for line in part.splitlines() if line.startswith("| ")][1:]
        # a bar in a formula is written as a command
        found[author[0]] = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    return found


@pytest.fixture(scope="module")
def defined():
    """All names that the package defines, members as ``Class.name`` too, and the tests."""
    found = set()
    for path in [*ROOT.glob("sklearn_dpwg/**/*.py"), *ROOT.glob("tests/**/test_*.py")]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            found |= set(names_of(node))
            for member in getattr(node, "body", ()) if isinstance(node, ast.ClassDef) else ():
                of_class = names_of(member)
                found |= {*of_class, *(f"{node.name}.{name}" for name in of_class)}
    return found


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
    found = set()
    for kind, first, to, last, second in re.findall(
        r"\b(Algorithm|Assumption|Corollary|Definition|Lemma|Proposition|Remark|Theorem)s? (\d+)"
        r"(?:( to )(\d+)| and (\d+))?",
        cell,
    ):
        found |= {(kind, number) for number in range(int(first), int(last if to else first) + 1)}
        found |= {(kind, int(second))} if second else set()
    return found


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
    found = set().union(*(named(row[0]) for row in parts[author]))
    assert found == {(kind, number) for kind, all_ in NUMBERED[author].items() for number in all_}
