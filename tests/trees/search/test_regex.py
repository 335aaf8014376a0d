"""Regular expressions: the same answers as Python's, in time that cannot explode."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from helpers.effort import examples
from sapwood.trees.search.regex import PatternError, Regex

ATOMS = [
    "a",
    "b",
    "A",
    "é",
    ".",
    "[ab]",
    "[^a]",
    "[a-c]",
    "[]a]",
    "[a-]",
    r"[\d-]",
    r"[\]\-a]",
    r"[^\\.]",
    r"[^\w]",
    r"\d",
    r"\W",
    r"\.",
    "^",
    "$",
]
COUNTS = ["", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "{0}", "*?"]

expressions = st.recursive(
    st.builds(str.__add__, st.sampled_from(ATOMS), st.sampled_from(COUNTS)),
    lambda below: (
        st.lists(below, max_size=3).map("".join)
        | st.lists(below, min_size=1, max_size=3).map("|".join)
        | st.builds("({}){}".format, below, st.sampled_from(COUNTS))
        | below.map("(?:{})".format)
    ),
    max_leaves=8,
)


@examples(2000)
@given(expressions, st.text("abAcé1.-_ ", max_size=8), st.booleans())
def test_the_same_as_python_finds(expression, text, ignore_case):
    try:
        python = re.compile(expression.replace("$", r"\Z"), re.IGNORECASE if ignore_case else 0)
    except re.error:
        reject()  # such as ^*
    expected = python.search(text) is not None
    assert Regex(expression, ignore_case=ignore_case).search(text) == expected


@pytest.mark.parametrize(
    "expression", ["(a|a)*$", "(a*)*$", "(a+)+b", "(.*a){20}", "(a|b)*a(a|b){30}", "(a?){90}a{90}"]
)
def test_no_expression_takes_long(expression):
    regex = Regex(expression)
    begin = time.process_time()
    regex.search("ab" * 1000 + "c")
    assert time.process_time() - begin < 5


def test_signs_that_mean_something_in_other_sets_are_themselves():
    regex = Regex("^[[a&&~|]$")
    assert [c for c in "[a&~|]^\\" if regex.search(c)] == list("[a&~|")


def test_a_long_search_can_be_stopped():
    class Stop(Exception):
        pass

    def stop():
        raise Stop

    with pytest.raises(Stop):
        Regex("(a|b)*a(a|b){90}c").search("".join(random.Random(1).choices("ab", k=10_000)), stop)


def test_what_is_kept_is_bounded():
    regex = Regex("(a|b)*a(a|b){14}c")
    text = "".join(random.Random(2).choices("ab", k=12_000))
    assert not regex.search(text)
    assert len(regex._sets) <= 2000
    assert regex.search(text + "a" * 15 + "c")


@pytest.mark.parametrize(
    ("expression", "column", "problem"),
    [
        ("a(b", 2, "not closed"),
        ("a)", 2, "without an opening"),
        ("*a", 1, "nothing for '*'"),
        ("a**", 3, "two repetitions"),
        ("[ab", 1, "not closed"),
        ("[^]", 1, "not closed"),
        ("[a\\", 1, "not closed"),
        ("[b-a]", 5, "range"),
        ("[+--]", 1, "hyphens"),
        (r"a[\b]", 3, "not understood"),
        ("a{2,1}", 2, "below"),
        ("a{x}", 2, "a repetition is"),
        ("a\\", 2, "backslash"),
        (r"(a)\1", 4, "not understood"),
        ("(?=a)", 1, "look around"),
        ("(a{99}){99}", 3, "too large"),
        ("(" * 60, 51, "parentheses"),
    ],
)
def test_what_is_wrong_is_shown(expression, column, problem):
    with pytest.raises(PatternError, match=re.escape(problem)) as caught:
        Regex(expression)
    assert caught.value.column == column
