"""Budget for several fits."""

from __future__ import annotations

import atexit
import hmac
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock, local
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from joblib.externals.loky import get_reusable_executor
from sklearn.base import BaseEstimator

from sklearn_dpwg._stored import Stored, reading, stamp
from sklearn_dpwg.data.groups import labelled_sizes
from sklearn_dpwg.exceptions import (
    BudgetExceededError,
    LedgerUnreachableError,
)
from sklearn_dpwg.ledger.costs import PublicFacts, StartCost
from sklearn_dpwg.ledger.file import LedgerFile, LedgerRow, counted, total_epsilon
from sklearn_dpwg.ledger.folds import SEVERAL_FITS
from sklearn_dpwg.ledger.planned_search import PlannedSearch, plan_search
from sklearn_dpwg.privacy import Budget, PrivacyGuarantee, Relation, joint_guarantee
from sklearn_dpwg.privacy.statement import rounded_up

if TYPE_CHECKING:
    import pandas as pd


_LOG = logging.getLogger(__name__)
# Tells the processes that are started inside a ledger of it, whoever starts them.
_VARIABLE = "SKLEARN_DPWG_LEDGERS"
# What only the processes know that this session starts, and with which they seal what pickles say.
_KEY = os.environ.setdefault("SKLEARN_DPWG_LEDGER_KEY", uuid4().hex)

# The open blocks that count the fits of this process, innermost last. Global and not of one
# thread or context, as the threads of a pool inherit neither.
_active = [LedgerFile(*token) for token in json.loads(os.environ.get(_VARIABLE, "[]"))]
_lock = Lock()
_thread = local()


@contextmanager
def spending(
    guarantee: PrivacyGuarantee,
    noise: Any,
    what: str,
    budget: Any,
    *,
    whose: str = "fit",
    values: str = "values",
    also: Sequence[object] = (),
    key: str | None = None,
    is_paid: bool = False,
    before: Sequence[StartCost] = (),
) -> Iterator[None]:
    """Charge what happens inside to every open ledger; refuse it, charging none, before it starts.

    At a failure nothing is charged if ``noise`` lists no ``draws``. Else, or if something ``also``
    was released, the error says that ε and δ of a budget are spent; how much of them is not said,
    as where a run fails may depend on the records. A ``key`` names a plan that runs in several
    parts and is charged once; ``is_paid`` says, as `take_payment` does, that something charged
    before holds the fit. Fits that happened ``before``, and that this one begins with, are spent
    from now on, whatever comes of it, in ledgers that do not know them.

    What is done and charged is logged in a line, of what the guarantee says before it begins. A
    failure is not: whether there is one may depend on the records.
    """
    key = uuid4().hex if key is None else key
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [LedgerRow("spent", cost.what, now, cost.guarantee, cost.key) for cost in before]
    if not is_paid:
        rows.append(LedgerRow("reserved", what, now, guarantee, key))
    try:
        reserved, spent = _reserve(rows, key) if rows else [], False
        try:
            yield
            spent = True
        finally:
            for ledger in reserved:
                ledger.settle(key, spent=spent or bool(noise.draws))
    except BaseException as error:
        if noise.draws or also:
            sentence = (
                f"Noisy {values} had been released before this error: count the budget of this "
                f"{whose}, epsilon={budget.epsilon:g} and delta={budget.delta:g}, as spent."
            )
            error.add_note(sentence)
        raise
    if not is_paid:  # how many fits a search makes is secret
        _LOG.info(
            "%s: %s of epsilon=%g at delta=%g, %s%s",
            *(what, whose, guarantee.epsilon, guarantee.delta, guarantee.relation),
            ", void for whoever knows the seed" if guarantee.seeded else "",
        )


@contextmanager
def refused_together(guarantee: PrivacyGuarantee, what: str, parts: str) -> Iterator[None]:
    """Refuse what is charged in parts inside by what the whole would cost, in words of its parts.

    By then the parts are taken back, so that the ledgers are as they were before.
    """
    try:
        yield
    except BudgetExceededError:
        for ledger in active_ledgers():
            ledger.refuse(LedgerRow("reserved", what, "", guarantee, ""), parts)
        raise


def _reserve(rows: Sequence[LedgerRow], key: str) -> list[LedgerFile]:
    """Charge rows to every open ledger, or to none; return those in which a key is new."""
    files: dict[str, list[LedgerFile]] = {}
    for ledger in active_ledgers():
        files.setdefault(ledger.path, []).append(ledger)
    reserved = []
    with ExitStack() as all_or_none:
        for _, (first, *others) in sorted(files.items()):  # in one order: none waits in a circle
            for ledger in others:
                ledger.rows()  # they may have seen what the first did not
            if key in all_or_none.enter_context(first.reserving(rows)):
                reserved.append(first)
    return reserved


@contextmanager
def paid_for(estimator: Any) -> Iterator[None]:
    """Charge one fit of this very object, in this thread, to nobody; all else inside is charged."""
    before = getattr(_thread, "paid_for", None)
    _thread.paid_for = estimator
    try:
        yield
    finally:
        _thread.paid_for = before


def take_payment(estimator: Any) -> bool:
    """Return whether a fit that begins now is paid for: once inside `paid_for` of that object."""
    is_paid = getattr(_thread, "paid_for", None) is estimator
    if is_paid:
        _thread.paid_for = None
    return is_paid


def active_ledgers() -> list[LedgerFile]:
    """Return the open ledgers; those whose block has ended, as in a worker, are forgotten."""
    for ledger in list(_active):
        if not ledger.is_open():
            deactivate(ledger)
    return list(_active)


def activate(ledger: LedgerFile) -> None:
    """Charge the fits of this process, and of those that it starts, to a ledger from now on."""
    with _lock:
        if ledger not in _active:
            _active.append(ledger)
        _publish()


def deactivate(ledger: LedgerFile) -> None:
    """Charge no more fits of this process to a ledger."""
    with _lock:
        if ledger in _active:
            _active.remove(ledger)
        _publish()


def _publish() -> None:
    if _active:
        os.environ[_VARIABLE] = json.dumps([(one.path, one.block) for one in _active])
    else:
        os.environ.pop(_VARIABLE, None)


def _sealed(ledger: LedgerFile) -> tuple[str, str, str]:
    """Return what a pickle says of a ledger, with a seal that no file from elsewhere can bear."""
    said = json.dumps([ledger.path, ledger.block]).encode()
    return ledger.path, ledger.block, hmac.new(_KEY.encode(), said, "sha256").hexdigest()


class CountedEstimator(Stored, BaseEstimator):
    """What spends budget, and whose pickles, inside ledgers, name these, so that workers count."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a pickle, with the ledgers that count what it spends."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "_ledgers": tuple(map(_sealed, list(_active)))} if _active else {**state}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Restore a state, and charge what this process spends to the ledgers that it names.

        Where a ledger has ended or cannot be reached, what was not fitted, so that it came to spend
        here, is refused; a fitted one may be a stored model. A path without the seal of this
        session, which a file may hold that others wrote, is not touched.
        """
        state = dict(state)
        for path, block, *seal in state.pop("_ledgers", ()):
            ledger = LedgerFile(path, block)
            if ledger in _active:
                continue
            is_open = False
            if (path, block, *seal) == _sealed(ledger):
                with suppress(LedgerUnreachableError):
                    is_open = ledger.is_open()
            if is_open:
                activate(ledger)
            elif "privacy_" not in state:
                raise LedgerUnreachableError(
                    f"this {type(self).__name__} was pickled inside a PrivacyLedger that cannot be "
                    "reached from here, so what it spends would not be counted: in a ledger use "
                    "joblib's backends loky, multiprocessing or threading, not one on other "
                    "machines (dask, ray, spark), and pools started after sklearn_dpwg was "
                    "imported; to store it, pickle it outside the ledger, or fitted."
                )
        super().__setstate__(state)


class PrivacyLedger(Stored):
    """Count every private fit in a ``with`` block, and refuse what would overspend.

    Fits of the estimators of this package are found wherever they happen: plain, cloned, in
    pipelines, in ``cross_validate`` and searches, with ``n_jobs`` in threads or processes of this
    machine. A fit is charged before its first release and refused, with nothing spent, if all
    fits together would exceed the budget or the ledger's file cannot be used. One that fails
    before its first release is taken back; one that fails later stays charged.

    Parameters
    ----------
    epsilon, delta : float
        ε and δ of all fits together.
    path : str or Path, optional
        File to keep the ledger in, so that another session can go on with it, at the same time
        too. By default it lives as long as this object.
    neighbours : {None, "replace-in-group", "replace-any", "add-or-remove"}, default=None
        Neighbours that everything must have a guarantee for, or be refused; a stronger guarantee
        counts for them. The default None takes every guarantee, and states all of them together
        under the weakest.

    See Also
    --------
    sklearn_dpwg.privacy.PrivacyGuarantee : What one fit promises.
    privacy_of : What a fitted search cost, without a ledger.

    Notes
    -----
    Costs are composed as events, not by adding ε, at the ledger's δ: a fit's own ε is at its own
    δ, and the same noise has a smaller ε at a larger δ. All fits count as if they had read the same
    records, and where one was made on disjoint parts, the worst overlap of parts counts.

    Fits that say how many rows a person has (`rows_per_person`) are added up for a person, each by
    its own number, as an audit takes one row of each where a model took four. Where two read the
    same table both have to say its number, which no ledger can see. Fits that speak of a row are
    not added to those of persons with several.

    The total holds for fits whose records were chosen by public facts alone, as `PublicKFold` does.
    Folds by label, scikit-learn's for classifiers, are outside: another label of one record moves
    others between fits, which the ledger does not see and `plan_search` and `privacy_of` name.

    Fits may be chosen by the results of earlier ones. For Gaussian releases stopping at a budget
    is then as good as composition fixed in advance (Smith and Thakurta 2022, "Fully Adaptive
    Composition for Gaussian Differential Privacy"). For Laplace noise and sampled records the
    total is proved for fits whose parameters were fixed in advance, as those of a grid are.

    Fits with ``epsilon=inf`` are refused. What is not a fit of this package – scores, plots,
    ``predict`` on the training records, other libraries – is not counted.

    Other threads that fit while the block is open are charged too, and so are processes that are
    started in it and inherit its environment, which the children of a fork server that ran before
    do not. joblib's idle processes are ended on entering and on leaving. Workers on other
    machines are refused, as they cannot reach the file. A fit inside several blocks on one file is
    charged to it once. Where ``partial_fit`` goes on with what began outside the ledger, its whole
    plan is charged, once.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpwg import DPWorstGroupRegressor
    >>> from sklearn_dpwg.ledger import PrivacyLedger
    >>> X, y = np.full((4000, 1), 0.5), np.full(4000, 0.2)
    >>> groups = np.repeat(["a", "b"], 2000)
    >>> with PrivacyLedger(epsilon=2.0, delta=1e-6) as ledger:
    ...     for _ in range(3):
    ...         model = DPWorstGroupRegressor(1.0, data_norm=1.0, target_bounds=(0, 1))
    ...         _ = model.fit(X, y, groups)
    >>> round(ledger.epsilon_spent, 2)  # three of epsilon 1, at the same delta
    1.81
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        path: str | os.PathLike[str] | None = None,
        neighbours: Relation | str | None = None,
    ) -> None:
        budget = Budget(epsilon, delta)
        self.epsilon = budget.epsilon
        self.delta = budget.delta
        self.path = path
        self.neighbours = None if neighbours is None else Relation(neighbours)
        self._rows: list[LedgerRow] = []
        self._seen: set[tuple[Any, ...]] = set()  # in the file at its path, in this session
        self._file: LedgerFile | None = None

    def __enter__(self) -> Self:
        """Open the ledger."""
        if self._file is not None:
            raise RuntimeError("the ledger is open already.")
        block = uuid4().hex
        path = Path(_folder(os.getpid()), block) if self.path is None else Path(self.path).resolve()
        # one without a path has a file of its own for each block
        seen = set() if self.path is None else self._seen
        file = LedgerFile(str(path), block, os.getpid(), seen)
        file.open_block(self.epsilon, self.delta, self.neighbours)
        if self.path is None:
            for row in self._rows:
                file.insert(row)
        self._file = file
        activate(file)
        _end_workers()
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the ledger; what was charged stays charged."""
        assert self._file is not None
        deactivate(self._file)
        self._file.close_block()
        self._rows = self._file.rows()
        self._file = None
        _end_workers()

    @property
    def rows(self) -> list[LedgerRow]:
        """Every fit that is charged, in order."""
        kept = self._kept
        return list(self._rows) if kept is None else kept.rows()

    @property
    def epsilon_spent(self) -> float:
        """What all fits cost together: ε at the ledger's δ."""
        return total_epsilon([row.guarantee for row in self.rows], self.delta, self._demand)

    @property
    def guarantee(self) -> PrivacyGuarantee:
        """What all fits so far promise together, at the ledger's δ; print it for the words."""
        guarantees = [row.guarantee for row in self.rows]
        joint = joint_guarantee(guarantees, self.delta)
        if len(guarantees) > 1:
            joint = replace(joint, outside=(*joint.outside, SEVERAL_FITS))
        demand = self._demand
        return joint if demand is None else joint.under(demand)

    @property
    def _demand(self) -> Relation | None:
        """What this ledger and all others on its file demand."""
        kept = self._kept
        demands = (self.neighbours, None if kept is None else kept.demand())
        return min((one for one in demands if one is not None), default=None)

    @property
    def _kept(self) -> LedgerFile | None:
        """The file, if there is one."""
        if self._file is None and self.path is not None and Path(self.path).exists():
            return LedgerFile(str(Path(self.path).resolve()), "", seen=self._seen)
        return self._file

    def plan_search(
        self,
        search: Any,
        *,
        group_sizes: Sequence[int] | Mapping[Any, int],
        n_features: int,
        classes: Sequence[Any] | None = None,
    ) -> PlannedSearch:
        """Preview what a search will cost, and what is left after it, from public facts.

        Parameters
        ----------
        search : GridSearchCV, RandomizedSearchCV or DPSearchCV
            Not fitted, over a private estimator or a pipeline that ends in one. Candidates of a
            random search are drawn here, others than in its fit unless `random_state` is a number.
        group_sizes : sequence of int, or mapping from label to int
            Number of records in each group.
        n_features : int
            Number of columns that reach the model.
        classes : sequence, optional
            Classes of y, for a classifier.

        Returns
        -------
        PlannedSearch
            Number of fits, what each and all cost; print it.

        Notes
        -----
        Inside the block a search that cannot pay for all its fits, the refit among them, is refused
        before the first.
        """
        _, sizes = labelled_sizes(group_sizes, None, None, may_be_unnamed=True)
        facts = PublicFacts([int(size) for size in sizes], n_features, classes)
        return plan_search(search, facts, self.rows, Budget(self.epsilon, self.delta))

    def report(self) -> pd.DataFrame:
        """List the fits and audits.

        Returns
        -------
        DataFrame
            A row a fit or audit: what it was, when, its ε and δ, the unit that they are for by
            its own word, whether it is "spent" or still "reserved", whether its noise came from a
            seed, and ε of all up to it, at the ledger's δ.
        """
        import pandas as pd

        rows = self.rows
        guarantees, demand = [row.guarantee for row in rows], self._demand
        return pd.DataFrame(
            {
                "what": [row.what for row in rows],
                "started": [row.started for row in rows],
                "state": [row.state for row in rows],
                "epsilon": [guarantee.epsilon for guarantee in guarantees],
                "delta": [guarantee.delta for guarantee in guarantees],
                "unit": [guarantee.unit for guarantee in guarantees],
                "seeded": [guarantee.seeded for guarantee in guarantees],
                "total_epsilon": [
                    total_epsilon(guarantees[: i + 1], self.delta, demand) for i in range(len(rows))
                ],
            }
        )

    def to_json(self) -> str:
        """Return the ledger as a JSON object.

        Returns
        -------
        str
            Budget and fits, each with its events.
        """
        demand = self._demand
        described = {
            **stamp(self),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": None if demand is None else demand.short_name,
            "fits": [row.to_dict() for row in self.rows],
        }
        return json.dumps(described, allow_nan=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> PrivacyLedger:
        """Return a ledger with what `to_json` wrote; it can be opened and goes on from there.

        Parameters
        ----------
        text : str
            The JSON object.

        Returns
        -------
        PrivacyLedger
            Not open.

        Raises
        ------
        StoredFormatError
            If another version wrote it, in a format that this one does not read.
        """
        with reading(cls, text, ("epsilon", "delta", "neighbours", "fits")) as described:
            fits = described.pop("fits")
            ledger = cls(**described)
            ledger._rows = [LedgerRow.from_dict(row) for row in fits]
        return ledger

    def __repr__(self) -> str:
        return (
            f"PrivacyLedger(epsilon={self.epsilon:g}, delta={self.delta:g}): "
            f"{counted(self.rows)}, epsilon={rounded_up(self.epsilon_spent)} spent"
        )


@cache
def _folder(process: int) -> str:
    """Make the folder of a process's ledgers without a path; workers may outlive their blocks."""
    folder = tempfile.mkdtemp(prefix="dpwg-ledgers-")

    def remove() -> None:
        if os.getpid() == process:  # and not in a fork of it
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def _end_workers() -> None:
    """End joblib's processes, which live on idle: those started later know what is open now."""
    get_reusable_executor(reuse=True).shutdown(wait=True)
