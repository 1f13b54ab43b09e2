"""
Quickstart: the worst-off group, in private
===========================================

Police stops in Minneapolis: was a person searched? One model for all, learned privately, should
serve every race as well as it can. Then the same for hourly earnings by gender and region.

Run it with ``make demo``.
"""

import time
import warnings

import numpy as np

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.exceptions import UngroupedWarning
from sklearn_dpwg.metrics import group_table

EPSILON, DELTA = 1.0, 1e-5

# One group of all records is what the middle column wants, so its warning says nothing new here.
warnings.simplefilter("ignore", UngroupedWarning)


def fit_three(estimator, data):
    """Fit the private worst-group model, the private average-risk model and the exact optimum."""
    start = time.perf_counter()
    private = estimator(EPSILON, DELTA).fit(data.data, data.target, groups=data.groups)
    seconds = time.perf_counter() - start
    average = estimator(EPSILON, DELTA).fit(data.data, data.target)
    exact = estimator(float("inf"), DELTA).fit(data.data, data.target, groups=data.groups)
    print(f"(the private fit took {seconds:.1f} s, {private.n_iter_} passes over the rows)\n")
    return {"private": private, "average": average, "exact": exact}


def show(table, columns, worst):
    """Print one line a group, and the worst of each column."""
    table = table.sort_values("size", ascending=False)
    header = " " * 30 + f"{'':>9}" + "".join(f"{title:^30}" for title in columns)
    models = ("private", "average", "exact")
    print(header)
    print(f"{'group':<30}{'records':>9}" + "".join(f"{m:>10}" for _ in columns for m in models))
    for group, row in table.iterrows():
        name = group if isinstance(group, str) else ", ".join(group)
        values = "".join(f"{value:10.3f}" for value in row.iloc[1:])
        print(f"{name:<30}{int(row['size']):>9,}{values}")
    ends = "".join(
        f"{getattr(table[column], worst[column.split(' ', 1)[1]])():10.3f}"
        for column in table.columns[1:]
    )
    print(f"{'worst group':<30}{'':>9}{ends}\n")


# %%
# Classification: was a stopped person searched?
# ----------------------------------------------

stops = load_dataset("minneapolis-stops")
print(f"=== {stops.entry.title}")
print(
    f"{len(stops.target):,} rows, {stops.data.shape[1]} features, {len(stops.group_labels)} groups"
)


def classifier(epsilon, delta):
    """Return a classifier that knows the public bound on the rows."""
    return DPWorstGroupClassifier(epsilon, delta, data_norm=stops.data_norm)


plan = classifier(EPSILON, DELTA).plan(
    group_sizes=[int((stops.groups == label).sum()) for label in stops.group_labels],
    n_features=stops.data.shape[1],
)
print(
    f"planned before reading a record: {plan.n_steps} steps, noise multipliers "
    + ", ".join(f"{release.noise_multiplier:.4g} ({release.name})" for release in plan.releases)
)
models = fit_three(classifier, stops)
statement = models["private"].privacy_
probabilities = {name: model.predict_proba(stops.data)[:, 1] for name, model in models.items()}
classes = {name: model.predict(stops.data) for name, model in models.items()}
losses = group_table(stops.target, probabilities, groups=stops.groups, metrics=["log_loss"])
accuracies = group_table(stops.target, classes, groups=stops.groups, metrics=["accuracy"])
show(
    losses.join(accuracies.drop(columns="size")),
    ["log loss (less is better)", "accuracy (more is better)"],
    {"log_loss": "max", "accuracy": "min"},
)

# %%
# Regression: what does an hour earn?
# -----------------------------------

earnings = load_dataset("cps-hourly-earnings")
print(f"=== {earnings.entry.title}")
print(f"{len(earnings.target):,} rows, {earnings.data.shape[1]} features")


def regressor(epsilon, delta):
    """Return a regressor that knows the public bounds on rows and targets."""
    return DPWorstGroupRegressor(
        epsilon, delta, data_norm=earnings.data_norm, target_bounds=earnings.target_bounds
    )


models = fit_three(regressor, earnings)
low, high = earnings.target_bounds
target = np.clip(earnings.target, low, high)
predictions = {name: model.predict(earnings.data) for name, model in models.items()}
show(
    group_table(
        target,
        predictions,
        groups=earnings.groups,
        metrics=["root_mean_squared_error"],
    ),
    ["root mean squared error, $"],
    {"root_mean_squared_error": "max"},
)

print(
    f"""What the columns mean
  private   DPWorstGroup..., epsilon = {EPSILON:g}, delta = {DELTA:g}: private, for the worst group
  average   the same without groups: private, for the average record
  exact     epsilon = infinity: the best that a linear model can do for the worst group, not private
The "worst group" line is what the project is about: its loss or error should lie between exact and
average, the nearer to exact the better. Others usually pay something for it. Accuracy is shown
because everybody asks for it; the model minimises the loss.
These tables are computed from the records without noise: they are for you, not for publication.
"""
)
print("=== The privacy statement of the model of the stops (model.privacy_)")
print(statement)
