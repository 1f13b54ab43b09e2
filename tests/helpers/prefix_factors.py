"""The factors of prefix sums written out, for few steps."""

import numpy as np


def factors(mechanism):
    """Return B and C, with B C the all-ones lower triangle."""
    n_steps, name = mechanism.n_steps, type(mechanism).__name__
    if name == "IndependentNoise":
        return np.tri(n_steps), np.eye(n_steps)
    if name == "SquareRootToeplitz":
        lags = np.subtract.outer(np.arange(n_steps), np.arange(n_steps))
        root = np.tril(mechanism.coefficients()[np.maximum(lags, 0)])
        return root, root
    decoder, encoder = np.zeros((2, n_steps, n_steps))
    for step in range(1, n_steps + 1):
        start = step - (step & -step)
        encoder[step - 1, start:step] = 1.0
        if start:
            decoder[step - 1] = decoder[start - 1]
        decoder[step - 1, step - 1] = 1.0
    return decoder, encoder
