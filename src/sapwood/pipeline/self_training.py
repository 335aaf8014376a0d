"""Self-training: retrain on trees predicted for unlabelled text.

A first model, including a CRF and a span scorer, is trained on the gold trees alone and parses sentences of a text. The
grammars and the span scorer of a second model are trained on the gold and the predicted trees. It keeps the CRF of the
first: the CRF learns how far to trust a grammar, which requires gold trees.

A grammar learns little from its own predictions. These, however, were chosen by a CRF and a span scorer, which know
what the grammar does not (McClosky, Charniak and Johnson 2006), and they show words in context that occur in no gold
tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sapwood.errors import UsageError
from sapwood.evaluate.dev_set import Evaluate
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.semi_supervised.data import corpus_as_is
from sapwood.model.forest_crf import ForestCRF
from sapwood.model.parser_model import ParserModel
from sapwood.pipeline.recipe import Recipe
from sapwood.pipeline.record import RunRecord, run_inputs
from sapwood.pipeline.run import TrainingRun, run_recipe
from sapwood.pipeline.silver import SilverTrees, predict_trees
from sapwood.runtime.checkpoint import RunFiles, with_remedy
from sapwood.runtime.progress import Progress, Silent
from sapwood.trees.corpus import Corpus

# Stage of the first model in the record of the run.
_FIRST_MODEL = "first-model"


@dataclass(frozen=True, kw_only=True)
class SentenceSampler:
    """Sampler of sentences for self-training.

    Parameters
    ----------
    max_sentences
        Maximum number of sentences, drawn at random.
    min_words, max_words
        Minimum and maximum number of words.

    Examples
    --------
    >>> sampler = SentenceSampler(max_sentences=2, min_words=2)
    >>> sampler.sample([["a", "b"], ["c"], ["d", "e", "f"], ["g", "h"]], seed=1)
    [['a', 'b'], ['g', 'h']]
    """

    max_sentences: int = 10_000
    min_words: int = 3
    max_words: int = 40

    def sample(self, sentences: Iterable[Sequence[str]], seed: int) -> list[Sequence[str]]:
        """Return a uniform sample of the sentences of a text of any size, in order."""
        rng = np.random.default_rng([seed, self.max_sentences])
        kept: list[tuple[int, Sequence[str]]] = []
        seen = 0
        for sentence in sentences:
            if not self.min_words <= len(sentence) <= self.max_words:
                continue
            place = len(kept) if seen < self.max_sentences else int(rng.integers(seen + 1))
            if place < self.max_sentences:
                kept[place : place + 1] = [(seen, sentence)]
            seen += 1
        return [sentence for _, sentence in sorted(kept, key=lambda one: one[0])]


def self_training_recipes(make: Callable[..., Recipe], n_trees: int, n_sentences: int) -> tuple[Recipe, Recipe]:
    """Return the recipes of the first and of the second model.

    Parameters
    ----------
    make
        Makes the recipe, given the number of trees, `n_trees`.
    n_trees
        Number of gold trees.
    n_sentences
        Number of sentences of the text.
    """
    first = make(n_trees=n_trees)
    try:
        second = replace(make(n_trees=n_trees + n_sentences), crf=None)
    except UsageError as error:
        raise UsageError(f"of the second model, which also learns from {n_sentences} sentences: {error}") from error
    if second.span_scorer is not None:
        # An epoch is longer now, and has each of the gold trees several times.
        epochs = math.ceil(second.span_scorer.epochs / 3)
        second = replace(second, span_scorer=replace(second.span_scorer, epochs=epochs))
    return first, second


def self_train(
    recipes: tuple[Recipe, Recipe],
    corpus: Corpus,
    sentences: Sequence[Sequence[str]],
    dev: Evaluate | None = None,
    *,
    files: RunFiles,
    progress: Progress | None = None,
) -> ParserModel:
    """Train two models, the second one on the trees predicted by the first as well.

    Parameters
    ----------
    recipes
        Recipes of both models (`self_training_recipes`).
    corpus
        The gold trees.
    sentences
        Unlabelled sentences, sampled by a `SentenceSampler`.
    dev
        The development set.
    files
        Files of the run; the first model and its files are kept next to them. Only the second model is logged.
    progress
        Receives progress reports.

    Returns
    -------
    model
        The second model, or the first if it parses no sentence.
    """
    first, second = recipes
    progress = progress or Silent()
    with RunRecord.open(files, run_inputs(recipes, corpus, dev, sentences)) as record:
        progress.note(f"training the first model, to parse {len(sentences):,} sentences of the text")
        teacher = fit_first_model(first, corpus, dev, record, progress)
        trees = predict_trees(teacher, sentences, first.learners[0].executor, progress)
        if not trees:
            progress.note("the first model has no tree for any sentence of the text, and is kept as it is")
            return teacher
        lost = len(sentences) - len(trees)
        without = f" ({lost:,} sentence(s) have no tree)" if lost else ""
        progress.note(
            f"training the second model on {corpus.n_trees:,} trees and {len(trees):,} predicted trees{without}"
        )
        crf = crf_to_keep(first, teacher)
        silver = SilverTrees(corpus_as_is(trees, corpus))
        run = TrainingRun(second, corpus, dev, record=record, progress=progress, silver=silver, crf=crf)
        return run.fit()


def fit_first_model(
    recipe: Recipe, corpus: Corpus, dev: Evaluate | None, record: RunRecord, progress: Progress
) -> ParserModel:
    """Return the first model: that of an interrupted run, or a new one, which is a run of its own."""
    if not record.files.resume:
        record.files.discard_log()
    path = record.files.teacher
    if path is not None and _FIRST_MODEL in record.finished:
        with with_remedy("file"):
            return ParserModel.load(path).with_encoder(recipe.encoder)
    files = RunFiles(path, resume=record.files.resume)
    model = run_recipe(recipe, corpus, dev, files=files, progress=progress)
    if path is not None:
        model.save(path)
        record.finish(_FIRST_MODEL)
        files.clear()
    return model


def crf_to_keep(recipe: Recipe, model: ParserModel) -> tuple[ForestCRFTrainer, ForestCRF] | None:
    """Return the CRF of the first model, with its trainer; None for one that only carries a span scorer's weight."""
    return None if recipe.crf is None or model.crf is None else (recipe.crf, model.crf)
