"""Active learning: select the sentences whose annotation would help a parser most.

A sentence helps most where the parser is uncertain. The uncertainty is the entropy of the pruned forest of its trees
(`sapwood.inference.forest.packed.entropy`) per word, since long sentences have more trees and take longer to annotate.
Three precautions:

- The highest-entropy sentences are often not sentences at all: lists, formulas, other languages. A share of them is
  skipped.
- The entropy of short sentences is mostly noise, and they teach little: they are skipped, too.
- A parser that is uncertain about one sentence is uncertain about all similar ones. So sentences are chosen greedily by
  `entropy per word * (1 - diversity * similarity)`, where similarity is that to the most similar sentence chosen
  before: the cosine of their words, weighted by rarity (`log(N / n_w)` for a word in `n_w` of `N` sentences).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import scipy.sparse

from sapwood.errors import UsageError
from sapwood.inference.forest.packed import ParseRequest, entropy, parse_forests
from sapwood.inference.parser import Parser
from sapwood.inference.result import Marginal, ParseResult
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.storage.shapes import Array, Float64
from sapwood.trees.formats.gaps import split_gaps
from sapwood.trees.partial import UNKNOWN, PartialTree
from sapwood.trees.tokenise.attached import TOKENISE
from sapwood.trees.tree import Tree, from_preorder

# Edges below this posterior are pruned before the entropy is computed.
_LEAST = 1e-3


class Candidate(NamedTuple):
    """A candidate sentence: its position among all sentences, from 1, and the entropy of its trees per word."""

    place: int
    words: tuple[str, ...]
    entropy: float


@dataclass(frozen=True)
class Proposal:
    """A sentence to annotate, with its parse.

    Attributes
    ----------
    place
        Its position among all sentences, from 1.
    entropy
        Uncertainty of the parser, in nats per word.
    result
        Its parse, with `marginals`.
    missing
        Phrases that are not in the tree, with their probabilities.
    """

    place: int
    entropy: float
    result: ParseResult
    missing: tuple[Marginal, ...] = ()

    def uncertain(self, sure: float = 0.9) -> list[tuple[str, float, str]]:
        """Return label, probability and words of likely errors, the most doubtful first.

        These are phrases and tags of the tree that are less probable than `sure`, and phrases that it lacks although
        their probability is more than `1 - sure`.
        """
        words = self.result.words
        found = [(one.probability, one) for one in self.result.marginals or [] if one.probability < sure]
        found += [(1 - one.probability, one) for one in self.missing if one.probability > 1 - sure]
        return [(one.label, one.probability, " ".join(words[one.start : one.end])) for _, one in sorted(found)]

    def partial(self, sure: float) -> PartialTree:
        """Return the phrases and tags that are at least this probable, as a partial tree, with the parts of gaps.

        If a phrase is dropped, its children move up. The phrase above must then not count as complete, so the tag of
        one of its words is dropped as well, unless one already is; the same applies where a phrase may be missing.
        """
        tree = self.result.tree
        assert tree is not None
        if tree.has_gaps:
            tree = split_gaps(tree)
        probable = {(one.start, one.end, one.label): one.probability for one in self.result.marginals or []}
        kept: list[tuple[Tree, int]] = []
        gaps = [(one.start, one.end) for one in self.missing if one.probability > 1 - sure]
        unknown: set[int] = set()
        depth = np.zeros(len(tree), np.int64)
        stack = [(tree, 0)]
        while stack:
            node, start = stack.pop()
            end = start + len(node)
            known = probable.get((start, end, node.label), 1.0) >= sure
            if node.word is not None and not known:
                unknown.add(start)
            if node.word is not None or known:
                kept.append((node, start))
                depth[start:end] += 1
            else:
                gaps.append((start, end))
            for child in reversed(node.children):
                end -= len(child)
                stack.append((child, end))
        # Shorter phrases first: a word without a tag inside counts outside, too. Choose one that few phrases need.
        for start, end in sorted(gaps, key=lambda gap: (gap[1] - gap[0], gap)):
            if unknown.isdisjoint(range(start, end)):
                unknown.add(start + int(np.argmin(depth[start:end])))
        if tree is not kept[0][0]:
            kept.insert(0, (Tree(UNKNOWN, tree.children), 0))
        return PartialTree(from_preorder(_events(kept, unknown)))

    def to_dict(self) -> dict[str, Any]:
        """Return the proposal as JSON values."""
        missing = [[*phrase, round(probability, 6)] for *phrase, probability in self.missing]
        return {"place": self.place, "entropy": round(self.entropy, 6), **self.result.to_dict(), "missing": missing}


def _events(kept: Sequence[tuple[Tree, int]], unknown: Set[int]) -> list[tuple[str, str | None, int]]:
    """Return label, word and number of children of nodes in preorder; spans determine the nesting."""
    children = [0] * len(kept)
    # Open nodes with the ends of their spans: the last one that has not ended is the parent.
    opened: list[tuple[int, int]] = []
    for number, (node, start) in enumerate(kept):
        while opened and opened[-1][1] <= start:
            opened.pop()
        if opened:
            children[opened[-1][0]] += 1
        if node.word is None:
            opened.append((number, start + len(node)))
    labels = [UNKNOWN if node.word is not None and start in unknown else node.label for node, start in kept]
    return [(label, node.word, count) for label, (node, _), count in zip(labels, kept, children, strict=True)]


def score_candidates(
    parser: Parser,
    sentences: Iterable[Sequence[str]],
    *,
    known: Iterable[Sequence[str]] = (),
    shortest: int = 10,
    longest: int = 60,
    progress: Progress | None = None,
) -> list[Candidate]:
    """Return the sentences that could be annotated, each with the parser's uncertainty about it.

    Parameters
    ----------
    parser
        The parser to improve.
    sentences
        The words of each sentence.
    known
        Sentences that have trees already. These are skipped, and so are duplicates.
    shortest, longest
        Minimum and maximum length; sentences without a parse are skipped, too.
    progress
        Receives progress reports.
    """
    seen = {tuple(words) for words in known}
    some: list[tuple[int, tuple[str, ...]]] = []
    for place, sentence in enumerate(sentences, start=1):
        words = tuple(sentence)
        if shortest <= len(words) <= longest and words not in seen:
            seen.add(words)
            some.append((place, words))
    forests = parse_forests(parser, (ParseRequest(words) for _, words in some), min_posterior=_LEAST)
    found = track(forests, progress or Silent(), "reading", len(some), "sentences")
    return [
        Candidate(place, words, entropy(forest) / len(words))
        for (place, words), forest in zip(some, found, strict=True)
        if forest is not None
    ]


def choose(
    candidates: Sequence[Candidate], count: int, *, outliers: float = 0.1, diversity: float = 0.5
) -> list[Candidate]:
    """Return `count` candidates, the most useful first, or all of them if there are fewer.

    Parameters
    ----------
    candidates
        The candidates to choose from.
    count
        Number of sentences to choose.
    outliers
        Share of the highest-entropy candidates to skip, as long as enough remain.
    diversity
        Weight of the similarity to sentences chosen already: 0 not at all, 1 fully.
    """
    if count < 1:
        raise UsageError(f"count must be at least 1, not {count}")
    for name, value in (("outliers", outliers), ("diversity", diversity)):
        if not 0 <= value <= 1:
            raise UsageError(f"{name} must be between 0 and 1, not {value}")
    order = sorted(candidates, key=lambda one: (-one.entropy, one.place))
    left_out = min(int(outliers * len(order)), max(len(order) - count, 0))
    rest = order[left_out:]
    if not rest:
        return []
    undecided = np.array([one.entropy for one in rest])
    vectors = _word_vectors([one.words for one in rest])
    similarity = np.zeros(len(rest))
    free = np.ones(len(rest), bool)
    chosen = []
    for _ in range(min(count, len(rest))):
        worth = np.where(free, undecided * (1.0 - diversity * similarity), -np.inf)
        best = int(np.argmax(worth))
        free[best] = False
        chosen.append(rest[best])
        if diversity:
            row = np.zeros(vectors.shape[1])
            place = slice(vectors.indptr[best], vectors.indptr[best + 1])
            row[vectors.indices[place]] = vectors.data[place]
            similarity = np.maximum(similarity, vectors @ row)
    return chosen


def _word_vectors(sentences: Sequence[Sequence[str]]) -> scipy.sparse.csr_array:
    """Return a row of length 1 for each sentence: counts of its words, weighted by rarity."""
    numbers: dict[str, int] = {}
    columns = [[numbers.setdefault(word.lower(), len(numbers)) for word in words] for words in sentences]
    rows = np.repeat(np.arange(len(sentences)), [len(one) for one in columns])
    flat = np.concatenate([np.array(one, np.int64) for one in columns])
    counts = scipy.sparse.csr_array((np.ones(len(flat)), (rows, flat)), shape=(len(sentences), len(numbers)))
    counts.sum_duplicates()
    rarity: Float64[Array, "words"] = np.log(len(sentences) / np.bincount(counts.indices, minlength=len(numbers)))
    counts.data *= rarity[counts.indices]
    norm = np.sqrt(np.bincount(np.repeat(np.arange(len(sentences)), np.diff(counts.indptr)), weights=counts.data**2))
    counts.data /= np.repeat(np.where(norm > 0, norm, 1.0), np.diff(counts.indptr))
    return counts


class Choosing(TypedDict, total=False):
    """Settings of `choose`."""

    outliers: float
    diversity: float


def select(
    parser: Parser,
    sentences: Iterable[Sequence[str]],
    count: int,
    *,
    known: Iterable[Sequence[str]] = (),
    shortest: int = 10,
    longest: int = 60,
    progress: Progress | None = None,
    **choosing: Unpack[Choosing],
) -> list[Proposal]:
    """Return the sentences to annotate next, parsed.

    Parameters
    ----------
    parser, sentences, known, shortest, longest, progress
        As for `score_candidates`.
    count, choosing
        As for `choose`: `outliers` and `diversity`.

    Examples
    --------
    >>> import sapwood
    >>> trees = [
    ...     sapwood.Tree.parse("(S (N we) (VP (V saw) (NP (N men)) (PP (P with) (NP (N dogs)))))"),
    ...     sapwood.Tree.parse("(S (N we) (VP (V saw) (NP (NP (N men)) (PP (P with) (NP (N dogs))))))"),
    ... ]
    >>> parser = sapwood.Parser(sapwood.PCFG().fit(sapwood.PCFG.prepare(trees)))
    >>> text = [["we", "saw", "dogs"], ["we", "saw", "dogs", "with", "men"]]
    >>> [one.place for one in select(parser, text, 1, shortest=1)]
    [2]
    """
    note = (progress or Silent()).note
    sentences = parser.attached_punctuation().watched(sentences, lambda finding: note(f"text: {finding}; {TOKENISE}"))
    rated = score_candidates(parser, sentences, known=known, shortest=shortest, longest=longest, progress=progress)
    chosen = choose(rated, count, **choosing)
    parsed = parser.with_options(marginals=True).map(_parsed, (one.words for one in chosen))
    return [Proposal(one.place, one.entropy, *found) for one, found in zip(chosen, parsed, strict=True)]


def _parsed(parser: Parser, words: Sequence[str]) -> tuple[ParseResult, tuple[Marginal, ...]]:
    """Parse a sentence, and find the phrases that its tree lacks."""
    result = parser.parse_one(words, check_tokens=False)
    there = {(one.start, one.end, one.label) for one in result.marginals or []}
    tags = set(parser.grammar.emissions.tags)
    root = parser.grammar.transform.root
    missing = (
        one
        for one in parser.posteriors(words, least=_LEAST)
        if (one.start, one.end, one.label) not in there
        and one.label != root
        and not (one.end - one.start == 1 and one.label in tags)
    )
    return result, tuple(missing)
