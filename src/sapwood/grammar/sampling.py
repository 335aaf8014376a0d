"""Sampling of trees from a probabilistic grammar, top down."""

from __future__ import annotations

import numpy as np

from sapwood.errors import GrammarError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.trees.tree import Tree, from_preorder

_TRIES = 1000


class Sampler:
    """Sampler of skeletal trees; the tables of a state are built on first use.

    Parameters
    ----------
    grammar
        A probabilistic grammar.
    unknown
        Whether to draw unknown words, as their signatures. Without them, a tag draws from its known words only, if it
        has any.
    """

    def __init__(self, grammar: TensorGrammar, *, unknown: bool = True) -> None:
        if not grammar.probabilistic:
            raise GrammarError("only a probabilistic grammar can be sampled from; this one has real-valued weights")
        self.grammar, self.unknown = grammar, unknown
        self._expansions: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        self._words: dict[int, np.ndarray] = {}
        order = np.searchsorted(grammar.rules[:, 0], np.arange(grammar.n_interminals + 1))
        self._rule_range = order
        self._root = np.cumsum(grammar.root)

    def tree(self, rng: np.random.Generator, max_words: int) -> Tree | None:
        """Sample one tree; None if it grows beyond `max_words` words."""
        grammar = self.grammar
        flat = int(np.searchsorted(self._root, rng.random() * self._root[-1], side="right"))
        symbol = int(np.searchsorted(grammar.state_offsets, flat, side="right")) - 1
        stack = [(symbol, flat - int(grammar.state_offsets[symbol]))]
        events: list[tuple[str, str | None]] = []
        words = 0
        while stack:
            symbol, state = stack.pop()
            name = grammar.symbols[symbol]
            if symbol >= grammar.n_interminals:
                events.append((name, self._draw_word(symbol, state, rng)))
                words += 1
            else:
                events.append((name, None))
                left, right = self._draw_children(symbol, state, rng)
                stack += [right, left]
            if words + len(stack) > max_words:
                return None
        return from_preorder([(name, word, 0 if word is not None else 2) for name, word in events])

    def _draw_children(
        self, symbol: int, state: int, rng: np.random.Generator
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        grammar = self.grammar
        key = (symbol, state)
        if key not in self._expansions:
            rules = range(self._rule_range[symbol], self._rule_range[symbol + 1])
            slices = [grammar.tensor(rule)[state].ravel() for rule in rules]
            ends = np.cumsum([len(part) for part in slices])
            self._expansions[key] = (np.cumsum(np.concatenate(slices)), ends)
        cumulative, ends = self._expansions[key]
        at = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
        index = int(np.searchsorted(ends, at, side="right"))
        within = at - (int(ends[index - 1]) if index else 0)
        rule = self._rule_range[symbol] + index
        _, b, c = (int(number) for number in grammar.rules[rule])
        left, right = divmod(within, int(grammar.states[c]))
        return (b, left), (c, right)

    def _draw_word(self, symbol: int, state: int, rng: np.random.Generator) -> str:
        if symbol not in self._words:
            column = self.grammar.emissions.column(symbol - self.grammar.n_interminals)
            if not self.unknown:
                known = column[: len(self.grammar.lexicon.words)]
                has_words = known.sum(axis=0) > 0
                column = np.where(has_words, np.vstack([known, np.zeros_like(column[len(known) :])]), column)
            self._words[symbol] = np.cumsum(column.T, axis=1)
        cumulative = self._words[symbol][state]
        terminal = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
        return self.grammar.lexicon.name(terminal)

    def accepted_tree(self, rng: np.random.Generator, max_words: int) -> Tree:
        """Sample trees until one has at most `max_words` words."""
        for _ in range(_TRIES):
            if (tree := self.tree(rng, max_words)) is not None:
                return tree
        raise GrammarError(f"{_TRIES} trees in a row grew beyond {max_words} words; raise max_words")


def sample_trees(
    grammar: TensorGrammar, count: int, *, random_state: int | np.random.Generator | None = None, max_words: int = 200
) -> list[Tree]:
    """Sample skeletal trees; those with more than `max_words` words are rejected.

    Unknown words appear as their signature in angle brackets, `<Aa *ing>`.
    """
    rng = np.random.default_rng(random_state)
    sampler = Sampler(grammar)
    return [sampler.accepted_tree(rng, max_words) for _ in range(count)]
