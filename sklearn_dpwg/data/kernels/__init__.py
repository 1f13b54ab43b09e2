"""Compiled pass over rows, dense or sparse, and other bulk reads and copies of rows.

`fused_pass` computes the losses and gradients of all groups in one reading, for every loss that
states a `kernel`; it is compiled at its first use. `run_on_threads` spreads such work over the
cores. Everything here gives the same bits on any number of threads.
"""
