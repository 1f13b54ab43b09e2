"""Rows relative to a private centre, with a bound on what each record adds to a gradient.

Most of the norm of encoded rows is what all of them have in common. Two small releases, the mean
row and the mean squared distance from it, let a solver learn on rows that are shorter, and bound
gradients by what they typically are instead of by what they could be: `docs/theory/centring.md`.

- `problem`: public facts of the problem on centred rows, with the rounding of its sums.
- `releases`: what is released first, and the records as a solver sees them afterwards.
"""
