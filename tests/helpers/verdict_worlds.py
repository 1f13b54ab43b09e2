"""Worlds whose verdict is known, and how often audits may miss it."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from sklearn_dpwg.inspection import GroupAudit


@dataclass(frozen=True)
class World:
    """Sizes and rates of groups, and the least and the largest fraction of an answer."""

    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    answer: str
    least: float = 0.0
    most: float = 1.0
    n_labels: int = 0
    metric: str = "selection_rate"
    epsilon: float = 1.0
    n_audits: int = 400
    within: float | None = None
    of: str = "process"
    reference: int | None = None

    def is_kept(self, counts):
        """Return whether the fraction of the answer is as it should be, but for chance."""
        n_audits = sum(counts.values())
        fraction = counts[self.answer] / n_audits
        slack = 3.0 * np.sqrt(max(self.most * (1.0 - self.most), 0.0) / n_audits)
        return self.least <= fraction <= self.most + slack


WORLDS = {
    "rare and selected most": World((3000, 3000, 60), (0.3, 0.3, 0.5), "passes", most=0.025),
    "rare, ratio .78": World((3000, 3000, 100), (0.39, 0.39, 0.5), "passes", most=0.025),
    "40 at the border": World(
        (300,) * 40, (0.4,) * 20 + (0.5,) * 20, "fails", most=0.025, n_audits=200
    ),
    "60 at the border": World((300,) * 60, (0.4,) + (0.5,) * 59, "fails", most=0.025, n_audits=200),
    "5 small at the border": World((100,) * 5, (0.24,) * 2 + (0.3,) * 3, "fails", most=0.025),
    "a lower false positive rate": World(
        (3000, 3000), (0.10, 0.101), "fails", most=0.0, metric="false_positive_rate"
    ),
    "equal, 5 empty": World((4000,) * 3, (0.4,) * 3, "passes", least=1.0, n_labels=8, n_audits=25),
    "equal, 20 empty": World(
        (4000,) * 3, (0.4,) * 3, "passes", least=1.0, n_labels=23, n_audits=25
    ),
    "a difference at the border": World(
        (300,) * 5, (0.4,) * 2 + (0.5,) * 3, "fails", most=0.025, within=0.1, n_audits=200
    ),
    "a difference beyond the border": World(
        (1000, 1000), (0.4, 0.5), "passes", most=0.025, within=0.1
    ),
    "small differences of two": World(
        (2000, 2000), (0.4, 0.401), "fails", most=0.025, within=0.001, epsilon=np.inf, n_audits=1200
    ),
    "both ways from a reference": World(
        (300,) * 5, (0.5, 0.4, 0.6, 0.4, 0.6), "fails", most=0.025, within=0.1, reference=0
    ),
    "above a reference": World(
        (1000, 1000), (0.4, 0.5), "passes", most=0.025, within=0.1, reference=0
    ),
    "small differences from a reference": World(
        (2000, 2000),
        (0.4, 0.401),
        "fails",
        most=0.025,
        within=0.001,
        epsilon=np.inf,
        n_audits=1200,
        reference=0,
    ),
    "everybody, ratio .8": World(
        (300,) * 4, (0.4,) + (0.5,) * 3, "fails", most=0.025, of="records", n_audits=200
    ),
    "everybody, ratio .797": World(
        (300,) * 4, (0.4,) + (151 / 300,) * 3, "passes", most=0.025, of="records", n_audits=200
    ),
}


def answers_in(world, n_audits, seed=0):
    """Return how often each answer is given."""
    rng, actual = np.random.default_rng(seed), Counter()
    groups = np.repeat(np.arange(len(world.sizes)), world.sizes)
    # of everybody just so many are chosen
    evenly = np.concatenate([(np.arange(size) + 0.5) / size for size in world.sizes])
    labels = range(world.n_labels or len(world.sizes))
    audit = GroupAudit(epsilon=world.epsilon, group_labels=labels)
    for _ in range(n_audits):
        draws = rng.random(len(groups)) if world.of == "process" else evenly
        chosen = (draws < np.array(world.rates)[groups]).astype(int)
        result = audit.run(np.zeros_like(chosen), chosen, groups, kind="decisions")
        verdict = result.verdict(
            world.metric, within=world.within, of=world.of, reference=world.reference
        )
        actual[verdict.answer] += 1
    return actual
