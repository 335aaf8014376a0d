"""`Parser`: sentences in, trees out, in order, as they come, and never without an answer.

If pruning leaves no parse, the sentence is parsed again with less of it (up to 150 words) and then with hardly any (up
to 60); if the grammar has no parse, with the coarse grammar that it implies, every word being allowed the tags of
unknown words, too; if even that has none, a flat tree over the most probable tags is returned. The result's `status`
says which happened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from sapwood.errors import GrammarError, InputError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart import Chart, Workspace, build_chart
from sapwood.inference.compiled import CompiledGrammar, Leaf, compile_grammar
from sapwood.inference.constraints import Phrase
from sapwood.inference.decode import DECODERS, Decoder, decode
from sapwood.inference.forest_trees import Derivation, k_best, sample, tree_log_probability
from sapwood.run.parallel import map_in_order
from sapwood.trees.transform import base_tree, symbol_labels
from sapwood.trees.tree import Tree

Status = Literal["parsed", "loosened", "coarse", "fallback", "too long", "empty"]
# How much lower the threshold is at the second attempt, how low at the third, and the longest sentences to get them:
# beyond, their charts would take too much memory.
_LOOSER = 1e-3
_LOOSE_WORDS = 150
_HARDLY = 1e-15
_EXACT_WORDS = 60
# How unlikely it is for a word to be used as an unknown one, when nothing else helps.
_UNLIKELY = 1e-3
# Sentences that are taken ahead for each thread: enough to keep all busy while one of them has a long sentence.
_WINDOW = 32
# Words whose lexical weights are kept at hand.
_KEPT_WORDS = 8192
Sentence = Iterable[str | tuple[str, str | None]]


@dataclass(frozen=True)
class ParseResult:
    """One sentence's parse.

    Attributes
    ----------
    words
        The sentence.
    tree
        The tree, labels and all as in the treebank; None for an empty sentence.
    log_probability
        Natural logarithm of the sentence's probability under the grammar; NaN where it has no parse.
    status
        `parsed`; `loosened` (pruning had left no parse and was loosened); `coarse` (the grammar has no parse, the
        coarse grammar that it implies has); `fallback` (no parse at all: a flat tree over the best tags); `too long`
        (beyond the parser's `max_words`: likewise flat); `empty`.
    marginals
        For each phrase of the tree and each tag, `(label, start, end, posterior)`, if the parser was asked for them.
    alternatives
        The best trees with `log p(tree)`, if the parser was asked for them (see `Parser.k_best`).
    """

    words: list[str]
    tree: Tree | None
    log_probability: float
    status: Status
    marginals: list[tuple[str, int, int, float]] | None = field(default=None, repr=False)
    alternatives: list[Derivation] | None = field(default=None, repr=False)

    @property
    def failed(self) -> bool:
        """Whether the tree comes from no grammar at all."""
        return self.status not in ("parsed", "loosened", "coarse")


class Parser:
    """Parses with a grammar.

    Parameters
    ----------
    model
        A grammar, or the path of a saved one.
    decoder
        How the tree is chosen from the posteriors: `max-rule`, `max-rule-sum`, `recall` or `viterbi`.
    threshold
        Posterior below which the coarse pass prunes a rule at a split; 0 parses exactly, in double precision.
    threads
        Sentences parsed at the same time.
    max_words
        Longer sentences get a flat tree at once.
    marginals
        Whether results tell how probable each phrase of the tree is.
    alternatives
        How many of the best trees results come with.
    """

    def __init__(
        self,
        model: TensorGrammar | str | Path,
        *,
        decoder: Decoder = "max-rule",
        threshold: float = 6e-6,
        threads: int = 1,
        max_words: int = 500,
        marginals: bool = False,
        alternatives: int = 0,
    ) -> None:
        if decoder not in DECODERS:
            raise UsageError(f"no decoder {decoder!r}; choose from {', '.join(DECODERS)}")
        if not 0 <= threshold < 1:
            raise UsageError(f"the threshold must be at least 0 and below 1, not {threshold}")
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        for name, value in (("max_words", max_words), ("alternatives", alternatives)):
            if value < 0:
                raise UsageError(f"{name} must not be negative: {value}")
        self.grammar = model if isinstance(model, TensorGrammar) else TensorGrammar.load(model)
        if decoder == "viterbi" and not self.grammar.probabilistic:
            raise GrammarError("viterbi needs a probabilistic grammar; this one has real-valued weights")
        self.decoder: Decoder = decoder
        self.threshold = float(threshold)
        self.threads = threads
        self.max_words = max_words
        self.marginals = marginals
        self.alternatives = alternatives
        # Exact parsing is exact in its arithmetic, too; and weights may be beyond single precision.
        largest = max(float(np.abs(values).max(initial=0.0)) for values in (self.grammar.tensors, self.grammar.root))
        self._dtype = np.float64 if threshold == 0 or largest > 1e30 else np.float32
        self.compiled = compile_grammar(self.grammar, self._dtype)
        self._leaves: dict[int, Leaf] = {}
        self._workspace = Workspace()

    def parse(self, sentences: Iterable[Sentence]) -> Iterator[ParseResult]:
        """Return an iterator of one result per sentence, in order, reading sentences only as they are needed.

        A sentence is a sequence of words, or of `(word, tag)` pairs whose tags must hold (None: any tag).
        """
        return map_in_order(self.parse_one, sentences, threads=self.threads, window=_WINDOW * self.threads)

    def parse_one(self, sentence: Sentence, *, phrases: Sequence[Phrase] = ()) -> ParseResult:
        """Parse one sentence; `phrases` (start, end, label or None) must be in its tree.

        Raises `UsageError` if the grammar has no parse with those phrases.
        """
        words, leaves = self._read(sentence)
        phrases = [Phrase(*phrase) for phrase in phrases]
        if not words:
            return ParseResult([], None, math.nan, "empty")
        if len(words) > self.max_words:
            return ParseResult(words, self._flat(words, leaves), math.nan, "too long")
        for status, compiled, attempt_leaves, threshold in self._attempts(leaves):
            chart = build_chart(
                compiled, attempt_leaves, threshold=threshold, workspace=self._workspace, phrases=phrases
            )
            tree = None if chart is None else decode(chart, words, self.decoder)
            if tree is not None and chart is not None:
                clean = self.grammar.transform.invert(tree)
                marginals = _phrases_of(clean, chart) if self.marginals else None
                best = self._k_best(chart, attempt_leaves, words, self.alternatives) if self.alternatives else None
                score = chart.log_probability if status != "coarse" else math.nan
                return ParseResult(words, clean, score, status, marginals, best)
        if phrases:
            raise UsageError(f"the grammar has no parse with the phrases {list(phrases)}")
        return ParseResult(words, self._flat(words, leaves), math.nan, "fallback")

    def chart(self, sentence: Sentence, *, phrases: Sequence[Phrase] = ()) -> Chart | None:
        """Return the chart of posteriors of a sentence under the grammar; None if there is no parse."""
        words, leaves = self._read(sentence)
        phrases = [Phrase(*phrase) for phrase in phrases]
        if not words:
            return None
        for status, compiled, attempt_leaves, threshold in self._attempts(leaves):
            if status != "coarse":
                chart = build_chart(compiled, attempt_leaves, threshold=threshold, phrases=phrases)
                if chart is not None:
                    return chart
        return None

    def k_best(self, sentence: Sentence, count: int) -> list[Derivation]:
        """Return up to `count` different trees, the most probable first, with `log p(tree)` summed over states.

        They are found by their rule posteriors, which with hidden states or finer symbols need not be the very most
        probable ones (see `forest_trees.k_best`). No parse gives an empty list.
        """
        if count < 0:
            raise UsageError(f"the number of trees must not be negative: {count}")
        sentence = list(sentence)
        words, leaves = self._read(sentence)
        chart = self.chart(sentence)
        return [] if chart is None else self._k_best(chart, leaves, words, count)

    def _k_best(self, chart: Chart, leaves: Sequence[Leaf], words: list[str], count: int) -> list[Derivation]:
        invert = self.grammar.transform.invert
        return [Derivation(invert(tree), score) for tree, score in k_best(chart, leaves, words, count)]

    def sample(
        self, sentence: Sentence, count: int, *, random_state: int | np.random.Generator | None = None
    ) -> list[Tree]:
        """Draw trees from the posterior over a sentence's parses; no parse gives an empty list."""
        if count < 0:
            raise UsageError(f"the number of trees must not be negative: {count}")
        sentence = list(sentence)
        words, _ = self._read(sentence)
        chart = self.chart(sentence)
        if chart is None:
            return []
        rng = np.random.default_rng(random_state)
        return [self.grammar.transform.invert(tree) for tree in sample(chart, words, count, rng)]

    def tree_log_probability(self, tree: Tree) -> float:
        """Return `log p(tree)` of a treebank tree (words included), -inf if the grammar cannot build it."""
        # A parse can have words that look like traces; they are not, unless the tree says so.
        has_empties = any(tag == "-NONE-" for tag in tree.tags())
        clean = (self.grammar.normaliser if has_empties else replace(self.grammar.normaliser, empties=False))(tree)
        if clean is None:
            raise UsageError("nothing is left of the tree after normalising")
        _, leaves = self._read(clean.words())
        # Ancestors and siblings follow from the tree itself, so base symbols say everything.
        return tree_log_probability(self.compiled, leaves, base_tree(self.grammar.transform(clean)))

    def _read(self, sentence: Sentence) -> tuple[list[str], list[Leaf]]:
        if isinstance(sentence, str):
            raise UsageError("a sentence is a sequence of words, not a string: split or tokenise it first")
        words: list[str] = []
        leaves: list[Leaf] = []
        for token in sentence:
            pair = (token, None) if isinstance(token, str) else token
            if not (isinstance(pair, Sequence) and len(pair) == 2 and isinstance(pair[0], str)):
                raise UsageError(f"a token is a word or a (word, tag) pair, not {token!r}")
            leaves.append(self._leaf(pair[0], pair[1], not words))
            words.append(pair[0])
        return words, leaves

    def _attempts(self, leaves: list[Leaf]) -> Iterator[tuple[Status, CompiledGrammar, list[Leaf], float]]:
        """Yield what to try in turn: status, grammar, lexical weights, threshold."""
        yield "parsed", self.compiled, leaves, self.threshold
        if self.threshold > 0:
            if len(leaves) <= _LOOSE_WORDS:
                yield "loosened", self.compiled, leaves, self.threshold * _LOOSER
            if len(leaves) <= _EXACT_WORDS:
                yield "loosened", self.compiled, leaves, _HARDLY
        # As a last resort any word may also be what an unknown word can be, if it must.
        rows = np.tile(self._unknown_row, (len(leaves), 1))
        for row, leaf in zip(rows, leaves, strict=True):
            row *= 0.0 if leaf.fixed else _UNLIKELY * leaf.values.max(initial=0.0)
            row[leaf.symbols] += leaf.values
        coarse = self._coarse_compiled
        yield "coarse", coarse, [coarse.leaf(row[coarse.grammar.n_interminals :]) for row in rows], self.threshold

    @cached_property
    def _unknown_row(self) -> np.ndarray:
        """Coarse lexical weights of a word of which nothing is known, the largest being 1."""
        leaf = self.compiled.leaf(self.grammar.emissions.row(self.grammar.lexicon.n_terminals - 1))
        row = np.zeros(self.compiled.n_coarse)
        row[leaf.symbols] = leaf.values / leaf.values.max(initial=1e-300)
        return row

    @cached_property
    def _coarse_compiled(self) -> CompiledGrammar:
        return compile_grammar(self.compiled.coarse, self._dtype)

    def _leaf(self, word: str, tag: str | None, initial: bool) -> Leaf:
        """Return the lexical weights of a word, only those of the given tag if there is one."""
        emissions = self.grammar.emissions
        terminal = self.grammar.lexicon.terminal(word, initial)
        leaf = self._leaves.get(terminal)
        if leaf is None:
            if len(self._leaves) >= _KEPT_WORDS:
                self._leaves.clear()
            leaf = self._leaves[terminal] = self.compiled.leaf(emissions.row(terminal))
        if tag is None:
            return leaf
        if tag not in emissions.tags:
            raise InputError(f"the grammar has no tag {tag!r} (of {word!r}); it has: {' '.join(emissions.tags)}")
        row = emissions.row(terminal)
        allowed = (emissions.tag_of == emissions.tags.index(tag))[emissions.symbol_of_state]
        restricted = np.where(allowed, row, 0.0)
        if not restricted.any():  # a tag that the lexicon has never seen on such a word
            restricted = np.where(allowed, np.abs(row).max() * 1e-3, 0.0)
        return self.compiled.leaf(restricted)._replace(fixed=True)

    def _flat(self, words: list[str], leaves: list[Leaf]) -> Tree:
        """Return the root label over the most probable tags."""
        coarse = self.compiled.coarse
        children = []
        for word, leaf in zip(words, leaves, strict=True):
            if len(leaf.symbols):
                symbol = leaf.symbols[int(np.argmax(leaf.values * coarse.occupancy[leaf.symbols]))]
            else:  # a word that the grammar has no place for: the most frequent tag
                symbol = coarse.n_interminals + int(np.argmax(coarse.occupancy[coarse.n_interminals :]))
            children.append(Tree(symbol_labels(coarse.symbols[symbol])[-1], word=word))
        return Tree(self.grammar.transform.root, children)


def _phrases_of(tree: Tree, chart: Chart) -> list[tuple[str, int, int, float]]:
    """Return the tree's phrases (without the root label, if it was added) and tags with their posteriors."""
    posterior = chart.label_posteriors()
    tags = [(label, position, position + 1) for position, label in enumerate(tree.tags())]
    found = [key for key in tree.spans() if key in posterior] + tags
    return [(*key, posterior.get(key, 0.0)) for key in found]
