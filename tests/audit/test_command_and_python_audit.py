"""The command says of 200 tables what Python says."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from tests.cli.test_command_and_python import CODES, compared

pytestmark = [
    pytest.mark.audit,
    pytest.mark.filterwarnings("ignore::sklearn_dpwg.exceptions.SeededNoiseWarning"),
]


def test_the_command_says_of_200_tables_what_python_says(tmp_path, monkeypatch):
    answers, differ = zip(
        *(compared(seed, tmp_path, monkeypatch) for seed in range(200)), strict=True
    )
    sys.stdout.write(f"\n  200 tables, {dict(Counter(answers))}: {sum(map(bool, differ))} differ")
    assert [each for one in differ for each in one] == []
    assert min(Counter(answers)[answer] for answer in CODES) >= 10
