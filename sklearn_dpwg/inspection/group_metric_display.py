"""A metric of every group, with its interval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sklearn_dpwg.inspection import _drawing as drawing
from sklearn_dpwg.inspection._answers import probabilities_of
from sklearn_dpwg.inspection._labels import shortened, texts_of
from sklearn_dpwg.inspection.audit_result import AuditResult
from sklearn_dpwg.inspection.group_audit import GroupAudit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# The four-fifths rule (29 CFR 1607.4 D).
FOUR_FIFTHS = 0.8
