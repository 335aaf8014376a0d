"""`sapwood compare`, and what `sapwood eval` says of sentences and intervals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

LABEL = ("(NP (DT the)", "(X (DT the)")


@pytest.fixture
def parsed(folder: Path, sapwood: Any) -> Path:
    """Return the working directory, with other trees in `p`: six NP are X, and the last tree is missing."""
    trees = (folder / "trees.mrg").read_text().replace(*LABEL).splitlines()
    (folder / "p").write_text("\n".join([*trees[:-1], "", ""]))
    return folder


def test_eval_has_intervals(parsed: Path, sapwood: Any) -> None:
    arguments = ["eval", "trees.mrg", "p"]
    found = json.loads(sapwood([*arguments, "--json"]).out)
    spans = found["intervals"]
    assert (spans["confidence"], spans["resamples"], spans["seed"]) == (0.95, 10_000, 0)
    for key in ("precision", "recall", "f1", "exact", "tag_accuracy"):
        assert spans[key][0] <= found[key] <= spans[key][1]
    low, high = spans["f1"]
    table = sapwood(arguments)
    assert f"  [{low:.2f}, {high:.2f}]\n" in table.out
    assert table == sapwood(arguments)
    fewer = ["--confidence", "0.5", "--resamples", "100", "--seed", "3"]
    narrow = json.loads(sapwood([*arguments, "--json", *fewer]).out)["intervals"]["f1"]
    assert low < narrow[0] < narrow[1] < high
    assert "50 % of all" in sapwood([*arguments, *fewer]).out


def test_eval_sentence_by_sentence(parsed: Path, sapwood: Any) -> None:
    arguments = ["eval", "trees.mrg", "p"]
    rows = [json.loads(line) for line in sapwood([*arguments, "--sentences", "--json"]).out.splitlines()]
    assert (rows[0]["sentence"], rows[0]["f1"], rows[0]["text"]) == (6, 0.0, "dinner .")
    assert [row["f1"] for row in rows] == sorted(row["f1"] for row in rows)
    assert len(rows) == 6
    totals = json.loads(sapwood([*arguments, "--json"]).out)
    for key in ("gold", "predicted", "matched", "correct_tags", "words"):
        assert sum(row[key] for row in rows) == totals[key]
    two = sapwood(["eval", "trees.mrg", "p", "--sentences", "2"]).out.splitlines()
    assert [line.split()[0] for line in two[2:]] == [str(row["sentence"]) for row in rows[:2]]


def test_trees_and_models_in_any_order(parsed: Path, sapwood: Any) -> None:
    arguments = ["compare", "trees.mrg"]
    found = json.loads(sapwood([*arguments, "p", "m", "--json"]).out)
    assert (found["a"], found["b"]) == ("p", "m")
    for side, options in (("a", ["p"]), ("b", ["-m", "m"])):
        scores = json.loads(sapwood(["eval", "trees.mrg", *options, "--json"]).out)
        for key in ("f1", "exact", "tag_accuracy"):
            assert found[key][side] == scores[key]
    back = json.loads(sapwood([*arguments, "./m", "./p", "--json"]).out)
    assert back["f1"]["difference"] == -found["f1"]["difference"]
    assert found["mistakes"]["wrong_label"]["a"] == 6
    both = sapwood([*arguments, "m", "m", "--threads", "1"])
    assert "A parses 0 better, B 0, both 6 equally well" in both.out
    # The included model goes by a name, unless there is a file of that name.
    assert json.loads(sapwood([*arguments, "en", "p", "--json"]).out)["f1"]["a"] != found["f1"]["a"]
    (parsed / "en").write_bytes((parsed / "p").read_bytes())
    assert json.loads(sapwood([*arguments, "en", "p", "--json"]).out)["better"]["ties"] == 6


def test_the_number_of_sentences_listed(parsed: Path, sapwood: Any) -> None:
    arguments = ["compare", "trees.mrg", "trees.mrg", "p"]
    for number in (0, 2):
        out = json.loads(sapwood([*arguments, "--sentences", number, "--json"]).out)
        assert len(out["most_different"]) == number
    assert sapwood(arguments).out.splitlines()[-5].split()[:4] == ["6", "100.00", "0.00", "-100.00"]
    assert sapwood(arguments) == sapwood(arguments)


def test_a_file_from_standard_input(parsed: Path, sapwood: Any) -> None:
    trees = (parsed / "p").read_bytes()
    assert "both 6 equally well" in sapwood(["compare", "trees.mrg", "-", "p"], trees).out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("trees.mrg trees.mrg short", 3, r"short has 5; .* ends on trees\.mrg:6"),
        ("trees.mrg other trees.mrg", 3, r"other: sentence 2: words mismatch: .*\(trees\.mrg:2, other:2\)"),
        ("trees.mrg nothing p", 3, "nothing: no such file"),
        ("trees.mrg m nothing.sapwood", 3, "nothing.sapwood: no such file"),
        ("trees.mrg damaged.sapwood m", 4, "damaged.sapwood: "),
        ("empty p p", 3, "empty has 0 trees"),
        ("empty empty empty", 3, "empty: no trees to score"),
        ("empty m m", 3, "empty: no trees to score"),
        ("- p p", 2, "GOLD .* cannot be standard input"),
        ("trees.mrg - -", 2, "only once"),
        ("trees.mrg p p --threads 2", 2, "--threads requires a model"),
        ("trees.mrg m m --keep-empties", 2, "--keep-empties cannot be used with two models"),
        ("trees.mrg p m --no-normalise --keep-empties", 2, "cannot be used with --no-normalise"),
        ("trees.mrg p p --confidence 1", 2, "--confidence"),
        ("tagged p m --function-tags none", 3, "normalised in two ways"),
    ],
)
def test_what_cannot_be_compared(arguments: str, code: int, message: str, parsed: Path, sapwood: Any) -> None:
    text = (parsed / "trees.mrg").read_text()
    (parsed / "short").write_text("".join(text.splitlines(keepends=True)[:5]))
    (parsed / "other").write_text(text.replace("sees", "saw"))
    (parsed / "tagged").write_text(text.replace("(S (NP ", "(S (NP-SBJ "))
    (parsed / "empty").write_text("")
    (parsed / "damaged.sapwood").write_bytes(b"PK" + (parsed / "m").read_bytes())
    outcome = sapwood(["compare", *arguments.split()])
    assert (outcome.code, outcome.out) == (code, "")

    assert re.search(message, outcome.err), outcome.err


def test_trees_over_several_lines_are_placed_by_their_last(parsed: Path, sapwood: Any) -> None:
    (parsed / "one.mrg").write_text("(S (NP (N a))\n   (VP (V b)))\n\n(S (N c)\n (V d))\n")
    (parsed / "two.mrg").write_text("(S (NP (N a)) (VP (V b)))\n(S (N c) (V x))\n")
    for command in ("compare one.mrg one.mrg two.mrg", "eval one.mrg two.mrg"):
        assert "sentence 2: words mismatch" in (err := sapwood(command.split()).err)
        assert "(one.mrg:5, two.mrg:2)" in err


def test_options_that_would_do_nothing(folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["eval", "trees.mrg", "trees.mrg", "--sentences", "--seed", "1"])
    assert (outcome.code, "--seed cannot be used with --sentences" in outcome.err) == (2, True)
