"""Heavy-ball momentum whose longest step follows the noisy gradients."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.solvers.mgr.schedule import MGRSchedule

# A noisy gradient points uphill along the velocity if it does so by more than this many standard
# deviations of its noise, which noise alone does in one step of 740.
UPHILL = 3.0

# What is left of the longest step after that; 0.5 and 0.8 did worse on the census, where 1 would do
# best, which promises no end of the shortening (benchmarks/mgr_defaults.py SHORTER epsilon=4
# census-income-kdd).
SHORTER = 0.9


class HeavyBall:
    """The velocity of the weights, from released gradients only.

    A step may be as long as the schedule's `longest_step` as long as the velocity points downhill.
    Where a gradient clearly points the other way, the ball has run through a valley: its velocity
    is set to zero, and the longest step shrinks to nine tenths, or to 2/h if that is less, with h
    the curvature along the velocity by the last two gradients. It never falls below `step_size`,
    which is safe for every data set.

    Parameters
    ----------
    schedule : MGRSchedule
        Step rule.
    n_weights : int
        Number of weights d.

    References
    ----------
    O'Donoghue and Candès (2015), Adaptive restart for accelerated gradient schemes, section 3.2;
    with the noise's standard deviation as the threshold.
    """

    def __init__(self, schedule: MGRSchedule, n_weights: int) -> None:
        self.schedule = schedule
        self.velocity: FloatArray = np.zeros(n_weights)
        self.longest = schedule.longest_step
        self._last_gradient = self.velocity

    def push(self, gradient: FloatArray, noise_std: float) -> FloatArray:
        """Return the next move of the weights.

        Parameters
        ----------
        gradient : ndarray of shape (n_weights,)
            A released gradient.
        noise_std : float
            Standard deviation of its noise on each coordinate.

        Returns
        -------
        ndarray of shape (n_weights,)
            The velocity.
        """
        schedule, velocity = self.schedule, self.velocity
        if schedule.longest_step > schedule.step_size:
            uphill = float(gradient @ velocity)
            if uphill > UPHILL * noise_std * float(np.linalg.norm(velocity)):
                change = uphill - float(self._last_gradient @ velocity)
                stable = 2.0 * float(velocity @ velocity) / change if change > 0.0 else np.inf
                self.longest = max(min(SHORTER * self.longest, stable), schedule.step_size)
                velocity = np.zeros_like(velocity)
            self._last_gradient = gradient
        step_size, momentum = schedule.step_and_momentum(
            noise_std, len(gradient), longest=self.longest
        )
        self.velocity = momentum * velocity - step_size * gradient
        return self.velocity
