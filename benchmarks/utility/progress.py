"""A progress bar by rich where it is installed and somebody watches, else plain lines."""

from __future__ import annotations

import sys
import time
from types import TracebackType


class Progress:
    """Count steps of a long run.

    Parameters
    ----------
    total : int
        Number of steps.
    title : str
        What they are.
    """

    def __init__(self, total: int, title: str) -> None:
        self.total, self.title, self.done, self.start = total, title, 0, time.monotonic()
        self._bar = None
        if sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.progress import Progress as Bar
            except ImportError:
                return
            self._bar = Bar(console=Console(stderr=True))
            self._task = self._bar.add_task(title, total=total)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, what: str) -> None:
        """Count one step."""
        self.done += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=1, description=what)

    def note(self, text: str) -> None:
        """Print a line."""
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            minutes = (time.monotonic() - self.start) / 60.0
            print(
                f"{self.title} {self.done}/{self.total}, {minutes:.1f} min: {text}",
                flush=True,
                file=sys.stderr,
            )
