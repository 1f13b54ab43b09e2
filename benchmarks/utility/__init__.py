"""The utility benchmark: worst-group loss at a given budget, beside what else could be installed.

`python -m utility` (from the folder `benchmarks`, or `make bench`) fits the package's estimators
with default parameters on every task, and prints and writes the tables; `python -m utility.peers`
(`make bench-peers`) runs the peers once, each tuned in hindsight over a stated grid. Both are
resumable: what has been measured stands in `.bench/utility`, outside version control.

`python -m utility.held_out` (or `make bench BENCH=--held-out`) measures what a user buys: the worst
group's loss among people whom a model has not seen.

- `held_out`: losses of groups on repeated splits, ours beside `references` and peers.
- `tasks`: data sets split into train and test parts, with reference optima; scores of weights.
- `population`: a hundred tasks more, in a half to choose on and a half to check on.
- `worlds`: made tables of many numbers, and with an optimum far from zero.
- `ours`: fits with default parameters.
- `peers`: one module a peer, and the command that runs them.
- `store`: what is measured, and measured cells on disk.
- `summary`: means, ratios and intervals, by seed and by source.
- `frame`: a row a cell beside its best peer, and what the cells come to.
- `report`, `chart`, `pictures`: the frame as Markdown, JSON, text and figures; `--docs` puts them
  into the page that shows them.
"""
