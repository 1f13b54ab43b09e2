"""The compiled pass over rows; importing this module loads numba.

Rows are read in runs that the cache holds: the scores of a run, its losses and their derivatives,
its gradient. Where a step is given, what each record adds is rounded to a multiple of it, so that
adding up is exact in any order; otherwise what rounding takes from the sums of blocks is given back
at the end (docs/theory/sums.md). Nothing here raises or warns, whatever the numbers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.extending import overload

from sklearn_dpwg.exceptions import MachineError

# read when numba is loaded
os.environ.setdefault("NUMBA_DISABLE_INTEL_SVML", "1")

OPTIONS: Any = {"nogil": True, "error_model": "numpy"}


def refuse_svml() -> None:
    """Refuse a library of vector functions whose results depend on places (docs/theory/sums.md)."""
    if getattr(numba.config, "USING_SVML", False):
        raise MachineError(
            "numba uses Intel's SVML, in which the exp of a number depends on its place among "
            "others, and so would one record's gradient on who else is there: set the environment "
            "variable NUMBA_DISABLE_INTEL_SVML=1 before numba is loaded."
        )


refuse_svml()


class Kernel:
    """A function that is compiled at its first call for given types, and kept on disk.

    What is kept is found by the file of the function alone: whatever it calls stands in that file.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self._dispatcher = _dispatcher(function, cache=True)
        self._prepared: set[tuple[Any, ...]] = set()

    def prepare(self, *arguments: Any) -> Callable[..., None]:
        """Return the compiled function; threads that called it first would wait for each other."""
        kinds = tuple(map(_kind, arguments))
        if kinds in self._prepared:
            return self._dispatcher
        types = tuple(numba.typeof(argument) for argument in arguments)
        if types not in self._dispatcher.overloads:
            try:
                self._dispatcher.compile(types)
            except Exception:  # a full disk, a damaged file: what is kept is a convenience
                self._dispatcher = _dispatcher(self._function, cache=False)
                self._dispatcher.compile(types)
                self._prepared.clear()
        self._prepared.add(kinds)
        return self._dispatcher


def _kind(argument: Any) -> Any:
    """Return what the type follows from: numba's own answer takes longer than a short pass."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num
    if isinstance(argument, tuple):
        return tuple(map(_kind, argument))
    return type(argument)


def _dispatcher(function: Callable[..., None], *, cache: bool) -> Any:
    if cache:
        try:
            return numba.njit(cache=True, **OPTIONS)(function)
        except RuntimeError:  # no folder that compiled code could be kept in
            pass
    return numba.njit(**OPTIONS)(function)


# Order of the branches in `_other_losses`, behind the one that stands apart.
BRANCHES = (
    "binary_log",
    "multinomial_log",
    "squared_error",
    "hinge",
    "smoothed_hinge",
    "squared_hinge",
    "huber",
    "absolute_error",
    "quantile",
)

# sums may be taken in vector registers, but infinities and NaN keep their meaning
_ANY_ORDER = {"reassoc", "contract", "nsz"}

_helper = numba.njit(**OPTIONS)
_any_order = numba.njit(fastmath=_ANY_ORDER, **OPTIONS)


@_any_order
def _dot(values, weights):
    total = 0.0
    for j in range(len(weights)):
        total += values[j] * weights[j]
    return total


@_any_order
def _add_rows(rows, first, slopes, total):
    """Add rows in fours, so that the sum is read and written once for the four."""
    n_rows, n_columns = len(slopes), rows.shape[1]
    fours = n_rows - n_rows % 4
    for i in range(0, fours, 4):
        s0, s1, s2, s3 = slopes[i], slopes[i + 1], slopes[i + 2], slopes[i + 3]
        r0, r1 = rows[first + i], rows[first + i + 1]
        r2, r3 = rows[first + i + 2], rows[first + i + 3]
        for j in range(n_columns):
            total[j] += (s0 * r0[j] + s1 * r1[j]) + (s2 * r2[j] + s3 * r3[j])
    for i in range(fours, n_rows):
        slope, row = slopes[i], rows[first + i]
        for j in range(n_columns):
            total[j] += slope * row[j]


@_any_order
def _rounded_dot(values, weights):
    """Add up products, each rounded to a whole number, so that no order rounds the sum."""
    total = 0.0
    for j in range(len(weights)):
        total += np.rint(values[j] * weights[j])
    return total


@_any_order
def _add_rounded_rows(rows, first, slopes, total):
    """Add rows in fours, each product rounded to a whole number."""
    n_rows, n_columns = len(slopes), rows.shape[1]
    fours = n_rows - n_rows % 4
    for i in range(0, fours, 4):
        s0, s1, s2, s3 = slopes[i], slopes[i + 1], slopes[i + 2], slopes[i + 3]
        r0, r1 = rows[first + i], rows[first + i + 1]
        r2, r3 = rows[first + i + 2], rows[first + i + 3]
        for j in range(n_columns):
            one, other = np.rint(s0 * r0[j]), np.rint(s1 * r1[j])
            total[j] += (one + other) + (np.rint(s2 * r2[j]) + np.rint(s3 * r3[j]))
    for i in range(fours, n_rows):
        slope, row = slopes[i], rows[first + i]
        for j in range(n_columns):
            total[j] += np.rint(slope * row[j])


@_helper
def _scores_by_columns(columns, first, weights, scores):
    """Add columns in fours, so that the scores are read and written once for the four.

    In one order: a record's score is the same wherever in a vector register it is computed.
    """
    last, n_columns = first + len(scores), len(weights)
    fours = n_columns - n_columns % 4
    scores[:] = 0.0
    for j in range(0, fours, 4):
        w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        c0, c1 = columns[j, first:last], columns[j + 1, first:last]
        c2, c3 = columns[j + 2, first:last], columns[j + 3, first:last]
        for i in range(len(scores)):
            scores[i] += (w0 * c0[i] + w1 * c1[i]) + (w2 * c2[i] + w3 * c3[i])
    for j in range(fours, n_columns):
        weight, column = weights[j], columns[j, first:last]
        for i in range(len(scores)):
            scores[i] += weight * column[i]


@_helper
def _scale(slopes, row_scale, first, per_step):
    """Return the sum of the derivatives, and bring each to the length of its row.

    Both in steps, the derivatives in the sum rounded to whole ones, if there is a step.
    """
    total = 0.0
    for i in range(len(slopes)):
        slope = slopes[i]
        slopes[i] = slope * row_scale[first + i]
        if per_step is not None:
            slope = np.rint(slope * per_step)
            slopes[i] *= per_step
        total += slope
    return total


@_helper
def _counted(loss, ceiling, per_step):
    """Return what a loss counts for, in whole steps if there is a step."""
    held = min(loss, ceiling)
    if per_step is None:
        return held
    return np.rint(held * per_step)


# Compiling takes seconds of a first fit, so what a call does not need is not compiled for it: the
# binary log loss, (parameter, ceiling), stands apart from all others, (branch, parameter, ceiling).


def _block_losses(loss, per_step, scores, targets, limits):
    """Return the sum of the losses of a run and put their derivatives in place of the scores.

    Beyond a limit of its slope a loss is a line; several derivatives are shortened together. The
    sum is in whole steps, if there is a step.
    """


@overload(_block_losses, jit_options=OPTIONS)
def _(loss, per_step, scores, targets, limits):
    def binary_log(loss, per_step, scores, targets, limits):
        parameter, ceiling = loss
        total, limited, largest = 0.0, len(limits) > 0, parameter
        # below the edge the loss is a line of this slope; a slope of 1 is never reached
        edge = np.log((1.0 - parameter) / parameter) if parameter < 1.0 else -np.inf
        for i in range(len(targets)):
            target = targets[i]
            margin = target * scores[0, i]
            if limited:
                largest = min(parameter, limits[i])
                edge = np.log((1.0 - largest) / largest) if largest < 1.0 else -np.inf
            held = max(margin, edge)
            small = np.exp(-abs(held))
            value = np.log1p(small) + max(-held, 0.0)
            value += largest * (edge - margin) if margin < edge else 0.0
            share = small / (1.0 + small) if held > 0.0 else 1.0 / (1.0 + small)
            scores[0, i] = -target * min(share, largest)
            total += _counted(value, ceiling, per_step)
        return total

    return binary_log if len(loss) == 2 else _other_losses


def _other_losses(loss, per_step, scores, targets, limits):  # noqa: C901 – one a loss
    """Do that for every loss but the binary log loss."""
    branch, parameter, ceiling = loss
    n_rows, total, limited, limit = len(targets), 0.0, len(limits) > 0, np.inf
    if branch == 1:
        n_outputs = len(scores)
        for i in range(n_rows):
            largest = scores[0, i]
            for output in range(1, n_outputs):
                largest = max(largest, scores[output, i])
            summed = 0.0
            for output in range(n_outputs):
                summed += np.exp(scores[output, i] - largest)
            normaliser = largest + np.log(summed)
            label = int(targets[i])
            value = np.nan  # a label out of range must not write there
            if 0 <= label < n_outputs:
                value = normaliser - scores[label, i]
            for output in range(n_outputs):
                scores[output, i] = np.exp(scores[output, i] - normaliser)
            if 0 <= label < n_outputs:
                scores[label, i] -= 1.0
            if limited:
                square = 0.0
                for output in range(n_outputs):
                    square += scores[output, i] ** 2
                if square > limits[i] ** 2:
                    shorter = limits[i] / np.sqrt(square)
                    for output in range(n_outputs):
                        scores[output, i] *= shorter
            total += _counted(value, ceiling, per_step)
    elif branch == 2:
        for i in range(n_rows):
            limit = limits[i] if limited else limit
            residual = scores[0, i] - targets[i]
            slope = min(max(residual, -limit), limit)
            scores[0, i] = slope
            total += _counted(slope * (residual - 0.5 * slope), ceiling, per_step)
    elif branch == 3:
        for i in range(n_rows):
            target = targets[i]
            slope = min(1.0, limits[i]) if limited else 1.0
            missing = 1.0 - target * scores[0, i]
            scores[0, i] = -target * slope if missing > 0.0 else 0.0
            total += _counted(slope * max(missing, 0.0), ceiling, per_step)
    elif branch == 4:
        for i in range(n_rows):
            target = targets[i]
            limit = min(1.0, limits[i]) if limited else 1.0
            missing = max(1.0 - target * scores[0, i], 0.0)
            slope = min(missing / parameter, limit)
            scores[0, i] = -target * slope
            total += _counted(slope * (missing - 0.5 * parameter * slope), ceiling, per_step)
    elif branch == 5:
        for i in range(n_rows):
            target = targets[i]
            limit = limits[i] if limited else limit
            missing = max(1.0 - target * scores[0, i], 0.0)
            slope = min(2.0 * missing, limit)
            scores[0, i] = -target * slope
            total += _counted(slope * (missing - 0.25 * slope), ceiling, per_step)
    elif branch == 6:
        for i in range(n_rows):
            limit = min(parameter, limits[i]) if limited else parameter
            residual = scores[0, i] - targets[i]
            slope = min(max(residual, -limit), limit)
            scores[0, i] = slope
            total += _counted(slope * (residual - 0.5 * slope), ceiling, per_step)
    else:
        lower, upper = (-1.0, 1.0) if branch == 7 else (-parameter, 1.0 - parameter)
        for i in range(n_rows):
            limit = limits[i] if limited else limit
            residual = scores[0, i] - targets[i]
            slope = upper if residual > 0.0 else lower if residual < 0.0 else 0.0
            slope = min(max(slope, -limit), limit)
            scores[0, i] = slope
            total += _counted(slope * residual, ceiling, per_step)
    return total


@_helper
def _exact_sum(first, second):
    """Return a sum as it is rounded and what rounding took from it, which is a float as well."""
    total = first + second
    part = total - first
    return total, (first - (total - part)) + (second - part)


@_helper
def _add_block(sums, unit, total, lost):
    """Add the sums of a block to a total, keep what rounding takes, and set them to zero."""
    for j in range(len(sums)):
        total[j], error = _exact_sum(total[j], sums[j] * unit)
        lost[j] += error
        sums[j] = 0.0


@_helper
def _add_entries(sums, unit, total, lost, indices):
    """Do the same where only the places of some entries may differ from zero."""
    for j in indices:
        if sums[j] != 0.0:
            total[j], error = _exact_sum(total[j], sums[j] * unit)
            lost[j] += error
            sums[j] = 0.0


# How rows are stored decides three things: dense ones are (rows,), those that lie by columns
# (their transpose, 0), those in compressed form (data, indices, indptr).


def _score(stored, first, weights, scores):
    """Write the scores of rows from a first one on."""


@overload(_score, jit_options=OPTIONS)
def _(stored, first, weights, scores):
    def by_row(stored, first, weights, scores):
        (rows,) = stored
        for i in range(len(scores)):
            scores[i] = _dot(rows[first + i], weights)

    def by_column(stored, first, weights, scores):
        _scores_by_columns(stored[0], first, weights, scores)

    def sparse(stored, first, weights, scores):
        data, indices, indptr = stored
        for i in range(len(scores)):
            score = 0.0
            for entry in range(indptr[first + i], indptr[first + i + 1]):
                score += data[entry] * weights[indices[entry]]
            scores[i] = score

    return (by_row, by_column, sparse)[len(stored) - 1]


def _add_gradient(stored, first, slopes, per_step, total):
    """Add rows from a first one on, each times its slope, in whole steps if there is a step."""


@overload(_add_gradient, jit_options=OPTIONS)
def _(stored, first, slopes, per_step, total):
    plain = isinstance(per_step, numba.types.NoneType)
    add_rows, dot = (_add_rows, _dot) if plain else (_add_rounded_rows, _rounded_dot)

    def by_row(stored, first, slopes, per_step, total):
        add_rows(stored[0], first, slopes, total)

    def by_column(stored, first, slopes, per_step, total):
        columns, run = stored[0], slice(first, first + len(slopes))
        for j in range(len(columns)):
            total[j] += dot(columns[j, run], slopes)

    def sparse(stored, first, slopes, per_step, total):
        data, indices, indptr = stored
        for i in range(len(slopes)):
            slope = slopes[i]
            for entry in range(indptr[first + i], indptr[first + i + 1]):
                product = slope * data[entry]
                total[indices[entry]] += product if plain else np.rint(product)

    return (by_row, by_column, sparse)[len(stored) - 1]


def _add_gradients(stored, first, last, sums, unit, total, lost):
    """Add the gradients of the rows of a block to a total, and set them to zero."""


@overload(_add_gradients, jit_options=OPTIONS)
def _(stored, first, last, sums, unit, total, lost):
    def dense(stored, first, last, sums, unit, total, lost):
        for output in range(len(sums)):
            _add_block(sums[output], unit, total[output], lost[output])

    def sparse(stored, first, last, sums, unit, total, lost):
        _, indices, indptr = stored
        places = indices[indptr[first] : indptr[last]]
        for output in range(len(sums)):
            if 4 * len(places) < sums.shape[1]:  # wide rows with few entries
                of_output = total[output], lost[output]
                _add_entries(sums[output], unit, *of_output, places)
                _add_entries(sums[output], unit, *of_output, (sums.shape[1] - 1,))
            else:
                _add_block(sums[output], unit, total[output], lost[output])

    return dense if len(stored) < 3 else sparse


def _sum_up(
    stored, of_records, weights, loss, steps, edges, scratch, firsts, lasts, totals, gradients
):
    """Add up the losses of each segment, and their gradients where there is room for them.

    Segment s holds the blocks ``firsts[s]:lasts[s]``, block b the rows ``edges[b]:edges[b + 1]``.
    The last column of `gradients` gets the sums of the derivatives themselves. The scratch holds
    the scores of a run of rows, sums of a block and what rounding takes, both zero.
    """
    row_scale, targets, limits = of_records
    matrix, intercepts = weights
    scores, sums, lost = scratch
    run_rows, n_columns, wanted = scores.shape[1], matrix.shape[1], gradients.shape[2] > 0
    (per_loss_step, loss_unit), (per_step, unit) = steps
    for segment in range(len(firsts)):
        lost_loss = 0.0
        for block in range(firsts[segment], lasts[segment]):
            total = 0.0
            for first in range(edges[block], edges[block + 1], run_rows):
                n_rows = min(run_rows, edges[block + 1] - first)
                for output in range(len(matrix)):
                    _score(stored, first, matrix[output], scores[output, :n_rows])
                    for i in range(n_rows):
                        scaled = scores[output, i] * row_scale[first + i]
                        scores[output, i] = scaled + intercepts[output]
                run = slice(first, first + n_rows)
                total += _block_losses(loss, per_loss_step, scores, targets[run], limits[run])
                if wanted:
                    for output in range(len(matrix)):
                        slopes = scores[output, :n_rows]
                        sums[output, n_columns] += _scale(slopes, row_scale, first, per_step)
                        _add_gradient(stored, first, slopes, per_step, sums[output])
            totals[segment], error = _exact_sum(totals[segment], total * loss_unit)
            lost_loss += error
            if wanted:
                first, last = edges[block], edges[block + 1]
                _add_gradients(stored, first, last, sums, unit, gradients[segment], lost)
        totals[segment] += lost_loss
        if wanted:
            for output in range(len(matrix)):
                for j in range(lost.shape[1]):
                    gradients[segment, output, j] += lost[output, j]
                    lost[output, j] = 0.0


sum_up = Kernel(_sum_up)


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


def rounding_kind() -> str:
    """Return processor and versions that kernels are compiled for: where they agree, numbers do."""
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
