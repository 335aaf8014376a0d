"""Hand-written context-free grammars as models: rules of any length, unary rules, words among phrases.

A symbol of a model has two children or a word, and stands for a chain of labels. So each nonterminal `X` has
*variants*: every chain of unary rules from `X` to some `Z`, once over `Z`'s longer rules and once over its words, with
the probability that `X` is rewritten so, on which the subtree is then conditioned. Rules with more than two children
get intermediate symbols, and a word next to other symbols a tag of its own (`'word'`, quotes included). All derivations
keep their probabilities.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from sapwood.errors import GrammarError
from sapwood.grammar.expectations import with_expected_counts
from sapwood.grammar.tensor_grammar import TensorGrammar, plain_emissions
from sapwood.trees.normalise import Normaliser
from sapwood.trees.symbols import Symbol, SymbolTable, make_symbol
from sapwood.trees.transform import TreeTransform

# Maximum number of binary rules of a model.
_LARGEST = 1_000_000
# A right-hand side: nonterminals, and words with True.
Side = tuple[tuple[str, bool], ...]
# A symbol of the model, and whether it is a tag.
_Variant = tuple[Symbol, bool]


def quoted_word(word: str) -> str:
    """Return the tag of a word next to other symbols in a rule."""
    return f"'{word}'"


def model_of_productions(start: str, productions: Iterable[tuple[str, Side, float]]) -> TensorGrammar:
    """Return the model of a grammar given by its start symbol and rules `(parent, children, probability)`.

    The probabilities of a parent's rules should sum to 1. Empty rules, cycles of unary rules, and nonterminals without
    rules are refused.
    """
    rules: dict[str, dict[Side, float]] = defaultdict(dict)
    for parent, side, weight in productions:
        if not side:
            raise GrammarError(f"{parent} -> nothing: a model has no empty phrases; remove such rules first")
        if not 0 <= weight < float("inf"):
            raise GrammarError(f"{parent}: a rule has the probability {weight}")
        rules[parent][side] = rules[parent].get(side, 0.0) + weight
    return _Maker(start, rules).model()


class _Maker:
    def __init__(self, start: str, rules: dict[str, dict[Side, float]]) -> None:
        self.start = start
        # The rest of a rule below an intermediate symbol.
        self.rests: dict[Symbol, Side] = {}
        self.unary: dict[str, dict[str, float]] = {}
        self.words: dict[str, dict[str, float]] = {}
        self.longer: dict[str, dict[Side, float]] = {}
        for parent, sides in rules.items():
            alone = {side[0]: weight for side, weight in sides.items() if len(side) == 1 and weight > 0}
            self.unary[parent] = {name: weight for (name, is_word), weight in alone.items() if not is_word}
            self.words[parent] = {name: weight for (name, is_word), weight in alone.items() if is_word}
            self.longer[parent] = {side: weight for side, weight in sides.items() if len(side) > 1 and weight > 0}
        named = {name for sides in rules.values() for side in sides for name, is_word in side if not is_word}
        if missing := sorted(({start} | named) - set(rules)):
            raise GrammarError(f"nonterminals without a rule: {', '.join(missing)}")

    @lru_cache(None)  # noqa: B019
    def variants(self, name: str, is_word: bool = False) -> list[tuple[_Variant, float]]:
        """Return the variants of a child, with probabilities."""
        if is_word:
            return [((make_symbol((quoted_word(name),)), True), 1.0)]
        found: list[tuple[_Variant, float]] = []
        waiting: list[tuple[tuple[str, ...], float]] = [((name,), 1.0)]
        while waiting:
            chain, weight = waiting.pop()
            last = chain[-1]
            for below, step in self.unary[last].items():
                if below in chain:
                    circle = " -> ".join((*chain[chain.index(below) :], below))
                    raise GrammarError(f"unary rules form a cycle: {circle}; remove one of them")
                waiting.append(((*chain, below), weight * step))
            for is_tag, mass in ((False, sum(self.longer[last].values())), (True, sum(self.words[last].values()))):
                if mass > 0:
                    found.append(((make_symbol(chain), is_tag), weight * mass))
        return found

    def model(self) -> TensorGrammar:
        root = dict(self.variants(self.start))
        rules: dict[tuple[_Variant, _Variant, _Variant], float] = {}
        words: dict[tuple[_Variant, str], float] = {}
        waiting = list(root)
        seen = set(waiting)
        while waiting:
            parent = waiting.pop()
            symbol, is_tag = parent
            last = symbol.parts.labels[-1]
            if is_tag:
                lexical = self.words[last] if last in self.words else {last[1:-1]: 1.0}
                total = sum(lexical.values())
                words.update({(parent, word): weight / total for word, weight in lexical.items()})
                continue
            sides = {self.rests[symbol]: 1.0} if symbol.parts.intermediate else self.longer[last]
            total = sum(sides.values())
            for side, weight in sides.items():
                for left, right, share in self.children(last, side):
                    key = (parent, left, right)
                    rules[key] = rules.get(key, 0.0) + weight / total * share
                    if len(rules) > _LARGEST:
                        raise GrammarError(f"the model has more than {_LARGEST:,} rules; use fewer unary rules")
                    new = {left, right} - seen
                    seen |= new
                    waiting.extend(new)
        return _assembled(self.start, root, rules, words)

    def children(self, label: str, side: Sequence[tuple[str, bool]]) -> Iterable[tuple[_Variant, _Variant, float]]:
        first, *rest = side
        if len(rest) == 1:
            second = self.variants(*rest[0])
        else:
            names = tuple((quoted_word(name) if is_word else name,) for name, is_word in rest)
            symbol = make_symbol((label,), siblings=names, intermediate=True)
            self.rests[symbol] = tuple(rest)
            second = [((symbol, False), 1.0)]
        for (left, p), (right, q) in product(self.variants(*first), second):
            yield left, right, p * q


def _assembled(
    start: str,
    root: dict[_Variant, float],
    rules: dict[tuple[_Variant, _Variant, _Variant], float],
    words: dict[tuple[_Variant, str], float],
) -> TensorGrammar:
    tags = sorted({parent for parent, _ in words})
    inner = sorted({parent for parent, _, _ in rules})
    number = {variant: index for index, variant in enumerate([*inner, *tags])}
    symbols = SymbolTable(tuple(symbol for symbol, _ in number))
    states = np.ones(len(number), np.int32)
    keys = sorted(rules, key=lambda key: tuple(number[variant] for variant in key))
    vocabulary = sorted({word for _, word in words})
    word_number = {word: index for index, word in enumerate(vocabulary)}
    vectors = {
        (number[tag] - len(inner), word_number[word]): np.array([weight]) for (tag, word), weight in words.items()
    }
    roots = np.zeros(len(number))
    for variant, weight in root.items():
        roots[number[variant]] = weight
    grammar = TensorGrammar(
        symbols=symbols,
        n_interminals=len(inner),
        states=states,
        rules=np.array([[number[variant] for variant in key] for key in keys], np.int32).reshape(-1, 3),
        tensors=np.array([rules[key] for key in keys], float),
        root=roots,
        emissions=plain_emissions(vocabulary, symbols[len(inner) :], states[len(inner) :], vectors),
        probabilistic=True,
        occupancy=np.ones(len(number)),
        rule_counts=np.ones(len(keys)),
        # Labels are kept as they are.
        normaliser=Normaliser(function_tags="none", empties=False, repeated_unaries=False, drop=(), root=start),
        transform=TreeTransform(root=start),
        info={"method": "by hand"},
    )
    return with_expected_counts(grammar.validate(tolerance=1e-2))
