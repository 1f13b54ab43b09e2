"""One of each thing that is stored, in a file a generation, and what is read of them.

``python -m tests.helpers.stored_files --write`` adds the generation that is stored today: once what
a class stores has changed, and its format with it.
"""

from __future__ import annotations

import base64
import json
import lzma
import pickle
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from skops import io

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.exceptions import StoredFormatError
from sklearn_dpwg.inspection import AuditReport, AuditResult, GroupAudit
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.model_selection import DPSearchCV
from sklearn_dpwg.postprocessing import DPCalibratedClassifier, DPThresholdClassifier
from sklearn_dpwg.preprocessing import (
    BoundedScaler,
    Category,
    DPStandardScaler,
    Number,
    PublicSchema,
)
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.serving import trusted_types
from sklearn_dpwg.solvers import MGR

HERE = Path(__file__).parent.parent / "stored"
# Generation 0 is of commit a72a637, before anything named its version.
DELTA = 1e-6

x = np.linspace(-0.7, 0.7, 400)
X, GROUPS = np.column_stack([x, x[::-1] ** 2]), np.where(np.arange(400) % 2, "a", "b")
Y = np.where(x > 0, "yes", "no")
NEW = X[::80]
TABLE = pd.DataFrame({"age": x, "town": np.where(x > 0.3, "A", "B")})


def classifier(**parameters: Any) -> DPWorstGroupClassifier:
    given = {"solver": MGR(n_steps=2), "data_norm": 1.0, "random_state": 0, **parameters}
    return DPWorstGroupClassifier(4.0, **given)


def things() -> dict[str, Any]:
    """Return one of each kind that a person would keep, with small plans."""
    model = classifier().fit(X, Y, GROUPS)
    audit = GroupAudit(1.0, group_labels=["a", "b"], random_state=0, losses=["log_loss"])
    result = audit.run(Y == "yes", 0.5 + 0.5 * x, GROUPS)
    search = DPSearchCV(classifier(), {"radius": [0.5, 5.0]}, epsilon=2.0, random_state=0, n_iter=2)
    ledger = PrivacyLedger(9.0, DELTA, neighbours="replace-in-group")
    with ledger:
        classifier(random_state=1).fit(X, Y, GROUPS)
    sizes = {"a": 200, "b": 200}
    planned = ledger.plan_search(search, group_sizes=sizes, n_features=2, classes=["no", "yes"])
    thresholds = DPThresholdClassifier(classifier(), epsilon=4.0, random_state=0)
    calibrated = DPCalibratedClassifier(classifier(), epsilon=4.0, random_state=0)
    schema = PublicSchema({"age": Number(-1, 1), "town": Category(("A", "B"))})
    return {
        "model": model,
        "auc": DPAUCClassifier(4.0, data_norm=1.0, random_state=0).fit(X, Y),
        "thresholds": thresholds.fit(X, Y, groups=GROUPS),
        "calibrated": calibrated.fit(X, Y, groups=GROUPS),
        "search": search.fit(X, Y, groups=GROUPS),
        "scaler": DPStandardScaler(4.0, bounds=(-1.0, 1.0), random_state=0).fit(X),
        "bounded": BoundedScaler().fit(X),
        "schema": schema.fit(TABLE),
        "plan": model.plan_,
        "plan of thresholds": thresholds.plan(group_sizes=sizes, n_features=2),
        "plan of audit": audit.plan(),
        "plan of search": planned,
        "guarantee": privacy_of(model),
        "audit": audit,
        "result": result,
        "report": AuditReport(result),
        "ledger": ledger,
        "noise": result.noise,
    }


def pipeline() -> Pipeline:
    given = {"solver": "moments", "data_norm": 1.0, "random_state": 0, "target_bounds": (0, 1)}
    model = DPWorstGroupRegressor(4.0, **given)
    schema = PublicSchema({"age": Number(-1, 1), "town": Category(("A", "B"))})
    both = Pipeline([("schema", schema), ("model", model)])
    return both.fit(TABLE, np.abs(x), model__groups=GROUPS)


def facts(read: SimpleNamespace) -> dict[str, Any]:
    """Return what stored things predict, promise and count, as JSON holds it."""
    found = read.things
    models = ["model", "auc", "search"]
    plans = {name: found[name].guarantee for name in found if name.startswith("plan")}
    promised = plans | {k: one.privacy_ for k, one in found.items() if hasattr(one, "privacy_")}
    promised |= {"guarantee": found["guarantee"], "of model": privacy_of(found["model"])}
    promised |= {"JSON": read.guarantee, "ledger": read.ledger.guarantee}
    promised |= {"skops": read.pipeline[-1].privacy_}
    groups = GROUPS[::80]
    said = {
        **{name: found[name].predict(NEW).tolist() for name in models},
        "decisions": [found[name].decision_function(NEW).tolist() for name in models],
        "thresholds": found["thresholds"].predict(NEW, groups=groups).tolist(),
        "calibrated": found["calibrated"].predict_proba(NEW, groups=groups)[:, 1].tolist(),
        "scaled": [found[name].transform(NEW)[:, 0].tolist() for name in ("scaler", "bounded")],
        "encoded": found["schema"].transform(TABLE[::80])[:, 0].tolist(),
        "pipeline": read.pipeline.predict(TABLE[::80]).tolist(),
        "counts": [result.cells().tolist() for result in (found["result"], read.result)],
        "verdict": [one.verdict().answer for one in found["report"].results.values()],
        "releases": [
            [each.mechanism, each.noise_multiplier, each.max_count]
            for each in (*found["plan"].releases, *found["plan of audit"].releases)
        ],
        "fits": [[row.state, row.what, row.key] for row in read.rows + found["ledger"].rows],
        "spent": [read.spent, found["ledger"].epsilon_spent, read.ledger.epsilon_spent],
    }
    for name, one in promised.items():
        numbers = [one.epsilon, one.epsilon_at(1e-3), one.relation.short_name, one.seeded]
        said[f"guarantee, {name}"] = [*numbers, *one.outside, *one.groupings]
    plain: dict[str, Any] = json.loads(json.dumps(said))
    return plain


def write() -> None:
    """Write the next generation."""
    warnings.simplefilter("ignore")
    stored, path = things(), HERE / "ledger.sqlite"
    with PrivacyLedger(9.0, DELTA, path=path):
        classifier(random_state=2).fit(X, Y, GROUPS)
    content = {
        "guarantee": json.loads(stored["guarantee"].to_json()),
        "result": json.loads(stored["result"].to_json()),
        "ledger": json.loads(stored["ledger"].to_json()),
        "sqlite": _text(path.read_bytes()),
        "pickle": _text(pickle.dumps({k: pickle.dumps(v, 4) for k, v in stored.items()}, 4)),
        "skops": _text(io.dumps(pipeline())),
    }
    content["facts"] = facts(read(content, HERE))
    path.unlink()
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (HERE / f"generation_{len(list(HERE.glob('*.json')))}.json").write_text(text, encoding="utf-8")


def read(content: dict[str, Any], folder: Path) -> SimpleNamespace:
    """Return all that a file holds, read as a person would."""
    things, refused = {}, {}
    for name, pickled in pickle.loads(_bytes(content["pickle"])).items():
        try:
            things[name] = pickle.loads(pickled)
        except StoredFormatError as error:
            refused[name] = str(error)
    path = folder / "ledger.sqlite"
    path.write_bytes(_bytes(content["sqlite"]))
    ledger = PrivacyLedger(9.0, DELTA, path=path)
    return SimpleNamespace(
        things=things,
        refused=refused,
        pipeline=io.loads(_bytes(content["skops"]), trusted=list(trusted_types())),
        guarantee=PrivacyGuarantee.from_json(json.dumps(content["guarantee"])),
        result=AuditResult.from_json(json.dumps(content["result"])),
        ledger=PrivacyLedger.from_json(json.dumps(content["ledger"])),
        rows=ledger.rows,
        spent=ledger.epsilon_spent,
        path=path,
    )


def _text(content: bytes) -> str:
    return base64.b85encode(lzma.compress(content, lzma.FORMAT_ALONE, preset=9)).decode()


def _bytes(text: str) -> bytes:
    return lzma.decompress(base64.b85decode(text))


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("python -m tests.helpers.stored_files --write")
    write()
