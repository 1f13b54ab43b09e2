"""Command line: plan, fit, predict and audit.

``dpwg --help``, or ``python -m sklearn_dpwg --help``. It needs the extra `cli`; its model files are
read in Python by ``skops.io.load`` and `sklearn_dpwg.serving.trusted_types`.
"""

__all__: list[str] = []
