"""Arrays whose shapes do not fit together: kernels name the one that is wrong, and read nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood import kernels
from sapwood.inference.chart.posteriors import Workspace
from sapwood.inference.ensemble import Ensemble
from sapwood.inference.estep._shard_estep import inside_outside
from sapwood.inference.estep.trees import TreeEStep
from sapwood.inference.forest_crf import native_crf
from sapwood.learn import PCFG
from sapwood.model.forest_crf import ForestCRF
from sapwood.trees.corpus import Corpus


@pytest.fixture(scope="module")
def corpus():
    return Corpus.from_trees(made_up_treebank(20))


@pytest.fixture(scope="module")
def grammar(corpus):
    return PCFG().fit(corpus)


@pytest.fixture(scope="module")
def sentence(corpus, grammar):
    """An ensemble of one grammar with a plain layer, and a sentence's words and leaves."""
    words = corpus.sentence(0)
    ensemble = Ensemble([grammar], np.float64, ForestCRF.identity())
    rows = [grammar.emissions.row(terminal) for terminal in grammar.lexicon.terminals(words).tolist()]
    leaves = [ensemble.leaf([row]) for row in rows]
    return ensemble, words, leaves


def parse_arguments(sentence) -> dict:
    ensemble, words, leaves = sentence
    n, nothing = len(words), np.zeros((0, 0), np.float32)
    return {
        "leaves": leaves, "threshold": 1e-6, "level": 1e-6, "negligible": 0.0, "unseen": 0.0,
        "cells": np.full(n * (n + 1) // 2, kernels.FREE, np.int32), "allowed": np.zeros((0, 0), bool),
        "prune_cells": False,
        "decoder": kernels.Decoder.max_rule, "crf": native_crf(ensemble.crf, ensemble.joint),
        "words": ensemble.crf.table(words), "spans": nothing, "tags": nothing,
        "span_scorer": None, "features": np.zeros((0, 0), np.int32), "prune_below": 0.0,
        "workspace": Workspace().native,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("cells", np.zeros(2, np.int32)),
        ("allowed", np.zeros((1, 1), bool)),
        ("words", np.zeros((1, kernels.WORD_COLUMNS), np.uint32)),
        ("words", np.zeros((0, 3), np.uint32)),
        ("tags", np.zeros((1, 4), np.float32)),
        ("features", np.zeros((1, 4), np.int32)),
    ],
)
def test_parse(sentence, name, wrong):
    engine, arguments = sentence[0]._engine, parse_arguments(sentence)
    assert engine.parse(**arguments) is not None
    n = len(sentence[1])
    if name == "tags":
        arguments["spans"] = np.zeros((n * (n + 1) // 2, 1), np.float32)
    if name == "features":
        embeddings, weights = np.zeros((3, 1), np.float32), np.zeros(30, np.float32)
        arguments["span_scorer"] = kernels.SpanScorer(embeddings, weights, 1, 1, 1, 1, 1, 0)
    with pytest.raises(ValueError, match=f"^{name} has the shape .*, expected "):
        engine.parse(**arguments | {name: wrong})


@pytest.mark.parametrize("name", ["nodes", "edges", "log_nodes", "log_edges", "words"])
def test_layer_chart(grammar, sentence, name):
    leaves = sentence[2]
    chart = Ensemble([grammar], np.float64).chart(leaves, threshold=1e-6)
    arguments = parse_arguments(sentence)
    given = {
        "crf": arguments["crf"], "forest": kernels.forest(*chart.forest), "nodes": chart.node_posterior,
        "edges": chart.edge_posterior, "log_nodes": None, "log_edges": None, "members": 1, "words": arguments["words"],
        "spans": arguments["spans"], "tags": arguments["tags"], "workspace": arguments["workspace"],
    }  # fmt: skip
    assert np.isfinite(kernels.crf_chart(**given)[-1])
    wrong = np.zeros((1, 3), np.uint32) if name == "words" else np.zeros(1)
    with pytest.raises(ValueError, match=f"^{name} has the shape "):
        kernels.crf_chart(**given | {name: wrong})
    with pytest.raises(ValueError, match="log_nodes"):
        kernels.crf_chart(**given | {"members": 2})


@pytest.mark.parametrize("name", ["outside", "left", "right", "weights", "start", "tensor"])
def test_rule_em(name):
    rng = np.random.default_rng(0)
    arrays = {
        "outside": rng.random((7, 2)), "left": rng.random((7, 3)), "right": rng.random((7, 4)), "weights": np.ones(7),
        "start": np.full((2, 12), 1 / 24), "tensor": np.full((2, 12), 1 / 24),
    }  # fmt: skip
    settings = {"strength": 1.0, "chunk": 4, "iterations": 3, "tolerance": 0.0}
    kernels.rule_em(**arrays, **settings)
    with pytest.raises(ValueError, match="has the shape"):
        kernels.rule_em(**arrays | {name: arrays[name][:-1].copy()}, **settings)


@pytest.mark.parametrize("name", ["r_sums", "blend", "statistics"])
def test_rows_of_bigram_em(name):
    arrays = {"r": np.ones((5, 3)), "r_sums": np.ones((5, 3)), "blend": np.ones(2), "statistics": np.ones((5, 3))}
    settings = {"begin": 0, "end": 5, "pseudo": 0.0, "smallest": 0.0}
    kernels.blend_rows(**arrays, **settings)
    with pytest.raises(ValueError, match=f"^{name} has the shape"):
        kernels.blend_rows(**arrays | {name: arrays[name][:-1].copy()}, **settings)
    with pytest.raises(ValueError, match=r"^rows 0 to 6 of 5$"):
        kernels.blend_rows(**arrays, **settings | {"end": 6})


def test_one_axis_and_any_size_are_written_like_shapes_of_numpy():
    scores = {"r": np.ones((2, 3)), "s": np.ones((2, 4)), "result": np.zeros(1)}
    pairs = {"contexts": np.zeros(1, np.int32), "targets": np.zeros(1, np.int32)}
    with pytest.raises(ValueError, match=r"^s has the shape \(2, 4\), expected \(any, 3\)$"):
        kernels.pair_products(**pairs, **scores)
    with pytest.raises(ValueError, match=r"^result has the shape \(0,\), expected \(1,\)$"):
        kernels.pair_products(**pairs, **scores | {"s": np.ones((2, 3)), "result": np.zeros(0)})


@pytest.mark.parametrize("name", ["tensors", "root", "lexical", "tensor_offsets"])
def test_weights_of_em(corpus, grammar, name):
    trees = TreeEStep(corpus)
    weights = trees._weights(grammar, None, np.float64)
    (shard, *_) = trees._place(weights).shards
    inside_outside(shard, weights)
    with pytest.raises(ValueError, match=f"^{name} has the shape"):
        inside_outside(shard, replace(weights, **{name: getattr(weights, name)[:-1].copy()}))


def test_vectors_of_em(corpus, grammar):
    trees = TreeEStep(corpus)
    weights = trees._weights(grammar, None, np.float64)
    (shard, *_) = trees._place(weights).shards
    _, vectors = inside_outside(shard, weights)
    kernels.expected_inner(shard, weights, vectors, np.zeros(len(weights.root)))
    with pytest.raises(ValueError, match=r"^occupancy has the shape"):
        kernels.expected_inner(shard, weights, vectors, np.zeros(1))
    few = replace(vectors, outside=np.zeros(0))
    with pytest.raises(ValueError, match=r"^outside has the shape"):
        kernels.expected_inner(shard, weights, few, np.zeros(len(weights.root)))
    with pytest.raises(ValueError, match=r"^rows 0 to "):
        kernels.expected_rules(shard, weights, vectors, 0, len(weights.rules), np.zeros(1))
