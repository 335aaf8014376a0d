"""Parsing with induced models and grammars.

Words are mapped to terminals: their tags if the model was learned from tags and they are given, else the most probable
terminal of each word by itself (`InducedModel`), or of all words jointly (grammars). Punctuation is removed and put
back. The tree or the heads maximise the expected number of correct spans or edges: the largest sum of their posteriors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any, Literal, TypeVar

import numpy as np

from sapwood.errors import InputError, UsageError
from sapwood.induction.estep import SpanFactors, best_binary, best_projective_heads, span_ends
from sapwood.induction.induced_model import InducedModel
from sapwood.induction.text import divided_tokens, tokens_of
from sapwood.induction.to_grammar import PHRASE
from sapwood.inference.chart.compiled_model import Sentence
from sapwood.inference.constraints import Requirement
from sapwood.inference.parser import Parser
from sapwood.inference.result import ParseResult
from sapwood.model.parser_model import InducedText
from sapwood.runtime.executor import LOCAL, Executor
from sapwood.storage.shapes import Array, Float64
from sapwood.trees.formats.conllu import format_heads
from sapwood.trees.punctuation import TAG, Token, is_punctuation, put_back
from sapwood.trees.tree import Tree

# Charts of longer sentences would take too much memory: numbers for each span and each word.
MOST_WORDS = 120
_AHEAD = 32
R = TypeVar("R")


class _Accepted(frozenset[str]):
    """Known tags, and tags of punctuation."""

    def __contains__(self, tag: object) -> bool:
        return super().__contains__(tag) or (isinstance(tag, str) and is_punctuation("", tag))


class _AnyTag(frozenset[str]):
    """All tags."""

    def __contains__(self, tag: object) -> bool:
        return isinstance(tag, str)


class InducedGrammarParser(Parser):
    """A parser with an induced grammar: as `Parser`, but punctuation is removed."""

    @property
    def tags(self) -> Collection[str]:
        """The tags that words may be given: all tags if the grammar was learned from classes, which ignore them."""
        if self._text.terminals != "tags":
            return _AnyTag()
        return _Accepted(self.grammar.emissions.tags) if self._text.punctuation == "drop" else super().tags

    @property
    def _text(self) -> InducedText:
        assert self.model.preparation.induced is not None
        return self.model.preparation.induced

    def span_posteriors(
        self,
        tokens: Sequence[Token],
        divided: Sequence[bool] | None = None,
    ) -> Float64[Array, "spans"]:
        """Return the posterior of each span of tokens without punctuation, in the order of `span_ends`.

        `divided` is as for `InducedParser.span_posteriors`; grammars do not use it.
        """
        n, with_tags = len(tokens), self._text.terminals == "tags"
        found = np.zeros((n, n + 1))
        if n > self.max_words:
            for begin, end in _to_the_right(n)[0]:
                found[begin, end] = 1.0
        elif n:
            for one in self.posteriors([token if with_tags else token[0] for token in tokens]):
                found[one.start, one.end] += one.probability
        return np.minimum(found[span_ends(n)], 1.0)

    def parse_one(
        self, sentence: Sentence, *, phrases: Sequence[Requirement] = (), check_tokens: bool = True
    ) -> ParseResult:
        """Parse one sentence; see `Parser.parse_one`."""
        if isinstance(sentence, str):
            raise UsageError("a sentence is a sequence of words, not a string: `parse_text` takes plain text")
        tokens = tokens_of(list(sentence))  # type: ignore[arg-type]
        drops = self._text.punctuation == "drop"
        kept = [place for place, token in enumerate(tokens) if not (drops and is_punctuation(*token))]
        with_tags = self._text.terminals == "tags"
        rest: list[Any] = [tokens[place] if with_tags else tokens[place][0] for place in kept]
        if phrases and len(kept) < len(tokens):
            raise UsageError(
                "phrases: cannot be asked for in a sentence whose punctuation is set aside; leave that out"
            )
        result = super().parse_one(rest, phrases=phrases, check_tokens=check_tokens)
        if len(kept) == len(tokens):
            return result
        root = self.grammar.transform.root
        full = [(word, tag) for word, tag in tokens]
        marginals = alternatives = None
        if result.marginals is not None:
            marginals = [one._replace(start=kept[one.start], end=kept[one.end - 1] + 1) for one in result.marginals]
        if result.alternatives is not None:
            alternatives = [one._replace(tree=put_back(one.tree, full, root)) for one in result.alternatives]
        return replace(
            result,
            words=[word for word, _ in tokens],
            tree=put_back(result.tree, full, root),
            status="parsed" if result.status == "empty" else result.status,
            marginals=marginals,
            alternatives=alternatives,
        )


@dataclass(frozen=True)
class InducedParse:
    """Result of an `InducedModel` on a sentence.

    Attributes
    ----------
    words, tags
        The words, with the terminals assigned to them, or their tags.
    tree
        The tree; None for an empty sentence.
    heads
        The head of each word, counted from 0, and -1 for the root; None if the model has no heads. Punctuation depends
        on the root.
    status
        `parsed`, `too long` (right-branching heads and phrases as a fallback) or `empty`.
    log_probability
        Natural logarithm of the probability of the words, punctuation set aside; None without a tree of the model, and
        for models that assign none to sentences.
    """

    words: list[str]
    tags: list[str]
    tree: Tree | None
    heads: list[int] | None
    status: Literal["parsed", "too long", "empty"]
    log_probability: float | None = None

    def format_conllu(self, number: int = 1) -> str:
        """Return the sentence and its heads in CoNLL-U."""
        if self.heads is None:
            raise UsageError("this model knows of no heads; its trees are phrases")
        labels = [
            "root" if head < 0 else "punct" if is_punctuation(word, None if tag == TAG else tag) else "dep"
            for word, tag, head in zip(self.words, self.tags, self.heads, strict=True)
        ]
        return format_heads(self.words, self.tags, self.heads, labels, number)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as lists, numbers and strings, for JSON; heads count from 1, and 0 marks the root."""
        found: dict[str, Any] = {"words": self.words, "tags": self.tags}
        found["tree"] = None if self.tree is None else str(self.tree)
        if self.heads is not None:
            found["heads"] = [head + 1 for head in self.heads]
        return {**found, "status": self.status}


class InducedParser:
    """Parser with an `InducedModel`.

    Parameters
    ----------
    model
        The model.
    max_words
        Longer sentences branch to the right.
    workers
        Executor.
    """

    def __init__(self, model: InducedModel, *, max_words: int = MOST_WORDS, workers: Executor = LOCAL) -> None:
        if not workers.is_local:
            raise UsageError("models of heads and spans are used on threads of this machine, not on a cluster")
        self.model, self.max_words, self.workers = model, min(max_words, MOST_WORDS), workers

    @property
    def tags(self) -> Collection[str]:
        """The tags that words may be given."""
        if self.model.kind != "tags":
            return _AnyTag()
        return _Accepted(self.model.terminals) if self.model.punctuation == "drop" else set(self.model.terminals)

    def parse(
        self,
        sentences: Iterable[Sequence[str | tuple[str, str | None]]],
        divided: Iterable[Sequence[bool] | None] | None = None,
    ) -> Iterator[InducedParse]:
        """Return an iterator of one result for each sentence, in order; arguments as for `parse_one`."""
        ahead = _AHEAD * self.workers.threads
        marks = repeat(None) if divided is None else divided
        return self.workers.map(partial(InducedParser.parse_one, self), sentences, marks, ahead=ahead)

    def map(self, call: Callable[[InducedParser, Any], R], sentences: Iterable[Any]) -> Iterator[R]:
        """Return an iterator of the results of a call for each sentence, in order."""
        return self.workers.map(partial(call, self), sentences, ahead=_AHEAD * self.workers.threads)

    def parse_one(
        self, sentence: Sequence[str | tuple[str, str | None]], divided: Sequence[bool] | None = None
    ) -> InducedParse:
        """Parse one sentence of words or of (word, tag) pairs.

        If its punctuation was removed before, `divided` says whether a dividing mark stood before each word.
        """
        tokens = tokens_of(sentence)  # type: ignore[arg-type]
        drops = self.model.punctuation == "drop"
        kept = [place for place, token in enumerate(tokens) if not (drops and is_punctuation(*token))]
        terminals = self._terminals([tokens[place] for place in kept])
        tags = [tag or TAG for _, tag in tokens]
        for place, terminal in zip(kept, terminals, strict=True):
            tags[place] = self.model.terminals[terminal]
        words = [word for word, _ in tokens]
        if not words:
            return InducedParse([], [], None, None if self.model.heads is None else [], "empty")
        too_long = len(kept) > self.max_words
        if divided is None:
            divided = divided_tokens(words, kept)
        can_parse = kept and not too_long
        spans, heads, logarithm = self._best(terminals, divided) if can_parse else (*_to_the_right(len(kept)), None)
        if logarithm is not None:
            logarithm += self._emission([(kept[0] == place, words[place]) for place in kept], terminals)
        leaves = [Tree(tags[place], word=words[place]) for place in kept]
        inner = binary_tree(leaves, spans) if leaves else None
        tree = None if inner is None else Tree("ROOT", [inner])
        whole: list[Token] = [
            (word, tag if place not in set(kept) else None) for place, (word, tag) in enumerate(tokens)
        ]
        if len(kept) < len(tokens):
            tree = (
                put_back(tree, whole, "ROOT")
                if tree is not None
                else Tree("ROOT", [Tree(tag, word=word) for word, tag in zip(words, tags, strict=True)])
            )
        assert tree is not None
        found = None if self.model.heads is None else _all_heads(heads, kept, len(tokens))
        return InducedParse(words, tags, tree, found, "too long" if too_long else "parsed", logarithm)

    def span_posteriors(
        self, tokens: Sequence[Token], divided: Sequence[bool] | None = None
    ) -> Float64[Array, "spans"]:
        """Return the posterior of each span of tokens without punctuation, in the order of `span_ends`.

        `divided` says whether a punctuation mark was removed before each token; some models use it.
        """
        n = len(tokens)
        if 0 < n <= self.max_words:
            found = self.model.posteriors(self._terminals(tokens), divided)
            if np.isfinite(found.logarithms[0]):
                return found.spans
        branches = np.zeros((n, n + 1))
        for begin, end in _to_the_right(n)[0]:
            branches[begin, end] = 1.0
        return branches[span_ends(n)]

    def _terminals(self, tokens: Sequence[Token]) -> list[int]:
        numbers = self.model.terminal_numbers
        found = []
        for place, (word, tag) in enumerate(tokens):
            if tag is not None and self.model.kind == "tags":
                if tag not in numbers:
                    raise InputError(f"the model has no tag {tag!r} (of {word!r}); it has: {' '.join(sorted(numbers))}")
                found.append(numbers[tag])
            else:
                found.append(self.model.terminal_of(word, initial=place == 0))
        return found

    def _best(
        self, terminals: Sequence[int], divided: Sequence[bool]
    ) -> tuple[list[tuple[int, int]], list[int], float | None]:
        """Return the spans and heads of the trees with the largest expected accuracy, and `log p` of the terminals."""
        found = self.model.posteriors(terminals, divided)
        if not np.isfinite(found.logarithms[0]):
            return *_to_the_right(len(terminals)), None
        offsets = np.array([0, len(terminals)], np.int64)
        heads = [] if self.model.heads is None else best_projective_heads(offsets, found.edges)[0]
        generative = self.model.table is None and self.model.span_factors == SpanFactors()
        return best_binary(offsets, found.spans)[0], heads, float(found.logarithms[0]) if generative else None

    def _emission(self, words: Sequence[tuple[bool, str]], terminals: Sequence[int]) -> float:
        """Return `log p` of words given their terminals; each word comes with whether it is the first."""
        emissions, total = self.model.emissions, 0.0
        for (initial, word), terminal in zip(words, terminals, strict=True):
            weight = float(emissions.row(emissions.lexicon.terminal(word, initial))[terminal])
            total += math.log(weight) if weight > 0 else -math.inf
        return total


def _to_the_right(length: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Return a right-branching tree, each word the head of the next."""
    return [(begin, length) for begin in range(length - 1)], list(range(-1, length - 1))


def _all_heads(heads: Sequence[int], kept: Sequence[int], count: int) -> list[int]:
    """Return the heads of all words: punctuation depends on the root, or without one on the first punctuation mark."""
    root = next((kept[word] for word, head in enumerate(heads) if head < 0), 0)
    found = [root] * count
    for word, head in enumerate(heads):
        found[kept[word]] = kept[head] if head >= 0 else -1
    if not kept:
        found[0] = -1
    return found


def binary_tree(leaves: Sequence[Tree], spans: Iterable[tuple[int, int]], label: str = PHRASE) -> Tree:
    """Return the tree with these leaves and spans of two or more words, which must nest.

    >>> print(binary_tree([Tree("A", word="a"), Tree("B", word="b"), Tree("C", word="c")], [(0, 3), (1, 3)]))
    (X (A a) (X (B b) (C c)))
    """
    parts: list[tuple[int, Tree]] = list(enumerate(leaves))
    # Narrow spans first; each takes the parts inside it.
    for begin, end in sorted(set(spans), key=lambda span: span[1] - span[0]):
        first = next(number for number, (start, _) in enumerate(parts) if start == begin)
        last = next((number for number, (start, _) in enumerate(parts) if start >= end), len(parts))
        inside = [tree for _, tree in parts[first:last]]
        parts[first:last] = [(begin, Tree(label, inside))]
    if len(parts) > 1:
        return Tree(label, [tree for _, tree in parts])
    return parts[0][1]
