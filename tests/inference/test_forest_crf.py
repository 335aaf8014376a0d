"""A layer over the forest, against enumeration of the forest's trees."""

from __future__ import annotations

import math
import pickle
import zlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.enumerate_trees import all_trees
from helpers.made_up import made_up_treebank
from sapwood import kernels
from sapwood.errors import ModelError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.decode import PRODUCT_DECODERS, forest_edges
from sapwood.inference.forest_crf import CRFChart
from sapwood.learn import PCFG
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.model import ParserModel
from sapwood.model.forest_crf import DENSE, GROUPS, FeatureVocabulary, ForestCRF
from sapwood.testing.grammars import random_grammar
from sapwood.trees.lexicon.signatures import shape

BITS = 10
START = np.array([1.0, -1.0, 0.0, 1.0, *np.zeros(DENSE - 4)])


def random_layer(rng: np.random.Generator, words, *, scale: float = 0.3, dense=None, **options) -> ForestCRF:
    """Return a layer whose features all have some weight."""
    return ForestCRF(
        bits=BITS,
        places=np.arange(1 << BITS, dtype=np.uint32),
        values=rng.normal(scale=scale, size=1 << BITS).astype(np.float32),
        dense=START + rng.normal(scale=0.2, size=DENSE) if dense is None else dense,
        frequent=FeatureVocabulary.count([list(words)], least=1),
        **{"threshold": 0.0, **options},
    )


def make(seed: int, members: int = 1, longest: int = 5, states=(1, 3)):
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, interminals=2, preterminals=2, states=states)
    words = [str(word) for word in rng.choice(grammar.lexicon.words, size=rng.integers(1, longest + 1))]
    others = [replace(grammar, tensors=_noisy(grammar, rng)) for _ in range(members - 1)]
    return rng, [ParserModel.from_grammars(grammar).replace(crf=random_layer(rng, words)), *others], words


def _noisy(grammar: TensorGrammar, rng: np.random.Generator) -> np.ndarray:
    tensors = grammar.tensors * rng.uniform(0.5, 1.5, size=len(grammar.tensors))
    totals = np.zeros(len(grammar.root))
    states = [grammar.state_offsets[a] + np.arange(grammar.states[a]) for a in grammar.rules[:, 0]]
    begin, end = grammar.tensor_offsets[:-1], grammar.tensor_offsets[1:]
    rows = [tensors[b:e].reshape(len(of), -1) for b, e, of in zip(begin, end, states, strict=True)]
    for of, row in zip(states, rows, strict=True):
        totals[of] += row.sum(axis=1)
    return np.concatenate([(row / totals[of][:, None]).ravel() for of, row in zip(states, rows, strict=True)])


def trees_of(chart: CRFChart) -> list[tuple[float, frozenset[int], frozenset[int]]]:
    """Return the score, nodes and edges of every tree of a chart's forest."""
    incoming = forest_edges(chart.forest)

    def below(node: int) -> list[tuple[float, frozenset[int], frozenset[int]]]:
        if node not in incoming:
            score = float(chart.leaf_score[node])
            return [(score, frozenset([node]), frozenset())] if score > -math.inf else []
        return [
            (
                float(chart.edge_score[edge]) + left[0] + right[0],
                left[1] | right[1] | {node},
                left[2] | right[2] | {edge},
            )
            for edge in incoming[node]
            for left in below(int(chart.forest.children[edge, 0]))
            for right in below(int(chart.forest.children[edge, 1]))
        ]

    top = chart.n * (chart.n - 1) // 2
    roots = range(chart.forest.node_offsets[top], chart.forest.node_offsets[top + 1])
    found = [(score + float(chart.root_score[root]), *rest) for root in roots for score, *rest in below(root)]
    return [one for one in found if one[0] > -math.inf]


@examples(25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_marginals_are_sums_over_all_trees_of_the_forest(seed, members):
    _, grammars, words = make(seed, members)
    chart = Parser(grammars, threshold=0).chart(words)
    if chart is None:
        return
    trees = trees_of(chart)
    weights = np.exp([score for score, *_ in trees])
    assert chart.log_total == pytest.approx(math.log(weights.sum()), rel=1e-9)
    nodes, edges = np.zeros(len(chart.node_posterior)), np.zeros(len(chart.edge_posterior))
    for weight, (_, own, rules) in zip(weights / weights.sum(), trees, strict=True):
        nodes[list(own)] += weight
        edges[list(rules)] += weight
    np.testing.assert_allclose(chart.node_posterior, nodes, atol=1e-9)
    np.testing.assert_allclose(chart.edge_posterior, edges, atol=1e-9)


@examples(25)
@given(st.integers(0, 2**32 - 1))
def test_without_weights_the_layer_is_the_nearest_distribution_without_states(seed):
    """The product of rule posteriors given their parents has the grammar's own marginals, hidden states or not."""
    _, (model,), words = make(seed)
    nothing = replace(model.crf, values=np.zeros(1 << BITS, np.float32), dense=START)
    plain = Parser(model, threshold=0, crf=False).chart(words)
    if plain is None or plain.node_posterior[plain.node_posterior > 0].min() < 1e-6:  # below what a layer tells apart
        return
    chart = Parser(model.replace(crf=nothing), threshold=0).chart(words)
    np.testing.assert_allclose(chart.node_posterior, plain.node_posterior, atol=1e-5)
    np.testing.assert_allclose(chart.edge_posterior, plain.edge_posterior, atol=1e-5)
    assert chart.log_total == pytest.approx(0, abs=1e-4)


@examples(25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from(PRODUCT_DECODERS))
def test_one_call_gives_what_the_chart_and_a_decoder_give(seed, members, decoder):
    _, grammars, words = make(seed, members, longest=7)
    direct = Parser(grammars, threshold=1e-9, decoder=decoder).parse_one(words)
    by_chart = Parser(grammars, threshold=1e-9, decoder=decoder, marginals=True).parse_one(words)
    assert (direct.status, direct.tree) == (by_chart.status, by_chart.tree)


@examples(25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 2))
def test_the_k_best_are_exact_and_have_all_of_the_sentence(seed, members):
    _, grammars, words = make(seed, members)
    parser = Parser(grammars, threshold=0)
    chart = parser.chart(words)
    if chart is None:
        return
    expected = sorted((score for score, *_ in trees_of(chart)), reverse=True)
    found = parser.k_best(words, 10_000)
    logs = [one.log_probability for one in found]
    np.testing.assert_allclose(logs, np.array(expected) - chart.log_total + chart.log_probability, atol=1e-8)
    assert np.logaddexp.reduce(logs) == pytest.approx(chart.log_probability, abs=1e-8)
    assert len({str(one.tree) for one in found}) == len(found)
    for count in (1, 3, 8):
        few = parser.k_best(words, count)
        assert [one.log_probability for one in few] == pytest.approx(logs[:count], abs=1e-8)
        assert few.exact
    best = Parser(grammars, threshold=0, decoder="viterbi").parse_one(words)
    assert (len(found) > 1 and logs[1] > logs[0] - 1e-9) or best.tree == found[0].tree


def test_bounds_of_mixtures_cover_trees_that_the_search_skips():
    """The third tree is not among the candidates, and is skipped since two better ones are known."""
    rng = np.random.default_rng(15026)
    _, _ = rng.random(), rng.integers(1, 4)
    sizes = {"interminals": int(rng.integers(1, 4)), "preterminals": int(rng.integers(1, 4))}
    grammar = random_grammar(rng, **sizes, states=(1, 3), density=float(rng.uniform(0.3, 0.9)))
    members = [grammar, *(replace(grammar, tensors=_noisy(grammar, rng)) for _ in range(int(rng.integers(2, 4)) - 1))]
    parser, words = Parser(members, threshold=0), ["w2", "w0", "w1", "w1", "w3", "w0"]
    everything = parser.k_best(words, 1_000)
    assert len(everything) == 42
    for count in range(1, 42):
        best = parser.k_best(words, count)
        assert best == everything[:count]
        assert best.exact
        assert best.bound >= everything[count].log_probability - 1e-9


def test_samples_come_as_often_as_the_layer_says():
    for seed in range(50):
        _, grammars, words = make(seed, longest=4)
        parser = Parser(grammars, threshold=0)
        best = parser.k_best(words, 100)
        if len(best) > 3:
            break
    drawn = Counter(str(tree) for tree in parser.sample(words, 2000, random_state=0))
    total = np.logaddexp.reduce([one.log_probability for one in best])
    for one in best:
        expected = math.exp(one.log_probability - total)
        assert drawn[str(one.tree)] / 2000 == pytest.approx(expected, abs=5 * math.sqrt(expected / 2000) + 1e-3)


@examples(15)
@given(st.integers(0, 2**32 - 1))
def test_required_phrases_hold(seed):
    rng, grammars, words = make(seed, longest=6)
    if len(words) < 3:
        return
    parser = Parser(grammars, threshold=0)
    start = int(rng.integers(0, len(words) - 1))
    chart = parser.chart(words, phrases=[(start, start + 2, None)])
    if chart is not None:
        spans = {tuple(span) for span, p in zip(chart.spans().tolist(), chart.node_posterior, strict=True) if p > 0}
        assert not any(i < start < j < start + 2 or start < i < start + 2 < j for i, j in spans)


@pytest.fixture(scope="module")
def trained():
    trees = made_up_treebank(60)
    grammar = SplitMerge(cycles=2, iterations=5, min_support=2).fit(SplitMerge.prepare(trees))
    rng = np.random.default_rng(1)
    words = sorted({word for tree in trees for word in tree.words()})
    return trees, ParserModel.from_grammars(grammar).replace(crf=random_layer(rng, words, threshold=1e-4))


def test_scores_do_not_depend_on_how_symbols_are_numbered(trained):
    trees, model = trained
    part = PCFG.prepare(trees[:40])
    one = PCFG().fit(part)
    order = np.random.default_rng(2).permutation(part.n_trees)
    other = PCFG().fit(part.part(order))
    layer = replace(model.crf, dense=START)
    charts = [Parser(ParserModel.from_grammars(g).replace(crf=layer)).chart(trees[0].words()) for g in (one, other)]
    assert charts[0].log_total == pytest.approx(charts[1].log_total, rel=1e-6)
    left, right = (chart.label_posteriors() for chart in charts)
    assert left.keys() == right.keys()
    assert all(left[key] == pytest.approx(right[key], abs=1e-6) for key in left)


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_that_is_left_out_has_no_say(trained, group):
    trees, model = trained
    words = max(trees, key=lambda tree: len(tree.words())).words()
    rest = replace(model.crf, groups=tuple(name for name in GROUPS if name != group))
    whole, less = (Parser(model.replace(crf=crf)).chart(words) for crf in (model.crf, rest))
    assert np.abs(whole.edge_score - less.edge_score).max() > 1e-3
    assert whole.log_total != less.log_total


def test_words_that_are_rare_are_known_by_their_shape_and_ending():
    classes = FeatureVocabulary.count([["walking", "talking", "the", "the", "the"]] * 3, least=9)
    assert classes.words == ("the",)
    assert np.array_equal(classes.row("stalking", False)[:3], classes.row("Balking".lower(), False)[:3])
    assert not np.array_equal(classes.row("the", False), classes.row("thee", False))
    assert not np.array_equal(classes.row("Walking", False)[2], classes.row("walking", False)[2])


def test_files_keep_the_layer(trained, tmp_path):
    trees, model = trained
    model.save(tmp_path / "one")
    again = ParserModel.load(tmp_path / "one")
    assert again == model
    assert again != model.replace(crf=None)
    two = model.replace(grammars=model.grammars * 2)
    two.save(tmp_path / "two")
    assert ParserModel.load(tmp_path / "two") == two != model
    words = trees[3].words()
    assert Parser(tmp_path / "one").parse_one(words) == Parser(model).parse_one(words)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": 40}, "layer.bits"),
        ({"bits": 9}, "layer.places"),
        ({"groups": ["words", "magic"]}, "layer.groups"),
        ({"threshold": 1.5}, "layer.threshold"),
    ],
)
def test_what_a_file_says_of_a_layer_is_checked(trained, change, message):
    layer = trained[1].crf
    with pytest.raises(ModelError, match=message):
        ForestCRF.from_arrays(layer.to_arrays(), {**layer.metadata(), **change})


def test_a_layer_and_what_is_said_of_it_come_together(trained):
    layer = trained[1].crf
    with pytest.raises(ModelError, match="places"):
        ForestCRF.from_arrays({}, layer.metadata())
    with pytest.raises(ModelError, match="places"):
        ForestCRF.from_arrays(layer.to_arrays(), None)


def test_sums_over_a_forest_without_trees_are_nothing():
    _, (model,), words = make(3)
    chart = Parser(model, threshold=0).chart(words)
    impossible = np.full(len(chart.leaf_score), -np.inf)
    total, nodes, edges = kernels.forest_sums(
        kernels.forest(*chart.forest), chart.edge_score, impossible, chart.root_score
    )
    assert total == -math.inf
    assert not nodes.any()
    assert not edges.any()


def test_trees_of_the_forest_are_the_grammars(trained):
    """The twin lists what enumeration over the grammar lists."""
    _, (model,), words = make(5, longest=4)
    chart = Parser(model, threshold=0).chart(words)
    if chart is not None:
        assert len(trees_of(chart)) == len([tree for tree in all_trees(model.grammar, words) if tree.weight > 0])


def test_trees_of_a_sentence_without_a_probability_have_none_either():
    """As without a layer: real-valued grammars can give a sentence a negative weight."""
    grammar = TensorGrammar.from_parts(
        root={"S": 1.0}, rules={("S", "N", "V"): -0.7, ("S", "N", "S"): 0.3},
        words={("N", "dogs"): 0.6, ("N", "cats"): 0.4, ("V", "sleep"): 1.0}, probabilistic=False,
    )  # fmt: skip
    for model in (grammar, ParserModel.from_grammars(grammar).replace(crf=ForestCRF.identity())):
        [result] = Parser(model, alternatives=2).parse([["dogs", "sleep"]])
        assert result.alternatives == []


def test_rows_at_hand_are_not_copied():
    classes = FeatureVocabulary(("dogs",), ("s",))
    classes.table([f"word{number}" for number in range(50)])
    assert len(pickle.dumps(classes)) < 1000
    assert pickle.loads(pickle.dumps(classes)).words == classes.words


@pytest.mark.parametrize("longest", [0, 1, 3])
def test_the_longest_frequent_ending_of_a_word(longest):
    """Whatever its length: what is longer than all known endings need not be looked at."""
    rng = np.random.default_rng(longest)
    known = {"".join(rng.choice(list("ab"), size)) for size in range(1, longest + 1) for _ in range(3)}
    frequent = FeatureVocabulary((), tuple(sorted(known)))
    for size in range(9):
        word = "".join(rng.choice(list("ab"), size))
        ending = next((word[at:] for at in range(size) if word[at:] in known), None)
        told = f"e?{shape(word, False)}" if ending is None else f"e{ending}"
        assert frequent.row(word, False)[1] == zlib.crc32(told.encode())
