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
from sapwood.errors import UsageError
from sapwood.inference.span_scorer import MissingEncoderWarning, open_span_scorer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.model import ParserModel

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
    vectors = scorer.encoder.project(Encoder(folder).vectors(words, 2))
    for part, wanted in zip(open_span_scorer(scorer).scores(words), scorer.scores(words, vectors), strict=True):
        np.testing.assert_array_equal(part, wanted)


def test_without_the_encoder_grammar_and_crf_parse(trained, trees):
    model, path, _ = trained
    with pytest.warns(MissingEncoderWarning, match=f"the encoder tiny .* is missing.*{VARIABLE}"):
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
    model = train(trees, method="pcfg", span_scorer=SMALL.replace(encoder_int8=True), encoder=folder)
    assert model.span_scorer.encoder.int8
    assert model.meta["network"]["encoder"] == {"name": "tiny", "digest": Encoder(folder).digest}
    assert all(one is not None for one in parses(Parser(model), trees))
