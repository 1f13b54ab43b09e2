"""Warnings of plans that promise too little, with a number of records that would do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.data.groups import OTHER
from sklearn_dpwg.exceptions import WeakPlanWarning, warn
from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers import Plan

# Numbers are tried upwards by the first factor, and then between, until what is said is at most the
# second factor too large.
_UP, _CLOSE = 4.0, 1.5
_MOST_TRIALS = 14
_MOST_RECORDS = 10**12
# Where steps grow with the records, as the papers' do, numbers beyond these take long to plan for.
_MOST_STEPS = 100_000
_MOST_NAMED = 20
# So many are named of groups with the same size and bound.
_MOST_ALIKE = 3

Replan = Callable[[Sequence[int]], Plan]


def warn_of_plan(plan: Plan, labels: NDArray[np.object_], replan: Replan) -> None:
    """Say what promises no more than predicting nothing: the bound of all groups, or of some.

    Planning again for more records tells how many would do.
    """
    _warn_of_unheard_groups(plan, labels)
    hopeless = hopeless_groups(plan)
    if plan.is_weak:
        _warn_of_weak_bound(plan, labels, hopeless, replan)
    elif hopeless:
        _warn_of_small_groups(plan, labels, hopeless, replan)


def _warn_of_small_groups(
    plan: Plan, labels: NDArray[np.object_], hopeless: list[int], replan: Replan
) -> None:
    """Name every group whose own bound promises no more than predicting nothing."""
    sizes, bounds = plan.problem.group_sizes, plan.predicted_excess_if_worst
    cost = plan.problem.constants.zero_score

    def at(n_records: float) -> list[int]:
        return [max(size, int(n_records)) if i in chosen else size for i, size in enumerate(sizes)]

    chosen = set(hopeless)
    start = max(sizes[i] * bounds[i] / cost for i in hopeless)
    found = _least_that_does(start, 1 + min(sizes[i] for i in hopeless), at, replan)
    cure = "merge it or leave it out" if len(hopeless) == 1 else "merge them or leave them out"
    if found is not None:
        n_records, better = found
        bound = max(better.predicted_excess_if_worst[i] for i in hopeless)
        each = "" if len(hopeless) == 1 else " in each that has fewer"
        cure = cure.replace(" or", ",") + (
            f", or bring about {n_records:,.0f} records{each}, with which the bound is {bound:.3g}"
        )
    if len(hopeless) == 1:
        (worst,) = hopeless
        about = "" if plan.counts is None else "about "  # of hidden groups a noisy count is known
        who = (
            f"group {labels[worst]!r} has {about}{sizes[worst]:,} record(s), too few to learn from "
            f"if it is the worst off (the plan's bound is then {bounds[worst]:.3g}, predicting "
            f"nothing costs at most {cost:.3g})"
        )
    else:
        who = (
            f"{len(hopeless):,} groups have too few records to learn from if they are the worst "
            f"off: {_named(hopeless, labels, plan)}; predicting nothing costs at most {cost:.3g}"
        )
    warn(f"{who}: {cure}; is a label misspelt?", WeakPlanWarning)


def _warn_of_unheard_groups(plan: Plan, labels: NDArray[np.object_]) -> None:
    """Name hidden groups that may be empty as far as their counts tell; that `OTHER` may be."""
    unheard = [
        repr(labels[i]) for i in np.flatnonzero(~plan.problem.is_heard) if labels[i] != OTHER
    ]
    if not unheard:
        return
    assert plan.problem.hidden is not None
    more = f" and {len(unheard) - _MOST_NAMED:,} more" if len(unheard) > _MOST_NAMED else ""
    warn(
        f"group(s) {', '.join(unheard[:_MOST_NAMED])}{more} may be empty, as a noisy count of up "
        f"to {plan.problem.hidden.floor:,} tells no more, and so are not learned for: more "
        "records, a larger epsilon or count_share would help, or merge them.",
        WeakPlanWarning,
    )


def _warn_of_weak_bound(
    plan: Plan, labels: NDArray[np.object_], hopeless: list[int], replan: Replan
) -> None:
    """Say that the bound of all groups together promises no more than predicting nothing."""
    sizes, cost = plan.problem.group_sizes, plan.problem.constants.zero_score

    def at(n_records: float) -> list[int]:
        return [max(size, int(n_records)) for size in sizes]

    cure = (
        "more records, a larger epsilon, fewer groups or features, or a smaller radius would help; "
        "print(estimator.plan(...)) previews them"
    )
    enough = ""
    if plan.problem.n_records == math.inf:  # what a round reads limits a source without an end
        cure = cure.replace("more records,", "more records in a round,")
    else:
        start = min(sizes) * plan.predicted_excess / cost
        found = _least_that_does(start, 1 + min(sizes), at, replan)
        if found is not None:
            n_records, better = found
            fewer = [i for i, size in enumerate(sizes) if size < n_records]
            enough = (
                f" {n_records:,.0f} records in each group would do (fewer are in "
                f"{_named(fewer, labels, plan)}): no group's bound is then above "
                f"{max(better.predicted_excess_if_worst):.3g}."
            )
            if len(fewer) < len(sizes):  # the others have enough as they are
                cure = _cure_of_tiny(fewer, labels, sizes)
    whose = ""
    if hopeless and plan.problem.n_groups > 1:
        every = len(hopeless) == plan.problem.n_groups
        whose = ", for every group" if every else f", for {_named(hopeless, labels, plan)}"
    warn(
        f"the plan's bound on the excess worst-group loss is {plan.predicted_excess:.3g}, while "
        f"predicting nothing costs at most {cost:.3g}{whose}: {cure}.{enough}",
        WeakPlanWarning,
    )


def _cure_of_tiny(tiny: list[int], labels: NDArray[np.object_], sizes: Sequence[float]) -> str:
    """Return what to do about groups that alone make a plan weak."""
    if len(tiny) == 1:
        return (
            f"group {labels[tiny[0]]!r} alone makes it weak, with {sizes[tiny[0]]:,} record(s): "
            f"merge it into another, leave it out, or check for a misspelt label"
        )
    first = f"{labels[tiny[0]]!r} ({sizes[tiny[0]]:,} record(s))"
    return (
        f"{len(tiny):,} groups alone make it weak, {first} among them: merge them into others, "
        f"leave them out, or check for misspelt labels"
    )


def hopeless_groups(plan: Plan) -> list[int]:
    """Return the groups whose own bound promises no more than predicting nothing."""
    if not plan.releases:
        return []
    cost, is_heard = plan.problem.constants.zero_score, plan.problem.is_heard
    return [
        i
        for i, (size, bound) in enumerate(
            zip(plan.problem.group_sizes, plan.predicted_excess_if_worst, strict=True)
        )
        if bound >= cost and size < math.inf and is_heard[i]
    ]


def _least_that_does(
    start: float, least: float, sizes_at: Callable[[float], list[int]], replan: Replan
) -> tuple[float, Plan] | None:
    """Return about the least number with whose sizes no group is hopeless, and the plan for it.

    None where the solver refuses so many records, or none of the numbers that were tried does.
    """
    number, below = _rounded_up(max(start, least)), least
    best: tuple[float, Plan] | None = None
    for _ in range(_MOST_TRIALS):
        plan = _plan_of(sizes_at(number), replan)
        if plan is None:
            return best
        if hopeless_groups(plan):
            below = number
            if plan.n_steps > _MOST_STEPS:
                return best
        else:
            best = number, plan
        if best is None:
            number = _rounded_up(number * _UP)
            continue
        number = _rounded_up(math.sqrt(below * best[0]))
        if best[0] <= _CLOSE * below or not below < number < best[0]:
            return best
    return best


def _plan_of(sizes: list[int], replan: Replan) -> Plan | None:
    if sum(sizes) > _MOST_RECORDS:
        return None
    try:
        return replan(sizes)
    except ValueError:
        return None


def _rounded_up(number: float) -> float:
    """Return a number with two digits, as it is told."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / unit * (1.0 - 1e-9)) * unit:.6g}")


def _named(groups: list[int], labels: NDArray[np.object_], plan: Plan) -> str:
    """Return labels, sizes and bounds of groups, for people; few of those that are alike."""
    sizes, bounds = plan.problem.group_sizes, plan.predicted_excess_if_worst
    alike: dict[tuple[float, str], list[str]] = {}
    for i in groups:
        bound = f"{bounds[i]:.3g}"
        shown = f"{labels[i]!r} ({sizes[i]:,} record(s), bound {bound})"
        alike.setdefault((sizes[i], bound), []).append(shown)
    named: list[str] = []
    n_left = len(groups)
    for (size, bound), several in alike.items():
        if len(named) >= _MOST_NAMED:
            return ", ".join([*named, f"and {n_left:,} more"])
        named += several[:_MOST_ALIKE]
        n_left -= len(several)
        if len(several) > _MOST_ALIKE:
            more = len(several) - _MOST_ALIKE
            named.append(f"and {more:,} more of {size:,} record(s), bound {bound}")
    return ", ".join(named)


# Progress of a fit: scikit-learn's callbacks, and ``verbose``.

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9 has no callbacks, and nothing is shown by them

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method as it is."""
        return method


Outcome = TypeVar("Outcome")

# What is shown are shares of the planned releases; a line for each of them would cost more time
# than the step that made it.
N_STAGES = 100
N_LINES = 10


class Progress(CallbackSupportMixin):
    """Estimators that tell callbacks and the terminal how many planned releases are made.

    Callbacks get no records and no model of a step, and a callback cannot end a fit early: what
    is told is public, and what is released is planned.
    """

    verbose: int

    @with_callbacks
    def _with_progress(
        self, plan: Plan, noise: NoiseSource, work: Callable[[], Outcome]
    ) -> Outcome:
        """Return what the work returns, and show the progress of what it draws."""
        n_planned = sum(release.max_count for release in plan.releases)
        n_stages = min(n_planned, N_STAGES)
        context: Any = None
        if hasattr(self, "set_callbacks"):
            context = self._init_callback_context(max_subtasks=n_stages)
            context.call_on_fit_task_begin(estimator=self)
        n_before = len(noise.draws)  # by earlier calls of partial_fit
        stage, line = (n_before * n // max(n_planned, 1) for n in (n_stages, N_LINES))

        def say(text: str) -> None:
            for each in text.splitlines():
                print(f"[{type(self).__name__}] {each}".rstrip(), flush=True)  # noqa: T201

        def show(n_drawn: int) -> None:
            nonlocal stage, line
            while context is not None and stage < n_drawn * n_stages // n_planned:
                stage += 1
                task = context.subcontext(task_name="releases")
                task.call_on_fit_task_begin(estimator=self)
                task.call_on_fit_task_end(estimator=self)  # an answer "stop" is not heard
            if self.verbose and line < n_drawn * N_LINES // n_planned:
                line = n_drawn * N_LINES // n_planned
                say(f"{n_drawn:,} of {n_planned:,} planned draws of noise")

        if self.verbose and not n_before:
            steps = str(plan).removesuffix(str(plan.guarantee)).strip()
            say(steps)
        noise.on_draw = show
        try:
            outcome = work()
        finally:
            noise.on_draw = None
        if context is not None:
            context.call_on_fit_task_end(estimator=self)
        return outcome
