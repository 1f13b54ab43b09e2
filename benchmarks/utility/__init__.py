"""The utility benchmark: what a user buys at a given budget, beside what else could be installed.

`python -m utility` (from the folder `benchmarks`, or `make bench`) measures the worst group's loss
among people whom a model has not seen. It is resumable: what has been measured stands in
`.bench/utility`, outside version control; `results.md` has the tables and the log of looks.

- `held_out`: losses of groups on repeated splits, ours beside `references` and peers.
- `tasks`: data sets split into train and test parts, with reference optima; scores of weights.
- `population`: a hundred tasks more, in a half to choose on and a half to check on.
- `worlds`: made tables of many numbers, and with an optimum far from zero.
- `ours`: fits with default parameters.
- `peers`: one module a peer, at one setting that did best on the choosing half.
- `store`: measured cells on disk.
"""
