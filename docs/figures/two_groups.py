"""Losses of two groups along one weight: where their mean and where their maximum is least."""

import matplotlib.pyplot as plt
import numpy as np

weights = np.linspace(-2.0, 3.0, 1001)
large = 0.30 + 0.10 * (weights + 0.8) ** 2
small = 0.42 + 0.16 * (weights - 1.6) ** 2
fraction = 0.85  # of the records are in the large group
average = fraction * large + (1 - fraction) * small
worst = np.maximum(large, small)
at_average, at_worst = weights[average.argmin()], weights[worst.argmin()]

figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
axes.plot(weights, large, label="large group, 85 % of the records")
axes.plot(weights, small, label="small group")
axes.plot(weights, worst, "k", linewidth=3, alpha=0.25, label="worst group")
axes.plot(weights, average, "k:", label="average record")
for weight, curve, text, shift in (
    (at_average, average, "best average", (-62, 30)),
    (at_worst, worst, "best worst group", (22, -40)),
):
    height = curve[np.searchsorted(weights, weight)]
    axes.plot([weight, weight], [0, 1.6], color="grey", linewidth=0.8)
    axes.plot(weight, height, "ko")
    axes.annotate(
        text,
        (weight, height),
        xytext=shift,
        textcoords="offset points",
        arrowprops={"arrowstyle": "-"},
    )
axes.set(xlabel="a weight of the model", ylabel="mean loss", xlim=(-2, 3), ylim=(0.2, 1.5))
axes.legend(loc="upper center", fontsize="small")
