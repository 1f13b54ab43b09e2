"""A scorer of the worst-off group, for cross-validation and searches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.utils.metadata_routing import MetadataRequest

from sklearn_dpwg.data.groups import (
    GroupBy,
    check_kind_of_overlap,
    find_groups,
    members_of_groups,
    same_rows,
    take_rows,
)
from sklearn_dpwg.exceptions import (
    GroupsWarning,
    InputError,
    UngroupedWarning,
    warn,
)
from sklearn_dpwg.metrics.groups import Metric, group_table, is_greater_better

# Score of the worst-off group.


def worst_group_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    groups: Any,
    metric: str | Metric = "accuracy",
    greater_is_better: bool | None = None,
    classes: Sequence[Any] | None = None,
    pos_label: Any = None,
    overlap: str = "cells",
) -> float:
    """Return a metric in the group where it is worst.

    Computed from private records and without noise, so publishing it is outside every guarantee.

    Parameters
    ----------
    y_true : array-like of shape (n_records,)
        True targets.
    y_pred : array-like of shape (n_records,) or (n_records, n_classes)
        Predictions, in the form that the metric expects (probabilities for log loss).
    groups : array-like of shape (n_records,) or (n_records, n_columns)
        Group of each record; cells of several columns are intersected.
    metric : str or callable, default="accuracy"
        Name of a metric, or a function of ``(y_true, y_pred)``, as for `group_table`.
    greater_is_better : bool, optional
        Direction of the metric; known for names but "selection_rate", required for a callable.
    classes : sequence, optional
        Every class, as for `group_table`.
    pos_label : class, optional
        The positive class, as for `group_table`: by default the second in sorted order.
    overlap : {"cells", "attributes", "both", "membership"}, default="cells"
        What several columns of groups mean, as for `group_table`.

    Returns
    -------
    float
        The metric of the worst-off group: the smallest where greater is better, else the
        largest.

    Raises
    ------
    ValueError
        If lengths differ, a group is missing, or the direction of a callable is not given.
    ImportError
        If a metric of fairlearn is asked for and fairlearn is not installed.

    Examples
    --------
    >>> from sklearn_dpwg.metrics import worst_group_score
    >>> worst_group_score([1, 0, 1, 0], [1, 0, 0, 0], groups=["a", "a", "b", "b"])
    0.5
    """
    direction = is_greater_better(metric)
    if greater_is_better is None:
        greater_is_better = direction
    if greater_is_better is None:
        what = "a callable metric" if callable(metric) else f"the metric {metric!r}"
        raise InputError(f"greater_is_better must be given for {what}.")
    table = group_table(
        y_true,
        y_pred,
        groups=groups,
        metrics=[metric],
        classes=classes,
        pos_label=pos_label,
        overlap=overlap,
    )
    values = table.iloc[:, -1].to_numpy(dtype=float)
    return float(np.min(values) if greater_is_better else np.max(values))


# What the fitted model inside pipelines and meta-estimators knows of groups.


def groups_of_model(estimator: Any, X: Any) -> Any:
    """Return the groups that the model inside finds by itself, or None."""
    for each in _inwards(estimator):
        if getattr(each, "group_by", None) is not None:
            return find_groups(X, None, each.group_by)
        if len(getattr(each, "steps", [])) > 1:  # the model finds its groups in the rows it gets
            X = each[:-1].transform(X)
    return None


def group_by_of_model(estimator: Any) -> Any:
    """Return what the model inside finds its groups by, or None."""
    found = (getattr(each, "group_by", None) for each in _inwards(estimator))
    return next((each for each in found if each is not None), None)


def labels_of_model(estimator: Any) -> list[Hashable]:
    """Return the groups that the model inside was fitted with; none if there were none."""
    for each in _inwards(estimator):
        if hasattr(each, "group_labels_"):
            labels = list(each.group_labels_)
            return [] if labels == [0] else labels  # the one group of a fit without groups
    return []


def overlap_of_model(estimator: Any) -> str:
    """Return what several columns of groups meant to the fit of the model inside."""
    found = (getattr(each, "overlap", None) for each in _inwards(estimator))
    return next((each for each in found if isinstance(each, str)), "cells")


def has_grouping(estimator: Any) -> bool:
    """Return whether any part of an estimator, fitted or not, finds groups by itself."""
    parameters = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    return any(
        value is not None and name.rpartition("__")[2] == "group_by"
        for name, value in parameters.items()
    )


def _inwards(estimator: Any) -> Iterator[Any]:
    """Yield an estimator, the fitted one inside it, and so on."""
    while estimator is not None:
        yield estimator
        estimator = _inside(estimator)


def _inside(estimator: Any) -> Any:
    if hasattr(estimator, "steps"):
        return estimator.steps[-1][1]
    # a bagging classifier has `estimator_` too, which is not fitted
    for name in ("calibrated_classifiers_", "estimators_"):
        if len(getattr(estimator, name, ())):
            first = getattr(estimator, name)[0]
            return first.estimator if name == "calibrated_classifiers_" else first
    for name in ("best_estimator_", "estimator_", "regressor_"):
        if hasattr(estimator, name):
            return getattr(estimator, name)
    return None


Scorer = Callable[..., float]
Missing = Literal["raise", "nan", "ignore"]


def worst_group_scorer(
    scoring: str | Scorer = "accuracy",
    *,
    group_by: GroupBy | None = None,
    group_labels: Sequence[Hashable] | None = None,
    missing: Missing = "raise",
    min_count: int = 1,
    per_group: bool = False,
    overlap: str | None = None,
) -> Callable[..., Any]:
    """Make a scorer that returns the score of the group where it is lowest.

    It goes wherever scikit-learn takes ``scoring``. Scores are computed from held-out records
    without noise, so publishing one, or a choice made by one, is outside every guarantee.

    Parameters
    ----------
    scoring : str or callable, default="accuracy"
        Name of a scorer of scikit-learn ("neg_log_loss", "r2", ...), or a function
        ``scorer(estimator, X, y)`` of which more is better.
    group_by : column name, column index, sequence of them, or callable, optional
        Finds the groups in the X that is scored. By default they come as metadata: with
        ``enable_metadata_routing=True`` the scorer requests ``groups`` by itself. Where none come,
        the ``group_by`` of the fitted model finds them, in the X that reaches the model.
    group_labels : sequence, optional
        Every group that ought to be scored. By default the ``group_labels_`` of the fitted model,
        also at the end of a pipeline or inside a search; for other models the groups present.
    missing : {"raise", "nan", "ignore"}, default="raise"
        What to do about a group with fewer than `min_count` of the records scored: raise an
        error, return NaN, or take the worst of the other groups.
    min_count : int, default=1
        Fewest records for a score of a group to count.
    per_group : bool, default=False
        Return a dictionary with a score a group under ``"group_<label>"`` and the lowest under
        ``"worst_group"``: the form for several metrics, with ``refit="worst_group"`` in searches.
    overlap : {"cells", "attributes", "both", "membership"}, optional
        What several columns of groups mean; by default what it is to the fitted model, and "cells"
        for models that know nothing of it. With "both" the intersections are those of the model.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, *, groups=None)``.

    Raises
    ------
    ValueError
        If a parameter is wrong. The scorer raises it if there are no groups, or one is missing.

    Warns
    -----
    UngroupedWarning
        If nothing hands it groups inside a search: there is no `group_by`, and metadata routing is
        off. Then a model with a ``group_by`` finds them, or ``groups=`` where it is called by hand.
    GroupsWarning
        By the scorer, if no record to score is in a group that the model was fitted with.

    See Also
    --------
    worst_group_score : The same for predictions already made.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn_dpwg.metrics import worst_group_scorer
    >>> X = np.array([[0], [0], [1], [1]])  # of two groups
    >>> model = DummyClassifier().fit(X, [1, 1, 1, 0])
    >>> worst_group_scorer("accuracy", group_by=0)(model, X, [1, 1, 1, 0])
    0.5
    """
    if isinstance(scoring, str):
        get_scorer(scoring)  # raises for a name that scikit-learn does not know
    elif not callable(scoring):
        raise InputError(f"scoring must be the name of a scorer or a callable, got {scoring!r}.")
    if missing not in ("raise", "nan", "ignore"):
        raise InputError(f'missing must be "raise", "nan" or "ignore", got {missing!r}.')
    if type(min_count) is not int or min_count < 1:
        raise InputError(f"min_count must be a positive whole number, got {min_count!r}.")
    if group_by is None and not get_config()["enable_metadata_routing"]:
        warn(
            "nothing hands groups to this scorer inside a search, which would pay for fits before "
            "it fails, unless the model has a group_by: set group_by here, or make it with "
            "enable_metadata_routing=True. Called by hand it takes groups=....",
            UngroupedWarning,
        )
    if overlap is not None:
        check_kind_of_overlap(overlap)
    return _WorstGroupScorer(
        scoring, group_by, group_labels, missing, min_count, per_group, overlap
    )


@dataclass(eq=False, repr=False)
class _WorstGroupScorer:
    """A scorer with the parameters of `worst_group_scorer`."""

    scoring: str | Scorer
    group_by: GroupBy | None = None
    group_labels: Sequence[Hashable] | None = None
    missing: Missing = "raise"
    min_count: int = 1
    per_group: bool = False
    overlap: str | None = None

    def __repr__(self) -> str:
        changed = [
            f"{each.name}={getattr(self, each.name)!r}"
            for each in fields(self)[1:]
            if getattr(self, each.name) != each.default
        ]
        return f"worst_group_scorer({', '.join([repr(self.scoring), *changed])})"

    def get_metadata_routing(self) -> MetadataRequest:
        """Return what scikit-learn should hand to the scorer: the groups, unless X has them."""
        request = MetadataRequest(owner=self)
        if self.group_by is None:
            request.score.add_request(param="groups", alias=True)
        return request

    def __call__(
        self, estimator: Any, X: Any, y: Any, *, groups: Any = None
    ) -> float | dict[str, float]:
        """Score the estimator in each group, and return the lowest score."""
        same_rows(X=X, y=y, groups=groups)
        is_passed = groups is not None
        overlap = overlap_of_model(estimator) if self.overlap is None else self.overlap
        known = self.group_labels
        if known is None:
            known = labels_of_model(estimator) or None
        present, places = members_of_groups(
            self._groups(estimator, X, groups), len(y), overlap, known
        )
        members_of = dict(zip(present, places, strict=True))
        scorer = self._scorer_for(estimator)
        scores: dict[Hashable, float] = {}
        missed: set[Hashable] = set()
        expected = self._expected(estimator, present, is_passed)
        for label in dict.fromkeys([*expected, *present]):
            members = members_of.get(label, np.zeros(0, dtype=np.intp))
            if len(members) >= self.min_count:
                scores[label] = float(
                    scorer(estimator, take_rows(X, members), take_rows(y, members))
                )
            elif self.missing == "raise":
                raise InputError(
                    f"group {label!r} has {len(members)} of the records to score, fewer than "
                    f"min_count={self.min_count}: use folds that hold every group "
                    f'(PublicKFold), or missing="nan" or "ignore".'
                )
            else:
                scores[label] = np.nan
                missed.add(label)
        counted = [
            score for label, score in scores.items() if self.missing == "nan" or label not in missed
        ]
        worst = float(np.min(counted)) if counted else np.nan  # NaN if any is
        if not self.per_group:
            return worst
        return {f"group_{label}": score for label, score in scores.items()} | {"worst_group": worst}

    def _groups(self, estimator: Any, X: Any, groups: Any) -> Any:
        groups = find_groups(X, groups, self.group_by)
        if groups is None:
            groups = groups_of_model(estimator, X)
        if groups is None:
            raise InputError(
                "no groups reached the scorer, and the fit that it was to score is paid for if it "
                "was private: set group_by of the scorer or of the model, or pass groups as "
                "metadata (enable_metadata_routing=True; params={'groups': ...} in "
                "cross_validate, groups=... in the fit of a search)."
            )
        return groups

    def check_reached(self, estimator: Any) -> None:
        """Refuse to score an unfitted model where nothing can hand groups to this scorer."""
        if self.group_by is None and not has_grouping(estimator):
            raise InputError(
                f"no groups reached the scorer: set group_by of it or of the model; got {self!r}, "
                f"and nothing was fitted yet."
            )

    def _expected(
        self, estimator: Any, present: NDArray[np.object_], is_passed: bool
    ) -> Sequence[Hashable]:
        if self.group_labels is not None:
            return self.group_labels
        fitted = labels_of_model(estimator)
        if not fitted or set(fitted) & set(present):
            return fitted
        # nothing in common: other groups than the model's, or folds of one group each
        by_model = group_by_of_model(estimator)
        if by_model is not None and not is_passed and self.group_by in (None, by_model):
            return fitted
        if self.missing != "ignore":
            warn(
                f"no record to score is in a group that the model was fitted with, such as "
                f"{fitted[0]!r}: the score is that of the worst of {list(present)[:5]!r} alone. "
                f"Say group_labels=[...] if these are all groups to score.",
                GroupsWarning,
            )
        return []

    def _scorer_for(self, estimator: Any) -> Scorer:
        if self.scoring == "neg_log_loss":  # a group may lack a class
            return make_scorer(
                log_loss,
                greater_is_better=False,
                response_method="predict_proba",
                labels=estimator.classes_,
            )
        return get_scorer(self.scoring)
