"""Noise itself: the source that adds it and refuses what is not paid for, and its samplers.

Without a seed noise is OpenDP's: discrete, exact, on a grid far finer than the noise, so that no
floating-point attack applies; with one it is NumPy's, for tests. Every value that leaves a solver
passes one of `NoiseSource`'s methods. ``docs/theory/noise.md`` proves that rounding to the grid is
paid for.
"""

from sklearn_dpwg.privacy.noise.integer_noise import IntegerNoise
from sklearn_dpwg.privacy.noise.poisson import PoissonSample, poisson_sample
from sklearn_dpwg.privacy.noise.rows import GaussianRows
from sklearn_dpwg.privacy.noise.samplers import LARGEST_QUOTIENT, noise_on_integers
from sklearn_dpwg.privacy.noise.source import NoiseSource

__all__ = [
    "LARGEST_QUOTIENT",
    "GaussianRows",
    "IntegerNoise",
    "NoiseSource",
    "PoissonSample",
    "noise_on_integers",
    "poisson_sample",
]
