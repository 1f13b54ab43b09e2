"""What releases cost: compositions, privacy-loss distributions, calibration, trade-off curves.

A sequence of releases becomes a `Composition`, equal mechanisms merged. Gaussian noise alone has a
closed form; the rest is accounted for by dp_accounting's privacy-loss distributions, and what those
do not state tightly is refused.
"""
