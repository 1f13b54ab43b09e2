"""Phases of `PhasedERM`: its parameters, the bound that strengths make least, what a plan fixes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray, Rules, flag, one_of, positive, share, whole, within
from sklearn_dpwg._repr import short_repr
from sklearn_dpwg.data.problem import Problem
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.solvers.centring import CentredProblem
from sklearn_dpwg.solvers.rounds.certificate import Phase, certified, sensitivities, solved_phase
from sklearn_dpwg.solvers.steps import shown

# Below it the noise overflows, whatever the records are.
_WEAKEST = 1e-30

# Strengths that grow tenfold stay squarable so long; planning takes the square of the phases.
MOST_PHASES = 128


@dataclass(eq=False, repr=False)
class PhasedERMParameters:
    """Parameters of `PhasedERM`, which documents them; ``None`` means planned."""

    n_phases: int | None = None
    _: KW_ONLY
    schedule: Literal["planned", "paper"] = "planned"
    mu_weights: float | None = None
    sharpening: float | None = None
    mu_groups: float | None = None
    risk_share: float | None = None
    averaging: float | None = None
    aim: float = 0.3
    smoothing_width: float | None = None
    max_passes: int = 300
    horizon: int = 10
    centring: bool | None = None


def _not_too_many(parameters: PhasedERMParameters) -> None:
    """Refuse more phases than can be planned."""
    if (parameters.n_phases or 1) > MOST_PHASES:
        raise InputError(
            f"n_phases of PhasedERM must be at most {MOST_PHASES}, got {parameters.n_phases}."
        )


def _paper_sets_the_rest(parameters: PhasedERMParameters) -> None:
    """Refuse what the paper's schedule sets itself."""
    if parameters.schedule != "paper":
        return
    for name in ("n_phases", "mu_weights", "sharpening", "mu_groups", "risk_share", "averaging"):
        value = getattr(parameters, name)
        if value is not None:
            raise InputError(
                f"{name} of PhasedERM must be None with schedule='paper', which sets it, got "
                f"{value!r}."
            )


RULES = Rules(
    "PhasedERM",
    _paper_sets_the_rest,
    _not_too_many,
    schedule=one_of("planned", "paper"),
    centring=flag(or_none=True),
    n_phases=whole(or_none=True),
    max_passes=whole(),
    horizon=whole(1, MOST_PHASES),
    mu_weights=positive(least=_WEAKEST, or_none=True),
    aim=positive(),
    smoothing_width=positive(or_none=True),
    mu_groups=positive(least=_WEAKEST, or_infinite=True, or_none=True),
    risk_share=share(or_none=True),
    averaging=share(or_all=True, or_none=True),
    sharpening=within(1.0, 10.0, or_none=True),
)


# What a plan may choose: grids, so that better facts never choose worse.
STRENGTHS = np.geomspace(1e-8, 1e4, 145)
AVERAGED = (0.0, 0.5)
# Equal strengths and an average of the last phases do about as well where losses curve
# (benchmarks/phased_erm_trials.py) and leave far more noise on the output where they do not.
SHARPENINGS = (1.25, 1.6, 2.5)
WIDTHS = (1.0, 0.25, 0.1, 0.025)
# Ratios of curvature to strength at which the bound is evaluated, and prices of curvature.
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-7, 1e16, 921)])
_PRICES = np.concatenate([[0.0], np.geomspace(1e-9, 1.0, 73)])


@dataclass(frozen=True)
class DescentBound:
    """Bound on the excess of one averaged run of noisy phases with fixed group weights.

    For a quadratic risk, with b(h) the share of the first distance that the average keeps in a
    direction of curvature h and V(h) the variance of its noise over that of the last phase: Theorem
    3 of docs/theory/phased-erm.md, or ``L σ √(2 V(0)/π)`` for the noise, if that is less. Curvature
    enters through ``x = h/μ`` alone, so both are tabulated once.
    """

    aim: float  # norm a of the weights that the run is compared with
    lipschitz: float  # L, in the weights
    trace: float  # bound on the trace of the Hessian of the loss of one record
    n_weights: int
    strength_ratios: tuple[float, ...]  # strength of each phase over that of the last one
    averaged: int  # how many of the last phases are averaged

    def at_strengths(self, noise_stds: FloatArray) -> FloatArray:
        """Return the bound at every strength of the grid, given the last phase's noise at each."""
        bias, noise, slope = self._curves
        return np.asarray(bias + np.minimum(noise * noise_stds**2, slope * noise_stds))

    def best(self, noise_stds: FloatArray) -> float:
        """Return the strength of the last phase that makes the bound least."""
        return float(STRENGTHS[int(np.argmin(self.at_strengths(noise_stds)))])

    @cached_property
    def _curves(self) -> tuple[FloatArray, FloatArray, float]:
        """Return bias, noise over σ² and noise over σ: the first two for every strength."""
        kept, variance = _tables(self.strength_ratios, self.averaged)
        limits = self.trace / STRENGTHS
        last = np.maximum(np.searchsorted(_RATIOS, limits, side="right") - 1, 1)
        bias = np.maximum.accumulate(_RATIOS * kept**2)
        # b and V fall, so between two ratios a curve rises by at most this factor
        cell = _RATIOS[2] / _RATIOS[1]
        priced = 0.5 * _RATIOS * variance - _PRICES[:, None] * _RATIOS
        dual = self.n_weights * np.maximum.accumulate(priced, axis=1)[:, last]
        noise = (dual + _PRICES[:, None] * limits).min(axis=0) * STRENGTHS
        noise[limits > _RATIOS[-1]] = np.inf  # beyond the tables; the other bound holds
        slope = self.lipschitz * math.sqrt(2.0 * float(variance[0]) / math.pi)
        return 0.5 * cell * self.aim**2 * STRENGTHS * bias[last], cell * noise, slope


@lru_cache(maxsize=512)
def _tables(strength_ratios: tuple[float, ...], averaged: int) -> tuple[FloatArray, FloatArray]:
    """Return b and V at every ratio of curvature to the last phase's strength."""
    n_phases = len(strength_ratios)
    strengths = np.asarray(strength_ratios)[:, None]
    noise = 1.0 / np.asarray(strength_ratios)
    kept = strengths / (strengths + _RATIOS)
    bias = np.zeros_like(_RATIOS)
    sums = np.zeros((n_phases, len(_RATIOS)))  # of each phase's noise in the average
    shares = np.zeros((n_phases, len(_RATIOS)))  # of each phase's noise still there
    distance = np.ones_like(_RATIOS)
    for phase in range(n_phases):
        distance = distance * kept[phase]
        shares[:phase] *= kept[phase]
        shares[phase] = noise[phase]
        if phase >= n_phases - averaged:
            bias += distance / averaged
            sums += shares / averaged
    return bias, (sums**2).sum(axis=0)


# With a finite μ_λ a sensitivity takes a search, so it is computed at every so many strengths.
_STRIDE = 6
# With more sizes of groups than these, bounds are those of the next lower size of a grid.
MOST_SIZES, LEVELS_PER_OCTAVE = 256, 32


def noise_stds(
    solved: Problem, prior: Any, *, mu_groups: float, multiplier: float, ratio: float = 1.0
) -> FloatArray:
    """Return the noise of a phase at each of `STRENGTHS` times its ratio to the last one's."""
    strengths = ratio * STRENGTHS
    if mu_groups == math.inf:
        # inversely proportional to the strength
        exact = sensitivities(solved, prior, mu_weights=[1.0], mu_groups=mu_groups) / strengths
    else:
        some = strengths[::_STRIDE]
        found = sensitivities(solved, prior, mu_weights=some, mu_groups=mu_groups)
        exact = np.exp(np.interp(np.log(strengths), np.log(some), np.log(found)))
    _, paid = certified(solved, exact, mu_weights=strengths, mu_groups=mu_groups, prior=prior)
    return np.asarray(multiplier * paid)


def weights_bounds(
    solved: Problem,
    mu_weights: float | None,
    bound: DescentBound,
    *,
    multiplier: float,
    mu_groups: float,
    feedback: bool,
) -> FloatArray:
    """Return the weights' part of each group's bound, from the noise of the last phase."""
    stds = noise_stds(solved, solved.prior, mu_groups=mu_groups, multiplier=multiplier)
    rows, of_group = stds[None, :], np.zeros(solved.n_groups, dtype=int)
    if feedback:
        # all weight on one group; those of one size share a row
        last, of_group = _levels(tuple(solved.sizes_to_plan_for.tolist()))
        exact = solved.gradient_diameter / (last[:, None] * STRENGTHS)
        _, paid = certified(solved, exact, mu_weights=STRENGTHS, mu_groups=mu_groups)
        alone = multiplier * paid
        rows = alone if mu_groups == math.inf else np.maximum(alone, stds)
    at_strengths = bound.at_strengths(rows)
    if mu_weights is None:
        return np.asarray(at_strengths.min(axis=1))[of_group]
    chosen, grid = math.log(mu_weights), np.log(STRENGTHS)
    return np.array([np.interp(chosen, grid, row) for row in at_strengths])[of_group]


@lru_cache(maxsize=64)
def _levels(sizes: tuple[float, ...]) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the distinct sizes, and which of them each group has.

    Of very many, sizes are taken down to a fixed grid, which makes bounds larger by at most 2 %.
    """
    wanted = np.asarray(sizes)
    levels, of_group = np.unique(wanted, return_inverse=True)
    if len(levels) > MOST_SIZES:
        wanted = 2.0 ** (np.floor(np.log2(wanted) * LEVELS_PER_OCTAVE) / LEVELS_PER_OCTAVE)
        levels, of_group = np.unique(wanted, return_inverse=True)
    return levels, of_group


@dataclass(frozen=True)
class Phases:
    """Everything that phases need besides the records, the prior of each and the noise."""

    # what each phase minimises, with the smooth loss, the groups that it reads and the first prior
    solved: Problem
    n_phases: int
    averaged: int  # how many of the last phases are averaged
    multiplier: float  # noise of the first phase, per unit of sensitivity
    mu_groups: float  # regularisation μ_λ of the group player within a phase
    # regularisation μ_w in each phase; None where the bound chooses it by the noise
    mu_weights: tuple[float, ...] | None
    bound: DescentBound | None = None
    smoothing_width: float = 0.0  # of the smooth stand-in for a loss with kinks
    reads: str = "all records"  # what a phase reads
    remark: str = ""  # of the paper's schedule

    __repr__ = short_repr

    def phase(self, index: int, prior: FloatArray) -> Phase:
        """Return a phase from public facts and its prior, which earlier releases led to."""
        if self.mu_weights is not None:
            mu_weights = self.mu_weights[index]
        else:
            assert self.bound is not None
            ratio = self.bound.strength_ratios[index]
            facts = {"mu_groups": self.mu_groups, "multiplier": self.multiplier, "ratio": ratio}
            # what the last phase's would be if all phases had this prior
            stds = ratio * noise_stds(self.solved, prior, **facts)
            mu_weights = ratio * self.bound.best(stds)
        return solved_phase(self.solved, prior, mu_weights=mu_weights, mu_groups=self.mu_groups)

    def __str__(self) -> str:
        """Return a few lines for people."""
        return self.in_words()

    def in_words(self, *between: str) -> str:
        """Return a few lines for people, with what happens between phases."""
        n_phases, prior = self.n_phases, self.solved.prior
        lines = [
            f"{n_phases} phase(s), each reads {self.reads}; output is the average of the last "
            f"{self.averaged}"
        ]
        if isinstance(self.solved, CentredProblem):
            lines.append(str(self.solved.limit))
        first = self.phase(0, np.asarray(prior))
        lines.append(
            f"first phase: regularisation {first.mu_weights:.3g}, one record moves the weights by "
            f"at most {first.sensitivity:.3g}, noise {self.multiplier * first.sensitivity:.3g}"
        )
        if n_phases > 1:
            strengths = self.mu_weights or (self.bound and self.bound.strength_ratios) or (1.0,)
            rise = strengths[-1] / strengths[0]
            lines.append(f"the last phase has {rise:.3g} times the first's regularisation")
        if n_phases > 1 and self.remark:
            of_each = ", ".join([f"{self.solved.n_records:,}"] * min(n_phases, 8))
            lines.append(f"records of the phases: {of_each}{', ...' * (n_phases > 8)}")
        if len(prior) > 1:
            strength = "fixed within a phase"
            if self.mu_groups < math.inf:
                strength = f"regularisation {self.mu_groups:.3g} within a phase"
            lines += [f"group weights start at {shown(prior)}, {strength}", *between]
        if self.smoothing_width > 0.0:
            lines.append(f"kinks of the loss rounded off within {self.smoothing_width:.3g}")
        return "\n".join([*lines, self.remark] if self.remark else lines)


def _solved_problems(problem: Problem, width: float | None) -> Iterator[tuple[float, Problem]]:
    """Yield the widths of the kinks' parabolas and the problems with them."""
    if problem.loss.smooth:
        yield 0.0, problem
        return
    for chosen in WIDTHS if width is None else (width,):
        yield chosen, replace(problem, loss=problem.loss.smoothed(chosen))


# a bound with the tables that an equal one may have made already
_bound = lru_cache(maxsize=4096)(DescentBound)


def possible_phases(
    problem: Problem,
    parameters: PhasedERMParameters,
    n_phases: int,
    *,
    multiplier: float,
) -> Iterator[tuple[FloatArray, Phases]]:
    """Yield all phases that the parameters leave open, with the bounds of their weights."""
    mu_groups = math.inf if parameters.mu_groups is None else float(parameters.mu_groups)
    shares = AVERAGED if parameters.averaging is None else (parameters.averaging,)
    numbers_averaged = sorted({max(1, round(share * n_phases)) for share in shares})
    sharpenings: tuple[float, ...] = (1.0,)
    if n_phases > 1:
        asked = parameters.sharpening
        sharpenings = SHARPENINGS if asked is None else (float(asked),)
    for width, solved in _solved_problems(problem, parameters.smoothing_width):
        for averaged, sharpening in itertools.product(numbers_averaged, sharpenings):
            bound = _bound(
                aim=parameters.aim * problem.reach,
                lipschitz=solved.lipschitz,
                trace=problem.loss.n_outputs * solved.smoothness,
                n_weights=problem.n_weights,
                # each phase is so many times as strong as the one before
                strength_ratios=tuple(sharpening ** (t + 1 - n_phases) for t in range(n_phases)),
                averaged=averaged,
            )
            bounds = weights_bounds(
                solved,
                parameters.mu_weights,
                bound,
                multiplier=multiplier,
                mu_groups=mu_groups,
                feedback=problem.n_groups > 1 and n_phases > 1,
            )
            fixed = None
            if parameters.mu_weights is not None:
                fixed = tuple(float(parameters.mu_weights * each) for each in bound.strength_ratios)
            phases = Phases(
                solved=solved,
                n_phases=n_phases,
                averaged=averaged,
                multiplier=multiplier,
                mu_groups=mu_groups,
                mu_weights=fixed,
                bound=bound,
                smoothing_width=width,
            )
            yield bounds + problem.constants.lipschitz * width / 2.0, phases
