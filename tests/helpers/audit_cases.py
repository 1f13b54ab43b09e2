"""Results of audits to be shown: as many groups as wanted, and labels that mean harm."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np

from sklearn_dpwg.inspection import AuditResult
from sklearn_dpwg.privacy import Budget, IntegerNoise, PrivacyGuarantee, Release

HOSTILE: tuple[Hashable, ...] = (
    "<script>alert(1)</script>",
    "</svg></style></table><img src=x onerror=alert(2)>",
    "x" * 5_000 + "</td>" + "y" * 4_995,
    "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{MICROSCOPE} \N{WAVING WHITE FLAG}\N{VARIATION SELECTOR-16}",
    "\u05d0\u05d1\u05d2 \u0645\u0631\u062d\u0628\u0627",
    "abc\u202edcba",
    r"$\frac{$",
    "nul\x00here",
    "same",
    " same",
    "same ",
    "same\n",
    "a|b\n| --- |\n# title",
    "**bold** [link](javascript:alert(3)) `code` &lt;",
    "{{ 7 * 7 }}{% raw %}",
    "=1+1",
    "lone \ud800 half",
    1,
    "1",
    "",
    ("white", "<b>woman</b>"),
)
GUARANTEE = PrivacyGuarantee.from_releases(
    [Release("counts", "laplace", 1.0, max_count=1)],
    1e-6,
    public=["the names of the groups", "the threshold"],
)
MODEL_GUARANTEE = PrivacyGuarantee.from_releases(
    [Release("weights", "gaussian", 4.3, max_count=1)], 1e-6, public=["group sizes"]
)
WEAK_GUARANTEE = PrivacyGuarantee.from_releases(
    [Release("counts", "laplace", 0.05, max_count=1)], 1e-6
)
RACES = ("White", "Black", "Asian", "Latino", "Native American", "East African", "Other or unknown")


def labels_of(n_groups: int) -> tuple[str, ...]:
    """Return names as they are met: short ones, and for many groups cells of two columns."""
    if n_groups <= len(RACES):
        return RACES[:n_groups]
    ages = ("under 25", "25 to 39", "40 to 54", "55 to 64", "65 to 79", "80 or older")
    names = [f"{race} & {age}" for age in ages for race in RACES]
    return tuple(names[:n_groups])


def audit_result(
    groups: int | Sequence[Hashable] = 4,
    *,
    noise: IntegerNoise | None = IntegerNoise("laplace", 2.0),  # noqa: B008
    seed: int = 0,
    size: int = 4000,
    **facts,
) -> AuditResult:
    """Return what an audit of so many groups might have released."""
    labels = labels_of(groups) if isinstance(groups, int) else tuple(groups)
    rng = np.random.default_rng(seed)
    counts = []
    for rank in range(len(labels)):
        n = max(30, int(size / (rank + 1) ** 1.1))
        truth = rng.random(n) < 0.35
        selected = rng.random(n) < np.where(truth, rng.uniform(0.6, 0.8), rng.uniform(0.1, 0.2))
        table = np.array([[np.sum((truth == y) & (selected == p)) for p in (0, 1)] for y in (0, 1)])
        drawn = rng.laplace(0, noise.scale, (2, 2)).round() if noise is not None else 0
        counts.append(tuple(tuple(int(n) for n in row) for row in table + drawn))
    described = {
        "group_labels": labels,
        "group_name": "race",
        "classes": ("no", "yes"),
        "counts": tuple(counts),
        "noise": noise,
        "sizes": None,
        "threshold": 0.5,
        "score_edges": None,
        "confidence": 0.95,
        "privacy_": GUARANTEE
        if noise is not None
        else PrivacyGuarantee.from_releases((), Budget(math.inf, 1e-6)),
        "model_privacy_": None,
        "created": "2026-11-22",
        "versions": {"sklearn-dpwg": "0.1.0", "numpy": "2.4.6"},
    }
    return AuditResult(**(described | facts))
