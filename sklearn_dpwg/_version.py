"""The version, from here alone: the package, its wheel, its site and what it stores show it."""

__version__ = "0.1.0"
