"""What several results on the same records promise together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sklearn_dpwg._checks import open_unit
from sklearn_dpwg.privacy.accounting.accountant import worst_epsilon
from sklearn_dpwg.privacy.accounting.composition import joint_compositions
from sklearn_dpwg.privacy.accounting.events import event_of_composition
from sklearn_dpwg.privacy.guarantee import PrivacyGuarantee


def joint_guarantee(guarantees: Sequence[PrivacyGuarantee], delta: float) -> PrivacyGuarantee:
    """Return what several results on the same records promise together.

    Parameters
    ----------
    guarantees : sequence of PrivacyGuarantee
        One of each result, at least one, and of equally many records of a person. Where they are
        under several relations, all are stated under the weakest of them.
    delta : float
        δ of all together, strictly between 0 and 1.

    Returns
    -------
    PrivacyGuarantee
        Its ``events`` cover every way in which the parts of the results may overlap, and a
        replacement that keeps the group of the record by each of its ``groupings``. Without
        privacy if one of the results is.

    Raises
    ------
    ValueError
        If there are no guarantees, or they protect different things.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import PrivacyGuarantee, Release, joint_guarantee
    >>> one = PrivacyGuarantee.from_releases([Release("w", "gaussian", 4.3, max_count=1)], 1e-6)
    >>> joint_guarantee([one, one], 1e-6)  # μ grows by √2
    PrivacyGuarantee(epsilon=1.42704, delta=1e-06, 'replace one record within its group')
    """
    units = sorted({one.records_per_person for one in guarantees})
    if len(units) != 1:
        raise ValueError(
            f"guarantees must protect equally many records of a person, got {len(units)} kinds: "
            f"{units!r}."
        )
    relation = max(one.relation for one in guarantees)
    guarantees = [one.under(relation) for one in guarantees]
    public = tuple(dict.fromkeys(fact for one in guarantees for fact in one.public))
    outside = tuple(dict.fromkeys(name for one in guarantees for name in one.outside))
    groupings = tuple(dict.fromkeys(name for one in guarantees for name in one.groupings))
    if not all(one.is_private for one in guarantees):
        return replace(
            PrivacyGuarantee.non_private(delta, public=public, relation=relation), outside=outside
        )
    totals = joint_compositions(one.events for one in guarantees)
    return PrivacyGuarantee(
        worst_epsilon(totals, open_unit(delta, "delta")),
        delta,
        relation,
        public,
        tuple(map(event_of_composition, totals)),
        any(one.seeded for one in guarantees),
        records_per_person=units[0],
        outside=outside,
        groupings=groupings,
    )
