"""`sapwood sample`."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from sapwood import Parser, ParserModel, Tree
from sapwood.learn import PCFG


def test_trees_and_sentences(folder: Path, sapwood: Any) -> None:
    outcome = sapwood(["sample", "m", "-n", "20", "--seed", "1"])
    assert (outcome.code, outcome.err) == (0, "")
    trees = [Tree.parse(line) for line in outcome.out.splitlines()]
    assert len(trees) == 20
    assert {tree.label for tree in trees} == {"ROOT"}
    labels = {node.label for tree in trees for node in tree.nodes()}
    assert not any(mark in label for label in labels for mark in "^|@")  # as in the treebank, not as binarised
    assert sapwood(["sample", "m", "-n", "20", "--seed", "1"]).out == outcome.out
    assert sapwood(["sample", "m", "-n", "20", "--seed", "2"]).out != outcome.out
    tokens = sapwood(["sample", "m", "-n", "20", "--seed", "1", "--to", "tokens"]).out.splitlines()
    assert tokens == [" ".join(tree.words()) for tree in trees]
    known = set(ParserModel.load("m").grammar.lexicon.words)
    assert {word for tree in trees for word in tree.words()} <= known
    unknown = sapwood(["sample", "m", "-n", "200", "--unknown", "--to", "tokens"]).out
    assert "<" in unknown
    assert all(len(line.split()) <= 6 for line in sapwood(
        ["sample", "m", "-n", "50", "--max-words", "6", "--to", "tokens"]).out.splitlines())  # fmt: skip


def test_frequencies_are_probabilities_and_an_ensemble_is_a_mixture() -> None:
    texts = ["(ROOT (S (A x) (B y)))", "(ROOT (S (A x) (B z)))", "(ROOT (S (A z) (B z)))"]
    first = PCFG().fit(PCFG.prepare(map(Tree.parse, texts)))
    # The same symbols, rules and words with other weights.
    second = PCFG().fit(PCFG.prepare(map(Tree.parse, [*texts, *texts[2:] * 5])))
    model = ParserModel.from_grammars([first, second])
    trees = [Tree.parse(f"(ROOT (S (A {a}) (B {b})))") for a in "xz" for b in "yz"]
    count = 4000
    found = Counter(map(str, model.sample(count, random_state=0)))
    for tree in trees:
        expected = (
            sum(math.exp(Parser(grammar, threshold=0).tree_log_probability(tree)) for grammar in (first, second)) / 2
        )
        assert abs(found[str(tree)] / count - expected) < 5 * math.sqrt(expected / count)


def test_models_without_a_grammar_are_refused(folder: Path, sapwood: Any) -> None:
    Path("text.txt").write_text("the dog sleeps\na cat sleeps\nthe cat sees a dog\n" * 3)
    assert sapwood(["induce", "text.txt", "--model", "dmv", "-o", "heads.sapwood", "-q"]).code == 0
    outcome = sapwood(["sample", "heads.sapwood"])
    assert outcome.code == 2
    assert "no grammar to sample from" in outcome.err
