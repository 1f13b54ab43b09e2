"""Stand-ins for a noise source: fixed transcripts, recorded draws, planted faults."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from sklearn_dpwg.privacy import Release


class Asked(NamedTuple):
    """What a run handed over for one release, and what it got back."""

    release: Release
    value: np.ndarray
    sensitivity: np.ndarray
    answer: np.ndarray
    # whether it is a row of a matrix, which is one release
    is_row: bool = False

    @property
    def noise_scale(self) -> np.ndarray:
        return self.release.noise_multiplier * self.sensitivity


class InUnits(NamedTuple):
    """What a run handed over for a value in units of each coordinate, and what it got back."""

    release: Release
    value: np.ndarray
    units: np.ndarray
    sensitivity: float
    answer: np.ndarray

    @property
    def noise_scale(self) -> np.ndarray:
        return self.units * (self.release.noise_multiplier * self.sensitivity)


class Recorder:
    """Passes every call on to ``answer_with(release, value, sensitivity)`` and keeps it.

    A value in units is passed on with a tuple of its release, and them; ``sample_with(release)``
    says who joins. ``payers`` are the groups that Gaussian draws
    named.
    """

    def __init__(
        self,
        answer_with: Callable[..., np.ndarray],
        rng: Any = 0,
        sample_with: Callable[..., Any] | None = None,
    ) -> None:
        self.answer_with = answer_with
        self.sample_with = sample_with
        self.rng = np.random.default_rng(rng)
        self.asked: list[Any] = []
        self.payers: list[int | None] = []

    def poisson_sample(self, release, *, by_place=False):
        assert 0.0 < release.sampling_rate < 1.0
        assert self.sample_with is not None
        joined = self.sample_with(release)
        assert joined.by_place == by_place
        return joined

    def gaussian_in_units(self, value, *, units, sensitivity, release):
        value, units = np.array(value, dtype=float), np.array(units, dtype=float)
        assert value.shape == units.shape
        answer = self.answer_with((release,), value, units)
        self.asked.append(InUnits(release, value, units, sensitivity, np.array(answer)))
        return answer

    def gaussian(self, value, *, sensitivity, release, payer=None):
        self.payers.append(payer)
        return self._add_noise(value, sensitivity, release, "gaussian")

    def laplace(self, value, *, sensitivity, release):
        return self._add_noise(value, sensitivity, release, "laplace")

    def gaussian_rows(self, shape, *, release):
        return RecordedRows(self, release, shape)

    def _add_noise(self, value, sensitivity, release, mechanism, is_row=False):
        assert release.mechanism == mechanism
        value, sensitivity = np.array(value, dtype=float), np.array(sensitivity, dtype=float)
        assert sensitivity.shape in ((), value.shape)
        answer = self.answer_with(release, value, sensitivity)
        self.asked.append(Asked(release, value, sensitivity, np.array(answer), is_row))
        return answer


class RecordedRows:
    """Rows of a matrix, each kept as one that was asked; a real source answers if there is one."""

    def __init__(
        self, recorder: Recorder, release: Release, shape: tuple[int, int], real: Any = None
    ) -> None:
        self.recorder, self.release, self.shape, self.real = recorder, release, shape, real
        self.n_rows = 0

    def add(self, row, sensitivity):
        assert np.shape(row) == self.shape[1:]
        assert self.n_rows < self.shape[0]
        self.n_rows += 1
        self.recorder.payers.append(None)
        if self.real is None:
            return self.recorder._add_noise(row, sensitivity, self.release, "gaussian", is_row=True)
        answer = self.real.add(row, sensitivity)
        stated = np.array(sensitivity, dtype=float)
        self.recorder.asked.append(Asked(self.release, np.array(row), stated, answer, is_row=True))
        return answer


def silent(rng: Any = 0) -> Recorder:
    """Return a source that adds nothing."""
    return Recorder(lambda release, value, sensitivity: value.copy(), rng)


def recorded(source: Any) -> Recorder:
    """Return a real source that keeps what it was asked."""

    def answer(release, value, sensitivity):
        if release.mechanism == "laplace":
            return source.laplace(value, sensitivity=sensitivity, release=release)
        payer = recorder.payers[-1]
        return source.gaussian(value, sensitivity=sensitivity, release=release, payer=payer)

    def answer_in_units(releases, value, units):
        (release,) = releases
        moved = 1.0 / release.noise_multiplier
        return source.gaussian_in_units(value, units=units, sensitivity=moved, release=release)

    def either(first, value, last):
        return (answer_in_units if isinstance(first, tuple) else answer)(first, value, last)

    def sample(release):
        return source.poisson_sample(release)

    def rows(shape, *, release):
        real = source.gaussian_rows(shape, release=release)
        return RecordedRows(recorder, release, shape, real)

    recorder = Recorder(either, sample_with=sample)
    recorder.rng = source.rng
    recorder.gaussian_rows = rows  # type: ignore[method-assign]
    return recorder


def fixed_transcript(seed: int, scales: dict[str, float]) -> Recorder:
    """Return a source whose answers depend on their place alone: neighbours get the same."""
    rng = np.random.default_rng([seed, 1])

    def answer(release, value, sensitivity):
        return scales.get(release.name, 1.0) * rng.standard_normal(value.shape)

    return Recorder(answer, rng=seed)


def replayed(asked: list[Asked], rng: Any = 0) -> Recorder:
    """Return a source that answers as an earlier run was answered."""
    answers = iter(asked)
    return Recorder(lambda release, value, sensitivity: next(answers).answer, rng)


def distance(one: Asked, other: Asked) -> float:
    """Return how far two neighbours' values are apart, in units of the stated sensitivity.

    Infinite where that differs: it must follow from public facts and earlier answers.
    """
    if not np.array_equal(one.sensitivity, other.sensitivity):
        return math.inf
    gap = np.atleast_1d(one.value - other.value)
    stated = np.broadcast_to(one.sensitivity, gap.shape)
    moved = np.divide(gap, stated, out=np.where(gap == 0.0, 0.0, math.inf), where=stated > 0.0)
    return float(np.linalg.norm(moved, 2 if one.release.mechanism == "gaussian" else 1))


def distances(first: list[Asked], second: list[Asked]) -> list[tuple[str, float]]:
    """Return the distances of what two neighbours released; infinite where that differs."""
    if [asked.release for asked in first] != [asked.release for asked in second]:
        return [("transcript", math.inf)]
    return [
        (one.release.name, distance(one, other)) for one, other in zip(first, second, strict=True)
    ]


def row_distance(first: list[Asked], second: list[Asked]) -> float:
    """Return how far two neighbours' matrices are apart, all rows together; see `distances`."""
    return math.hypot(*(distance for _, distance in distances(first, second)))


# --- planted faults ----------------------------------------------------------------------------


class Instead:
    """Stands in for an object: what is named is another, all else is the object's own."""

    def __init__(self, real: Any, **others: Any) -> None:
        self.real = real
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def tampered(noise: Any, name: str, change: Callable[..., Any]) -> Any:
    """Return a source for which ``change(draw, value, stated)`` stands in for draws of a name.

    ``draw(value, stated)`` is the honest one.
    """

    def through(draw):
        def add_noise(value, *, sensitivity, release, **payer):
            def honest(value, sensitivity):
                return draw(value, sensitivity=sensitivity, release=release, **payer)

            return (change if name == release.name else _unchanged)(honest, value, sensitivity)

        return add_noise

    def rows(shape, *, release):
        result = noise.gaussian_rows(shape, release=release)
        faulty = change if name == release.name else _unchanged
        return Instead(result, add=lambda row, stated: faulty(result.add, row, stated))

    return Instead(
        noise,
        gaussian=through(noise.gaussian),
        laplace=through(noise.laplace),
        gaussian_rows=rows,
    )


def _unchanged(draw, value, sensitivity):
    return draw(value, sensitivity)


def wrap(patch: pytest.MonkeyPatch, owner: Any, name: str, faulty: Callable[..., Any]) -> None:
    """Put ``faulty(real, *args, **named)`` in place of what a module or a class names so."""
    real = getattr(owner, name)

    def wrapped(*args, **named):
        return faulty(real, *args, **named)

    patch.setattr(owner, name, wrapped)
