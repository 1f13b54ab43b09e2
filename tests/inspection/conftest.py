"""Pictures without a window, and none left open."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_windows():
    """Draw into memory, and close what a test has drawn."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")
