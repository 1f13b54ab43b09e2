"""The proved sensitivity of a sum of outer products."""

from __future__ import annotations

import math

from sklearn_dpwg._checks import positive_finite


def moment_sensitivity(norm: float) -> float:
    """Bound how far one record moves a sum of outer products of vectors with themselves.

    The sum is ``Σ v v'`` over the records, as the vector of its upper triangle with every entry off
    the diagonal times √2, whose Euclidean norm is the Frobenius norm of the matrix. Entries that
    are the same for all records may be left out.

    Parameters
    ----------
    norm : float
        Bound on the norm of v; positive.

    Returns
    -------
    float
        L2 sensitivity ``√2 norm²`` to replacing one record.

    Raises
    ------
    ValueError
        If the bound is not positive and finite.

    Notes
    -----
    ``‖v v' - u u'‖² = ‖v‖⁴ + ‖u‖⁴ - 2 <u, v>²``, at most ``2 norm⁴``, which vectors at right
    angles attain. ``docs/theory/moments.md`` has the proof.

    References
    ----------
    D. Vu and A. Slavkovic (2009). *Differential Privacy for Clinical Trial Data*, releases
    sufficient statistics; Y.-X. Wang (2018). *Revisiting differentially private linear regression*,
    arXiv:1803.02596, those of regression.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import moment_sensitivity
    >>> round(moment_sensitivity(1.0), 3)
    1.414
    """
    return math.sqrt(2.0) * positive_finite(norm, "norm") ** 2
