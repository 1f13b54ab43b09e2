"""The page "the way of a fit" names what a fit calls, in its order, and how much that is."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import sklearn_dpwg
from sklearn_dpwg import DPWorstGroupClassifier
from sklearn_dpwg.solvers import MGR
from tests.helpers.relations import WITHIN_GROUP

PAGE = Path(__file__).parents[1] / "docs" / "way_of_a_fit.md"
PACKAGE = Path(sklearn_dpwg.__file__).parent
MAX_FILES_OF_A_FIT = 36
MAX_FILES_OF_A_STEP = 8
MAX_CALLS_OF_A_STEP, MAX_CALLS_BEFORE_NOISE = 52, 496


def rows() -> list[tuple[str, list[str]]]:
    """Return the files of the page's table and the functions that it names of each."""
    result = re.findall(r"^\| \d+ \| `([\w/.]+)` \|.*\| ([^|]+) \|$", PAGE.read_text("utf-8"), re.M)
    return [(file, re.findall(r"`([\w.]+)`", names)) for file, names in result]


@pytest.fixture(scope="module")
def calls() -> list[tuple[str, str]]:
    """Return the file and the function of each call into the package, of a seeded fit."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (600, 3))
    y, groups = (X[:, 0] > 0.0).astype(int), np.repeat(["a", "b"], [400, 200])
    solver = MGR(n_steps=6, centring=False)  # the centre is one release more
    known = {"data_norm": 1.0, "random_state": 0} | WITHIN_GROUP
    model = DPWorstGroupClassifier(1.0, 1e-5, solver=solver, **known)
    model.fit(X, y, groups=groups)  # fills what is kept between fits
    seen: list[tuple[str, str]] = []

    def note(frame, event, _):
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(PACKAGE):
            seen.append((file.relative_to(PACKAGE).as_posix(), frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        model.fit(X, y, groups=groups)
    finally:
        sys.setprofile(before)
    return seen


@pytest.mark.filterwarnings("ignore")
def test_the_way_of_a_fit(calls):
    """Each name of the page is called, first in this order; a class is made where it is named."""
    table = rows()
    assert len(table) == 10
    places = []
    for file, names in table:
        for name in names:
            function = name.rpartition(".")[2]
            function = "__post_init__" if function[0].isupper() else function
            assert (file, function) in calls, f"{file} is not called for {name}"
            places.append(calls.index((file, function)))
    assert places == sorted(places)


@pytest.mark.filterwarnings("ignore")
def test_a_fit_and_a_step_stay_small(calls):
    """Whoever follows a fit opens so many files, and of a step so many; calls are few too."""
    of_fit = {file for file, _ in calls}
    starts = [place for place, call in enumerate(calls) if call[1] == "release_full_pass"]
    of_step = {file for file, _ in calls[starts[2] : starts[3]]}
    before_noise = calls.index(("privacy/noise/source.py", "gaussian"))
    assert len(of_fit) <= MAX_FILES_OF_A_FIT, sorted(of_fit)
    assert starts[3] - starts[2] <= MAX_CALLS_OF_A_STEP
    assert before_noise <= MAX_CALLS_BEFORE_NOISE
    assert len(of_step) <= MAX_FILES_OF_A_STEP, sorted(of_step)


def test_every_file_that_the_page_names_is_there():
    named = set(re.findall(r"(?<!\})`((?:[\w]+/)+[\w]*(?:\.py)?)`", PAGE.read_text("utf-8")))
    places = (PACKAGE, PACKAGE.parent)
    gone = [name for name in named if not any((place / name).exists() for place in places)]
    assert len(named) > 15
    assert gone == []
