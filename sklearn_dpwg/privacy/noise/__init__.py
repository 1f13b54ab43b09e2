"""Noise itself: the source that adds it and refuses what is not paid for, and its samplers.

Without a seed noise is OpenDP's: discrete, exact, on a grid far finer than the noise, so that no
floating-point attack applies; with one it is NumPy's, for tests. Every value that leaves a solver
passes one of `NoiseSource`'s methods. ``docs/theory/noise.md`` proves that rounding to the grid is
paid for.
"""
