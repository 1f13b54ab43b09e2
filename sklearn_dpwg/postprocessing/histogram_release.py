"""Release of a histogram of scores: the only lines here that hand records to noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.privacy import NoiseSource, PrivacyGuarantee, Relation, Release, noise_on_integers

PUBLIC_FACTS = (
    "the number of records",
    "the group labels, the classes and the edges of the bins of scores",
    "every parameter of the thresholds or the calibration",
)
GROUPS = "which group each record is in"


def release_counts(
    counts: NDArray[np.int64], release: Release | None, noise: NoiseSource
) -> NDArray[np.int64]:
    """Return counts with the noise of a release, as whole numbers; without one as they are.

    A record is in one cell. Replaced, its group too, it leaves one and enters another, which is
    what `NoiseSource.integers` takes counts to be (docs/theory/thresholds.md, Lemma 1).
    """
    return counts if release is None else noise.integers(counts, release=release)


def noise_std(release: Release | None) -> float:
    """Return the standard deviation of the noise on a count."""
    return 0.0 if release is None else noise_on_integers(release).std


def histogram_guarantee(
    release: Release | None,
    delta: float,
    rows_per_person: int,
    *,
    seeded: bool = False,
    labels_stated: bool = False,
) -> PrivacyGuarantee:
    """Return what a histogram costs by itself a person with so many rows.

    Group labels that were found in the groups tell who is in none, and so only replacements within
    groups are covered; the counts themselves cover any.
    """
    relation = Relation.REPLACE_ANY if labels_stated else Relation.REPLACE_IN_GROUP
    public = PUBLIC_FACTS if labels_stated else (*PUBLIC_FACTS, GROUPS)
    if release is None:
        found = PrivacyGuarantee.non_private(delta, public=public, relation=relation)
    else:
        found = PrivacyGuarantee.from_releases(
            [release], delta, public=public, seeded=seeded, relation=relation
        )
    return found.for_records(rows_per_person)
