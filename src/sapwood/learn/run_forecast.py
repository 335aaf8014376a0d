"""How much memory and time a whole training run will take, about: grammars, those of folds, a layer and a network.

Grammars that are done wait packed (`PackedGrammar`). So the most memory is held while one of them is learned; or while
trees are parsed for the layer, by a grammar that is there as it is and laid out for parsing; or while the layer learns
from forests. The constants are measured: see docs/performance.md.
"""

from __future__ import annotations

from sapwood.evaluate.held_out import Evaluate
from sapwood.learn.base import Learner
from sapwood.learn.forecast import Forecast
from sapwood.learn.layer import LayerLearner
from sapwood.learn.recipe import Recipe
from sapwood.trees.corpus import Corpus

# What a grammar takes, packed and ready for parsing, for each byte of its weights.
_PACKED, _LAID_OUT = 0.1, 2.0
# Bytes: of each node of the corpus, and of each word of forests.
_NODE, _FOREST = 100.0, 1e3
# Seconds of one core: for each word of a forest that is made, of one that is learned from, and that the network sees.
_MADE, _LEARNED, _SEEN = 0.15e-3, 0.03e-3, 90e-6


def forecast_run(recipe: Recipe, corpus: Corpus, dev: Evaluate | None = None) -> Forecast | None:
    """Return what a run will take, about; None if one of its learners does not say."""
    known: dict[str, Forecast | None] = {}
    grammars = []
    for learner in recipe.learners:
        key = _kind(learner)
        if key not in known:
            known[key] = learner.forecast(corpus, dev)
        if (found := known[key]) is None:
            return None
        grammars.append(found)
    workers = recipe.first.where.count
    packed = memory = seconds = 0.0
    for one in grammars:
        memory, seconds = max(memory, packed + one.memory), seconds + one.seconds
        packed += _PACKED * one.grammar
    held = packed + _NODE * corpus.n_nodes
    if recipe.layer is not None:
        folds = grammars[: recipe.layer.members]
        words, rest = _held_out(recipe.layer, corpus)
        for one in folds:
            memory = max(memory, packed + rest * one.memory)
            seconds += recipe.layer.turns * rest * (one.seconds - one.measuring)
            packed += recipe.layer.turns * rest * _PACKED * one.grammar
        parsed = sum(_LAID_OUT * one.grammar for one in folds)
        memory = max(memory, packed + parsed + _FOREST * words + _NODE * corpus.n_nodes)
        seconds += words * (_MADE * len(folds) + recipe.layer.epochs * _LEARNED) / workers
    if recipe.network is not None:
        seconds += recipe.network.epochs * _SEEN * corpus.n_words
    return Forecast(max(memory, held + grammars[0].grammar), seconds)


def _kind(learner: Learner) -> str:
    """Return what a forecast depends on: all settings but the seed."""
    settings = {name: value for name, value in learner.settings().items() if name != "random_state"}
    return f"{learner.method} {settings}"


def _held_out(layer: LayerLearner, corpus: Corpus) -> tuple[float, float]:
    """Return how many words a layer learns from, and the part of the trees that a grammar for it is learned from."""
    if layer.held_out is None:
        return corpus.n_words, 1 - 1 / layer.folds
    part = min(1.0, layer.held_out / corpus.n_trees)
    return part * corpus.n_words, 1 - part
