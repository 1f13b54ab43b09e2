"""Result of an audit as lines for a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sklearn_dpwg.inspection._labels import text_of

if TYPE_CHECKING:
    from sklearn_dpwg.inspection.group_rate import GroupRate


def table_in_lines(listed: dict[str, tuple[GroupRate, ...]]) -> list[str]:
    """Return a line a group: each number with the limits of its interval."""
    groups = zip(*listed.values(), strict=True)
    rows = [["group", *listed], *([text_of(row[0].group), *map(_cell, row)] for row in groups)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]


def _cell(rate: GroupRate) -> str:
    if rate.metric == "size":
        return f"{rate.estimate:,.0f}"
    if math.isnan(rate.estimate):
        return "cannot tell"
    return f"{rate.estimate:.2f} [{rate.low:.2f}, {rate.high:.2f}]"
