"""`sapwood parse --phrases`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from sapwood import Parser


def test_rows_are_the_phrases_of_the_library(folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["parse", "sentences.txt", "-m", "m", "--phrases", "NP,PP", "-q"])
    assert (outcome.code, outcome.err) == (0, "")
    rows = list(csv.DictReader(outcome.out.splitlines(), delimiter="\t"))
    lines = Path("sentences.txt").read_text().splitlines()
    expected = [
        (str(number), one.label, str(one.start), str(one.end), "", one.head, one.text)
        for number, result in enumerate(Parser("m").parse(line.split() for line in lines), 1)
        for one in result.phrases("NP", "PP")
    ]
    names = ("sentence", "label", "start", "end", "start_char", "head", "text")
    assert [tuple(row[name] for name in names) for row in rows] == expected
    assert len(expected) > 3


def test_text_has_characters_and_marginals_probabilities(folder: Path, sapwood: Any) -> None:
    text = "The dog sees a cat. She sleeps."
    outcome = sapwood(["parse", "-s", text, "-m", "m", "--phrases", "NP", "--marginals", "--json"])
    rows = [json.loads(line) for line in outcome.out.splitlines()]
    assert [(row["sentence"], row["head"], text[row["start_char"] : row["end_char"]]) for row in rows] == [
        (1, "dog", "The dog"), (1, "cat", "a cat"), (2, "She", "She"),
    ]  # fmt: skip
    assert all(0 < row["probability"] <= 1 for row in rows)
    outcome = sapwood(["parse", "-s", text, "-m", "m", "--phrases", "NP", "-o", "found.tsv"])
    assert Path("found.tsv").read_text().splitlines()[1] == "1\tNP\t0\t2\t0\t7\tdog\t1\tThe dog"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("np", "--phrases np: the model has no phrases with this label; did you mean 'NP'?"),
        ("xyz", "--phrases xyz: the model has no phrases with this label; it has "),
        ("NN", "--phrases NN: is a tag, not a phrase label; for words with tags, use --to tagged"),
        (",", "--phrases: name at least one label"),
    ],
)
def test_labels_must_be_known(folder: Path, sapwood: Any, labels: str, message: str) -> None:
    outcome = sapwood(["parse", "-s", "dogs", "-m", "m", "--phrases", labels])
    assert outcome.code == 2
    assert message in outcome.err


@pytest.mark.parametrize("extra", [["--to", "draw"], ["-o", "out/"], ["--alternatives", "2", "--json"]])
def test_other_outputs_are_refused(folder: Path, sapwood: Any, extra: list[str]) -> None:
    outcome = sapwood(["parse", "sentences.txt", "-m", "m", "--phrases", "NP", *extra])
    assert outcome.code == 2
    assert "--phrases" in outcome.err
