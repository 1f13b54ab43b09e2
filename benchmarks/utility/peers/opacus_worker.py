"""DP-SGD with group-DRO weights on Opacus; run by `opacus_check` in an environment of its own.

Reads an archive of rows, targets (-1 and 1), groups and settings; prints one JSON list of weights,
one entry a seed. Per-example gradients, clipping, noise and the division by the expected size of a
batch are Opacus's, momentum is torch's; batches are drawn as in `group_dro`.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer

if __name__ == "__main__":
    torch.set_num_threads(1)
    archive, settings = np.load(sys.argv[1]), json.loads(sys.argv[2])
    rows, targets = (torch.from_numpy(archive[name]).double() for name in ("rows", "targets"))
    codes = torch.from_numpy(archive["codes"])
    (n, d), n_groups = rows.shape, settings["n_groups"]
    n_steps, rate, cap = settings["n_steps"], settings["sampling_rate"], settings["cap"]
    sizes = torch.bincount(codes, minlength=n_groups).double()
    proportions = sizes / n
    found = []
    for seed in settings["seeds"]:
        rng = np.random.default_rng([seed, n_steps, round(1000 * rate)])
        noise = torch.Generator().manual_seed(seed)
        linear = torch.nn.Linear(d, 1, bias=False, dtype=torch.double)
        torch.nn.init.zeros_(linear.weight)
        model = GradSampleModule(linear, loss_reduction="mean")
        optimizer = DPOptimizer(
            torch.optim.SGD(
                model.parameters(), lr=settings["learning_rate"], momentum=settings["momentum"]
            ),
            noise_multiplier=settings["gradient_noise"],
            max_grad_norm=settings["clip"],
            expected_batch_size=rate * n,
            loss_reduction="mean",
            generator=noise,
        )
        log_shares = torch.log(proportions)
        for _ in range(n_steps):
            drawn = torch.from_numpy(np.flatnonzero(rng.random(n) < rate))
            rng.normal(size=(d, 1)), rng.normal(size=(n_groups, 1))  # what the other program draws
            shares = torch.softmax(log_shares, 0)
            own = codes[drawn]
            losses = torch.nn.functional.softplus(-targets[drawn] * model(rows[drawn])[:, 0])
            optimizer.zero_grad()
            ((shares / proportions)[own] * losses).mean().backward()
            by_group = torch.zeros(n_groups, dtype=torch.double)
            by_group.index_add_(0, own, losses.detach().clamp(max=cap))
            draws = torch.randn(n_groups, dtype=torch.double, generator=noise)
            by_group = (by_group + settings["loss_noise"] * cap * draws) / (rate * sizes)
            log_shares = log_shares + settings["group_rate"] * by_group
            optimizer.step()
        found.append(linear.weight.detach().numpy().ravel().tolist())
    print(json.dumps(found))
