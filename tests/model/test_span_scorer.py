"""A network that scores spans: its kernel against plain sums, and what is stored of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.made_up import made_up_treebank
from oracles.binary_trees import bracketings
from sapwood import Parser
from sapwood.errors import GrammarError, ModelError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference.chart.posteriors import Workspace
from sapwood.inference.forest_crf import CRFChart
from sapwood.learn import PCFG
from sapwood.model import ParserModel
from sapwood.model.forest_crf import ForestCRF
from sapwood.model.span_scorer import (
    BOS,
    EOS,
    PAD,
    Dims,
    EncoderFeatures,
    SpanScorer,
    SpanScores,
    frequent_features,
    n_word_features,
    word_features,
)
from sapwood.trees.lexicon.word_classes import WordClasses

WORDS_OF = [tree.words() for tree in made_up_treebank(12)]
WORDS = ["The", "cats-and-dogs", "saw", "3,000", "Mice", "."]


def random_network(rng: np.random.Generator, sizes: Dims, words=WORDS, labels=None, tags=None) -> SpanScorer:
    known = tuple(frequent_features(dict.fromkeys(words, 2), 1000))
    return SpanScorer(
        sizes,
        known,
        labels or tuple(f"L{number}" for number in range(sizes.labels)),
        tags or tuple(f"T{number}" for number in range(sizes.tags)),
        rng.normal(size=(len(known) + EOS + 1, sizes.embedding)).astype(np.float32),
        rng.normal(scale=0.5, size=sizes.n_weights).astype(np.float32),
    )


def plain_scores(network: SpanScorer, words: list[str], vectors: np.ndarray | None = None) -> SpanScores:
    """Return the scores of all cells and tags, each step written out in double precision."""
    sizes = network.dims
    w = {name: part.astype(float) for name, part in sizes.views(network.weights).items()}

    def normal(x, name):
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * w[f"{name}.gain"] + w[f"{name}.shift"]

    def logistic(x):
        return 1 / (1 + np.exp(-x))

    x = [network.embeddings[row].astype(float).sum(axis=0) for row in network.encode(words)]
    if vectors is not None:
        x = [x[0], *(row + vector @ w["encoder"] for row, vector in zip(x[1:-1], vectors, strict=True)), x[-1]]
    x = [normal(row, "input") for row in x]
    half, size = sizes.hidden, 2 * sizes.hidden
    for layer in range(sizes.layers):
        out = np.zeros((len(x), size))
        for side, order in ((slice(0, half), range(len(x))), (slice(half, size), range(len(x) - 1, -1, -1))):
            cell = np.zeros(half)
            for t in order:
                candidate, keep, show = (part[side] for part in np.split(x[t] @ w[f"{layer}.gates"], 3))
                keep = logistic(keep + w[f"{layer}.bias"][:size][side])
                show = logistic(show + w[f"{layer}.bias"][size:][side])
                skip = (x[t] @ w[f"{layer}.skip"] if f"{layer}.skip" in w else x[t])[side]
                cell = keep * cell + (1 - keep) * candidate
                out[t, side] = show * np.tanh(cell) + (1 - show) * skip
        x = [normal(row, str(layer)) for row in out]
        if layer == 0:
            first = x
    n = len(words)
    spans, tags = np.zeros((n * (n + 1) // 2, sizes.labels)), np.zeros((n, sizes.tags))
    gaps = [np.concatenate([x[k][:half], x[k + 1][half:]]) for k in range(n + 1)]
    for j in range(1, n + 1):
        for i in range(j):
            if j - i == 1:
                tag = first[j] @ w["tags"] + w["tags.bias"]
                tags[i] = tag - np.log(np.exp(tag).sum())
            else:
                span = normal(gaps[i] @ w["left"] + gaps[j] @ w["right"] + w["ends.bias"], "span")
                spans[j * (j - 1) // 2 + i] = np.maximum(span, 0) @ w["labels"] + w["labels.bias"]
    return SpanScores(spans, tags)


@examples(20)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 20), st.integers(1, 9), st.integers(1, 3))
def test_scores_are_those_of_plain_sums(seed, n, size, half, layers):
    rng = np.random.default_rng(seed)
    network = random_network(rng, Dims(size, half, layers, 2 + size % 18, 1 + size, 20 - size + 1))
    words = [str(word) for word in rng.choice([*WORDS, "unknown"], n)]
    expected = plain_scores(network, words)
    assert max(np.abs(part).max() for part in expected) > 0.1
    for part, wanted in zip(network.scores(words), expected, strict=True):
        np.testing.assert_allclose(part, wanted, atol=2e-3, rtol=1e-3)


@examples(10)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 20), st.integers(1, 18))
def test_scores_with_vectors_are_those_of_plain_sums(seed, n, size, encoder):
    rng = np.random.default_rng(seed)
    network = random_network(rng, Dims(size, 5, 2, 6, 3, 4, encoder))
    words = [str(word) for word in rng.choice([*WORDS, "unknown"], n)]
    vectors = rng.normal(size=(n, encoder)).astype(np.float32)
    expected = plain_scores(network, words, vectors)
    for part, wanted in zip(network.scores(words, vectors), expected, strict=True):
        np.testing.assert_allclose(part, wanted, atol=2e-3, rtol=1e-3)


def encoded_network(rng: np.random.Generator) -> SpanScorer:
    projection, shift = rng.normal(size=(7, 3)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    features = EncoderFeatures("tiny", "5" * 64, 2, True, projection, shift)
    return replace(
        random_network(rng, Dims(4, 3, 1, 5, 2, 2, 3), labels=("S", "NP"), tags=("N", "V")), encoder=features
    )


def test_an_encoder_is_stored_by_its_digest():
    network = encoded_network(np.random.default_rng(0))
    arrays, metadata = network.to_arrays(), network.metadata()
    found = SpanScorer.from_arrays(arrays, metadata)
    assert found.encoder.metadata() == {"name": "tiny", "digest": "5" * 64, "layer": 2, "int8": True}
    vectors = np.random.default_rng(1).normal(size=(4, 7)).astype(np.float32)
    projected = found.encoder.project(vectors)
    np.testing.assert_allclose(projected, vectors @ network.encoder.projection + network.encoder.shift, atol=1e-5)
    words = ["the", "cats", "saw", "mice"]
    for part, wanted in zip(found.scores(words, projected), network.scores(words, projected), strict=True):
        np.testing.assert_array_equal(part, wanted)
    assert "vectors of tiny" in repr(found)
    encoder = metadata["encoder"]
    with pytest.raises(ModelError, match="its metadata is missing"):
        SpanScorer.from_arrays(arrays, {name: value for name, value in metadata.items() if name != "encoder"})
    with pytest.raises(ModelError, match="layer"):
        SpanScorer.from_arrays(arrays, {**metadata, "encoder": {**encoder, "layer": 0}})
    for wrong in ({"digest": "x" * 64}, {"name": "a name\n"}):
        with pytest.raises(ModelError, match="name or digest"):
            SpanScorer.from_arrays(arrays, {**metadata, "encoder": {**encoder, **wrong}})
    less = {
        **arrays,
        "network.projection": network.encoder.projection[:, :2],
        "network.projection_shift": np.zeros(2, np.float32),
    }
    with pytest.raises(ModelError, match=r"network\.weights"):
        SpanScorer.from_arrays(less, metadata)


def test_cells_that_few_trees_need_are_closed():
    """By the masses that an enumeration of all trees gives."""
    rng, n, closed = np.random.default_rng(0), 6, 0
    for threshold in (0.0, 0.01, 0.1, 0.4):
        spans = rng.normal(scale=3, size=(n * (n + 1) // 2, 3)).astype(np.float32)
        sums, trees = np.logaddexp.reduce(spans, axis=1), bracketings(0, n)
        weights = np.exp([sum(sums[j * (j - 1) // 2 + i] for i, j in tree) for tree in trees])
        found = SpanScores(spans, np.zeros((n, 1), np.float32)).prune(threshold)
        for j in range(1, n + 1):
            for i in range(j):
                mass = weights[[(i, j) in tree for tree in trees]].sum() / weights.sum() if j - i > 1 else 1.0
                assert abs(mass - threshold) > 1e-6
                assert found[j * (j - 1) // 2 + i] == (-2 if mass < threshold else -1), (i, j, mass)
                closed += mass < threshold
    assert closed > 10
    assert (SpanScores(np.zeros((3, 0), np.float32), np.zeros((2, 1), np.float32)).prune(0.5) == -1).all()


def test_closing_leaves_good_trees(grammar, network):
    """With nothing closed, with what hardly counts closed, and with so much that the parser must open it again."""
    trees = []
    for one in (network, replace(network, prune_below=1e-9), replace(network, prune_below=0.9)):
        parser = Parser(
            ParserModel.from_grammars(grammar).replace(
                crf=ForestCRF.identity().with_scorer_weight(1.0), span_scorer=one
            )
        )
        trees.append([result.tree for result in parser.parse(WORDS_OF)])
    assert trees[0] == trees[1]
    assert all(tree is not None for tree in trees[2])
    # What is opened again is tried at the same threshold first.
    leaves = parser._lookup.score(WORDS_OF[0])[1]
    tried = [(attempt.threshold, attempt.prune_cells) for attempt in parser._attempts(leaves)]
    assert tried[:2] == [(parser.threshold, True), (parser.threshold, False)]


def test_what_is_seen_of_words():
    assert len(word_features("a")) == len(word_features("Straßenbahn")) == n_word_features(None)
    classes = WordClasses(("a", "b"), np.array([[0, 3], [1, 4]], np.int32))
    assert word_features("B", classes)[-2:] == ["@1:4", "@0:1"]
    assert len(word_features("c", classes)) == n_word_features(classes) == n_word_features(None) + 2
    assert word_features("1,250")[1] == "#0,0"
    assert word_features("")[0] == "="
    counted = frequent_features({"sees": 1, "bees": 1, "of": 2}, 100)
    assert "=of" in counted
    assert "=sees" not in counted
    assert "-ees" in counted
    assert len(frequent_features({"sees": 1, "bees": 1, "of": 2}, 3)) == 3
    network = random_network(np.random.default_rng(0), Dims(2, 1, 1, 1, 1, 1))
    seen = network.encode(["The", "§"])
    assert seen[:, 0].tolist() == [BOS, EOS + 1 + network.word_features.index("=the"), PAD, EOS]
    assert (seen[2] == PAD).all()


@pytest.fixture(scope="module")
def grammar() -> TensorGrammar:
    return PCFG().fit(PCFG.prepare(made_up_treebank(60)))


@pytest.fixture(scope="module")
def network(grammar) -> SpanScorer:
    coarse = Parser(grammar).compiled.coarse
    labels, tags = tuple(coarse.symbols[: coarse.n_interminals]), tuple(coarse.symbols[coarse.n_interminals :])
    sizes = Dims(6, 4, 2, 5, len(labels), len(tags))
    return random_network(np.random.default_rng(1), sizes, grammar.lexicon.words[:50], labels, tags)


def test_symbols_are_known_by_name_and_place(network):
    names = [network.labels[1], "none of these", network.tags[0], network.labels[1]]
    assert network.columns(names, 2).tolist() == [1, -1, 0, -1]


def test_it_is_stored_with_its_grammar(grammar, network, tmp_path):
    ParserModel.from_grammars(grammar).replace(
        crf=ForestCRF.identity().with_scorer_weight(0.5), span_scorer=network
    ).save(tmp_path / "m")
    found = ParserModel.load(tmp_path / "m")
    words = made_up_treebank(1)[0].words()
    assert found.span_scorer.word_features == network.word_features
    for part, wanted in zip(found.span_scorer.scores(words), network.scores(words), strict=True):
        np.testing.assert_array_equal(part, wanted)
    np.testing.assert_array_equal(found.crf.dense[-2:], 0.5)


def test_files_that_do_not_fit_are_refused(network):
    arrays, metadata = network.to_arrays(), network.metadata()
    with pytest.raises(ModelError, match="expected"):
        SpanScorer.from_arrays({**arrays, "network.weights": network.weights[:-1]}, metadata)
    with pytest.raises(ModelError, match="sizes"):
        SpanScorer.from_arrays(arrays, {**metadata, "half": 0})
    with pytest.raises(ModelError, match="no tags"):
        SpanScorer.from_arrays({**arrays, "network.tags": np.zeros(0, np.uint8)}, metadata)
    with pytest.raises(ModelError, match=r"network\.table"):
        SpanScorer.from_arrays({}, metadata)
    assert SpanScorer.from_arrays({}, None) is None


def test_what_it_says_is_added_to_the_layers_scores(grammar, network):
    words = made_up_treebank(5)[3].words()
    layer = ForestCRF.identity(threshold=0.0)
    without, beside = (
        Parser(
            ParserModel.from_grammars(grammar).replace(crf=layer.with_scorer_weight(weight), span_scorer=network)
        ).chart(words)
        for weight in (0.0, 0.7)
    )
    assert isinstance(without, CRFChart)
    assert isinstance(beside, CRFChart)
    forest, coarse = beside.forest, beside.compiled.coarse
    column = network.columns(coarse.symbols, coarse.n_interminals)[forest.node_symbol]
    spans, tags = network.scores(words)
    words_at = [j * (j + 1) // 2 + j for j in range(len(words))]
    extra = [
        0.7 * (tags[words_at.index(cell), place] if symbol >= coarse.n_interminals else spans[cell, place])
        for cell, symbol, place in zip(forest.node_cell, forest.node_symbol, column, strict=True)
    ]
    extra = np.array(extra)
    leaf = np.isfinite(without.leaf_score)
    assert leaf.sum() >= len(words)
    np.testing.assert_allclose(beside.leaf_score[leaf] - without.leaf_score[leaf], extra[leaf], atol=1e-4)
    parents = np.repeat(forest.group_parent, np.diff(forest.group_offsets))
    np.testing.assert_allclose(beside.edge_score - without.edge_score, extra[parents], atol=1e-4)


def test_limits_hold_for_its_scores(grammar, network):
    """They are as many as spans times symbols, whatever pruning leaves."""
    words = ["dogs"] * 300
    known = ParserModel.from_grammars(grammar).replace(crf=ForestCRF.identity(), span_scorer=network)
    assert sum(part.nbytes for part in network.scores(words)) == network.scores_size(300) > 200_000
    assert Parser(known, max_memory=200_000).parse_one(words).status == "out of memory"
    ensemble, workspace = Parser(known)._ensemble, Workspace()
    workspace.native.begin(200_000, None)
    with pytest.raises(MemoryError):
        ensemble._crf_input(words, workspace)


def test_weights_that_are_too_few_are_refused(grammar, network):
    with pytest.raises(GrammarError, match=r"network\.weights: has"):
        ParserModel.from_grammars(grammar).replace(
            span_scorer=replace(network, weights=network.weights[:-1])
        ).validate()
