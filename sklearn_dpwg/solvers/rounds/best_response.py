"""Rounds of released group risks against a private solver for fixed mixtures."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from sklearn_dpwg._checks import Rules, accepted_by, share, whole
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.data.risks import Risks
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers.mixture import MixtureSolver, as_mixture_solver
from sklearn_dpwg.solvers.plan import Plan
from sklearn_dpwg.solvers.rounds.rounds import plan_of_rounds, run_rounds
from sklearn_dpwg.solvers.solver import Solution, Solver


@dataclass(eq=False, repr=False)
class BestResponseParameters:
    """Parameters of `BestResponse`, which documents them; ``None`` means planned."""

    base: str | MixtureSolver = "phased-erm"
    _: KW_ONLY
    n_rounds: int | None = None
    risk_share: float | None = None


RULES = Rules(
    "BestResponse",
    base=accepted_by(as_mixture_solver),
    n_rounds=whole(or_none=True),
    risk_share=share(or_none=True),
)


class BestResponse(BestResponseParameters, Solver):
    """Rounds of released group risks against a private solver for a fixed mixture of groups.

    In every round a base solver answers for the group weights of the round, around its last answer.
    The risks of the groups at that answer are released, and multiplicative weights raise the groups
    that do badly. ``None`` means planned from public facts.

    Parameters
    ----------
    base : str or solver, default="phased-erm"
        What answers: `PhasedERM`, whose phase is one exact regularised solution; `MGR`, some noisy
        gradient steps; or, for the squared error, `Moments`, the noisy moments of the mixture. An
        instance keeps its parameters, but those that this solver decides must be left open. Any
        other solver that fulfils the contract `sklearn_dpwg.solvers.MixtureSolver` will do.
    n_rounds : int, optional
        Number of rounds R; one is allowed, where the prior is the mixture.
    risk_share : float, optional
        Share of the budget (of μ²) spent on group risks, between 0 and 1.

    Notes
    -----
    With `PhasedERM` it makes the plans that `PhasedERM` makes for several phases with fixed group
    weights, and releases the same. `group_weights` are the average of the mixtures that were
    answered for, which follow from the released risks. `docs/theory/best-response.md` proves the
    privacy and derives the bound.

    References
    ----------
    E. Diana, W. Gill, M. Kearns, K. Kenthapadi and A. Roth (2021), Minimax group fairness:
    algorithms and experiments: the rounds, without privacy.

    Examples
    --------
    >>> from sklearn_dpwg.solvers import MGR, BestResponse
    >>> BestResponse(MGR(), n_rounds=4)
    BestResponse(base=MGR(), n_rounds=4)
    """

    name: ClassVar[str] = "best-response"
    knows_overlap: ClassVar[bool] = True

    def _check_parameters(self) -> None:
        RULES.check(self)
        base = as_mixture_solver(self.base)
        base._check_parameters()
        for name, allowed in base.set_by_caller.items():
            value = getattr(base, name)
            if not (value is None or isinstance(value, str | int | float)) or value not in allowed:
                stated = " or ".join(repr(each) for each in allowed)
                raise InputError(
                    f"{name} of {type(base).__name__} must be left at {stated} where it answers "
                    f"for fixed mixtures, got {value!r}."
                )

    def _check_game(self, problem: Problem) -> None:
        """Refuse overlapping groups with a base that does not know them."""
        super()._check_game(problem)
        base = as_mixture_solver(self.base)
        if problem.cells is not None and not base.knows_overlap:
            raise InputError(
                "base of BestResponse must be one that knows overlapping groups, as 'mgr', "
                f"'moments' and 'phased-erm' do, got {base.name!r}."
            )

    def _plan(self, problem: Problem, budget: Budget) -> Plan:
        return plan_of_rounds(
            self.name,
            problem,
            budget,
            as_mixture_solver(self.base),
            n_rounds=self.n_rounds,
            risk_share=self.risk_share,
        )

    def _run(self, plan: Plan, data: Risks, noise: NoiseSource, start: Solution | None) -> Solution:
        return run_rounds(plan, as_mixture_solver(self.base), data, noise, start)
