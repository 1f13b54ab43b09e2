"""Command line: schema, plan, fit, predict and audit.

``python -m sklearn_dpwg --help``. It needs the extra `cli`.
"""

__all__: list[str] = []
