"""How much memory and time a whole training run will take, about: grammars, those of folds, a layer and a network.

Grammars that are done wait packed (`PackedGrammar`). So the most memory is held while one of them is learned; or while
trees are parsed for the layer, by a grammar that is laid out for that, and their forests kept. The constants are
measured: see docs/performance.md.
"""

from __future__ import annotations

import numpy as np

from sapwood.evaluate.held_out import Evaluate
from sapwood.learn.base import Learner
from sapwood.learn.forecast import PROGRAM, Forecast
from sapwood.learn.layer import LayerLearner
from sapwood.learn.network import NetworkLearner
from sapwood.learn.recipe import Recipe
from sapwood.trees.corpus import Corpus

# What a grammar takes, packed and ready for parsing or for a file, for each byte of its weights.
_PACKED, _LAID_OUT = 0.05, 1.8
# Bytes: of each node of the corpus; of forests for each word and rule, since more rules leave more edges.
_NODE, _FOREST = 100.0, 0.27
# Seconds of one core: for each word of a forest that is made, and each of them and rule; for each word of one that is
# learned from; for each sum and product of a network.
_MADE, _RULE, _LEARNED, _OPERATION = 0.1e-3, 12e-9, 0.03e-3, 2e-11


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
    held = PROGRAM + _NODE * corpus.n_nodes
    if recipe.layer is not None:
        folds = grammars[: recipe.layer.members]
        words, rest = _held_out(recipe.layer, corpus)
        rules = len(corpus.rules)
        for one in folds:
            memory = max(memory, packed + rest * one.memory)
            seconds += recipe.layer.turns * rest * (one.seconds - one.measuring)
            packed += recipe.layer.turns * rest * _PACKED * one.grammar
        memory = max(memory, held + packed + _FOREST * words * rules + sum(_LAID_OUT * one.grammar for one in folds))
        seconds += words * ((_MADE + _RULE * rules) * len(folds) + recipe.layer.epochs * _LEARNED) / workers
    if recipe.network is not None:
        seconds += recipe.network.epochs * _OPERATION * _operations(recipe.network, corpus)
    return Forecast(memory, seconds)


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


def _operations(network: NetworkLearner, corpus: Corpus) -> float:
    """Return how many sums and products a pass over the trees takes, about.

    Those of all matrices for each word, forward and back; but of labels for each span, and forward alone: few spans
    have a say in the gradient.
    """
    labels, tags = (len(set(part)) for part in np.split(np.array(corpus.symbols.base), [corpus.n_interminals]))
    sizes = network.sizes(labels, tags)
    words = np.add.reduceat(corpus.word >= 0, corpus.offsets[:-1], dtype=np.int64)
    by_label = sizes.inner * labels
    return 6.0 * (sizes.n_weights - by_label) * corpus.n_words + by_label * float((words * (words - 1)).sum())
