"""Replay: seeded fits of everything, equal to the bit to those that were written down.

``tests/replay.json`` holds what every case learned, what it drew, and what its plan and its
guarantee say. On the machine that wrote it all of that is the same to the last bit; elsewhere
libraries round otherwise, and numbers agree to 1e-12 of the largest beside them. A change that
means to alter a fit writes the cases anew, and says so in CHANGELOG:

    python -m tests.test_replay --write                  # all
    python -m tests.test_replay --write "mgr*" "auc"     # those of these patterns
"""

from __future__ import annotations

import hashlib
import inspect
import json
import platform
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from fnmatch import fnmatch
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import scipy
import sklearn
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_dpwg.privacy import NoiseSource, Release
from sklearn_dpwg.privacy.noise.source import GaussianRows
from sklearn_dpwg.solvers import SOLVERS
from tests.helpers.replay_cases import CASES

PLACE = Path(__file__).with_name("replay.json")
# Plans are minimised, which tells a place to half its digits, and steps repeat what rounding does.
CLOSE = 1e-10

# Cases whose numbers may differ by more than CLOSE on another machine, and why.
LOOSE = {
    "mgr batches*": (1e-8, "calibration searches a multiplier until a tolerance of its own"),
    "mgr paper*": (1e-8, "calibration searches a multiplier until a tolerance of its own"),
    "oco * epsilon 1000": (1e-7, "so it does for Laplace noise, which is 2e-7 of a multiplier"),
    "exact *": (1e-8, "the optimum of a loss with kinks is certified to a tolerance, not to a bit"),
}
# What a fit keeps that is a number or an array of them.
LEARNED = (
    "coef_",
    "intercept_",
    "group_weights_",
    "group_sizes_",
    "class_counts_",
    "histogram_",
    "score_edges_",
    "probabilities_",
    "thresholds_",
    "mean_",
    "scale_",
    "counts",
    "best_score_",
)


class Watch:
    """Keeps what noise sources released, by wrapping their public methods."""

    def __init__(self) -> None:
        self.sources: list[NoiseSource] = []
        self.outputs = hashlib.sha256()

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        with ExitStack() as stack:
            self._wrap(stack, GaussianRows, "add")
            for name, method in vars(NoiseSource).items():
                known = set(inspect.signature(method).parameters) if callable(method) else set()
                if not name.startswith("_") and known & {"release", "releases"}:
                    self._wrap(stack, NoiseSource, name)
            self._wrap(stack, NoiseSource, "__init__")
            yield self

    def _wrap(self, stack: ExitStack, kind: type, name: str) -> None:
        real = getattr(kind, name)

        @wraps(real)
        def watched(source: Any, *args: Any, **kwargs: Any) -> Any:
            answer = real(source, *args, **kwargs)
            if name == "__init__":
                self.sources.append(source)
            elif isinstance(answer, float | np.ndarray):
                self.outputs.update(np.asarray(answer, dtype=np.float64).tobytes())
            return answer

        stack.enter_context(patch.object(kind, name, watched))

    def draws(self) -> list[str]:
        """One line a release of a source: what was drawn, how often, with how much noise."""
        lines = []
        for source in self.sources:
            drawn = Counter((draw.release, draw.shape) for draw in source.draws)
            lines += [_words(count, *drawn_as) for drawn_as, count in drawn.items()]
        return lines


def _words(count: int, release: Release, shape: tuple[int, ...]) -> str:
    words = f"{count} x {release.name}, {release.mechanism} {release.noise_multiplier!r}, {shape}"
    if release.max_count != count:
        words += f", at most {release.max_count}"
    if release.draws_per_record not in (None, release.max_count):
        words += f", {release.draws_per_record} a record"
    if release.part is not None:
        words += f", part {release.part}"
    return words + (f", sampled {release.sampling_rate!r}" if release.sampling_rate < 1.0 else "")


def replay(name: str) -> dict[str, Any]:
    """Run a case; return all that it showed, in words and numbers that JSON keeps exactly."""
    watch = Watch()
    with threadpool_limits(1), warnings.catch_warnings(), watch.watching():
        warnings.simplefilter("ignore")
        try:
            model = CASES[name]()
        except (TypeError, ValueError) as error:
            return {"refused": str(error), "draws": watch.draws()}
    privacy = str(getattr(model, "privacy_", None))
    return {
        "learned": _learned(model),
        "draws": watch.draws(),
        "outputs": watch.outputs.hexdigest()[:16],
        "privacy": privacy.splitlines(),
        "plan": str(getattr(model, "plan_", None)).replace(privacy, "privacy_").splitlines(),
    }


def _learned(model: Any) -> dict[str, str]:
    parts = {"": model}
    if hasattr(model, "best_estimator_"):
        parts["best"] = model.best_estimator_
    for number, sums in enumerate(getattr(model, "losses", ())):
        parts[f"losses {number}"] = SimpleNamespace(counts=sums.sums)
    return {
        f"{name} {key}".strip(): _digits(getattr(part, key))
        for name, part in parts.items()
        for key in LEARNED
        if getattr(part, key, None) is not None
    }


def _digits(numbers: Any) -> str:
    """Write doubles so that their bits can be read back."""
    return " ".join(map(repr, np.asarray(numbers, dtype=np.float64).ravel().tolist()))


def machine() -> dict[str, str]:
    """What bits depend on: the processor, and the libraries that compute."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        named = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        model = named[1] if named else model
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    ours = [pool for pool in pools if "numpy" in pool["filepath"]] or pools
    blas = {f"{each['internal_api']} {each['version']} {each['architecture']}" for each in ours}
    simd: dict[str, Any] = np.show_config(mode="dicts")["SIMD Extensions"]
    return {
        "processor": f"{platform.machine()} {model}",
        "blas": ", ".join(sorted(blas)),
        "simd": " ".join(simd.get("found", [])),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


# --- what was written down ------------------------------------------------------------------------


TEXTS = ("draws", "plan", "privacy")


def read() -> dict[str, Any]:
    """Return the machine and, by name, the cases; texts and lines that many share are kept once."""
    if not PLACE.exists():
        return {"machine": None, "cases": {}}
    kept = json.loads(PLACE.read_text())
    for case in kept["cases"].values():
        for key in set(TEXTS) & set(case):
            case[key] = [kept["lines"][line] for line in kept["texts"][case[key]].split()]
    return {"machine": kept["machine"], "cases": kept["cases"]}


def write(patterns: list[str]) -> None:
    """Run the cases of these patterns, by default all, and write down what they showed."""
    here, before = machine(), read()
    chosen = [name for name in CASES if any(fnmatch(name, one) for one in patterns or ["*"])]
    if before["machine"] not in (None, here) and len(chosen) < len(CASES):
        raise SystemExit(f"{PLACE.name} is of another machine: write all cases, not some.")
    cases = {name: case for name, case in before["cases"].items() if name in CASES}
    cases |= {name: replay(name) for name in chosen}
    texts: dict[str, str] = {}
    lines: dict[str, str] = {}
    for case in cases.values():
        for key in set(TEXTS) & set(case):
            case[key] = _keep(" ".join(_keep(line, lines) for line in case[key]), texts)
    result = {"machine": here, "cases": cases, "texts": texts, "lines": lines}
    PLACE.write_text(_as_json(result))
    sys.stdout.write(f"wrote {len(chosen)} of {len(CASES)} cases\n")


def _as_json(result: dict[str, Any]) -> str:
    tight = (",", ":")
    return json.dumps(result, indent=0, sort_keys=True, ensure_ascii=False, separators=tight) + "\n"


def _keep(text: str, known: dict[str, str]) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    if known.setdefault(digest, text) != text:
        raise ValueError(f"two texts share the number {digest}: {text!r} and {known[digest]!r}.")
    return digest


KEPT = read()


# --- the comparison -------------------------------------------------------------------------------

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def differences(now: dict[str, Any], kept: dict[str, Any], close: float | None) -> list[str]:
    """Say where two replays differ; `close` allows numbers to be apart, None nothing."""
    now, kept = flat(now), flat(kept)
    wrong = []
    for key in dict.fromkeys([*kept, *now]):
        one, other = now.get(key, "nothing"), kept.get(key, "nothing")
        if one == other or (close is not None and key == "outputs"):
            continue
        same = same_numbers if key.startswith("learned") else same_text
        if close is None or "nothing" in (one, other) or not same(one, other, close):
            wrong.append(f"{key}: {one}\n  was: {other}")
    return wrong


def flat(case: dict[str, Any]) -> dict[str, str]:
    """Return a case line by line, so that only lines that differ are shown."""
    result = {}
    for key, value in case.items():
        if isinstance(value, str):
            result[key] = value
        else:
            parts = value.items() if isinstance(value, dict) else enumerate(value, 1)
            result |= {f"{key} {part}": line for part, line in parts}
    return result


def same_numbers(now: str, kept: str, close: float) -> bool:
    one, other = np.array(now.split(), dtype=float), np.array(kept.split(), dtype=float)
    if one.shape != other.shape:
        return False
    largest = max(np.max(np.abs(other), initial=0.0, where=np.isfinite(other)), 1e-300)
    return np.allclose(one, other, rtol=0.0, atol=close * largest, equal_nan=True)


def same_text(now: str, kept: str, close: float) -> bool:
    """Whether words agree, and numbers up to `close` or to one unit of what is printed last."""
    if NUMBER.sub("#", now) != NUMBER.sub("#", kept):
        return False
    for one, other in zip(NUMBER.findall(now), NUMBER.findall(kept), strict=True):
        apart = abs(Decimal(one) - Decimal(other))
        last = Decimal(1).scaleb(int(Decimal(other).as_tuple().exponent))
        printed = last if "." in other or "e" in other else Decimal(0)
        if apart > max(printed, Decimal(close) * abs(Decimal(other))):
            return False
    return True


# --- tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_fit_is_what_it_was(name):
    assert name in KEPT["cases"], f'run: python -m tests.test_replay --write "{name}"'
    loose = [bound for pattern, (bound, _) in LOOSE.items() if fnmatch(name, pattern)]
    close = None if KEPT["machine"] == machine() else max([CLOSE, *loose])
    wrong = differences(replay(name), KEPT["cases"][name], close)
    assert not wrong, "\n".join(wrong)


def test_every_solver_and_case_is_kept():
    assert set(KEPT["cases"]) == set(CASES)
    assert {name.split(" | ")[0] for name in CASES} >= set(SOLVERS)


def test_what_may_be_loose_is_there():
    for pattern in LOOSE:
        assert any(fnmatch(name, pattern) for name in CASES), pattern


def test_differences_are_seen():
    kept = {"learned": {"coef_": "1.0 -2.0"}, "draws": ["1 x 'a', multiplier 0.5"], "outputs": "a"}
    near = {**kept, "learned": {"coef_": "1.000000000001 -2.0"}, "outputs": "b"}
    assert not differences(kept, kept, None)
    assert len(differences(near, kept, None)) == 2
    assert not differences(near, kept, CLOSE)
    for far in (
        {**kept, "learned": {"coef_": "1.000000001 -2.0"}},
        {**kept, "learned": {"coef_": "1.0"}},
        {**kept, "learned": {}},
        {**kept, "draws": ["2 x 'a', multiplier 0.5"]},
        {**kept, "draws": ["1 x 'b', multiplier 0.5"]},
        {**kept, "draws": ["1 x 'a', multiplier 0.7"]},
        {"refused": "no", "draws": []},
    ):
        assert differences(far, kept, CLOSE), far


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        raise SystemExit("python -m tests.test_replay --write [patterns]")
    write(sys.argv[2:])
