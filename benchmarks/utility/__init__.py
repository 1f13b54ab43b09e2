"""The utility benchmark: worst-group loss at a given budget, beside what else could be installed.

`python -m utility` (from the folder `benchmarks`, or `make bench`) fits the package's estimators
with default parameters on every task, and prints and writes the tables; `python -m utility.peers`
(`make bench-peers`) runs the peers once, each tuned in hindsight over a stated grid. Both are
resumable: what has been measured stands in `.bench/utility`, outside version control.

- `tasks`: data sets split into train and test parts, with reference optima; scores of weights.
- `population`: a hundred tasks more, in a half to choose on and a half to check on.
- `relations`: neighbouring relations, and what converts one into another.
- `ours`: fits with default parameters.
- `peers`: one module a peer, and the command that runs them.
- `store`: measured cells on disk.
- `summary`: means, intervals, ratios, geometric mean.
- `report`, `bounds`, `figures`, `task_chart`: Markdown, JSON, one figure a task and one of text.
- `clusters`, `compared`, `population_summary`, `population_report`, `population_figures`, `chart`:
  the same for the population, with intervals by source.
- `pages`: the page that shows them, refreshed by `--docs`.
"""
