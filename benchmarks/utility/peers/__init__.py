"""The peers: what else a user could run, each with the best parameters of a grid in hindsight.

Tuning in hindsight looks at the excess that is reported, on the seeds that are reported, and pays
nothing for it. It flatters the peers: no user could choose so well.
"""
