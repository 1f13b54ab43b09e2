"""Which groups a worst-group model learned from most."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_dpwg.inspection import _drawing as drawing
from sklearn_dpwg.inspection._drawing import Look
from sklearn_dpwg.inspection._labels import shortened, texts_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class GroupWeightsDisplay:
    """Group weights of a fitted model as bars, or of several models as lines.

    Make one by `from_estimator`.

    Parameters
    ----------
    weights : array-like of shape (n_groups,) or (n_points, n_groups)
        Weights of each group, or one row a point of a path.
    group_labels : sequence of label
        The groups.
    shares : array-like of shape (n_groups,), optional
        Share of the records in each group, drawn beside bars.
    points : sequence of float, optional
        Where the rows of a path stand, such as the ε of each model.
    point_name : str, default="ε"
        What the points are.

    Attributes
    ----------
    ax_ : matplotlib axes
        What it was drawn on.
    figure_ : matplotlib figure
        The figure of the axes.

    Examples
    --------
    >>> from sklearn_dpwg.inspection import GroupWeightsDisplay
    >>> display = GroupWeightsDisplay([0.7, 0.3], group_labels=["a", "b"], shares=[0.4, 0.6])
    >>> [text.get_text() for text in display.plot().ax_.get_yticklabels()]
    ['a', 'b']
    """

    def __init__(
        self,
        weights: ArrayLike,
        *,
        group_labels: Sequence[Hashable],
        shares: ArrayLike | None = None,
        points: Sequence[float] | None = None,
        point_name: str = "ε",
    ) -> None:
        self.weights = weights
        self.group_labels = group_labels
        self.shares = shares
        self.points = points
        self.point_name = point_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        point_name: str = "ε",
        ax: Axes | None = None,
    ) -> Self:
        """Draw the group weights that a model released, or those of several models.

        Parameters
        ----------
        estimator : estimator, or mapping from float to estimator
            A fitted private model whose solver releases its group weights; or several, by what
            they differ in, such as ε.
        point_name : str, default="ε"
            What several models differ in.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        GroupWeightsDisplay
            The display, drawn.
        """
        if not isinstance(estimator, Mapping):
            sizes = np.asarray(estimator.group_sizes_, dtype=np.float64)
            labels = list(estimator.group_labels_)
            shares = sizes / sizes.sum() if np.isfinite(sizes).all() else None
            weights = np.asarray(estimator.group_weights_)
            return cls(weights, group_labels=labels, shares=shares).plot(ax)
        models = dict(sorted(estimator.items()))
        labels = list(next(iter(models.values())).group_labels_)
        for point, model in models.items():
            if list(model.group_labels_) != labels:
                raise ValueError(
                    f"estimator must hold models of the same groups, got others at {point!r}."
                )
        path = np.array([model.group_weights_ for model in models.values()])
        points = [float(point) for point in models]
        return cls(path, group_labels=labels, points=points, point_name=point_name).plot(ax)

    def plot(self, ax: Axes | None = None, *, title: str | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        title : str, optional
            What to write above.

        Returns
        -------
        GroupWeightsDisplay
            The display.
        """
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim not in (1, 2) or weights.shape[-1] != len(self.group_labels):
            raise ValueError(
                f"weights must have one entry a group, {len(self.group_labels)}, got shape "
                f"{weights.shape}."
            )
        names = shortened(texts_of(self.group_labels))
        height = drawing.height_of(len(names)) if weights.ndim == 1 else 4.0
        self.ax_, self.figure_ = drawing.axes_for(type(self).__name__, ax, height)
        drawing.bare(self.ax_)
        if weights.ndim == 1:
            self._draw_bars(weights, names)
            said, labels = "Weight of each group in the fit", ("weight", "")
        else:
            unnamed = self._draw_paths(weights, names)
            said = f"Weight of each group by {self.point_name}"
            labels = (f"{self.point_name}{unnamed}", "weight")
        over_line = weights.ndim == 1 and self.shares is not None
        said = said if title is None else title
        drawing.titles(self.ax_, said, *labels, over_line=over_line)
        return self

    def _draw_bars(self, weights: Any, names: tuple[str, ...]) -> None:
        order = np.argsort(-weights, kind="stable")
        rows = np.arange(len(order))
        self.ax_.barh(rows, weights[order], height=0.7, color=drawing.BLUE, label="weight")
        if self.shares is not None:
            shares = np.asarray(self.shares, dtype=np.float64)[order]
            mark: Look = {"marker": "D", "color": drawing.VERMILION, "linestyle": "none"}
            self.ax_.plot(shares, rows, label="share of the records", markersize=5, **mark)
            drawing.legend(self.ax_)
        size = drawing.letters(len(names))
        shown = [names[place] for place in order]
        self.ax_.set_yticks(rows, shown, parse_math=False, fontsize=size)
        self.ax_.set_ylim(len(order) - 0.5, -0.5)
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.grid(visible=False, axis="y")
        drawing.percents(self.ax_.xaxis)

    def _draw_paths(self, weights: Any, names: tuple[str, ...]) -> str:
        """Draw a line a group, and say what is not named."""
        points = np.arange(len(weights)) if self.points is None else np.asarray(self.points)
        order = np.argsort(-weights.max(axis=0), kind="stable").tolist()
        named, others = order[: drawing.MOST_NAMED], order[drawing.MOST_NAMED :]
        if len(others) == 1:  # its own name is as short as "1 other group"
            named, others = order, []
        for place in others:
            self.ax_.plot(points, weights[:, place], color=drawing.FAINT, linewidth=0.7, alpha=0.6)
        for number, place in enumerate(named):
            look: Look = {
                "color": drawing.PALETTE[number],
                "marker": drawing.MARKERS[number],
            }
            self.ax_.plot(points, weights[:, place], linewidth=1.8, markersize=5, **look)
        if drawing.log_scale(points.tolist()):
            self.ax_.set_xscale("log")
            self.ax_.minorticks_off()
        if len(points) <= 8:
            self.ax_.set_xticks(points, [f"{point:.3g}" for point in points])
        self.ax_.set_ylim(bottom=0.0)
        drawing.percents(self.ax_.yaxis)
        ends = [(float(points[-1]), float(weights[-1, place])) for place in named]
        drawing.name_lines(self.ax_, [names[place] for place in named], ends)
        return f" (grey: {len(others)} other groups)" if others else ""
