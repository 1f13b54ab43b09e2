"""Checks of numbers and of parameters, each with one sentence that says what is allowed."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sklearn_dpwg.exceptions import DPWGError, InputError, InputTypeError

FloatArray = NDArray[np.float64]
Method = TypeVar("Method", bound=Callable[..., Any])

# A rule returns None for an allowed value, else words for what the value must be.
Rule = Callable[[Any], str | None]


def as_text(value: Any) -> str:
    """Return a label as text that does not depend on the type of its column.

    Blanks around it are removed; 1.0, "01" and "1" become "1", True and "TRUE" become "true".
    """
    text = str(float(value)) if isinstance(value, np.floating) else str(value).strip()
    text = text.removesuffix(" 00:00:00")  # a day that was read as a time
    if text.casefold() in ("true", "false"):
        return text.casefold()
    if not text.isascii() or "_" in text:  # Python would read "1_0" as a number
        return text
    with suppress(ValueError):
        return str(int(text))
    with suppress(ValueError):
        number = float(text)
        return str(int(number)) if number.is_integer() else str(number)
    return text


def without_weights(method: Method) -> Method:
    """Decorate a method to refuse any ``sample_weight`` but None, with the reason.

    The signature does not name ``sample_weight``, so scikit-learn does not pass or route it.
    """

    @wraps(method)
    def checked(estimator: Any, *args: Any, sample_weight: Any = None, **named: Any) -> Any:
        if sample_weight is not None:
            raise InputTypeError(
                f"sample_weight must be None in {method.__name__} of {type(estimator).__name__}: "
                f"a weight would let one record count for many, and the noise hides one."
            )
        return method(estimator, *args, **named)

    return checked  # type: ignore[return-value]


# The truth values are compared as these numbers.
TRUTH = {"true": "1", "false": "0"}


def text_key(value: Any) -> str:
    """Return the text by which labels and classes are compared; "true" and "false" are 1 and 0."""
    text = as_text(value)
    return TRUTH.get(text, text)


def shown(values: Sequence[Any]) -> str:
    """Return at most ten values as text for a message, and their number if there are more."""
    listed = ", ".join(map(repr, values[:10]))
    return listed if len(values) <= 10 else f"{listed}, ... ({len(values)})"


def real_number(value: object, name: str) -> float:
    """Return a value as float; refuse NaN and what is no number."""
    if isinstance(value, bool | str | bytes):
        raise InputTypeError(f"{name} must be a number, got {value!r}.")
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputTypeError(f"{name} must be a number, got {value!r}.") from None
    if math.isnan(number):
        raise InputError(f"{name} must be a number, got NaN.")
    return number


def positive_finite(value: object, name: str) -> float:
    """Return a value as float; refuse one that is not positive and finite."""
    if not 0.0 < (number := real_number(value, name)) < math.inf:
        raise InputError(f"{name} must be positive and finite, got {number!r}.")
    return number


def open_unit(value: object, name: str) -> float:
    """Return a value as float; refuse one that is not strictly between 0 and 1."""
    if not 0.0 < (number := real_number(value, name)) < 1.0:
        raise InputError(f"{name} must be strictly between 0 and 1, got {number!r}.")
    return number


def non_negative(value: object, name: str) -> float:
    """Return a value as float; refuse one below 0. It may be infinite."""
    if (number := real_number(value, name)) < 0.0:
        raise InputError(f"{name} must be at least 0, got {number!r}.")
    return number


def whole_number(value: object, name: str, *, least: float) -> int:
    """Return a value as int; refuse one that is not a whole number, or below `least`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise InputTypeError(f"{name} must be a whole number, got {value!r}.")
    if number < least:
        raise InputError(f"{name} must be at least {least}, got {number}.")
    return number


class Rules:
    """Rules for the parameters of a class, by name, and relations between parameters.

    Rules are checked in order. Relations come last; each takes the object and raises its own error.
    """

    def __init__(self, owner: str, /, *relations: Callable[[Any], None], **rules: Rule) -> None:
        self.owner = owner
        self.relations = relations
        self.rules = rules

    def check(self, parameters: object) -> None:
        """Refuse an object that breaks a rule or a relation; defaults need no check by a rule."""
        fields = getattr(parameters, "__dataclass_fields__", {})
        for name, rule in self.rules.items():
            value = getattr(parameters, name)
            if name in fields and value is fields[name].default:
                continue
            try:
                broken = rule(value)
            except (TypeError, ValueError) as error:
                message = str(error).replace(f"{name} must", f"{name} of {self.owner} must", 1)
                raise type(error)(message) from None
            if broken is not None:
                raise InputError(f"{name} of {self.owner} must be {broken}, got {value!r}.")
        for relation in self.relations:
            relation(parameters)


def whole(least: int = 1, most: int | None = None, *, or_none: bool = False) -> Rule:
    """Allow a whole number from `least` to `most`."""
    highest = math.inf if most is None else most
    text = "a positive whole number" if least == 1 else f"a whole number, at least {least}"
    text = text if most is None else f"a whole number from {least} to {most}"
    return _rule(text, lambda v: _is(v, Integral) and least <= v <= highest, or_none)


def any_number(*, or_none: bool = False) -> Rule:
    """Allow a real number, infinite or not."""
    return _number("a number", lambda number: not math.isnan(number), or_none)


def positive(*, least: float = 0.0, or_infinite: bool = False, or_none: bool = False) -> Rule:
    """Allow a positive number, at least `least`."""
    text = "positive or infinite" if or_infinite else "positive and finite"
    is_positive = _number(text, lambda x: x > 0.0 and (or_infinite or x < math.inf), or_none)

    def rule(value: Any) -> str | None:
        too_small = _is(value, Real) and 0.0 < value < least
        return f"at least {least:g}" if too_small else is_positive(value)

    return rule


def at_least_zero(*, or_none: bool = False) -> Rule:
    """Allow a finite number that is not negative."""
    return _number("at least 0 and finite", lambda number: 0.0 <= number < math.inf, or_none)


def fraction(*, or_all: bool = False, or_none: bool = False) -> Rule:
    """Allow a number between 0 and 1, and 1 itself with `or_all`."""
    text = "above 0, at most 1" if or_all else "between 0 and 1"
    return _number(text, lambda x: 0.0 < x < 1.0 or (or_all and x == 1.0), or_none)


def within(low: float, high: float, *, or_none: bool = False) -> Rule:
    """Allow a number from `low` to `high`, both included."""
    return _number(f"from {low:g} to {high:g}", lambda number: low <= number <= high, or_none)


def inside(low: float, high: float) -> Rule:
    """Allow a number strictly between `low` and `high`."""
    return _number(f"strictly between {low:g} and {high:g}", lambda number: low < number < high)


def above(low: float, *, most: float) -> Rule:
    """Allow a number above `low`, at most `most`."""
    return _number(f"above {low:g} and at most {most:g}", lambda number: low < number <= most)


def one_of(*choices: str, or_none: bool = False) -> Rule:
    """Allow one of several names."""
    return _rule(f"one of {choices}", lambda value: value in choices, or_none)


def flag(*, or_none: bool = False) -> Rule:
    """Allow True and False."""
    return _rule("True or False", lambda value: isinstance(value, bool), or_none)


def key_of(table: Mapping[str, object], *, or_none: bool = False) -> Rule:
    """Allow a key of a table; the table is read at each check, as it may grow."""
    return lambda value: one_of(*sorted(table), or_none=or_none)(value)


def accepted_by(make: Callable[[Any], object]) -> Rule:
    """Allow what `make` accepts; its errors must begin with the name of the parameter."""

    def rule(value: Any) -> None:
        make(value)

    return rule


def _rule(text: str, holds: Callable[[Any], bool], or_none: bool = False) -> Rule:
    """Return the rule that answers `text` unless the condition holds."""
    return lambda value: None if (or_none and value is None) or holds(value) else text


def _number(text: str, holds: Callable[[Any], bool], or_none: bool = False) -> Rule:
    return _rule(text, lambda value: _is(value, Real) and holds(value), or_none)


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


@contextmanager
def read_json(kind: type, text: str, names: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the entries of a JSON object that ``kind.to_json`` wrote; refuse other names."""
    try:
        content = json.loads(text)
        if set(content) != set(names):
            raise KeyError
        yield content
    except DPWGError:
        raise
    except (LookupError, TypeError, AttributeError, json.JSONDecodeError):
        raise InputError(f"text must be what {kind.__name__}.to_json wrote, and is not.") from None
