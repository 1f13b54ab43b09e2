"""The instance behind the lower bound for private worst-group learning."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from sklearn_dpwg._checks import FloatArray, count_within, finite_above
from sklearn_dpwg.datasets.generators import names_of_groups, sizes_of_groups
from sklearn_dpwg.exceptions import InputError


def make_lower_bound(
    *,
    task: str = "regression",
    n_groups: int = 2,
    group_sizes: int | Sequence[int] = 1000,
    n_features: int = 10,
    radius: float = 1.0,
    epsilon: float = 1.0,
    random_state: int | np.random.Generator | None = None,
) -> Bunch:
    """Make data on which worst-group learning is exactly private learning from the first group.

    Every private method must lose about ``rate`` on some data set of this family; how much it loses
    on these data says how near it is to what is possible. Fit a linear model without intercept,
    with ``data_norm=1``.

    Parameters
    ----------
    task : {"regression", "classification"}, default="regression"
        Regression is meant for the absolute error, classification for the hinge loss.
    n_groups : int, default=2
        Number of groups, of which the first is the hard one.
    group_sizes : int or sequence of int, default=1000
        Records of each group.
    n_features : int, default=10
        Number of features, d; classification needs two, of which the first is public.
    radius : float, default=1.0
        Radius R of the ball that the coefficients are confined to; at most 1 for classification.
    epsilon : float, default=1.0
        Privacy parameter that the hard group is made for.
    random_state : int, Generator or None, default=None
        Seed.

    Returns
    -------
    Bunch
        With the keys

        data : ndarray of shape (n_rows, n_features)
            Rows of norm 1.
        target : ndarray of shape (n_rows,)
            Numbers within `target_bounds`, or class 0 or 1.
        groups : ndarray of shape (n_rows,)
            Group labels.
        loss : str
            ``"absolute_error"`` or ``"hinge"``: the loss that `coef` and `optimum` are for.
        coef : ndarray of shape (n_features,)
            A minimiser of the *empirical* worst-group risk over the ball.
        optimum : float
            Its worst-group risk.
        group_weights : ndarray of shape (n_groups,)
            The least favourable mixture: everything on the first group.
        rate : float
            R·m/n with n records and m informative ones in the hard group: R·√d/(n·epsilon), but at
            most R, the order of the least excess risk under differential privacy.
        group_labels, radius, data_norm, target_bounds or classes, DESCR
            What is public, as in :func:`load_dataset`.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or the hard group of a classification instance is too
        small.

    See Also
    --------
    make_worst_group_regression : Data where several groups matter.

    Notes
    -----
    *The hard group* holds m = ⌈√d/epsilon⌉ informative rows z with entries ±1/√d (one more if the
    rest would be odd, n at most), where entry j is positive with a secret chance drawn uniformly
    from [0, 1], and otherwise pairs of rows z, −z that cancel. Write z̄ for the mean of its n rows,
    so ‖z̄‖ ≤ m/n. For the linear loss −w·z no (epsilon, δ)-private method with δ = o(1/n) can do
    better than order R·min(1, √d/(n·epsilon)) on all data sets of such rows [2]_. That is a
    statement about the worst of them; the one drawn here is a typical one.

    *Regression.* The hard group has target 2R. The other groups have rows with random signs and
    target 0. As ``|w·x| ≤ R``, for *every* w in the ball the residuals are at least R in the hard
    group and at most R in the others. So the hard group is the worst one for every w and for every
    loss that grows with the size of the residual, which is what adding B to its loss does in [1]_.
    The absolute error there is 2R − w·z, linear in w, so its excess risk is R‖z̄‖ − w·z̄, exactly
    that of the linear loss, with the minimiser R z̄/‖z̄‖ and the optimum 2R − R‖z̄‖. The squared error
    adds a curvature that the bound does not cover.

    *Classification.* Here no instance can make one group the worst for every w: a loss of the
    margin is the same for all rows at w = 0. It is enough, however, that the hard group is the
    worst one at *its own* minimiser w₁, for then with L its risk and V the worst-group risk, min V
    = L(w₁), and

        V(w) − min V ≥ L(w) − min L  for every w,

    so whatever must be lost on the hard group is lost on the worst group. Rows of the hard group
    are ±v and labelled with their sign, v = (c, √(1 − c²) z), z in d − 1 dimensions; those of the
    others are ± the first unit vector, labelled alike. With R ≤ 1 all margins are at most 1, where
    the hinge is linear: L(w) = 1 − w·v̄, and the risk of the others is 1 minus the first
    coefficient. So w₁ = R v̄/‖v̄‖, and the others are no worse there if and only if ‖v̄‖² ≤ c. As
    ‖v̄‖² ≤ c² + (1 − c²)τ² with τ = m/n, this holds for c = τ²/(1 − τ²). That is of smaller order
    than τ, so the public coordinate gives away nearly nothing: with w' the other coefficients, L(w)
    − min L ≥ √(1 − c²)(R‖z̄‖ − w'·z̄) − cR. The instance needs τ ≤ ½.

    References
    ----------
    .. [1] Zhou and Bassily (2024), Differentially private worst-group risk minimization,
       Appendix D.
    .. [2] Bassily, Smith and Thakurta (2014), Private empirical risk minimization: efficient
       algorithms and tight error bounds, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg.datasets import make_lower_bound
    >>> made = make_lower_bound(random_state=0)
    >>> errors = np.abs(made.target - made.data @ made.coef)
    >>> hard = made.groups == made.group_labels[0]
    >>> bool(np.isclose(errors[hard].mean(), made.optimum))
    True
    >>> bool(errors[~hard].mean() < made.optimum)
    True
    """
    if task not in ("regression", "classification"):
        raise InputError(f"task={task!r} must be 'regression' or 'classification'.")
    classify = task == "classification"
    n_groups = count_within(n_groups, "n_groups", 1)
    n_features = count_within(n_features, "n_features", 2 if classify else 1)
    radius = finite_above(radius, "radius", 0.0, most=1.0 if classify else math.inf)
    epsilon = finite_above(epsilon, "epsilon", 0.0)
    sizes = sizes_of_groups(group_sizes, n_groups)
    rng = np.random.default_rng(random_state)

    n_secret = n_features - 1 if classify else n_features
    n_hard, n_other = sizes[0], sum(sizes[1:])
    informative = min(n_hard, math.ceil(math.sqrt(n_secret) / epsilon))
    informative += (n_hard - informative) % 2
    if classify and 2 * informative > n_hard:
        raise InputError(
            f"group_sizes has {n_hard} records in the first group, but this classification "
            f"instance needs at least {2 * informative}: take more records, a larger epsilon or "
            "fewer features."
        )
    secret = _secret_rows(n_hard, n_secret, informative, rng)
    if classify:
        hard, others = _classified_rows(secret, informative, n_other)
        signs = rng.choice([-1.0, 1.0], size=(n_hard + n_other, 1))
        X = np.concatenate([hard, others]) * signs
        y: npt.NDArray[np.generic] = (signs[:, 0] > 0).astype(np.int64)
        extra: dict[str, object] = {"loss": "hinge", "classes": (0, 1)}
        offset = 1.0
    else:
        hard = secret
        X = np.concatenate([hard, _sign_rows(rng.random((n_other, n_features)) < 0.5)])
        y = np.repeat([2.0 * radius, 0.0], [n_hard, n_other])
        extra = {"loss": "absolute_error", "target_bounds": (0.0, 2.0 * radius)}
        offset = 2.0 * radius
    mean = hard.mean(axis=0)
    length = float(np.linalg.norm(mean))
    coef = radius * mean / length if length > 0 else np.zeros(n_features)
    labels = names_of_groups(n_groups)
    order = rng.permutation(len(X))
    return Bunch(
        data=X[order],
        target=y[order],
        groups=np.repeat(np.array(labels), sizes)[order],
        coef=coef,
        optimum=offset - radius * length,
        group_weights=np.eye(1, n_groups)[0],
        rate=radius * informative / n_hard,
        group_labels=labels,
        radius=radius,
        data_norm=1.0,
        DESCR=textwrap.fill(
            f"The lower-bound instance for {task} with {n_groups} groups, made for epsilon = "
            f"{epsilon:g}: {informative} of the {n_hard} rows of the first group say where the "
            "optimum is, and the other rows hide it.",
            width=88,
        ),
        **extra,
    )


def _classified_rows(
    secret: FloatArray, informative: int, n_other: int
) -> tuple[FloatArray, FloatArray]:
    """Return the rows of both kinds of groups before signs: a public coordinate, then the rest."""
    share = (informative / len(secret)) ** 2
    public = share / (1.0 - share)
    hard = np.column_stack([np.full(len(secret), public), math.sqrt(1.0 - public**2) * secret])
    return hard, np.eye(1, hard.shape[1]).repeat(n_other, axis=0)


def _secret_rows(
    n_rows: int, n_columns: int, informative: int, rng: np.random.Generator
) -> FloatArray:
    """Return rows of norm 1: some that point somewhere, and pairs that cancel."""
    chances = rng.random(n_columns)
    told = _sign_rows(rng.random((informative, n_columns)) < chances)
    pairs = _sign_rows(rng.random(((n_rows - informative) // 2, n_columns)) < 0.5)
    return np.concatenate([told, pairs, -pairs])


def _sign_rows(positive: npt.NDArray[np.bool_]) -> FloatArray:
    """Return rows of norm 1 with entries of equal size and the given signs."""
    return np.where(positive, 1.0, -1.0) / math.sqrt(positive.shape[1])
