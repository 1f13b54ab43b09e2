"""Command line: schema, plan, fit, predict and audit.

``dpwg --help``, or ``python -m sklearn_dpwg --help``. It needs the extra `cli`. `TRUSTED_TYPES`
names what its model files may hold, for ``skops.io.load(path, trusted=TRUSTED_TYPES)``.
"""

from typing import Any

__all__ = ["TRUSTED_TYPES"]


def __getattr__(name: str) -> Any:
    # the list is read off the package, all of which would be imported for ``--help``
    if name == "TRUSTED_TYPES":
        from sklearn_dpwg.serving import trusted_types

        return trusted_types()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
