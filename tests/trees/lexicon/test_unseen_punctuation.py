"""Punctuation that no training tree has: all parts of a model treat it as known punctuation of its kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood import Corpus, Parser
from sapwood.grammar.io.text import read_text, write_text
from sapwood.learn import PCFG
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.model import ParserModel
from sapwood.model.forest_crf import GROUPS, FeatureVocabulary, ForestCRF
from sapwood.model.installed import default_model_path
from sapwood.trees.lexicon.lexicon import Lexicon
from sapwood.trees.lexicon.signatures import SignatureModel
from sapwood.trees.lexicon.unseen_punctuation import KnownPunctuation, kind_of

SENTENCE = ["the", "balora", "kenild", "a", "tomora", "of", "a", "dalora", "in", "a", "fenora"]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus.from_trees(made_up_treebank(60))


@pytest.fixture(scope="module")
def model(corpus) -> ParserModel:
    """A PCFG with a CRF and a span scorer, both of which depend on the words."""
    rng = np.random.default_rng(1)
    vocabulary = FeatureVocabulary.count([["the", ".", ".", "."]], least=1)
    places, values = np.arange(1 << 10, dtype=np.uint32), rng.normal(size=1 << 10).astype(np.float32)
    groups = tuple(group for group in GROUPS if group != "classes")
    crf = replace(
        ForestCRF.identity(), bits=10, places=places, values=values, frequent=vocabulary, groups=groups
    ).with_scorer_weight(0.5)
    scorer = SpanScorerTrainer(embedding=4, hidden=4, layers=1, span_hidden=4, epochs=1).fit(corpus)
    return ParserModel.from_grammars(PCFG().fit(corpus)).replace(crf=crf, span_scorer=scorer)


def without_stand_ins(model: ParserModel) -> ParserModel:
    """Return the model with the signatures of older files."""
    grammar = model.grammar
    lexicon = replace(grammar.lexicon, model=replace(grammar.lexicon.model, stand_ins=False))
    return model.replace(grammars=(replace(grammar, emissions=replace(grammar.emissions, lexicon=lexicon)),))


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("?", "end"), ("?!", "end"), ("…", "end"), ("。", "end"), (";", "pause"), ("—", "dash"), ("--", "dash"),
        ("-", "hyphen"), ("«", "opening quote"), ("``", "opening quote"), ("''", "closing quote"), ('"', "quote"),
        ("(", "opening"), ("-LRB-", "opening"), ("-RCB-", "closing"), ("¿", "inverted"), ("'", "apostrophe"),
        ("/", "other"), ("%", None), ("$", None), ("PUNCT", None), ("e-mail", None), ("", None),
    ],
)  # fmt: skip
def test_kinds(word, kind):
    assert kind_of(word) == kind


@pytest.mark.parametrize(
    ("known", "word", "expected"),
    [
        (". ! ,", "?", "."), ("! . ,", "?", "!"), (",", "?", ","), ("( , .", "[", "("), (") ( .", "]", ")"),
        ('" , .', "«", '"'), ("`` '' , .", "»", "''"), ('¡ " .', "¿", "¡"), (", .", "¿", ","), (". --", "–", "--"),
        ("- , .", "—", ","), ("' / * , .", "•", ","), ("the", "?", None), (". ,", "cat", None), (". ,", "$", None),
    ],
)  # fmt: skip
def test_stand_ins(known, word, expected):
    assert KnownPunctuation(known.split()).stand_in(word) == expected


def test_all_parts_of_a_model_treat_an_unseen_mark_like_a_known_one(model):
    parser = Parser(model, marginals=True)
    expected, found = (parser.parse_one([*SENTENCE, mark]) for mark in (".", "!"))
    assert found.tree.words()[-1] == "!"
    assert found.tree.tags() == expected.tree.tags()
    assert found.tree.tags()[-1] == "."
    assert found.log_probability == expected.log_probability
    assert found.marginals == expected.marginals


def test_models_of_older_files_give_it_a_signature(model, tmp_path):
    old = without_stand_ins(model)
    old.save(tmp_path / "old.model")
    found = [Parser(one).parse_one([*SENTENCE, "!"]) for one in (old, ParserModel.load(tmp_path / "old.model"))]
    assert found[0].log_probability == found[1].log_probability
    assert found[0].log_probability != Parser(model).parse_one([*SENTENCE, "!"]).log_probability
    assert "<punctuation>" not in old.grammar.lexicon.name(old.grammar.lexicon.terminal("!", False))
    assert old.grammar.lexicon.stand_in("!") == "!"


def test_words_and_known_punctuation_are_left_alone(model):
    lexicon = model.grammar.lexicon
    assert [lexicon.stand_in(word) for word in ("the", "cat", ".", "$", "x!")] == ["the", "cat", ".", "$", "x!"]
    assert lexicon.name(lexicon.terminal("?", True)) == "."


def test_the_scheme_is_stored(model, tmp_path):
    lexicon = model.grammar.lexicon
    assert lexicon.model.stand_ins
    assert Lexicon.from_arrays(lexicon.to_arrays()).model == lexicon.model
    write_text(model.grammar, tmp_path / "m")
    assert read_text(tmp_path / "m").lexicon.model == lexicon.model


def test_files_without_a_scheme_have_no_stand_ins(model):
    arrays = model.grammar.lexicon.to_arrays()
    del arrays["lexicon.scheme"]
    assert not Lexicon.from_arrays(arrays).model.stand_ins
    assert isinstance(Lexicon.from_arrays(arrays).model, SignatureModel)


def test_the_included_model_parses_as_before():
    assert not ParserModel.load(default_model_path()).grammar.lexicon.model.stand_ins
