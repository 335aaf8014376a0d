"""`sapwood.load`: one call for every kind of file."""

from __future__ import annotations

import pytest

import sapwood
from helpers.made_up import made_up_treebank
from sapwood.errors import InputError, ModelError
from sapwood.lm import Counts, KneserNey, NgramModel, count_text, write_arpa
from sapwood.model.file import save_models
from sapwood.storage.arrays import write_arrays


@pytest.fixture(scope="module")
def corpus():
    return sapwood.Corpus.from_trees(made_up_treebank(10, 1))


def test_grammars(corpus, tmp_path):
    grammar = sapwood.PCFG().fit(corpus)
    grammar.save(tmp_path / "one")
    save_models([grammar, grammar], tmp_path / "two")
    assert sapwood.load(tmp_path / "one") == sapwood.ParserModel.from_grammars(grammar)
    assert sapwood.load(str(tmp_path / "two")) == sapwood.ParserModel.from_grammars([grammar, grammar])
    words = made_up_treebank(1, 1)[0].words()
    assert sapwood.Parser(sapwood.load(tmp_path / "one")).parse_one(words).tree is not None
    assert sapwood.Parser(sapwood.load(tmp_path / "two")).parse_one(words).tree is not None


def test_a_corpus(corpus, tmp_path):
    corpus.save(tmp_path / "corpus")
    found = sapwood.load(tmp_path / "corpus")
    assert isinstance(found, sapwood.Corpus)
    assert found.digest() == corpus.digest()


def test_language_models(tmp_path):
    (tmp_path / "text").write_text("a b a c\nb a b\n" * 5)
    counts = count_text(tmp_path / "text", order=2)
    counts.save(tmp_path / "counts")
    assert isinstance(sapwood.load(tmp_path / "counts"), Counts)
    model = KneserNey(order=2).fit(counts)
    model.save(tmp_path / "model")
    found = sapwood.load(tmp_path / "model")
    assert isinstance(found, NgramModel)
    assert found.next_words(["a"], 2) == model.next_words(["a"], 2)
    write_arpa(model, tmp_path / "model.arpa")
    assert isinstance(sapwood.load(tmp_path / "model.arpa"), NgramModel)


def test_the_included_model(tmp_path, monkeypatch):
    wanted = sapwood.ParserModel.load(sapwood.default_model_path())
    assert sapwood.load("en") == sapwood.load("default") == sapwood.load(sapwood.default_model_path()) == wanted
    monkeypatch.chdir(tmp_path)
    (tmp_path / "en").write_text("no model")
    with pytest.raises(ModelError, match="en: not a sapwood file"):
        sapwood.load("en")


def test_what_is_not_there(tmp_path):
    with pytest.raises(InputError, match="xx: no such file or directory, nor an installed model; installed are: en; "):
        sapwood.load("xx")
    with pytest.raises(InputError, match=r"xx\.sapwood: no such file or directory$"):
        sapwood.load("xx.sapwood")
    with pytest.raises(InputError, match="is a directory"):
        sapwood.load(tmp_path)


def test_kinds_that_cannot_be_used(tmp_path):
    for kind, problem in (("checkpoint", "the state of a training run"), ("other", "holds a other")):
        write_arrays(tmp_path / kind, {}, {}, kind=kind, version=1)
        with pytest.raises(ModelError, match=problem):
            sapwood.load(tmp_path / kind)
