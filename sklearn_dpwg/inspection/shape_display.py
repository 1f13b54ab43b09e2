"""The effect of each column on the score of a model, as numbers and as a picture."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg._checks import FloatArray
from sklearn_dpwg.exceptions import InputError
from sklearn_dpwg.inspection import displays, words
from sklearn_dpwg.preprocessing.shapes import parts_of


@dataclass(frozen=True)
class Effect:
    """The effect on a model's score of each value of a column, or of a pair of columns.

    The mean effect of values that are not missing is subtracted; "missing" is the last value.
    """

    name: str
    values: tuple[str, ...]
    effects: FloatArray
    is_number: bool
    may_be_missing: bool
    axes: tuple[Effect, ...] = ()

    @property
    def n_known(self) -> int:
        """Number of values other than "missing"."""
        return len(self.values) - self.may_be_missing

    @property
    def size(self) -> float:
        """Difference between the largest and the smallest effect."""
        return float(np.ptp(self.effects))


def shape_functions(model: Any, schema: Any = None, *, of: Hashable = None) -> tuple[Effect, ...]:
    """Return what each column or pair of them adds to a model's score, the largest effect first.

    Parameters
    ----------
    model : pipeline or estimator
        A fitted pipeline of a `PublicSchema` or `PublicShapes` and a linear model, or the latter.
    schema : transformer, optional
        What stands in front of the model, where that is no pipeline.
    of : class, optional
        The class whose score it is: of two the second by default; of more it has to be said.

    Returns
    -------
    tuple of Effect
        One a column or pair: log odds of the class, or units of the target. Made of released
        weights and public values, so it costs no privacy.
    """
    inner, schema = parts_of(model, schema)
    weights, effects = _weights_of(inner, of), dict[str, Effect]()
    for part in schema._shown_columns():  # a pair comes after its two columns
        fields = part.name, part.values, part.effects(weights), part.is_number, part.may_be_missing
        effects[part.name] = Effect(*fields, axes=tuple(effects[name] for name in part.of))
    return tuple(sorted(effects.values(), key=lambda effect: -effect.size))


def _weights_of(model: Any, of: Hashable) -> FloatArray:
    """Return the weights of the score, or of the score of class ``of`` if there are classes."""
    coef = np.atleast_2d(model.coef_)
    classes = list(getattr(model, "classes_", ()))
    if len(coef) == 1 and (of is None or of in classes[1:]):
        return coef[0]
    if of not in classes:
        raise InputError(f"of must be one of {classes!r} where there are several, got {of!r}.")
    # the log odds of the first of two classes are the negated ones of the second; 0.0 - avoids -0.0
    return 0.0 - coef[0] if len(coef) == 1 else coef[classes.index(of)]


_N_DRAWN = 24  # columns that are drawn by default
# Width and height of a small picture in inches, and how many are in a row.
_SMALL, _ABREAST = (2.5, 2.2), 4
# Most levels that a small picture names, most letters of a name, and step between a map's points.
_LEVELS, _LETTERS, _EVERY = 8, 12, 4


@dataclass(eq=False, repr=False)
class ShapeDisplay:
    """Small pictures of what columns add to the score: lines of numbers, bars, maps of pairs.

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
    """

    effects: Sequence[Effect]
    unit: str

    @classmethod
    def from_estimator(
        cls, model: Any, schema: Any = None, *, of: Hashable = None, most: int = _N_DRAWN
    ) -> Self:
        """Draw what a model does with each column.

        Parameters
        ----------
        model : pipeline or estimator
            As in `shape_functions`.
        schema : transformer, optional
            What stands in front of the model, where that is no pipeline.
        of : class, optional
            As in `shape_functions`.
        most : int, default=24
            How many columns are drawn, those of the largest effects.

        Returns
        -------
        ShapeDisplay
            The display, drawn.
        """
        inner, _ = parts_of(model, schema)
        unit = "log odds" if hasattr(inner, "classes_") else "units of the target"
        unit += "" if of is None else f" of ‘{words.visible(str(of))}’"
        return cls(shape_functions(model, schema, of=of)[:most], unit).plot()

    def plot(self) -> Self:
        """Draw the display in a figure of its own.

        Returns
        -------
        ShapeDisplay
            The display itself, with the axes as ``axes_`` and their figure as ``figure_``.
        """
        plt = displays.pyplot("ShapeDisplay.plot")
        abreast = min(_ABREAST, max(len(self.effects), 1))
        down = max(math.ceil(len(self.effects) / abreast), 1)
        size = (_SMALL[0] * abreast, _SMALL[1] * down + 0.4)
        self.figure_, self.axes_ = plt.subplots(
            down, abreast, figsize=size, layout="constrained", squeeze=False
        )
        for ax in self.axes_.flat[len(self.effects) :]:
            ax.set_visible(False)
        ends = np.concatenate([[0.0], *(one.effects for one in self.effects if not one.axes)])
        room = 0.06 * max(float(np.ptp(ends)), 1e-9)
        for ax, effect in zip(self.axes_.flat, self.effects, strict=False):
            displays.bare(ax)
            if effect.axes:
                _draw_map(ax, effect)
            else:  # on an axis that all columns share
                ax.axhline(0.0, zorder=1, **displays.DASHED)
                _draw_column(ax, effect)
                ax.set_ylim(float(ends.min()) - room, float(ends.max()) + room)
            name = words.cut(words.text_of(effect.name), 22 if effect.axes else 28)
            ax.set_title(name, parse_math=False, loc="left", fontsize="small")
            ax.tick_params(labelsize="x-small")
        self.figure_.supylabel(f"effect ({self.unit})", fontsize="small")
        return self


def _draw_column(ax: Any, effect: Effect) -> None:
    """Draw a column: a line for numbers, bars for categories."""
    if not effect.is_number:
        order = _largest(effect.effects)
        ax.bar(np.arange(len(order)), effect.effects[order], color=displays.BLUE, width=0.7)
        _name_levels(ax.xaxis, effect, order)
        return
    known = effect.n_known
    ax.plot(np.linspace(0.0, 1.0, known), effect.effects[:known], color=displays.BLUE, lw=1.8)
    if effect.may_be_missing:
        ax.plot([1.15], effect.effects[known:], "D", color=displays.VERMILION, markersize=4)
    _name_numbers(ax.xaxis, effect, [0.0, 0.5, 1.0], 1.15)


def _draw_map(ax: Any, effect: Effect) -> None:
    """Draw a pair of columns as a map: red adds to the score, blue subtracts."""
    cells = effect.effects.reshape([len(one.values) for one in effect.axes])
    most = max(float(np.abs(cells).max()), 1e-9)
    for axis, one in zip((ax.xaxis, ax.yaxis), effect.axes, strict=True):
        if one.is_number:
            known = one.n_known
            order = np.append(np.arange(0, known, _EVERY), np.arange(known, len(one.values)))
            ticks = [0, known // 2 // _EVERY, (known - 1) // _EVERY]
            _name_numbers(axis, one, ticks, len(order) - 1)
        else:
            order = _largest(np.abs(cells).max(axis=1))
            _name_levels(axis, one, order)
        cells = cells[order].T  # after two turns both axes are ordered
    ax.grid(visible=False)
    from matplotlib import colormaps

    # so few colours that an SVG has no picture in pixels, and edges that leave no gaps
    how = {"cmap": colormaps["RdBu_r"].resampled(15), "vmin": -most, "vmax": most}
    how |= {"edgecolors": "face", "linewidth": 0.3}
    ends = (np.arange(size + 1) - 0.5 for size in cells.shape)
    bar = ax.figure.colorbar(ax.pcolormesh(*ends, cells.T, **how), ax=ax)
    bar.ax.tick_params(labelsize="x-small")


def _name_numbers(axis: Any, effect: Effect, ticks: Sequence[float], missing: float) -> None:
    """Label the ends of a range, the middle if there is room, and the place of missing values."""
    known = effect.n_known
    labels = [words.cut(effect.values[place], 10) for place in (0, known // 2, known - 1)]
    if max(map(len, labels)) > 8:
        labels[1] = ""
    if effect.may_be_missing:
        ticks, labels = [*ticks, missing], [*labels[:2], "", "missing"]
    axis.set_ticks(ticks, labels, parse_math=False)


def _largest(sizes: FloatArray) -> NDArray[np.intp]:
    """Return the places of the levels with the largest sizes, in the order of the levels."""
    return np.sort(np.argsort(-np.abs(sizes), kind="stable")[:_LEVELS])


def _name_levels(axis: Any, effect: Effect, order: NDArray[np.intp]) -> None:
    """Label an axis with the levels at these places, and say how many others there are."""
    names = [words.cut(words.text_of(effect.values[place]), _LETTERS) for place in order]
    is_wide = axis.axis_name == "x" and (len(names) > 3 or max(map(len, names)) > 6)
    turned = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if is_wide else {}
    axis.set_ticks(np.arange(len(order)), names, parse_math=False, **turned)
    left_out = len(effect.values) - len(order)
    if left_out:
        axis.set_label_text(f"and {left_out} with less", fontsize="x-small")
