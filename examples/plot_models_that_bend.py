"""
Models that bend, and pictures of every bend
============================================

Who earns more than 50,000 dollars a year (Adult, United States 1994), and what a week's work pays
(Current Population Survey 1988)? Lines beside models that bend, at epsilon = 4, among people whom
they have not seen.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.inspection import ShapeDisplay, shape_functions
from sklearn_dpwg.metrics import group_table
from sklearn_dpwg.preprocessing import Category, Number, PublicSchema

# %%
# A raw table again of the encoded one, and what is public of its columns.

people, others = (load_dataset("adult", subset=part, as_frame=True) for part in ("train", "test"))
levels = {}
for name in people.feature_names:
    column, _, level = name.partition("=")
    levels.setdefault(column, []).append(level)
amounts = {"log1p(capital-gain)": 99_999, "log1p(capital-loss)": 9_999}
ends = {"age": (17, 90), "education-num": (1, 16), "hours-per-week": (0, 99)}
schema = {name: Number(*between) for name, between in ends.items()}
schema |= {name[6:-1]: Number(0, most, log=True) for name, most in amounts.items()}
for name, own in levels.items():
    if len(own) > 1:
        schema[name] = Category(tuple(own), missing=True)


def raw(encoded):
    """Return numbers in their units, and categories by name, missing ones as None."""
    table = {}
    for name, own in levels.items():
        if name in ends:
            low, high = ends[name]
            table[name] = low + (high - low) * (encoded[name] + 1) / 2
        elif name in amounts:
            table[name[6:-1]] = np.expm1(np.log1p(amounts[name]) * (encoded[name] + 1) / 2)
        else:
            block = encoded[[f"{name}={level}" for level in own]].set_axis(own, axis=1)
            table[name] = block.idxmax(axis=1).astype(object).where(block.any(axis=1), None)
    return pd.DataFrame(table)


# %%
# Each number becomes ramps on eighths of its public range. That
# reads no record and costs no ε, and noise is no louder. Nor does it cost ε to name a pair of
# columns that may belong together; this one changes little.

inner = DPWorstGroupClassifier(4.0, 1e-5, data_norm=1.0, group_labels=people.group_labels)
pair = {"interactions": [("age", "hours-per-week")]}
kinds = {"line": {"shapes": "linear"}, "bent": {}, "bent, a pair": pair}
models = {
    name: make_pipeline(PublicSchema(schema, **how), clone(inner)) for name, how in kinds.items()
}
table, test = raw(people.data), raw(others.data)
for model in models.values():
    model.fit(table, people.target, dpworstgroupclassifier__groups=people.groups)
losses = group_table(
    others.target,
    {name: model.predict_proba(test)[:, 1] for name, model in models.items()},
    groups=others.groups,
    metrics="log_loss",
).set_axis(["people", *models], axis="columns")
print(losses.sort_values("line", ascending=False).round(3))
print("worst group:", losses[list(models)].max().round(3).to_dict())

# %%
# What the last model does with each column, the largest effects first. The weights are released,
# so the picture costs nothing.

ShapeDisplay.from_estimator(model, most=8)
plt.show()

# %%
# A regression: the logarithm of a week's wages by education and experience, which raise them first
# and lower them later. Nobody has to think of a square.

wages = load_dataset("cps-weekly-wages", as_frame=True)
mine = pd.DataFrame(
    {
        "education": 9 * (wages.data["education"] + 1),
        "experience": 30 * (wages.data["experience"] + 1),
        "city": wages.data["smsa=yes"] > 0,
        "part time": wages.data["parttime=yes"] > 0,
    }
)
columns = {"education": Number(0, 18), "experience": Number(0, 60)}
columns |= {name: Category((True, False), other=False) for name in ("city", "part time")}
groups = wages.groups.str.split(", ").str[0]  # of whatever region
held_out = np.arange(len(mine)) % 4 == 0
errors = {}
for kind in ("linear", "auto"):
    regressor = DPWorstGroupRegressor(4.0, 1e-5, data_norm=1.0, target_bounds=wages.target_bounds)
    model = make_pipeline(PublicSchema(columns, shapes=kind), regressor)
    model.fit(
        mine[~held_out],
        wages.target[~held_out],
        dpworstgroupregressor__groups=groups[~held_out],
    )
    errors["line" if kind == "linear" else "bent"] = model.predict(mine[held_out])
result = group_table(
    wages.target[held_out], errors, groups=groups[held_out], metrics="root_mean_squared_error"
).set_axis(["people", *errors], axis="columns")
print("root mean squared error of log wages\n", result.round(3), sep="")
first = shape_functions(model)[0]
print(f"largest effect: {first.name}, up to {first.values[int(np.argmax(first.effects))]} years")
print(f"both at epsilon = {model[-1].privacy_.epsilon:.3g}, delta = 1e-5")
ShapeDisplay.from_estimator(model)
plt.show()
