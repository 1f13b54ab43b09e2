"""Encode raw tables as rows of norm at most 1, by public facts about their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from sklearn_dpwg._checks import FloatArray, whole_number, without_weights
from sklearn_dpwg.data.frames import PlainlyStored, in_memory
from sklearn_dpwg.exceptions import InputError, InputTypeError
from sklearn_dpwg.preprocessing.columns import (
    Category,
    Column,
    Date,
    Number,
    check_column,
    feature_name,
    norm_bound,
)
from sklearn_dpwg.preprocessing.rows_per_person import person_codes
from sklearn_dpwg.preprocessing.schema_entries import read_entries
from sklearn_dpwg.preprocessing.shapes import OWN_FRACTION, Shaped, ShownColumn, products, shaped

# Rows are sparse if at most this fraction of their numbers can differ from 0.
SPARSE_FRACTION = 0.1

# Stands for a kind of column: a column of groups, which is passed to the model unchanged.
PASSTHROUGH = "passthrough"


class Schema:
    """Public facts about the columns of a table, and the encoding that follows from them.

    Each column becomes a block of numbers of norm at most 1, so a row of m blocks, divided by √m,
    has norm at most 1. A row's encoding does not depend on the other rows.
    """

    def __init__(
        self, columns: Mapping[Any, Any], shapes: str = "linear", interactions: Any = ()
    ) -> None:
        self.passed = [name for name in columns if columns[name] == PASSTHROUGH]
        columns = {name: kind for name, kind in columns.items() if name not in self.passed}
        if not columns:
            raise InputError("columns must name at least one column to encode, got none.")
        for name, column in columns.items():
            check_column(column, feature_name(name))
        # columns with their encodings, by their names
        self.blocks = {name: shaped(column, shapes) for name, column in columns.items()}
        self.products = products(columns, interactions)
        block_names = [block._names(feature_name(name)) for name, block in self.blocks.items()]
        product_names = [product.names for product in self.products]
        names = [*chain(*block_names, *product_names), *map(feature_name, self.passed)]
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise InputError(f"columns must give encoded columns names, {repeated[0]!r} is twice.")
        self.feature_names = tuple(names)  # of the encoded columns, and of those that pass
        # divisors of the blocks of columns and of pairs, which make the norm of a row at most 1
        n_pairs, column_fraction = len(self.products), OWN_FRACTION if self.products else 1.0
        self.row_norm = norm_bound(len(columns) / column_fraction)
        self.pair_norm = norm_bound(n_pairs / (1.0 - OWN_FRACTION))
        stored = sum(column._n_stored for column in self.blocks.values())
        stored += sum(product.n_stored for product in self.products)
        # public: it depends on the declared columns, not on the records
        self.is_sparse = stored <= SPARSE_FRACTION * len(names) and not self.passed

    def check_names(self, names: Iterable[Hashable], *also: Hashable) -> None:
        """Refuse a table in which a column is absent or has a duplicate."""
        counts = Counter(names)
        for name in (*self.blocks, *also):
            if counts[name] != 1:
                raise InputError(f"X must have one column {name!r}, got {counts[name] or 'none'}.")

    def encode(self, frame: pd.DataFrame, *, sparse: bool | None = None) -> FloatArray | csr_array:
        """Encode a table, without passed columns; `sparse` None is the schema's own choice."""
        self.check_names(frame.columns)
        blocks = [
            (column._encode(frame[name], feature_name(name)), column._width, self.row_norm)
            for name, column in self.blocks.items()
        ]
        blocks += [(pair.encode(frame), pair.width, self.pair_norm) for pair in self.products]
        all_positions, all_values, n_encoded = [], [], 0
        for (positions, values), width, norm in blocks:
            all_positions.append(positions + n_encoded)
            all_values.append(values / norm)
            n_encoded += width
        at, entries = np.column_stack(all_positions), np.column_stack(all_values)
        if not (self.is_sparse if sparse is None else sparse):
            rows = np.zeros((len(frame), n_encoded))
            np.put_along_axis(rows, at, entries, axis=1)
            return rows
        row_starts = np.arange(len(frame) + 1) * at.shape[1]
        return csr_array((entries.ravel(), at.ravel(), row_starts), shape=(len(frame), n_encoded))


class PublicSchema(PlainlyStored, TransformerMixin, BaseEstimator):
    """Encode a raw table by public facts about its columns: numbers, dates, categories, gaps.

    Nothing is learned from the records, so it costs no privacy, and each record is encoded by
    itself. Encoded rows have norm at most 1: behind it, ``data_norm=1.0`` cuts no row.

    Parameters
    ----------
    columns : mapping from name to Number, Date, Ordered, Boolean, Category or "passthrough"
        What is public of each column; columns that are not named are left out. Where X is an
        array, a name is a position. A column that is passed through is not encoded: the
        `group_by` of the model behind names it.
    sparse_output : bool, default=None
        Whether encoded rows are a ``csr_array``. None lets the columns decide: rows are sparse
        where at most a tenth of their numbers can differ from 0, whatever the records are.
    shapes : {"auto", "ramps", "linear"}, default="auto"
        How a model may bend in numbers and dates, as in `PublicShapes`; "linear" is a line. A
        column may say otherwise.
    interactions : sequence of pairs of names, default=()
        Columns that a model treats together, each pair by products of levels, and of hats at four
        even steps of numbers and dates. All pairs have 0.3 of a row's squared norm.
    person : str, default=None
        Name of the column that says whose row each is, which the model does not see.
    rows_per_person : int, default=1
        Largest number of rows of one person that a fit is to learn from. Say the number to the
        estimator too.

    Attributes
    ----------
    divisor_ : float
        Bound on the norm of a row of blocks, by which all rows are divided: the square root of the
        number of columns, and a part in 10¹² for rounding. With interactions columns by themselves
        are divided by it, which is then over √0.7.
    row_norm_ : float
        Largest norm of an encoded row: 1.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns of X, where it has names.

    See Also
    --------
    BoundedScaler : Scales columns that are all numbers.

    Notes
    -----
    Each of the m columns becomes a block of numbers of norm at most 1, and rows are divided by √m,
    so that they have norm at most 1, with pairs and by rounding too:
    ``docs/theory/encoded_rows.md`` has a table of the blocks.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_dpwg.preprocessing import Category, Number, PublicSchema
    >>> columns = {"age": Number(0, 100, missing=True), "town": Category(("A", "B"))}
    >>> schema = PublicSchema(columns, shapes="linear")
    >>> table = pd.DataFrame({"age": [75, None, 130], "town": ["A", "B", "Z"], "id": [1, 2, 3]})
    >>> schema.set_output(transform="pandas").fit_transform(table).round(2)
        age  age=missing  town=A  town=B  town=other
    0  0.35         0.00    0.71    0.00        0.00
    1  0.00         0.71    0.00    0.71        0.00
    2  0.71         0.00    0.00    0.00        0.71
    >>> round(schema.divisor_**2, 6), schema.row_norm_
    (2.0, 1.0)
    >>> list(PublicSchema(columns).get_feature_names_out()[:4])  # by default a model may bend
    ['age=0..12.5', 'age=12.5..25', 'age=25..37.5', 'age=37.5..50']
    """

    _learns_from_records = False

    def __init__(
        self,
        columns: Mapping[Any, Any],
        *,
        sparse_output: bool | None = None,
        shapes: str = "auto",
        interactions: Any = (),
        person: str | None = None,
        rows_per_person: int = 1,
    ) -> None:
        self.columns = columns
        self.sparse_output = sparse_output
        self.shapes = shapes
        self.interactions = interactions
        self.person = person
        self.rows_per_person = rows_per_person

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read a schema from a TOML file.

        Parameters
        ----------
        path : str or Path
            A file with a line a column under ``[columns]``: the parameters of a kind, which is that
            of its entries (``low`` and ``high`` of a number, ``first`` and ``last`` of a date,
            ``levels`` of a category, ``true`` and ``false`` of a boolean) or named by ``kind``. It
            may have ``interactions = [["age", "hours"]]`` before its first table, and a table
            ``[person]`` with ``column`` and ``rows``. The command also reads ``[groups]``,
            ``[target]`` and ``[read_csv]``.

        Returns
        -------
        PublicSchema
            The transformer.
        """
        parameters, _ = read_entries(path)
        schema = cls(**parameters)
        schema._schema()
        return schema

    @without_weights
    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that X has the columns; nothing is learned or released.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_records, n_features_in)
            The table; no value is used.
        y : object, optional
            Not used.

        Returns
        -------
        self : object
            The transformer.

        Raises
        ------
        ValueError
            If a column is not there, or what is declared of one is wrong; if X has the column
            `person` and somebody has more rows than `rows_per_person`.
        """
        schema = self._schema()
        schema.check_names(self._frame(X, reset=True).columns, *schema.passed)
        if self.person is not None and self.person in list(getattr(X, "columns", ())):
            rows = np.bincount(person_codes(X[self.person]))
            if rows.max(initial=0) > self.rows_per_person:
                raise InputError(
                    f"X must have at most rows_per_person={self.rows_per_person} rows of one "
                    f"{self.person!r}, and somebody has more: bound_rows_per_person keeps so many."
                )
        self.divisor_ = schema.row_norm
        self.row_norm_ = 1.0
        return self

    def transform(self, X: Any) -> FloatArray | csr_array | pd.DataFrame:
        """Encode a table.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_records, n_features_in)
            The table. A frame needs the columns of the schema only, in any order.

        Returns
        -------
        ndarray or csr_array of shape (n_records, n_features_out)
            Rows of norm at most 1; a DataFrame where a column passes through, which may be absent.
        """
        schema, frame = self._schema(), self._frame(X, reset=False)
        rows: Any = schema.encode(frame, sparse=self.sparse_output)
        if not schema.passed:
            return rows
        names = schema.feature_names[: rows.shape[1]]
        passed = {feature_name(name): frame.get(name, np.nan) for name in schema.passed}
        return pd.DataFrame(rows, columns=names, index=frame.index).assign(**passed)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of X; checked where X had names, and not used otherwise.

        Returns
        -------
        ndarray of shape (n_features_out,)
            Names such as "age", "age=missing" and "town=other".
        """
        if input_features is not None and hasattr(self, "n_features_in_"):
            OneToOneFeatureMixin.get_feature_names_out(self, input_features)  # checks the names
        return np.array(self._schema().feature_names, dtype=object)

    def _shown_columns(self) -> list[ShownColumn]:
        """Return each column and pair at public values: its levels, or points of its range."""
        schema, start, columns = self._schema(), 0, []
        for key, column in schema.blocks.items():
            block = slice(start, start + column._width)
            columns.append(_shown_column(feature_name(key), block, column, schema.row_norm))
            start += column._width
        for pair in schema.products:
            left, right = (_shown_column("", slice(0), part, 1.0) for part in pair.parts)
            block, rows = slice(start, start + pair.width), left.rows / schema.pair_norm
            values = tuple(f"{a}, {b}" for a in left.values for b in right.values)
            factors: dict[str, Any] = {"of": pair.of, "others": right.rows}
            columns.append(ShownColumn(pair.name, block, values, rows, has_order=False, **factors))
            start += pair.width
        return columns

    def _schema(self) -> Schema:
        """Check the parameters and return the `Schema` that they declare."""
        if not isinstance(self.columns, Mapping):
            raise InputTypeError(f"columns must be a mapping to kinds, got {self.columns!r}.")
        for name, column in self.columns.items():
            if column != PASSTHROUGH and not isinstance(column, Column):
                raise InputTypeError(
                    f"columns must map {name!r} to a kind such as Number(0, 100), got {column!r}."
                )
        if self.person is not None and self.person in self.columns:
            raise InputError(f"person must be none of columns, got {self.person!r}.")
        whole_number(self.rows_per_person, "rows_per_person", least=1)
        schema = Schema(self.columns, self.shapes, self.interactions)
        if self.sparse_output and schema.passed:
            raise InputError(f"sparse_output must not be True with columns {PASSTHROUGH!r}.")
        return schema

    def _frame(self, X: Any, *, reset: bool) -> pd.DataFrame:
        """Return a table as a pandas DataFrame; an array's columns have positions as names."""
        (X,) = in_memory(X=X)
        if isinstance(X, pd.DataFrame):
            if reset:
                validate_data(self, X, skip_check_array=True)
            return X
        # object, as NumPy would turn a list of numbers and strings into strings
        dtype = None if hasattr(X, "dtype") else object
        array = validate_data(self, X, dtype=dtype, ensure_all_finite=False, reset=reset)
        return pd.DataFrame(array)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that no fit is needed, and which values a table may hold."""
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _shown_column(name: str, columns: slice, column: Any, divisor: float) -> ShownColumn:
    """Return an encoded column at its public values, with rows divided by `divisor`."""
    kind: Any = column.column if isinstance(column, Shaped) else column
    is_number = isinstance(kind, Number | Date)
    missing, values, rows = int(kind.missing), [], np.zeros((0, column._width))
    levels: tuple[Any, ...] = () if is_number else kind._all_levels()
    if is_number:
        number = ShownColumn.of_number(name, columns, column.shape, kind._at, divisor)
        values, rows = [*number.values], np.pad(number.rows, ((0, 0), (0, missing)))
    cells = pd.Series([*levels, *[None] * missing], dtype=object)
    if len(cells):
        positions, entries = column._encode(cells, name)
        encoded = np.zeros((len(cells), column._width))
        np.put_along_axis(encoded, positions, entries / divisor, axis=1)
        rows = np.concatenate([rows, encoded])
    values += [*map(str, levels), *["missing"] * missing]
    ordered = not isinstance(column, Category)
    return ShownColumn(name, columns, tuple(values), rows, is_number, bool(missing), ordered)
