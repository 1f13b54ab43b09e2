"""A game that partial_fit goes on with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from sklearn_dpwg.privacy import Budget, NoiseSource
from sklearn_dpwg.solvers import Game, Plan


@dataclass(eq=False)
class OpenGame:
    """What an estimator keeps between two calls of ``partial_fit``; a secret.

    Parameters
    ----------
    game : Game
        The game, with exact sums and unused noise.
    plan : Plan
        Made on the first call.
    budget : Budget
        Of all calls together.
    noise : NoiseSource
        Source of the plan's releases.
    parameters : str
        The estimator's parameters on the first call.
    key : str
        Name under which ledgers know the plan.
    """

    game: Game
    plan: Plan
    budget: Budget
    noise: NoiseSource
    parameters: str
    key: str
    # whether a call failed between releases, so that the state is unknown
    is_lost: bool = field(default=False, init=False)
    _process: int = field(default_factory=os.getpid, init=False)
    _lock: Any = field(default_factory=Lock, init=False)

    @contextmanager
    def one_call(self) -> Iterator[None]:
        """Let one call at a time go on, in the process that began.

        Yields
        ------
        None
            Where the call goes.

        Raises
        ------
        RuntimeError
            In a forked process, or while another thread's call runs.
        """
        # both halves of a fork would add noise of their own to the same sums
        if os.getpid() != self._process:
            raise RuntimeError(
                "partial_fit cannot go on in a forked process, as it would draw other noise for "
                "the same sums as the process that began: go on there, or clone gives an "
                "estimator that can begin anew."
            )
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "partial_fit of this estimator is running already: call it from one thread at a "
                "time."
            )
        try:
            yield
        finally:
            self._lock.release()

    @staticmethod
    def describe(estimator: Any) -> str:
        """Return the parameters of an estimator in a form that can be compared.

        Parameters
        ----------
        estimator : estimator
            Its parameters may be arrays, which do not compare to one truth value.

        Returns
        -------
        str
            All names and values, nested ones included.
        """
        return repr(sorted(estimator.get_params().items(), key=lambda item: str(item[0])))
