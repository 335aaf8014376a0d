"""How good what was learned without trees is, beside what costs nothing to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sapwood.evaluate.tables import format_table
from sapwood.evaluate.unlabelled import UnlabelledResult, UnlabelledScorer, spans_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.induction.baselines import BRACKETINGS, HEADS
from sapwood.induction.induced import InducedModel
from sapwood.induction.inducers import Learned
from sapwood.induction.parsing import InducedGrammarParser, InducedParser
from sapwood.run.progress import Progress, Silent, track
from sapwood.run.workers import HERE, Workers
from sapwood.trees.dependencies import dependencies
from sapwood.trees.heads import HeadRules
from sapwood.trees.punctuation import without_punctuation
from sapwood.trees.tree import Tree

Span = tuple[int, int]
# By what the trees of a grammar are chosen: the largest sum of the posteriors of their spans.
DECODER = "recall"


@dataclass(frozen=True)
class Gold:
    """What is right for a sentence, once punctuation is out.

    Attributes
    ----------
    tokens
        Its words and tags.
    spans
        The spans of two words and more; None if it has no tree.
    heads
        The heads of its words; None if they are not known.
    """

    tokens: list[tuple[str, str]]
    spans: set[Span] | None
    heads: list[int] | None

    @classmethod
    def of_tree(cls, tree: Tree, rules: HeadRules | None = None) -> Gold | None:
        """Return what a tree says, heads by rules (by default those for English); None if nothing is left of it."""
        clean = without_punctuation(tree)
        if clean is None:
            return None
        heads = [found.head - 1 for found in dependencies(clean, rules)]
        return cls(list(zip(clean.words(), clean.tags(), strict=True)), spans_of(clean), heads)


def score_model(
    model: Learned,
    gold: Iterable[Gold],
    *,
    tags: bool = True,
    workers: Workers = HERE,
    progress: Progress | None = None,
    **settings: Any,
) -> UnlabelledResult:
    """Return how much of what a model finds is right.

    Parameters
    ----------
    model
        What was learned.
    gold
        Sentences and what is right for them.
    tags
        Whether the model is given the tags.
    workers
        Who parses.
    progress
        What to report to.
    settings
        Of the parser; of a grammar trees are chosen by `DECODER` unless these say otherwise.
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
    results = track(parser.parse(sentences), progress or Silent(), "parsing", len(rows), "sentences")
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
    """Return what bracketings, or with `heads` trees of heads, that know nothing of the words get right."""
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
    """Return a table of several results on sentences of up to a length."""
    figures = ("f1", "proper_f1", "sentence_f1", "directed", "undirected")
    shown = [name for name in figures if any(name in result.figures for result in results.values())]
    titles = {"f1": "F1", "proper_f1": "F1 (proper)", "sentence_f1": "F1 (mean)"}
    table = [[f"up to {length} words", *(titles.get(name, name) for name in shown)]]
    for name, result in results.items():
        part = result.up_to(length)
        table.append([name, *(f"{getattr(part, one):.1f}" if one in result.figures else "" for one in shown)])
    return format_table(table)


def report(
    model: Learned,
    trees: Iterable[Tree],
    *,
    tags: bool,
    length: int,
    rules: HeadRules | None = None,
    progress: Progress | None = None,
) -> str:
    """Return tables of the model and of what knows nothing, on treebank trees of up to 10 words and up to a length."""
    gold = [one for tree in trees if (one := Gold.of_tree(tree, rules)) is not None and len(one.tokens) <= length]
    results = dict(score_baselines(gold, heads=False))
    name = model.model if isinstance(model, InducedModel) else "model"
    if isinstance(model, InducedModel) and model.heads is not None:
        results |= score_baselines(gold, heads=True)
    results[name] = score_model(model, gold, tags=tags, progress=progress)
    lengths = [10, length] if max((len(one.tokens) for one in gold), default=0) > 10 else [min(10, length)]
    return "\n\n".join(comparison(results, each) for each in lengths)
