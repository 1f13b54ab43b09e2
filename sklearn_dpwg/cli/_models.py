"""Models in files of skops, which load without running code that a file brings along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn_dpwg.cli._answers import WrongInput
from sklearn_dpwg.cli._outputs import write
from sklearn_dpwg.cli.trusted_types import TRUSTED_TYPES


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
        others = sorted(set(io.get_untrusted_types(file=path)) - set(TRUSTED_TYPES))
    except Exception:  # whatever a broken archive or an unknown version raises
        raise WrongInput(f"{path} must be a model that `fit` or skops wrote.") from None
    if others:
        raise WrongInput(
            f"{path} must hold types of this package and of scikit-learn alone, and holds "
            f"{', '.join(others[:3])}{', ...' if len(others) > 3 else ''}: it is not loaded."
        )
    try:
        model = io.load(path, trusted=list(TRUSTED_TYPES))
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
