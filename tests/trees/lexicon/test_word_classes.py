"""Classes of words from plain text: how words are known by them, and what is stored."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood import Parser, ParserModel, train
from sapwood.errors import ModelError
from sapwood.grammar.io.text import read_text, write_text
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.trees.lexicon.signatures import SignatureModel
from sapwood.trees.lexicon.word_classes import MOST_LEVELS, WordClasses, class_names

CLASSES = WordClasses(("Rome", "cat", "dog"), np.array([[1, 7], [0, 3], [0, 4]], np.int32))


def test_words_are_known_by_their_classes_first():
    model = SignatureModel(classes=CLASSES)
    known, other = model.chain("dog", initial=False), model.chain("cow", initial=False)
    assert known[-len(other) :] == other
    assert [name.split()[-1] for name in known[: -len(other)]] == ["@1:4", "@0:0"]
    assert model.chain("Dog", initial=False)[0] != known[0]  # it looks like a name
    assert class_names(CLASSES, "rome") == ()
    assert class_names(None, "dog") == ()


def test_levels_are_few():
    with pytest.raises(ModelError, match="levels"):
        WordClasses(("a",), np.zeros((1, MOST_LEVELS + 1), np.int32))
    with pytest.raises(ModelError, match="levels"):
        WordClasses(("a",), np.zeros((1, 0), np.int32))


def test_same_content_is_equal():
    same = WordClasses(CLASSES.words, CLASSES.numbers.copy())
    other = WordClasses(CLASSES.words, CLASSES.numbers + 1)
    assert same == CLASSES != other
    assert same.digest() == CLASSES.digest() != other.digest()
    assert WordClasses.from_dict(CLASSES.to_dict()) == CLASSES
    with pytest.raises(ModelError, match="as many numbers"):
        WordClasses.from_dict({"a": [1], "b": [1, 2]})
    with pytest.raises(ModelError, match="as many numbers"):
        WordClasses.from_dict({"a": [1 << 16]})
    assert repr(CLASSES) == "<WordClasses: 3 words in 2, 3 classes>"


def unseen(word: str) -> str:
    """Return a word that no tree has, and by whose look nothing can be told."""
    return f"q{''.join(chr(97 + ord(char) // 16) + chr(97 + ord(char) % 16) for char in word)}q"


@pytest.fixture(scope="module")
def model() -> ParserModel:
    """Return a model with a CRF and a span scorer, all of which know the classes of words that no tree has, too."""
    trees = made_up_treebank(60)
    tags: dict[str, str] = {}
    for tree in trees:
        tags.update(zip(tree.words(), tree.tags(), strict=True))
    names = sorted(set(tags.values()))
    numbers = {word: [names.index(tag) // 2, names.index(tag)] for word, tag in tags.items()}
    classes = WordClasses.from_dict(numbers | {unseen(word): numbers[word] for word in tags})
    return train(
        trees,
        method="pcfg",
        classes=classes,
        crf=ForestCRFTrainer(epochs=2, folds=2),
        span_scorer=SpanScorerTrainer(epochs=1),
    )


def test_unseen_words_are_like_their_class(model):
    """An unseen word whose class is that of a tag gets this tag, whatever it looks like."""
    parser, right, total = Parser(model), 0, 0
    for tree in made_up_treebank(20):
        pairs = list(zip(tree.words(), tree.tags(), strict=True))
        found = parser.parse_one([unseen(word) if tag in ("N", "V", "JJ") else word for word, tag in pairs]).tree
        assert found is not None
        right += sum(tag == was for tag, was in zip(found.tags(), tree.tags(), strict=True))
        total += len(pairs)
    assert right == total


def test_they_are_stored(model, tmp_path):
    model.save(tmp_path / "m")
    found = ParserModel.load(tmp_path / "m")
    assert found == model
    assert found.grammar.lexicon.classes == model.grammar.lexicon.classes == found.span_scorer.classes
    words = [unseen(word) for word in made_up_treebank(3)[2].words()]
    assert Parser(found).parse_one(words).log_probability == Parser(model).parse_one(words).log_probability


def test_they_are_written_as_text(model, tmp_path):
    grammar = model.grammar
    write_text(grammar, tmp_path / "m")
    assert read_text(tmp_path / "m").lexicon.classes == grammar.lexicon.classes


def test_settings_have_their_digest(model):
    grammar = model.grammar
    assert grammar.info["settings"]["lexical"]["classes"] == grammar.lexicon.classes.digest()
