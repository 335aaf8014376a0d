"""Memory estimate of a whole training run: grammars, folds and components (`sapwood.learn.memory`)."""

from __future__ import annotations

from sapwood.evaluate.dev_set import Evaluate
from sapwood.learn.memory import FOREST, LAID_OUT, LAYER_NODE, PACKED, PROGRAM, MemoryEstimate
from sapwood.pipeline.recipe import Recipe
from sapwood.trees.corpus import Corpus


def estimate_run_memory(recipe: Recipe, corpus: Corpus, dev: Evaluate | None = None) -> MemoryEstimate | None:
    """Return the memory of a whole run; None if any learner has no estimate."""
    known: dict[str, MemoryEstimate | None] = {}
    packed = peak = 0.0
    folds = []
    for number, learner in enumerate(recipe.learners):
        settings = {name: value for name, value in learner.settings().items() if name != "random_state"}
        key = f"{learner.method} {settings}"
        if key not in known:
            known[key] = learner.estimate_memory(corpus, dev)
        estimate = known[key]
        if estimate is None:
            return None
        peak = max(peak, packed + estimate.peak)
        packed += PACKED * estimate.grammar
        if recipe.crf is not None and number in range(len(recipe.learners))[: recipe.crf.members]:
            folds.append(estimate)
    if recipe.crf is not None:
        crf = recipe.crf
        held_out = 1 / crf.folds if crf.held_out is None else min(1.0, crf.held_out / corpus.n_trees)
        words = corpus.n_words if crf.held_out is None else held_out * corpus.n_words
        for estimate in folds:
            peak = max(peak, packed + (1 - held_out) * estimate.peak)
            packed += crf.n_fits * (1 - held_out) * PACKED * estimate.grammar
        held = PROGRAM + LAYER_NODE * corpus.n_nodes + packed + FOREST * words * len(corpus.rules)
        peak = max(peak, held + sum(LAID_OUT * estimate.grammar for estimate in folds))
    return MemoryEstimate(peak)
