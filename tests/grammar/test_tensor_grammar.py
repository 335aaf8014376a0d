"""The central type: looking things up, comparing, building by hand, changing the basis, describing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sapwood.errors import GrammarError, SapwoodError
from sapwood.grammar.describe import describe, label_counts
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.testing.grammars import random_bases, random_grammar


def parts(**changes):
    """Return the parts of a small grammar with two states for N, some of them replaced."""
    whole = {
        "root": {"S": 1.0},
        "rules": {
            ("S", "N", "V"): np.array([[[0.3], [0.4]]]),
            ("S", "N", "S"): np.array([[[0.1], [0.2]]]),
        },
        "words": {("N", "dogs"): [0.5, 1.0], ("N", "cats"): [0.5, 0.0], ("V", "sleep"): 1.0},
    }
    return {**whole, **changes}


def test_from_parts():
    grammar = TensorGrammar.from_parts(**parts())
    assert grammar.symbols == ["S", "N", "V"]
    assert grammar.n_interminals == 1
    assert grammar.states.tolist() == [1, 2, 1]
    assert grammar.rules.tolist() == [[0, 1, 0], [0, 1, 2]]
    assert grammar.tensor(0).tolist() == [[[0.1], [0.2]]]
    assert grammar.tensor(1).tolist() == [[[0.3], [0.4]]]
    assert grammar.rule_name(1) == "S -> N V"
    assert grammar.root_vector(0).tolist() == [1.0]
    assert grammar.root_vector(1).tolist() == [0.0, 0.0]
    assert grammar.lexical_vector(1, "dogs").tolist() == [0.5, 1.0]
    assert grammar.lexical_vector(1, "sleep").tolist() == [0.0, 0.0]
    assert grammar.lexical_vector(1, "unheard").tolist() == [0.0, 0.0]
    assert grammar.symbol_number("S") == 0
    assert grammar.symbol_number("V", preterminal=True) == 2
    with pytest.raises(KeyError):
        grammar.symbol_number("V")
    assert grammar.probabilistic
    assert "3 symbols (1-2 states), 2 rules, 3 words" in repr(grammar)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"root": {"X": 1.0}}, r"never expanded: \['X'\]"),
        ({"rules": {("S", "N", "Z"): np.ones((1, 2, 1)) / 2}}, r"never expanded: \['Z'\]"),
        (
            {"rules": {("S", "N", "V"): np.ones((1, 3, 1)) / 3}},
            "N has 3 states in one place and 2 in another",
        ),
        ({"root": {"S": [0.5, 0.5]}}, "S has 1 states in one place and 2 in another"),
        (
            {"rules": {("S", "N", "V"): np.ones((1, 2)) / 2}},
            "S -> N V: give a number or an array with three axes, not 2",
        ),
        ({"rules": {("N", "V", "V"): np.ones((2, 1, 1))}}, r"not both: \['N'\]"),
        ({"root": {"S": 0.5}}, "root probabilities sum to 0.5"),
        ({"root": {}}, "root probabilities sum to 0"),
        ({"words": {}, "rules": {("S", "S", "S"): 1.0}}, "there must be preterminals"),
        ({"rules": {("S", "N", "V"): np.array([[[0.5], [0.4]]])}}, "S, state 0: probabilities sum to 0.9"),
        ({"rules": {("S", "N", "V"): np.array([[[1.5], [-0.5]]])}}, "S -> N V: a probability is negative"),
    ],
)
def test_from_parts_errors(changes, message):
    with pytest.raises(GrammarError, match=message):
        TensorGrammar.from_parts(**parts(**changes))


def test_from_parts_real():
    rules = {("S", "N", "V"): np.array([[[-1.5], [0.25]]])}
    assert not TensorGrammar.from_parts(**parts(rules=rules), probabilistic=False).probabilistic
    with pytest.raises(GrammarError, match="S -> N V: a weight is not a finite number"):
        TensorGrammar.from_parts(**parts(rules={("S", "N", "V"): np.array([[[np.nan], [0.0]]])}), probabilistic=False)


def test_from_parts_with_a_tag_that_begins_like_an_intermediate_symbol():
    grammar = TensorGrammar.from_parts(root={"@": 1.0}, rules={}, words={("@", "x"): 1.0})
    assert grammar.emissions.tags == ["@"]
    assert len(grammar.rules) == 0


def test_equality():
    grammar = TensorGrammar.from_parts(**parts())
    again = TensorGrammar.from_parts(**parts())
    assert grammar == again
    assert grammar == again.with_info(method="otherwise")
    assert grammar != "a grammar"
    tensors = grammar.tensors.copy()
    tensors[0] = np.nextafter(tensors[0], 1)
    assert grammar != replace(grammar, tensors=tensors)
    assert grammar != replace(grammar, symbols=["S", "N", "W"])
    assert grammar != replace(grammar, probabilistic=False)
    assert grammar != replace(grammar, tensors=grammar.tensors.astype(np.float32))
    assert grammar != replace(grammar, emissions=replace(grammar.emissions, values=grammar.emissions.values[::-1]))
    with pytest.raises(TypeError):
        hash(grammar)


def test_with_info_adds():
    grammar = TensorGrammar.from_parts(**parts()).with_info(seed=3)
    assert grammar.info == {"method": "by hand", "seed": 3}


@pytest.mark.parametrize("threshold", [1.0, -0.1, "high"])
def test_a_threshold_that_a_file_says_is_checked(threshold, tmp_path):
    grammar = TensorGrammar.from_parts(**parts())
    grammar.with_info(threshold=0.25).save(tmp_path / "m")
    assert TensorGrammar.load(tmp_path / "m").info["threshold"] == 0.25
    grammar.with_info(threshold=threshold).save(tmp_path / "m")
    with pytest.raises(SapwoodError, match=r"info\.threshold"):
        TensorGrammar.load(tmp_path / "m")


def test_conjugate_by_identities_changes_nothing_but_the_claim():
    grammar = random_grammar(np.random.default_rng(4))
    turned = grammar.conjugate([np.eye(size) for size in grammar.states])
    assert not turned.probabilistic
    assert replace(turned, probabilistic=True) == grammar


def test_conjugate_is_condition_1_to_3():
    """The three conditions of Theorem 1, rule by rule."""
    rng = np.random.default_rng(5)
    grammar = random_grammar(rng, interminals=2, preterminals=2)
    bases = random_bases(rng, grammar)
    turned = grammar.conjugate(bases)
    for rule, (a, b, c) in enumerate(grammar.rules):
        left, right = rng.normal(size=grammar.states[b]), rng.normal(size=grammar.states[c])
        inner = np.einsum("hjk,j,k->h", grammar.tensor(rule), left @ bases[b], right @ bases[c])
        ours = np.einsum("hjk,j,k->h", turned.tensor(rule), left, right)
        np.testing.assert_allclose(ours, inner @ np.linalg.inv(bases[a]), rtol=1e-10, atol=1e-12)
    for a in range(len(grammar.symbols)):
        np.testing.assert_allclose(turned.root_vector(a), bases[a] @ grammar.root_vector(a))
    for a in range(grammar.n_interminals, len(grammar.symbols)):
        expected = grammar.lexical_vector(a, "w1") @ np.linalg.inv(bases[a])
        np.testing.assert_allclose(turned.lexical_vector(a, "w1"), expected)


def test_describe():
    grammar = TensorGrammar.from_parts(**parts()).with_info(seed=17)
    text = grammar.describe()
    for piece in (
        "by hand (probabilistic)",
        "1 interminals, 2 preterminals, 1 to 2 state(s) each",
        "2 binary",
        "3 known",
        "seed         17",
        "S -> N V",
        "most frequent rules",
    ):
        assert piece in text
    # Expected counts: S expands to N S with 0.3, so there are 1 / 0.7 of S and 0.3 / 0.7 of that rule.
    assert f"{1 / 0.7:>12,.6g}  S\n" in text
    assert f"{0.3 / 0.7:>12,.6g}  S -> N S" in text
    assert text.index("S -> N V") < text.index("S -> N S")
    assert "S -> N S" not in grammar.describe(top=1)
    assert "real-valued" in grammar.conjugate([np.eye(size) for size in grammar.states]).describe()


def test_tags_that_binarisation_introduced_have_counts():
    """A forged grammar may have preterminals that stand for no label."""
    grammar = random_grammar(np.random.default_rng(1), interminals=2, preterminals=2)
    odd = replace(grammar, symbols=["A0", "A1", "P0", "@P1"])
    assert list(label_counts(odd)[1]) == ["P0", "@P1"]
    assert "@P1" in describe(odd, top=5)
