"""Progress of a fit: scikit-learn's callbacks, and ``verbose``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sklearn_dpwg.privacy import NoiseSource
from sklearn_dpwg.solvers import Plan

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
