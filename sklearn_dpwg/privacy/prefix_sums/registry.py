"""Names of the prefix-sum mechanisms."""

from __future__ import annotations

from sklearn_dpwg.privacy.prefix_sums.base import PrefixSums
from sklearn_dpwg.privacy.prefix_sums.convolutions import IndependentNoise, SquareRootToeplitz
from sklearn_dpwg.privacy.prefix_sums.trees import BinaryTree, HonakerTree

# one line a mechanism
PREFIX_SUMS: dict[str, type[PrefixSums]] = {
    "honaker": HonakerTree,
    "independent": IndependentNoise,
    "toeplitz": SquareRootToeplitz,
    "tree": BinaryTree,
}


def make_prefix_sums(noise: str, *, n_steps: int, n_dimensions: int) -> PrefixSums:
    """Return the mechanism of a name.

    Parameters
    ----------
    noise : {"honaker", "independent", "toeplitz", "tree"}
        Name of the mechanism.
    n_steps : int
        Largest number of vectors T, known in advance.
    n_dimensions : int
        Numbers in a vector.

    Returns
    -------
    PrefixSums
        The mechanism.

    Raises
    ------
    ValueError
        If the name is unknown or a number is out of range.
    """
    if noise not in PREFIX_SUMS:
        raise ValueError(f"noise must be one of {sorted(PREFIX_SUMS)}, got {noise!r}.")
    return PREFIX_SUMS[noise](n_steps, n_dimensions)
