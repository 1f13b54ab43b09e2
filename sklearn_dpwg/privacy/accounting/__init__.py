"""Cost of releases: compositions, privacy-loss distributions, calibration, trade-off curves.

An event is what a record of one disjoint part pays for; it becomes a canonical composition, equal
mechanisms merged. Gaussian noise alone has a closed form (`sklearn_dpwg.privacy.gaussian`); the
rest is accounted for by dp_accounting's privacy-loss distributions, a selection among runs by Rényi
divergences, and what those do not state tightly is refused.
"""
