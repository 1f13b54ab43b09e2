"""Regression data whose best worst-group squared error is known exactly."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from sklearn_dpwg._checks import count_within, finite_above, finite_within
from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.datasets.population import Population


def make_worst_group_regression(
    *,
    n_groups: int = 4,
    group_sizes: int | Sequence[int] = 500,
    n_features: int = 5,
    radius: float = 1.0,
    n_easy: int = 0,
    boundary: bool = False,
    spread: float = 0.5,
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    """Make regression data with a known worst-group optimum for half the squared error.

    The model is linear without intercept: fit it with ``fit_intercept=False``, ``data_norm=1`` and
    the same radius. The population depends on the seed and on every parameter but `group_sizes`, so
    growing samples with one seed share one optimum.

    Parameters
    ----------
    n_groups : int, default=4
        Number of groups.
    group_sizes : int or sequence of int, default=500
        Records of each group.
    n_features : int, default=5
        Number of features.
    radius : float, default=1.0
        Radius of the ball that the coefficients are confined to. Targets scale with it.
    n_easy : int, default=0
        How many groups, the last ones, are strictly easier than the others at the optimum: their
        risk there is half of the worst and their weight in the least favourable mixture is 0.
    boundary : bool, default=False
        Put the optimum on the sphere, where the ball is active: without it the hard groups would
        like longer coefficients. Otherwise the optimum lies half-way out and the ball does not
        matter.
    spread : float, default=0.5
        Longest distance from the common optimum to a group's own best coefficients, in units of the
        radius and not counting the pull of a quarter of the radius that `boundary` adds.
    noise : float, default=0.1
        Least noise of a hard group, in units of the radius.
    random_state : int, Generator or None, default=None
        Seed of the population and of the sample.

    Returns
    -------
    Bunch
        With the keys

        data : ndarray of shape (n_rows, n_features)
            Rows of norm at most 1.
        target : ndarray of shape (n_rows,)
            Numbers within `target_bounds`.
        groups : ndarray of shape (n_rows,)
            Group labels.
        coef : ndarray of shape (n_features,)
            The one minimiser of the population worst-group risk over the ball.
        optimum : float
            Its worst-group risk.
        group_weights : ndarray of shape (n_groups,)
            The least favourable mixture.
        population : Population
            Exact group risks of any coefficients, and fresh samples.
        group_labels, radius, data_norm, target_bounds, DESCR
            What is public, as in :func:`load_dataset`.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    See Also
    --------
    make_worst_group_classification : The same for the logistic loss.

    Notes
    -----
    *Groups.* A row of group i is x = A_i ξ with ξ uniform on the unit sphere of dimension d and the
    largest singular value of A_i at most 1, so that ‖x‖ ≤ 1 and E[x xᵀ] = A_i A_iᵀ/d =: S_i, which
    is positive definite. Its target is y = x·w_i ± τ_i with a fair sign, hence

        L_i(w) = ½ (w − w_i)ᵀ S_i (w − w_i) + ½ τ_i².

    *Backwards.* Choose w* and weights λ, positive on the hard groups and 0 on the easy ones. Draw
    vectors h_i, subtract their λ-mean from those of the hard groups, and set g_i = h_i − ν w* there
    with ν ≥ 0, and ν = 0 unless ‖w*‖ is the radius R. Put w_i = w* − S_i⁻¹ g_i. Then ∇L_i(w*) = g_i
    and Σ λ_i g_i = −ν w*. Choose τ_i so that L_i(w*) is a common v for the hard groups and v/2 for
    the easy ones: this works because v is taken above twice the largest bias ½ g_iᵀ S_i⁻¹ g_i.

    *Optimal.* For every w with ‖w‖ ≤ R, by convexity,

        max_i L_i(w) ≥ Σ λ_i L_i(w) ≥ v − ν w*·(w − w*) ≥ v = max_i L_i(w*),

    since w*·w ≤ R² = ‖w*‖² where ν > 0. The middle term is strictly convex, so w* is the only
    minimiser.

    Examples
    --------
    >>> from sklearn_dpwg.datasets import make_worst_group_regression
    >>> made = make_worst_group_regression(n_groups=3, n_easy=1, random_state=0)
    >>> made.data.shape
    (1500, 5)
    >>> risks = made.population.group_risks(made.coef)
    >>> (risks / made.optimum).round(6).tolist()
    [1.0, 1.0, 0.5]
    >>> made.population.excess_risk(0 * made.coef) > 0
    True
    """
    n_groups = count_within(n_groups, "n_groups", 1)
    n_features = count_within(n_features, "n_features", 1)
    n_easy = count_within(n_easy, "n_easy", 0, n_groups - 1)
    radius = finite_above(radius, "radius", 0.0)
    spread = finite_within(spread, "spread", 0.0)
    noise = finite_above(noise, "noise", 0.0)

    rng = np.random.default_rng(random_state)
    problem_rng, sample_rng = rng.spawn(2)
    population = _build(n_groups, n_features, radius, n_easy, boundary, spread, noise, problem_rng)
    X, y, groups = population.sample(group_sizes, sample_rng)
    where = "on the sphere" if boundary else "inside the ball"
    return Bunch(
        data=X,
        target=y,
        groups=groups,
        coef=population.coef,
        optimum=population.optimum,
        group_weights=population.group_weights,
        population=population,
        group_labels=population.group_labels,
        radius=radius,
        data_norm=1.0,
        target_bounds=population.target_bounds,
        DESCR=textwrap.fill(
            f"Synthetic regression data of {n_groups} groups, {n_easy} of them easier than the "
            "rest. The best worst-group risk (half the squared error) over the ball of radius "
            f"{radius:g} is {population.optimum:.6g}; it is attained {where}.",
            width=88,
        ),
    )


class _RegressionPopulation(Population):
    """Linear targets with noise of two values: group risks are quadratics."""

    def __init__(
        self,
        coef: FloatArray,
        optimum: float,
        group_weights: FloatArray,
        radius: float,
        *,
        maps: FloatArray,
        group_coefs: FloatArray,
        noise_levels: FloatArray,
    ) -> None:
        super().__init__(coef, optimum, group_weights, radius)
        self.maps = maps
        self.group_coefs = group_coefs
        self.noise_levels = noise_levels
        self.second_moments = maps @ maps.transpose(0, 2, 1) / coef.size
        reach = np.linalg.norm(np.einsum("ikj,ik->ij", maps, group_coefs), axis=1)
        bound = float((reach + noise_levels).max())
        self.target_bounds = (-bound, bound)

    def group_risks(self, coef: npt.ArrayLike) -> FloatArray:
        away = self._flat(coef) - self.group_coefs
        bias = np.einsum("ij,ijk,ik->i", away, self.second_moments, away)
        return np.asarray(0.5 * (bias + self.noise_levels**2))

    def group_gradients(self, coef: npt.ArrayLike) -> FloatArray:
        away = self._flat(coef) - self.group_coefs
        return np.asarray(np.einsum("ijk,ik->ij", self.second_moments, away))

    def draw(
        self, group: int, n_rows: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        normal = rng.normal(size=(n_rows, self.coef.size))
        sphere = normal / np.linalg.norm(normal, axis=1, keepdims=True)
        X = sphere @ self.maps[group].T
        signs = rng.choice([-1.0, 1.0], size=n_rows)
        return X, X @ self.group_coefs[group] + self.noise_levels[group] * signs


def _build(
    n_groups: int,
    n_features: int,
    radius: float,
    n_easy: int,
    boundary: bool,
    spread: float,
    noise: float,
    rng: np.random.Generator,
) -> _RegressionPopulation:
    """Choose the optimum first and the groups around it."""
    hard = np.arange(n_groups) < n_groups - n_easy
    direction = rng.normal(size=n_features)
    coef = direction * (radius * (1.0 if boundary else 0.5) / np.linalg.norm(direction))
    weights = np.where(hard, rng.uniform(0.25, 1.0, size=n_groups), 0.0)
    weights /= weights.sum()

    rotations = np.linalg.qr(rng.normal(size=(n_groups, n_features, n_features)))[0]
    maps = rotations * rng.uniform(0.5, 1.0, size=(n_groups, 1, n_features))
    moments = maps @ maps.transpose(0, 2, 1) / n_features

    gradients = rng.normal(size=(n_groups, n_features))
    gradients[hard] -= weights @ gradients
    longest = np.linalg.norm(np.linalg.solve(moments, gradients[..., None]), axis=(1, 2)).max()
    gradients *= spread * radius / longest if longest > 0 else 0.0
    if boundary:
        pulls = np.linalg.solve(moments, coef[None, :, None])[..., 0]
        pull = 0.25 * radius / np.linalg.norm(pulls, axis=1).max()
        gradients[hard] -= pull * coef
    offsets = np.linalg.solve(moments, gradients[..., None])[..., 0]

    biases = 0.5 * np.einsum("ij,ij->i", gradients, offsets)
    optimum = float(2.0 * biases.max() + 0.5 * (noise * radius) ** 2)
    levels = np.sqrt(2.0 * (np.where(hard, optimum, 0.5 * optimum) - biases))
    return _RegressionPopulation(
        coef,
        optimum,
        weights,
        radius,
        maps=maps,
        group_coefs=coef - offsets,
        noise_levels=levels,
    )
