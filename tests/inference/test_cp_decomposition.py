"""Parsing with a CP decomposition: exact where the factors are, and everything that a parser offers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from oracles.reference import inside_outside
from sapwood.automata.reduce.cp_decomposition import decompose_grammar, rule_tensor
from sapwood.errors import GrammarError, InputError, ModelError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.cp_decomposition import CompiledCP, span_ends, span_number
from sapwood.learn import EM, PCFG
from sapwood.model.cp_decomposition import CPDecomposition
from sapwood.model.parser_model import ParserModel
from sapwood.storage.arrays import read_arrays, write_arrays
from sapwood.trees.tree import Tree

TREES = made_up_treebank(80)
# Some that have a parse.
SENTENCES = [tree.words() for tree in TREES[:12]]


def exact(grammar: TensorGrammar) -> CPDecomposition:
    """Return a decomposition with a product for each weight, which loses nothing."""
    tensor = rule_tensor(grammar)
    factors = np.zeros((3, tensor.shape[0], len(tensor.values)), np.float32)
    for axis in range(3):
        factors[axis, tensor.places[:, axis], np.arange(len(tensor.values))] = 1.0
    factors[0] *= tensor.values.astype(np.float32)
    return CPDecomposition(*factors)


@pytest.fixture(scope="module", params=["pcfg", "states"])
def model(request) -> ParserModel:
    learner = PCFG() if request.param == "pcfg" else EM(states=2, iterations=4)
    grammar = learner.fit(learner.prepare(TREES))
    return ParserModel.gather(grammar).replace(cp=exact(grammar))


def test_posteriors_are_those_of_the_rules(model):
    """The reference is inside and outside with the tensor of each rule."""
    compiled = CompiledCP(model.grammar, model.cp)
    for words in SENTENCES[:4]:
        expected = inside_outside(model.grammar, words)
        leaves = np.array([compiled.leaf(word, None, place == 0) for place, word in enumerate(words)])
        chart = compiled.chart(leaves)
        assert chart.log_weight == pytest.approx(np.log(expected.probability), rel=1e-5)
        labels = compiled.label_posteriors(chart)
        sums = {}
        for symbol, i, j in np.argwhere(expected.marginals).tolist():
            for label in model.grammar.symbols[symbol].chain:
                share = float(expected.marginals[symbol, i, j] / expected.probability)
                sums[i, j, label] = sums.get((i, j, label), 0.0) + share
        assert {key for key, value in labels.items() if value > 1e-6} == {k for k, v in sums.items() if v > 1e-6}
        for key, value in sums.items():
            assert labels.get(key, 0.0) == pytest.approx(min(value, 1.0), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("decoder", ["f1", "recall"])
def test_exact_factors_score_no_worse_than_the_rules(model, decoder):
    """Decoding is not bound to the grammar's rules, so its trees are at least as good by their own criterion."""
    factored, rules = Parser(model, decoder=decoder), Parser(model, decoder=decoder, threshold=0)
    compiled, same = factored._cp, 0
    for words in SENTENCES:
        found, expected = (next(parser.parse([words])) for parser in (factored, rules))
        assert found.status == expected.status == "parsed"
        assert found.log_probability == pytest.approx(expected.log_probability, rel=1e-5)
        chart = compiled.chart(np.array([compiled.leaf(word, None, place == 0) for place, word in enumerate(words)]))
        if decoder == "f1":
            labels = compiled.label_posteriors(chart)

            def worth(tree, labels=labels):
                return sum(labels.get(span, 0.0) - 0.45 for span in tree.spans() if span[2] != "ROOT")

            assert worth(found.tree) >= worth(expected.tree) - 1e-5
        same += found.tree == expected.tree
    assert same >= len(SENTENCES) // 2


def test_trees_by_brute_force():
    """The best of all binary trees, each span with its best symbol."""
    learner = PCFG()
    grammar = learner.fit(learner.prepare(TREES))
    compiled = CompiledCP(grammar, decompose_grammar(grammar, 6, iterations=20)[0])

    def splits(i, j):
        if j - i == 1:
            return [[]]
        return [[(i, j), *a, *b] for m in range(i + 1, j) for a in splits(i, m) for b in splits(m, j)]

    for words in (words for words in SENTENCES if 2 <= len(words) <= 7):
        leaves = np.array([compiled.leaf(word, None, place == 0) for place, word in enumerate(words)])
        chart = compiled.chart(leaves)
        for decoder in ("f1", "recall"):
            symbols, scores = compiled._choices(chart, decoder)
            best = max(splits(0, len(words)), key=lambda t: sum(scores[span_number(i, j, len(words))] for i, j in t))
            tree = compiled.best(chart, words, decoder)
            expected = {
                (i, j, label) for i, j in best for label in compiled.chains[symbols[span_number(i, j, len(words))]]
            }
            assert {span for span in tree.spans() if span[1] - span[0] > 1 and span[2] != "ROOT"} == expected
            assert tree.words() == words


def test_closeness_to_the_rules_grows_with_the_rank(model):
    rules = Parser(model, threshold=0)
    errors = []
    for rank in (1, 8, 64):
        compiled = CompiledCP(model.grammar, decompose_grammar(model.grammar, rank)[0])
        error = 0.0
        for words in SENTENCES[:6]:
            expected = rules.chart(words).label_posteriors()
            leaves = np.array([compiled.leaf(word, None, place == 0) for place, word in enumerate(words)])
            found = compiled.label_posteriors(compiled.chart(leaves))
            error += sum(abs(found.get(key, 0.0) - expected.get(key, 0.0)) for key in found | expected)
        errors.append(error)
    assert all(more < less for less, more in pairwise(errors))


def test_what_a_parser_offers(model):
    words = SENTENCES[0]
    parser = Parser(model, marginals=True, alternatives=3)
    found = next(parser.parse([words]))
    assert parser.decoder == "f1"
    assert 1 <= len(found.alternatives) <= 3
    assert all(0 <= one.probability <= 1 for one in found.marginals)
    assert {(m.start, m.end, m.label) for m in found.marginals} >= {
        (place, place + 1, tag) for place, tag in enumerate(found.tree.tags())
    }
    # What factors do not do, rules do.
    rules = Parser(model.replace(cp=None))
    assert [str(one.tree) for one in parser.k_best(words, 3)] == [str(one.tree) for one in rules.k_best(words, 3)]
    required = [(start, end, None) for start, end, _ in TREES[0].spans() if end - start > 1][1:2]
    asked = parser.parse_one(words, phrases=required)
    assert (
        asked.tree
        == Parser(model.replace(cp=None), decoder="f1", marginals=True).parse_one(words, phrases=required).tree
    )
    assert Parser(model, threshold=0).decoder == "max-rule"
    # Tags are kept.
    tags = found.tree.tags()
    tagged = next(Parser(model).parse([list(zip(words, tags, strict=True))]))
    assert tagged.tree.tags() == tags
    with pytest.raises(InputError, match="has no tag"):
        next(Parser(model).parse([[(words[0], "no such tag")]]))
    assert Parser(model).parse_one([]).status == "empty"
    assert [one.tree for one in Parser(model, threads=2).parse(SENTENCES)] == [
        one.tree for one in Parser(model).parse(SENTENCES)
    ]
    for decoder in ("max-rule", "viterbi"):
        with pytest.raises(UsageError, match=f"{decoder} needs rules.*choose from f1, recall.*--exact"):
            Parser(model, decoder=decoder)


def test_limits_of_memory_and_time(model):
    words = SENTENCES[0] * 4
    assert next(Parser(model, max_memory=1000).parse([words])).status == "out of memory"
    assert next(Parser(model, timeout=1e-9).parse([words])).status == "timed out"


def test_rules_parse_what_factors_cannot(model):
    zero = CPDecomposition(*(0 * factor for factor in (model.cp.parent, model.cp.left, model.cp.right)))
    found = next(Parser(model.replace(cp=zero)).parse([SENTENCES[0]]))
    assert found.status == "relaxed"
    assert found.tree == next(Parser(model.replace(cp=None), decoder="f1").parse([SENTENCES[0]])).tree


def test_files(model, tmp_path):
    model.save(tmp_path / "m")
    again = ParserModel.load(tmp_path / "m")
    assert again == model
    assert again != model.replace(cp=None)
    assert again.digest() != model.replace(cp=None).digest()
    assert "CP decomposition" in repr(again)
    assert again.cp.rank == model.cp.rank
    again.validate()
    trees = [[str(result.tree) for result in Parser(one).parse(SENTENCES)] for one in (model, tmp_path / "m")]
    assert trees[0] == trees[1]
    arrays, metadata = read_arrays(tmp_path / "m", kind="model", version=5)
    for change, message in (
        ({"cp.left": arrays["cp.left"][1:]}, "cp.left"),
        ({"cp.left": -1 - arrays["cp.left"]}, "cp.left"),
        ({"cp.right": np.full_like(arrays["cp.right"], np.nan)}, "cp.right"),
        ({name: arrays[name][1:] for name in ("cp.parent", "cp.left", "cp.right")}, "cp"),
    ):
        write_arrays(tmp_path / "bad", {**arrays, **change}, metadata, kind="model", version=5)
        with pytest.raises(ModelError, match=message):
            ParserModel.load(tmp_path / "bad")
    metadata["components"]["cp"]["rank"] += 1
    write_arrays(tmp_path / "bad", arrays, metadata, kind="model", version=5)
    with pytest.raises(ModelError, match="rank"):
        ParserModel.load(tmp_path / "bad")


def test_models_with_other_grammars(model):
    with pytest.raises(GrammarError, match="one grammar"):
        model.replace(grammars=(model.grammar, model.grammar))
    assert model.with_grammars([model.grammar]).cp is None
    small = CPDecomposition(*(np.ones((3, 2), np.float32) for _ in range(3)))
    with pytest.raises(GrammarError, match="has 3 states"):
        model.replace(cp=small)


def test_spans():
    assert [span_number(*span, 5) for span in span_ends(5)] == list(range(15))


def test_one_word():
    grammar = TensorGrammar.from_parts(
        root={"S": 0.5, "N": 0.5}, rules={("S", "N", "N"): 1.0}, words={("N", "dogs"): 1.0}
    )
    model = ParserModel.gather(grammar).replace(cp=exact(grammar))
    assert next(Parser(model).parse([["dogs"]])).tree == Tree.parse("(ROOT (N dogs))")
