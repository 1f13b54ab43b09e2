"""Made data whose best worst-group risk is known exactly: populations, and samples of them."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.utils import Bunch

from sklearn_dpwg._checks import FloatArray, count_within, finite_above, finite_within
from sklearn_dpwg.exceptions import InputError

# Possible rows for each feature: enough for the groups to differ in, few enough to sum over.
_ATOMS_PER_FEATURE = 8

# Beyond it the curvature of the loss at the optimum is lost in rounding errors.
_LARGEST_RADIUS = 50.0


class Population(ABC):
    """Group distributions with a known worst-group optimum, to draw from and to measure against.

    `coef` minimises the worst-group risk over the ball of radius `radius`, `optimum` is that risk,
    and `group_weights` are the least favourable mixture of the groups. Coefficients are those of a
    linear model without intercept, of shape (n_features,) or (1, n_features).
    """

    # What is public of the targets of its records.
    public: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, coef: FloatArray, optimum: float, group_weights: FloatArray, radius: float
    ) -> None:
        self.coef = coef
        self.optimum = optimum
        self.group_weights = group_weights
        self.radius = radius
        self.group_labels = names_of_groups(len(group_weights))

    @abstractmethod
    def group_risks(self, coef: npt.ArrayLike) -> FloatArray:
        """Return the exact expected loss of each group."""

    @abstractmethod
    def group_gradients(self, coef: npt.ArrayLike) -> FloatArray:
        """Return the gradients of `group_risks`, of shape (n_groups, n_features)."""

    @abstractmethod
    def draw(
        self, group: int, n_rows: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Draw independent records of one group: rows of norm at most 1, and targets."""

    def worst_group_risk(self, coef: npt.ArrayLike) -> float:
        """Return the largest of the group risks."""
        return float(self.group_risks(coef).max())

    def excess_risk(self, coef: npt.ArrayLike) -> float:
        """Return the worst-group risk minus the optimum; not negative inside the ball."""
        return self.worst_group_risk(coef) - self.optimum

    def sample(
        self,
        group_sizes: int | Sequence[int],
        random_state: int | np.random.Generator | None = None,
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.str_]]:
        """Draw rows, targets and group labels in random order; one size is meant for each group."""
        sizes = sizes_of_groups(group_sizes, len(self.group_labels))
        rng = np.random.default_rng(random_state)
        pieces = [self.draw(group, size, rng) for group, size in enumerate(sizes)]
        order = rng.permutation(sum(sizes))
        X = np.concatenate([rows for rows, _ in pieces])[order]
        y = np.concatenate([targets for _, targets in pieces])[order]
        return X, y, np.repeat(np.array(self.group_labels), sizes)[order]

    def _flat(self, coef: npt.ArrayLike) -> FloatArray:
        """Return coefficients as one row of the right length."""
        flat = np.asarray(coef, dtype=np.float64).ravel()
        if flat.shape != self.coef.shape:
            raise InputError(
                f"coef has {flat.size} entries, but the population has {self.coef.size} features."
            )
        return flat


def names_of_groups(n_groups: int) -> tuple[str, ...]:
    """Return names that sort like the positions of the groups."""
    width = len(str(n_groups - 1))
    return tuple(f"group {i:0{width}d}" for i in range(n_groups))


def sizes_of_groups(group_sizes: int | Sequence[int], n_groups: int) -> list[int]:
    """Return one positive size for each group."""
    if isinstance(group_sizes, int | numbers.Integral):
        return [count_within(group_sizes, "group_sizes", 1)] * n_groups
    sizes = [count_within(size, "group_sizes", 1) for size in group_sizes]
    if len(sizes) != n_groups:
        raise InputError(f"group_sizes has {len(sizes)} entries, but there are {n_groups} groups.")
    return sizes


@dataclass(frozen=True)
class _Problem:
    """What is asked of a population."""

    n_groups: int
    n_features: int
    n_easy: int
    radius: float
    boundary: bool
    spread: float
    most_radius: float = math.inf
    most_spread: float = math.inf

    def __post_init__(self) -> None:
        count_within(self.n_groups, "n_groups", 1)
        count_within(self.n_features, "n_features", 1)
        count_within(self.n_easy, "n_easy", 0, self.n_groups - 1)
        finite_above(self.radius, "radius", 0.0, most=self.most_radius)
        finite_within(self.spread, "spread", 0.0, self.most_spread)

    def optimum(self, rng: np.random.Generator) -> FloatArray:
        """Choose the coefficients that will be best."""
        direction = rng.normal(size=self.n_features)
        length = self.radius * (1.0 if self.boundary else 0.5)
        return np.asarray(direction * (length / np.linalg.norm(direction)))

    def made(
        self,
        build: Callable[[_Problem, np.random.Generator], Population],
        group_sizes: int | Sequence[int],
        random_state: int | np.random.Generator | None,
    ) -> Bunch:
        """Return a sample of a population, and all that is known of both."""
        problem_rng, sample_rng = np.random.default_rng(random_state).spawn(2)
        population = build(self, problem_rng)
        X, y, groups = population.sample(group_sizes, sample_rng)
        known = ("coef", "optimum", "group_weights", "group_labels", "radius")
        return Bunch(
            data=X,
            target=y.astype(np.int64) if "classes" in population.public else y,
            groups=groups,
            population=population,
            data_norm=1.0,
            **{name: getattr(population, name) for name in known},
            **population.public,
        )


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
        weight in the least favourable mixture is 0, and their risk half of the worst.
    boundary : bool, default=False
        Whether the optimum is on the sphere, and the hard groups would like longer coefficients;
        otherwise it is half-way out.
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
        Records as ``data``, ``target``, ``groups``; what is public of them as ``group_labels``,
        ``data_norm``, ``radius`` and ``target_bounds``. Of the population ``coef``, the
        one minimiser of the worst-group risk over the ball, ``optimum``, its risk, and
        ``group_weights``, the least favourable mixture of the groups. ``population`` has
        ``group_risks(coef)`` and ``excess_risk(coef)``, exactly, and fresh records:
        ``sample(group_sizes)``.

    Notes
    -----
    *Groups.* A row of group i is x = A_i ξ with ξ uniform on the unit sphere of dimension d and the
    largest singular value of A_i at most 1, so ‖x‖ ≤ 1 and S_i := E[x xᵀ] = A_i A_iᵀ/d is positive
    definite. Its target is y = x·w_i ± τ_i with a fair sign, hence

        L_i(w) = ½ (w − w_i)ᵀ S_i (w − w_i) + ½ τ_i².

    *Backwards.* Choose w* and weights λ, positive on the hard groups and 0 on the easy ones. Draw
    vectors h_i, of mean 0 over λ, and set g_i = h_i − ν w* on the hard groups, with ν ≥ 0, and
    ν = 0 unless ‖w*‖ is the radius R. Put w_i = w* − S_i⁻¹ g_i, so that ∇L_i(w*) = g_i and
    Σ λ_i g_i = −ν w*. Choose τ_i so that L_i(w*) is a common v for the hard groups and v/2 for the
    easy ones; v is taken above twice the largest bias ½ g_iᵀ S_i⁻¹ g_i.

    *Optimal.* For every w with ‖w‖ ≤ R, by convexity and as w*·w ≤ R² = ‖w*‖² where ν > 0,

        max_i L_i(w) ≥ Σ λ_i L_i(w) ≥ v − ν w*·(w − w*) ≥ v = max_i L_i(w*).

    The second term is strictly convex, so w* is the only minimiser.

    Examples
    --------
    >>> from sklearn_dpwg.datasets import make_worst_group_regression
    >>> made = make_worst_group_regression(n_groups=3, n_easy=1, random_state=0)
    >>> risks = made.population.group_risks(made.coef)
    >>> (risks / made.optimum).round(6).tolist()
    [1.0, 1.0, 0.5]
    """
    problem = _Problem(n_groups, n_features, n_easy, radius, boundary, spread)
    build = partial(_RegressionPopulation, noise=finite_above(noise, "noise", 0.0))
    return problem.made(build, group_sizes, random_state)


class _RegressionPopulation(Population):
    """Linear targets with noise of two values: group risks are quadratics."""

    def __init__(self, problem: _Problem, rng: np.random.Generator, noise: float) -> None:
        """Choose the optimum first and the groups around it."""
        n_groups, n_features, radius = problem.n_groups, problem.n_features, problem.radius
        hard = np.arange(n_groups) < n_groups - problem.n_easy
        coef = problem.optimum(rng)
        weights = np.where(hard, rng.uniform(0.25, 1.0, size=n_groups), 0.0)
        weights /= weights.sum()

        rotations = np.linalg.qr(rng.normal(size=(n_groups, n_features, n_features)))[0]
        maps = rotations * rng.uniform(0.5, 1.0, size=(n_groups, 1, n_features))
        moments = maps @ maps.transpose(0, 2, 1) / n_features

        gradients = rng.normal(size=(n_groups, n_features))
        gradients[hard] -= weights @ gradients
        longest = np.linalg.norm(np.linalg.solve(moments, gradients[..., None]), axis=(1, 2)).max()
        gradients *= problem.spread * radius / longest if longest > 0 else 0.0
        if problem.boundary:
            pulls = np.linalg.solve(moments, coef[None, :, None])[..., 0]
            pull = 0.25 * radius / np.linalg.norm(pulls, axis=1).max()
            gradients[hard] -= pull * coef
        offsets = np.linalg.solve(moments, gradients[..., None])[..., 0]

        biases = 0.5 * np.einsum("ij,ij->i", gradients, offsets)
        optimum = float(2.0 * biases.max() + 0.5 * (noise * radius) ** 2)
        levels = np.sqrt(2.0 * (np.where(hard, optimum, 0.5 * optimum) - biases))

        super().__init__(coef, optimum, weights, radius)
        self.maps, self.second_moments = maps, moments
        self.group_coefs, self.noise_levels = coef - offsets, levels
        reach = np.linalg.norm(np.einsum("ikj,ik->ij", maps, self.group_coefs), axis=1)
        bound = float((reach + levels).max())
        self.public = {"target_bounds": (-bound, bound)}

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


def make_worst_group_classification(
    *,
    n_groups: int = 4,
    group_sizes: int | Sequence[int] = 500,
    n_features: int = 5,
    radius: float = 5.0,
    n_easy: int = 0,
    boundary: bool = False,
    spread: float = 1.0,
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    """Make two-class data with a known worst-group optimum for the logistic loss.

    Otherwise as `make_worst_group_regression`.

    Parameters
    ----------
    n_groups : int, default=4
        Number of groups.
    group_sizes : int or sequence of int, default=500
        Records of each group.
    n_features : int, default=5
        Number of features.
    radius : float, default=5.0
        Radius of the ball that the coefficients are confined to, at most 50.
    n_easy : int, default=0
        How many groups, the last ones, are strictly easier than the others at the optimum.
    boundary : bool, default=False
        Whether the optimum is on the sphere; otherwise it is half-way out.
    spread : float, default=1.0
        How much the groups pull in different directions, from 0 to 1, the most that the
        construction has room for.
    random_state : int, Generator or None, default=None
        Seed of the population and of the sample.

    Returns
    -------
    Bunch
        With the keys that `make_worst_group_regression` returns, targets 0 and 1, and ``classes``
        in place of ``target_bounds``.

    Notes
    -----
    *Groups.* All groups share finitely many rows x_k that span the space; group i meets x_k with
    probability q_ik and sees class 1 there with probability p_ik. With a_k = w·x_k its risk is

        L_i(w) = Σ_k q_ik (log(1 + exp a_k) − p_ik a_k).

    *Backwards.* Choose w* and weights λ, positive on the hard groups and 0 on the easy ones. With
    a_k at w* write s_k = 1/(1 + exp(−a_k)), M_i = Σ_k q_ik s_k (1 − s_k) x_k x_kᵀ for the Hessian
    and H_i = Σ_k q_ik (log(1 + exp a_k) − s_k a_k) for the risk if the logistic model were true. A
    hard group gets, for some vector g_i and t_i = M_i⁻¹ g_i,

        p_ik = s_k + s_k (1 − s_k) x_k·t_i,  so that  ∇L_i(w*) = −g_i,  L_i(w*) = H_i − g_i·w*.

    These are probabilities where ``|x_k·t_i| ≤ 1``. Let H be the λ-mean of the H_i and take ν ≥ 0,
    with ν = 0 unless ‖w*‖ is the radius R. Choose

        g_i = ((H_i − H)/‖w*‖² + ν) w* + u_i,  u_i orthogonal to w*,  Σ λ_i u_i = 0.

    Then L_i(w*) = H − ν‖w*‖² =: v for every hard group, and Σ λ_i ∇L_i(w*) = −ν w*. The three parts
    of t_i have a quarter, a quarter and half of the room: the first by mixing the q_i with the
    uniform distribution, which sends H_i − H to 0, the others by scaling ν and the u_i. An easy
    group meets the rows by the mixture Σ λ_i q_ik, and half of its label noise is taken away, which
    is at least twice ν‖w*‖², so its risk is below v. Optimal as in `make_worst_group_regression`.
    """
    problem = _Problem(
        n_groups, n_features, n_easy, radius, boundary, spread, _LARGEST_RADIUS, most_spread=1.0
    )
    return problem.made(_ClassificationPopulation, group_sizes, random_state)


class _ClassificationPopulation(Population):
    """Finitely many rows, with a probability and a chance of class 1 in each group."""

    public = MappingProxyType({"classes": (0, 1)})

    def __init__(self, problem: _Problem, rng: np.random.Generator) -> None:
        """Choose the optimum first and the groups around it."""
        n_hard = problem.n_groups - problem.n_easy
        coef = problem.optimum(rng)
        weights = rng.uniform(0.25, 1.0, size=n_hard)
        weights /= weights.sum()

        n_atoms = _ATOMS_PER_FEATURE * problem.n_features
        atoms = rng.normal(size=(n_atoms, problem.n_features))
        norms = np.linalg.norm(atoms, axis=1, keepdims=True)
        atoms *= rng.uniform(0.5, 1.0, size=(n_atoms, 1)) / norms
        margins = atoms @ coef
        chances = expit(margins)
        sizes = np.abs(margins)
        entropies = np.logaddexp(0.0, -sizes) + sizes * expit(-sizes)
        curvatures = chances * expit(-margins)

        drawn = rng.dirichlet(np.ones(n_atoms), size=n_hard)
        own = 1.0
        while True:
            rows = own * drawn + (1.0 - own) / n_atoms
            hessians = np.einsum("ik,k,km,kn->imn", rows, curvatures, atoms, atoms)
            towards = np.linalg.solve(hessians, coef[None, :, None])[..., 0]
            risks = rows @ entropies
            levelling = (risks - weights @ risks)[:, None] / (coef @ coef) * towards
            if np.abs(levelling @ atoms.T).max() <= 0.25:
                break
            own *= 0.5

        mixture = weights @ rows
        gain = 0.5 * float(mixture @ (sizes * expit(-sizes)))
        pull = 0.0
        if problem.boundary:
            pull = 0.25 / float(np.abs(towards @ atoms.T).max())
            if problem.n_easy:
                pull = min(pull, 0.5 * gain / float(coef @ coef))

        apart = rng.normal(size=(n_hard, problem.n_features))
        apart -= weights @ apart
        apart -= np.outer(apart @ coef, coef) / (coef @ coef)
        sideways = np.linalg.solve(hessians, apart[..., None])[..., 0]
        widest = float(np.abs(sideways @ atoms.T).max())
        # One hard group, or one feature, leaves no direction to differ in but rounding errors.
        scale = 0.5 * problem.spread / widest if n_hard > 1 and problem.n_features > 1 else 0.0

        tilts = levelling + pull * towards + scale * sideways
        hard_chances = chances + curvatures * (tilts @ atoms.T)
        easy_chances = 0.5 * (chances + (margins > 0))
        n_easy = problem.n_easy
        super().__init__(
            coef,
            float(weights @ risks - pull * (coef @ coef)),
            np.concatenate([weights, np.zeros(n_easy)]),
            problem.radius,
        )
        self.atoms = atoms
        self.atom_probabilities = np.vstack([rows, np.tile(mixture, (n_easy, 1))])
        self.class_probabilities = np.vstack([hard_chances, np.tile(easy_chances, (n_easy, 1))])

    def group_risks(self, coef: npt.ArrayLike) -> FloatArray:
        margins = self.atoms @ self._flat(coef)
        losses = np.logaddexp(0.0, margins) - self.class_probabilities * margins
        return np.asarray(np.einsum("ik,ik->i", self.atom_probabilities, losses))

    def group_gradients(self, coef: npt.ArrayLike) -> FloatArray:
        slopes = expit(self.atoms @ self._flat(coef)) - self.class_probabilities
        return np.asarray((self.atom_probabilities * slopes) @ self.atoms)

    def draw(
        self, group: int, n_rows: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        chosen = rng.choice(len(self.atoms), size=n_rows, p=self.atom_probabilities[group])
        y = rng.random(n_rows) < self.class_probabilities[group, chosen]
        return self.atoms[chosen], y.astype(np.float64)
