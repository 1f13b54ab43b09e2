"""Noisy counts of hidden groups: the first stage of a fit, and what is fixed before it.

- `stage`: what both stages cost, and what stands for sizes.
- `releases`: the line at which true sizes meet noise.
"""
