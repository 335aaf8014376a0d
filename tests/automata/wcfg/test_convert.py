"""Automata as models and as grammars in text: weights of trees and expected counts, against enumeration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.enumerate_terms import all_contexts, all_trees
from sapwood.automata.algebra import conjugate, scale_by_size
from sapwood.automata.automaton import Term, TreeAutomaton
from sapwood.automata.wcfg.convert import from_weighted_grammar, minimise_text, to_model, to_weighted_grammar
from sapwood.automata.wcfg.files import parse_grammar, read_grammar
from sapwood.errors import InputError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.research.random_automata import random_automaton
from sapwood.trees.tree import Tree

TEXT = """\
S -> NP VP [1.0]
NP -> 'dogs' [0.5] | 'cats' [0.3] | NP PP [0.2]
VP -> V NP [0.8] | VP PP [0.2]
PP -> P NP [1.0]
V -> 'see' [1.0]
P -> 'near' [1.0]
"""


def labelled(term: Term) -> Tree:
    return Tree("X", word=term) if isinstance(term, str) else Tree("X", tuple(map(labelled, term)))


def inner_nodes(term: Term) -> int:
    return 0 if isinstance(term, str) else 1 + inner_nodes(term[0]) + inner_nodes(term[1])


@pytest.mark.parametrize("seed", range(3))
def test_a_model_gives_trees_their_weights(seed: int) -> None:
    automaton = random_automaton(np.random.default_rng(seed), states=3, words=2, real=False, radius=0.3)
    parser = Parser(to_model(automaton), threshold=0)
    for term in all_trees(automaton, 3)[0]:
        found = parser.tree_log_probability(Tree("ROOT", (labelled(term),)))
        assert found == pytest.approx(np.log(automaton.weight(term)), abs=1e-4)


@pytest.mark.parametrize("mixed", [False, True])
def test_expected_counts(mixed: bool) -> None:
    """The sums that charts are pruned by, in any basis; trees of six and more inner nodes have hardly any weight."""
    rng = np.random.default_rng(1)
    automaton = scale_by_size(random_automaton(rng, states=2, words=2, real=False, radius=0.2), 0.1)
    basis = rng.normal(size=(2, 2)) if mixed else np.eye(2)
    changed = conjugate(automaton, [basis])
    model = to_model(changed)
    contexts = sum(automaton.context_vector(context) for context in all_contexts(automaton, 4)[0])
    np.testing.assert_allclose(model.occupancy, np.tile(contexts @ basis, 2), rtol=1e-2)
    trees = [(term, automaton.weight(term)) for term in all_trees(automaton, 5)[0]]
    assert model.rule_counts.sum() == pytest.approx(sum(inner_nodes(t) * weight for t, weight in trees), rel=1e-2)
    # Rules have phrases below them, or words, on each side.
    counts = np.zeros(4)
    for term, weight in trees:
        for left, right in pairs_of(term):
            counts[2 * isinstance(left, str) + isinstance(right, str)] += weight
    np.testing.assert_allclose(model.rule_counts, counts, rtol=0.05)


def test_expected_counts_of_rules_without_use() -> None:
    """Only words stand below phrases; the other three kinds of rules are there, and never used."""
    model = to_model(from_weighted_grammar(parse_grammar("S -> A A [0.5]\nA -> 'a' [1.0]")))
    assert model.rule_counts.tolist() == [0.0, 0.0, 0.0, 0.5]
    assert model.occupancy.tolist() == [1.0, 1.0, 1.0, 1.0]


def pairs_of(term: Term) -> list[tuple[Term, Term]]:
    return [] if isinstance(term, str) else [term, *pairs_of(term[0]), *pairs_of(term[1])]


@pytest.mark.slow
def test_sums_that_are_not_finite_do_no_harm() -> None:
    automaton = TreeAutomaton.single([1.0], [[[1.0]]], {"a": [1.0]})
    model = to_model(automaton)
    assert model.rule_counts.tolist() == [1.0] * 4
    assert model.occupancy.tolist() == [1.0, 1.0]
    found = Parser(model).parse_one(["a", "a", "a"])
    assert found.status == "parsed"
    assert found.log_probability == pytest.approx(np.log(2), abs=1e-6)


def test_without_rules_it_knows_words() -> None:
    model = to_model(TreeAutomaton.single([1.0, 0.5], np.zeros((2, 2, 2)), {"a": [0.5, 0.5], "b": [0.25, 0.0]}))
    found = Parser(model, threshold=0).parse_one(["a"])
    assert str(found.tree) == "(ROOT (X a))"
    assert found.log_probability == pytest.approx(np.log(0.75), abs=1e-6)


@pytest.mark.parametrize("states", [6, 5])
def test_a_smaller_grammar_as_text_and_as_model(tmp_path: Path, states: int) -> None:
    source, text, model = (str(tmp_path / name) for name in ("grammar.txt", "small.txt", "small.sapwood"))
    Path(source).write_text(TEXT)
    first, second = (minimise_text(source, output, work=states) for output in (text, model))
    assert first.automaton.n_states == second.automaton.n_states == states
    written = from_weighted_grammar(read_grammar(text))
    parser = Parser(TensorGrammar.load(model))
    sentences = (
        ["dogs", "see", "cats"],
        ["dogs", "near", "cats", "see", "dogs"],
        ["cats", "see", "dogs", "near", "cats"],
    )
    for sentence in sentences:
        found = parser.parse_one(sentence)
        weight = read_grammar(text).weight(sentence)
        if states == 6:
            assert weight == pytest.approx(read_grammar(source).weight(sentence))
        if weight > 1e-9:
            assert np.exp(found.log_probability) == pytest.approx(weight, rel=1e-4)
        else:  # what was least important: phrases with "near"
            assert (states, found.status, "near" in sentence) == (5, "flat", True)
        assert found.tree is not None
        assert found.tree.words() == sentence
    for term in all_trees(written, 2)[0]:
        assert written.weight(term) == pytest.approx(first.automaton.weight(term), abs=1e-12)
    again = to_weighted_grammar(written)
    assert again.weight(sentences[0]) == pytest.approx(read_grammar(text).weight(sentences[0]))


def test_mistakes_are_explained(tmp_path: Path) -> None:
    several = random_automaton(np.random.default_rng(0), states=2, sorts=2)
    with pytest.raises(UsageError, match="only an automaton of one sort"):
        to_model(several)
    large = TreeAutomaton(["X"], (np.ones(600),), np.zeros((0, 3), np.int32), (), (np.ones((1, 600)),), ["a"])
    with pytest.raises(UsageError, match=r"4 x 600\^3 weights; keep fewer states"):
        to_model(large)
    source = tmp_path / "grammar.txt"
    source.write_text("1 -> S\n0.5 S -> a\n")
    with pytest.raises(InputError, match=r"grammar\.txt: no tree has any weight"):
        minimise_text(str(source), str(tmp_path / "model.sapwood"))
    assert not (tmp_path / "model.sapwood").exists()


def test_an_automaton_without_transitions_has_sentences_of_one_word() -> None:
    leaves = np.array([[0.25, 0.0], [0.0, 0.5]])
    automaton = TreeAutomaton(["X"], (np.array([0.5, 1.0]),), np.zeros((0, 3), np.int32), (), (leaves,), ["a", "b"])
    grammar = to_weighted_grammar(automaton)
    assert [grammar.weight(sentence) for sentence in (["a"], ["b"], ["a", "b"])] == [0.125, 0.5, 0.0]
