"""Best response: slopes, and how many rounds.

*slopes*: excess population risk against records K and ε on the hard family of
``benchmarks/rates.py``, with phases and with gradient steps as the base, beside the theorem's sum
a √(p/K) + b p√d/(Kε) with the same two constants for every sweep. *classification*: excess on the
training records (ε = 1 and 4, δ = 1e-5) of both bases. *rounds*: the same for numbers of rounds
with gradient steps, and *regression* for noisy moments. Means of the seeds, with standard errors.

    python benchmarks/best_response.py [slopes] [classification] [rounds] [regression]
"""

from __future__ import annotations

import rates
from common import excess_table, run_tables

from sklearn_dpwg.solvers import MGR, BestResponse, Moments, PhasedERM
from sklearn_dpwg.solvers.descent import mgr as mixture
from sklearn_dpwg.solvers.solver import Solver

N_SEEDS = 5
BASES: dict[str, Solver] = {"phases": BestResponse(), "steps": BestResponse(MGR())}
ROWS = ("adult", "law-school", "compas")
TARGETS = ("cps-hourly-earnings", "cps-weekly-wages")
SWEPT = (0, 2, 3)  # of `SWEEPS`: K where noise rules, K where sampling rules, and ε


def slopes() -> None:
    """Print excess and slopes on the hard family."""
    rates.SOLVERS, rates.N_SEEDS = BASES, N_SEEDS
    rates.report_sweeps(rates.hard_worlds, [rates.SWEEPS[index] for index in SWEPT])


def table(title: str, names: tuple[str, ...], solvers: dict[str, Solver]) -> None:
    """Print the excess of solvers on data sets at two budgets."""
    variants = {name: {"solver": solver} for name, solver in solvers.items()}
    for epsilon in (1.0, 4.0):
        print()
        excess_table(
            f"{title}, ε = {epsilon:g}", variants, names, N_SEEDS, zero=True, epsilon=epsilon
        )


def classification() -> None:
    """Print the two bases for the log loss."""
    table("log loss", ROWS, BASES)


def rounds() -> None:
    """Print numbers of rounds of gradient steps, also such as plans do not choose."""
    numbers = [*mixture.CALLS[2:], 16]
    solvers = {f"{n} rounds": BestResponse(MGR(), n_rounds=n) for n in numbers}
    table("rounds of gradient steps", ROWS[:2], solvers | {"MGR": MGR()})


def regression() -> None:
    """Print the bases for the squared error, beside the solvers that they come from."""
    solvers = {"moments": BestResponse(Moments()), **BASES}
    table("squared error", TARGETS, solvers | {"Moments": Moments(), "PhasedERM": PhasedERM()})


if __name__ == "__main__":
    run_tables({each.__name__: each for each in (slopes, classification, rounds, regression)})
