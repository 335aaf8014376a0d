"""`Parser`: sentences in, trees out, in order, as they come, and never without an answer.

If pruning leaves no parse, the sentence is parsed again without pruning; if the grammar has none, with the coarse
grammar that it implies; if even that has none, a flat tree over the most probable tags is returned. The result's
`status` says which happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from sapwood.errors import UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart import Chart, build_chart
from sapwood.inference.compiled import CompiledGrammar, Leaf, compile_grammar
from sapwood.inference.decode import DECODERS, Decoder, decode
from sapwood.trees.tree import Tree

Status = Literal["parsed", "unpruned", "coarse", "fallback", "too long", "empty"]
Sentence = Sequence[str] | Sequence[tuple[str, str | None]]


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
        Natural logarithm of the sentence's probability under the grammar; NaN where there is none.
    status
        `parsed`; `unpruned` (pruning had left no parse); `coarse` (the grammar has no parse, the coarse grammar that
        it implies has); `fallback` (no parse at all: a flat tree over the best tags); `too long` (beyond the
        parser's `max_words`: likewise flat); `empty`.
    """

    words: list[str]
    tree: Tree | None
    log_probability: float
    status: Status
    marginals: list[tuple[str, int, int, float]] = field(default_factory=list, repr=False)

    @property
    def failed(self) -> bool:
        """Whether the tree comes from no grammar at all."""
        return self.status not in ("parsed", "unpruned", "coarse")


class Parser:
    """Parses with a grammar.

    Parameters
    ----------
    model
        A grammar, or the path of a saved one.
    decoder
        How the tree is chosen from the posteriors: `max-rule`, `recall` or `viterbi`.
    threshold
        Posterior below which the coarse pass prunes an entry; 0 parses exactly.
    threads
        Sentences parsed at the same time.
    max_words
        Longer sentences get a flat tree at once.
    """

    def __init__(
        self,
        model: TensorGrammar | str | Path,
        *,
        decoder: Decoder = "max-rule",
        threshold: float = 1e-5,
        threads: int = 1,
        max_words: int = 500,
    ) -> None:
        if decoder not in DECODERS:
            raise UsageError(f"no decoder {decoder!r}; choose from {', '.join(DECODERS)}")
        if not 0 <= threshold < 1:
            raise UsageError(f"the threshold must be at least 0 and below 1, not {threshold}")
        if threads < 1:
            raise UsageError(f"threads must be at least 1, not {threads}")
        self.grammar = model if isinstance(model, TensorGrammar) else TensorGrammar.load(model)
        self.decoder: Decoder = decoder
        self.threshold = threshold
        self.threads = threads
        self.max_words = max_words
        wide = int(self.grammar.states.max()) > 1
        self.compiled = compile_grammar(self.grammar, np.float32 if wide else np.float64)
        self._leaves: dict[int, Leaf] = {}

    def parse(self, sentences: Iterable[Sentence]) -> Iterator[ParseResult]:
        """Yield one result per sentence, in order, reading sentences only as they are needed.

        A sentence is a sequence of words, or of `(word, tag)` pairs whose tags must hold (None: any tag).
        """
        if self.threads == 1:
            yield from map(self.parse_one, sentences)
            return
        with ThreadPoolExecutor(self.threads) as executor:
            yield from _in_order(executor, self.parse_one, sentences, window=4 * self.threads)

    def parse_one(self, sentence: Sentence) -> ParseResult:
        """Parse one sentence."""
        words = [token if isinstance(token, str) else token[0] for token in sentence]
        tags = [None if isinstance(token, str) else token[1] for token in sentence]
        if not words:
            return ParseResult([], None, float("nan"), "empty")
        leaves = [self._leaf(word, tag, index == 0) for index, (word, tag) in enumerate(zip(words, tags, strict=True))]
        if len(words) > self.max_words:
            return ParseResult(words, self._flat(words, leaves), float("nan"), "too long")
        status: Status = "parsed"
        tree, chart = self._attempt(self.compiled, words, leaves, self.threshold)
        if tree is None and self.threshold > 0:
            tree, chart = self._attempt(self.compiled, words, leaves, 0.0)
            status = "unpruned"
        if tree is None:
            n_inner = self.compiled.coarse.n_interminals
            rows = [(self.compiled.coarse_emission @ leaf.row)[n_inner:] for leaf in leaves]
            coarse_leaves = [self._coarse_compiled.leaf(np.maximum(row, 0)) for row in rows]
            tree, chart = self._attempt(self._coarse_compiled, words, coarse_leaves, self.threshold)
            status = "coarse"
        if tree is None or chart is None:
            return ParseResult(words, self._flat(words, leaves), float("nan"), "fallback")
        return ParseResult(words, self.grammar.transform.invert(tree), chart.log_probability, status)

    @cached_property
    def _coarse_compiled(self) -> CompiledGrammar:
        return compile_grammar(self.compiled.coarse)

    def _attempt(
        self, compiled: CompiledGrammar, words: list[str], leaves: list[Leaf], threshold: float
    ) -> tuple[Tree | None, Chart | None]:
        chart = build_chart(compiled, leaves, threshold=threshold, edge_threshold=0.01 * threshold)
        if chart is None:
            return None, None
        return decode(compiled, chart, words, self.decoder), chart

    def _leaf(self, word: str, tag: str | None, initial: bool) -> Leaf:
        """Return the lexical weights of a word, only those of the given tag if there is one."""
        emissions = self.grammar.emissions
        terminal = self.grammar.lexicon.terminal(word, initial)
        leaf = self._leaves.get(terminal)
        if leaf is None:
            leaf = self._leaves[terminal] = self.compiled.leaf(emissions.row(terminal))
        if tag is None or tag not in emissions.tags:
            return leaf
        allowed = (emissions.tag_of == emissions.tags.index(tag))[emissions.symbol_of_state]
        row = np.where(allowed, leaf.row, 0.0)
        if not row.any():  # a tag that the lexicon has never seen on such a word
            row = np.where(allowed, np.abs(leaf.row).max() * 1e-3, 0.0)
        return self.compiled.leaf(row)

    def _flat(self, words: list[str], leaves: list[Leaf]) -> Tree:
        """Return the root label over the most probable tags."""
        emissions = self.grammar.emissions
        first = self.grammar.state_offsets[self.grammar.n_interminals]
        occupancy = self.grammar.occupancy[first:]
        children = []
        for word, leaf in zip(words, leaves, strict=True):
            joint = np.bincount(
                emissions.tag_of[emissions.symbol_of_state], weights=occupancy * leaf.row, minlength=len(emissions.tags)
            )
            children.append(Tree(emissions.tags[int(joint.argmax())], word=word))
        return Tree(self.grammar.transform.root, children)


def _in_order(executor: Executor, call, items, window: int):  # type: ignore[no-untyped-def]
    """Map with at most `window` items under way, results in order."""
    waiting: deque[Future] = deque()
    try:
        for item in items:
            waiting.append(executor.submit(call, item))
            if len(waiting) >= window:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
