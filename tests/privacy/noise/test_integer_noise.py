"""Laws of whole-number noise, against enumeration with fractions and against OpenDP's samplers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sklearn_dpwg.privacy import IntegerNoise

UNIT = 2**90  # probabilities as whole numbers, far finer than what is tested


def enumerate_law(noise: IntegerNoise, terms: list[tuple[int, int]]) -> dict[int, float]:
    """Return the law of Σ factor · (sum of n copies), each combination counted by itself."""
    power = 1 if noise.mechanism == "laplace" else 2
    weight = {"laplace": 1 / noise.scale, "gaussian": 0.5 / noise.scale**2}[noise.mechanism]
    radius = math.ceil((45.0 / weight) ** (1 / power))
    once = {x: Fraction(math.exp(-weight * abs(x) ** power)) for x in range(-radius, radius + 1)}
    mass = sum(once.values())
    units = {x: round(p / mass * UNIT) for x, p in once.items()}
    total = {0: UNIT}
    for factor, n_cells in terms:
        for _ in range(n_cells):
            sums = dict.fromkeys(
                range(min(total) - factor * radius, max(total) + factor * radius + 1), 0
            )
            for x, p in total.items():
                for y, q in units.items() if p else ():
                    sums[x + factor * y] += p * q // UNIT
            total = sums
    return {x: p / UNIT for x, p in total.items()}


@pytest.mark.parametrize(
    ("mechanism", "scale", "n_cells", "weights"),
    [
        ("laplace", 0.1, 1, None),
        ("laplace", 0.5, 3, None),
        ("laplace", 1.5, 2, None),
        ("laplace", 0.3, 18, None),
        ("laplace", 0.5, (1, 2), (7, 13)),
        ("gaussian", 0.3, 2, None),
        ("gaussian", 2.9, 3, None),
        ("gaussian", 3.1, 3, None),
        ("gaussian", 1.2, (2, 1), (1, 20)),
    ],
)
def test_laws_are_those_of_direct_enumeration(mechanism, scale, n_cells, weights):
    noise = IntegerNoise(mechanism, scale)
    counts = (n_cells,) if isinstance(n_cells, int) else n_cells
    exact = enumerate_law(noise, list(zip(weights or (1,) * len(counts), counts, strict=True)))
    support, probabilities = noise.law(n_cells, weights)
    result = dict(zip(support.tolist(), probabilities.tolist(), strict=True))
    error = math.fsum(
        abs(result.get(x, 0.0) - exact.get(x, 0.0)) for x in result.keys() | exact.keys()
    )
    assert error < 1e-15


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.05, 0.7, 2.0, 20.0, 400.0])
def test_standard_deviation_is_that_of_the_law(mechanism, scale):
    noise = IntegerNoise(mechanism, scale)
    for n_cells in (1, 4):
        support, probabilities = noise.law(n_cells)
        variance = float(np.dot(support.astype(float) ** 2, probabilities))
        assert variance == pytest.approx(n_cells * noise.std**2, rel=1e-12)


@pytest.mark.parametrize(
    ("noise", "law", "name"),
    [
        (("uniform", 1.0), (), "mechanism"),
        *((("laplace", scale), (), "scale") for scale in (0.0, math.inf, 2e4)),
        (("laplace", 1.0), (0,), "n_cells"),
        (("laplace", 1.0), (1, 0), "weights"),
        (("laplace", 1.0), ((1, 1), (1,)), "weights"),
    ],
)
def test_wrong_arguments_are_refused(noise, law, name):
    with pytest.raises(ValueError, match=f"{name} must"):
        IntegerNoise(*noise).law(*law)
