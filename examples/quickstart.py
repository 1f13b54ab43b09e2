"""
Quickstart: the worst-off group, in private
===========================================

Police stops in Minneapolis: was the person searched? One model for all, learned privately, should
serve every race as well as it can.

Run it with ``make demo``.
"""

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.exceptions import UngroupedWarning
from sklearn_dpwg.inspection import ShapeDisplay, shape_functions
from sklearn_dpwg.metrics import group_table
from sklearn_dpwg.preprocessing import PublicShapes
from sklearn_dpwg.solvers import MGR

stops = load_dataset("minneapolis-stops", as_frame=True)
X, y, race = stops.data, stops.target, stops.groups
model = DPWorstGroupClassifier(epsilon=1.0, delta=1e-5, data_norm=stops.data_norm)
model.fit(X, y, groups=race)

# %%
# Who is worst off, and by how much? Beside the model stand two others: a private one that learns
# for the average, and the best that a linear model can do for the worst group without privacy.

average = DPWorstGroupClassifier(epsilon=1.0, delta=1e-5, data_norm=stops.data_norm)
exact = DPWorstGroupClassifier(
    epsilon=float("inf"),
    data_norm=stops.data_norm,
    solver="exact",  # the best on these records
)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UngroupedWarning)  # no groups: the average is what is wanted
    average.fit(X, y)
exact.fit(X, y, groups=race)

models = {"private": model, "average": average, "exact": exact}
searched = {name: each.predict_proba(X)[:, 1] for name, each in models.items()}
table = group_table(y, searched, groups=race, metrics="log_loss").set_axis(
    ["records", *models], axis="columns"
)
table = table.sort_values("private", ascending=False)
worst = table[list(models)].max()

print("Was a stopped person searched? Minneapolis, 2017; log loss, less is better\n")
print(table.round(3).to_string())
private, neglected, best = (worst[name] for name in ("private", "average", "exact"))
right = (1 + float(model.privacy_.profile(0.0))) / 2
print(
    f"""
Worst off: {table.index[0]}, {private:.3f}.
By how much: {private - best:.3f} above {best:.3f}, the best possible without privacy (exact).
  A private model that ignores groups (average) leaves its worst group at {neglected:.3f}.
At which privacy: epsilon = 1, delta = 1e-05. Whoever wonders which of two records was
  in the data guesses right at most {right:.1%} of the time; a coin is right half the time.
The table is computed without noise: it is for you, not for publication.
"""
)

# %%
# The same as a picture: each group's loss under the three models, the worst of each on a line.

figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
places = range(len(table))
for name, marker in (("average", "s"), ("private", "o"), ("exact", "D")):
    (points,) = axes.plot(table[name], places, marker, label=name)
    axes.axvline(worst[name], color=points.get_color(), linewidth=1, linestyle=":")
axes.set_yticks(places, [f"{group} ({size:,})" for group, size in table["records"].items()])
axes.invert_yaxis()
axes.set(xlabel="log loss; dotted: the worst group of each model")
axes.legend()

# %%
# A straight line in the latitude knows no middle of a city. Behind ``PublicShapes`` a model bends,
# at no more noise, and each bend can be looked at. It is a fit of its own, with its own epsilon;
# ten steps are enough for a picture.

ranges = {"lat": (44.89, 45.06), "long": (-93.33, -93.19), "month": (1, 12)}
units = {name: low + (high - low) * (X[name] + 1) / 2 for name, (low, high) in ranges.items()}
bends = make_pipeline(
    PublicShapes(ranges, rest_norm=5**0.5),  # of five categories
    DPWorstGroupClassifier(2.0, 1e-5, data_norm=1.0, solver=MGR(n_steps=10)),
)
bends.fit(X.assign(**units), y, dpworstgroupclassifier__groups=race)
largest = next(effect for effect in shape_functions(bends) if effect.name in ranges)
display = ShapeDisplay([largest], "log odds").plot()
picture = Path("build") / "quickstart_bends.png"
picture.parent.mkdir(exist_ok=True)
display.figure_.savefig(picture)
print(f"Where a model of its own, at epsilon = 2, bends: {picture}\n")

# %%
# At which privacy? ``print(model.privacy_)`` ends with the code that computes ε again.

print(str(model.privacy_).partition("To check it")[0].rstrip())
print("To check it: print(model.privacy_) ends with the code.")
