"""The pass over rows as loops, which numba compiles at their first use, and formulas of losses.

Rows are read in runs that the cache holds: the scores of a run, its losses and their derivatives,
its gradient. Where a step is given, what each record adds is rounded to a multiple of it, so that
adding up is exact in any order; otherwise what rounding takes from the sums of blocks is given back
at the end (docs/theory/sums.md). Nothing here raises or warns, whatever the numbers.

What a record adds is computed by operations of IEEE 754 in one order, here and in `arrays`, which
finds the same bits without numba: that takes half a second to load, and seconds to compile.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from sklearn_dpwg._checks import FloatArray

OPTIONS: Any = {"nogil": True, "error_model": "numpy"}
# sums of whole numbers may be taken in vector registers, and infinities and NaN keep their meaning
ANY_ORDER: Any = OPTIONS | {"fastmath": {"reassoc", "contract", "nsz"}}

# Formulas: on numbers where they are compiled, on arrays where they are called.

LN2_HIGH, LN2_LOW, INVERSE_LN2 = 0.693145751953125, 1.4286068203094172e-06, 1.4426950408889634
POWERS = 2.0 ** -np.arange(1024.0)


SERIES = (
    *(0.6666666666666666, 0.40000000000014585, 0.2857142856710876, 0.22222222717427864),
    *(0.18181789436132859, 0.15385570064958623, 0.13314144209654935, 0.12001072809590713),
    *(0.08800738486144674, 0.1616404561194353),
)


def larger(first, second):
    """Return the larger of two, the first where it is not a number."""
    return np.maximum(first, second)


def smaller(first, second):
    """Return the smaller of two, the first where it is not a number."""
    return np.minimum(first, second)


def chosen(condition, first, second):
    """Return the first where a condition holds, and the second elsewhere."""
    return np.where(condition, first, second)


def _pick(condition, first, second):
    return first if condition else second


def _exp(exponents):
    """Return the exponential of numbers of at most 0; below -708 that of -708.

    With ``R = r coth(r/2)``, a series in r² with Bernoulli numbers, ``exp(r) = 1 + 2 r/(R - r)``.
    """
    held = larger(exponents, -708.0)
    halvings = np.rint(held * -INVERSE_LN2)
    rest = (held + halvings * LN2_HIGH) + halvings * LN2_LOW
    z = rest * rest
    tail = z * (1 / 23950080 + z * (-691 / 653837184000))
    series = 2.0 + z * (1 / 6 + z * (-1 / 360 + z * (1 / 15120 + z * (-1 / 604800 + tail))))
    # what is not a number has an index, too
    return (1.0 + 2.0 * rest / (series - rest)) * POWERS[np.int32(halvings) & 1023]


def _log1p(values):
    """Return ``log(1 + x)`` of numbers from 0 to 1.

    With ``s = x/(2 + x)`` that is ``x - s (x - R)``, and R/s² a polynomial in s², fitted at
    Chebyshev's nodes of [0, 1/9] to ``2/3 + 2/5 s² + 2/7 s⁴ + ...``
    """
    s = values / (2.0 + values)
    z = s * s
    high = SERIES[6] + z * (SERIES[7] + z * (SERIES[8] + z * SERIES[9]))
    low = SERIES[2] + z * (SERIES[3] + z * (SERIES[4] + z * (SERIES[5] + z * high)))
    return values - s * (values - z * (SERIES[0] + z * (SERIES[1] + z * low)))


def binary_log(score: Any, target: Any, largest: Any, edge: Any) -> tuple[Any, Any]:
    """Return loss and derivative: below the margin `edge` a line of the largest slope."""
    margin = target * score
    held = larger(margin, edge)
    small = _exp(-np.abs(held))
    value = _log1p(small) + larger(-held, 0.0)
    value = value + largest * chosen(margin < edge, edge - margin, 0.0)
    share = chosen(held > 0.0, small, 1.0) / (1.0 + small)
    return value, -target * smaller(share, largest)


def multinomial_log(scores: Any, label: Any, limit: Any) -> Any:
    """Return the loss, and put derivatives, shortened together, in place of the scores."""
    largest = scores[0]
    for output in range(1, len(scores)):
        largest = larger(largest, scores[output])
    summed = 0.0 * largest
    for output in range(len(scores)):
        summed = summed + _exp(scores[output] - largest)
    halvings, reach = 0.0 * largest, 2.0
    while reach <= len(scores):
        halvings = halvings + chosen(summed >= reach, 1.0, 0.0)
        reach = 2.0 * reach
    rest = _log1p(summed * POWERS[np.int32(halvings)] - 1.0)
    normaliser = largest + (halvings * LN2_HIGH + (halvings * LN2_LOW + rest))
    value, square = np.nan * largest, 0.0 * largest  # a label out of range has no loss
    for output in range(len(scores)):
        is_label = label == output
        value = chosen(is_label, normaliser - scores[output], value)
        share = _exp(scores[output] - normaliser) - chosen(is_label, 1.0, 0.0)
        square = square + share * share
        scores[output] = share
    shorter = chosen(square > limit * limit, limit / np.sqrt(square), 1.0)
    for output in range(len(scores)):
        scores[output] = scores[output] * shorter
    return value


def _bent(score, target, width, limit):
    """Return loss and derivative of a hinge with a parabola in place of its kink."""
    missing = larger(1.0 - target * score, 0.0)
    slope = smaller(missing / width, limit)
    return slope * (missing - 0.5 * width * slope), -target * slope


def _hinge(score, target, limit):
    """Return the hinge loss and a subgradient, 0 at the kink."""
    missing = 1.0 - target * score
    value = limit * larger(missing, 0.0)
    return value, chosen(missing > 0.0, -target * limit, 0.0)


def _square(score, target, limit):
    """Return half the square of the residual, a line beyond a limit of its slope."""
    residual = score - target
    slope = smaller(larger(residual, -limit), limit)
    return slope * (residual - 0.5 * slope), slope


def _kinked(score, target, lower, upper, limit):
    """Return the loss of two slopes, and a subgradient, 0 at the kink."""
    residual = score - target
    slope = chosen(residual > 0.0, upper, chosen(residual < 0.0, lower, 0.0))
    slope = smaller(larger(slope, -limit), limit)
    return slope * residual, slope


def other_loss(loss: Any, score: Any, target: Any, limit: Any) -> tuple[Any, Any]:
    """Return loss and derivative for all but the log losses."""
    branch, first, second, _ = loss
    held = smaller(second, limit)
    if branch == 0:
        return _bent(score, target, first, held)
    if branch == 1:
        return _hinge(score, target, held)
    if branch == 2:
        return _square(score, target, held)
    return _kinked(score, target, first, second, limit)


@lru_cache(maxsize=32)  # every pass asks for that of its loss
def _slope_edge(slope: float) -> float:
    return float(slope_edges(np.array(slope)))


# What a kernel of a parameter is to the pass, beside a ceiling: the log loss of two classes has its
# largest slope and the margin below which it is a line, that of several nothing, all others a
# branch above and two numbers.
KERNELS: dict[str, Callable[[float], tuple[Any, ...]]] = {
    "binary_log": lambda slope: (slope, _slope_edge(slope)),
    "multinomial_log": lambda _: (),
    "smoothed_hinge": lambda width: (0, width, 1.0),
    "squared_hinge": lambda _: (0, 0.5, np.inf),
    "hinge": lambda _: (1, 0.0, 1.0),
    "squared_error": lambda _: (2, 0.0, np.inf),
    "huber": lambda threshold: (2, 0.0, threshold),
    "absolute_error": lambda _: (3, -1.0, 1.0),
    "quantile": lambda level: (3, -level, 1.0 - level),
}


def slope_edges(slopes: FloatArray) -> FloatArray:
    """Return the margins below which a log loss has these slopes; a slope of 1 is never reached."""
    with np.errstate(divide="ignore"):
        return np.where(slopes < 1.0, np.log((1.0 - slopes) / slopes), -np.inf)


# Compiled loops.


class Kernel:
    """A function that is compiled at its first call for given types, and kept on disk.

    What is kept is found by the file of the function alone: whatever it calls stands in that file.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self._dispatcher: Any = None
        self._prepared: set[tuple[Any, ...]] = set()
        self._asked: Counter[tuple[Any, ...]] = Counter()

    def is_worth_it(self, work: int, *arguments: Any) -> bool:
        """Return whether as much work was asked of such arguments as compiling is, by now."""
        kinds = _kind(arguments)
        self._asked[kinds] += work
        return self._asked[kinds] > WORK_OF_COMPILING

    def prepare(self, *arguments: Any) -> Callable[..., None]:
        """Return the compiled function; threads that called it first would wait for each other."""
        kinds = _kind(arguments)
        if kinds in self._prepared:
            return self._dispatcher
        numba = _numba()
        types = tuple(numba.typeof(argument) for argument in arguments)
        if self._dispatcher is None:
            self._dispatcher = _dispatcher(self._function, cache=True)
        if types not in self._dispatcher.overloads:
            try:
                self._dispatcher.compile(types)
            except Exception:  # a full disk, a damaged file: what is kept is a convenience
                self._dispatcher = _dispatcher(self._function, cache=False)
                self._dispatcher.compile(types)
                self._prepared.clear()
        self._prepared.add(kinds)
        return self._dispatcher


# Entries that `arrays` reads in about as long as a kernel is compiled.
WORK_OF_COMPILING = 2**28


def _kind(argument: Any) -> Any:
    """Return what the type follows from: numba's own answer takes longer than a short pass."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num
    if isinstance(argument, tuple):
        return tuple(map(_kind, argument))
    return type(argument)


def _dispatcher(function: Callable[..., None], *, cache: bool) -> Any:
    numba = _numba()
    if cache:
        try:
            return numba.njit(cache=True, **OPTIONS)(function)
        except RuntimeError:  # no folder that compiled code could be kept in
            pass
    return numba.njit(**OPTIONS)(function)


@lru_cache(maxsize=1)
def _numba() -> Any:
    """Load numba, and tell it what compiled functions call."""
    import numba
    from numba.extending import overload, register_jitable

    for helper in HELPERS:
        register_jitable(**OPTIONS)(helper)
    for helper in SUMS:
        register_jitable(**ANY_ORDER)(helper)
    for function, choose in CHOSEN:
        overload(function, jit_options=OPTIONS)(choose)
    return numba


# A score is added up from the first column to the last, so it is the same wherever its row is.


def _scores_by_rows(rows, first, weights, scores):
    """Take rows in fours, whose sums need not wait for each other."""
    fours = len(scores) - len(scores) % 4
    for i in range(0, fours, 4):
        r0, r1 = rows[first + i], rows[first + i + 1]
        r2, r3 = rows[first + i + 2], rows[first + i + 3]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for j in range(len(weights)):
            weight = weights[j]
            s0 += r0[j] * weight
            s1 += r1[j] * weight
            s2 += r2[j] * weight
            s3 += r3[j] * weight
        scores[i], scores[i + 1], scores[i + 2], scores[i + 3] = s0, s1, s2, s3
    for i in range(fours, len(scores)):
        score = 0.0
        for j in range(len(weights)):
            score += rows[first + i, j] * weights[j]
        scores[i] = score


def _scores_by_columns(columns, first, weights, scores):
    """Take columns in fours, so that the scores are read and written once for the four."""
    last, n_columns = first + len(scores), len(weights)
    fours = n_columns - n_columns % 4
    scores[:] = 0.0
    for j in range(0, fours, 4):
        w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        c0, c1 = columns[j, first:last], columns[j + 1, first:last]
        c2, c3 = columns[j + 2, first:last], columns[j + 3, first:last]
        for i in range(len(scores)):
            scores[i] = (((scores[i] + c0[i] * w0) + c1[i] * w1) + c2[i] * w2) + c3[i] * w3
    for j in range(fours, n_columns):
        weight, column = weights[j], columns[j, first:last]
        for i in range(len(scores)):
            scores[i] += column[i] * weight


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


def _any_dot(values, weights):
    total = 0.0
    for j in range(len(weights)):
        total += values[j] * weights[j]
    return total


def _rounded_dot(values, weights):
    """Add up products, each rounded to a whole number, so that no order rounds the sum."""
    total = 0.0
    for j in range(len(weights)):
        total += np.rint(values[j] * weights[j])
    return total


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


def _sum(values):
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return total


def _counted(number, per_step):
    """Return a number in whole steps, if there is a step."""
    return number if per_step is None else np.rint(number * per_step)


def _scale(slopes, row_scale, first, per_step, counted):
    """Return the sum of the derivatives, and bring each to the length of its row.

    Both in steps, the derivatives in the sum rounded to whole ones, if there is a step.
    """
    for i in range(len(slopes)):
        counted[i] = _counted(slopes[i], per_step)
        slopes[i] *= row_scale[first + i]
        if per_step is not None:
            slopes[i] *= per_step
    return _sum(counted[: len(slopes)])


def _exact_sum(first, second):
    """Return a sum as it is rounded and what rounding took from it, which is a float as well."""
    total = first + second
    part = total - first
    return total, (first - (total - part)) + (second - part)


def _add_block(sums, unit, total, lost):
    """Add the sums of a block to a total, keep what rounding takes, and set them to zero."""
    for j in range(len(sums)):
        total[j], error = _exact_sum(total[j], sums[j] * unit)
        lost[j] += error
        sums[j] = 0.0


def _add_entries(sums, unit, total, lost, indices):
    """Do the same where only the places of some entries may differ from zero."""
    for j in indices:
        if sums[j] != 0.0:
            total[j], error = _exact_sum(total[j], sums[j] * unit)
            lost[j] += error
            sums[j] = 0.0


# Compiling takes seconds of a first fit, so what a call does not need is not compiled for it: the
# log losses, (slope, edge, ceiling) and (ceiling,), stand apart from all others with a branch.


def _block_losses(loss, per_step, scores, of_records, counted):
    """Return the sum of the losses of a run and put their derivatives in place of the scores.

    Beyond a limit of its slope a loss is a line; several derivatives are shortened together. The
    sum is in whole steps, if there is a step.
    """


def _choose_losses(loss, per_step, scores, of_records, counted):
    def log(loss, per_step, scores, of_records, counted):
        (largest, edge, ceiling), (targets, limits, ends) = loss, of_records
        for i in range(len(targets)):
            if len(limits) > 0:
                largest, edge = limits[i], ends[i]
            value, scores[0, i] = binary_log(scores[0, i], targets[i], largest, edge)
            counted[i] = _counted(smaller(value, ceiling), per_step)
        return _sum(counted[: len(targets)])

    def of_outputs(loss, per_step, scores, of_records, counted):
        (ceiling,), (targets, limits, _) = loss, of_records
        limit = np.inf
        for i in range(len(targets)):
            if len(limits) > 0:
                limit = limits[i]
            value = multinomial_log(scores[:, i], targets[i], limit)
            counted[i] = _counted(smaller(value, ceiling), per_step)
        return _sum(counted[: len(targets)])

    def other(loss, per_step, scores, of_records, counted):
        targets, limits, _ = of_records
        limit = np.inf
        for i in range(len(targets)):
            if len(limits) > 0:
                limit = limits[i]
            value, scores[0, i] = other_loss(loss, scores[0, i], targets[i], limit)
            counted[i] = _counted(smaller(value, loss[3]), per_step)
        return _sum(counted[: len(targets)])

    return {1: of_outputs, 3: log, 4: other}[len(loss)]


# How rows are stored decides three things: dense ones are (rows,), those that lie by columns
# (their transpose, 0), those in compressed form (data, indices, indptr).


def _score(stored, first, weights, scores):
    """Write the scores of rows from a first one on."""


def _choose_score(stored, first, weights, scores):
    def by_row(stored, first, weights, scores):
        _scores_by_rows(stored[0], first, weights, scores)

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


def _choose_gradient(stored, first, slopes, per_step, total):
    plain = type(per_step).__name__ == "NoneType"
    add_rows, dot = (_add_rows, _any_dot) if plain else (_add_rounded_rows, _rounded_dot)

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


def _choose_gradients(stored, first, last, sums, unit, total, lost):
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


HELPERS = (
    *(_exp, _log1p, binary_log, multinomial_log, _bent, _hinge, _square, _kinked, other_loss),
    *(_scores_by_rows, _scores_by_columns, _counted, _scale, _exact_sum, _add_block, _add_entries),
)
SUMS = (_sum, _any_dot, _add_rows, _rounded_dot, _add_rounded_rows)
CHOSEN: tuple[tuple[Callable[..., Any], Callable[..., Any]], ...] = (
    (larger, lambda first, second: lambda first, second: second if second > first else first),
    (smaller, lambda first, second: lambda first, second: second if second < first else first),
    (chosen, lambda condition, first, second: _pick),
    (_block_losses, _choose_losses),
    (_score, _choose_score),
    (_add_gradient, _choose_gradient),
    (_add_gradients, _choose_gradients),
)


def _sum_up(
    stored, of_records, weights, loss, steps, edges, scratch, firsts, lasts, totals, gradients
):
    """Add up the losses of each segment, and their gradients where there is room for them.

    Segment s holds the blocks ``firsts[s]:lasts[s]``, block b the rows ``edges[b]:edges[b + 1]``.
    The last column of `gradients` gets the sums of the derivatives themselves. The scratch holds
    the scores of a run of rows, sums of a block and what rounding takes, both zero.
    """
    row_scale, targets, limits, ends = of_records
    matrix, intercepts = weights
    scores, counted, sums, lost = scratch
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
                records = targets[run], limits[run], ends[run]
                total += _block_losses(loss, per_loss_step, scores, records, counted)
                if wanted:
                    for output in range(len(matrix)):
                        slopes = scores[output, :n_rows]
                        total_slope = _scale(slopes, row_scale, first, per_step, counted)
                        sums[output, n_columns] += total_slope
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
    import numba
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
