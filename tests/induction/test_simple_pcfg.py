"""SimplePCFG: its charts against all trees with all symbols, its gradients against differences, its training."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from oracles.binary_trees import bracketings
from sapwood.errors import ModelError, UsageError
from sapwood.induction.estep import (
    IndependentSides,
    SentenceBatch,
    SpanFactors,
    best_binary,
    punctuation_weights,
    span_ends,
    sum_trees,
)
from sapwood.induction.gradient_training import (
    CHECKPOINT,
    TrainingSettings,
    batches_of,
    log_likelihood,
    train_network,
)
from sapwood.induction.induced_model import INDUCED, InducedModel
from sapwood.induction.learners import SimplePCFG
from sapwood.induction.models.rule_network import Adam, RuleNetwork, initial_parameters
from sapwood.induction.models.simple_pcfg import SimplePCFGRules, places, rule_counts, word_rules
from sapwood.induction.parser import InducedParser
from sapwood.induction.text import make_text
from sapwood.runtime.executor import LOCAL, Threads
from sapwood.storage.arrays import read_arrays, write_arrays

SENTENCES = [[0, 1, 2, 1], [1, 1, 0], [0, 2], [2, 0, 1, 1]]
NONTERMINALS, PRETERMINALS, TERMINALS = 2, 2, 3


def batch(rows) -> SentenceBatch:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return SentenceBatch(np.array([word for row in rows for word in row], np.int32), offsets)


def random_rules(rng, n=NONTERMINALS, p=PRETERMINALS, terminals=TERMINALS) -> SimplePCFGRules:
    def drawn(*shape):
        return rng.dirichlet(np.ones(shape[-1]), shape[:-1] or None).astype(np.float32)

    return SimplePCFGRules(drawn(n), drawn(n, n + p), drawn(n, n + p), drawn(p, terminals))


def labelled_trees(rules, sentence, factors):
    """Yield the weight, the counts of rules and the spans of every tree with every assignment of symbols."""
    n = len(rules.root)
    number = {pair: place for place, pair in enumerate(zip(*span_ends(len(sentence)), strict=True))}

    def below(spans, i, j):
        """Yield (symbol, weight, uses) of what can be over words i to j of a bracketing."""
        if j - i == 1:
            for t in range(len(rules.word)):
                yield n + t, float(rules.word[t, sentence[i]]), [("word", (t, sentence[i]))]
            return
        m = next(m for m in range(i + 1, j) if all((a, b) in spans or b - a == 1 for a, b in ((i, m), (m, j))))
        factor = 1.0 if factors is None else factors[number[i, j]]
        for (b, one, used), (c, other, more) in product(below(spans, i, m), below(spans, m, j)):
            for a in range(n):
                weight = factor * one * other * float(rules.left[a, b]) * float(rules.right[a, c])
                yield a, weight, [("left", (a, b)), ("right", (a, c)), *used, *more]

    for spans in bracketings(0, len(sentence)):
        for top, weight, used in below(spans, 0, len(sentence)):
            yield weight * float(rules.root[top]), [("root", (top,)), *used], spans


@pytest.mark.parametrize("weighted", [False, True])
def test_charts_sum_over_all_trees(weighted):
    rng = np.random.default_rng(1)
    rules = random_rules(rng)
    sentences = batch(SENTENCES)
    factors = rng.uniform(0.1, 3, sentences.n_spans) if weighted else None
    words, numbers = places(sentences.words)
    weights = word_rules(rules, words)
    found = sum_trees(replace(sentences, words=numbers), weights.rule, factors, spans=True)
    counts = rule_counts(rules, weights, found.uses)
    wanted = SimplePCFGRules(*(np.zeros(part.shape) for part in rules))
    first = 0
    for row, logarithm in zip(SENTENCES, found.logarithms, strict=True):
        last = first + len(row) * (len(row) + 1) // 2
        trees = list(labelled_trees(rules, row, None if factors is None else factors[first:last]))
        total = sum(weight for weight, _, _ in trees)
        assert logarithm == pytest.approx(np.log(total), rel=1e-5)
        own = dict.fromkeys(zip(*span_ends(len(row)), strict=True), 0.0)
        for weight, used, spans in trees:
            for name, place in used:
                getattr(wanted, name)[place] += weight / total
            for span in spans:
                own[span] += weight / total
        own |= {(i, i + 1): 1.0 for i in range(len(row))}
        np.testing.assert_allclose(found.spans[first:last], list(own.values()), atol=1e-5)
        [best] = best_binary(np.array([0, len(row)]), found.spans[first:last])
        most = max(bracketings(0, len(row)), key=lambda spans, own=own: sum(own[span] for span in spans))
        assert sum(own[span] for span in best) == pytest.approx(sum(own[span] for span in most), abs=1e-5)
        first = last
    for name, part in counts._asdict().items():
        other = getattr(wanted, name)
        np.testing.assert_allclose(part, other[:, words] if name == "word" else other, atol=1e-5, err_msg=name)
    assert found.occupancy.sum() == pytest.approx(sum(len(row) - 1 for row in SENTENCES), rel=1e-5)


@pytest.mark.parametrize("states", [1, 7, 32, 45, 64])
def test_uses_are_derivatives_at_any_number_of_symbols(states):
    """Blocks of 32 numbers, panels of 16 and what is left over all have their turn."""
    rng = np.random.default_rng(states)
    rows = [rng.integers(0, 5, length).tolist() for length in (2, 12, 7, 1, 12)]
    shapes = (states, (states, states), (states, states), (5, states), (5, states))
    weights = IndependentSides(*((rng.uniform(0.1, 1, shape) / states).astype(np.float32) for shape in shapes))
    times = np.array([1.0, 2.0, 0.0, 1.0, 0.5])
    found = sum_trees(batch(rows), weights, times=times, spans=True)
    for part, used in zip(weights, found.uses, strict=True):
        change = rng.normal(size=part.shape) * 0.01
        values = []
        for sign in (1, -1):
            moved = [one if one is not part else (one * np.exp(sign * change)).astype(np.float32) for one in weights]
            values.append(float(times @ sum_trees(batch(rows), IndependentSides(*moved), times=0 * times).logarithms))
        assert (values[0] - values[1]) / 2 == pytest.approx(float((used * change).sum()), rel=2e-2, abs=2e-4)
    assert found.logarithms[3] == 0  # a single word is no tree


def test_long_sentences_and_tiny_weights_neither_vanish_nor_overflow():
    rng = np.random.default_rng(5)
    row = rng.integers(0, 3, 90).tolist()
    usual = IndependentSides(
        *(rng.uniform(0.1, 1, shape).astype(np.float32) for shape in (5, (5, 5), (5, 5), (3, 5), (3, 5)))
    )
    found = sum_trees(batch([row]), usual, spans=True)
    for factor in (np.float32(1e-12), np.float32(1e12)):
        scaled = usual._replace(left_leaf=usual.left_leaf * factor, right_leaf=usual.right_leaf * factor)
        other = sum_trees(batch([row]), scaled, spans=True)
        assert other.logarithms[0] == pytest.approx(found.logarithms[0] + 90 * np.log(float(factor)), rel=1e-6)
        np.testing.assert_allclose(other.spans, found.spans, atol=1e-4)
    begin, end = span_ends(90)
    right = ((end == 90) | (end - begin == 1)).astype(float)
    np.testing.assert_allclose(sum_trees(batch([row]), usual, right, spans=True).spans, right, atol=1e-5)
    whole = np.where((begin == 0) & (end == 90), 1.0, 0.0)
    assert sum_trees(batch([row]), usual, whole).logarithms[0] == -np.inf


def test_gradients_of_the_network():
    rng = np.random.default_rng(2)
    parameters = initial_parameters(3, 4, 5, np.array([3.0, 1.0, 2.0]), rng)
    parameters = {
        name: array + rng.normal(size=array.shape).astype(np.float32) * 0.1 for name, array in parameters.items()
    }
    sentences = batch(SENTENCES)

    def value(changed):
        weights = word_rules(RuleNetwork(changed).rules(), np.arange(3))
        return weights, sum_trees(sentences, weights.rule)

    network = RuleNetwork(parameters)
    rules = network.rules()
    assert all(np.allclose(part.sum(-1), 1, atol=1e-5) for part in rules)
    weights, found = value(parameters)
    gradients = network.gradients(rule_counts(rules, weights, found.uses), np.arange(3))
    assert set(gradients) == set(parameters)
    for name, array in parameters.items():
        change = rng.normal(size=array.shape).astype(np.float32)
        step = 3e-4
        values = [
            float(value({**parameters, name: array + sign * step * change})[1].logarithms.sum()) for sign in (1, -1)
        ]
        wanted = float((gradients[name] * change).sum())
        assert (values[0] - values[1]) / (2 * step) == pytest.approx(wanted, rel=1e-2, abs=1e-2), name


def test_adam_follows_its_definition():
    array, gradient = np.array([1.0, -2.0], np.float32), np.array([0.3, -0.4], np.float32)
    optimiser = Adam({"a": array}, 0.1, betas=(0.9, 0.99), clip=0.25)
    mean = square = np.zeros(2)
    wanted = array.astype(float)
    for step in (1, 2, 3):
        assert optimiser.ascend({"a": gradient.copy()}) == pytest.approx(0.5)
        clipped = gradient * 0.5
        mean, square = 0.9 * mean + 0.1 * clipped, 0.99 * square + 0.01 * clipped**2
        wanted = wanted + 0.1 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
        np.testing.assert_allclose(array, wanted, rtol=1e-4)


def small_text(count=260):
    """Sentences of a small grammar: NP V NP, where an NP is a noun with a determiner and perhaps an adjective."""
    rng = np.random.default_rng(0)

    def phrase():
        return [
            str(rng.choice(["the", "a"])),
            *(["old"] if rng.random() < 0.4 else []),
            str(rng.choice(["cat", "dog"])),
        ]

    return make_text([[*phrase(), "sees", *phrase()] for _ in range(count)], vocabulary=20)


SMALL = TrainingSettings((5, 8), 3, 0, 16, 0.01, 0)


def trained(text, threads=1, settings=SMALL, **options):
    frequency = np.bincount(text.terminal).astype(float)
    parameters = initial_parameters(6, 8, 8, frequency, np.random.default_rng(0))
    return train_network(text, parameters, settings, Threads(threads), **options)


def test_training_raises_the_likelihood_of_held_out_sentences():
    text = small_text()
    before = initial_parameters(6, 8, 8, np.bincount(text.terminal).astype(float), np.random.default_rng(0))
    held_out = np.arange(10, text.n_sentences, 20)
    words = text.lengths[held_out].sum()
    first = log_likelihood(text, RuleNetwork(before).rules(), held_out, LOCAL).sum() / words
    run = trained(text, settings=replace(SMALL, lengths=(8,), epochs=5))
    last = log_likelihood(text, RuleNetwork(run.parameters).rules(), held_out, LOCAL).sum() / words
    assert last == pytest.approx(run.log_likelihood)
    assert last > first + 0.3


def test_same_bytes_on_threads_and_after_an_interruption(tmp_path):
    text = small_text()
    alone = trained(text)
    together = trained(text, threads=3)

    class Interrupted(Exception):
        pass

    class Log:
        def write(self, event, **_):
            self.count = getattr(self, "count", 0) + 1
            if self.count == 3:
                raise Interrupted

    path = tmp_path / "run.checkpoint"
    with pytest.raises(Interrupted):
        trained(text, checkpoint=path, log=Log(), key={"a": 1})
    resumed = trained(text, checkpoint=path, key={"a": 1})
    assert alone.epochs == resumed.epochs == together.epochs
    for name, array in alone.parameters.items():
        assert np.array_equal(array, together.parameters[name]), name
        assert np.array_equal(array, resumed.parameters[name]), name
    arrays, metadata = read_arrays(path, kind=CHECKPOINT.kind, version=1)
    short = {name: arrays[name][:-1] for name in ("parameters", "mean", "square", "best")}
    write_arrays(path, {**arrays, **short}, metadata, kind=CHECKPOINT.kind, version=1)
    with pytest.raises(ModelError, match="do not fit the text"):
        trained(text, checkpoint=path, key={"a": 1})


def test_batches_have_all_sentences_once():
    lengths = np.random.default_rng(0).integers(1, 9, 50)
    chosen = np.arange(3, 50)
    found = list(batches_of(chosen, lengths, 8, np.random.default_rng(1)))
    assert sorted(np.concatenate(found)) == chosen.tolist()
    assert all(np.ptp(lengths[one]) <= 2 for one in found)
    with pytest.raises(UsageError, match="no sentences of 2 to 3 words"):
        trained(make_text([["a", "b", "c", "d"]] * 5, classes=0), settings=replace(SMALL, lengths=(3,)))


def test_a_model_is_saved_and_parses(tmp_path):
    text = small_text()
    inducer = SimplePCFG(
        nonterminals=6,
        preterminals=8,
        embedding=8,
        epochs=2,
        lengths=8,
        across_begin=0.2,
        across_end=0.1,
        elsewhere=0.5,
    )
    model = inducer.fit(text)
    model.save(tmp_path / "model")
    again = InducedModel.load(tmp_path / "model")
    assert again.span_factors == SpanFactors(0.2, 0.1, 0.5)
    words = ["the", "old", "cat", ",", "an", "unknown", "zebra", "."]
    one, other = InducedParser(model).parse_one(words), InducedParser(again).parse_one(words)
    assert str(one.tree) == str(other.tree)
    assert one.tree.words() == words
    # A mark makes spans across it less probable.
    terminals = [0, 1, 2, 3]
    free, marked = (again.posteriors(terminals, [False, False, mark, False]).spans for mark in (False, True))
    begin, end = span_ends(4)
    across = (begin < 2) & (end > 2) & (end - begin < 4)
    assert marked[across].sum() < free[across].sum()
    assert marked[(begin == 1) & (end == 3)] < free[(begin == 1) & (end == 3)]
    arrays, metadata = read_arrays(tmp_path / "model", kind=INDUCED.kind, version=INDUCED.version)
    for name, changed, message in (
        ("rules.left", arrays["rules.left"] * np.float32(2), "rules.left"),
        ("rules.span_factors", -arrays["rules.span_factors"], "rules.span_factors"),
    ):
        write_arrays(tmp_path / "bad", {**arrays, name: changed}, metadata, kind=INDUCED.kind, version=INDUCED.version)
        with pytest.raises(ModelError, match=message):
            InducedModel.load(tmp_path / "bad")
    fewer = {"rules.word": arrays["rules.word"][:-1]}
    write_arrays(tmp_path / "bad", {**arrays, **fewer}, metadata, kind=INDUCED.kind, version=INDUCED.version)
    with pytest.raises(ModelError, match="nonterminals and preterminals"):
        InducedModel.load(tmp_path / "bad")


def test_punctuation_weights():
    # One mark, before the third of four words; and a sentence without any.
    divided = np.array([False, False, True, False, False, False])
    found = punctuation_weights(divided, np.array([0, 4, 6]), SpanFactors(0.5, 0.1))
    begin, end = span_ends(4)
    of = dict(zip(zip(begin.tolist(), end.tolist(), strict=True), found[:10].tolist(), strict=True))
    assert of[0, 4] == of[0, 2] == of[2, 4] == of[1, 2] == of[3, 4] == 1
    assert of[1, 4] == 0.5
    assert of[0, 3] == 0.1
    assert of[1, 3] == pytest.approx(0.05)
    assert found[10:].tolist() == [1, 1, 1]
    found = punctuation_weights(divided, np.array([0, 4, 6]), SpanFactors(elsewhere=0.25))
    assert [pair for pair, weight in zip(of, found[:10].tolist(), strict=True) if weight != 1] == [(0, 3), (1, 3)]
    assert set(found.tolist()) == {0.25, 1.0}
