"""Synthetic data with an exactly known worst-group optimum: a population, and samples of it.

The optimal coefficients are chosen first and the groups are built around them, so the excess
*population* risk of a fit is computed exactly, not estimated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.utils import Bunch

from sklearn_dpwg._checks import FloatArray, Rules, above, whole, whole_number, within
from sklearn_dpwg.exceptions import InputError

# Distinct rows per feature: enough for groups to differ, few enough for exact sums.
_ATOMS_PER_FEATURE = 8


class Population:
    """Groups of finitely many rows, with a probability and a chance of class 1 in each group.

    `coef` minimises the worst-group log loss over the ball of radius `radius`, `optimum` is that
    risk, and `group_weights` are the least favourable mixture of the groups. Coefficients are those
    of a linear model without intercept, of shape (n_features,) or (1, n_features).
    """

    _rules = Rules(
        "make_worst_group_classification",
        n_groups=whole(),
        n_features=whole(),
        n_easy=whole(0),
        # beyond it the curvature of the loss at the optimum is lost in rounding errors
        radius=above(0.0, most=50.0),
        spread=within(0.0, 1.0),
    )

    def __init__(
        self,
        n_groups: int,
        n_features: int,
        radius: float,
        n_easy: int,
        boundary: bool,
        spread: float,
        rng: np.random.Generator,
    ) -> None:
        self.n_groups, self.n_features, self.n_easy = n_groups, n_features, n_easy
        self.radius, self.boundary, self.spread = radius, boundary, spread
        self._rules.check(self)
        n_hard = n_groups - n_easy
        if n_hard < 1:
            raise InputError(f"n_easy must be less than n_groups={n_groups}, got {n_easy}.")
        width = len(str(n_groups - 1))  # names sort like the positions of the groups
        self.group_labels = tuple(f"group {i:0{width}d}" for i in range(n_groups))
        direction = rng.normal(size=n_features)
        length = radius * (1.0 if boundary else 0.5)
        self.coef: FloatArray = direction * (length / np.linalg.norm(direction))
        weights = rng.uniform(0.25, 1.0, size=n_hard)
        weights /= weights.sum()
        self.group_weights = np.concatenate([weights, np.zeros(n_easy)])
        self._choose_groups(weights, rng)

    def _choose_groups(self, weights: FloatArray, rng: np.random.Generator) -> None:
        """Build groups with optimum `coef`; symbols are of `make_worst_group_classification`."""
        coef, n_hard, n_easy, n_features = self.coef, len(weights), self.n_easy, self.n_features
        n_atoms = _ATOMS_PER_FEATURE * n_features
        # the rows x_k, of norms from 0.5 to 1, and s_k, |a_k| and H_i's summands at the optimum
        atoms = rng.normal(size=(n_atoms, n_features))
        norms = np.linalg.norm(atoms, axis=1, keepdims=True)
        atoms *= rng.uniform(0.5, 1.0, size=(n_atoms, 1)) / norms
        margins = atoms @ coef
        chances = expit(margins)
        margin_sizes = np.abs(margins)
        entropies = np.logaddexp(0.0, -margin_sizes) + margin_sizes * expit(-margin_sizes)
        curvatures = chances * expit(-margins)

        random_rows = rng.dirichlet(np.ones(n_atoms), size=n_hard)
        random_fraction = 1.0
        # q_ik, nearer to uniform until the tilts that level the risks need a quarter of the room
        while True:
            probabilities = random_fraction * random_rows + (1.0 - random_fraction) / n_atoms
            hessians = np.einsum("ik,k,km,kn->imn", probabilities, curvatures, atoms, atoms)
            coef_tilts = np.linalg.solve(hessians, coef[None, :, None])[..., 0]
            risks = probabilities @ entropies
            levelling = (risks - weights @ risks)[:, None] / (coef @ coef) * coef_tilts
            if np.abs(levelling @ atoms.T).max() <= 0.25:
                break
            random_fraction *= 0.5

        # ν is `pull`: 0 inside the ball, else a quarter of the room, and less for easy groups
        mixture = weights @ probabilities
        gain = 0.5 * float(mixture @ (margin_sizes * expit(-margin_sizes)))
        pull = 0.0
        if self.boundary:
            pull = 0.25 / float(np.abs(coef_tilts @ atoms.T).max())
            if n_easy:
                pull = min(pull, 0.5 * gain / float(coef @ coef))

        # u_i, orthogonal to w*, of weighted mean 0
        directions = rng.normal(size=(n_hard, n_features))
        directions -= weights @ directions
        directions -= np.outer(directions @ coef, coef) / (coef @ coef)
        direction_tilts = np.linalg.solve(hessians, directions[..., None])[..., 0]
        widest = float(np.abs(direction_tilts @ atoms.T).max())
        # with one hard group, or one feature, the u_i are 0 but for rounding errors
        scale = 0.5 * self.spread / widest if n_hard > 1 and n_features > 1 else 0.0

        tilts = levelling + pull * coef_tilts + scale * direction_tilts
        hard_chances = chances + curvatures * (tilts @ atoms.T)
        easy_chances = 0.5 * (chances + (margins > 0))
        self.optimum = float(weights @ risks - pull * (coef @ coef))
        self.atoms = atoms
        self.atom_probabilities = np.vstack([probabilities, np.tile(mixture, (n_easy, 1))])
        self.class_probabilities = np.vstack([hard_chances, np.tile(easy_chances, (n_easy, 1))])

    def group_risks(self, coef: npt.ArrayLike) -> FloatArray:
        """Return the exact expected log loss of each group, (n_groups,)."""
        margins = self.atoms @ np.ravel(coef)
        losses = np.logaddexp(0.0, margins) - self.class_probabilities * margins
        return np.asarray(np.einsum("ik,ik->i", self.atom_probabilities, losses))

    def group_gradients(self, coef: npt.ArrayLike) -> FloatArray:
        """Return the gradients of `group_risks`, of shape (n_groups, n_features)."""
        slopes = expit(self.atoms @ np.ravel(coef)) - self.class_probabilities
        return np.asarray((self.atom_probabilities * slopes) @ self.atoms)

    def excess_risk(self, coef: npt.ArrayLike) -> float:
        """Return the worst-group risk minus the optimum; not negative inside the ball."""
        return float(self.group_risks(coef).max()) - self.optimum

    def sample(
        self,
        group_sizes: int | Sequence[int],
        random_state: int | np.random.Generator | None = None,
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.str_]]:
        """Draw rows, targets and group labels in random order; one size holds for each group."""
        stated_sizes = np.broadcast_to(np.asarray(group_sizes), self.n_groups).tolist()
        sizes = [whole_number(size, "group_sizes", least=1) for size in stated_sizes]
        rng = np.random.default_rng(random_state)
        rows: list[FloatArray] = []
        targets: list[npt.NDArray[np.bool_]] = []
        for group, size in enumerate(sizes):
            chosen = rng.choice(len(self.atoms), size=size, p=self.atom_probabilities[group])
            rows.append(self.atoms[chosen])
            targets.append(rng.random(size) < self.class_probabilities[group, chosen])
        order = rng.permutation(sum(sizes))
        X, y = np.concatenate(rows)[order], np.concatenate(targets)[order].astype(np.float64)
        return X, y, np.repeat(np.array(self.group_labels), sizes)[order]


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
    radius : float, default=5.0
        Radius of the ball that the coefficients are confined to, at most 50.
    n_easy : int, default=0
        How many groups, the last ones, are strictly easier than the others at the optimum: their
        weight in the least favourable mixture is 0.
    boundary : bool, default=False
        Whether the optimum is on the sphere, and the hard groups would like longer coefficients;
        otherwise it is half-way out.
    spread : float, default=1.0
        How much the groups pull in different directions, from 0 to 1, the most that the
        construction has room for.
    random_state : int, Generator or None, default=None
        Seed of the population and of the sample.

    Returns
    -------
    Bunch
        Records as ``data``, ``target``, 0 or 1, and ``groups``; what is public of them as
        ``group_labels``, ``data_norm``, ``radius`` and ``classes``. Of the population ``coef``, the
        one minimiser of the worst-group risk over the ball, ``optimum``, its risk, and
        ``group_weights``, the least favourable mixture of the groups. ``population`` has
        ``group_risks(coef)`` and ``excess_risk(coef)``, exactly, and fresh records:
        ``sample(group_sizes)``.

    Notes
    -----
    All groups share finitely many rows and meet them with probabilities of their own. The weights
    w* and the least favourable mixture λ are chosen first, the probabilities of class 1 after them:
    at w* every hard group has the risk v, and ``Σ λ_i ∇L_i(w*) = −ν w*`` with ν = 0 unless w* is on
    the sphere; easy groups have less than v. So for every w in the ball, by convexity,

        max_i L_i(w) ≥ Σ λ_i L_i(w) ≥ v − ν w*·(w − w*) ≥ v = max_i L_i(w*).

    The second term is strictly convex, so w* is the only minimiser.

    Examples
    --------
    >>> from sklearn_dpwg.datasets import make_worst_group_classification
    >>> made = make_worst_group_classification(n_groups=3, n_easy=1, random_state=0)
    >>> risks = made.population.group_risks(made.coef)
    >>> (risks / made.optimum).round(2).tolist()
    [1.0, 1.0, 0.83]
    """
    population_rng, sample_rng = np.random.default_rng(random_state).spawn(2)
    population = Population(n_groups, n_features, radius, n_easy, boundary, spread, population_rng)
    X, y, groups = population.sample(group_sizes, sample_rng)
    return Bunch(
        data=X,
        target=y.astype(np.int64),
        groups=groups,
        group_labels=population.group_labels,
        classes=(0, 1),
        data_norm=1.0,
        radius=radius,
        population=population,
        coef=population.coef,
        optimum=population.optimum,
        group_weights=population.group_weights,
    )
