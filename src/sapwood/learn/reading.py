"""Learning from plain text what a whole model makes of it.

A first model is learned from the trees alone, with its layer and its network, and reads sentences of a text. A second
one's grammars and network are learned from the trees and from those that the first one has found. Its layer is that of
the first: it says how far a grammar can be trusted, which only trees that were given can tell.

A grammar that learns from trees of its own learns little. This one learns from trees that a layer and a network have
chosen, which know what it does not (McClosky, Charniak and Johnson 2006), and meets words in their places that no tree
has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sapwood.errors import InputError, UsageError
from sapwood.evaluate.held_out import Evaluate
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.forests import Reading, read_best
from sapwood.inference.parser import Parser
from sapwood.learn.lessons import clean_corpus
from sapwood.learn.recipe import Recipe
from sapwood.run.progress import Progress, track
from sapwood.trees.corpus import Corpus

if TYPE_CHECKING:
    from sapwood.learn.run import TrainingRun


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What is read of a text.

    Parameters
    ----------
    most
        How many sentences at the most, drawn at random.
    shortest, longest
        How many words they have.

    Examples
    --------
    >>> Reader(most=2, shortest=2).draw([["a", "b"], ["c"], ["d", "e", "f"], ["g", "h"]], seed=1)
    [['a', 'b'], ['g', 'h']]
    """

    most: int = 10_000
    shortest: int = 3
    longest: int = 40

    def draw(self, sentences: Iterable[Sequence[str]], seed: int) -> list[Sequence[str]]:
        """Return sentences of a text of any size, each as likely as any other, in their order."""
        rng = np.random.default_rng([seed, self.most])
        kept: list[tuple[int, Sequence[str]]] = []
        seen = 0
        for sentence in sentences:
            if not self.shortest <= len(sentence) <= self.longest:
                continue
            place = len(kept) if seen < self.most else int(rng.integers(seen + 1))
            if place < self.most:
                kept[place : place + 1] = [(seen, sentence)]
            seen += 1
        return [sentence for _, sentence in sorted(kept, key=lambda one: one[0])]


def learn_by_reading(
    run: TrainingRun,
    make: Callable[..., Recipe],
    corpus: Corpus,
    sentences: Sequence[Sequence[str]],
    dev: Evaluate | None,
    progress: Progress,
) -> tuple[Recipe, list[TensorGrammar]]:
    """Learn two models, the second one from what the first has read as well.

    Parameters
    ----------
    run
        The run of the second model; files of the first one are kept beside its own.
    make
        Makes what to learn of the number of trees, `n_trees`.
    corpus
        The trees that are given.
    sentences
        What is read, as a `Reader` has drawn it.
    dev, progress
        As for `TrainingRun`.

    Returns
    -------
    recipe, grammars
        Of the second model; of the first, if it has no tree for any sentence.
    """
    if not sentences:
        raise InputError("there is no sentence to read")
    first = make(n_trees=corpus.n_trees)
    try:
        second = replace(make(n_trees=corpus.n_trees + len(sentences)), layer=None)
    except UsageError as error:
        raise UsageError(f"of the second model, which also learns from {len(sentences)} sentences: {error}") from error
    if second.network is not None:
        # A pass is longer now, and has each of the given trees several times.
        second = replace(second, network=replace(second.network, epochs=math.ceil(second.network.epochs / 3)))
    progress.note(f"a first model, which is to read {len(sentences):,} sentences of the text")
    teacher = run.teacher(first, corpus, dev, progress)
    parser = Parser(teacher, workers=first.first.where)
    found = track(
        read_best(parser, map(Reading, sentences)), progress, "reading text", len(sentences), "sentences"
    )  # fmt: skip
    trees = [tree for tree in found if tree is not None]
    del parser
    if not trees:
        progress.note("the first model has no tree for any sentence of the text, and remains the only one")
        return first, run.finish(teacher)
    lost = len(sentences) - len(trees)
    without = f" ({lost:,} sentence(s) have no tree)" if lost else ""
    progress.note(f"a second model, from {corpus.n_trees:,} trees and {len(trees):,} of what was read{without}")
    read = clean_corpus(trees, corpus)
    return second, run(second, corpus, dev, progress, read=read, teacher=teacher[0], what="the second model")
