"""What a guarantee leaves to an attacker."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from sklearn_dpwg.inspection import _drawing as drawing
from sklearn_dpwg.inspection._drawing import Look
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.ledger import privacy_of
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.privacy.statement import rounded_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The false alarms at which the words of a guarantee state a detection.
FALSE_ALARM = 0.05
# Points of a curve: enough to look smooth, few enough to be computed in a blink.
# One of them is the stated ε.
N_POINTS = 82
# The largest ε of the picture, over the stated one.
WIDEST = 3.0


class PrivacyProfileDisplay:
    """The trade-off of an attacker, or the privacy profile δ(ε).

    The trade-off: who looks for one record in what was released, and is willing to raise a false
    alarm so often, detects it at most so often. On the dashed line an attacker only guesses.

    Parameters
    ----------
    guarantee : PrivacyGuarantee
        The guarantee.
    name : str, optional
        What it is the guarantee of.

    Attributes
    ----------
    ax_ : matplotlib axes
        What it was drawn on.
    figure_ : matplotlib figure
        The figure of the axes.
    false_alarms_, detections_ : ndarray
        Points of the trade-off.
    epsilons_, deltas_ : ndarray
        Points of the profile.

    Examples
    --------
    >>> from sklearn_dpwg.inspection import PrivacyProfileDisplay
    >>> from sklearn_dpwg.privacy import PrivacyGuarantee, Release
    >>> release = Release("weights", "gaussian", 4.3, max_count=1)
    >>> guarantee = PrivacyGuarantee.from_releases([release], 1e-6)
    >>> display = PrivacyProfileDisplay(guarantee).plot()
    >>> bool((display.detections_ >= display.false_alarms_ - 1e-9).all())
    True
    """

    def __init__(self, guarantee: PrivacyGuarantee, *, name: str | None = None) -> None:
        self.guarantee = guarantee
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        kind: Literal["tradeoff", "profile"] = "tradeoff",
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the guarantee of everything that was fitted inside a model.

        Parameters
        ----------
        estimator : estimator
            A fitted private model, or a pipeline or search with one inside.
        kind : {"tradeoff", "profile"}, default="tradeoff"
            Which curve.
        name : str, optional
            Name of the model.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PrivacyProfileDisplay
            The display, drawn.
        """
        return cls(privacy_of(estimator), name=name).plot(ax, kind=kind)

    @classmethod
    def from_audit(
        cls,
        result: AuditResult,
        *,
        kind: Literal["tradeoff", "profile"] = "tradeoff",
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the guarantee of an audit.

        Parameters
        ----------
        result : AuditResult
            The audit, with the model where it is of the same records.
        kind : {"tradeoff", "profile"}, default="tradeoff"
            Which curve.
        name : str, optional
            Name of the audit.
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PrivacyProfileDisplay
            The display, drawn.
        """
        return cls(result.privacy_, name=name).plot(ax, kind=kind)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: Literal["tradeoff", "profile"] = "tradeoff",
        title: str | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        kind : {"tradeoff", "profile"}, default="tradeoff"
            The trade-off of an attacker, or δ over ε.
        title : str, optional
            What to write above.

        Returns
        -------
        PrivacyProfileDisplay
            The display.
        """
        if kind not in ("tradeoff", "profile"):
            raise ValueError(f"kind must be 'tradeoff' or 'profile', got {kind!r}.")
        self.ax_, self.figure_ = drawing.axes_for(type(self).__name__, ax)
        drawing.bare(self.ax_)
        if kind == "tradeoff":
            self._draw_tradeoff()
        else:
            self._draw_profile()
        if title is not None:
            drawing.titles(self.ax_, title, self.ax_.get_xlabel(), self.ax_.get_ylabel())
        return self

    def _draw_tradeoff(self) -> None:
        self.false_alarms_, self.detections_ = tradeoff_points(self.guarantee)
        line: Look = {"color": drawing.FAINT, "linestyle": "--", "linewidth": 1.2}
        self.ax_.plot([0, 1], [0, 1], label="only guesses", **line)
        name = self.name or "the best attacker"
        self.ax_.plot(
            self.false_alarms_, self.detections_, color=drawing.BLUE, linewidth=2.2, label=name
        )
        caught = detection(self.guarantee)
        mark: Look = {"marker": "D", "color": drawing.VERMILION, "linestyle": "none"}
        caught_at_most = math.ceil(1000.0 * caught - 1e-9) / 10.0
        said = f"{100 * FALSE_ALARM:g} % false alarms: {caught_at_most:g} % detected"
        self.ax_.plot([FALSE_ALARM], [caught], label=said, **mark)
        drawing.percents(self.ax_.xaxis)
        drawing.percents(self.ax_.yaxis)
        self.ax_.set(xlim=(0, 1), ylim=(0, 1.02))
        # below the line of guesses there is never a curve
        drawing.legend(self.ax_, loc="lower right", bbox_to_anchor=(1.0, 0.0), ncols=1)
        title = "What an attacker can find out about one record"
        if not self.guarantee.is_private:
            title = "No privacy: an attacker may find every record"
        labels = ("false alarms", "detections, at most")
        drawing.titles(self.ax_, title, *labels)

    def _draw_profile(self) -> None:
        guarantee = self.guarantee
        self.epsilons_, self.deltas_ = profile_points(guarantee)
        bottom = guarantee.delta / 100.0
        curve: Look = {
            "color": drawing.BLUE,
            "linewidth": 2.2,
            "label": self.name or "δ(ε)",
        }
        # a pure guarantee falls to zero, which a logarithm cannot show
        self.ax_.plot(self.epsilons_, np.maximum(self.deltas_, bottom / 100.0), **curve)
        self.ax_.set_ylim(0.0, 1.02)
        title = "No privacy: no ε is promised"
        if guarantee.is_private:
            said = f"stated: ε = {rounded_up(guarantee.epsilon)} at δ = {guarantee.delta:.3g}"
            point: Look = {"marker": "D", "color": drawing.VERMILION, "linestyle": "none"}
            self.ax_.plot([guarantee.epsilon], [guarantee.delta], label=said, **point)
            title = "Privacy profile: for each ε the δ that it holds at"
            self.ax_.set_yscale("log")
            self.ax_.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}")
            self.ax_.set_ylim(bottom, 1.0)
        drawing.legend(self.ax_)
        drawing.titles(self.ax_, title, "ε", "δ", over_line=True)


def tradeoff_points(guarantee: PrivacyGuarantee) -> tuple[Any, Any]:
    """Return false alarms, denser where they are few, and the most detections there."""
    alarms = np.linspace(0.0, 1.0, N_POINTS) ** 2
    if not guarantee.is_private:
        return alarms, np.ones_like(alarms)
    return alarms, 1.0 - guarantee.tradeoff(alarms)


def detection(guarantee: PrivacyGuarantee) -> float:
    """Return how often a record is detected at most, at 5 % false alarms."""
    return 1.0 - float(guarantee.tradeoff(FALSE_ALARM)) if guarantee.is_private else 1.0


def profile_points(guarantee: PrivacyGuarantee) -> tuple[Any, Any]:
    """Return values of ε and the δ of each, until it is far below the stated one."""
    if not guarantee.is_private:
        return np.array([0.0, 1.0]), np.ones(2)
    epsilons = np.linspace(0.0, WIDEST * max(guarantee.epsilon, 1e-3), N_POINTS)
    deltas = guarantee.profile(epsilons)
    first_below = int(np.argmax(deltas < guarantee.delta / 100.0)) or N_POINTS
    return epsilons[: first_below + 1], deltas[: first_below + 1]
