"""The instance behind the lower bound for private worst-group learning."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from sklearn_dpwg._checks import FloatArray, count_within, finite_above
from sklearn_dpwg.datasets.generators import names_of_groups, sizes_of_groups


def make_lower_bound(
    *,
    n_groups: int = 2,
    group_sizes: int | Sequence[int] = 1000,
    n_features: int = 10,
    radius: float = 1.0,
    epsilon: float = 1.0,
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    """Make data on which worst-group learning is exactly private learning from the first group.

    Every private method must lose about ``rate`` on some data set of this family; how much it loses
    on these data says how near it is to what is possible. Fit a linear model for the absolute error
    without intercept, with ``data_norm=1``.

    Parameters
    ----------
    n_groups : int, default=2
        Number of groups, of which the first is the hard one.
    group_sizes : int or sequence of int, default=1000
        Records of each group.
    n_features : int, default=10
        Number of features, d.
    radius : float, default=1.0
        Radius R of the ball that the coefficients are confined to.
    epsilon : float, default=1.0
        Privacy parameter that the hard group is made for.
    random_state : int, Generator or None, default=None
        Seed.

    Returns
    -------
    Bunch
        As `make_worst_group_regression` returns it, but of these records and no population:
        ``coef`` minimises their *empirical* worst-group risk, and ``optimum`` is that risk.
        ``rate`` is R·m/n with n records and m informative ones in the hard group: R·√d/(n·epsilon),
        but at most R, the order of the least excess risk under differential privacy.

    Notes
    -----
    *The hard group* holds m = ⌈√d/epsilon⌉ informative rows z with entries ±1/√d (one more if the
    rest would be odd, n at most), where entry j is positive with a secret chance drawn uniformly
    from [0, 1], and otherwise pairs of rows z, −z that cancel. Write z̄ for the mean of its n rows,
    so ‖z̄‖ ≤ m/n. For the linear loss −w·z no (epsilon, δ)-private method with δ = o(1/n) can do
    better than order R·min(1, √d/(n·epsilon)) on all data sets of such rows [2]_.

    *Targets.* The hard group has target 2R, the others have rows with random signs and target 0. As
    ``|w·x| ≤ R``, residuals are at least R in the hard group and at most R in the others: it is the
    worst for every w in the ball, which is what adding B to its loss does in [1]_. Its absolute
    error is 2R − w·z, linear in w, with the minimiser R z̄/‖z̄‖ and the optimum 2R − R‖z̄‖.

    References
    ----------
    .. [1] Zhou and Bassily (2024), Differentially private worst-group risk minimization,
       Appendix D.
    .. [2] Bassily, Smith and Thakurta (2014), Private empirical risk minimization: efficient
       algorithms and tight error bounds, section 5.
    """
    n_groups = count_within(n_groups, "n_groups", 1)
    n_features = count_within(n_features, "n_features", 1)
    radius = finite_above(radius, "radius", 0.0)
    epsilon = finite_above(epsilon, "epsilon", 0.0)
    sizes = sizes_of_groups(group_sizes, n_groups)
    rng = np.random.default_rng(random_state)

    n_hard, n_other = sizes[0], sum(sizes[1:])
    informative = min(n_hard, math.ceil(math.sqrt(n_features) / epsilon))
    informative += (n_hard - informative) % 2
    chances = rng.random(n_features)
    secret = _sign_rows(rng.random((informative, n_features)) < chances)
    pairs = _sign_rows(rng.random(((n_hard - informative) // 2, n_features)) < 0.5)
    hard = np.concatenate([secret, pairs, -pairs])
    X = np.concatenate([hard, _sign_rows(rng.random((n_other, n_features)) < 0.5)])
    mean = hard.mean(axis=0)
    length = float(np.linalg.norm(mean))
    labels = names_of_groups(n_groups)
    order = rng.permutation(len(X))
    return Bunch(
        data=X[order],
        target=np.repeat([2.0 * radius, 0.0], [n_hard, n_other])[order],
        groups=np.repeat(np.array(labels), sizes)[order],
        coef=radius * mean / length if length > 0 else np.zeros(n_features),
        optimum=2.0 * radius - radius * length,
        group_weights=np.eye(1, n_groups)[0],
        rate=radius * informative / n_hard,
        group_labels=labels,
        radius=radius,
        data_norm=1.0,
        target_bounds=(0.0, 2.0 * radius),
    )


def _sign_rows(positive: npt.NDArray[np.bool_]) -> FloatArray:
    """Return rows of norm 1 with entries of equal size and the given signs."""
    return np.where(positive, 1.0, -1.0) / math.sqrt(positive.shape[1])
