"""Evaluation of induced models, next to baselines without learning.

An induced model is only useful where it beats all of these. In English, right branching is hard to beat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from sapwood.evaluate.unlabelled import UnlabelledResult, UnlabelledScorer, spans_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.induction.induced_model import InducedModel
from sapwood.induction.learners import InductionResult
from sapwood.induction.parser import InducedGrammarParser, InducedParser
from sapwood.induction.text import divided_tokens
from sapwood.runtime.executor import LOCAL, Executor
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.runtime.tables import format_table
from sapwood.trees.formats.conllu import dependencies
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.punctuation import is_punctuation, without_punctuation
from sapwood.trees.tree import Tree

Span = tuple[int, int]
# Criterion by which the trees of a grammar are chosen: the largest sum of the posteriors of their spans.
DECODER = "recall"


def right_branching(length: int) -> list[Span]:
    """Return the spans of two or more words of the right-branching tree.

    >>> right_branching(3)
    [(0, 3), (1, 3)]
    """
    return [(begin, length) for begin in range(length - 1)]


def segments_to_the_right(divided: Sequence[bool]) -> list[Span]:
    """Return the right-branching tree of the segments between punctuation marks, which branch to the right, too.

    >>> segments_to_the_right([False, False, True, False])
    [(0, 2), (0, 4), (2, 4)]
    """
    length = len(divided)
    begins = [0, *(place for place in range(1, length) if divided[place]), length]
    found = {(begin, length) for begin in begins[:-2]}
    for first, last in pairwise(begins):
        found |= {(begin, last) for begin in range(first, last - 1)}
    return sorted((begin, end) for begin, end in found if end - begin > 1)


def left_branching(length: int) -> list[Span]:
    """Return the spans of the left-branching tree.

    >>> left_branching(3)
    [(0, 2), (0, 3)]
    """
    return [(0, end) for end in range(2, length + 1)]


def balanced(length: int) -> list[Span]:
    """Return the spans of the tree that is split into halves, the first half the longer one.

    >>> balanced(3)
    [(0, 2), (0, 3)]
    """
    return sorted(_divided(length, lambda begin, end: (begin + end + 1) // 2))


def random_tree(length: int, rng: np.random.Generator) -> list[Span]:
    """Return the spans of a tree made by repeatedly splitting at a uniformly drawn position."""
    return sorted(_divided(length, lambda begin, end: int(rng.integers(begin + 1, end))))


def _divided(length: int, place: Callable[[int, int], int]) -> list[Span]:
    found, waiting = [], [(0, length)]
    while waiting:
        begin, end = waiting.pop()
        if end - begin > 1:
            found.append((begin, end))
            middle = place(begin, end)
            waiting += [(begin, middle), (middle, end)]
    return found


def heads_before(length: int) -> list[int]:
    """Return the tree in which the head of each word is the previous one.

    >>> heads_before(3)
    [-1, 0, 1]
    """
    return list(range(-1, length - 1))


def heads_behind(length: int) -> list[int]:
    """Return the tree in which the head of each word is the next one.

    >>> heads_behind(3)
    [1, 2, -1]
    """
    return [*range(1, length), -1] if length else []


def random_heads(length: int, rng: np.random.Generator) -> list[int]:
    """Return a projective tree: a head drawn uniformly from its span, then recursively on both sides of it."""
    heads = [-1] * length
    waiting = [(0, length, -1)]
    while waiting:
        begin, end, above = waiting.pop()
        if begin < end:
            head = int(rng.integers(begin, end))
            heads[head] = above
            waiting += [(begin, head, head), (head + 1, end, head)]
    return heads


BRACKETINGS: Final[Mapping[str, Callable[[int, np.random.Generator], list[Span]]]] = MappingProxyType(
    {
        "left-branching": lambda length, _: left_branching(length),
        "right-branching": lambda length, _: right_branching(length),
        "balanced": lambda length, _: balanced(length),
        "random trees": random_tree,
    }
)
HEADS: Final[Mapping[str, Callable[[int, np.random.Generator], list[int]]]] = MappingProxyType(
    {
        "heads before": lambda length, _: heads_before(length),
        "heads behind": lambda length, _: heads_behind(length),
        "random heads": random_heads,
    }
)


@dataclass(frozen=True)
class Gold:
    """Gold standard of a sentence, without punctuation.

    Attributes
    ----------
    tokens
        Its words and tags.
    spans
        The spans of two or more words; None if it has no tree.
    heads
        The heads of its words; None if unknown.
    divided
        Whether a dividing punctuation mark was removed before each word; None if unknown.
    """

    tokens: list[tuple[str, str]]
    spans: set[Span] | None
    heads: list[int] | None
    divided: list[bool] | None = None

    @classmethod
    def of_tree(cls, tree: Tree, rules: HeadRules | None = None) -> Gold | None:
        """Return the gold standard of a tree, heads by rules (default: English); None if no word is left."""
        clean = without_punctuation(tree)
        if clean is None:
            return None
        heads = [found.head - 1 for found in dependencies(clean, rules)]
        words, tags = tree.words(), tree.tags()
        kept = [place for place, token in enumerate(zip(words, tags, strict=True)) if not is_punctuation(*token)]
        tokens = list(zip(clean.words(), clean.tags(), strict=True))
        return cls(tokens, spans_of(clean), heads, divided_tokens(words, kept))


def score_model(
    model: InductionResult,
    gold: Iterable[Gold],
    *,
    tags: bool = True,
    workers: Executor = LOCAL,
    progress: Progress | None = None,
    **settings: Any,
) -> UnlabelledResult:
    """Return the scores of a model.

    Parameters
    ----------
    model
        The induced model.
    gold
        Sentences with their gold standard.
    tags
        Whether the model is given the tags.
    workers
        Executor.
    progress
        Progress display.
    settings
        Settings of the parser; by default the trees of a grammar are chosen by `DECODER`.
    """
    rows = list(gold)
    sentences: Any = ([(word, tag if tags else None) for word, tag in one.tokens] for one in rows)
    if not tags:
        sentences = ([word for word, _ in one.tokens] for one in rows)
    parser: Any
    if isinstance(model, TensorGrammar):
        parser = InducedGrammarParser(model, workers=workers, **{"decoder": DECODER, **settings})
    else:
        parser = InducedParser(model, workers=workers, **settings)
    scorer = UnlabelledScorer()
    marks = [one.divided for one in rows]
    parsed = parser.parse(sentences) if isinstance(model, TensorGrammar) else parser.parse(sentences, marks)
    results = track(parsed, progress or Silent(), "parsing", len(rows), "sentences")
    for one, result in zip(rows, results, strict=True):
        found = None if result.tree is None else spans_of(result.tree)
        heads = getattr(result, "heads", None)
        scorer.add(
            len(one.tokens),
            spans=None if one.spans is None or found is None else (one.spans, found),
            heads=None if one.heads is None or heads is None else (one.heads, heads),
        )
    return scorer.result()


def score_baselines(gold: Iterable[Gold], *, heads: bool, random_state: int = 0) -> dict[str, UnlabelledResult]:
    """Return the scores of the baselines: bracketings, or with `heads` dependency trees."""
    rows = list(gold)
    found: dict[str, UnlabelledResult] = {}
    makers: Sequence[tuple[str, Callable[..., Any]]] = list((HEADS if heads else BRACKETINGS).items())
    for name, make in makers:
        rng = np.random.default_rng(random_state)
        scorer = UnlabelledScorer()
        for one in rows:
            guess = make(len(one.tokens), rng)
            if heads and one.heads is not None:
                scorer.add(len(one.tokens), heads=(one.heads, guess))
            elif not heads and one.spans is not None:
                scorer.add(len(one.tokens), spans=(one.spans, guess))
        found[name] = scorer.result()
    return found


def comparison(results: dict[str, UnlabelledResult], length: int) -> str:
    """Return a table of several results on sentences up to a length."""
    figures = ("f1", "proper_f1", "sentence_f1", "directed", "undirected")
    shown = [name for name in figures if any(name in result.figures for result in results.values())]
    titles = {"f1": "F1", "proper_f1": "F1 (proper)", "sentence_f1": "F1 (mean)"}
    table = [[f"up to {length} words", *(titles.get(name, name) for name in shown)]]
    for name, result in results.items():
        part = result.up_to(length)
        table.append([name, *(f"{getattr(part, one):.1f}" if one in result.figures else "" for one in shown)])
    return format_table(table)


def report(
    model: InductionResult,
    trees: Iterable[Tree],
    *,
    tags: bool,
    length: int,
    rules: HeadRules | None = None,
    progress: Progress | None = None,
) -> str:
    """Return tables of the model and the baselines, on treebank trees of up to 10 words and up to a length."""
    gold = [one for tree in trees if (one := Gold.of_tree(tree, rules)) is not None and len(one.tokens) <= length]
    results = dict(score_baselines(gold, heads=False))
    name = model.model if isinstance(model, InducedModel) else "model"
    if isinstance(model, InducedModel) and model.heads is not None:
        results |= score_baselines(gold, heads=True)
    results[name] = score_model(model, gold, tags=tags, progress=progress)
    lengths = [10, length] if max((len(one.tokens) for one in gold), default=0) > 10 else [min(10, length)]
    return "\n\n".join(comparison(results, each) for each in lengths)
