"""A convolution whose input is known one row at a time."""

from __future__ import annotations

import numpy as np
from scipy import fft

from sklearn_dpwg._typing import FloatArray

# Within a block rows are multiplied directly; blocks meet each other by FFT.
_BLOCK = 64


def convolve(rows: FloatArray, kernel: FloatArray) -> FloatArray:
    """Return the first ``len(kernel)`` rows of the convolution of the columns with a kernel."""
    n_fft = fft.next_fast_len(len(rows) + len(kernel) - 1, real=True)
    spectrum = fft.rfft(kernel, n_fft)[:, None]
    result = np.empty((len(kernel), rows.shape[1]))
    # few columns at a time, so that the work space stays small
    width = max(1, 2**20 // n_fft)
    for start in range(0, rows.shape[1], width):
        columns = slice(start, start + width)
        product = fft.rfft(rows[:, columns], n_fft, axis=0)
        product *= spectrum
        result[:, columns] = fft.irfft(product, n_fft, axis=0, overwrite_x=True)[: len(kernel)]
    return result


class OnlineConvolution:
    """Gives row t of the convolution as soon as row t of the input is there.

    Whenever a multiple of a power of two of blocks is complete, what they add to the equally many
    rows that follow is computed at once: the blocks of every earlier row are those of the binary
    digits of the block number. All T rows of width d take O(d T log² T) time and O(d T) memory.
    """

    def __init__(self, kernel: FloatArray, n_columns: int) -> None:
        self._kernel = kernel
        self._reversed = np.ascontiguousarray(kernel[:_BLOCK][::-1])
        self._input = np.empty((len(kernel), n_columns))
        self._output = np.zeros((len(kernel), n_columns))
        self._n_rows = 0

    def add(self, row: FloatArray) -> FloatArray:
        """Return the next row of the convolution."""
        step = self._n_rows
        self._input[step] = row
        start = step - step % _BLOCK
        recent = self._input[start : step + 1]
        result: FloatArray = self._reversed[-len(recent) :] @ recent
        result += self._output[step]
        self._n_rows = step = step + 1
        if step % _BLOCK == 0:
            length = step & -step
            end = min(step + length, len(self._kernel))
            if step < end:
                ahead = convolve(
                    self._input[step - length : step], self._kernel[: length + end - step]
                )
                self._output[step:end] += ahead[length:]
        return result
