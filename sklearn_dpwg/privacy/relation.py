"""Neighbouring relations: what a guarantee hides, and which of them follows from which."""

from __future__ import annotations

from typing import ClassVar

# What neighbours differ in by the name of the relation, the strongest relation first.
_SENTENCES = {
    "add-or-remove": "add or remove one record",
    "replace-any": "replace any record, its group included",
    "replace-in-group": "replace one record within its group",
}


class Relation:
    """Which data sets are neighbours; ``str`` of it is the sentence that guarantees state.

    Relations are in order, the strongest first: what holds under one holds under every later one,
    as a replacement within a group is a replacement, and a replacement is a removal and an
    addition. So a relation is smaller than those that follow from it.

    Parameters
    ----------
    neighbours : {"add-or-remove", "replace-any", "replace-in-group"} or Relation
        Its name, or the sentence that belongs to it, which equals it too.

    Raises
    ------
    ValueError
        If there is no such relation.

    See Also
    --------
    PrivacyGuarantee.under : What a guarantee says under another relation.

    Examples
    --------
    >>> from sklearn_dpwg.privacy import Relation
    >>> Relation("replace-any")
    'replace any record, its group included'
    >>> Relation("replace-any").implies(Relation("replace-in-group"))
    True
    >>> Relation("replace-in-group").implies(Relation("replace-any"))
    False
    """

    ADD_OR_REMOVE: ClassVar[Relation]
    REPLACE_ANY: ClassVar[Relation]
    REPLACE_IN_GROUP: ClassVar[Relation]

    def __init__(self, neighbours: str | Relation) -> None:
        said = str(neighbours)
        places = [place for place, pair in enumerate(_SENTENCES.items()) if said in pair]
        if not places:
            known = ", ".join(map(repr, _SENTENCES))
            raise ValueError(f"neighbours must be one of {known}, got {neighbours!r}.")
        self._rank = places[0]

    @property
    def short_name(self) -> str:
        """The name, such as "replace-any"."""
        return list(_SENTENCES)[self._rank]

    def implies(self, other: Relation) -> bool:
        """Return whether a guarantee under this relation gives one under another.

        Parameters
        ----------
        other : Relation
            The other one.

        Returns
        -------
        bool
            True for itself and for those after it.
        """
        return self <= other

    def __str__(self) -> str:
        return list(_SENTENCES.values())[self._rank]

    def __repr__(self) -> str:
        return repr(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Relation | str) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __le__(self, other: Relation) -> bool:
        return self._rank <= other._rank

    def __lt__(self, other: Relation) -> bool:
        return self._rank < other._rank

    def __ge__(self, other: Relation) -> bool:
        return self._rank >= other._rank

    def __gt__(self, other: Relation) -> bool:
        return self._rank > other._rank


Relation.ADD_OR_REMOVE = Relation("add-or-remove")
Relation.REPLACE_ANY = Relation("replace-any")
Relation.REPLACE_IN_GROUP = Relation("replace-in-group")
