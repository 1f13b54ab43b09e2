"""What a model does with each column: pictures of its bends, and contributions that add up."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import t as students_t

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg._stored import Stored
from sklearn_dpwg.data.records import RecordEncoder
from sklearn_dpwg.data.risks import GroupRisks
from sklearn_dpwg.exceptions import InputError, SeededNoiseWarning
from sklearn_dpwg.inspection import drawing, words
from sklearn_dpwg.preprocessing.shapes import Seen, parts_of
from sklearn_dpwg.privacy import Budget, NoiseSource, gdp_epsilon
from sklearn_dpwg.solvers import make_solver
from sklearn_dpwg.solvers.solver import FreshSolver

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Effect(Stored):
    """What a column adds to a model's score, by its value.

    Parameters
    ----------
    name : str
        The column.
    values : tuple of str
        Public values: levels, or points of a range; "missing" is the last where values may be.
    effects : ndarray of shape (n_values,)
        What is added there, less the mean over the values that are not missing.
    is_number : bool
        Whether values follow each other.
    may_be_missing : bool
        Whether the last value is a missing one.
    band : ndarray of shape (n_values,), optional
        How far off noise alone leaves an effect in 5 of 100 fits.
    """

    name: str
    values: tuple[str, ...]
    effects: FloatArray
    is_number: bool
    may_be_missing: bool
    band: FloatArray | None = None

    @property
    def size(self) -> float:
        """Distance from the least to the largest effect."""
        return float(np.ptp(self.effects))


def _weights(model: Any, of: Hashable) -> tuple[FloatArray, float]:
    """Return the weights of a score and its intercept, of several classes those of one."""
    coef = np.atleast_2d(model.coef_)
    intercepts = np.atleast_1d(model.intercept_)
    if len(coef) == 1 and of is None:
        return coef[0], float(intercepts[0])
    classes = list(getattr(model, "classes_", ()))
    if len(coef) == 1 or of not in classes:
        raise InputError(f"of must be one of {classes!r} where there are several, got {of!r}.")
    return coef[classes.index(of)], float(intercepts[classes.index(of)])


def shape_functions(
    model: Any, schema: Any = None, *, of: Hashable = None, band: bool = False
) -> tuple[Effect, ...]:
    """Return what each column adds to a model's score, by its value, the largest effect first.

    Parameters
    ----------
    model : pipeline or estimator
        A fitted pipeline of a `PublicSchema` or `PublicShapes` and a linear model, or the latter.
    schema : transformer, optional
        What stands in front of the model, where that is no pipeline.
    of : class, optional
        Of more than two classes, the one whose score it is.
    band : bool, default=False
        Whether to compute what noise does to each effect: by fits with the plan's noise on made-up
        rows, spread evenly over the public values, whose targets follow the model.

    Returns
    -------
    tuple of Effect
        One a column: log odds of the second class, or units of the target. Made of released
        weights and public values, so it costs no privacy.

    Raises
    ------
    ValueError
        If `of` is no class.
    TypeError
        If there is no transformer, or no fitted model.
    """
    inner, schema = parts_of(model, schema)
    weights, intercept = _weights(inner, of)
    columns = schema._seen()
    found = [_effect(one, weights) for one in columns]
    if band and of is None and (fits := _fits_on_made_rows(inner, columns, weights, intercept)):
        for place, column in enumerate(columns):
            effects = np.array([_effect(column, of_fit).effects for of_fit in fits])
            wide = students_t.ppf(0.975, len(fits) - 1) * effects.std(axis=0, ddof=1)
            found[place] = replace(found[place], band=wide)
    return tuple(sorted(found, key=lambda one: -one.size))


# Fits on made-up rows, and at most so many of these: with noise scaled along, fewer do alike.
_N_FITS, _MOST_ROWS = 8, 20_000


def _fits_on_made_rows(
    model: Any, columns: Sequence[Seen], weights: FloatArray, intercept: float
) -> list[FloatArray]:
    """Return weights of fits with the plan's noise on rows that nobody has; none without noise."""
    plan = getattr(model, "plan_", None)
    if plan is None or not plan.releases or plan.counts is not None:
        return []
    problem = plan.problem
    chosen = plan.solver if model.solver == "auto" else model.solver
    solver = make_solver(chosen, epsilon=plan.budget.epsilon)
    if isinstance(solver, FreshSolver) or problem.loss.n_outputs > 1:
        return []
    rng = np.random.default_rng(0)
    share = min(1.0, _MOST_ROWS / problem.n_records)
    sizes = tuple(max(2, round(share * size)) for size in problem.group_sizes)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    known = [one.rows[: len(one.rows) - one.may_be_missing] for one in columns]
    rows = np.concatenate([one[rng.integers(len(one), size=len(codes))] for one in known], axis=1)
    scores = rows @ weights + intercept
    if hasattr(model, "classes_"):
        targets = np.where(rng.random(len(scores)) < expit(scores), 1.0, -1.0)
    else:
        low, high = model.target_bounds
        targets = np.clip((2.0 * scores - low - high) / (high - low), -1.0, 1.0)
    budget = Budget(gdp_epsilon(plan.budget.delta, plan.budget.mu / share), plan.budget.delta)
    problem = replace(problem, group_sizes=sizes)
    plan = solver.plan(problem, budget)
    norm = 1.0 if model.data_norm is None else float(model.data_norm)
    records = RecordEncoder(len(sizes), norm).encode(rows, targets, codes)
    risks = GroupRisks(records, problem.loss, problem.intercept_scaling)
    unit = norm if hasattr(model, "classes_") else 2.0 * norm / (high - low)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)  # of rows that nobody has
        found = [
            solver.run(plan, risks, NoiseSource(seed, plan.releases)) for seed in range(_N_FITS)
        ]
    return [np.asarray(one.weights)[: rows.shape[1]] / unit for one in found]


def _effect(seen: Seen, weights: FloatArray) -> Effect:
    effects = seen.rows @ weights[seen.columns]
    effects = effects - _middle(seen, effects)
    return Effect(seen.name, seen.values, effects, seen.is_number, seen.may_be_missing)


def _middle(seen: Seen, effects: FloatArray) -> float:
    known = effects[:-1] if seen.may_be_missing and len(effects) > 1 else effects
    return float(known.mean())


def contributions(model: Any, X: Any, schema: Any = None, *, of: Hashable = None) -> pd.DataFrame:
    """Return what each column of each row adds to the score.

    Parameters
    ----------
    model : pipeline or estimator
        As in `shape_functions`.
    X : DataFrame or array-like of shape (n_records, n_features)
        Rows as the pipeline takes them.
    schema : transformer, optional
        What stands in front of the model, where that is no pipeline.
    of : class, optional
        Of more than two classes, the one whose score it is.

    Returns
    -------
    DataFrame
        A row a record, a column a column of X, and "base" first, the same for all: they add up to
        the score. It tells what was in the rows: not private.

    Raises
    ------
    ValueError
        If `of` is no class.
    TypeError
        If there is no transformer, or no fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_dpwg import DPWorstGroupClassifier
    >>> from sklearn_dpwg.inspection import contributions
    >>> from sklearn_dpwg.preprocessing import PublicShapes
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.uniform(0, 10, (5000, 2)), rng.choice(["a", "b"], 5000)
    >>> y = abs(X[:, 0] - 5.0) < 2.0
    >>> model = make_pipeline(PublicShapes((0, 10)), DPWorstGroupClassifier(4.0, data_norm=1.0))
    >>> _ = model.fit(X, y, dpworstgroupclassifier__groups=groups)
    >>> found = contributions(model, X[:3])
    >>> bool(np.allclose(found.sum(axis=1), model.decision_function(X[:3])))
    True
    """
    import pandas as pd

    inner, schema = parts_of(model, schema)
    weights, base = _weights(inner, of)
    rows, columns = schema.transform(X), {}
    for seen in schema._seen():
        middle = _middle(seen, seen.rows @ weights[seen.columns])
        columns[seen.name] = np.asarray(rows[:, seen.columns] @ weights[seen.columns]) - middle
        base += middle
    index = X.index if isinstance(X, pd.DataFrame) else None
    return pd.DataFrame({"base": np.full(rows.shape[0], base), **columns}, index=index)


# Inches of a small picture, and how many stand beside each other.
_SMALL, _ABREAST = (2.5, 1.9), 4
_LEVELS, _LETTERS = 8, 14  # levels that a small picture names, and letters of a name


class ShapeDisplay:
    """Small pictures of what each column adds to the score: lines for numbers, bars for levels.

    Make one by `from_estimator`.

    Parameters
    ----------
    effects : sequence of Effect
        What is drawn, in order.
    unit : str
        What the score is in.

    See Also
    --------
    shape_functions : The numbers.
    contributions : The same for given rows.
    """

    def __init__(self, effects: Sequence[Effect], unit: str) -> None:
        self.effects = tuple(effects)
        self.unit = unit

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        schema: Any = None,
        *,
        of: Hashable = None,
        band: bool = True,
        most: int = 24,
    ) -> Self:
        """Draw what a model does with each column.

        Parameters
        ----------
        model : pipeline or estimator
            As in `shape_functions`.
        schema : transformer, optional
            What stands in front of the model, where that is no pipeline.
        of : class, optional
            Of more than two classes, the one whose score it is.
        band : bool, default=True
            Whether to draw what noise does to each effect, as in `shape_functions`; of some
            solvers it is not known.
        most : int, default=24
            How many columns are drawn, those of the largest effects.

        Returns
        -------
        ShapeDisplay
            The display, drawn.
        """
        inner, _ = parts_of(model, schema)
        unit = "log odds" if hasattr(inner, "classes_") else "units of the target"
        return cls(shape_functions(model, schema, of=of, band=band)[:most], unit).plot()

    def plot(self) -> Self:
        """Draw the display in a figure of its own.

        Returns
        -------
        ShapeDisplay
            The display itself, with the axes as ``axes_`` and their figure as ``figure_``.
        """
        plt = drawing.pyplot("ShapeDisplay.plot")
        abreast = min(_ABREAST, max(len(self.effects), 1))
        down = max(math.ceil(len(self.effects) / abreast), 1)
        size = (_SMALL[0] * abreast, _SMALL[1] * down + 0.4)
        self.figure_, axes = plt.subplots(
            down, abreast, figsize=size, layout="constrained", squeeze=False, sharey=True
        )
        self.axes_: NDArray[Any] = axes
        for ax in axes.flat[len(self.effects) :]:
            ax.set_visible(False)
        for ax, effect in zip(axes.flat, self.effects, strict=False):
            drawing.bare(ax)
            ax.axhline(0.0, zorder=1, **drawing.DASHED)
            (_draw_line if effect.is_number else _draw_bars)(ax, effect, effect.band)
            name = words.cut(words.text_of(effect.name), 28)
            ax.set_title(name, parse_math=False, loc="left", fontsize="small")
            ax.tick_params(labelsize="x-small")
        self.figure_.supylabel(f"effect ({self.unit})", fontsize="small")
        return self


def _draw_line(ax: Any, effect: Effect, band: FloatArray | None) -> None:
    known = len(effect.values) - effect.may_be_missing
    places = np.linspace(0.0, 1.0, known)
    if band is not None:
        low, high = effect.effects - band, effect.effects + band
        ax.fill_between(places, low[:known], high[:known], color=drawing.BLUE, alpha=0.25, lw=0.0)
    ax.plot(places, effect.effects[:known], color=drawing.BLUE, linewidth=1.8)
    ticks, labels = [0.0, 0.5, 1.0], [effect.values[round(t * (known - 1))] for t in (0, 0.5, 1)]
    if effect.may_be_missing:
        ax.plot([1.15], effect.effects[known:], **drawing.DIAMONDS, markersize=4)
        ticks, labels = [*ticks, 1.15], [*labels[:2], "", "missing"]
    ax.set_xticks(ticks, [words.cut(label, 10) for label in labels], parse_math=False)


def _draw_bars(ax: Any, effect: Effect, band: FloatArray | None) -> None:
    order = np.argsort(-np.abs(effect.effects), kind="stable")[:_LEVELS]
    order.sort()
    places = np.arange(len(order))
    wide = None if band is None else band[order]
    ax.bar(
        places,
        effect.effects[order],
        yerr=wide,
        color=drawing.BLUE,
        ecolor=drawing.FAINT,
        width=0.7,
    )
    names = [words.cut(words.text_of(effect.values[place]), _LETTERS) for place in order]
    is_wide = len(names) > 3 or max(map(len, names)) > 6
    turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if is_wide else {}
    ax.set_xticks(places, names, parse_math=False, **turned)
    left_out = len(effect.values) - len(order)
    if left_out:
        ax.set_xlabel(f"and {left_out} with less", fontsize="x-small")
