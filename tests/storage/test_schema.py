"""Nothing of a file is used before it fits what is declared of its kind, and the documentation says the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import pytest

from fuzz.mutations import Content, file_of
from fuzz.targets import STORED
from sapwood.errors import ModelError
from sapwood.induction import em as climbing
from sapwood.induction import gradient_training
from sapwood.induction.induced_model import INDUCED
from sapwood.learn.lpcfg.em_loop import CHECKPOINT
from sapwood.learn.semi_supervised.data import CHECKPOINT as TEACHER
from sapwood.learn.spectral.state_search import SCORES
from sapwood.lm import checkpoint as resuming
from sapwood.lm.counts.counts import COUNTS
from sapwood.lm.io import LatentBigram, MixedOrder, Mixture, NgramModel
from sapwood.lm.latent.trainer import STATE
from sapwood.model.file import BUNDLE, MODEL
from sapwood.storage.arrays import pack_strings
from sapwood.storage.schema import Column, Schema, check_json
from sapwood.trees.corpus import CORPUS

SCHEMAS = {
    schema.kind: schema
    for schema in (
        MODEL, BUNDLE, CORPUS, CHECKPOINT, SCORES, TEACHER, COUNTS, resuming.CHECKPOINT, INDUCED, climbing.CHECKPOINT,
        gradient_training.CHECKPOINT,
        *(model.schema for model in (LatentBigram, MixedOrder, Mixture, NgramModel)),
    )
}  # fmt: skip


class Sizes(TypedDict):
    n: int


TWO = Schema(
    "two",
    1,
    "thing",
    "make it again",
    (
        Column("names", "text", "names"),
        Column("row", "int32", "names", least=0, below="n"),
        Column("offsets", "int64", "n+1", offsets_of="entries"),
        Column("entries", "float", "entries", least=0, sums=0),
        Column("pairs", "int32", "pairs 2", rises=True),
        Column("sizes", "int32", "n", total="all"),
        Column("wide", "float64", "all"),
        Column("more.*", "uint8", "n"),
        Column("extra", "uint8", "n", along="extra"),
    ),
    Sizes,
)
GOOD = {
    "names": pack_strings(["a", "b"]),
    "row": np.array([2, 0], np.int32),
    "offsets": np.array([0, 1, 1, 4]),
    "entries": np.full(4, 0.25, np.float32),
    "pairs": np.array([[0, 1], [1, 0], [1, 1]], np.int32),
    "sizes": np.array([1, 0, 1], np.int32),
    "wide": np.zeros(2),
    "more.0": np.zeros(3, np.uint8),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"row": np.array([3, 0], np.int32)}, "row: has values from 0 to 3, not 0 to 2"),
        ({"row": np.array([2], np.int32)}, r"row: has the shape \(1,\), expected \(names\) with names = 2"),
        ({"row": np.array([2, 0])}, "row: is of type int64, not int32"),
        ({"row": None}, "row: missing"),
        ({"names": np.array([97, 98], np.uint8)}, "names: stored text is cut off"),
        ({"names": np.array([255, 0], np.uint8)}, "names: stored text is not UTF-8"),
        ({"offsets": np.array([0, 2, 1, 4])}, "offsets: does not rise from 0 to 4"),
        ({"offsets": np.array([1, 1, 1, 4])}, "offsets: does not rise from 0 to 4"),
        ({"offsets": np.array([0, 2**62, -(2**62), 4])}, "offsets: does not rise from 0 to 4"),
        ({"entries": np.full(4, 0.3)}, "entries: does not sum to 1"),
        ({"entries": np.full(4, np.nan)}, "entries: has a value that is not a finite number"),
        ({"entries": np.array([0.5, 0.5, np.inf, 0])}, "entries: has a value that is not a finite number"),
        ({"entries": np.array([1.5, -0.5, 0, 0])}, "entries: has values from -0.5 to 1.5, not 0 or more"),
        ({"pairs": GOOD["pairs"][::-1]}, "pairs: is not sorted"),
        ({"pairs": GOOD["pairs"][[0, 1, 1]]}, "pairs: is not sorted, or has something twice"),
        ({"wide": np.zeros(3)}, r"wide: has the shape \(3,\), expected \(all\) with all = 2"),
        ({"more.2": np.zeros(3, np.uint8)}, "more.1: missing"),
        ({"extra": np.zeros(4, np.uint8)}, "extra: has the shape"),
        ({"unknown": np.zeros(1)}, "'unknown': no array of a thing"),
    ],
)
def test_arrays_that_do_not_fit(changes, message):
    TWO.check(GOOD, {"n": 3})
    arrays = {name: array for name, array in {**GOOD, **changes}.items() if array is not None}
    with pytest.raises(ModelError, match=f"^{message}"):
        TWO.check(arrays, {"n": 3})


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (-1, int, "-1 is not a size"),
        (True, int, "True is not a size"),
        (2**60, int, "is not a size"),
        (float("nan"), float, "nan is not a finite number"),
        (1, bool, "1 is not of type bool"),
        ("x", Literal["a", "b"], "'x' is none of a, b"),
        (["a", 1], list[str], r"'\[1\]': 1 is not of type str"),
        ({"n": 1, "m": 2}, Sizes, "'m': no value that is known here"),
        ({}, Sizes, "'n': missing"),
        ({"a": "\x1b[31m"}, dict[str, int], r"'a': '\\x1b\[31m' is not a size"),
        ([], dict[str, Any], r"\[\] is not of type dict"),
        ("x", int | None, "'x' is none of"),
    ],
)
def test_values_that_do_not_fit(value, kind, message):
    with pytest.raises(ModelError, match=message):
        check_json(value, kind)


def test_values_that_fit():
    check_json({"n": 3}, Sizes)
    check_json({"a": [1, "x", None]}, dict[str, Any])
    check_json(None, int | None)
    check_json(["a"], tuple[str, ...])


@pytest.fixture(scope="module", params=sorted(STORED))
def originals(request) -> tuple[str, list[Content]]:
    return request.param, list(STORED[request.param].originals())


def test_every_array_is_declared_with_its_type(originals, tmp_path):
    """Whichever array of whichever file has another type or one axis more, the message names the file and the array."""
    name, contents = originals
    for arrays, metadata, kind, version in contents:
        for array, values in arrays.items():
            other = np.float64 if values.dtype == np.float16 else np.float16
            for wrong in (values.astype(other), values[..., None]):
                (tmp_path / "file").write_bytes(file_of(({**arrays, array: wrong}, metadata, kind, version)))
                with pytest.raises(ModelError) as caught:
                    STORED[name].use(tmp_path / "file")
                assert str(tmp_path / "file") in str(caught.value)
                assert array.partition("/")[2] or array in str(caught.value)


def test_what_is_saved_fits(originals, tmp_path):
    name, contents = originals
    for content in contents:
        (tmp_path / "file").write_bytes(file_of(content))
        STORED[name].use(tmp_path / "file")


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("ngram-model", lambda a: {"starts": a["starts"] + 2**40}),
        ("ngram-model", lambda a: {"last_words": np.r_[a["last_words"][:7], a["last_words"][:6:-1]]}),
        ("ngram-model", lambda a: {"log_probabilities": np.full_like(a["log_probabilities"], np.nan)}),
        ("ngram-model", lambda a: {"log_probabilities": np.full_like(a["log_probabilities"], 0.1)}),
        ("latent-bigram", lambda a: {"given": a["given"] * 2}),
        ("latent-bigram", lambda a: {"emitted": -a["emitted"]}),
        ("mixture", lambda a: {"weights": a["weights"] * np.nan}),
        ("mixture", lambda a: {"0/starts": a["0/starts"] + 2**40}),
        ("mixed-order", lambda a: {"mixing": a["mixing"] + 1}),
    ],
)
def test_forged_language_models(kind, change, tmp_path):
    """They loaded, and led compiled loops out of their arrays or gave probabilities that are none."""
    arrays, metadata, _, version = next(c for c in STORED["language-model"].originals() if c[2] == kind)
    (tmp_path / "file").write_bytes(file_of(({**arrays, **change(arrays)}, metadata, kind, version)))
    with pytest.raises(ModelError, match=f"file: not a complete .*: ({'|'.join(change(arrays))}): "):
        STORED["language-model"].use(tmp_path / "file")


# What docs/model-files.md says.


def documented(text: str) -> dict[str, set[tuple[str, str, str]]]:
    """Return the arrays of each kind: those in tables below headings that name it."""
    found: dict[str, set[tuple[str, str, str]]] = {}
    kinds: list[str] = []
    for line in text.splitlines():
        if line.startswith("#"):
            kinds = re.findall(r"`([\w-]+)`", line)
        elif row := re.match(r"\| `(\S+)` \| (\w+) \| `([^`]+)` \|", line):
            for kind in kinds:
                found.setdefault(kind, set()).add((row[1], row[2], row[3]))
    return found


def declared(schema: Schema) -> set[tuple[str, str, str]]:
    # Those of parts.
    columns = {BUNDLE.kind: MODEL, resuming.CHECKPOINT.kind: STATE}.get(schema.kind, schema).columns
    rows = {(column.name, column.dtype, column.shape) for column in columns}
    if schema is COUNTS:  # of all orders alike
        return {
            (re.sub(r"_\d$", "_k", name), dtype, re.sub(r"_\d", "_k", re.sub(r" \d", " k", shape)))
            for name, dtype, shape in rows
        }
    return rows


def test_the_documentation_has_every_array_and_nothing_else():
    found = documented((Path(__file__).parents[2] / "docs" / "model-files.md").read_text())
    assert found.keys() == SCHEMAS.keys()
    for kind, schema in SCHEMAS.items():
        assert found[kind] == declared(schema), kind


def test_the_documentation_is_read():
    table = "### Of `model`\n| array | type | shape | |\n|---|---|---|---|\n| `a.*` | int32 | `n+1 3` | what |\n"
    assert documented(table) == {"model": {("a.*", "int32", "n+1 3")}}
