"""JSON values from files: numbers that are finite, text that is Unicode, and known types of notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz.mutations import file_of
from fuzz.targets import STORED
from sapwood.errors import ModelError, SapwoodError
from sapwood.loading import load
from sapwood.storage.arrays import read_header, write_arrays
from sapwood.storage.json_values import json_problem, with_finite_numbers
from sapwood.storage.schema import Notes, check_json

nested: Any = 1
for _ in range(60):
    nested = [nested]
BAD = {
    "nan": (float("nan"), "a number that is not finite"),
    "infinity": ([1.0, float("-inf")], "a number that is not finite"),
    "surrogate": ("a\ud800", "half a character"),
    "name": ({"\udfff": 1}, "half a character"),
    "integer": (2**64, "more than 64 bits"),
    "long": ("a" * (2**20 + 1), "a text of 1,048,577 characters"),
    "deep": (nested, "more than 50 levels deep"),
    "many": ([0] * 2**20, "more than 1,048,576 values"),
    "bytes": (b"", "a value of type bytes"),
}
NOTES = {
    "method": [7, None, ["em"], {"a": 1}, "a\nb", "a" * 201, "\x1b[2J", "\u2028"],
    "training": ["abc", 3, [], {"trees": "x"}, {"words": -1}, {"trees": 1.5}, {"digest": 1}, {"trees": 2**60}],
}


@pytest.mark.parametrize("name", BAD)
def test_problems(name):
    value, problem = BAD[name]
    assert problem in json_problem({"x": value})
    assert json_problem({"x": [1, 2.5, None, True, "æ\n", {"a": -1}]}) == ""


def test_numbers_that_are_not_finite_become_null():
    given = {"a": [float("nan"), 1], "b": {"c": float("inf")}, "d": (2,)}
    assert with_finite_numbers(given) == {"a": [None, 1], "b": {"c": None}, "d": [2]}


def test_no_file_has_such_values(tmp_path):
    arrays = {"a": np.zeros(1)}
    write_arrays(tmp_path / "x", arrays, {"score": float("nan")}, kind="model", version=1)
    assert read_header(tmp_path / "x")["metadata"] == {"score": None}
    with pytest.raises(ModelError, match="not written, because of its metadata: half a character"):
        write_arrays(tmp_path / "y", arrays, {"name": "\ud800"}, kind="model", version=1)
    assert not (tmp_path / "y").exists()
    for name in ("nan", "infinity", "surrogate", "name", "integer", "deep"):
        (tmp_path / "z").write_bytes(file_of((arrays, {"x": BAD[name][0]}, "model", 1)))
        with pytest.raises(ModelError, match="z: its metadata cannot be used: "):
            read_header(tmp_path / "z")


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in NOTES.items() for value in values])
def test_notes_of_known_names_have_known_types(name, value):
    with pytest.raises(ModelError, match=f"info.{name}"):
        check_json({name: value}, Notes, "info")
    check_json({"method": "em", "training": {"trees": 3, "more": [1]}, "other": {"any": None}}, Notes, "info")


def replaced(value: Any, name: str, new: Any) -> tuple[Any, bool]:
    """Return a JSON value with another `name` in each of its notes, and whether there are any."""
    if isinstance(value, list):
        parts = [replaced(part, name, new) for part in value]
        return [part for part, _ in parts], any(changed for _, changed in parts)
    if not isinstance(value, dict):
        return value, False
    found = {key: replaced(part, name, new) for key, part in value.items()}
    result, changed = {key: part for key, (part, _) in found.items()}, any(changed for _, changed in found.values())
    for notes in {"info", "meta"} & result.keys():
        result[notes], changed = {**result[notes], name: new}, True
    return result, changed


@pytest.mark.parametrize("kind", ["model", "bundle", "induced-model", "language-model"])
def test_every_kind_of_file_has_checked_notes(tmp_path, kind):
    path = tmp_path / "x.sapwood"
    seen = False
    for arrays, metadata, file_kind, version in STORED[kind].originals():
        for name, value in (("method", "a\nb"), ("training", "abc"), ("x", float("nan")), ("x", "\ud800")):
            forged, changed = replaced(metadata, name, value)
            if changed:
                seen = True
                path.write_bytes(file_of((arrays, forged, file_kind, version)))
                with pytest.raises(SapwoodError):
                    load(path)
    assert seen


def test_forged_notes_and_the_commands(tmp_path: Path, monkeypatch, capsysbinary) -> None:
    from sapwood.cli.main import _run

    monkeypatch.chdir(tmp_path)
    arrays, metadata, kind, version = next(iter(STORED["model"].originals()))
    Path("sources.md").write_text("Nobody.\n")
    package = ["--name", "qq", "--language", "Toy", "--licence", "CC0-1.0", "--attribution", "sources.md"]
    for name, values in {**NOTES, "x": [BAD["nan"][0], BAD["surrogate"][0], nested]}.items():
        for value in values:
            forged, _ = replaced(metadata, name, value)
            Path("m.sapwood").write_bytes(file_of((arrays, forged, kind, version)))
            for command in (["inspect", "--json", "m.sapwood"], ["package", "m.sapwood", *package]):
                assert _run(command) in (0, 4)
                out = capsysbinary.readouterr().out
                assert not out or json.loads(out)
