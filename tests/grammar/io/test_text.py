from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from oracles.unary_dump import write_dump
from sapwood import Corpus, Parser, Tree
from sapwood.errors import InputError, SapwoodError
from sapwood.grammar.io.berkeley import import_berkeley
from sapwood.grammar.io.text import read_text, write_text
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn import EM, PCFG, SplitMerge
from sapwood.learn.spectral import Spectral
from sapwood.testing.grammars import random_grammar
from sapwood.trees.transform import TreeTransform

TREES = [
    "(ROOT (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat))) (. .)))",
    "(ROOT (S (NP (PRP it)) (VP (VBD rained) (ADVP (RB again)))))",
    "(ROOT (NP (NP (NN rain)) (CC and) (NP (JJ cold) (NN snow))))",
    "(ROOT (S (NP (NNS dogs)) (VP (VBP bark))))",
    "(ROOT (NP (NN <dog>) (NN a-U+0020-b) (NN -LRB-) (NN <)))",
    "(ROOT (NP-U+0020-X (NP (NN rain)) (NP (NN ROOT) (X (X y)))))",
    "(ROOT (S (NN so)) (S (NN what)))",
] * 3
SENTENCES = [["the", "dog", "rained", "."], ["it", "saw", "Unknown", "snow", "again"], ["<dog>", "a b", "("], ["so"]]


@lru_cache(None)
def grammars() -> dict[str, TensorGrammar]:
    trees = [Tree.parse(tree) for tree in TREES]
    corpus = Corpus.from_trees(trees)
    annotated = Corpus.from_trees(trees, transform=TreeTransform(vertical=2, horizontal=1, annotate_tags=True))
    return {
        "pcfg": PCFG().fit(annotated),
        "em": EM(states=2, iterations=3, min_support=1, random_state=1).fit(corpus),
        "split-merge": SplitMerge(cycles=2, iterations=3, min_support=1).fit(corpus),
        "spectral": Spectral(states=2, min_support=1).fit(corpus),
        "random": random_grammar(np.random.default_rng(1), interminals=3, preterminals=3, states=(1, 3)),
    }


@pytest.mark.parametrize("name", grammars())
def test_a_grammar_comes_back(name, tmp_path):
    grammar = grammars()[name]
    files = write_text(grammar, tmp_path / "m")
    assert [file.name for file in files] == ["m.grammar", "m.lexicon", "m.words", "m.counts", "m.json"]
    again = read_text(tmp_path / "m")
    for field in ("rules", "states", "root", "occupancy", "rule_counts"):
        np.testing.assert_array_equal(getattr(again, field), getattr(grammar, field))
    np.testing.assert_array_equal(again.tensors, grammar.tensors)
    assert again.tensors.dtype == grammar.tensors.dtype
    assert len(again.levels) == len(grammar.levels)
    for one, other in zip(again.levels, grammar.levels, strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.symbols == grammar.symbols
    assert (again.transform, again.normaliser) == (grammar.transform, grammar.normaliser)
    assert again.lexicon.words == grammar.lexicon.words
    assert again.lexicon.model == grammar.lexicon.model
    for terminal in range(grammar.lexicon.n_terminals):
        np.testing.assert_allclose(again.emissions.row(terminal), grammar.emissions.row(terminal), rtol=0, atol=1e-14)
    for sentence in SENTENCES:
        one, other = (Parser(model).parse_one(sentence) for model in (grammar, again))
        assert (one.tree, one.status) == (other.tree, other.status)


def test_an_imported_grammar_comes_back(tmp_path):
    grammar = import_berkeley(write_dump(tmp_path))
    write_text(grammar, tmp_path / "m")
    again = read_text(tmp_path / "m")
    assert again.lexicon.model == grammar.lexicon.model
    np.testing.assert_array_equal(again.tensors, grammar.tensors)


def test_lexical_lines_are_probabilities_of_words(tmp_path):
    """What others read needs no knowledge of back-off: the weight of a word in each state."""
    grammar = grammars()["split-merge"]
    write_text(grammar, tmp_path / "m")
    line = next(line for line in Path(tmp_path / "m.lexicon").read_text().splitlines() if line.startswith("NN dog ["))
    found = json.loads(line.removeprefix("NN dog "))
    np.testing.assert_array_equal(found, grammar.lexical_vector(grammar.symbol_number("NN", preterminal=True), "dog"))
    # NN and NP|NN have the same words, once.
    assert not any(line.startswith("NP|NN ") for line in Path(tmp_path / "m.lexicon").read_text().splitlines())


def test_rules_that_are_written_are_all_there_are(tmp_path):
    grammar = grammars()["em"]
    write_text(grammar, tmp_path / "m")
    lines = Path(tmp_path / "m.grammar").read_text().splitlines()
    assert len(lines) >= np.count_nonzero(grammar.tensors) + np.count_nonzero(grammar.root)
    first = next(line for line in lines if not line.startswith("ROOT'_0"))
    assert len(first.split()) == 5


CHANGES = [
    (".json", '"version": 1', '"version": 2', "version 2 of the format"),
    (".json", '"format"', '"farmat"', "does not belong to a grammar"),
    (".json", "{", "[", "not JSON"),
    (".json", '"states": 2', '"states": 0', "0 states"),
    (".json", '"scheme": "learned+stand-ins"', '"scheme": "x"', "scheme"),
    (".json", '"intermediate": false', '"intermediate": 3', "intermediate"),
    (".grammar", "_0", "_7", "state 7"),
    (".grammar", "ROOT'_0 ->", "ROOT'_0 -> ROOT'_0", "ROOT' is the start symbol"),
    (".lexicon", "<UNK>", "<UNKX>", "neither a word nor a signature"),
    (".words", " <", " <?", "no signature is <"),
    (".words", "\n", " x\n", "a line is 'word <signature> 0.01'"),
    (".counts", "_0 ", "_9 ", "not of a state or a rule"),
]


@pytest.mark.parametrize(("ending", "old", "new", "message"), CHANGES)
def test_what_is_malformed_is_refused(ending, old, new, message, tmp_path):
    write_text(grammars()["em"], tmp_path / "m")
    path = tmp_path / f"m{ending}"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(SapwoodError, match=message):
        read_text(tmp_path / "m")


def test_missing_lines_are_noticed(tmp_path):
    write_text(grammars()["em"], tmp_path / "m")
    counts = tmp_path / "m.counts"
    counts.write_text("\n".join(counts.read_text().splitlines()[1:]))
    with pytest.raises(InputError, match="nothing of"):
        read_text(tmp_path / "m")
