"""A made-up treebank: a small language with regular endings, names, numbers and unary chains."""

from __future__ import annotations

import numpy as np

from sapwood.evaluate import Scorer
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.trees.tree import Tree

_ONSETS = ["b", "d", "f", "g", "k", "l", "m", "p", "r", "t", "v", "z"]
_RHYMES = ["al", "en", "il", "om", "ur", "ask", "ent"]
STEMS = [onset + rhyme for onset in _ONSETS for rhyme in _RHYMES]


class Writer:
    """Writes random sentences; nouns end in -ora, verbs in -ild, adjectives in -uesk, names are capitalised."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def stem(self) -> str:
        # A few stems are frequent, most are rare.
        return STEMS[min(int(self.rng.pareto(0.7)), len(STEMS) - 1)]

    def noun_phrase(self, depth: int = 0) -> Tree:
        if self.chance(0.2):
            return Tree("NP", [Tree("NNP", word=self.stem().capitalize())])
        noun = Tree("N", word=self.stem() + "ora")
        if self.chance(0.2):
            return Tree("NP", [noun])
        children = [Tree("DT", word="the" if self.chance(0.7) else "a")]
        if self.chance(0.2):
            children.append(Tree("CD", word=str(self.rng.integers(10, 10_000))))
        children += [Tree("JJ", word=self.stem() + "uesk") for _ in range(self.rng.integers(0, 3))]
        phrase = Tree("NP", [*children, noun])
        if depth < 2 and self.chance(0.3):
            return Tree("NP", [phrase, self.prepositional_phrase(depth + 1)])
        return phrase

    def prepositional_phrase(self, depth: int = 0) -> Tree:
        return Tree("PP", [Tree("P", word=str(self.rng.choice(["of", "in", "by"]))), self.noun_phrase(depth)])

    def verb_phrase(self) -> Tree:
        children = [Tree("V", word=self.stem() + "ild")]
        if self.chance(0.6):
            children.append(self.noun_phrase())
        children += [self.prepositional_phrase() for _ in range(self.rng.integers(0, 3))]
        if self.chance(0.1):
            children.append(Tree("S", [Tree("VP", [Tree("V", word=self.stem() + "ild"), self.noun_phrase()])]))
        return Tree("VP", children)

    def sentence(self) -> Tree:
        if self.chance(0.05):
            return Tree("ROOT", [self.noun_phrase()])
        children = [self.noun_phrase(), self.verb_phrase(), Tree(".", word=".")]
        if self.chance(0.2):
            children.insert(0, self.prepositional_phrase())
        return Tree("ROOT", [Tree("S", children)])


def made_up_treebank(count: int, seed: int = 0) -> list[Tree]:
    """Return so many trees, the same ones every time."""
    writer = Writer(seed)
    return [writer.sentence() for _ in range(count)]


def relabelled(tree: Tree) -> Tree:
    """Return a tree whose labels say hardly anything: what they said is for hidden states to find."""

    def visit(node: Tree, children: list[Tree]) -> Tree:
        label = node.label if node.label in ("ROOT", ".", "CD") else "X" if node.word else "XP"
        return Tree(label, children, word=node.word)

    return tree.fold(visit)


def f1(grammar: TensorGrammar, gold: list[Tree]) -> float:
    """Return how well a grammar parses the sentences of some trees."""
    scorer = Scorer()
    for tree, result in zip(gold, Parser(grammar).parse([list(tree.words()) for tree in gold]), strict=True):
        scorer.add(tree, result.tree)
    return scorer.result().f1
