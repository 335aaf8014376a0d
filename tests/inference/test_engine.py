"""The fast engine against the reference: same posteriors, same probabilities, same decodings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples, slow
from oracles import reference
from sapwood.errors import GrammarError, InputError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.chart.chart import Chart, build_chart
from sapwood.inference.chart.compiled import compile_grammar
from sapwood.inference.decode import find_decoder
from sapwood.testing.grammars import random_grammar


def make_chart(grammar: TensorGrammar, words: list[str], dtype: type = np.float64, threshold: float = 0.0):
    compiled = compile_grammar(grammar, dtype)
    terminals = grammar.lexicon.terminals(words)
    leaves = [compiled.leaf(grammar.emissions.row(terminal)) for terminal in terminals]
    return compiled, build_chart(compiled, leaves, threshold=threshold)


def chart_marginals(grammar: TensorGrammar, chart: Chart) -> np.ndarray:
    found = np.zeros((len(grammar.symbols), chart.n, chart.n + 1))
    spans = chart.spans()
    for node, symbol, posterior in zip(*chart.symbol_posteriors(), strict=True):
        found[symbol, *spans[node]] = posterior
    return found


def random_sentence(grammar: TensorGrammar, rng: np.random.Generator, longest: int) -> list[str]:
    return [str(word) for word in rng.choice(grammar.lexicon.words, size=rng.integers(1, longest + 1))]


grammars = st.tuples(st.integers(0, 2**32 - 1), st.booleans())


def make(seed: int, real: bool) -> tuple[TensorGrammar, list[str], np.random.Generator]:
    rng = np.random.default_rng(seed)
    grammar = random_grammar(
        rng, interminals=int(rng.integers(1, 5)), preterminals=int(rng.integers(1, 4)), states=(1, 4), real=real
    )
    return grammar, random_sentence(grammar, rng, 7), rng


@examples(250)
@given(grammars)
def test_posteriors_equal_the_reference(case):
    grammar, words, _ = make(*case)
    exact = reference.inside_outside(grammar, words)
    _, chart = make_chart(grammar, words)
    if exact.probability == 0 or chart is None:
        assert chart is None
        assert abs(exact.probability) < 1e-12
        return
    assert chart.log_probability == pytest.approx(np.log(exact.probability), rel=1e-9, abs=1e-9)
    wanted = exact.marginals / exact.probability
    np.testing.assert_allclose(chart_marginals(grammar, chart), wanted, rtol=1e-8, atol=1e-10)


@examples(100)
@given(grammars)
def test_rule_posteriors_equal_the_reference(case):
    grammar, words, _ = make(*case)
    compiled, chart = make_chart(grammar, words)
    if chart is None:
        return
    exact = reference.inside_outside(grammar, words)
    wanted = exact.rule_marginals() / exact.probability
    found = np.zeros_like(wanted)
    spans, forest = chart.spans(), chart.forest
    for group, (parent, rule) in enumerate(zip(forest.group_parent, forest.group_rule, strict=True)):
        for edge in range(forest.group_offsets[group], forest.group_offsets[group + 1]):
            (i, j), (_, k) = spans[parent], spans[forest.children[edge, 0]]
            # Base symbols are the symbols here, so coarse rules are the grammar's rules, in another order.
            assert compiled.fine_offsets[rule + 1] == compiled.fine_offsets[rule] + 1
            found[compiled.fine_rule[compiled.fine_offsets[rule]], i, k, j] += chart.edge_posterior[edge]
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


@examples(60)
@given(grammars)
@pytest.mark.slow
def test_single_precision_is_close(case):
    grammar, words, _ = make(*case)
    _, double = make_chart(grammar, words)
    _, single = make_chart(grammar, words, np.float32)
    if double is None:
        return
    assert single is not None
    np.testing.assert_allclose(chart_marginals(grammar, single), chart_marginals(grammar, double), atol=2e-4)


@examples(80)
@given(st.integers(0, 2**32 - 1))
def test_viterbi_equals_the_reference(seed):
    grammar, words, _ = make(seed, False)
    _, chart = make_chart(grammar, words)
    best = reference.viterbi(grammar, words)
    if chart is None:
        assert best.tree is None
        return
    tree = find_decoder("viterbi")(chart, words)
    assert tree is not None
    # Equal derivations may tie, so compare what they score.
    assert best_states(grammar, tree) == pytest.approx(best.value, rel=1e-9)


def best_states(grammar: TensorGrammar, tree) -> float:
    """Return the probability of the tree with its best states, by a plain recursion."""
    numbers = {tuple(rule): number for number, rule in enumerate(grammar.rules.tolist())}
    initial = True

    def visit(node, below):
        nonlocal initial
        symbol = grammar.symbol_number(node.label, preterminal=node.word is not None)
        if node.word is not None:
            vector, initial = grammar.lexical_vector(symbol, node.word, initial=initial), False
            return symbol, vector
        (b, left), (c, right) = below
        return symbol, (grammar.tensor(numbers[symbol, b, c]) * left[:, None] * right).max(axis=(1, 2))

    symbol, vector = tree.fold(visit)
    return float((vector * grammar.root_vector(symbol)).max())


@examples(80)
@given(grammars)
def test_recall_decoding_equals_the_reference(case):
    grammar, words, _ = make(*case)
    _, chart = make_chart(grammar, words)
    if chart is None or chart.symbol_posteriors()[2].min() < 0:
        return
    tree = find_decoder("recall")(chart, words)
    best = reference.best_labelled_recall(grammar, words)
    assert tree is not None
    posterior = chart_marginals(grammar, chart)
    assert _expected_correct(grammar, posterior, tree) == pytest.approx(
        _expected_correct(grammar, posterior, best.tree), rel=1e-9
    )


def _expected_correct(grammar: TensorGrammar, posterior: np.ndarray, tree) -> float:
    position = 0
    total = 0.0

    def visit(node, below):
        nonlocal position, total
        if node.word is not None:
            start, position = position, position + 1
        else:
            start = below[0]
        total += posterior[grammar.symbol_number(node.label, preterminal=node.word is not None), start, position]
        return start

    tree.fold(visit)
    return total


def max_rule_by_enumeration(grammar: TensorGrammar, chart: Chart):
    """Return the best product of rule posteriors over all derivations of the chart, by plain recursion."""
    forest = chart.forest
    by_parent: dict[int, list[tuple[int, int, float]]] = {}
    for group, parent in enumerate(forest.group_parent):
        for edge in range(forest.group_offsets[group], forest.group_offsets[group + 1]):
            left, right = forest.children[edge]
            by_parent.setdefault(int(parent), []).append((int(left), int(right), float(chart.edge_posterior[edge])))

    def best(node: int) -> float:
        if chart.compiled.coarse.n_interminals <= forest.node_symbol[node]:
            return float(chart.node_posterior[node])
        return max((p * best(left) * best(right) for left, right, p in by_parent.get(node, [])), default=0.0)

    top = chart.n * (chart.n - 1) // 2
    roots = range(forest.node_offsets[top], forest.node_offsets[top + 1])
    return max(best(root) for root in roots if chart.compiled.coarse.root[forest.node_symbol[root]] > 0)


@examples(60)
@given(st.integers(0, 2**32 - 1))
def test_max_rule_decoding_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, states=(1, 3))
    words = random_sentence(grammar, rng, 5)
    _, chart = make_chart(grammar, words)
    if chart is None:
        return
    tree = find_decoder("max-rule")(chart, words)
    exact = reference.inside_outside(grammar, words)
    rules = exact.rule_marginals() / exact.probability
    marginals = exact.marginals / exact.probability
    score = 1.0
    position = 0
    numbers = {tuple(rule): number for number, rule in enumerate(grammar.rules.tolist())}

    def visit(node, below):
        nonlocal score, position
        symbol = grammar.symbol_number(node.label, preterminal=node.word is not None)
        if node.word is not None:
            position += 1
            score *= marginals[symbol, position - 1, position]
            return symbol, position - 1, position
        (left, i, k), (right, _, j) = below
        score *= rules[numbers[symbol, left, right], i, k, j]
        return symbol, i, j

    tree.fold(visit)
    assert score == pytest.approx(max_rule_by_enumeration(grammar, chart), rel=1e-8)


@pytest.mark.parametrize(
    ("length", "exactly"),
    [(1, True), (2, True), (63, False), (64, False), (65, False), slow(65, True), (128, False), (200, False)],
)
def test_long_sentences(length, exactly):
    """Bit sets change their width at 64 words, precision at 150; the root and each word have posterior one in all."""
    rng = np.random.default_rng(length)
    grammar = random_grammar(rng, interminals=1, preterminals=1, words=3, states=(2, 2), density=1.0)
    words = [str(word) for word in rng.choice(grammar.lexicon.words, size=length)]
    for dtype, tolerance in ((np.float64, 1e-6), (np.float32, 1e-2)):
        _, chart = make_chart(grammar, words, dtype)
        assert chart is not None
        marginals = chart_marginals(grammar, chart)
        assert marginals[:, 0, length].sum() == pytest.approx(1.0, abs=tolerance)
        for position in range(length):
            assert marginals[:, position, position + 1].sum() == pytest.approx(1.0, abs=tolerance)
    if exactly:
        exact = reference.inside_outside(grammar, words)
        _, chart = make_chart(grammar, words)
        found = chart_marginals(grammar, chart)
        np.testing.assert_allclose(found, exact.marginals / exact.probability, rtol=1e-6, atol=1e-9)
        assert chart.log_probability == pytest.approx(np.log(exact.probability), rel=1e-9)


def test_threads_do_not_change_results():
    rng = np.random.default_rng(5)
    grammar = random_grammar(rng, states=(2, 4))
    sentences = [random_sentence(grammar, rng, 12) for _ in range(40)]
    one = list(Parser(grammar).parse(sentences))
    two = list(Parser(grammar, threads=2).parse(sentences))
    assert one == two


def test_parsing_is_lazy():
    rng = np.random.default_rng(6)
    grammar = random_grammar(rng)
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield random_sentence(grammar, rng, 5)

    for threads in (1, 2):
        taken = 0
        results = Parser(grammar, threads=threads).parse(endless())
        for _ in range(5):
            next(results)
        assert taken <= (5 if threads == 1 else 5 + 64)
        results.close()


@examples(30)
@given(st.integers(0, 2**32 - 1))
def test_pruning_does_not_depend_on_the_basis(seed):
    """The coarse grammar comes from counts that no change of basis touches (Theorem 1), so neither does pruning."""
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, states=(1, 3))
    words = random_sentence(grammar, rng, 6)
    bases = [rng.normal(size=(m, m)) + 2 * np.eye(m) for m in grammar.states]
    if max(np.linalg.cond(basis) for basis in bases) > 50:
        return
    other = grammar.conjugate(bases)
    plain, turned = compile_grammar(grammar).coarse, compile_grammar(other).coarse
    np.testing.assert_allclose(turned.tensors, plain.tensors, rtol=1e-9)
    np.testing.assert_allclose(turned.occupancy, plain.occupancy, rtol=1e-6, atol=1e-9)
    for terminal in range(grammar.lexicon.n_words):
        row = turned.emissions.row(terminal)
        np.testing.assert_allclose(row, plain.emissions.row(terminal), rtol=1e-6, atol=1e-9)
    ours, theirs = Parser(grammar).parse_one(words), Parser(other).parse_one(words)
    if ours.status == theirs.status == "parsed":
        assert theirs.log_probability == pytest.approx(ours.log_probability, abs=1e-2)


def test_sentences_that_are_none():
    parser = Parser(random_grammar(np.random.default_rng(2)))
    for sentence in ("w0 w1", [None], [1], [("w0", "P0", "x")], [("w0",)]):
        with pytest.raises(UsageError):
            parser.parse_one(sentence)
    with pytest.raises(InputError, match="no tag 'XX'"):
        parser.parse_one([("w0", "XX")])
    assert parser.parse_one(word for word in ("w0", "w1")) == parser.parse_one(["w0", "w1"])
    for options in (
        {"threshold": 1.0},
        {"threshold": float("nan")},
        {"threads": 0},
        {"max_words": -1},
        {"decoder": "x"},
    ):
        with pytest.raises(UsageError):
            Parser(parser.model, **options)
    real = random_grammar(np.random.default_rng(3), real=True)
    with pytest.raises(GrammarError, match="viterbi"):
        Parser(real, decoder="viterbi")


def test_a_word_that_no_tag_has():
    grammar = TensorGrammar.from_parts(
        root={"S": 1.0}, rules={("S", "N", "V"): 1.0}, words={("N", "a"): 1.0, ("V", "b"): 1.0}
    )
    result = Parser(grammar).parse_one(["zzz", "b"])
    assert result.status == "flat"
    assert result.tree.words() == ["zzz", "b"]
