"""What is stored names its version and is read whole, of every generation kept, or is refused.

The files in `tests/stored` were written by `python -m tests.helpers.stored_files --write`.
"""

from __future__ import annotations

import importlib
import json
import pickle
import pkgutil
import sqlite3
from collections.abc import Iterator
from inspect import isabstract, isclass
from typing import Any

import pytest
from skops import io

import sklearn_dpwg
from sklearn_dpwg import __version__
from sklearn_dpwg._stored import FORMAT, VERSION, Stored
from sklearn_dpwg.cli.models import load_model, save_model
from sklearn_dpwg.cli.tables import WrongInput
from sklearn_dpwg.exceptions import LedgerUnreachableError, StoredFormatError
from sklearn_dpwg.inspection import AuditResult
from sklearn_dpwg.ledger import PrivacyLedger
from sklearn_dpwg.losses.classification import BinaryLogLoss
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Relation
from sklearn_dpwg.serving import trusted_types
from tests.helpers.stored_files import DELTA, GROUPS, HERE, X, Y, classifier, facts, read

# A pipeline is scikit-learn's, which warns of every other version of its own.
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.WeakPlanWarning"),  # few records
]

FILES = sorted(path.stem for path in HERE.glob("*.json"))
NEWEST = max(FILES)
# What is refused, as it lacks what has to be known today.
CHANGED = {"generation_0": {"plan of search": "it lacks 'outside'"}}
# What is public and is no result: it holds records, or what lives while a process computes, is
# drawn by matplotlib, says how to split, or comes with the package.
NOT_KEPT = (
    *("data.kernels", "data.oracles", "data.risks", "data.sources", "datasets"),
    *("privacy.prefix_sums", "privacy.noise.poisson"),
    "preprocessing.rows_per_person",
    *("inspection.group_displays.Group", "inspection.privacy_displays.PrivacyProfileDisplay"),
    *("inspection.privacy_displays.PrivacyUtilityDisplay", "model_selection.splitters"),
    "inspection.shape_display.ShapeDisplay",
)


def content_of(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def newest(tmp_path_factory):
    return read(content_of(NEWEST), tmp_path_factory.mktemp("stored"))


def public_classes() -> set[type]:
    found: set[type] = set()
    for each in pkgutil.walk_packages(sklearn_dpwg.__path__, "sklearn_dpwg."):
        if not each.name.endswith("__main__"):
            module = importlib.import_module(each.name)
            found |= set(
                filter(isclass, (getattr(module, n) for n in getattr(module, "__all__", ())))
            )
    return found


def can_be_pickled(kind: type) -> bool:
    """A protocol and a base have no instances, and what holds secrets refuses."""
    is_base = isabstract(kind) or getattr(kind, "_is_protocol", False)
    return not is_base and kind.__reduce__ is object.__reduce__


def test_every_public_class_that_is_kept_names_its_version():
    kept = {kind for kind in public_classes() if can_be_pickled(kind)}
    names = {kind: f"{kind.__module__}.{kind.__name__}" for kind in kept}
    left_out = tuple(f"sklearn_dpwg.{name}" for name in NOT_KEPT)
    forgot = {names[kind] for kind in kept if not issubclass(kind, Stored)}
    assert {name for name in forgot if not name.startswith(left_out)} == set()
    unused = [name for name in left_out if not any(each.startswith(name) for each in forgot)]
    assert unused == []
    assert len(kept) - len(forgot) > 60
    assert all(issubclass(kind, Stored) for kind in public_classes() if hasattr(kind, "to_json"))


@pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning")
def test_what_is_written_names_version_and_format(newest, tmp_path):
    for name, thing in newest.things.items():
        state = thing.__getstate__()
        assert (state[VERSION], state[FORMAT]) == (__version__, 1), name
        assert VERSION not in vars(pickle.loads(pickle.dumps(thing)))
    for written in (newest.guarantee, newest.result, newest.ledger):
        described = json.loads(written.to_json())
        assert (described[VERSION], described[FORMAT]) == (__version__, 1)
    path = tmp_path / "ledger.sqlite"  # the newest stored one was written by an earlier version
    with PrivacyLedger(9.0, DELTA, path=path):
        classifier().fit(X, Y, GROUPS)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert connection.execute("SELECT version FROM writers").fetchall() == [(__version__,)]
        (row,) = connection.execute("SELECT guarantee FROM fits").fetchone()
    connection.close()
    assert json.loads(row)[VERSION] == __version__


@pytest.mark.parametrize("name", FILES)
def test_files_of_every_generation_are_read_and_say_what_they_said(name, tmp_path):
    content = content_of(name)
    kept = read(content, tmp_path)
    found, stated = facts(kept), content["facts"]
    assert {
        key: says.partition(" (")[2].partition(")")[0] for key, says in kept.refused.items()
    } == CHANGED.get(name, {})
    assert stated.keys() - found.keys() == {f"guarantee, {thing}" for thing in kept.refused}
    for key in stated.keys() & found.keys():
        said = stated[key]
        assert list(leaves(found[key])) == list(map(about, leaves(said))), key
    ledger = PrivacyLedger(9.0, DELTA, path=tmp_path / "ledger.sqlite")
    before = ledger.rows
    with ledger:
        classifier(random_state=None).fit(X, Y, GROUPS)
    assert ledger.rows[: len(before)] == before
    assert len(ledger.rows) == len(before) + 1


def leaves(value: Any) -> Iterator[Any]:
    if not isinstance(value, list):
        yield value
    for one in value if isinstance(value, list) else ():
        yield "["
        yield from leaves(one)


def about(leaf: Any) -> Any:
    """Other libraries round otherwise; an epsilon of sampled releases is found to 1e-6."""
    return pytest.approx(leaf, rel=1e-6, abs=1e-12) if isinstance(leaf, float) else leaf


def of_format(monkeypatch, kind: type[Stored], write, number: int = 2) -> Any:
    """Return what a newer version writes, in which a class has another format."""
    with monkeypatch.context() as newer:
        newer.setattr(kind, "_format", number)
        newer.setattr("sklearn_dpwg._stored.__version__", "9.1")
        return write()


SAYS = r"was written by sklearn-dpwg 9\.1 and cannot be read by .*\(it has format 2, not 1\): load"


def test_another_format_is_refused_and_the_same_of_another_version_is_read(newest, monkeypatch):
    for name, thing in newest.things.items():
        written = of_format(monkeypatch, type(thing), lambda thing=thing: pickle.dumps(thing))
        with pytest.raises(StoredFormatError, match=f"this {type(thing).__name__} {SAYS}"):
            pickle.loads(written)
        same = of_format(monkeypatch, type(thing), lambda thing=thing: pickle.dumps(thing), 1)
        assert type(pickle.loads(same)) is type(thing), name
    for kind, thing in (
        (PrivacyGuarantee, newest.guarantee), (AuditResult, newest.result),
        (PrivacyLedger, newest.ledger),
    ):  # fmt: skip
        with pytest.raises(StoredFormatError, match=SAYS):
            kind.from_json(of_format(monkeypatch, kind, thing.to_json))
        assert kind.from_json(of_format(monkeypatch, kind, thing.to_json, 1))
    # inside another thing, too
    within = of_format(monkeypatch, PrivacyGuarantee, newest.ledger.to_json)
    with pytest.raises(StoredFormatError, match=SAYS):
        PrivacyLedger.from_json(within)


@pytest.mark.parametrize("kind", [PrivacyGuarantee, AuditResult, PrivacyLedger])
def test_json_with_an_entry_too_many_or_too_few_is_refused(kind, newest):
    things = {PrivacyGuarantee: "guarantee", AuditResult: "result", PrivacyLedger: "ledger"}
    described = json.loads(getattr(newest, things[kind]).to_json())
    with pytest.raises(StoredFormatError, match="it has an unknown 'unless'"):
        kind.from_json(json.dumps({**described, "unless": "x"}))
    for name in set(described) - {VERSION, FORMAT, *kind._added}:
        less = {key: value for key, value in described.items() if key != name}
        with pytest.raises(StoredFormatError, match=f"it lacks '{name}'"):
            kind.from_json(json.dumps(less))
    for text in ("", "[]", "{}", "3"):
        with pytest.raises(ValueError, match=f"text must be what {kind.__name__}.to_json wrote"):
            kind.from_json(text)


def test_a_newer_ledger_is_refused_inside_and_outside_a_block_and_nothing_is_charged(tmp_path):
    path = tmp_path / "ledger.sqlite"
    says = r"sklearn-dpwg 9\.1 wrote it in format 2, and sklearn-dpwg .* knows format 1: go on"

    def newer() -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA user_version = 2")
        connection.execute("INSERT OR IGNORE INTO writers VALUES ('9.1')")
        fits = connection.execute("SELECT * FROM fits").fetchall()
        connection.close()
        return fits

    ledger = PrivacyLedger(9.0, DELTA, path=path)
    ledger.__enter__()
    assert newer() == []
    model = classifier(random_state=None)
    with pytest.raises(LedgerUnreachableError, match=says):
        model.fit(X, Y, GROUPS)
    assert not hasattr(model, "coef_")
    assert newer() == []
    with pytest.raises(LedgerUnreachableError, match=says):
        ledger.__exit__()
    other, before = PrivacyLedger(9.0, DELTA, path=path), path.read_bytes()
    for use in (other.__enter__, lambda: other.rows, other.to_json, lambda: other.epsilon_spent):
        with pytest.raises(LedgerUnreachableError, match=says):
            use()
    assert path.read_bytes() == before


def test_caches_are_neither_written_nor_read_and_other_attributes_are_refused():
    budget = Budget(1.0, DELTA)
    assert budget.mu == Budget(1.0, DELTA).mu
    state = budget.__getstate__()
    assert "mu" not in state
    forged = Budget.__new__(Budget)
    forged.__setstate__({**state, "mu": 99.0})
    assert forged.mu == budget.mu
    for wrong, says in (
        ({**state, "mus": 1.0}, "an unknown 'mus'"),
        ({**state, "__post_init__": None}, "an unknown '__post_init__'"),
        ({"epsilon": 1.0}, "it lacks 'delta'"),
        ({**state, "delta": 2.0}, "delta must be strictly between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=says):
            Budget.__new__(Budget).__setstate__(wrong)


def test_a_relation_is_stored_by_name_and_no_value_hides_a_method(newest):
    for name in ("add-or-remove", "replace-any", "replace-in-group"):
        state = Relation(name).__getstate__()
        assert state["neighbours"] == name
        assert pickle.loads(pickle.dumps(Relation(name))) == Relation(name)
    for thing in (newest.things["model"], newest.things["ledger"], BinaryLogLoss()):
        for name in ("fit", "rows", "kernel"):
            if hasattr(type(thing), name):
                state = {**thing.__getstate__(), name: 3}
                with pytest.raises(StoredFormatError, match=f"an unknown '{name}'"):
                    type(thing).__new__(type(thing)).__setstate__(state)


@pytest.mark.parametrize(
    ("kind", "more", "says"),
    [
        (Budget, {"mu": 99.0}, None),
        (Budget, {"gdp": 99.0}, "it has an unknown 'gdp'"),
        (PrivacyGuarantee, {"epsilon_at": 0.1}, "it has an unknown 'epsilon_at'"),
        (PrivacyGuarantee, {"delta": 7.0}, "must be a model that this version can load"),
        (PrivacyGuarantee, {FORMAT: 2, VERSION: "9.1"}, "this PrivacyGuarantee " + SAYS),
        (classifier, {"predict": 0.0}, "it has an unknown 'predict'"),
    ],
    ids=["cache", "unknown", "method", "impossible", "newer", "estimator"],
)
def test_a_forged_model_file_is_refused_or_says_what_it_said(
    kind, more, says, newest, monkeypatch, tmp_path
):
    path = tmp_path / "forged.skops"
    kind = type(newest.pipeline[-1]) if kind is classifier else kind
    write = kind.__getstate__
    with monkeypatch.context() as forging:
        forging.setattr(kind, "__getstate__", lambda thing: {**write(thing), **more})
        save_model(newest.pipeline, path)
    assert set(io.get_untrusted_types(file=path)) <= set(trusted_types())
    if says is None:
        budget = load_model(path)[-1].plan_.budget
        assert budget.mu == Budget(budget.epsilon, budget.delta).mu
    else:
        with pytest.raises(WrongInput, match=says):
            load_model(path)


def test_what_model_files_hold_is_restored_by_its_fields():
    """Of the types of this package that a file may name none keeps other attributes.

    A tuple has none.
    """
    for name in trusted_types():
        module, _, kind = name.rpartition(".")
        if module.startswith("sklearn_dpwg"):
            found = getattr(importlib.import_module(module), kind)
            assert issubclass(found, Stored | tuple), name
