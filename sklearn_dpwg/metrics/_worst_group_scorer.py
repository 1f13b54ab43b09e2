"""A scorer of the worst-off group, for cross-validation and searches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.utils.metadata_routing import MetadataRequest

from sklearn_dpwg._lazy_data import refuse_lazy
from sklearn_dpwg.exceptions import MissingGroupsWarning, warn
from sklearn_dpwg.groups import GroupBy, encode_groups, find_groups, take_rows
from sklearn_dpwg.metrics._model_inside import (
    group_by_of_model,
    groups_of_model,
    has_grouping,
    labels_of_model,
)

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
        error, return NaN, or take the worst of the other groups. Around a private model of this
        package, searches and ``cross_validate`` raise it before the first fit, where they are
        given the groups of all records or the model finds them in their X.
    min_count : int, default=1
        Fewest records for a score of a group to count.
    per_group : bool, default=False
        Return a dictionary with a score a group under ``"group_<label>"`` and the lowest under
        ``"worst_group"``: the form for several metrics, with ``refit="worst_group"`` in searches.

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
    MissingGroupsWarning
        By the scorer, if no record to score is in a group that the model was fitted with.

    See Also
    --------
    worst_group_score : The same for predictions already made.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn_dpwg.metrics import worst_group_scorer
    >>> model = DummyClassifier().fit([[0], [1], [2]], [1, 1, 0])
    >>> scorer = worst_group_scorer("accuracy")
    >>> scorer(model, [[0], [1], [2], [3]], [1, 1, 1, 0], groups=["a", "a", "b", "b"])
    0.5
    """
    if isinstance(scoring, str):
        get_scorer(scoring)  # raises for a name that scikit-learn does not know
    elif not callable(scoring):
        raise ValueError(f"scoring must be the name of a scorer or a callable, got {scoring!r}.")
    if missing not in ("raise", "nan", "ignore"):
        raise ValueError(f'missing must be "raise", "nan" or "ignore", got {missing!r}.')
    if type(min_count) is not int or min_count < 1:
        raise ValueError(f"min_count must be a positive whole number, got {min_count!r}.")
    return _WorstGroupScorer(scoring, group_by, group_labels, missing, min_count, per_group)


class _WorstGroupScorer:
    def __init__(
        self,
        scoring: str | Scorer,
        group_by: GroupBy | None,
        group_labels: Sequence[Hashable] | None,
        missing: Missing,
        min_count: int,
        per_group: bool,
    ) -> None:
        self.scoring = scoring
        self.group_by = group_by
        self.group_labels = group_labels
        self.missing = missing
        self.min_count = min_count
        self.per_group = per_group

    def __repr__(self) -> str:
        defaults = {
            "group_by": None, "group_labels": None, "missing": "raise", "min_count": 1,
            "per_group": False,
        }  # fmt: skip
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, default in defaults.items()
            if getattr(self, name) != default
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
        refuse_lazy(X=X, y=y, groups=groups)
        is_passed = groups is not None
        codes, present = encode_groups(self._groups(estimator, X, groups), len(y), None)
        code_of = {label: code for code, label in enumerate(present)}
        scorer = self._scorer_for(estimator)
        scores: dict[Hashable, float] = {}
        missed: set[Hashable] = set()
        for label in dict.fromkeys([*self._expected(estimator, present, is_passed), *present]):
            members = np.flatnonzero(codes == code_of.get(label, -1))
            if len(members) >= self.min_count:
                scores[label] = float(
                    scorer(estimator, take_rows(X, members), take_rows(y, members))
                )
            elif self.missing == "raise":
                raise self._too_few(label, len(members), "the records to score")
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
            raise _no_groups()
        return groups

    def check_reached(self, estimator: Any) -> None:
        """Refuse to score an unfitted model whose groups cannot reach this scorer in a search."""
        is_routed = get_config()["enable_metadata_routing"]
        if self.group_by is None and not is_routed and not has_grouping(estimator):
            raise _no_groups()

    def check_folds(
        self, X: Any, groups: Any, folds: Iterable[tuple[Any, NDArray[np.intp]]]
    ) -> None:
        """Refuse folds of which one lacks a group to score, before anything is fitted on them.

        Groups are those that are passed to the scorer, or that the model finds in X.
        """
        encoded = self._encoded(X, groups)
        if encoded is None:
            return
        codes, present, known = encoded
        for fold, (_, test) in enumerate(folds):
            sizes = np.bincount(codes[test], minlength=len(present))
            count_of = dict.fromkeys(known, 0) | {
                label: size for label, size in zip(present, sizes, strict=True) if size
            }
            for label, size in count_of.items():
                if size < self.min_count:
                    where = f"the records to score in fold {fold} (nothing was fitted yet)"
                    raise self._too_few(label, size, where)

    def check_sizes(self, X: Any, groups: Any, n_folds: int) -> None:
        """Refuse groups too small for so many disjoint folds, however these will be drawn."""
        encoded = self._encoded(X, groups)
        if encoded is None:
            return
        codes, present, known = encoded
        sizes = np.bincount(codes, minlength=len(present)).tolist()
        for label, size in (
            dict.fromkeys(known, 0) | dict(zip(present, sizes, strict=True))
        ).items():
            if size < n_folds * self.min_count:
                raise ValueError(
                    f"group {label!r} has {size} of the records, too few for min_count="
                    f"{self.min_count} in each of {n_folds} folds, however they are drawn (nothing "
                    f"was fitted yet): use fewer folds that hold every group "
                    f"(GroupLabelStratifiedKFold, or a seed, with which folds are looked at before "
                    f'the first fit), or missing="nan" or "ignore".'
                )

    def _encoded(
        self, X: Any, groups: Any
    ) -> tuple[NDArray[np.intp], NDArray[np.object_], list[Hashable]] | None:
        """Return codes, labels that are present and those to score; None if all may be missed."""
        if self.group_by is not None:
            groups = find_groups(X, None, self.group_by)
        if groups is None or self.missing != "raise":
            return None
        n_records = X.shape[0] if hasattr(X, "shape") else len(X)
        codes, present = encode_groups(groups, n_records, None)
        known = present.tolist() if self.group_labels is None else list(self.group_labels)
        return codes, present, known

    def _too_few(self, label: Hashable, size: int, where: str) -> ValueError:
        return ValueError(
            f"group {label!r} has {size} of {where}, fewer than min_count={self.min_count}: use "
            f"folds that hold every group (GroupLabelStratifiedKFold), or "
            f'missing="nan" or "ignore".'
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
                MissingGroupsWarning,
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


def _no_groups() -> ValueError:
    return ValueError(
        "no groups reached the scorer: set group_by of it or of the model, or pass groups as "
        "metadata (enable_metadata_routing=True; params={'groups': ...} in cross_validate, "
        "groups=... in the fit of a search)."
    )
