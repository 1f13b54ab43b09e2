"""The compiled copy of rows into their groups; importing this module loads numba."""

from __future__ import annotations

from sklearn_dpwg.kernels._kernel import Kernel


def _place_rows(
    rows, norms, targets, codes, first, nexts, rows_to, norms_to, targets_to, places_to
):
    """Write the records of a block, the first of which is given, behind the last of their group.

    Reading in order and writing to the end of each group is quicker than gathering its rows.
    """
    n_columns = rows.shape[1]
    for i in range(len(codes)):
        to = nexts[codes[i]]
        nexts[codes[i]] = to + 1
        for j in range(n_columns):
            rows_to[to, j] = rows[i, j]
        norms_to[to] = norms[i]
        targets_to[to] = targets[i]
        places_to[to] = first + i


place_rows = Kernel(_place_rows)
