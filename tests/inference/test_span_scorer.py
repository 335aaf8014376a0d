"""Span scorers with an encoder: found, missing, or another one."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

from helpers import tiny_encoder
from helpers.made_up import made_up_treebank
from sapwood import Parser, train
from sapwood.encoders.encoder import Encoder
from sapwood.encoders.lookup import VARIABLE
from sapwood.errors import ModelError, SapwoodError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.span_scorer import SpanScorerWarning, open_span_scorer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.model import ParserModel
from sapwood.model.plugged_scorer import PluggedScorer

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

SMALL = SpanScorerTrainer(
    embedding=8, hidden=6, layers=1, span_hidden=8, epochs=2, encoder_features=4, encoder_layer=2, weight=0.7
)


@pytest.fixture(scope="module")
def trees():
    return made_up_treebank(30)


@pytest.fixture(scope="module")
def trained(trees, tmp_path_factory):
    """A model, its file, and the folder of its encoder."""
    folder = tmp_path_factory.mktemp("encoded")
    path, encoder = folder / "model.sapwood", tiny_encoder.bert_folder(folder / "tiny")
    model = train(trees, method="pcfg", span_scorer=SMALL, encoder=encoder, output=path)
    return model, path, encoder


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def parses(parser, trees):
    return [parser.parse_one(tree.words()).tree for tree in trees]


def test_a_model_remembers_the_encoder_but_does_not_contain_it(trained, trees, monkeypatch):
    model, path, folder = trained
    expected = parses(Parser(model), trees)  # that it was trained with
    found = ParserModel.load(path)
    assert found == model
    assert found.digest() == model.digest()
    assert parses(Parser(found, encoder=folder), trees) == expected
    monkeypatch.setenv(VARIABLE, str(folder.parent))
    parser = Parser(path)
    assert parses(parser, trees) == expected
    assert parses(pickle.loads(pickle.dumps(Parser(found, encoder=folder))), trees) == expected
    assert parser.fingerprint() == Parser(found, encoder=folder).fingerprint()


def test_scores_are_those_of_the_encoder(trained):
    model, _, folder = trained
    words = ["the", "dogs", "saw", "-LRB-"]
    scorer = model.span_scorer
    vectors = scorer.encoder.project(Encoder(folder).vectors(words, 2, int8=True))
    for part, wanted in zip(open_span_scorer(model).scores(words), scorer.scores(words, vectors), strict=True):
        np.testing.assert_array_equal(part, wanted)


def test_without_the_encoder_grammar_and_crf_parse(trained, trees):
    model, path, _ = trained
    with pytest.warns(SpanScorerWarning, match=f"the encoder tiny .* is missing.*{VARIABLE}"):
        parser = Parser(path)
    plain = Parser(model.replace(span_scorer=None))
    assert parses(parser, trees) == parses(plain, trees)
    assert parser.fingerprint() != Parser(model).fingerprint()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Parser(path, crf=False)  # needs none


def test_another_encoder_is_refused(trained, tmp_path):
    _, path, folder = trained
    with pytest.raises(UsageError, match="not the encoder that the model was trained with"):
        Parser(path, encoder=tiny_encoder.bert_folder(tmp_path / "other", seed=1))
    with pytest.raises(UsageError, match="uses no encoder"):
        Parser("en", encoder=folder)


def test_eight_bits_and_resuming_are_settings(trained, trees, tmp_path):
    _, _, folder = trained
    with pytest.raises(UsageError, match="an encoder requires a span scorer"):
        train(trees, method="pcfg", span_scorer=False, encoder=folder)
    usual, _, _ = trained
    assert usual.span_scorer.encoder.int8
    model = train(trees, method="pcfg", span_scorer=SMALL.replace(encoder_int8=False), encoder=folder)
    assert not model.span_scorer.encoder.int8
    assert model.meta["network"]["encoder"] == {"name": "tiny", "digest": Encoder(folder).digest}
    assert all(one is not None for one in parses(Parser(model), trees))


PLUGIN = """
import numpy as np
from sapwood.model.span_scorer import SpanScores

class Brackets:
    labels, tags, prune_below = ["NP", "XX"], ["NN"], 0.0

    def __init__(self, argument):
        self.span = tuple(map(int, argument.split()))

    def scores(self, words):
        n = len(words)
        spans = np.zeros((n * (n + 1) // 2, 2))
        i, j = self.span
        spans[j * (j - 1) // 2 + i, 0] = 20
        return SpanScores(spans, np.zeros((n if i < 7 else 1, 1)))
"""


def test_a_span_scorer_of_another_package(install_plugin, tmp_path):
    grammar = TensorGrammar.from_parts(
        root={"S": 1.0},
        rules={("S", "NP", "N"): 1.0, ("NP", "NP", "N"): 0.01, ("NP", "N", "N"): 0.4, ("NP", "N", "NP"): 0.59},
        words={("N", "a"): 1.0},
    )
    model, words = ParserModel.from_grammars(grammar), ["a"] * 4
    assert str(Parser(model).parse_one(words).tree) == "(ROOT (S (NP (N a) (NP (N a) (N a))) (N a)))"
    with pytest.warns(SpanScorerWarning, match="no installed package has the span scorer brackets"):
        Parser(model.with_plugged_scorer("brackets", "0 2"))
    install_plugin("a_scorer", PLUGIN, "sapwood.span_scorers", brackets="a_scorer:Brackets")
    plugged = model.with_plugged_scorer("brackets", "0 2", weight=1.0)
    plugged.save(tmp_path / "m")
    found = ParserModel.load(tmp_path / "m")
    assert found == plugged
    assert found.plugged_scorer == PluggedScorer("brackets", "0 2")
    assert found.digest() != model.with_plugged_scorer("brackets", "1 3", weight=1.0).digest()
    assert str(Parser(found).parse_one(words).tree) == "(ROOT (S (NP (NP (N a) (N a)) (N a)) (N a)))"
    wrong = model.with_plugged_scorer("brackets", "8 9", weight=1.0)
    with pytest.raises(SapwoodError, match=r"the span scorer brackets: tags must be .* the shape \(9, 1\) for 9 words"):
        Parser(wrong).parse_one(["a"] * 9)


def test_a_plugged_scorer_is_a_name_and_a_line(trained):
    model, _, _ = trained
    with pytest.raises(UsageError, match="a model has one span scorer"):
        model.replace(plugged_scorer=PluggedScorer("brackets"))
    assert model.with_plugged_scorer("brackets").span_scorer is None
    for wrong in (("a/b",), ("a", "two\nlines"), ("a", "x" * 1001)):
        with pytest.raises(UsageError):
            PluggedScorer(*wrong)
    with pytest.raises(ModelError, match="plugged_scorer"):
        PluggedScorer.from_arrays({}, {"name": "", "argument": ""})
