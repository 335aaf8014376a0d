"""Evaluation of induced models, next to baselines without learning.

An induced model is only useful where it beats all of these. In English, right branching is hard to beat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from sapwood.evaluate.unlabelled import TITLES, UnlabelledResult, UnlabelledScorer, labelled_spans
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.induction.induced_model import InducedModel
from sapwood.induction.label_mapping import LabelScorer
from sapwood.induction.learners import InductionResult
from sapwood.induction.parser import InducedGrammarParser, InducedParser
from sapwood.induction.text import divided_tokens
from sapwood.induction.to_grammar import PHRASE
from sapwood.model.parser_model import ParserModel
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
# Sentence lengths of the tables, besides that of the longest.
LENGTHS = (10, 40)


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
    labels
        The label of each span; None if it has no tree.
    """

    tokens: list[tuple[str, str]]
    spans: set[Span] | None
    heads: list[int] | None
    divided: list[bool] | None = None
    labels: dict[Span, str] | None = None

    @classmethod
    def of_tree(cls, tree: Tree, rules: HeadRules | None = None) -> Gold | None:
        """Return the gold standard of a tree, heads by rules (default: English); None if no word is left."""
        clean = without_punctuation(tree)
        if clean is None:
            return None
        heads = [found.head - 1 for found in dependencies(clean, rules)]
        words, tags = tree.words(), tree.tags()
        kept = [place for place, token in enumerate(zip(words, tags, strict=True)) if not is_punctuation(*token)]
        tokens, labels = list(zip(clean.words(), clean.tags(), strict=True)), labelled_spans(clean)
        return cls(tokens, set(labels), heads, divided_tokens(words, kept), labels)


@dataclass(frozen=True)
class InductionScores:
    """Scores of a model, or of a baseline.

    Attributes
    ----------
    unlabelled
        Scores of spans and heads.
    labels
        Scores of labels and tags; None for gold standards without trees.
    perplexity
        Perplexity per word; None unless the model assigns probabilities to all sentences.
    """

    unlabelled: UnlabelledResult
    labels: LabelScorer | None = None
    perplexity: float | None = None


def model_parser(
    model: InductionResult | ParserModel, *, workers: Executor = LOCAL, **settings: Any
) -> InducedGrammarParser | InducedParser:
    """Return a parser with an induced model; by default the trees of a grammar are chosen by `DECODER`."""
    if isinstance(model, InducedModel):
        return InducedParser(model, workers=workers, **settings)
    return InducedGrammarParser(model, workers=workers, **{"decoder": DECODER, **settings})


def score_model(
    model: InductionResult | ParserModel,
    gold: Iterable[Gold],
    *,
    tags: bool = True,
    workers: Executor = LOCAL,
    progress: Progress | None = None,
    **settings: Any,
) -> UnlabelledResult:
    """Return the unlabelled scores of a model; parameters are those of `score_induction`."""
    return score_induction(model, gold, tags=tags, workers=workers, progress=progress, **settings).unlabelled


def score_induction(
    model: InductionResult | ParserModel,
    gold: Iterable[Gold],
    *,
    tags: bool = True,
    workers: Executor = LOCAL,
    progress: Progress | None = None,
    **settings: Any,
) -> InductionScores:
    """Return the unlabelled and labelled scores of a model, and its perplexity.

    The labels of a grammar are its hidden states (`X-3`), if it returns any (`states=True`).

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
    parser = model_parser(model, workers=workers, **settings)
    scorer, labels = UnlabelledScorer(), LabelScorer()
    logarithms: list[float | None] = []
    parsed: Any = parser.parse(sentences)
    if isinstance(parser, InducedParser):
        parsed = parser.parse(sentences, [one.divided for one in rows])
    results = track(parsed, progress or Silent(), "parsing", len(rows), "sentences")
    for one, result in zip(rows, results, strict=True):
        found = None if result.tree is None else labelled_spans(getattr(result, "state_tree", None) or result.tree)
        heads = getattr(result, "heads", None) if isinstance(parser, InducedParser) else None
        scorer.add(
            len(one.tokens),
            spans=None if one.spans is None or found is None else (one.spans, found),
            heads=None if one.heads is None or heads is None else (one.heads, heads),
        )
        logarithms.append(result.log_probability)
        if one.labels is not None and found is not None:
            labels.add(len(one.tokens), one.labels, found)
            labels.add_tags([tag for _, tag in one.tokens], result.tree.tags())
    words = sum(len(one.tokens) for one in rows)
    known = [value for value in logarithms if value is not None]
    perplexity = math.exp(-sum(known) / words) if words and len(known) == len(logarithms) else None
    return InductionScores(scorer.result(), labels, perplexity)


def score_spans(trees: Iterable[Collection[Span]], gold: Iterable[Gold]) -> InductionScores:
    """Return the scores of bracketings, whose spans have one and the same label."""
    scorer, labels = UnlabelledScorer(), LabelScorer()
    for spans, one in zip(trees, gold, strict=True):
        if one.spans is not None:
            scorer.add(len(one.tokens), spans=(one.spans, spans))
            labels.add(len(one.tokens), one.labels or {}, dict.fromkeys(spans, PHRASE))
    return InductionScores(scorer.result(), labels)


def score_baselines(gold: Iterable[Gold], *, heads: bool, random_state: int = 0) -> dict[str, UnlabelledResult]:
    """Return the scores of the baselines: bracketings, or with `heads` dependency trees."""
    found = assess_baselines(gold, heads=heads, random_state=random_state)
    return {name: scores.unlabelled for name, scores in found.items()}


def assess_baselines(gold: Iterable[Gold], *, heads: bool, random_state: int = 0) -> dict[str, InductionScores]:
    """Return all scores of the baselines, whose spans have one and the same label."""
    rows = list(gold)
    found: dict[str, InductionScores] = {}
    for name, make in (HEADS if heads else BRACKETINGS).items():
        rng = np.random.default_rng(random_state)
        guesses: list[Any] = [make(len(one.tokens), rng) for one in rows]
        if not heads:
            found[name] = score_spans(guesses, rows)
            continue
        scorer = UnlabelledScorer()
        for one, guess in zip(rows, guesses, strict=True):
            if one.heads is not None:
                scorer.add(len(one.tokens), heads=(one.heads, guess))
        found[name] = InductionScores(scorer.result())
    return found


def comparison(results: Mapping[str, UnlabelledResult], length: int | None) -> str:
    """Return a table of several results on sentences up to a length, or of all lengths."""
    figures = ("f1", "proper_f1", "trivial_sentence_f1", "sentence_f1", "directed", "undirected")
    shown = [name for name in figures if any(name in result.figures for result in results.values())]
    table = [["all lengths" if length is None else f"up to {length} words", *(TITLES[name] for name in shown)]]
    for name, result in results.items():
        part = result if length is None else result.up_to(length)
        table.append([name, *(f"{getattr(part, one):.1f}" if one in result.figures else "" for one in shown)])
    return format_table(table)


def label_comparison(results: Mapping[str, InductionScores]) -> str:
    """Return a table of labelled F1 and V-measures of all sentences, and of perplexity."""
    table = [["labels", "labelled F1", "homogeneity", "V-measure", "tags: homogeneity", "V-measure", "perplexity"]]
    for name, scores in results.items():
        if scores.labels is None:
            continue
        measures = [figure for one in (scores.labels.labels(), scores.labels.tags()) for figure in (
            ("", "") if one is None else (f"{one.homogeneity:.1f}", f"{one.v_measure:.1f}")
        )]  # fmt: skip
        perplexity = "" if scores.perplexity is None else f"{scores.perplexity:,.1f}"
        table.append([name, f"{scores.labels.labelled_f1():.1f}", *measures, perplexity])
    return format_table(table)


def report(
    model: InductionResult | ParserModel,
    trees: Iterable[Tree],
    *,
    tags: bool,
    length: int | None = None,
    name: str | None = None,
    rules: HeadRules | None = None,
    progress: Progress | None = None,
) -> str:
    """Return tables of the model and the baselines, on treebank trees.

    Parameters
    ----------
    model, tags, progress
        As for `score_induction`.
    trees
        The trees.
    length
        Maximum number of words of the scored sentences; by default all are scored.
    name
        Name of the model.
    rules
        Head rules (default: English).
    """
    gold = [one for tree in trees if (one := Gold.of_tree(tree, rules)) is not None]
    gold = [one for one in gold if length is None or len(one.tokens) <= length]
    found = assess_baselines(gold, heads=False)
    if isinstance(model, InducedModel) and model.heads is not None:
        found |= assess_baselines(gold, heads=True)
    named = name or (model.model if isinstance(model, InducedModel) else "model")
    states: dict[str, Any] = {} if isinstance(model, InducedModel) else {"states": _has_states(model)}
    found[named] = score_induction(model, gold, tags=tags, progress=progress, **states)
    return format_report(found, max((len(one.tokens) for one in gold), default=0), length)


def format_report(found: Mapping[str, InductionScores], longest: int, length: int | None = None) -> str:
    """Return tables of scores by name: unlabelled ones by length, and labelled ones.

    Parameters
    ----------
    found
        The scores.
    longest
        Number of words of the longest sentence.
    length
        Maximum number of words of a sentence, if there is one.
    """
    lengths: list[int | None] = [each for each in LENGTHS if each < longest and (length is None or each < length)]
    lengths.append(length if length is None or longest > LENGTHS[0] else min(LENGTHS[0], length))
    unlabelled = {name: scores.unlabelled for name, scores in found.items()}
    tables = [comparison(unlabelled, each) for each in lengths]
    return "\n\n".join([*tables, label_comparison(found)])


def _has_states(model: TensorGrammar | ParserModel) -> bool:
    """Return whether a parser can return hidden states of its trees: those of a single probabilistic grammar."""
    if isinstance(model, TensorGrammar):
        return model.probabilistic
    return len(model.grammars) == 1 and model.grammar.probabilistic
