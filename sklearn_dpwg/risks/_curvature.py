"""Hessians of group risks, block by block."""

from __future__ import annotations

import numpy as np

from sklearn_dpwg._typing import FloatArray
from sklearn_dpwg.kernels import row_block, scale_rows
from sklearn_dpwg.records import GroupedRecords
from sklearn_dpwg.risks._by_row import dense


def centred_hessian(
    hessian: FloatArray, center: FloatArray | None, intercept_scaling: float
) -> FloatArray:
    """Return the Hessian for centred rows, given that for rows with the same constant."""
    if center is None:
        return hessian
    n_columns, center = hessian.shape[1], center / intercept_scaling
    change = np.eye(n_columns)
    change[-1, :-1] = -center
    return np.asarray(np.einsum("ij,aibk,kl->ajbl", change, hessian, change))


def add_curvature(
    hessian: FloatArray,
    records: GroupedRecords,
    block: slice,
    curvature: FloatArray,
    intercept_scaling: float,
) -> None:
    """Add what the records of a block contribute, given their curvatures times weights."""
    rows = row_block(records.rows, block.start, block.stop)
    row_scale, n_features = records.row_scale[block], rows.shape[1]
    n_outputs = len(hessian)
    curvature = curvature.reshape(len(row_scale), n_outputs, n_outputs)
    for first in range(n_outputs):
        for second in range(first + 1):
            between = curvature[:, first, second]
            if np.all(between >= 0.0):
                # a matrix times its own transpose costs half as much
                left = right = scale_rows(rows, np.sqrt(between) * row_scale)
            else:
                left, right = scale_rows(rows, row_scale), scale_rows(rows, between * row_scale)
            product = left.T @ right
            pieces = hessian[first, :, second, :]
            pieces[:n_features, :n_features] += dense(product)
            if intercept_scaling > 0:
                edge = intercept_scaling * (rows.T @ (between * row_scale))
                pieces[:n_features, -1] += edge
                pieces[-1, :n_features] += edge
                pieces[-1, -1] += intercept_scaling**2 * between.sum()
            if first != second:
                hessian[second, :, first, :] = pieces
