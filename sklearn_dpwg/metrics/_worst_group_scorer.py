"""A scorer of the worst-off group, for cross-validation and searches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.utils.metadata_routing import MetadataRequest

from sklearn_dpwg._lazy_data import refuse_lazy
from sklearn_dpwg.exceptions import MissingGroupsWarning, UnreachedScorerWarning, warn
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
        error, return NaN, or take the worst of the other groups.
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
    UnreachedScorerWarning
        If nothing hands it groups inside a search: there is no `group_by`, and metadata routing is
        off. Then a model with a ``group_by`` finds them, or ``groups=`` where it is called by hand.
    MissingGroupsWarning
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
        raise ValueError(f"scoring must be the name of a scorer or a callable, got {scoring!r}.")
    if missing not in ("raise", "nan", "ignore"):
        raise ValueError(f'missing must be "raise", "nan" or "ignore", got {missing!r}.')
    if type(min_count) is not int or min_count < 1:
        raise ValueError(f"min_count must be a positive whole number, got {min_count!r}.")
    if group_by is None and not get_config()["enable_metadata_routing"]:
        warn(
            "nothing hands groups to this scorer inside a search, which would pay for fits before "
            "it fails, unless the model has a group_by: set group_by here, or make it with "
            "enable_metadata_routing=True. Called by hand it takes groups=....",
            UnreachedScorerWarning,
        )
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
        """Refuse to score an unfitted model where nothing can hand groups to this scorer."""
        if self.group_by is None and not has_grouping(estimator):
            raise ValueError(
                f"no groups reached the scorer: set group_by of it or of the model; got {self!r}, "
                f"and nothing was fitted yet."
            )

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
        "no groups reached the scorer, and the fit that it was to score is paid for if it was "
        "private: set group_by of the scorer or of the model, or pass groups as metadata "
        "(enable_metadata_routing=True; params={'groups': ...} in cross_validate, groups=... in "
        "the fit of a search)."
    )
