"""
A private search, from raw columns to the bill
==============================================

The whole way on Adult, the census of 1994: columns scaled by public bounds, a pipeline, a search
for hyper-parameters whose choosing is private too, inside a ledger that counts. In the end the
total is computed a second time, by dp_accounting alone.
"""

from importlib.metadata import distribution

import dp_accounting
import matplotlib.pyplot as plt
import numpy as np
from dp_accounting.rdp import RdpAccountant
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.datasets import load_dataset
from sklearn_dpwg.exceptions import BudgetExceededError
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.metrics import group_table, worst_group_score
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.preprocessing import BoundedScaler

EPSILON, DELTA = 1.9, 1e-5
entry = load_dataset("adult").entry


def read(part):
    """Return a part as it was published: columns, target, and the two columns of the groups."""
    table = entry.read(distribution(entry.package).locate_file(entry.files[part]))
    target = np.where(table["income"].str.startswith(">50K"), "high", "low")
    groups = table[["race", "sex"]].assign(race=table["race"].map(entry.groups["race"]))
    return table, target, groups


X, y, groups = read("train")
print(X.head(3).T.to_string())

# %%
# Preprocessing from public facts
# -------------------------------
#
# The bounds of the numbers and the lists of categories were published with the survey, so this
# part costs nothing. No row that comes out is longer than the root of the number of input columns:
# a number is in [-1, 1], and of the columns that a category makes at most one is 1.

numbers, kinds = list(entry.numeric), list(entry.categories)
by_schema = ColumnTransformer(
    [
        ("numbers", BoundedScaler(dict(entry.numeric)), numbers),
        (
            "kinds",
            OneHotEncoder(
                categories=[list(entry.categories[name]) for name in kinds],
                handle_unknown="ignore",
                sparse_output=False,
            ),
            kinds,
        ),
    ]
)
data_norm = (len(numbers) + len(kinds)) ** 0.5
model = Pipeline(
    [
        ("schema", by_schema),
        ("model", DPWorstGroupClassifier(data_norm=data_norm, classes=["high", "low"])),
    ]
)

# %%
# The search
# ----------
#
# How the budget is divided follows from the parameters alone, so it can be looked at before any
# record is: each run may spend much less than the whole, as the best of several is published.

search = DPSearchCV(
    model,
    {"model__radius": [2.0, 8.0, 32.0], "model__solver": ["mgr", "phased-erm"]},
    epsilon=1.5,
    delta=DELTA,
    n_iter=4,
)
print(str(search.plan()).partition("\n\n")[0])

# %%
# Everything private inside the block is charged to the ledger before it spends anything. What
# does not fit into the budget is refused.

with PrivacyLedger(epsilon=EPSILON, delta=DELTA) as ledger:
    search.fit(X, y, groups)
    # the solver whose plan still promises something at so small an ε
    plain = DPWorstGroupClassifier(0.5, DELTA / 10, solver="phased-erm", data_norm=data_norm)
    plain.fit(by_schema.fit_transform(X), y, groups)
    try:
        plain.fit(by_schema.transform(X), y, groups)
    except BudgetExceededError as error:
        print(error)

print(f"chosen: {search.best_params_}, noisy score {search.best_score_:.3f}")

# %%
# How well the groups are served
# ------------------------------
#
# The census published another sample as its test part, so looking at it does not spend the budget
# of the people of the training part.

X_test, y_test, groups_test = read("test")
predictions = {
    "private search": search.predict(X_test),
    "defaults": plain.predict(by_schema.transform(X_test)),
    "nothing learned": np.full(len(y_test), "low"),
}
table = group_table(y_test, predictions, groups=groups_test).sort_values("size", ascending=False)
print(table.round(3).to_string())
score = worst_group_score(y_test, search.predict(X_test), groups=groups_test)
print(f"worst group's accuracy: {score:.3f}")

columns = [column for column in table.columns if column != "size"]
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
places = np.arange(len(table))
for offset, column in zip((-0.2, 0.0, 0.2), columns, strict=True):
    axes.plot(table[column], places + offset, "o", label=column.removesuffix(" accuracy"))
axes.set_yticks(places, [f"{', '.join(group)} ({size:,})" for group, size in table["size"].items()])
axes.invert_yaxis()
axes.set(xlabel="accuracy on the test part", xlim=(None, 1.0))
axes.grid(axis="y", alpha=0.3)
axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False)
plt.show()

# %%
# The bill
# --------
#
# Two things were released: the winner of the search, and a fit with default parameters.

print(ledger.report()[["what", "epsilon", "total_epsilon"]].round(4).to_string())

# %%
# The same total from dp_accounting alone, without this package's accounting, which looks at more
# orders of Rényi divergence. A record was either fitted on or held out in the search, so the worse
# of the two parts counts; either way it was in the second fit too.


def independent(part):
    """Return ε for a record of one part of the search."""
    accountant = RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    accountant.compose(part)
    for event in plain.privacy_.events:
        accountant.compose(event)
    return accountant.get_epsilon(DELTA)


total = max(independent(part) for part in search.privacy_.events)
print(f"total epsilon {ledger.epsilon_spent:.4f} at delta {DELTA}; dp_accounting says {total:.4f}")
assert abs(total / ledger.epsilon_spent - 1.0) < 1e-3
