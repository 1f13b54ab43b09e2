"""The page of fidelity: every name on it exists, and nothing of the papers is left out."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "theory" / "fidelity.md"
VERDICTS = ("as written", "better", "different", "not in the code")

# The papers' own numbers; a kind's numbers are shared by none of the other kinds here.
NUMBERED = {
    "Zhou": {
        "Algorithm": [1, 2, 3, 4, 5],
        "Definition": [1, 5],
        "Lemma": [3, 4, 12],
        "Theorem": [2, 6, 7, 9, 10, 11, 13, 14],
        "Corollary": [8],
    },
    "Kang": {
        "Algorithm": [1],
        "Assumption": [1, 2, 3, 4, 5],
        "Definition": list(range(1, 8)),
        "Lemma": list(range(1, 14)),
        "Theorem": list(range(1, 7)),
        "Corollary": [1, 2],
        "Remark": list(range(1, 9)),
    },
    "Zhang": {
        "Algorithm": [1, 2],
        "Assumption": list(range(1, 8)),
        "Definition": list(range(1, 7)),
        "Lemma": [7, 13, 15, 16, 18, 20, 22, 23, 24, 25],
        "Theorem": [1, 3, 4, 6, 8, 10, 11, 17, 19],
        "Proposition": [14, 21],
        "Remark": [2, 5, 9, 12],
    },
}
# Of Zhou and Bassily, whose remarks have no numbers.
REMARKS = ("Theorem 2", "Lemma 4", "Corollary 8", "Theorem 10")


def sections(text: str) -> dict[str, list[list[str]]]:
    """Map the first author of each part to the cells of its rows."""
    found = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        author = re.match(r"\w+", part)
        rows = [line for line in part.splitlines() if line.startswith("| ")][1:]
        # a bar in a formula is written as a command
        found[author[0]] = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    return found


@pytest.fixture(scope="module")
def defined():
    """All names that the package defines, members as ``Class.name`` too, and the tests."""
    found = set()
    for path in [*ROOT.glob("sklearn_dpwg/**/*.py"), *ROOT.glob("tests/**/test_*.py")]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            found |= set(names_of(node))
            for member in getattr(node, "body", ()) if isinstance(node, ast.ClassDef) else ():
                of_class = names_of(member)
                found |= {*of_class, *(f"{node.name}.{name}" for name in of_class)}
    return found


def names_of(node: ast.stmt) -> list[str]:
    """Return what a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def missing(place: str, defined: set[str]) -> list[str]:
    """Return what a cell names that is not in the tree: names, pages and benchmarks."""
    wrong = []
    for role, reference in re.findall(r"(\{doc\})?`([^`]+)`", place):
        if role or "/" in reference:
            there = PAGE.with_name(f"{reference}.md") if role else ROOT / reference
            is_there = there.is_file()
        else:
            is_there = re.sub(r"[(=].*", "", reference) in defined
        wrong += [] if is_there else [reference]
    return wrong


def named(cell: str) -> set[tuple[str, int]]:
    """Return the numbered statements that a row is about: those before its first comma or verb."""
    found = set()
    for kind, first, to, last, second in re.findall(
        r"\b(Algorithm|Assumption|Corollary|Definition|Lemma|Proposition|Remark|Theorem)s? (\d+)"
        r"(?:( to )(\d+)| and (\d+))?",
        cell,
    ):
        found |= {(kind, number) for number in range(int(first), int(last if to else first) + 1)}
        found |= {(kind, int(second))} if second else set()
    return found


@pytest.fixture(scope="module")
def parts():
    return sections(PAGE.read_text(encoding="utf-8"))


def test_every_name_exists(parts, defined):
    rows = [row for part in parts.values() for row in part]
    assert len(rows) > 60
    assert all(len(row) == 3 and re.search(r"`[^`]+`", row[1]) for row in rows)
    assert missing(PAGE.read_text(encoding="utf-8"), defined) == []


def test_every_row_has_a_verdict(parts):
    assert [row for part in parts.values() for row in part if not row[2].startswith(VERDICTS)] == []


@pytest.mark.parametrize("author", NUMBERED)
def test_nothing_of_the_papers_is_left_out(parts, author):
    found = set().union(*(named(row[0]) for row in parts[author]))
    expected = {(kind, number) for kind, all_ in NUMBERED[author].items() for number in all_}
    assert expected - found == set()
    assert found - expected == set()  # and nothing is made up


def test_no_remark_of_the_first_paper_is_left_out(parts):
    first_cells = [row[0] for row in parts["Zhou"]]
    for after in REMARKS:
        assert any(cell.startswith(f"Remark after {after}") for cell in first_cells)


@pytest.mark.parametrize(
    ("place", "is_missing"),
    [
        ("`MGR`", False),
        ("`NoiseSource.gaussians`", True),
        ("{doc}`mgrs`", True),
        ("`MGR`, `benchmarks/none.py`", True),
    ],
)
def test_a_wrong_place_would_be_seen(place, is_missing, defined):
    assert bool(missing(place, defined)) == is_missing
