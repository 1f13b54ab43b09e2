"""Progress of a fit on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class Bar:
    """A callback of scikit-learn that moves a bar of rich by each planned release."""

    def __init__(self, progress: Any) -> None:
        self.progress = progress
        self.task: Any = None

    def setup(self, estimator: Any, context: Any) -> None:
        """Show an empty bar."""
        total = context.max_subtasks or None
        self.task = self.progress.add_task("releases", total=total)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Leave the bar as it is."""

    def on_fit_task_begin(self, estimator: Any, context: Any, **_: Any) -> None:
        """Wait for the end of the task."""

    def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> None:
        """Move on by one."""
        if context.parent is not None:
            self.progress.advance(self.task)


@contextmanager
def shown_progress(estimator: Any, stream: TextIO) -> Iterator[None]:
    """Show the progress of a fit inside where the stream is a terminal and callbacks are there."""
    if not stream.isatty() or not hasattr(estimator, "set_callbacks"):
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=stream)) as progress:
        estimator.set_callbacks(Bar(progress))
        try:
            yield
        finally:
            estimator.set_callbacks()  # it would be saved with the model
