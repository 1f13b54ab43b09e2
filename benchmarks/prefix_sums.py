"""Private prefix sums: worst noise of a sum per unit of sensitivity at noise multiplier 1."""

from __future__ import annotations

from common import row

from sklearn_dpwg.privacy.prefix_sums import make_prefix_sums

NAMES = ("toeplitz", "tree", "independent")

if __name__ == "__main__":
    lengths = (16, 128, 1023, 1024, 16_384, 200_000)
    row("steps", [f"{n_steps:,}" for n_steps in lengths], 11, 14)
    for name in NAMES:
        sums = [make_prefix_sums(name, n_steps=n_steps, n_dimensions=1) for n_steps in lengths]
        row(name, [f"{each.worst_standard_deviation:.2f}" for each in sums], 11, 14)
