"""Training a network that scores spans: losses by enumeration, gradients by differences, and whole runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from helpers.training_helpers import Interrupted, Lines
from oracles.binary_trees import bracketings
from sapwood import Parser, evaluate_parser, kernels, train
from sapwood.errors import InputError, UsageError
from sapwood.learn import PCFG
from sapwood.learn.components._span_scorer_backprop import Backprop, Batch
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import _WARMUP, Optimisation, SpanScorerTrainer, TrainingSentences
from sapwood.model import ParserModel
from sapwood.model.forest_crf import ForestCRF
from sapwood.model.span_scorer import EOS, Dims, SpanScorer, n_word_features
from sapwood.runtime.log import read_log

SMALL = SpanScorerTrainer(embedding=12, hidden=10, layers=2, span_hidden=12, epochs=3, batch_words=60)


@pytest.fixture(scope="module")
def trees():
    return made_up_treebank(80)


@pytest.fixture(scope="module")
def corpus(trees):
    return PCFG.prepare(trees)


@pytest.mark.parametrize("n", [2, 3, 6])
def test_the_loss_and_its_derivatives_are_those_of_all_trees(n):
    rng = np.random.default_rng(n)
    spans = [(i, j) for i in range(n) for j in range(i + 2, n + 1)]
    scores = rng.normal(scale=2, size=(2, len(spans), 3)).astype(np.float32)
    right = np.full((2, len(spans)), -1, np.int32)
    expected_loss, expected = 0.0, np.zeros(scores.shape)
    for sentence in range(2):
        trees = bracketings(0, n)
        gold = trees[rng.integers(len(trees))]
        for span in gold:
            right[sentence, spans.index(span)] = rng.integers(3)
        sums = np.logaddexp.reduce(scores[sentence].astype(float), axis=1)
        totals = np.array([sum(sums[spans.index(span)] for span in tree) for tree in trees])
        log_total = np.logaddexp.reduce(totals)
        expected_loss += log_total
        for place, span in enumerate(spans):
            mass = np.exp(totals[[span in tree for tree in trees]] - log_total).sum()
            expected[sentence, place] = mass * np.exp(scores[sentence, place] - sums[place])
            if span in gold:
                expected_loss -= scores[sentence, place, right[sentence, place]]
                expected[sentence, place, right[sentence, place]] -= 1
    flat, mass = scores.reshape(-1, 3).copy(), np.empty(2 * len(spans), np.float32)
    assert kernels.tree_crf_loss(flat, right.ravel(), n, mass) == pytest.approx(expected_loss, rel=1e-5)
    np.testing.assert_allclose(flat.reshape(expected.shape), expected, atol=1e-5)


def random_batch(rng: np.random.Generator, sizes: Dims, n: int, sentences: int, vectors: int) -> Batch:
    spans = [(i, j) for i in range(n) for j in range(i + 2, n + 1)]
    labels = np.full((sentences, len(spans)), -1, np.int32)
    for row in labels:
        trees = bracketings(0, n)
        for span in trees[rng.integers(len(trees))]:
            row[spans.index(span)] = rng.integers(sizes.labels)
    tags = rng.integers(-1, sizes.tags, n * sentences).astype(np.int32)
    looks = rng.integers(0, vectors, (n + 2, sentences, n_word_features(None))).astype(np.int32)
    encoded = rng.normal(size=(n * sentences, sizes.encoder)).astype(np.float32) if sizes.encoder else None
    return Batch(looks, labels.ravel(), tags, encoded)


@pytest.mark.parametrize(
    ("n", "size", "half", "layers", "encoder"), [(5, 8, 6, 2, 0), (4, 8, 4, 3, 0), (1, 5, 4, 1, 0), (4, 8, 5, 2, 3)]
)
def test_gradients_are_those_of_the_loss(n, size, half, layers, encoder):
    rng = np.random.default_rng(n)
    sizes = Dims(size, half, layers, 10, 4, 5, encoder)
    backprop = Backprop.random(sizes, 12, rng)
    backprop.weights += rng.normal(scale=0.2, size=backprop.weights.shape).astype(np.float32)
    backprop.embeddings *= 10
    batch = random_batch(rng, sizes, n, 3, 12)
    masks = [rng.uniform(0.5, 1.5, (3, width)).astype(np.float32) for width in (size, *[2 * half] * layers)]

    def loss() -> float:
        by_trees, by_tags = backprop.loss(batch, masks, negligible=0.0)
        return by_trees + 0.5 * by_tags

    loss()
    parts = {**sizes.views(backprop.gradient.copy()), "table": backprop.embeddings_gradient.copy()}
    weights = {**sizes.views(backprop.weights), "table": backprop.embeddings}
    step = 4e-3
    for name, gradient in parts.items():
        if n == 1 and name.startswith(("left", "right", "ends", "span", "label")):
            assert not gradient.any()
            continue
        assert gradient.any(), name
        for _ in range(5):
            place = tuple(rng.integers(0, gradient.shape))
            before = weights[name][place]
            found = []
            for sign in (1, -1):
                weights[name][place] = before + sign * step
                found.append(loss())
            weights[name][place] = before
            difference = (found[0] - found[1]) / (2 * step)
            assert difference == pytest.approx(gradient[place], abs=0.05, rel=0.03), (name, place)


def test_spans_that_hardly_count_make_no_difference():
    rng = np.random.default_rng(0)
    sizes = Dims(8, 6, 1, 10, 4, 5)
    batch = random_batch(rng, sizes, 5, 2, 12)
    masks = [np.ones((2, width), np.float32) for width in (8, 12)]
    found = []
    for negligible in (0.0, 1e-4):
        backprop = Backprop.random(sizes, 12, np.random.default_rng(1))
        backprop.weights *= 3
        backprop.loss(batch, masks, negligible=negligible)
        found.append(backprop.gradient)
    np.testing.assert_allclose(found[0], found[1], atol=1e-2 * float(np.abs(found[0]).max()))


def test_steps_are_those_of_adam():
    rng = np.random.default_rng(0)
    weights, gradient, mean = (rng.normal(size=50).astype(np.float32) for _ in range(3))
    square = rng.uniform(size=50).astype(np.float32)
    m, v = 0.9 * mean + 0.1 * 0.5 * gradient, 0.98 * square + 0.02 * (0.5 * gradient) ** 2
    expected = weights - 0.01 * m * 1.5 / (np.sqrt(v * 1.2) + 1e-8)
    kernels.adam_step(weights, gradient, mean, square, 0.5, 0.01, 1.5, 1.2)
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
    np.testing.assert_allclose(mean, m, rtol=1e-5)
    np.testing.assert_allclose(square, v, rtol=1e-5)
    assert not gradient.any()


def test_batches_have_the_trees_as_they_are(corpus):
    sentences = TrainingSentences(corpus, 1000, None)
    rng = np.random.default_rng(0)
    batches = sentences.batches(60, rng)
    assert sorted(np.concatenate(batches).tolist()) == list(range(corpus.n_trees))
    trees = max(batches, key=len)
    n = int(sentences.lengths[trees[0]])
    assert len(trees) * n <= 60
    batch = sentences.batch(trees, 0.0, rng)
    reader = SpanScorer(
        Dims(1, 1, 1, 1, 1, 1), sentences.word_features, (), (), np.zeros((0, 1), np.float32), np.zeros(0, "f"), 0.0
    )
    for place, tree in enumerate(trees.tolist()):
        labels = batch.labels.reshape(len(trees), -1)[place]
        spans = [(i, j) for i in range(n) for j in range(i + 2, n + 1)]
        found = {(*spans[s], sentences.labels[labels[s]]) for s in np.flatnonzero(labels >= 0)}
        nodes = range(corpus.offsets[tree], corpus.offsets[tree + 1])
        inner = {
            (int(corpus.start[v]), int(corpus.end[v]), corpus.symbols.base[corpus.symbol[v]])
            for v in nodes
            if corpus.word[v] < 0
        }
        assert found == inner
        tags = [sentences.tags[tag] for tag in batch.tags.reshape(n, -1)[:, place]]
        assert tags == [corpus.symbols.base[corpus.symbol[v]] for v in nodes if corpus.word[v] >= 0]
        # Words are seen as they will be in parsing, with the marks around them.
        words = [corpus.words[corpus.word[v]] for v in nodes if corpus.word[v] >= 0]
        assert batch.word_features[:, place].tolist() == reader.encode(words).tolist()
    often = sentences.batch(trees, 1e9, rng)
    assert (often.word_features[1:-1, :, 0] == 0).all()
    assert (often.word_features[1:-1, :, 1:] == batch.word_features[1:-1, :, 1:]).all()
    assert (batch.word_features[1:-1, :, 0] > EOS).any()


def test_first_steps_are_shorter(corpus):
    """Steps of Adam along a gradient that stays are as long as the rate; the first ones grow to that."""
    backprop = Backprop.random(Dims(4, 4, 1, 4, 2, 2), 5, np.random.default_rng(0))
    run = Optimisation(SMALL, backprop, TrainingSentences(corpus, 10, None))
    for number in range(1, _WARMUP + 3):
        backprop.gradient[...], backprop.embeddings_gradient[...] = 1.0, 0.0
        before = backprop.weights.copy()
        run._adam_step(0.5, 1.0)
        np.testing.assert_allclose(before - backprop.weights, 0.5 * min(1, number / _WARMUP), rtol=1e-2)


def test_a_network_learns_and_makes_a_grammar_better(trees, corpus):
    log = Lines()
    network = replace(SMALL, epochs=10).fit(corpus, log=log)
    losses = [line["loss"] for line in log.of("network")]
    assert losses[-1] < 0.6 * losses[0]
    grammar, more = ParserModel.from_grammars(PCFG().fit(corpus)), made_up_treebank(60, seed=1)
    beside = grammar.replace(crf=ForestCRF.identity().with_scorer_weight(0.3), span_scorer=network)
    plain, better = (evaluate_parser(Parser(one), more) for one in (grammar, beside))
    assert better.f1 >= plain.f1
    assert better.failed == plain.failed


@pytest.mark.parametrize("layer", [False, ForestCRFTrainer(folds=2, epochs=1, bits=12, min_count=2)])
def test_the_same_seed_gives_the_same_bytes_interrupted_or_not(trees, tmp_path, layer):
    run = {"method": "pcfg", "span_scorer": SMALL, "crf": layer}
    train(trees, **run, output=tmp_path / "one", log=tmp_path / "log")
    one = (tmp_path / "one").read_bytes()
    model = ParserModel.load(tmp_path / "one")
    assert model.span_scorer is not None
    assert model.crf is not None
    assert model.crf.dense[-1] == SMALL.weight
    assert bool(len(model.crf.places)) == bool(layer)
    lines = read_log(tmp_path / "log")
    assert [line["epoch"] for line in lines if line["event"] == "network"] == [1, 2, 3]
    torn = tmp_path / "torn"
    for at in (1, 2):
        with pytest.raises(Interrupted):
            train(trees, **run, output=torn, resume=at > 1, progress=_Epochs(at))
        assert (tmp_path / "torn.checkpoint-span-scorer").exists()
    with pytest.raises(UsageError, match="other settings"):
        train(trees, **{**run, "span_scorer": replace(SMALL, learning_rate=0.1)}, output=torn, resume=True)
    train(trees, **run, output=torn, resume=True)
    assert one == torn.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "one", "torn"]


class _Epochs:
    """Progress that comes to an end after so many epochs of a network."""

    def __init__(self, most: int) -> None:
        from sapwood.runtime.progress import Silent

        self._silent, self._most = Silent(), most

    def note(self, text: str) -> None:
        self._silent.note(text)

    def stage(self, name: str, *options: object, **others: object):
        return _Stage(self._most) if name == "span scorer" else self._silent.stage(name, *options, **others)


class _Stage:
    def __init__(self, most: int) -> None:
        self._left = most

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def step(self, amount: int = 1, **_: object) -> None:
        self._left -= amount
        if self._left < 0:
            raise Interrupted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": 0}, "hidden"),
        ({"span_hidden": 5000}, "span_hidden must be at least 1 and at most 4096"),
        ({"dropout": 1.0}, "dropout"),
        ({"epochs": 1.5}, "epochs must be a whole number"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"weight": -1.0}, "weight"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(UsageError, match=message):
        SpanScorerTrainer(**settings)


def test_a_rate_that_is_too_high_is_said_to_be(corpus):
    with pytest.raises(InputError, match="smaller learning_rate"):
        replace(SMALL, learning_rate=1e30).fit(corpus)
    assert math.isfinite(float(np.abs(SMALL.fit(corpus).weights).max()))
