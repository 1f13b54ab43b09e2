"""Command line: schema, plan, fit, predict and audit.

``python -m sklearn_dpwg --help``. It needs the extra `cli`. `TRUSTED_TYPES` names what its model
files may hold, for ``skops.io.load(path, trusted=TRUSTED_TYPES)``.
"""

from sklearn_dpwg.cli.models import TRUSTED_TYPES

__all__ = ["TRUSTED_TYPES"]
