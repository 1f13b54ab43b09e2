"""Sensitivities of what solvers release.

A sensitivity is the largest L2 distance between the outputs on two data sets that differ in one
record of one group; of `hidden_group_sensitivities` the other record may be of another group.
Everything here is a function of public numbers: sizes, constants of the loss, strengths of the
regularisation, norms.
"""
