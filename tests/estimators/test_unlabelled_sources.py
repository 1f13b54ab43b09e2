"""Records without targets are predicted, and nothing is learned of them."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline

from sklearn_dpwg.data.sources import ArraySource, ParquetSource
from sklearn_dpwg.ledger import PrivacyLedger
from tests.helpers.partitioned import Partitioned

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.UngroupedWarning")
NAMES = ["u", "v", "w"]
REFUSED = "^target must be the column of y in a source that is passed to fit or score, got None"


def unlabelled(rows, folder):
    path = folder / "rows.parquet"
    rows.to_parquet(path, index=False, row_group_size=40)
    return ParquetSource(path, features=NAMES, target=None)


def test_files_without_targets_are_predicted(one_output, tmp_path):
    X, y, groups = one_output.data
    rows = pd.DataFrame(X, columns=NAMES)
    source = unlabelled(rows, tmp_path)
    alone = one_output.make().fit(rows, y, groups)
    last = Pipeline([("model", clone(alone))]).fit(rows, y, model__groups=groups)
    for model in (alone, last):
        for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            if hasattr(model, method):
                found, expected = (getattr(model, method)(data) for data in (source, rows))
                if expected.dtype.kind == "f":
                    # a product of rows in another order of memory is rounded otherwise
                    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
                else:
                    np.testing.assert_array_equal(found, expected)


def test_nothing_is_learned_or_scored_without_targets(binary, tmp_path, draws):
    X, y, groups = binary.data
    model = binary.make().fit(pd.DataFrame(X, columns=NAMES), y, groups)
    n_draws = len(draws())
    source = unlabelled(pd.DataFrame(X, columns=NAMES), tmp_path)
    with PrivacyLedger(epsilon=5.0, delta=1e-5) as ledger:
        for refused in (binary.make().fit, make_pipeline(binary.make()).fit, model.score):
            with pytest.raises(ValueError, match=REFUSED):
                refused(source)
        assert ledger.epsilon_spent == 0.0
    assert len(draws()) == n_draws


def test_parts_without_targets_are_refused_whatever_their_source_says(binary, draws):
    X, y, groups = binary.data
    source = Partitioned(X, None, groups)
    with pytest.raises(ValueError, match=REFUSED):
        binary.make().fit(source)
    assert draws() == []
    with pytest.raises(ValueError, match=REFUSED):
        binary.fit().score(source)
    assert len(binary.fit().predict(source)) == len(y)


def test_groups_of_a_source_and_group_by(binary, tmp_path, draws):
    X, y, groups = binary.data
    pd.DataFrame(X, columns=NAMES).assign(y=y, g=groups).to_parquet(tmp_path / "rows.parquet")
    source = ParquetSource(tmp_path, features=NAMES, target="y", groups="g")
    for data in (source, ArraySource(X, y, groups)):
        with pytest.raises(ValueError, match=r"^the source names groups and group_by is set: use"):
            binary.make(group_by=0).fit(data)
    assert draws() == []
