"""Constituency models as grammars: the same probabilities, by the engine that parses with any grammar."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.enumerate_topologies import binary_trees, spans_of
from sapwood.errors import ModelError
from sapwood.induction.estep import SentenceBatch, sum_trees
from sapwood.induction.induced_model import INDUCED, InducedModel
from sapwood.induction.learners import make_inducer
from sapwood.induction.models.pcfg import IndependentPCFGProblem, PCFGProblem, TiedPCFGProblem
from sapwood.induction.models.tensor_pcfg import tensor_pcfg_weights
from sapwood.induction.text import Text, make_text
from sapwood.induction.to_grammar import pcfg_grammar, tensor_pcfg_grammar
from sapwood.inference import Parser
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.runtime.executor import LOCAL
from sapwood.storage.arrays import read_arrays, write_arrays

TAGGED = [
    [("the", "D"), ("dog", "N"), ("saw", "V"), ("a", "D"), ("cat", "N")],
    [("cats", "N"), ("sleep", "V")],
    [("dogs", "N"), ("saw", "V"), ("the", "D"), ("cat", "N"), ("sleep", "V")],
    [("sleep", "V")],
]


@pytest.fixture
def text() -> Text:
    return make_text(TAGGED * 3, tags=True)


def log_words(grammar, sentence) -> float:
    """The logarithm of the probability of words given their tags."""
    return sum(
        float(np.log(grammar.lexical_vector(grammar.symbol_number(tag, preterminal=True), word, initial=place == 0)[0]))
        for place, (word, tag) in enumerate(sentence)
    )


@pytest.mark.parametrize("cls", [PCFGProblem, IndependentPCFGProblem, TiedPCFGProblem])
def test_models_of_the_paper(cls, text):
    """A sentence's probability is that among its length, times that of a tree of that length."""
    problem = cls(text, (10,), LOCAL, "smoothed", states=3, prior=0.1)
    theta = problem.normalised(problem.begin(np.random.default_rng(0)))
    grammar = pcfg_grammar(text, LexicalSettings(), theta["pi"], problem.rule(theta), theta["O"], np.ones(3), {})
    parser = Parser(grammar, threshold=0)
    numbers = {name: number for number, name in enumerate(text.terminals)}
    for sentence in TAGGED:
        result = parser.parse_one(sentence)
        terminals = np.array([numbers[tag] for _, tag in sentence], np.int32)
        length = len(terminals)
        if length > 1:
            rows = SentenceBatch(terminals, np.array([0, length], np.int64))
            wanted = sum_trees(rows, problem.weights(theta)).logarithms[0]
        else:
            wanted = np.log(theta["pi"] @ theta["O"][:, terminals[0]])
        found = result.log_probability - log_words(grammar, sentence)
        assert found == pytest.approx(wanted - (2 * length - 1) * np.log(2))


def test_rules_of_low_rank(text):
    rng = np.random.default_rng(1)
    k, r, n = 3, 5, len(text.terminals)
    shapes = {"root": (k,), "up": (k, r), "left": (r, k + n), "right": (r, k + n)}
    theta = {name: rng.dirichlet(np.ones(shape[-1]), shape[:-1] or None) for name, shape in shapes.items()}
    grammar = tensor_pcfg_grammar(text, LexicalSettings(), theta, np.ones(k), {})
    numbers = {name: number for number, name in enumerate(text.terminals)}
    parser = Parser(grammar, threshold=0, decoder="recall", marginals=True)
    alone = (3 + 1) / (12 + 2)  # three of twelve sentences have one word
    for sentence in TAGGED[:3]:
        terminals = np.array([numbers[tag] for _, tag in sentence], np.int32)
        rows = SentenceBatch(terminals, np.array([0, len(terminals)], np.int64))
        wanted = sum_trees(rows, tensor_pcfg_weights(theta), spans=True)
        result = parser.parse_one(sentence)
        found = result.log_probability - log_words(grammar, sentence)
        assert found == pytest.approx(wanted.logarithms[0] + np.log(1 - alone))
        # Posteriors of spans are the same, too.
        begin, end = np.triu_indices(len(terminals))
        by_span = dict(zip(zip(begin.tolist(), (end + 1).tolist(), strict=True), wanted.spans, strict=True))
        for one in result.marginals or []:
            if one.label == "X":
                assert one.probability == pytest.approx(by_span[one.start, one.end])
    only = parser.parse_one([("sleep", "V")])
    assert only.log_probability - log_words(grammar, [("sleep", "V")]) == pytest.approx(np.log(alone * 3.1 / 3.3))


def test_states_can_be_mixed_and_no_tree_notices(text):
    """`G` on the states and its inverse on what they came from: the same probabilities of bracketings (docs)."""
    rng = np.random.default_rng(2)
    k, r, n = 3, 4, len(text.terminals)
    shapes = {"root": (k,), "up": (k, r), "left": (r, k + n), "right": (r, k + n)}
    theta = {name: rng.dirichlet(np.full(shape[-1], 9.0), shape[:-1] or None) for name, shape in shapes.items()}
    # Rows of G sum to 1, so that everything that did still does.
    mix = np.eye(k) + 0.05 * rng.normal(size=(k, k))
    mix /= mix.sum(1, keepdims=True)
    back = np.linalg.inv(mix)
    other = {
        "root": theta["root"] @ back,
        "up": mix @ theta["up"],
        **{side: np.concatenate([theta[side][:, :k] @ back, theta[side][:, k:]], axis=1) for side in ("left", "right")},
    }
    for name, array in other.items():
        assert (array > 0).all()
        np.testing.assert_allclose(array.sum(-1), 1)
        assert not np.allclose(array, theta[name])
    for sentence in ([0, 1, 2, 0, 1], [2, 1], [1, 0, 2]):
        rows = SentenceBatch(np.array(sentence, np.int32), np.array([0, len(sentence)], np.int64))
        one, two = (sum_trees(rows, tensor_pcfg_weights(each), spans=True) for each in (theta, other))
        np.testing.assert_allclose(one.logarithms, two.logarithms)
        np.testing.assert_allclose(one.spans, two.spans)


def test_structure_is_found_where_there_is_one():
    """Noun phrases of two words on both sides of a verb: the induced grammar brackets them."""
    rng = np.random.default_rng(3)
    rows = []
    for _ in range(200):

        def phrase():
            return [("d", "D"), ("n", "N")] if rng.random() < 0.7 else [("p", "P")]

        rows.append([*phrase(), ("v", "V"), *(phrase() if rng.random() < 0.7 else [])])
    text = make_text(rows, tags=True)
    grammar = make_inducer("tensor-pcfg", lengths=5, states=4).fit(text)
    tree = next(
        iter(Parser(grammar, decoder="recall").parse([[("d", "D"), ("n", "N"), ("v", "V"), ("d", "D"), ("n", "N")]]))
    ).tree
    assert {(start, end) for start, end, _ in tree.spans()} >= {(0, 2), (3, 5), (0, 5)}
    assert any(sorted({(s, e) for s, e, _ in tree.spans()}) == spans_of(each) for each in binary_trees(0, 5))


@pytest.mark.parametrize("model", ["tensor-pcfg", "pcfg-i", "dmv", "ccm", "dmv+ccm"])
def test_terminals_of_other_sentences_are_left_out(model, text, tmp_path):
    """Of a text's short sentences one learns what one would learn if there had been no others."""
    short = text.up_to(2)
    assert len(short.terminals) == 3
    found = make_inducer(model, lengths=5, iterations=2).fit(short)
    alone = make_inducer(model, lengths=5, iterations=2).fit(make_text([TAGGED[1], TAGGED[3]] * 3, tags=True))
    found.save(tmp_path / "found")
    alone.save(tmp_path / "alone")
    assert (tmp_path / "found").read_bytes() == (tmp_path / "alone").read_bytes()


def test_files_with_numbers_too_small(text, tmp_path):
    path, kind = tmp_path / "model", {"kind": INDUCED.kind, "version": INDUCED.version}
    make_inducer("dmv+ccm", lengths=5, iterations=1).fit(text).save(path)
    arrays, metadata = read_arrays(path, **kind)
    least = dict.fromkeys(["frequency", "attach", "go", "stop", "root", "yields", "yield_counts", "context_counts"], 0)
    for name, smallest in {**least, "contexts": -1}.items():
        changed = arrays[name].copy()
        changed.flat[0] = smallest - 1
        write_arrays(path, {**arrays, name: changed}, metadata, **kind)
        with pytest.raises(ModelError, match=name):
            InducedModel.load(path)
