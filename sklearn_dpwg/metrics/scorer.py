"""A scorer of the worst-off group, for cross-validation and searches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.metrics import get_scorer, make_scorer
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

from sklearn_dpwg.data import frames
from sklearn_dpwg.data import groups as of_groups
from sklearn_dpwg.exceptions import GroupsWarning, InputError, UngroupedWarning, warn
from sklearn_dpwg.metrics import groups as tables


def worst_group_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    groups: Any,
    metric: str | tables.Metric = "accuracy",
    greater_is_better: bool | None = None,
    **settings: Any,
) -> float:
    """Return a metric in the group where it is worst.

    Computed from private records and without noise, so publishing it is outside every guarantee.

    Parameters
    ----------
    y_true, y_pred, groups : array-like with an entry a record
        As for `group_table`.
    metric : str or callable, default="accuracy"
        A metric of `group_table`.
    greater_is_better : bool, optional
        Direction of the metric; known for names but "selection_rate", required for a callable.
    **settings : optional
        Others of `group_table`: `sample_weight`, `classes`, `pos_label`, `min_count`, `overlap`.

    Returns
    -------
    float
        The metric of the worst-off group: the smallest where greater is better, else the
        largest. Groups in which it is undefined do not count, with a warning.

    Examples
    --------
    >>> from sklearn_dpwg.metrics import worst_group_score
    >>> worst_group_score([1, 0, 1, 0], [1, 0, 0, 0], groups=["a", "a", "b", "b"])
    0.5
    """
    direction = tables.is_greater_better(metric) if greater_is_better is None else greater_is_better
    table = tables.group_table(y_true, y_pred, groups=groups, metrics={"score": metric}, **settings)
    if direction is None:
        raise InputError(f"greater_is_better must be given for the metric {metric!r}.")
    sign = 1.0 if direction else -1.0
    return sign * _lowest((sign * table["score"]).to_dict())


def _lowest(scores: Mapping[Any, float]) -> float:
    """Return the lowest score that is not NaN, and warn of groups with a score of NaN."""
    undefined = [label for label, score in scores.items() if np.isnan(score)]
    if undefined:
        warn(
            f"the score is undefined in the groups {undefined[:5]!r}: the worst is of the others.",
            GroupsWarning,
        )
    return min((float(score) for score in scores.values() if not np.isnan(score)), default=np.nan)


# Groups of the fitted model inside pipelines and meta-estimators.


def _of_model(estimator: Any, attribute: str) -> Any:
    """Return an attribute of the outermost model inside that has it, or None."""
    values = (getattr(model, attribute, None) for model in inwards(estimator))
    return next((value for value in values if value is not None), None)


def _groups_of_model(estimator: Any, X: Any) -> Any:
    """Return the groups of the rows X, by ``group_by`` of the model inside, None if it has none."""
    for model in inwards(estimator):
        if getattr(model, "group_by", None) is not None:
            return of_groups.find_groups(X, None, model.group_by)
        if len(getattr(model, "steps", [])) > 1:  # the last step sees transformed rows
            X = model[:-1].transform(X)
    return None


def _labels_of_model(estimator: Any) -> list[Hashable]:
    """Return the group labels that the model inside was fitted with, [] if it has none."""
    labels = _of_model(estimator, "group_labels_")
    # 0 alone is the one group of a fit without groups
    return [] if labels is None or list(labels) == [0] else list(labels)


def inwards(estimator: Any) -> Iterator[Any]:
    """Yield an estimator, the fitted estimator inside it, and so on to the innermost."""
    while estimator is not None:
        yield estimator
        estimator = _inside(estimator)


def _inside(estimator: Any) -> Any:
    """Return the fitted estimator inside a pipeline, search or ensemble (its first), or None."""
    if hasattr(estimator, "steps"):
        return estimator.steps[-1][1]
    # a bagging classifier has `estimator_` too, which is not fitted
    for name in ("calibrated_classifiers_", "estimators_"):
        if len(getattr(estimator, name, ())):
            first = getattr(estimator, name)[0]
            return first.estimator if name == "calibrated_classifiers_" else first
    names = ("best_estimator_", "estimator_", "regressor_")
    return next((getattr(estimator, each) for each in names if hasattr(estimator, each)), None)


def _with_groups(estimator: Any, groups: Any, names: set[str]) -> Any:
    """Return a copy of the estimator whose methods get the groups, if they request them."""
    model = estimator
    while hasattr(model, "best_estimator_"):  # a search does not route metadata to predict
        model = model.best_estimator_
    try:
        routing = get_routing_for_object(model)
    except NotImplementedError:  # raised by estimators that route nothing
        return estimator
    methods = {}
    for name in ("predict", "predict_proba", "decision_function", "score"):
        if isinstance(routing, MetadataRequest):
            requested = {"groups"} & set(getattr(routing, name).requests)
        else:
            requested = routing.consumes(name, names)
        if requested and hasattr(model, name):
            method, keywords = getattr(model, name), dict.fromkeys(requested, groups)
            methods[name] = update_wrapper(partial(method, **keywords), method)
    if not methods or _of_model(estimator, "group_by") is not None:
        return estimator
    with_groups = copy(estimator)
    vars(with_groups).update(methods)
    return with_groups


Scorer = Callable[..., float]
Take = Callable[[Any], Any]  # selects the rows of one group


def worst_group_scorer(
    scoring: str | Scorer = "accuracy",
    *,
    group_by: of_groups.GroupBy | None = None,
    group_labels: Sequence[Hashable] | None = None,
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
        Finds the groups in the X that is scored. By default they come as metadata, ``groups`` or
        what ``set_score_request(groups="sex")`` names, with ``enable_metadata_routing=True``; or
        else the ``group_by`` of the fitted model finds them, in the X that reaches the model.
    group_labels : sequence, optional
        Every group to score; one without records is refused. By default the ``group_labels_`` of
        the fitted model, or the groups present.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, *, groups=None)``, and what `scoring` takes besides, as
        ``sample_weight``. A model whose ``predict`` takes groups gets them.

    Warns
    -----
    UngroupedWarning
        If no search hands it groups, as there is no `group_by` and no metadata routing.
    GroupsWarning
        By the scorer, if no group is the model's, or one has no score, as recall without a
        positive record: the others are scored then.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn_dpwg.metrics import worst_group_scorer
    >>> X = [[0], [0], [1], [1]]  # of two groups
    >>> model = DummyClassifier().fit(X, [1, 1, 1, 0])
    >>> worst_group_scorer("accuracy", group_by=0)(model, X, [1, 1, 1, 0])
    0.5
    """
    if get_scorer(scoring) is None:  # which refuses other values itself
        raise InputError("scoring must be the name of a scorer or a callable, got None.")
    if group_by is None and not get_config()["enable_metadata_routing"]:
        warn(
            "nothing hands groups to this scorer inside a search, which pays for fits before it "
            "fails: set group_by, here or of the model, or enable_metadata_routing=True.",
            UngroupedWarning,
        )
    return _WorstGroupScorer(scoring, group_by, group_labels)


@dataclass(eq=False)
class _WorstGroupScorer(frames.PlainlyStored):
    """A scorer with the parameters of `worst_group_scorer`."""

    scoring: str | Scorer
    group_by: of_groups.GroupBy | None = None
    group_labels: Sequence[Hashable] | None = None
    _requests: dict[str, bool | str | None] = field(default_factory=dict, repr=False)

    def set_score_request(self, **requests: bool | str | None) -> _WorstGroupScorer:
        """Set the names under which metadata is passed, as for the scorers of scikit-learn."""
        if not get_config()["enable_metadata_routing"]:
            raise RuntimeError("set_score_request needs enable_metadata_routing=True.")
        self._requests = requests
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the metadata to route: groups, unless X has them, and what scoring takes."""
        own = {} if self.group_by is not None else {"groups": True}
        of_scoring = get_routing_for_object(get_scorer(self.scoring)).score.requests
        request = MetadataRequest(owner=self)
        for name, alias in (own | of_scoring | self._requests).items():
            request.score.add_request(param=name, alias=alias)
        return request

    def __getattr__(self, name: str) -> Any:
        # private attributes that scikit-learn reads from its scorers
        if name in ("_sign", "_response_method", "_accept_sample_weight"):
            return getattr(get_scorer(self.scoring), name)
        if name == "_kwargs":
            inner = get_scorer(self.scoring)._kwargs
            return {key: each for key, each in inner.items() if key == "pos_label"}
        if name == "_get_metadata_request":
            return self.get_metadata_routing
        if name != "_score_func":
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        if self.group_by is not None or not get_config()["enable_metadata_routing"]:
            raise AttributeError(
                "thresholds are tuned on predictions alone, so groups must come as metadata: leave "
                "group_by of worst_group_scorer None, and say enable_metadata_routing=True."
            )
        return self._score_predictions

    def _metric(self, *classes: Any) -> Callable[..., float]:
        """Return the scorer's metric as a function that knows the classes of all records."""
        scoring = get_scorer(self.scoring)
        arrays = [np.asarray(each) for each in classes]
        known = {label for each in arrays if each.ndim == 1 for label in each.tolist()}
        metric = partial(scoring._score_func, **scoring._kwargs)

        def score(y_true: Any, y_pred: Any, pos_label: Any = None, **per_record: Any) -> float:
            truth = tables.checked_array(y_true, "y")
            predicted = tables.checked_array(y_pred, "the prediction", len(truth))
            weights = {key: np.asarray(each) for key, each in per_record.items()}
            value = tables.measure(metric, truth, predicted, predicted, weights, known, pos_label)
            return value(np.arange(len(truth)))

        return score

    def _score_predictions(
        self,
        y_true: Any,
        y_pred: Any,
        *,
        groups: Any = None,
        pos_label: Any = None,
        **metadata: Any,
    ) -> float:
        """Return the worst score of predictions, before the sign of the metric."""
        metric, sign = self._metric(y_true, y_pred), self._sign

        def score(take: Take) -> float:
            weights = {key: take(each) for key, each in metadata.items()}
            return float(sign * metric(take(y_true), take(y_pred), pos_label, **weights))

        groups = self._groups(None, None, groups)
        return float(sign * self._score_groups(score, groups, len(y_true)))

    def __call__(
        self, estimator: Any, X: Any, y: Any, *, groups: Any = None, **metadata: Any
    ) -> float:
        """Score the estimator in each group, and return the lowest score."""
        _, y, groups = frames.same_rows(X=X, y=y, groups=groups)
        of_records = self._groups(estimator, X, groups)
        scoring = get_scorer(self.scoring)
        if hasattr(scoring, "_score_func"):
            scoring = make_scorer(
                self._metric(getattr(estimator, "classes_", ()), y),
                greater_is_better=scoring._sign > 0,
                response_method=scoring._response_method,
                **self._kwargs,
            )
        names = {"groups", str(self.get_metadata_routing().score.requests.get("groups"))}

        def score(take: Take) -> float:
            weights = {key: take(each) for key, each in metadata.items() if each is not None}
            model = _with_groups(estimator, take(of_records), names)
            return tables.value_or_nan(scoring, model, take(X), take(y), **weights)

        return self._score_groups(score, of_records, len(y), estimator, groups is not None)

    def _score_groups(
        self,
        score: Callable[[Take], float],
        groups: Any,
        n_records: int,
        estimator: Any = None,
        is_passed: bool = True,
    ) -> float:
        """Return the lowest score of all groups; ``score`` maps the rows of one to its score."""
        overlap = _of_model(estimator, "overlap")
        overlap = overlap if isinstance(overlap, str) else "cells"
        stated = [] if self.group_labels is None else frames.plain_list(self.group_labels)
        fitted = _labels_of_model(estimator)
        expected = stated or fitted
        labels, members = of_groups.members_of_groups(groups, n_records, overlap, expected or None)
        is_own = not is_passed and self.group_by in (None, _of_model(estimator, "group_by"))
        if not (stated or is_own or not fitted or (frames.places(labels, fitted) >= 0).any()):
            warn(  # other groups than the model's, or folds of one group each
                f"no record to score is in a group that the model was fitted with, such as "
                f"{fitted[0]!r}: the score is that of the worst of {list(labels)[:5]!r} alone. "
                f"Say group_labels=[...] if these are all groups to score.",
                GroupsWarning,
            )
            expected = []
        labels = frames.spelled(labels, frames.label_column(expected))
        places = dict.fromkeys(expected, np.zeros(0, dtype=np.intp))
        places |= dict(zip(labels, members, strict=True))
        empty = [label for label, each in places.items() if not len(each)]
        if empty:
            raise InputError(
                f"group {empty[0]!r} has 0 of the records to score: use folds that hold every "
                f"group (PublicKFold), or say group_labels=[...] of those to score."
            )
        return _lowest(
            {
                label: score(partial(of_groups.take_rows, members=each))
                for label, each in places.items()
            }
        )

    def _groups(self, estimator: Any, X: Any, groups: Any) -> Any:
        """Return the group of each record: as passed, by `group_by`, or as the model finds it."""
        groups = of_groups.find_groups(X, groups, self.group_by)
        groups = _groups_of_model(estimator, X) if groups is None else groups
        if groups is None:
            raise InputError(
                "no groups reached the scorer, and the fit that it was to score is paid for if it "
                "was private: set group_by, of it or of the model, or pass groups as metadata "
                "(enable_metadata_routing=True; groups=... in fit, or in params of cross_validate)."
            )
        return groups
