"""The population of tasks: what is promised of the list, without its references."""

from collections import Counter

import pytest

from tests.helpers.benchmarks import utility_with


@pytest.fixture(scope="module")
def population():
    with utility_with("population") as utility:
        yield utility.population


def test_halves(population):
    """A hash cannot move a known source from one half to the other without a change of this."""
    halves = {}
    for each in population.DEFINITIONS:
        assert halves.setdefault(each.source, each.half) == each.half
    counts = Counter((each.half, each.kind) for each in population.DEFINITIONS)
    known = {
        # the hash says "checking" of the last, but the project has shown this source already
        "choosing": (
            *("ames-housing", "project-star", "bird-strikes", "lending-club"),
            "current-population-survey",
        ),
        "checking": ("chem97", "movielens", "airfare", "nafld", "new-york-flights"),
    }
    assert set(halves.values()) == set(known)
    for half, sources in known.items():
        assert counts[half, "classification"] >= 20
        assert counts[half, "regression"] >= 6
        assert {population.definition.half_of(source) for source in sources} == {half}
