"""From the treebank to parses with labels as odd as they come: what symbols stand for is never read out of names."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.strategies import odd_labels, trees
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.parser import Parser
from sapwood.learn.lpcfg.em import EM
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.learn.pivot.learner import Pivot
from sapwood.learn.spectral.clustering import StateClustering
from sapwood.learn.spectral.learner import Spectral
from sapwood.trees import symbols as symbols_module
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.symbols import Symbol, SymbolTable
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

AS_IS = Normaliser("none", empties=False, drop=())
TRANSFORMS = [
    TreeTransform(vertical=1, horizontal=0),
    TreeTransform(vertical=2, horizontal=1),
    TreeTransform(vertical=1, horizontal=2, direction="left"),
    TreeTransform(vertical=3, horizontal=1, direction="head", heads="* right\n", annotate_tags=True),
]
stored_labels = odd_labels.filter(lambda label: "\0" not in label)
treebanks = st.lists(
    trees(stored_labels | st.just(""), st.sampled_from("abcd"), tags=stored_labels, max_leaves=8, max_children=5),
    min_size=1,
    max_size=4,
)
# Labels full of the signs that symbols' names are made with, in all places.
ODD = [
    Tree.parse(r"(ROOT (S| (@NP (D^T the) (@ dog)) (V~P (\ saw) (@NP (@NP it)))))"),
    Tree.parse(r"(ROOT (S| (@NP (@ dog)) (V~P (S| (\ ran))) (~| again) (^ .)))"),
    Tree.parse(r"(ROOT (@S~@NP (@NP (D^T the) (a\ old) (@ cat)) (V~P (\ slept) (~| again) (^ .)) (^ .)))"),
] * 3


def save_and_load(thing: Corpus | TensorGrammar) -> Corpus | TensorGrammar:
    with TemporaryDirectory() as folder:
        thing.save(Path(folder) / "file")
        return type(thing).load(Path(folder) / "file")


def renamed(corpus: Corpus) -> Corpus:
    """Return the corpus with names that say nothing, in the same order as before."""
    order = sorted(range(len(corpus.symbols)), key=lambda number: corpus.symbols[number])
    rank = {number: place for place, number in enumerate(order)}
    table = (Symbol(f"@{rank[number]:06}|^~", symbol.parts) for number, symbol in enumerate(corpus.symbols))
    return replace(corpus, symbols=SymbolTable(tuple(table)))


@examples(60)
@given(treebanks, st.sampled_from(TRANSFORMS))
def test_odd_labels_are_like_any_others(treebank, transform):
    """With every label replaced by a plain one of its own, everything is the same but the labels."""
    clean = [tree for tree in map(AS_IS, treebank) if tree is not None]
    labels = sorted({node.label for tree in clean for node in tree.nodes()} - {"ROOT"})
    plain = {"ROOT": "ROOT", **{label: f"L{number}" for number, label in enumerate(labels)}}

    def translated(tree: Tree) -> Tree:
        return tree.fold(lambda node, below: Tree(plain[node.label], below, word=node.word))

    corpus = save_and_load(Corpus.from_trees(treebank, normaliser=AS_IS, transform=transform))
    assert [transform.invert(corpus.tree(number)) for number in range(corpus.n_trees)] == clean
    twin = Corpus.from_trees(map(translated, clean), normaliser=AS_IS, transform=transform)
    ours, theirs = (
        Parser(save_and_load(PCFG().fit(trees)), threshold=0, decoder="viterbi") for trees in (corpus, twin)
    )
    for tree in clean:
        found, expected = ours.parse_one(tree.words()), theirs.parse_one(tree.words())
        assert (found.status, expected.status) == ("parsed", "parsed")
        assert math.isclose(found.log_probability, expected.log_probability, rel_tol=1e-9)
        for some in (tree, found.tree):
            probability = theirs.tree_log_probability(translated(some))
            assert math.isclose(ours.tree_log_probability(some), probability, rel_tol=1e-9)
            assert probability > -math.inf


@examples(30)
@given(treebanks, st.sampled_from(TRANSFORMS), st.sampled_from(["viterbi", "max-rule", "recall"]))
def test_names_are_only_shown(treebank, transform, decoder):
    corpus = Corpus.from_trees(treebank, normaliser=AS_IS, transform=transform)
    other = save_and_load(renamed(corpus))
    assert [transform.invert(other.tree(n)) for n in range(other.n_trees)] == [
        transform.invert(corpus.tree(n)) for n in range(corpus.n_trees)
    ]
    ours, theirs = (
        Parser(save_and_load(PCFG().fit(trees)), threshold=0, decoder=decoder, marginals=True, alternatives=3)
        for trees in (corpus, other)
    )
    assert set(theirs.grammar.symbols) & set(ours.grammar.symbols) == set()
    for number in range(corpus.n_trees):
        words = corpus.sentence(number)
        assert theirs.parse_one(words) == ours.parse_one(words)
        assert theirs.sample(words, 2, random_state=0) == ours.sample(words, 2, random_state=0)


LEARNERS = [
    PCFG(),
    EM(states=2, iterations=3, random_state=1),
    EM(states=2, iterations=3, random_state=1, unaries="collapsed"),
    SplitMerge(cycles=1, random_state=1),
    Spectral(states=2),
    StateClustering(states=2),
    Pivot(states=2),
]


@pytest.mark.parametrize("transform", TRANSFORMS[1:])
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_learners_do_not_read_names(learner, transform, monkeypatch):
    """A grammar learned from symbols whose names say nothing, or may not be read, is the same to the last bit."""
    corpus = Corpus.from_trees(ODD, normaliser=AS_IS, transform=transform)
    grammar = learner.fit(corpus)

    def refuse(name: str) -> Symbol:
        raise AssertionError(f"{name} was taken apart")

    monkeypatch.setattr(symbols_module, "parse_symbol", refuse)
    for same in (Corpus.from_trees(ODD, normaliser=AS_IS, transform=transform), renamed(corpus)):
        again = save_and_load(learner.fit(save_and_load(same)))
        assert again.symbols.parts == grammar.symbols.parts
        for name in ("states", "rules", "tensors", "root", "occupancy", "rule_counts"):
            assert np.array_equal(getattr(again, name), getattr(grammar, name)), name
        for name, array in grammar.emissions.to_arrays().items():
            assert np.array_equal(again.emissions.to_arrays()[name], array), name
        for threshold in (0, 1e-3):
            ours, theirs = (Parser(some, threshold=threshold, marginals=True) for some in (grammar, again))
            for tree in ODD[:3]:
                for phrases in ((), [(0, len(tree), "S|")] if tree.children[0].label == "S|" else ()):
                    expected = repr(ours.parse_one(tree.words(), phrases=phrases))
                    assert repr(theirs.parse_one(tree.words(), phrases=phrases)) == expected
                assert repr(theirs.tree_log_probability(tree)) == repr(ours.tree_log_probability(tree))
