"""Hidden states of trees, against all derivations."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest

from sapwood import Corpus, Parser, TensorGrammar, Tree
from sapwood.errors import UsageError
from sapwood.inference.batch import TextIO
from sapwood.inference.forest.tree_states import NodeState, show_states, tree_states
from sapwood.learn import EM, PCFG
from sapwood.learn.spectral import Spectral
from sapwood.testing.grammars import random_grammar
from sapwood.trees.transform import TreeTransform, base_tree

TREES = [
    "(ROOT (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat))) (. .)))",
    "(ROOT (S (NP (PRP it)) (VP (VBD rained) (ADVP (RB again)))))",
    "(ROOT (NP (NP (NN rain)) (CC and) (NP (JJ cold) (NN snow))))",
    "(ROOT (S (NP (NNS dogs)) (VP (VBP bark))))",
] * 4


def all_derivations(grammar: TensorGrammar, skeleton: Tree) -> dict[tuple[int, ...], float]:
    """Return the probability of each assignment of states to the nodes of a skeletal tree, in preorder."""
    nodes = list(skeleton.nodes())
    leaf = [node.word is not None for node in nodes]
    numbers = [
        grammar.symbol_number(node.label, preterminal=is_leaf) for node, is_leaf in zip(nodes, leaf, strict=True)
    ]
    place = {id(node): number for number, node in enumerate(nodes)}
    first = next(number for number, node in enumerate(nodes) if node.word is not None)
    rules = {tuple(rule): number for number, rule in enumerate(grammar.rules.tolist())}
    found = {}
    for states in itertools.product(*(range(grammar.states[number]) for number in numbers)):
        weight = grammar.root_vector(numbers[0])[states[0]]
        for at, node in enumerate(nodes):
            if node.word is not None:
                weight *= grammar.lexical_vector(numbers[at], node.word, initial=at == first)[states[at]]
            else:
                left, right = (place[id(child)] for child in node.children)
                tensor = grammar.tensor(rules[numbers[at], numbers[left], numbers[right]])
                weight *= tensor[states[at], states[left], states[right]]
        found[states] = float(weight)
    return found


def check(grammar: TensorGrammar, sentence: list[str]) -> None:
    parser = Parser(grammar, threshold=0, states=True)
    result = parser.parse_one(sentence)
    if result.failed:  # a random grammar need not have a tree for everything
        return
    assert result.tree is not None
    skeleton = grammar.transform(result.tree)
    derivations = all_derivations(grammar, skeleton)
    best = max(derivations, key=derivations.__getitem__)
    assert result.states is not None
    found = tuple(node.state for node in result.states)
    assert derivations[found] == pytest.approx(derivations[best], rel=1e-9)
    assert [node.symbol for node in result.states] == [node.label for node in skeleton.nodes()]
    total = sum(derivations.values())
    for at, node in enumerate(result.states):
        share = sum(weight for states, weight in derivations.items() if states[at] == node.state) / total
        assert node.probability == pytest.approx(share, rel=1e-9)
    assert math.log(total) == pytest.approx(parser.tree_log_probability(result.tree))


@pytest.mark.parametrize("seed", range(6))
def test_states_are_those_of_the_best_of_all_derivations(seed):
    grammar = random_grammar(np.random.default_rng(seed), interminals=2, preterminals=2, states=(1, 3))
    words = grammar.lexicon.words
    for length in (1, 2, 3, 4):
        check(grammar, [words[(seed + place) % len(words)] for place in range(length)])


def test_states_of_learned_grammars():
    trees = [Tree.parse(tree) for tree in TREES]
    latent = EM(states=2, iterations=4, min_support=1, random_state=1).fit(Corpus.from_trees(trees))
    check(latent, ["dogs", "rained", "again"])
    check(latent, ["it", "bark"])
    # Symbols that know their parents and siblings, with one state each.
    annotated = TreeTransform(vertical=2, horizontal=1, annotate_tags=True)
    fine = PCFG().fit(Corpus.from_trees(trees, transform=annotated))
    result = Parser(fine, states=True).parse_one(["the", "dog", "saw", "a", "cat", "."])
    assert [node.symbol for node in result.states] == [node.label for node in fine.transform(result.tree).nodes()]
    assert {node.state for node in result.states} == {0}
    assert result.state_tree == Tree.parse(
        "(ROOT (S-0 (NP-0 (DT-0 the) (NN-0 dog)) (VP-0 (VBD-0 saw) (NP-0 (DT-0 a) (NN-0 cat))) (.-0 .)))"
    )


@pytest.fixture(scope="module")
def latent() -> TensorGrammar:
    trees = [Tree.parse(tree) for tree in TREES]
    return EM(states=2, iterations=4, min_support=1, random_state=1).fit(Corpus.from_trees(trees))


def test_results_tell_states_of_alternatives_too(latent):
    result = Parser(latent, states=True, alternatives=3).parse_one(["the", "dog", "saw", "rain", "."])
    value = json.loads(json.dumps(result.to_dict()))
    assert value["states"][0][:4] == [0, 5, result.states[0].symbol, result.states[0].state]
    assert len(value["alternatives"]) == len(result.alternative_states) > 1
    for alternative, states in zip(value["alternatives"], result.alternative_states, strict=True):
        assert [row[:4] for row in alternative["states"]] == [list(node[:4]) for node in states]
        shown = show_states(states, result.words)
        # Without what was added it is the tree.
        assert str(shown).count("(") == alternative["tree"].count("(")
    assert "states" not in Parser(latent).parse_one(["it", "rained"]).to_dict()


def test_a_state_stands_behind_the_last_label_of_a_chain():
    states = [NodeState(0, 3, "S", 1, 1.0), NodeState(0, 1, "NP|N", 0, 1.0), NodeState(1, 3, "@S", 2, 1.0),
              NodeState(1, 2, "V", 0, 1.0), NodeState(2, 3, "X|Y|.", 3, 1.0)]  # fmt: skip
    shown = show_states(states, ["dogs", "bark", "."], "TOP")
    assert str(shown) == "(TOP (S-1 (NP (N-0 dogs)) (V-0 bark) (X (Y (.-3 .)))))"


def test_trees_that_the_grammar_does_not_have_have_no_states(latent):
    parser = Parser(latent, states=True)
    _, leaves = parser._lookup.score(["dogs", "bark"])
    for text in ("(S (Q dogs) (VP|VBP bark))", "(S (S dogs) (VP|VBP bark))", "(X (NP|NNS dogs) (VP|VBP bark))"):
        assert tree_states(parser.compiled, leaves, base_tree(Tree.parse(text))) is None
    # A sentence with a flat tree, and an empty one.
    long = Parser(latent, states=True, max_words=1).parse_one(["dogs", "bark"])
    assert (long.status, long.states, long.state_tree) == ("too long", None, None)
    assert parser.parse_one([]).states is None
    assert TextIO(states=True).shown(long) == long.tree


def test_only_one_probabilistic_grammar_has_states(latent):
    with pytest.raises(UsageError, match="hidden states require a single probabilistic grammar"):
        Parser([latent, latent], states=True)
    real = Spectral(states=2, min_support=1).fit(Corpus.from_trees([Tree.parse(tree) for tree in TREES]))
    with pytest.raises(UsageError, match="hidden states"):
        Parser(real, states=True)
    with pytest.raises(UsageError, match="hidden states"):
        Parser(real).with_options(states=True)


def test_a_long_sentence_does_not_run_out_of_numbers(latent):
    result = Parser(latent, states=True).parse_one(["rain", "and"] * 60 + ["snow"])
    assert result.states is not None
    assert all(0 <= node.probability <= 1 + 1e-9 for node in result.states)


@pytest.mark.parametrize("better", [0.3, 0.7])
def test_symbols_that_know_more_than_the_tree_are_chosen_too(better):
    """Two rules of one parent that are the same in the tree: the more probable one is told."""
    grammar = TensorGrammar.from_parts(
        root={"S": 1.0},
        rules={("S", "A^X", "A^X"): better, ("S", "A^Y", "A^Y"): 1 - better},
        words={("A^X", "a"): 1.0, ("A^Y", "a"): 1.0},
    )
    result = Parser(grammar, threshold=0, states=True).parse_one(["a", "a"])
    assert [node.symbol for node in result.states] == ["S", *["A^X" if better > 0.5 else "A^Y"] * 2]
    assert [node.probability for node in result.states] == pytest.approx([1.0, 0.7, 0.7])
