"""What a type checker tells a user: `make check` and, of a wheel, `make dist` have mypy read it."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg import DPAUCClassifier, DPWorstGroupClassifier, DPWorstGroupRegressor
from sklearn_dpwg.inspection import AuditReport, AuditResult, GroupAudit
from sklearn_dpwg.ledger import PrivacyLedger, privacy_of
from sklearn_dpwg.metrics import worst_group_score
from sklearn_dpwg.preprocessing import Number, PublicSchema, bound_rows_per_person
from sklearn_dpwg.privacy import PrivacyGuarantee
from sklearn_dpwg.solvers import MGR, Plan

X, y, groups = np.zeros((4, 2)), np.array([0, 1, 0, 1]), ["a", "a", "b", "b"]

model = DPWorstGroupClassifier(epsilon=1.0, delta=1e-6, solver=MGR(n_steps=2), data_norm=1.0)
assert_type(model.fit(X, y, groups=groups), DPWorstGroupClassifier)
assert_type(model.predict_proba(X), NDArray[np.float64])
assert_type(model.decision_function(X), NDArray[np.float64])
assert_type(model.predict(X), NDArray[Any])
assert_type(model.score(X, y), float)
assert_type(model.coef_, NDArray[np.float64])
assert_type(model.privacy_, PrivacyGuarantee)
assert_type(model.privacy_.for_records(2).epsilon, float)
assert_type(model.plan(group_sizes={"a": 2, "b": 2}, n_features=2), Plan)
assert_type(privacy_of(model), PrivacyGuarantee)

regressor = DPWorstGroupRegressor(target_bounds=(0, 1), data_norm=1.0)
assert_type(regressor.fit(X, y, groups).predict(X), NDArray[np.float64])
assert_type(DPAUCClassifier(data_norm=1.0).fit(X, y), DPAUCClassifier)

audit = GroupAudit(epsilon=1.0, group_labels=["a", "b"])
result = audit.run(y, model.predict_proba(X)[:, 1], groups)
assert_type(result, AuditResult)
assert_type(str(result.verdict()), str)
assert_type(result.rates("selection_rate")[0].low, float)
assert_type(AuditReport(result).html(), str)
assert_type(AuditResult.from_json(result.to_json()), AuditResult)
assert_type(worst_group_score(y, y, groups=groups), float)

schema = PublicSchema({"age": Number(0, 100)}, person="id")
assert_type(bound_rows_per_person(X, y, person="id", k=1).kept, NDArray[np.intp])
with PrivacyLedger(epsilon=2.0, delta=1e-6) as ledger:
    assert_type(ledger.epsilon_spent, float)
