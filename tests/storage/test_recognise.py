"""Files of the wrong kind are called what they are."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest

from sapwood import Corpus, ParserModel, Tree, read_trees
from sapwood.errors import InputError, ModelError
from sapwood.learn import PCFG
from sapwood.storage.recognise import describe_start, kind_of_start

TREES = "( (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks))))\n" * 200


@pytest.fixture
def files(tmp_path: Path) -> Path:
    corpus = Corpus.from_trees([Tree.parse("(S (A a) (B b))")])
    PCFG().fit(corpus).save(tmp_path / "model.sapwood")
    corpus.save(tmp_path / "corpus.bin")
    content = (tmp_path / "model.sapwood").read_bytes()
    (tmp_path / "half.sapwood").write_bytes(content[:200])
    (tmp_path / "model.sapwood.gz").write_bytes(gzip.compress(content))
    (tmp_path / "trees.mrg").write_text(TREES)
    (tmp_path / "trees.mrg.gz").write_bytes(gzip.compress(TREES.encode()))
    (tmp_path / "trees.mrg.bz2").write_bytes(bz2.compress(TREES.encode()))
    (tmp_path / "cut.mrg.gz").write_bytes(gzip.compress(TREES.encode())[:60])
    (tmp_path / "notes.txt").write_text("It rained (all day).\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "noise").write_bytes(b"\x80\x00\xff" * 40)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("trees.mrg", r"not a sapwood file, but a treebank; `sapwood train \S+ -o model.sapwood` makes a model of it"),
        ("trees.mrg.gz", "not a sapwood file, but a treebank compressed with gzip; `sapwood train"),
        ("model.sapwood.gz", "not a sapwood file, but a model compressed with gzip; decompress it first"),
        ("half.sapwood", r"not a sapwood file \(damaged or truncated within its header\); copy or train it again"),
        ("notes.txt", "not a sapwood file, but a text file; `sapwood train` writes models"),
        ("empty", "not a sapwood file, but an empty file; `sapwood train` writes models"),
        ("noise", r"not a sapwood file \(or damaged at its start\); `sapwood train` writes models"),
        ("corpus.bin", "holds a corpus, not a"),
    ],
)
def test_other_files_given_as_models(files: Path, name: str, message: str) -> None:
    with pytest.raises(ModelError, match=f"{name}: {message}"):
        ParserModel.load(files / name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "model.sapwood",
            r"a model written by sapwood, not a text file or treebank; pass it where a model is expected \(-m\)",
        ),
        ("model.sapwood.gz", "a model written by sapwood, not a text file or treebank; decompress it, and pass it"),
        ("corpus.bin", "a corpus written by sapwood, not a text file or treebank"),
        ("cut.mrg.gz", "damaged or truncated gzip file"),
        ("noise", "1:1: not valid UTF-8"),
    ],
)
def test_other_files_given_as_treebanks(files: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=f"{name}:.*{message}"):
        list(read_trees(files / name))


def test_kinds() -> None:
    assert kind_of_start(b"(S (A b))") == "trees"
    assert kind_of_start(b"\xef\xbb\xbf( (S (A b)))") == "trees"
    assert kind_of_start(b"(\n  (S\n (A b)))") == "trees"
    assert kind_of_start(b"#FORMAT 3\n#BOS 1") == "trees"
    assert kind_of_start(b"(He said so.) Then he left.") == "text"
    assert kind_of_start("é".encode() * 2000 + b"\xc3") in ("text", "binary")
    assert describe_start("no such file") == ""
