"""`sapwood identify`."""

from __future__ import annotations

import json

import pytest

from sapwood.cli.unsupervised.identify import _MODELS, _MOMENTS
from sapwood.identifiability import MODELS, MOMENTS

SMALL = ["identify", "--model", "pcfg-ie", "--words", "4", "--states", "3", "--length", "3"]


def test_names_are_those_of_the_library() -> None:
    assert set(_MODELS) == set(MODELS)
    assert set(_MOMENTS) == set(MOMENTS)


def test_yes_in_json(sapwood) -> None:
    outcome = sapwood([*SMALL, "--moments", "123", "--json"])
    assert (outcome.code, outcome.err) == (0, "")
    found = json.loads(outcome.out)
    assert {key: found[key] for key in ("identifiable", "rank", "parameters", "deficiency")} == {
        "identifiable": True,
        "rank": 17,
        "parameters": 17,
        "deficiency": 0,
    }
    assert (found["model"], found["words"], found["states"], found["length"]) == ("pcfg-ie", 4, 3, 3)
    assert found["moments"] == "123"
    assert found["moments_observed"] == 64
    assert found["certificate"]["error"] == 0
    assert found["gap"] == found["numerical"]["gap"] > 100


def test_no_in_json(sapwood) -> None:
    found = json.loads(sapwood([*SMALL, "--moments", "123eta", "--json"]).out)
    assert (found["identifiable"], found["rank"], found["deficiency"]) == (False, 12, 5)
    assert found["eta"] == "1"
    assert 0 < found["certificate"]["error"] < 1e-10
    assert [direction["block"] for direction in found["directions"]] == ["pi", "T", "O"]


def test_words(sapwood) -> None:
    outcome = sapwood([*SMALL, "--moments", "123"])
    assert outcome.out.startswith("pcfg-ie, 4 words, 3 states, sentences of length 3, moments 123\nidentifiable: ")
    outcome = sapwood(["identify", "--model", "dep-ie", "--words", "3", "--length", "2"])
    assert "not identifiable: near almost every point, a set of dimension 3 has its moments" in outcome.out
    assert "A can move in 3 of 6 dimensions" in outcome.out


def test_several_lengths(sapwood) -> None:
    call = ["identify", "--model", "pcfg-i", "--words", "3", "--states", "3", "--moments", "12", "--json"]
    ranks = [json.loads(sapwood([*call, *more]).out)["rank"] for more in (["--length", 5], ["--length", 2])]
    both = json.loads(sapwood([*call, "--length", 5, "--length", 2]).out)
    assert both["lengths"] == [2, 5]
    assert both["rank"] > max(ranks)


def test_random_eta(sapwood) -> None:
    call = [*SMALL, "--moments", "***eta", "--json"]
    assert json.loads(sapwood(call).out)["deficiency"] == 2
    assert json.loads(sapwood([*call, "--eta", "random"]).out)["deficiency"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "dep-ie", "--words", 3, "--length", 2, "--states", 3], "no hidden states"),
        (["--model", "pcfg", "--words", 3, "--length", 2], "give their number"),
        (["--model", "dep-ie", "--words", 3, "--length", 2, "--moments", "123"], "have fewer"),
        (["--model", "dep-i", "--words", 100, "--length", 2], "19,899 parameters"),
        (["--model", "dep-i", "--words", 3, "--length", 99], "up to 60 words"),
        (["--model", "dep-i", "--words", 3, "--length", 3, "--moments", "123eta", "--eta", 4], "from 1 to 3"),
        (["--model", "dep-i", "--words", 3, "--length", 3, "--moments", "123eta", "--eta", "x"], "number of a word"),
        (["--model", "dep-i", "--words", 3, "--length", 3, "--moments", "123", "--eta", 1], "requires moments"),
        (["--model", "dep", "--words", 3, "--length", 3], "'dep' is not one of"),
        (["--model", "dep-i", "--words", 0, "--length", 3], "not in the range"),
        (["--model", "dep-i", "--words", 3], "Missing option '--length'"),
        (["--model", "dep-i", "--words", 3, "--length", 3, "--moments", "1234"], "is not one of"),
    ],
)
def test_bad_arguments(sapwood, arguments: list[object], message: str) -> None:
    outcome = sapwood(["identify", *arguments])
    assert outcome.code == 2
    assert outcome.out == ""
    assert message in outcome.err


def test_help_has_an_example(sapwood) -> None:
    outcome = sapwood(["identify", "--help"])
    assert "sapwood identify --model pcfg-ie" in outcome.out


def test_several_moments(sapwood) -> None:
    """Neither all pairs nor the slices of one word determine four states, but both together do."""
    call = ["identify", "--model", "pcfg-ie", "--words", "5", "--states", "4", "--length", "3", "--json"]
    alone = [json.loads(sapwood([*call, "--moments", name]).out) for name in ("**", "***eta")]
    both = json.loads(sapwood([*call, "--moments", "**", "--moments", "***eta", "--moments", "**"]).out)
    assert [each["identifiable"] for each in alone] == [False, False]
    assert both["identifiable"]
    assert both["moments"] == ["**", "***eta"]
    assert both["moments_observed"] == sum(each["moments_observed"] for each in alone)
    assert "requires" not in sapwood([*call, "--moments", "**", "--moments", "***eta", "--eta", "2"]).err
    assert sapwood([*call, "--moments", "**", "--moments", "12", "--eta", "2"]).code == 2
