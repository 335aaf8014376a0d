"""`ParserModel`: one value for everything that changes a parse."""

from __future__ import annotations

from dataclasses import replace

import pytest

import sapwood
from helpers.made_up import made_up_treebank
from sapwood.inference.batch import TextIO, parse_files

TREES = made_up_treebank(30, 1)


def trained(**settings):
    return sapwood.train(TREES, method="pcfg", **settings)


def test_another_tokeniser_is_another_model(tmp_path):
    one, other = trained(tokeniser="penn"), trained(tokeniser="blanks")
    assert one == trained(tokeniser="penn")
    assert one != other
    assert one.digest() != other.digest()
    assert sapwood.Parser(one).fingerprint() != sapwood.Parser(other).fingerprint()
    (tmp_path / "text.txt").write_text("The dog's here.\n")
    form = TextIO(raw=True)
    parse_files(sapwood.Parser(one), [tmp_path / "text.txt"], tmp_path / "out", form)
    with pytest.raises(sapwood.errors.UsageError, match="parsed with another model"):
        parse_files(sapwood.Parser(other), [tmp_path / "text.txt"], tmp_path / "out", form)
    again = parse_files(sapwood.Parser(trained(tokeniser="penn")), [tmp_path / "text.txt"], tmp_path / "out", form)
    assert [report.skipped for report in again] == [True]


def test_another_threshold_is_another_model():
    one = trained()
    other = one.replace(defaults=replace(one.defaults, threshold=1e-3))
    assert one != other
    assert one.digest() != other.digest()
    assert sapwood.Parser(one).fingerprint() != sapwood.Parser(other).fingerprint()
    assert sapwood.Parser(other).threshold == 1e-3
