"""Models in files of skops, which run no code of theirs, what they predict, and their ledgers."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sklearn_dpwg._checks import as_text
from sklearn_dpwg.cli.cells import checked_features
from sklearn_dpwg.cli.tables import PARQUET, TableFile, WrongInput, write
from sklearn_dpwg.exceptions import DPWGError
from sklearn_dpwg.serving import trusted_types

if TYPE_CHECKING:
    import pandas as pd

    from sklearn_dpwg.inspection.shape_display import OwnThresholds
    from sklearn_dpwg.ledger import PrivacyLedger
    from sklearn_dpwg.privacy import PrivacyGuarantee


def save_model(model: Any, path: Path) -> None:
    """Write a fitted model."""
    from skops import io

    write(path, lambda part: io.dump(model, part))


# A graph reads no words.
CLEAN_CELLS = ", for cells that [cells], synonyms, decimal and unit of the schema have been read by"


def check_graph_of(schema: Any, model: Any) -> None:
    """Refuse what has no graph while nothing is spent."""
    from sklearn.pipeline import Pipeline

    from sklearn_dpwg.onnx import check_graph

    try:
        check_graph(Pipeline([("schema", _of_clean_cells(schema)), ("model", model)]))
    except ImportError:
        raise WrongInput("onnx needs skl2onnx: pip install skl2onnx.") from None


def save_graph(model: Any, path: Path) -> None:
    """Write the graph of a fitted model."""
    from sklearn.pipeline import Pipeline

    from sklearn_dpwg.onnx import to_graph

    (_, schema), last = model.steps
    content = to_graph(Pipeline([("schema", _of_clean_cells(schema)), last]))
    write(path, lambda part: part.write_bytes(content))


def _of_clean_cells(schema: Any) -> Any:
    from sklearn.base import clone

    return clone(schema).set_params(cells=None)


def load_model(path: Path) -> Any:
    """Read a model of a schema and an estimator, or say what is wrong with the file."""
    from skops import io

    if not path.is_file():
        raise WrongInput(f"{path} must be a file that is there.")
    try:
        others = sorted(set(io.get_untrusted_types(file=path)) - set(trusted_types()))
    except Exception:  # whatever a broken archive or an unknown version raises
        raise WrongInput(f"{path} must be a model that `fit` or skops wrote.") from None
    if others:
        raise WrongInput(
            f"{path} must hold types of this package and of scikit-learn alone, and holds "
            f"{', '.join(others[:3])}{', ...' if len(others) > 3 else ''}: it is not loaded."
        )
    try:
        model = io.load(path, trusted=list(trusted_types()))
    except Exception:
        raise WrongInput(f"{path} must be a model that this version can load.") from None
    if not (hasattr(model, "steps") and hasattr(schema_of(model), "columns")) or not hasattr(
        model[-1], "privacy_"
    ):
        raise WrongInput(
            f"{path} must hold a fitted pipeline of a PublicSchema and a private estimator, as "
            f"`fit` writes it, got {type(model).__name__}."
        )
    try:
        schema_of(model).get_feature_names_out()  # whoever wrote the file may have said anything
    except DPWGError as error:
        raise WrongInput(f"{path} holds a schema that cannot be used: {error}") from None
    return model


def schema_of(model: Any) -> Any:
    """Return the first step of a pipeline, or None."""
    return model[0] if getattr(model, "steps", None) else None


def ledger_around(path: Path | None, options: Mapping[str, Any]) -> PrivacyLedger | None:
    """Return a ledger to work in, or None where none is asked for.

    A file that is there knows its budget, and a new one has to be told.
    """
    epsilon, delta = options["ledger_epsilon"], options["ledger_delta"]
    if path is None:
        if epsilon is not None or delta is not None:
            raise WrongInput("ledger must be named, as --ledger FILE, where it is given a budget.")
        return None
    from sklearn_dpwg.ledger import PrivacyLedger

    if path.exists():
        with closing(sqlite3.connect(path)) as connection:
            stated = connection.execute("SELECT epsilon, delta FROM budget").fetchone()
        epsilon = stated[0] if epsilon is None else epsilon
        delta = stated[1] if delta is None else delta
    if epsilon is None or delta is None:
        raise WrongInput(
            f"ledger {path} is not there yet: say --ledger-epsilon and --ledger-delta, the budget "
            f"of all that will ever be spent on these records."
        )
    if not path.resolve().parent.is_dir():
        raise WrongInput(f"{path} must be in a folder that is there.")
    return PrivacyLedger(epsilon, delta, path=path)


def is_ledger(path: Path) -> bool:
    """Return whether a file is one of SQLite, as a ledger is and a model is not."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(15) == b"SQLite format 3"


def entries_of(path: Path) -> str:
    """Say what a ledger has spent, and of each entry what, when and how much; it is only read."""
    from sklearn_dpwg.privacy.statement import rounded_up

    book = ledger_around(path, {"ledger_epsilon": None, "ledger_delta": None})
    assert book is not None
    lines = [f"{_total_of(book)}."]
    for row in book.rows:
        cost = row.guarantee
        begun = "" if row.state == "spent" else " Running, or ended without a word: it counts."
        lines.append(
            f"  {row.started}, {row.what}: epsilon = {rounded_up(cost.epsilon)} at "
            f"delta = {cost.delta:g}, {cost.relation}; unit: {cost.unit}.{begun}"
        )
    if len(lines) > 2:
        lines.append(
            f"The total is that of their noise together, which is no sum of epsilons. It covers "
            f"what each of them covers: {book.guarantee.relation}."
        )
    return "\n".join(lines)


def _total_of(book: PrivacyLedger) -> str:
    """Say in a line what a ledger has spent."""
    from sklearn_dpwg.privacy.statement import rounded_up

    return (
        f"Ledger: {book.path} has spent epsilon = {rounded_up(book.epsilon_spent)} "
        f"of {book.epsilon:g} at delta = {book.delta:g}"
    )


def spent_of(book: PrivacyLedger) -> str:
    """Say in a line what a ledger has spent, and why that is not the ε of a statement above."""
    said = _total_of(book)
    own = book.rows[-1].guarantee.delta if book.rows else book.delta
    if own == book.delta:
        return said
    return (
        f"{said}, the ledger's own; the statement above is at delta = {own:g}, and the same noise "
        "has a smaller epsilon at a larger delta"
    )


def classes_of(model: Any) -> list[str]:
    """Return the classes, of two the one that is looked for last: as a schema that is kept says.

    An estimator has them sorted.
    """
    found = [as_text(one) for one in model.classes_]
    # the target's stands behind those of groups
    for kind in list((schema_of(model).unseen or {}).values())[-1:]:
        declared = [as_text(level) for level in getattr(kind, "levels", ())]
        if sorted(declared) == sorted(found):
            return declared
    return found


def _is_turned(model: Any) -> bool:
    """Return whether the first of two sorted classes is the one that is looked for."""
    return classes_of(model)[1] != as_text(model.classes_[1])


UNCOUNTED = (
    "\n\nCells that their kind could not use were taken for missing ones. How many is not said: "
    "that number is about the records, and would have to be paid for like any release."
)


def statement_of(model: Any) -> str:
    """Say what may be published with a model: what it promises, and what it predicts by."""
    from sklearn_dpwg.inspection.audit_rows import n_records_of
    from sklearn_dpwg.ledger import privacy_of

    schema, last, rows = model[0], model[-1], ""
    if schema.person is not None:
        # of all rows, those left out too, the number is about people: it is not kept
        n_rows = last._n_records if hasattr(last, "_n_records") else n_records_of(last)
        rows = (
            f"\nRows: {n_rows:,}, at most {schema.rows_per_person} of each person, chosen by coins."
            f" What all rows of a person hold is protected, those left out too. How many of them "
            f"were chosen is not."
        )
    uncounted = schema.cells is not None and schema.cells.unusable == "missing"
    return of_command(
        f"{_with_unit(privacy_of(model), schema)}{said_of_gaps(schema.missing_label)}{rows}"
        f"{UNCOUNTED if uncounted else ''}{said_of_threshold(model)}"
    )


def _with_unit(guarantee: PrivacyGuarantee, schema: Any) -> str:
    """Return a statement that says of whom the command itself chose the rows."""
    from sklearn_dpwg.privacy.statement import sections

    parts = sections(guarantee)
    if schema.person is not None and guarantee.of_person:
        count = guarantee.records_per_person
        up_to = "one row" if count == 1 else f"at most {count} rows"
        kept = (
            f"a person, as column {schema.person!r} tells people apart. The program that learned "
            f"from the table kept {up_to} of each."
        )
        parts = tuple(
            replace(part, text=kept) if part.title == "Unit of privacy" else part for part in parts
        )
    return "\n".join(map(str, parts))


def of_command(statement: str) -> str:
    """Return a statement without what it says for those who write Python."""
    return re.sub(r",\s+k\s+rows\s+`for_records\(k\)`", "", statement)


def said_of_gaps(label: Any) -> str:
    """Say in a line as which group missing ones are counted, where they are."""
    if label is None:
        return ""
    return f"\nMissing groups: whoever has none is counted as one of the group {label!r}."


def said_of_threshold(model: Any) -> str:
    """Say what a model of two classes predicts by, and of a paid threshold whom it chooses."""
    if not _has_two_classes(model):
        return ""
    second = classes_of(model)[1]
    if not hasattr(model[-1], "thresholds_"):
        return (
            f"\n\n`predict` says {second!r} {least_of(model)}. Where few are, that is hardly "
            f"anybody: `predict --threshold` takes another number. `fit --share 0.1` chooses a "
            f"tenth, but a second fit spends again."
        )
    table = model[-1].selected()[["chosen", "low", "high"]]
    if _is_turned(model):
        table = (1.0 - table).rename(columns={"low": "high", "high": "low"})
    table["chosen"] = table["chosen"].clip(0.0, 1.0)  # beyond them noise hides it
    shares = "".join(
        f"\n  {label}: {row['chosen']:.1%} [{row['low']:.1%}, {row['high']:.1%}]"
        for label, row in table.iterrows()
    )
    return (
        f"\n\n`predict` says {second!r} {least_of(model)}, which was released. Of the rows that it "
        f"learned from it chooses, with limits that hold with probability 0.95, and are wide where "
        f"many rows have nearly one probability:{shares}"
    )


def without_threshold(model: Any) -> Any:
    """Return the schema and the model inside a threshold, or a model without one as it is."""
    from sklearn.pipeline import Pipeline

    if not hasattr(model, "steps") or not hasattr(model[-1], "thresholds_"):
        return model
    return Pipeline([model.steps[0], ("model", model[-1].estimator_)])


def own_thresholds(model: Any, threshold: float | None) -> OwnThresholds | None:
    """Return the thresholds that a model decides by itself, unless another one is stated."""
    from sklearn_dpwg.inspection.shape_display import thresholds_of

    return None if threshold is not None else thresholds_of(model)


def scores_of(model: Any, X: Any, classes: Sequence[str], options: Mapping[str, Any]) -> Any:
    """Return probabilities of the last class, or words where a model decides itself."""
    if not hasattr(model, "classes_"):
        raise WrongInput("model must be a classifier: an audit is about decisions of two classes.")
    place = [as_text(one) for one in model.classes_].index(classes[1])
    own = own_thresholds(model, options["threshold"])
    if own is None and hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X)[:, place], dtype=np.float64)
    if options["threshold"] is not None:
        raise WrongInput("threshold is for a model of two classes that has probabilities.")
    for name in ("score_edges", "losses"):
        if options[name] is not None:
            raise WrongInput(
                f"{name} must be left out of an audit of decisions, which this model makes itself"
                f"{'' if own is None else ': a public --threshold makes them from probabilities'}."
            )
    return np.where(model.predict(X) == model.classes_[place], classes[1], classes[0])


def least_of(model: Any, threshold: float | None = None) -> str:
    """Return from which probability of the class that is looked for a model says it."""
    from sklearn_dpwg.inspection.shape_display import decides

    if threshold is not None:
        return decides(threshold, "a probability of ", is_turned=False)
    own, is_turned = getattr(model[-1], "thresholds_", None), _is_turned(model)
    # without one scikit-learn gives a tie to the first of the sorted classes
    least, is_above = (0.5, not is_turned) if own is None else (own[0], is_turned)
    return decides(least, "a probability of ", is_turned=is_above)


def _has_two_classes(model: Any) -> bool:
    return hasattr(model, "predict_proba") and len(model.classes_) == 2


def chosen(model: Any, found: pd.DataFrame, threshold: float | None) -> tuple[str, str]:
    """Return how many rows have which class, exactly, and from which probability on, in words."""
    counted = f"{len(found):,} prediction(s)"
    if not _has_two_classes(model) or not len(found):
        return f"{counted}.", ""
    second = classes_of(model)[1]
    n_chosen = int((found["prediction"].map(as_text) == second).sum())
    share = n_chosen / len(found)
    counted += f", {second!r} for {n_chosen:,} of them ({share:.1%}), of these very rows."
    return counted, f", {second!r} {least_of(model, threshold)}"


def predictions(
    model: Any,
    table: TableFile,
    name: str,
    keep: Sequence[str] = (),
    threshold: float | None = None,
) -> pd.DataFrame:
    """Return a prediction a row, probabilities where the model has them, and columns to keep."""
    import pandas as pd

    if threshold is not None:
        if not _has_two_classes(model):
            raise WrongInput("threshold is for a model of two classes that has probabilities.")
        if not 0.0 < threshold < 1.0:
            raise WrongInput(f"threshold must be strictly between 0 and 1, got {threshold:g}.")

    schema = schema_of(model)
    kinds = schema.columns
    table.require({name: kinds, "--keep": keep})
    columns, faults = table.read([*kinds, *keep]), table.faults()
    X = checked_features(columns, schema, faults, may_lose=True)  # each row is read by itself
    faults.refuse()
    found: dict[str, Any] = {each: columns[each].to_pandas() for each in keep}
    made: dict[str, Any] = {"prediction": model.predict(X)}
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(X)
        # as declared, the class that is looked for last
        places = {as_text(one): place for place, one in enumerate(model.classes_)}
        order = [places[one] for one in classes_of(model)]
        made |= {f"probability of {model.classes_[i]}": shares[:, i] for i in order}
        if threshold is not None:
            place = 0 if _is_turned(model) else 1
            is_it = shares[:, place] >= threshold
            made["prediction"] = model.classes_[np.where(is_it, place, 1 - place)]
    twice = [each for each in made if each in found]
    if twice:
        raise WrongInput(f"keep must not name {twice[0]!r}, which is a column of the output.")
    return pd.DataFrame(found | made)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame as its name says."""
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        write(path, lambda part: frame.to_parquet(part, index=False))
    elif suffix in (".csv", ".tsv"):
        delimiter = "," if suffix == ".csv" else "\t"
        write(path, lambda part: frame.to_csv(part, index=False, sep=delimiter))


def check_suffix(path: Path) -> None:
    """Refuse a name that says nothing about the form of a table."""
    if path.suffix.lower() not in (*PARQUET, ".csv", ".tsv"):
        raise WrongInput(f"{path} must have a name that ends in .csv, .tsv or .parquet.")
