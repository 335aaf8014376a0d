"""The k best trees, samples, constraints and tree probabilities, against enumeration."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples, slow
from helpers.enumerate_trees import all_trees
from helpers.made_up import made_up_treebank
from oracles import reference
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.constraints import compile_constraints
from sapwood.inference.ensemble import Ensemble
from sapwood.inference.forest.kbest import k_best
from sapwood.learn import PCFG
from sapwood.testing.grammars import random_grammar, random_states
from sapwood.trees import Corpus, Tree, TreeTransform

TREES = [
    "(ROOT (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (NP (DT a) (NN cat)) (PP (IN with) (NP (DT a) (NN hat)))))))",
    "(ROOT (S (NP (DT a) (NN cat)) (VP (VBD saw) (NP (DT the) (NN dog)) (PP (IN with) (NP (NN joy))))))",
    "(ROOT (S (NP (NN joy)) (VP (VBD won))))",
    "(ROOT (NP (DT the) (NN hat) (NN cat)))",
]


SENTENCE = ["the", "dog", "saw", "a", "cat", "with", "a", "hat"]


def small_parser(vertical=1, **options) -> Parser:
    trees = [Tree.parse(text) for text in TREES]
    transform = TreeTransform(vertical=vertical, horizontal=vertical - 1, annotate_tags=True)
    corpus = Corpus.from_trees(trees, transform=transform)
    return Parser(PCFG().fit(corpus), **options)


def make(seed: int, longest: int = 5, states=(1, 3)):
    rng = np.random.default_rng(seed)
    grammar = random_grammar(rng, interminals=2, preterminals=2, states=states)
    words = [str(word) for word in rng.choice(grammar.lexicon.words, size=rng.integers(1, longest + 1))]
    return grammar, words


def bare(grammar, tree: Tree) -> Tree:
    """Undo what a parser adds for treebanks: the root label."""
    return tree.children[0] if tree.label == grammar.transform.root else tree


@examples(240)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(1, 1, 5), (2, 3, 5), (1, 3, 5), (5, 6, 3)]),
    st.sampled_from([1, 2, 5, 12]),
)
def test_k_best_are_the_most_probable_trees(seed, size, count):
    """With one state, with few, which have a kernel of their own, and with more."""
    *states, longest = size
    grammar, words = make(seed, longest, states=states)
    probabilities = sorted((found.weight for found in all_trees(grammar, words) if found.weight > 0), reverse=True)
    best = Parser(grammar, threshold=0).k_best(words, count)
    assert np.exp([score for _, score in best]) == pytest.approx(probabilities[:count], rel=1e-9)
    assert best.exact
    assert math.exp(best.bound) >= max(probabilities[count:], default=0.0) * (1 - 1e-9)
    assert len({tree for tree, _ in best}) == len(best)
    for tree, score in best:
        assert math.exp(score) == pytest.approx(reference.tree_probability(grammar, bare(grammar, tree)), rel=1e-9)


@examples(60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 40, 200]))
def test_trees_that_k_best_misses_are_within_the_bound(seed, limit):
    grammar, words = make(seed, longest=4, states=(2, 3))
    parser = Parser(grammar, threshold=0)
    chart, leaves = parser.chart(words), parser._lookup.score(words)[1]
    if chart is None:
        return
    score = partial(parser._ensemble.tree_log_probability, leaves)
    best = k_best(chart, words, 1, score, charts=[chart], limit=limit)
    others = sorted((math.log(found.weight) for found in all_trees(grammar, words) if found.weight > 0), reverse=True)
    others.remove(min(others, key=lambda value: abs(value - best[0].log_probability)))
    assert max(others, default=-math.inf) <= best.bound + 1e-9
    assert best.exact == (best.bound <= best[0].log_probability + 1e-4)
    if best.exact:
        assert best[0].log_probability >= max(others, default=-math.inf) - 1e-9
    # Nor more probable than all other trees together.
    rest = np.logaddexp.reduce(others) if others else -math.inf
    assert best.bound <= np.logaddexp(rest, chart.log_probability - 9)


def one_sure_tree(share: float) -> TensorGrammar:
    """Return a grammar whose first state prefers one tree, and whose second one makes all others look better."""
    keep = np.eye(2)[:, None, :]
    ends = [
        (("C", first, last), step) for first, step in (("X", [0.0, 0.58]), ("Y", [1.0, 0.42])) for last in "C" + first
    ]
    rules = {
        rule: np.array(step)[:, None, None] * (0.9 * keep if rule[2] == "C" else np.full((2, 1, 1), 0.1))
        for rule, step in ends
    }
    return TensorGrammar.from_parts(
        root={"C": [share, 1 - share]}, rules=rules, words={("X", "w"): 1.0, ("Y", "w"): 1.0}
    )


@pytest.mark.parametrize("shares", [(0.1,), (0.1, 0.15)])
@pytest.mark.parametrize("count", [1, 3])
def test_the_best_tree_is_never_less_probable_than_that_of_viterbi(shares, count):
    """Even if the search ends before it has seen that tree; under a mixture, that of each member."""
    words = ["w"] * 9
    parser = Parser([one_sure_tree(share) for share in shares], threshold=0)
    chart, leaves = parser.chart(words), parser._lookup.score(words)[1]
    charts = [chart] if len(shares) == 1 else chart.members
    score = partial(parser._ensemble.tree_log_probability, leaves)
    best = k_best(chart, words, count, score, charts=charts, n_grammars=len(shares), limit=1)
    assert best[0].log_probability == pytest.approx(max(score(one.best(words)) for one in charts))
    assert len({tree for tree, _ in best}) == len(best) == count
    assert [value for _, value in best] == sorted((value for _, value in best), reverse=True)
    sure = parser.k_best(words, count)
    assert sure.exact
    assert best[0].tree == bare(parser.grammar, sure[0].tree)
    assert best.bound >= parser.k_best(words, count + 1)[-1].log_probability - 1e-9


@examples(20)
@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e-2))
def test_k_best_probabilities_are_shares_of_the_sentence(seed, threshold):
    """Also in single precision and after pruning."""
    grammar, words = make(seed, longest=7, states=(2, 3))
    parser = Parser(grammar, threshold=threshold)
    chart, best = parser.chart(words), parser.k_best(words, 50)
    assert (chart is None) == (not best)
    scores = [score for _, score in best]
    assert scores == sorted(scores, reverse=True)
    if best:
        assert np.logaddexp.reduce(scores) <= chart.log_probability + 1e-4
        assert best.exact


def test_k_best_counts():
    parser = small_parser()
    sentence = SENTENCE
    assert len(parser.k_best(sentence, 1)) == 1
    best = parser.k_best(sentence, 2)
    assert [tree.words() for tree, _ in best] == [sentence] * 2
    assert Tree.parse(TREES[0]) in {tree for tree, _ in best}
    assert best[0].log_probability > best[1].log_probability
    assert parser.k_best([], 3) == []


@pytest.mark.parametrize("count", [1_000, slow(20_000)])
def test_samples_follow_the_posterior(count):
    grammar, words = make(3, longest=4, states=(1, 3))
    words = words * 4
    words = words[:4]
    total = reference.inside_outside(grammar, words).probability
    drawn = Counter(bare(grammar, tree) for tree in Parser(grammar, threshold=0).sample(words, count, random_state=1))
    for found in all_trees(grammar, words):
        p = found.weight / total
        assert drawn[found.tree] / count == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / count) + 1 / count)


@pytest.mark.parametrize("vertical", [1, 2, 3])
def test_samples_are_as_frequent_as_probable(vertical):
    """Also where several symbols of the grammar are one label of trees."""
    parser, count = small_parser(vertical, threshold=0), 1_000
    total = parser.chart(SENTENCE).log_probability
    expected = {tree: math.exp(score - total) for tree, score in parser.k_best(SENTENCE, 100)}
    assert sum(expected.values()) == pytest.approx(1)
    drawn = Counter(parser.sample(SENTENCE, count, random_state=1))
    assert drawn.keys() <= expected.keys()
    for tree, p in expected.items():
        assert drawn[tree] / count == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / count) + 1e-6)


def test_sampling_is_reproducible_and_needs_probabilities():
    grammar, words = make(4)
    parser = Parser(grammar)
    assert parser.sample(words, 5, random_state=2) == parser.sample(words, 5, random_state=2)
    real = random_grammar(np.random.default_rng(1), real=True)
    with pytest.raises(GrammarError, match="probabilistic"):
        Parser(real).sample(["w0", "w1"], 1)


@pytest.mark.parametrize("vertical", [1, 2, 3])
def test_tree_probability_of_training_trees(vertical):
    parser = small_parser(vertical, threshold=0)
    for text in TREES:
        tree = Tree.parse(text)
        skeleton = parser.grammar.transform(tree)
        exact = reference.tree_probability(parser.grammar, skeleton)
        assert exact > 0
        assert parser.tree_log_probability(tree) == pytest.approx(math.log(exact), rel=1e-9)
    states = Parser(random_states(parser.grammar, 2, np.random.default_rng(0)))
    for wrong in ("(X (NN cat) (VBD saw))", "(NP (DT cat) (NN the))", "(NP (XX the) (NN cat))"):
        for one in (parser, states):
            assert one.tree_log_probability(Tree.parse(f"(ROOT {wrong})")) == -math.inf
    deep = Tree("ROOT", [Tree("NP", [Tree("NN", word="cat")] * 500)])
    assert parser.tree_log_probability(deep) == -math.inf


def test_required_phrases_hold():
    parser = small_parser()
    sentence = SENTENCE
    free = parser.parse_one(sentence).tree
    assert (3, 8, "NP") not in free.spans()
    assert (3, 8, "NP") in parser.parse_one(sentence, phrases=[(3, 8, "NP")]).tree.spans()
    assert (3, 8, "NP") in parser.parse_one(sentence, phrases=[(3, 8, None)]).tree.spans()
    assert parser.parse_one(sentence, phrases=[(3, 5, "NP"), (0, 2, None)]).tree == free
    with pytest.raises(UsageError, match="no parse with the phrases"):
        parser.parse_one(sentence, phrases=[(3, 8, "VP")])
    with pytest.raises(UsageError, match="no parse with the phrases"):
        parser.parse_one(sentence, phrases=[(0, 2, "NP"), (1, 3, "NP")])
    with pytest.raises(UsageError, match="does not fit"):
        parser.parse_one(sentence, phrases=[(0, 9, "NP")])


@pytest.mark.slow
@examples(40)
@given(st.integers(0, 2**32 - 1))
def test_constrained_marginals_by_enumeration(seed):
    grammar, words = make(seed)
    if len(words) < 2:
        return
    rng = np.random.default_rng(seed)
    start, end = sorted(rng.choice(len(words) + 1, size=2, replace=False).tolist())
    kept = [
        found
        for found in all_trees(grammar, words)
        if any((i, j) == (start, end) for i, j, _ in found.tree.spans()) or end - start == 1
    ]
    total = sum(found.weight for found in kept)
    chart = Parser(grammar, threshold=0).chart(words, phrases=[(start, end, None)])
    if chart is None:
        assert total == pytest.approx(0)
        return
    assert math.exp(chart.log_probability) == pytest.approx(total, rel=1e-4)


@examples(25)
@given(st.integers(0, 2**32 - 1))
def test_absent_phrases_by_enumeration(seed):
    """Forbidding a label over a span leaves the trees that do not have it there; of real treebanks see below."""
    grammar, words = make(seed)
    rng = np.random.default_rng(seed)
    start, end = sorted(rng.choice(len(words) + 1, size=2, replace=False).tolist())
    label = str(rng.choice(grammar.symbols[: grammar.n_interminals]))
    kept = [found for found in all_trees(grammar, words) if (start, end, label) not in found.tree.spans()]
    chart = Parser(grammar, threshold=0).chart(words, phrases=[(start, end, label, True)])
    total = sum(found.weight for found in kept)
    assert total == pytest.approx(0.0 if chart is None else math.exp(chart.log_probability), rel=1e-4)


def test_absent_phrases_are_not_there():
    parser = small_parser()
    (start, end, label), *_ = (span for span in parser.parse_one(SENTENCE).tree.spans() if span[1] - span[0] == 6)
    for what in (label, None):
        tree = parser.parse_one(SENTENCE, phrases=[(start, end, what, True)]).tree
        assert all((i, j) != (start, end) for i, j, _ in tree.spans()) or what is not None
        assert (start, end, label) not in tree.spans()
        assert all((start, end, label) not in found.spans() for found, _ in parser.k_best(
            SENTENCE, 5, phrases=[(start, end, what, True)]))  # fmt: skip
        for drawn in parser.sample(SENTENCE, 3, random_state=0, phrases=[(start, end, what, True)]):
            assert (start, end, label) not in drawn.spans()
    with pytest.raises(UsageError, match="no parse"):
        parser.parse_one(SENTENCE, phrases=[(0, 2, "NP"), (0, 2, "NP", True)])


def test_posteriors_of_all_phrases():
    parser = small_parser()
    found = parser.posteriors(SENTENCE, least=0.01)
    chart = parser.chart(SENTENCE).label_posteriors()
    assert {item[:3]: item[3] for item in found} == {key: value for key, value in chart.items() if value >= 0.01}
    assert found == sorted(found)
    assert parser.posteriors(["won", "won", "won"]) == []


def test_adapted_parsers_share_the_grammar():
    parser = small_parser()
    other = parser.with_options(marginals=True, alternatives=2, timeout=5.0)
    assert other.compiled is parser.compiled
    assert other.parse_one(SENTENCE) == small_parser(marginals=True, alternatives=2).parse_one(SENTENCE)
    assert parser.parse_one(SENTENCE).marginals is None
    with pytest.raises(UsageError, match="decoder"):
        parser.with_options(decoder="viterbi")


def test_adapted_parsers_look_up_words_and_lay_out_grammars_once(monkeypatch):
    """Even those that are made before anything was parsed, as a service does for every request."""
    parser, made = small_parser(), []
    leaf, begin = Ensemble.leaf, Ensemble.__init__
    monkeypatch.setattr(Ensemble, "leaf", lambda *given, **more: (made.append("leaf"), leaf(*given, **more))[1])
    monkeypatch.setattr(Ensemble, "__init__", lambda *given, **more: (made.append("grammar"), begin(*given, **more))[1])
    for words, what in ((SENTENCE, "leaf"), (["won", "won", "won"], "grammar")):
        first = parser.with_options(timeout=5.0).parse_one(words)
        assert what in made
        made.clear()
        assert parser.with_options(timeout=6.0).parse_one(words) == first
        assert what not in made


def test_marginals_come_with_the_parse():
    parser = small_parser(marginals=True)
    result = parser.parse_one(SENTENCE)
    found = {(i, j, label): p for i, j, label, p in result.marginals}
    assert set(found) == {(i, i + 1, t) for i, t in enumerate(result.tree.tags())} | set(result.tree.spans()[1:])
    assert all(0 <= p <= 1 for p in found.values())
    assert found[0, 2, "NP"] == pytest.approx(1.0, abs=1e-3)
    attached = parser.chart(SENTENCE).label_posteriors()
    assert attached[3, 5, "NP"] == pytest.approx(1.0, abs=1e-3)
    assert 0.05 < attached[3, 8, "NP"] < 0.5
    plain = small_parser().parse_one(["joy", "won"])
    assert plain.marginals is None
    assert plain.alternatives is None
    asked = small_parser(alternatives=2).parse_one(SENTENCE)
    assert asked.alternatives == small_parser().k_best(SENTENCE, 2)


def test_k_best_with_a_pruned_chart():
    """Pruning can leave nodes without edges; the search must step over them."""
    parser = small_parser(threshold=0.05)
    best = parser.k_best(SENTENCE, 10)
    assert best
    assert all(tree.words() == SENTENCE for tree, _ in best)


def test_all_that_is_asked_of_one_span_must_hold():
    """Labels of a chain of unary rules together; and two that never go together leave nothing."""
    grammar = PCFG().fit(Corpus.from_trees(made_up_treebank(30)))

    def allowed(*labels: str | None) -> np.ndarray:
        found = compile_constraints([(0, 2, label) for label in labels], 3, grammar)
        return found.allowed[found.cells[1]]

    chain = next(chain for chain in grammar.symbols.chain if chain)
    other = next(each[0] for each in grammar.symbols.chain if each and not set(each) & set(chain))
    assert allowed(chain[0]).any()
    for some in ([], [(0, 2, None)]):
        for prune_cells in (True, False):
            assert compile_constraints(some, 3, grammar, prune_cells=prune_cells).prune_cells == prune_cells
    np.testing.assert_array_equal(allowed(None, chain[0]), allowed(chain[0]))
    np.testing.assert_array_equal(allowed(chain[0], other), allowed(chain[0]) & allowed(other))
