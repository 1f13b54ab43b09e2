"""Print the versions of the libraries that a run of the tests depends on."""

import sys
from importlib.metadata import version

LIBRARIES = ("scikit-learn", "numpy", "scipy", "pandas", "dp-accounting", "opendp")

versions = [f"{name} {version(name)}" for name in LIBRARIES]
print(f"Python {sys.version.split()[0]}", *versions, sep=", ")
