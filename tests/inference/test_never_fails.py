"""Any tokens get a tree, with no complaint from NumPy (warnings are errors in the tests)."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood
from sapwood.inference import Parser


@pytest.fixture(scope="module")
def parser() -> Parser:
    return Parser(sapwood.default_model_path())


def random_tokens(rng: np.random.Generator, length: int) -> list[str]:
    """Tokens of random Unicode: half of them printable ASCII, the others from all over the planes."""
    tokens = []
    for _ in range(length):
        size = int(rng.integers(1, 9))
        high = 0x7F if rng.random() < 0.5 else 0x2FFFF
        points = rng.integers(0x21, high, size=size)
        text = "".join(chr(point) for point in points if not 0xD800 <= point < 0xE000)
        tokens.append("".join(text.split()) or "x")
    return tokens


def check(parser: Parser, sentences: list[list[str]]) -> None:
    with np.errstate(all="raise", under="ignore"):
        for sentence, result in zip(sentences, parser.parse(sentences), strict=True):
            assert not result.failed, (result.status, sentence)
            assert result.tree.words() == sentence
            # The coarse grammar stands in where the grammar itself has no parse, with its own probability.
            assert result.log_probability is not None
            assert np.isfinite(result.log_probability)


@pytest.mark.slow
def test_random_tokens(parser):
    rng = np.random.default_rng(0)
    check(parser, [random_tokens(rng, int(rng.integers(1, 60))) for _ in range(100)])


@pytest.mark.slow
def test_two_thousand_random_token_sequences_and_five_long_ones(parser):
    rng = np.random.default_rng(1)
    check(parser, [random_tokens(rng, int(rng.integers(1, 121))) for _ in range(2000)])
    check(parser, [random_tokens(rng, 400) for _ in range(5)])


def test_odd_sentences(parser):
    for sentence in (["x"], ["("], [")"], ["-LRB-"], ["\x00"], ["\u200b"], ["😀"] * 3, ["a" * 10_000], ["1", "2"]):
        result = parser.parse_one(sentence)
        assert not result.failed
        assert result.tree.words() == sentence


def test_trees_of_odd_tokens_are_read_back(parser):
    for sentence in (["New York", "is", "big"], [""], ["a\nb", "\x0c", "\t"], ["\u00a0", "(", "-LRB-", "\ud800"]):
        tree = parser.parse_one(sentence).tree
        assert sapwood.Tree.parse(str(tree)) == tree
        assert "\n" not in str(tree)


def test_empty_and_too_long(parser):
    assert parser.parse_one([]).status == "empty"
    short = Parser(parser.model, max_words=3)
    result = short.parse_one(["a", "b", "c", "d"])
    assert (result.status, result.failed) == ("too long", True)
    assert result.tree.words() == ["a", "b", "c", "d"]


def test_a_grammar_without_a_parse_falls_back_to_a_flat_tree():
    corpus = sapwood.Corpus.from_trees([sapwood.Tree.parse("(ROOT (S (N dogs) (V bark)))")])
    result = Parser(sapwood.PCFG().fit(corpus)).parse_one(["dogs", "bark", "dogs", "bark"])
    assert result.status == "flat"
    assert str(result.tree) == "(ROOT (N dogs) (V bark) (N dogs) (V bark))"


def test_a_fine_grammar_without_a_parse_falls_back_to_the_coarse_one():
    trees = [
        "(ROOT (S (NP (D the) (N dog)) (VP (V bark))))",
        "(ROOT (NP (NP (D a) (N cat)) (PP (P of) (NP (N wood)))))",
    ]
    transform = sapwood.TreeTransform(vertical=3, horizontal=2, annotate_tags=True)
    corpus = sapwood.Corpus.from_trees([sapwood.Tree.parse(tree) for tree in trees], transform=transform)
    result = Parser(sapwood.PCFG().fit(corpus)).parse_one(["the", "dog", "of", "wood", "bark"])
    assert result.status == "coarse"
    assert not result.failed
    assert result.log_probability < 0
