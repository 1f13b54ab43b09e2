"""Whether an error was raised in words that can be shown, or in words that may quote a record."""

from __future__ import annotations

import opcode
from types import TracebackType

_PACKAGE = __name__.partition(".")[0]
_RAISE = opcode.opmap["RAISE_VARARGS"]

# What scikit-learn says without a value: of NaN and infinity, of shapes, of kinds of targets.
_WITHOUT_VALUES = {
    ("sklearn.utils.validation", "_assert_all_finite_element_wise"),
    ("sklearn.utils.validation", "column_or_1d"),
    ("sklearn.utils.multiclass", "check_classification_targets"),
}


def innermost(error: BaseException) -> TracebackType | None:
    """Return the last entry of the traceback of an error: where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def module_of(trace: TracebackType) -> str:
    """Return the name of the module that an entry of a traceback is in."""
    return str(trace.tb_frame.f_globals.get("__name__", ""))


def has_own_words(error: BaseException) -> bool:
    """Whether a `raise` of this package made the sentence of an error, or one that has no value.

    Words of others, NumPy's for instance, quote what they choke on, which may be a record.
    """
    trace = innermost(error)
    if trace is None:
        return False
    code, module = trace.tb_frame.f_code, module_of(trace)
    raised = code.co_code[trace.tb_lasti] == _RAISE  # not by what C code says
    ours = module.partition(".")[0] == _PACKAGE
    return raised and (ours or (module, code.co_name) in _WITHOUT_VALUES)
