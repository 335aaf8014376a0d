"""Macros of patterns."""

from __future__ import annotations

from pathlib import Path

import pytest

from sapwood.errors import InputError
from sapwood.trees.search.macros import expand_macros, parse_macros, read_macros
from sapwood.trees.search.patterns import parse_pattern


def test_both_notations(tmp_path: Path) -> None:
    path = tmp_path / "macros.txt"
    path.write_text('# verbs\n@ VERB /^VB/;\n% phrases\nVERBAL\t(VP < @VERB)\n@ QUOTED "a;";\n', encoding="utf-8")
    assert read_macros(path) == {"VERB": "/^VB/", "VERBAL": "(VP < /^VB/)", "QUOTED": '"a;"'}


def test_macros_are_not_expanded_in_labels_and_expressions() -> None:
    macros = {"NP": "X|Y", "V-1": "Z"}
    assert expand_macros('@NP < "@NP" $ /@NP/ !< @NPX > @V-1', macros) == 'X|Y < "@NP" $ /@NP/ !< @NPX > Z'
    assert parse_pattern("@NP=x < @S", macros).root.test.labels == {"X", "Y"}
    assert parse_pattern("@NP").root.test.basic


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("NP < VP", "<macros>:1: expected a macro"),
        ("@ NP A;\n@ NP B;", "<macros>:2: the macro 'NP' is defined twice"),
        ("@ A " + "x" * 1500 + ";\n@ B (@A < @A);", "more than 2,000 characters"),
    ],
)
def test_malformed_macros(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_macros(enumerate(text.split("\n"), 1))
