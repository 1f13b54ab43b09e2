"""The version, which `sklearn_dpwg` shows."""

__version__ = "0.1.0.dev0"
