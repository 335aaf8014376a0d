"""`sapwood inspect --symbol`: what hidden states have learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sapwood.grammar.state_profiles import state_profiles
from sapwood.model.file import load_models
from sapwood.model.installed import default_model_path


def test_the_same_as_the_library(folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["inspect", "en", "--symbol", "NP", "--top", "3", "--json", "--treebank", "trees.mrg"])
    assert outcome.code == 0
    value = json.loads(outcome.out.splitlines()[0])
    grammar = load_models(default_model_path())[0]
    profiles = state_profiles(grammar, grammar.symbol_number("NP"), top=3)
    assert value["kind"] == "phrase"
    assert [row["state"] for row in value["states"]] == [profile.state for profile in profiles]
    assert [[name for name, _, _ in row["words"]] for row in value["states"]] == [
        [word.name for word in profile.words] for profile in profiles
    ]
    assert any("the dog" in row["examples"] for row in value["states"])
    text = sapwood(["inspect", "--symbol", "NP", "--top", "3"]).out
    assert text.startswith(f"NP (phrase), {len(profiles)} state(s)\n\nstate {profiles[0].state}: ")
    assert f"  words     {profiles[0].words[0].name} " in text


def test_real_valued_weights_are_not_called_probabilities(folder: Path, sapwood: Any) -> None:
    (folder / "many.mrg").write_text((folder / "trees.mrg").read_text() * 9)
    arguments = ["train", "many.mrg", "--method", "spectral", "--states", "2", "--min-support", "2", "-o", "real", "-q"]
    assert sapwood(arguments).code == 0
    inspect = ["inspect", "real", "--symbol", "NP"]
    assert "weights: real-valued, not probabilities" in sapwood(inspect).out
    assert json.loads(sapwood([*inspect, "--json"]).out.splitlines()[0])["weights"].startswith("real-valued")
    assert "weights" not in sapwood(["inspect", "m", "--symbol", "NP"]).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m", "--symbol", "NPP"], "no symbol 'NPP'; did you mean 'NP"),
        (["trees.mrg", "--symbol", "NP"], "--symbol is for models"),
        (["m", "--treebank", "trees.mrg"], "--treebank requires --symbol"),
    ],
)
def test_errors(arguments: list[str], message: str, folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["inspect", *arguments])
    assert outcome.code == 2
    assert message in outcome.err


def test_long_lists_are_cut(folder: Path, sapwood: Any) -> None:
    (folder / "many.mrg").write_text("".join(f"(S (T{number} w))\n" for number in range(40)))
    out = sapwood(["inspect", "many.mrg", "--top", "2"]).out
    assert "tags         40: T0 1  T1 1  T2 1  T3 1  T4 1  T5 1  ... and 34 more\n" in out
