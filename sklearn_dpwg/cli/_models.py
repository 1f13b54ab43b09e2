"""Models in files of skops, which load without running code that a file brings along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn_dpwg.cli._answers import WrongInput
from sklearn_dpwg.cli._outputs import write

# What a model of this package is made of, beside what skops trusts by itself: types that hold
# numbers and words and do nothing when they are loaded. tests/cli/test_models.py fits every solver
# and loss to see that the list has all of them, and nothing else.
TRUSTED = tuple(
    f"{module}.{name}"
    for module, names in {
        "datetime": ("date", "datetime", "timedelta", "timezone"),  # bounds of dates
        "dp_accounting.dp_event": (
            "ComposedDpEvent",
            "GaussianDpEvent",
            "LaplaceDpEvent",
            "NonPrivateDpEvent",
            "SelfComposedDpEvent",
        ),
        "sklearn_dpwg.estimators.classifier": ("DPWorstGroupClassifier",),
        "sklearn_dpwg.estimators.regressor": ("DPWorstGroupRegressor",),
        "sklearn_dpwg.losses.absolute_error": ("AbsoluteError",),
        "sklearn_dpwg.losses.base": ("LossConstants",),
        "sklearn_dpwg.losses.binary_log_loss": ("BinaryLogLoss",),
        "sklearn_dpwg.losses.hinge": ("Hinge",),
        "sklearn_dpwg.losses.huber": ("Huber",),
        "sklearn_dpwg.losses.kinked_loss": ("_RoundedKink",),
        "sklearn_dpwg.losses.multinomial_log_loss": ("MultinomialLogLoss",),
        "sklearn_dpwg.losses.quantile": ("Quantile",),
        "sklearn_dpwg.losses.smoothed_hinge": ("SmoothedHinge",),
        "sklearn_dpwg.losses.squared_error": ("SquaredError",),
        "sklearn_dpwg.losses.squared_hinge": ("SquaredHinge",),
        "sklearn_dpwg.preprocessing._column_kinds": (
            "Boolean", "Category", "Date", "Number", "Ordered",
        ),
        "sklearn_dpwg.preprocessing.public_schema": ("PublicSchema",),
        "sklearn_dpwg.privacy.guarantee": ("PrivacyGuarantee",),
        "sklearn_dpwg.privacy.release": ("Budget", "Release"),
        "sklearn_dpwg.privacy.sensitivity._sums": ("SumGrid",),
        "sklearn_dpwg.problem": ("Problem",),
        "sklearn_dpwg.solvers.ags.schedule": ("AGSSchedule",),
        "sklearn_dpwg.solvers.best_response.schedule": ("BestResponseSchedule",),
        "sklearn_dpwg.solvers.centring.problem": ("CentredProblem",),
        "sklearn_dpwg.solvers.exact": ("ExactSchedule",),
        "sklearn_dpwg.solvers.gda.schedule": ("GDASchedule",),
        "sklearn_dpwg.solvers.mgr.schedule": ("MGRSchedule",),
        "sklearn_dpwg.solvers.mixture": ("Calls", "MixturePlan"),
        "sklearn_dpwg.solvers.moments.schedule": ("MomentsSchedule",),
        "sklearn_dpwg.solvers.oco.schedule": ("OCOSchedule", "StrengthRule"),
        "sklearn_dpwg.solvers.online_to_batch.schedule": ("OnlineToBatchSchedule",),
        "sklearn_dpwg.solvers.online_to_batch.sensitivity": ("DifferenceSensitivity",),
        "sklearn_dpwg.solvers.phased_erm.descent_bound": ("DescentBound",),
        "sklearn_dpwg.solvers.phased_erm.schedule": ("PhasedERMSchedule",),
        "sklearn_dpwg.solvers.plan": ("Plan",),
    }.items()
    for name in names
)  # fmt: skip


def save_model(model: Any, path: Path) -> None:
    """Write a fitted model."""
    from skops import io

    write(path, lambda part: io.dump(model, part))


def load_model(path: Path) -> Any:
    """Read a model of a schema and an estimator, or say what is wrong with the file."""
    from skops import io

    if not path.is_file():
        raise WrongInput(f"{path} must be a file that is there.")
    try:
        others = sorted(set(io.get_untrusted_types(file=path)) - set(TRUSTED))
    except Exception:  # whatever a broken archive or an unknown version raises
        raise WrongInput(f"{path} must be a model that `fit` or skops wrote.") from None
    if others:
        raise WrongInput(
            f"{path} must hold types of this package and of scikit-learn alone, and holds "
            f"{', '.join(others[:3])}{', ...' if len(others) > 3 else ''}: it is not loaded."
        )
    try:
        model = io.load(path, trusted=list(TRUSTED))
    except Exception:
        raise WrongInput(f"{path} must be a model that this version can load.") from None
    if not (hasattr(model, "steps") and hasattr(schema_of(model), "columns")) or not hasattr(
        model[-1], "privacy_"
    ):
        raise WrongInput(
            f"{path} must hold a fitted pipeline of a PublicSchema and a private estimator, as "
            f"`fit` writes it, got {type(model).__name__}."
        )
    return model


def schema_of(model: Any) -> Any:
    """Return the first step of a pipeline, or None."""
    return model[0] if getattr(model, "steps", None) else None
