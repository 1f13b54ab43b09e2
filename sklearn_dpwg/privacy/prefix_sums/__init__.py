"""Private prefix sums: the sum of a stream of vectors, released after every step.

Every mechanism factors the all-ones lower triangle as A = B C and releases B (C G + Z), where the
rows of G are the vectors and Z is Gaussian noise: a record that moves one vector by at most Δ moves
C G by at most the largest column norm of C times Δ, and all sums together are one Gaussian release.
What they differ in is the noise of the sums, which is that of B Z, and what they remember.
`PrefixSums` says both from public facts; a `PrefixSumStream` takes the vectors. The vectors may be
chosen by whoever has seen all sums before.
"""

from sklearn_dpwg.privacy.prefix_sums.base import PrefixSums, PrefixSumStream
from sklearn_dpwg.privacy.prefix_sums.mechanisms import (
    PREFIX_SUMS,
    BinaryTree,
    IndependentNoise,
    SquareRootToeplitz,
    make_prefix_sums,
)

__all__ = [
    "PREFIX_SUMS",
    "BinaryTree",
    "IndependentNoise",
    "PrefixSumStream",
    "PrefixSums",
    "SquareRootToeplitz",
    "make_prefix_sums",
]
