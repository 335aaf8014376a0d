"""Distillation: train on silver trees, predicted by another parser, besides the gold trees.

The teacher may be anything that is more accurate than the model that is wanted: an ensemble, a parser with a pretrained
encoder. The student learns its grammars and its span scorer from gold and silver trees, and is as small and as fast as
any other model. Its forest CRF is trained on the gold trees alone, as part of a first model: the CRF learns how far to
trust a grammar.
"""

from __future__ import annotations

from sapwood.evaluate.dev_set import Evaluate
from sapwood.model.parser_model import ParserModel
from sapwood.pipeline.recipe import Recipe
from sapwood.pipeline.record import RunRecord, run_inputs
from sapwood.pipeline.run import TrainingRun
from sapwood.pipeline.self_training import crf_to_keep, fit_first_model
from sapwood.pipeline.silver import SilverTrees
from sapwood.runtime.checkpoint import RunFiles
from sapwood.runtime.progress import Progress, Silent
from sapwood.trees.corpus import Corpus


def distil(
    recipes: tuple[Recipe, Recipe],
    corpus: Corpus,
    silver: SilverTrees,
    dev: Evaluate | None = None,
    *,
    files: RunFiles,
    progress: Progress | None = None,
) -> ParserModel:
    """Train a model on gold and silver trees.

    Parameters
    ----------
    recipes
        Recipes of the first model and of the result (`sapwood.pipeline.self_training.self_training_recipes`). The first
        one is trained for its CRF only, and not at all without one.
    corpus
        The gold trees.
    silver
        The silver trees.
    dev
        The development set.
    files, progress
        As for `sapwood.pipeline.self_training.self_train`.
    """
    first, second = recipes
    progress = progress or Silent()
    inputs = run_inputs(recipes, corpus, dev) | {"text": silver.fingerprint}
    with RunRecord.open(files, inputs) as record:
        crf = None
        if first.crf is not None:
            progress.note(f"training a first model on the {corpus.n_trees:,} gold trees, for its CRF")
            model = fit_first_model(first, corpus, dev, record, progress)
            crf = crf_to_keep(first, model)
        progress.note(f"training on {corpus.n_trees:,} gold and {silver.corpus.n_trees:,} silver trees")
        run = TrainingRun(second, corpus, dev, record=record, progress=progress, silver=silver, crf=crf)
        return run.fit()
