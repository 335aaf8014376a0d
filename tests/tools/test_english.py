"""The included model is made by its script, here from a made-up treebank; and it is what the page about it says."""

from __future__ import annotations

import json
import re
from typing import Any

import english
from helpers.made_up import made_up_treebank
from sapwood import ParserModel, TensorGrammar
from sapwood.model.installed import default_model_path


def values_of(settings: dict[str, Any]) -> list[str]:
    """Return the values of settings, in an order that their names have no part in."""
    found = (values_of(value) if isinstance(value, dict) else value for value in settings.values())
    return sorted("explicit" if value == "steps" else str(value) for value in found)


def test_from_trees_to_a_model(tmp_path, capsys):
    trees = [f"{tree}\n" for tree in made_up_treebank(60)]
    for name, part in (("train", trees[:40]), ("dev", trees[40:50]), ("test", trees[50:])):
        (tmp_path / f"{name}.mrg").write_text("".join(part))
    english.main([str(tmp_path), "-o", str(tmp_path / "m")])
    told = json.loads(capsys.readouterr().out)
    model = ParserModel.load(tmp_path / "m")
    assert told["bytes"] == (tmp_path / "m").stat().st_size
    assert told["f1"] > 50
    included = ParserModel.load(default_model_path())
    assert included.info["method"] == model.info["method"]
    # The included model has former names of some settings.
    for name in ("settings", "layer", "network"):
        assert values_of(included.info[name]) == values_of(model.info[name])


def test_the_included_model_is_small_and_has_its_page():
    path = default_model_path()
    assert path.stat().st_size <= 12e6
    page = (path.parent / "ATTRIBUTION.md").read_text()
    grammar = TensorGrammar.load(path)
    assert re.search(rf"{len(grammar.symbols):,} symbols", page)
    assert f"{len(grammar.rules):,} rules" in page
    assert f"{len(grammar.lexicon.words):,} words" in page
