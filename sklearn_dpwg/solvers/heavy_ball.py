"""Heavy-ball momentum whose longest step follows the noisy gradients."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from sklearn_dpwg._typing import FloatArray

# A noisy gradient points uphill along the velocity if it does so by more than this many standard
# deviations of its noise, which noise alone does in one step of 740.
UPHILL = 3.0

# What is left of the longest step after that; 0.5 and 0.8 did worse on the census, where 1 would do
# best, which promises no end of the shortening (benchmarks/mgr_defaults.py SHORTER epsilon=4
# census-income-kdd).
SHORTER = 0.9


class StepLimits(Protocol):
    """Numbers of a step rule that a plan fixes."""

    @property
    def aim(self) -> float:
        """Norm of the weights that step sizes are planned for; 0 where `step_size` is fixed."""

    @property
    def step_share(self) -> float:
        """Length of a planned step, as a share of ``aim/(s √T)`` for a coordinate's noise s."""

    @property
    def n_steps(self) -> int:
        """Number of steps T."""

    @property
    def step_size(self) -> float:
        """Longest plain step that is safe for every data set."""

    @property
    def longest_step(self) -> float:
        """Longest plain step that is tried, at least `step_size`."""

    @property
    def max_momentum(self) -> float:
        """Largest momentum."""


def step_and_momentum(
    limits: StepLimits, noise_std: float, *, longest: float | None = None
) -> tuple[float, float]:
    """Return step length and momentum for a gradient with noise of a standard deviation.

    The deviation follows from earlier releases. Together they move like a plain step of
    ``step_share aim / (noise_std √T)``, as far as plain steps up to `longest` (by default
    `step_size`) and `max_momentum` allow.
    """
    if limits.aim == 0.0:
        return limits.step_size, 0.0
    longest = limits.step_size if longest is None else longest
    effective = limits.step_share * limits.aim / (noise_std * math.sqrt(limits.n_steps))
    momentum = min(max(0.0, 1.0 - longest / effective), limits.max_momentum)
    return min(effective * (1.0 - momentum), longest), momentum


class HeavyBall:
    """The velocity of the weights, from released gradients only.

    A step may be as long as `longest_step` as long as the velocity points downhill. Where a
    gradient clearly points the other way, the ball has run through a valley: its velocity is set to
    zero, and the longest step shrinks to nine tenths, or to 2/h if that is less, with h the
    curvature along the velocity by the last two gradients. It never falls below `step_size`,
    which is safe for every data set. (O'Donoghue and Candès 2015, Adaptive restart for accelerated
    gradient schemes, section 3.2; with the noise's standard deviation as the threshold)
    """

    def __init__(self, limits: StepLimits, n_weights: int) -> None:
        self.limits = limits
        self.velocity: FloatArray = np.zeros(n_weights)
        self.longest = limits.longest_step
        self._last_gradient = self.velocity

    def push(self, gradient: FloatArray, noise_std: float) -> FloatArray:
        """Return the next move of the weights, for a released gradient and the std of its noise."""
        limits, velocity = self.limits, self.velocity
        if limits.longest_step > limits.step_size:
            uphill = float(gradient @ velocity)
            if uphill > UPHILL * noise_std * float(np.linalg.norm(velocity)):
                change = uphill - float(self._last_gradient @ velocity)
                stable = 2.0 * float(velocity @ velocity) / change if change > 0.0 else np.inf
                self.longest = max(min(SHORTER * self.longest, stable), limits.step_size)
                velocity = np.zeros_like(velocity)
            self._last_gradient = gradient
        step_size, momentum = step_and_momentum(limits, noise_std, longest=self.longest)
        self.velocity = momentum * velocity - step_size * gradient
        return self.velocity
