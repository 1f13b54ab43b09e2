"""Labels show what they are made of and nothing else."""

from __future__ import annotations

import unicodedata

import pytest

from sklearn_dpwg.inspection.words import in_sentence, text_of, texts_of
from tests.helpers.audit_cases import HOSTILE


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("Black", "Black"),
        (3, "3"),
        (True, "True"),
        ("", "(empty)"),
        ("a\x00b", r"a\0b"),
        ("a\nb", r"a\nb"),
        (" a ", "\u2423a\u2423"),
        ("\u00a0a", "\u2423a"),
        ("a\n", r"a\n"),
        ("   ", "\u2423" * 3),
        ("a\u202eb", r"a\u202eb"),
        ("a\u200bb", r"a\u200bb"),
        ("a\ud800", r"a\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("\N{WOMAN}\u200d\N{MICROSCOPE}", "\N{WOMAN}\u200d\N{MICROSCOPE}"),
        (("White", ("x", 1)), "White & x & 1"),
    ],
)
def test_a_label_shows_all_its_characters(label, text):
    assert text_of(label) == text


def test_no_text_holds_what_cannot_be_seen_or_encoded():
    for text in texts_of(HOSTILE):
        text.encode()
        kinds = {unicodedata.category(one) for one in text if one != "\u200d"}
        assert kinds.isdisjoint({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def test_labels_that_differ_have_texts_that_differ():
    assert len(set(texts_of(HOSTILE))) == len(HOSTILE)
    assert texts_of([1, "1", "1 (2)", "1 (3)", True]) == ("1", "1 (4)", "1 (2)", "1 (3)", "True")


def test_short_names_differ_and_keep_their_ends():
    names = [f"a region with a very long name, number {number}" for number in range(40)]
    short = texts_of(names, 20)
    assert len(set(short)) == 40
    assert short[7].endswith("er 7")
    assert max(map(len, short)) <= 20
    alike = texts_of(["x" * 50, "x" * 60, "x" * 70], 10)
    assert alike == ("xxxxxxx…xx", "xxxxxxx…xx (2)", "xxxxxxx…xx (3)")


def test_a_name_in_a_sentence_does_not_turn_it_around():
    assert in_sentence("Black") == "Black"
    assert in_sentence("\u05d0\u05d1") == "\u2068\u05d0\u05d1\u2069"
    assert len(in_sentence("x" * 10_000)) < 60
