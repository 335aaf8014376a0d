"""Adaptation: teach a trained model trees of another domain, without the trees that it was trained on.

The stages are those of every training run. Each grammar is adapted with its own expected counts as prior
(`sapwood.learn.lpcfg.adaptation`), also without each fold of the trees, for the forest CRF; CRF and span scorer are
fine-tuned (`sapwood.learn.components.fine_tuning`). The weight of the trees is chosen on a quarter of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from sapwood.encoders.encoder import Encoder
from sapwood.encoders.lookup import VARIABLE, encoder_of_model
from sapwood.errors import InputError, UsageError
from sapwood.evaluate.dev_set import DevSet, Evaluate
from sapwood.learn.components.fine_tuning import ForestCRFFineTuning, SpanScorerFineTuning
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.lpcfg.adaptation import GrammarAdaptation, check_preparation, choose_weight, trees_of
from sapwood.model.parser_model import ParserModel, Sources
from sapwood.pipeline.recipe import Recipe
from sapwood.pipeline.run import run_recipe
from sapwood.runtime.checkpoint import RunFiles
from sapwood.runtime.executor import LOCAL, Executor
from sapwood.runtime.progress import Progress, Silent
from sapwood.trees.corpus import Corpus
from sapwood.trees.tree import Tree

# With fewer trees the CRF is kept as it is.
_FEWEST_FOR_CRF = 20
# Steps that the weights of the CRF count as, for each that made them.
_STEPS = 5


def adapt(
    model: ParserModel,
    corpus: Corpus,
    dev: Evaluate | None = None,
    *,
    weight: float | None = None,
    seed: int = 0,
    workers: Executor = LOCAL,
    files: RunFiles,
    progress: Progress | None = None,
) -> ParserModel:
    """Return a model adapted to further trees.

    Parameters
    ----------
    model
        The model. Grammars with real-valued weights are left out.
    corpus
        The trees, prepared as those of the model were.
    dev
        The development set.
    weight
        Weight of each tree, relative to one of the model's own; None: chosen on a quarter of the trees.
    seed
        Seed of every random choice.
    workers
        Executor of passes over the trees.
    files, progress
        As for `sapwood.pipeline.run.run_recipe`.
    """
    progress = progress or Silent()
    model = _adaptable(model, progress)
    for grammar in model.grammars:
        check_preparation(grammar, corpus)
    if weight is None:
        weight = choose_weight(model.grammar, corpus, workers=workers)
        progress.note(f"each tree weighs as much as {weight:g} of the model's, chosen on a quarter of the trees")
    recipe = adaptation_recipe(model, corpus.n_trees, weight=weight, seed=seed, workers=workers)
    trained = run_recipe(recipe, corpus, dev, files=files, progress=progress)
    kept = trained.crf
    if model.crf is not None and recipe.crf is None:
        kept = model.crf
    return replace(model, grammars=trained.grammars, crf=kept, span_scorer=trained.span_scorer, meta=trained.meta)


def check_arguments(
    model: Sources | None, weight: float | None, others: Sequence[str], named: Callable[[str], str] = str
) -> None:
    """Refuse other arguments of `train` that cannot be combined with `adapt`.

    Parameters
    ----------
    model, weight
        The arguments `adapt` and `adapt_weight`.
    others
        Names of other arguments that were given.
    named
        Spelling of an argument in messages: `--adapt-weight` for `adapt_weight`.
    """
    if model is None:
        raise UsageError(f"{named('adapt_weight')} requires {named('adapt')}")
    if others:
        raise UsageError(f"{named('adapt')} cannot be used with {named(others[0])}: the model decides")
    if weight is not None and not 0 < weight < math.inf:
        raise UsageError(f"{named('adapt_weight')} must be above 0 and finite, not {weight}")


def prepare_adaptation(
    model: ParserModel,
    trees: Iterable[Tree] | Corpus,
    dev: Iterable[Tree] | DevSet | None = None,
    *,
    workers: Executor = LOCAL,
    progress: Progress | None = None,
) -> tuple[Corpus, DevSet | None]:
    """Return trees, and those of a development set, prepared as the model's own were."""
    if not isinstance(trees, Corpus):
        prepared = model.preparation
        trees = Corpus.from_trees(
            trees, normaliser=prepared.normaliser, transform=prepared.transform, progress=progress
        )
        if trees.dropped and progress is not None:
            progress.note(f"skipped {trees.dropped} tree(s) that are empty after normalisation")
    held_out = dev if dev is None or isinstance(dev, DevSet) else DevSet(dev, trees, workers=workers)
    return trees, held_out


def adaptation_recipe(
    model: ParserModel, n_trees: int, *, weight: float, seed: int = 0, workers: Executor = LOCAL
) -> Recipe:
    """Return the recipe that adapts a model: its grammars, and its components if there are enough trees."""
    options: dict[str, Any] = {"random_state": seed, "threads": workers.threads}
    if not workers.is_local:
        options["workers"] = workers
    learners = tuple(GrammarAdaptation.of(one, weight=weight, **options) for one in model.grammars)
    crf = span_scorer = None
    if model.crf is not None and model.crf.groups and n_trees >= _FEWEST_FOR_CRF:
        steps = ForestCRFTrainer.epochs * trees_of(model.grammar) / ForestCRFTrainer.batch
        crf = ForestCRFFineTuning(start=model.crf, steps=_STEPS * math.ceil(steps))
    if model.span_scorer is not None:
        span_scorer = SpanScorerFineTuning.of(model.span_scorer, weight=model.crf.scorer_weight if model.crf else 0.0)
    return Recipe(learners, crf=crf, span_scorer=span_scorer, encoder=_encoder(model))


def _adaptable(model: ParserModel, progress: Progress) -> ParserModel:
    """Return the model without what cannot be adapted."""
    grammars = [grammar for grammar in model.grammars if grammar.probabilistic]
    if not grammars:
        raise InputError(
            "the model cannot be adapted: the weights of its grammar are real-valued, not probabilities; train it by "
            "another method than spectral or pivot"
        )
    if left := len(model.grammars) - len(grammars):
        progress.note(f"left out {left} of {len(model.grammars)} grammars, whose weights are not probabilities")
    if model.cp is not None:
        progress.note("left out the CP decomposition, which is of the old rules: apply it again (`sapwood minimise`)")
    return model.replace(grammars=tuple(grammars), cp=None)


def _encoder(model: ParserModel) -> Encoder | None:
    """Return the encoder of the span scorer; refuse a model whose encoder is missing."""
    scorer = model.span_scorer
    if scorer is None or scorer.encoder is None:
        return None
    features = scorer.encoder
    if (found := encoder_of_model(features.name, features.digest, features.source)) is None:
        raise InputError(
            f"the model cannot be adapted without its encoder {features.name} (digest {features.digest[:12]}): name "
            f"its folder in ${VARIABLE}, or install its package"
        )
    return found
