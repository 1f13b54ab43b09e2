"""What decides how compiled kernels round: machines that agree in it give the same numbers."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


def rounding_kind() -> str:
    """Return the processor that kernels are compiled for here, and the versions that do it."""
    import numba
    from llvmlite import binding

    settings: Any = numba.config
    # NUMBA_CPU_NAME=generic sets both
    name, features = settings.CPU_NAME, settings.CPU_FEATURES
    if name is None:
        name = binding.get_host_cpu_name()
    if features is None:
        features = binding.get_host_cpu_features().flatten()
    digest = hashlib.sha256(features.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{name} ({digest}), numba {numba.__version__}, NumPy {np.__version__}"
