"""Several models on the command line: named one by one, or in one file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.model.file import save_models
from sapwood.testing.grammars import random_states


@pytest.fixture
def members(folder: Path) -> Path:
    """Return the working directory, with the models `a`, `b` and `c` of the same trees, and `bundle` with all three."""
    base = TensorGrammar.load(folder / "m")
    grammars = [random_states(base, states, np.random.default_rng(states), noise=1.5) for states in (1, 2, 3)]
    for name, grammar in zip("abc", grammars, strict=True):
        grammar.save(folder / name)
    save_models(grammars, folder / "bundle")
    return folder


def test_several_models_are_as_one_file_with_several(members: Path, sapwood: Any) -> None:
    options = ["sentences.txt", "--json", "--marginals", "--alternatives", "2", "--exact"]
    named = sapwood(["parse", *options, "-m", "a", "-m", "b", "--model", "c"])
    assert (named.code, named.err) == (0, "")
    assert sapwood(["parse", *options, "-m", "bundle"]) == named
    assert sapwood(["parse", *options, "-m", "a"]).out != named.out
    single = [
        [json.loads(line) for line in sapwood(["parse", *options, "-m", name]).out.splitlines()] for name in "abc"
    ]
    for found, *wanted in zip(map(json.loads, named.out.splitlines()), *single, strict=True):
        if found["status"] == "parsed":
            mean = np.mean([math.exp(result["log_probability"]) for result in wanted])
            assert found["log_probability"] == pytest.approx(math.log(mean), rel=1e-9)


def test_one_of_several_files_may_hold_several(members: Path, sapwood: Any) -> None:
    outcome = sapwood(["parse", "-m", "a", "-m", "bundle", "-s", "cats sleep"])
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("(ROOT ")


def test_evaluation(members: Path, sapwood: Any) -> None:
    def scores(*models: str) -> dict[str, Any]:
        outcome = sapwood(["eval", "trees.mrg", "--json", "-q", *(part for name in models for part in ("-m", name))])
        assert (outcome.code, outcome.err) == (0, "")
        return {key: value for key, value in json.loads(outcome.out).items() if key != "seconds"}

    assert scores("a", "b", "c") == scores("bundle")
    assert scores("bundle")["sentences"] == 6
    assert sapwood(["eval", "trees.mrg", "trees.mrg", "-m", "a", "-m", "b"]).code == 2


def test_inspect(members: Path, sapwood: Any) -> None:
    text = sapwood(["inspect", "bundle"]).out
    assert text.startswith("model        bundle\ngrammars     3; this is the first\nmethod       random states (1)")
    assert "grammars" not in sapwood(["inspect", "a"]).out
    bundle, model = (json.loads(sapwood(["inspect", name, "--json"]).out) for name in ("bundle", "a"))
    assert (bundle["kind"], bundle["grammars"], model["grammars"]) == ("model", 3, 1)
    assert {**bundle, "grammars": 1} == model
    assert sapwood(["inspect", "bundle", "--tree", "1"]).code == 2


@pytest.mark.parametrize("command", ["parse sentences.txt", "eval trees.mrg"])
@pytest.mark.parametrize(
    ("models", "code", "message"),
    [
        ("-m a -m b --decoder viterbi", 2, "viterbi takes one grammar, not 2; choose from max-rule, "),
        ("-m bundle --decoder viterbi", 2, "viterbi takes one grammar, not 3"),
        ("-m a -m other", 4, "other and a cannot be combined: their"),
        ("-m other -m bundle", 4, "bundle (grammar 1) and other cannot be combined"),
        ("-m a -m -", 2, "a model cannot be read from standard input"),
        ("-m a --model=", 2, "-m: the name of the model is empty"),
        ("-m a -m nothing", 3, "nothing: no such file"),
        ("-m a -m trees.mrg", 4, "trees.mrg: not a sapwood file"),
        ("-m damaged", 4, "damaged: damaged: its content does not match its digest"),
    ],
)
def test_bad_models(command: str, models: str, code: int, message: str, members: Path, sapwood: Any) -> None:
    (members / "few.mrg").write_text("(ROOT (S (NP (NN x)) (VP (VB y))))\n")
    assert sapwood(["train", "few.mrg", "--method", "split-merge", "-o", "other", "-q"]).code == 0
    content = bytearray((members / "bundle").read_bytes())
    content[-1] ^= 1
    (members / "damaged").write_bytes(content)
    outcome = sapwood([*command.split(), *models.split()])
    assert outcome.code == code
    assert outcome.out == ""
    assert outcome.err.startswith("sapwood: ")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
