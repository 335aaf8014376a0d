"""Products of grammars, against what follows from listing all trees of a sentence under each member."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.enumerate_trees import Enumerated, Summary, all_trees, children, rule_number, summarise
from helpers.made_up import made_up_treebank
from sapwood.errors import GrammarError, UsageError
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.chart.chart import Chart
from sapwood.inference.chart.posteriors import Workspace
from sapwood.inference.decode import find_decoder
from sapwood.inference.ensemble import Ensemble, ProductChart, mixture_log_probability
from sapwood.learn import PCFG
from sapwood.model import ParserModel
from sapwood.model.file import save_models
from sapwood.testing.grammars import random_grammar, random_states
from sapwood.trees import Corpus, Tree, TreeTransform
from sapwood.trees.lexicon.lexicon import Lexicon
from sapwood.trees.lexicon.signatures import SignatureModel
from sapwood.trees.normalise import Normaliser

seeds = st.integers(0, 2**32 - 1)
DECODERS = ("max-rule", "max-rule-sum", "recall")


def make(seed: int, longest: int = 5) -> tuple[list[TensorGrammar], list[str], np.random.Generator]:
    """Two or three grammars with the same rules, each with states of its own, and a sentence."""
    rng = np.random.default_rng(seed)
    base = random_grammar(rng, interminals=2, preterminals=2, states=(1, 1))
    members = [random_states(base, int(rng.integers(1, 4)), rng, noise=1.8) for _ in range(rng.integers(2, 4))]
    words = [str(word) for word in rng.choice(base.lexicon.words, size=rng.integers(1, longest + 1))]
    return members, words, rng


def bare(grammar: TensorGrammar, tree: Tree) -> Tree:
    """Undo what a parser adds for treebanks: the root label."""
    return tree.children[0] if tree.label == grammar.transform.root else tree


class Twin:
    """Everything that the product is defined by, from lists of all trees."""

    def __init__(self, members: list[TensorGrammar], words: list[str]) -> None:
        self.members = members
        self.trees: list[list[Enumerated]] = [all_trees(grammar, words) for grammar in members]
        self.sums: list[Summary] = [summarise(*pair) for pair in zip(members, self.trees, strict=True)]

    @property
    def probability(self) -> float:
        return float(np.mean([found.probability for found in self.sums]))

    def node(self, key: tuple[int, int, int]) -> list[float]:
        return [found.marginals[key] / found.probability for found in self.sums]

    def rule(self, key: tuple[int, int, int, int]) -> list[float]:
        return [found.rules[key] / found.probability for found in self.sums]

    def score(self, item: Enumerated, decoder: str) -> float:
        total = 0.0
        for index, (a, i, j, k) in enumerate(item.nodes):
            if k < 0 or decoder == "recall":
                posteriors = self.node((a, i, j))
            else:
                left, right = children(item.nodes, index)
                rule = rule_number(self.members[0], a, item.nodes[left][0], item.nodes[right][0])
                posteriors = self.rule((rule, i, k, j))
            total += float(np.log(posteriors).sum() if decoder == "max-rule" else np.mean(posteriors))
        return total

    def tree_probability(self, tree: Tree) -> float:
        return float(np.mean([sum(item.weight for item in trees if item.tree == tree) for trees in self.trees]))


@pytest.mark.slow
@examples(40)
@given(seeds)
def test_decoders_by_enumeration(seed):
    members, words, _ = make(seed)
    twin = Twin(members, words)
    if not twin.trees[0]:
        return
    for decoder in DECODERS:
        result = Parser(members, decoder=decoder, threshold=0).parse_one(words)
        assert result.status == "parsed"
        scores = {item.tree: twin.score(item, decoder) for item in twin.trees[0]}
        # Equal trees may tie, so compare what they score.
        assert scores[bare(members[0], result.tree)] == pytest.approx(max(scores.values()), rel=1e-9, abs=1e-9)
        assert result.log_probability == pytest.approx(math.log(twin.probability), rel=1e-9)


@pytest.mark.slow
@examples(40)
@given(seeds)
def test_posteriors_by_enumeration(seed):
    members, words, _ = make(seed)
    twin = Twin(members, words)
    chart = Parser(members, threshold=0).chart(words)
    if not twin.trees[0]:
        assert chart is None
        return
    assert isinstance(chart, ProductChart)
    assert len(chart.members) == len(members)
    forest, spans = chart.forest, chart.spans()
    log_nodes, log_edges = chart.log_posteriors()
    for node, symbol in enumerate(forest.node_symbol.tolist()):
        wanted = twin.node((symbol, *spans[node].tolist()))
        assert chart.node_posterior[node] == pytest.approx(np.mean(wanted), rel=1e-9)
        assert log_nodes[node] == pytest.approx(np.log(wanted).sum(), rel=1e-9, abs=1e-9)
    checked = 0
    for group, parent in enumerate(forest.group_parent.tolist()):
        for edge in range(forest.group_offsets[group], forest.group_offsets[group + 1]):
            left, right = forest.children[edge].tolist()
            symbols = [int(forest.node_symbol[node]) for node in (parent, left, right)]
            wanted = twin.rule(
                (rule_number(members[0], *symbols), int(spans[parent][0]), int(spans[left][1]), int(spans[parent][1]))
            )
            assert chart.edge_posterior[edge] == pytest.approx(np.mean(wanted), rel=1e-9)
            assert log_edges[edge] == pytest.approx(np.log(wanted).sum(), rel=1e-9, abs=1e-9)
            checked += 1
    assert checked == len(twin.sums[0].rules)
    for node, symbol, posterior in zip(*chart.symbol_posteriors(), strict=True):
        assert posterior == pytest.approx(np.mean(twin.node((int(symbol), *spans[node].tolist()))), rel=1e-9)


@examples(25)
@given(seeds)
def test_marginals_and_tree_probabilities_by_enumeration(seed):
    members, words, _ = make(seed, longest=4)
    twin = Twin(members, words)
    if not twin.trees[0]:
        return
    parser = Parser(members, threshold=0, marginals=True, alternatives=3)
    result = parser.parse_one(words)
    for start, end, label, posterior in result.marginals:
        symbol = members[0].symbols.index(label)
        assert posterior == pytest.approx(np.mean(twin.node((symbol, start, end))), rel=1e-9)
    wanted = sorted((twin.tree_probability(item.tree) for item in twin.trees[0]), reverse=True)
    for count in (1, 3, 10_000):
        best = parser.k_best(words, count)
        assert np.exp([score for _, score in best]) == pytest.approx(wanted[:count], rel=1e-9)
        assert best.exact
    for tree, score in best[:5]:
        assert score == pytest.approx(math.log(twin.tree_probability(bare(members[0], tree))), rel=1e-9)
        assert parser.tree_log_probability(tree) == pytest.approx(score, rel=1e-9)
    assert len(result.alternatives) == min(3, len(best))
    assert [score for _, score in result.alternatives] == pytest.approx([score for _, score in best[:3]], rel=1e-12)


@pytest.mark.slow
def test_samples_follow_the_mixture():
    """Members far apart in how probable they find the sentence must not count alike."""
    members, _, rng = make(3)
    strong = members[0]
    weak = random_states(random_grammar(np.random.default_rng(3), interminals=2, preterminals=2, states=(1, 1)), 2, rng)
    words = ["w0", "w1", "w0", "w2"]
    # Push the second member's trees elsewhere: other tensors for each rule, normalised again.
    factors = np.repeat(rng.random(len(weak.rules)) ** 3, np.diff(weak.tensor_offsets))
    tensors = weak.tensors.astype(float) * factors
    totals = np.zeros(int(weak.states.sum()))
    owners = np.concatenate(
        [
            np.repeat(weak.state_offsets[a] + np.arange(weak.states[a]), weak.states[b] * weak.states[c])
            for a, b, c in weak.rules
        ]
    )
    np.add.at(totals, owners, tensors)
    weak = replace(weak, tensors=tensors / totals[owners]).validate()
    twin = Twin([strong, weak], words)
    ratio = twin.sums[0].probability / twin.sums[1].probability
    assert not 0.8 < ratio < 1.25, "the members should differ for this test"
    count = 20_000
    parser = Parser([strong, weak], threshold=0)
    trees = parser.sample(words, count, random_state=1)
    assert len(trees) == count
    drawn = Counter(bare(strong, tree) for tree in trees)
    assert set(drawn) <= {item.tree for item in twin.trees[0]}

    def far(weights: list[float]) -> float:
        """Return how far the counts are from a mixture with these weights: about 0 if it is theirs, in deviations."""
        parts = list(zip(*twin.trees, strict=True))
        expected = [
            count
            * sum(w * item.weight / found.probability for w, item, found in zip(weights, part, twin.sums, strict=True))
            for part in parts
        ]
        terms = [(drawn[part[0].tree] - e) ** 2 / e for part, e in zip(parts, expected, strict=True) if e > 5]
        return (sum(terms) - len(terms)) / math.sqrt(2 * len(terms))

    total = sum(found.probability for found in twin.sums)
    assert far([found.probability / total for found in twin.sums]) < 5
    assert far([0.5, 0.5]) > 20
    assert parser.sample(words, 20, random_state=2) == parser.sample(words, 20, random_state=2)
    assert parser.sample(words, 0) == []
    assert parser.sample([], 3) == []


@pytest.fixture(scope="module")
def treebank_members() -> list[TensorGrammar]:
    transform = TreeTransform(vertical=2, horizontal=1)
    grammar = PCFG().fit(Corpus.from_trees(made_up_treebank(200, 1), transform=transform))
    return [random_states(grammar, states, np.random.default_rng(states), noise=1.5) for states in (1, 2, 3)]


SENTENCES = [tree.words() for tree in made_up_treebank(25, 2)] + [["Xyzal", "of", "12", "gnorf"], ["the"]]


def close_to(value: float | None, **tolerance: float):
    return None if value is None else pytest.approx(value, **tolerance)


@pytest.mark.parametrize("decoder", DECODERS)
def test_identical_members_are_as_one(treebank_members, decoder):
    grammar = treebank_members[2]
    one = Parser(grammar, decoder=decoder, marginals=True)
    three = Parser([grammar] * 3, decoder=decoder, marginals=True)
    for sentence in SENTENCES:
        ours, theirs = one.parse_one(sentence), three.parse_one(sentence)
        assert (ours.tree, ours.status) == (theirs.tree, theirs.status)
        assert theirs.log_probability == close_to(ours.log_probability, rel=1e-12)
        for wanted, found in zip(ours.marginals or [], theirs.marginals or [], strict=True):
            assert found[:3] == wanted[:3]
            assert found[3] == pytest.approx(wanted[3], rel=1e-12)


def test_the_order_of_the_members_does_not_matter(treebank_members):
    there, back = Parser(treebank_members), Parser(treebank_members[::-1])
    assert there.grammar == back.grammars[-1]
    for ours, theirs in zip(there.parse(SENTENCES), back.parse(SENTENCES), strict=True):
        assert (ours.tree, ours.status) == (theirs.tree, theirs.status)
        assert theirs.log_probability == close_to(ours.log_probability, rel=1e-9)


def test_pruning_changes_little(treebank_members):
    pruned, exact = Parser(treebank_members, marginals=True), Parser(treebank_members, threshold=0, marginals=True)
    for sentence in SENTENCES:
        ours, theirs = pruned.parse_one(sentence), exact.parse_one(sentence)
        assert ours.tree == theirs.tree
        assert ours.log_probability == close_to(theirs.log_probability, abs=1e-2)


def test_threads_and_memory_do_not_change_results(treebank_members):
    """Charts in memory that is used again and again, and charts of their own, hold the same numbers."""
    one, two = Parser(treebank_members, marginals=True), Parser(treebank_members, marginals=True, threads=2)
    assert list(one.parse(SENTENCES)) == list(two.parse(SENTENCES))
    ensemble, workspace = Ensemble(treebank_members, np.float32), Workspace()
    for sentence in SENTENCES[:6]:
        _, leaves = one._lookup.score(sentence)
        own = ensemble.chart(leaves, threshold=6e-6)
        shared = ensemble.chart(leaves, threshold=6e-6, workspace=workspace)
        assert isinstance(own, ProductChart)
        assert isinstance(shared, ProductChart)
        assert (len(own.members), len(shared.members)) == (3, 0)
        assert own.log_probability == shared.log_probability
        for name in ("node_posterior", "edge_posterior", "log_nodes", "log_edges"):
            np.testing.assert_array_equal(getattr(own, name), getattr(shared, name))
        tops = [chart.node_posterior[chart.forest.node_offsets[-2] :] for chart in own.members]
        assert all(np.isfinite(top).all() for top in tops)


def test_given_tags_and_phrases(treebank_members):
    parser = Parser(treebank_members)
    tree = made_up_treebank(1, 5)[0]
    tagged = list(zip(tree.words(), tree.tags(), strict=True))
    assert parser.parse_one(tagged).tree.tags() == tree.tags()
    assert parser.parse_one([("of", "NNP"), ("balild", None)]).tree.tags()[0] == "NNP"
    words = tree.words()
    free = parser.parse_one(words).tree
    start, end = next((i, j) for i in range(len(words)) for j in (i + 2,) if (i, j) not in _spans(free))
    try:
        held = parser.parse_one(words, phrases=[(start, end, None)]).tree
    except UsageError:
        return
    assert (start, end) in _spans(held)


def _spans(tree: Tree) -> set[tuple[int, int]]:
    return {(start, end) for start, end, _ in tree.spans()}


def two_readings(first: float, second: float, *, unknown: float = 0.1) -> TensorGrammar:
    """A grammar of `x x x` with two readings, to the left and to the right, and of `y y`, which may have no weight."""
    return TensorGrammar.from_parts(
        root={"S": 1.0},
        rules={("S", "L", "X"): first, ("S", "X", "R"): second, ("S", "Y", "Y"): unknown,
               ("L", "X", "X"): 1.0, ("R", "X", "X"): 1.0},
        words={("X", "x"): 1.0, ("Y", "y"): 1.0},
    )  # fmt: skip


def test_what_one_member_forbids_is_not_in_the_product():
    both, left, right = two_readings(0.6, 0.3), two_readings(0.9, 0.0), two_readings(0.0, 0.9)
    for threshold in (0.0, 6e-6):
        found = Parser([both, right], threshold=threshold).parse_one(["x"] * 3)
        assert [child.label for child in bare(both, found.tree).children] == ["X", "R"]
        # Where members exclude each other, the most agreeable reading of several is taken, not none.
        found = Parser([right, left, left], threshold=threshold).parse_one(["x"] * 3)
        assert found.status == "parsed"
        assert [child.label for child in bare(both, found.tree).children] == ["L", "X"]


def test_members_without_a_parse_are_left_out():
    able, unable = two_readings(0.6, 0.3), two_readings(0.7, 0.3, unknown=0.0)
    words = ["y", "y"]
    alone = Parser(able, threshold=0, marginals=True).parse_one(words)
    assert Parser(unable, threshold=0).chart(words) is None
    for members in ([able, unable], [unable, able]):
        parser = Parser(members, threshold=0, marginals=True)
        together = parser.parse_one(words)
        assert (together.tree, together.status) == (alone.tree, "parsed")
        assert together.marginals == alone.marginals
        # The mixture counts it: half of the time, the sentence cannot come up.
        assert together.log_probability == pytest.approx(alone.log_probability - math.log(2))
        assert parser.tree_log_probability(together.tree) == pytest.approx(together.log_probability)
        assert [score for _, score in parser.k_best(words, 3)] == pytest.approx([together.log_probability])
        assert parser.sample(words, 3, random_state=0) == [alone.tree] * 3
    nobody = Parser([unable, unable], threshold=0)
    assert nobody.chart(words) is None
    assert nobody.sample(words, 2) == []
    assert nobody.tree_log_probability(alone.tree) == -math.inf
    # The coarse grammar, which gives every rule a little, stands in.
    assert nobody.parse_one(words).status == "coarse"


@pytest.mark.parametrize("count", [1, 2])
def test_alternatives_of_a_coarse_parse(count):
    """They are scored by the coarse grammar that found them, not by the grammar that has none."""
    trees = [
        "(ROOT (S (NP (D the) (N dog)) (VP (V bark))))",
        "(ROOT (NP (NP (D a) (N cat)) (PP (P of) (NP (N wood)))))",
    ]
    transform = TreeTransform(vertical=3, horizontal=2, annotate_tags=True)
    grammar = PCFG().fit(Corpus.from_trees([Tree.parse(tree) for tree in trees], transform=transform))
    members = [random_states(grammar, states + 1, np.random.default_rng(states)) for states in range(count)]
    result = Parser(members, alternatives=2).parse_one(["the", "dog", "of", "wood", "bark"])
    assert result.status == "coarse"
    assert result.alternatives
    assert result.alternatives[0].tree == result.tree
    assert math.isfinite(result.alternatives[0].log_probability)
    assert Parser(members).k_best(result.words, 2) == result.alternatives
    assert Parser(members).k_best(result.words, 2, phrases=[(0, 2, "NP")])
    assert Parser(members).k_best(result.words, 2, phrases=[(0, 2, "NP"), (1, 3, "NP")]) == []


def test_real_valued_members():
    """Posteriors do not depend on the basis, so neither does their product; samples come from the others."""
    members, _, rng = make(11)
    words = ["w0", "w1", "w2", "w1"]
    turned = [
        grammar.conjugate([np.linalg.qr(rng.normal(size=(m, m)))[0] for m in grammar.states]) for grammar in members
    ]
    plain, real = Parser(members, threshold=0), Parser(turned, threshold=0)
    ours, theirs = plain.chart(words), real.chart(words)
    np.testing.assert_allclose(theirs.node_posterior, ours.node_posterior, rtol=1e-6, atol=1e-9)
    assert theirs.log_probability == close_to(ours.log_probability, rel=1e-6)
    assert real.parse_one(words).tree == plain.parse_one(words).tree
    with pytest.raises(GrammarError, match="probabilistic"):
        real.sample(words, 1)
    mixed = Parser([turned[1], members[0]], threshold=0)
    alone = Parser(members[0], threshold=0)
    possible = {tree for tree, _ in alone.k_best(words, 10_000)}
    assert len(drawn := mixed.sample(words, 20, random_state=1)) == 20
    assert possible >= set(drawn)


def test_viterbi_takes_one_grammar():
    members, words, _ = make(7)
    with pytest.raises(UsageError, match=f"viterbi takes one grammar, not {len(members)}; choose from max-rule, "):
        Parser(members, decoder="viterbi")
    assert Parser(members[:1], decoder="viterbi").parse_one(words).tree is not None
    chart = Parser(members).chart(["w0"])
    if chart is not None:
        with pytest.raises(UsageError, match="viterbi takes one grammar"):
            find_decoder("viterbi")(chart, ["w0"])


def test_what_a_parser_can_be_given(tmp_path):
    members, _, _ = make(8)
    members[0].save(tmp_path / "first")
    save_models(members[1:] * 2, tmp_path / "rest")
    for model, count in (
        (members[0], 1),
        (tmp_path / "first", 1),
        (str(tmp_path / "first"), 1),
        ([str(tmp_path / "first")], 1),
        (tuple(members), len(members)),
        (tmp_path / "rest", 2 * (len(members) - 1)),
        ([members[0], tmp_path / "rest", str(tmp_path / "first")], 2 * len(members)),
    ):
        parser = Parser(model)
        assert len(parser.grammars) == count
        assert parser.grammar is parser.grammars[0]
        assert isinstance(parser.chart(["w0"]), Chart if count == 1 else ProductChart | None)
    for model in ([], ()):
        with pytest.raises(UsageError, match="no model"):
            Parser(model)
    with pytest.raises(UsageError, match="grammar or the path of one, not 3"):
        Parser([members[0], 3])


def test_members_that_do_not_go_together(tmp_path):
    (first, *_), _, rng = make(9)
    lexicon, emissions = first.lexicon, first.emissions
    others = {
        "symbols": replace(first, symbols=["B0", *first.symbols[1:]]),
        "rules": replace(first, rules=first.rules[:, [0, 2, 1]]),
        "transforms": replace(first, transform=TreeTransform(vertical=3)),
        "normalisers": replace(first, normaliser=Normaliser(function_tags="all")),
        "words": replace(first, emissions=replace(emissions, lexicon=replace(lexicon, words=lexicon.words[::-1]))),
        "signatures": replace(
            first,
            emissions=replace(
                emissions,
                lexicon=Lexicon(
                    lexicon.words, lexicon.signatures, lexicon.parent, lexicon.word_signature,
                    SignatureModel(frozenset({"ing"})),
                ),
            ),
        ),
        "tags": replace(first, emissions=replace(emissions, tags=emissions.tags[::-1])),
    }  # fmt: skip
    for what, other in others.items():
        with pytest.raises(GrammarError, match=f"grammar 2 and grammar 1 cannot .* their {what} differ; use grammars"):
            Parser([first, other])
    other = random_grammar(rng, interminals=3)
    save_models([first, other], tmp_path / "bundle")
    first.save(tmp_path / "one")
    with pytest.raises(GrammarError, match=r"bundle \(grammar 2\) and .*bundle \(grammar 1\) cannot"):
        Parser(tmp_path / "bundle")
    with pytest.raises(GrammarError, match=r"bundle \(grammar 2\) and .*one cannot"):
        ParserModel.gather([tmp_path / "one", tmp_path / "bundle"])


def test_pruning_keeps_what_only_one_member_needs():
    """A root, a rule and a word that are next to impossible for the first member, but sure for the second."""
    first, second = two_readings(1 - 1e-9, 0.0, unknown=1e-9), two_readings(1e-9, 0.0, unknown=1 - 1e-9)
    for members in ([first, second], [second, first]):
        joint = Ensemble(members, np.float64).joint
        tag = joint.coarse.symbol_number("Y", preterminal=True)
        rule = joint.rule_numbers[joint.coarse.symbol_number("S"), tag, tag]
        assert joint.rule_weight[rule] == pytest.approx(0.5, rel=1e-3)
        assert joint.coarse.root.sum() == pytest.approx(1.0)
        merit = [joint.rule_weight[r] * joint.prior[joint.rule_parent[r]] for r in range(len(joint.rule_weight))]
        for pair in range(len(joint.pair_right)):
            inside = slice(joint.pair_rule_offsets[pair], joint.pair_rule_offsets[pair + 1])
            assert joint.pair_merit[pair] == max(merit[inside])
    leaf = Ensemble([first, second], np.float64).leaf([np.array([0.0, 0.4]), np.array([0.2, 0.0])])
    assert leaf.symbols.tolist() == [joint.coarse.n_interminals, joint.coarse.n_interminals + 1]
    assert leaf.values == pytest.approx([0.1, 0.2])


def test_the_mixture_is_that_of_members_that_count():
    both, nan, inf = [True, True], math.nan, math.inf
    assert mixture_log_probability([-3.0], [True]) == mixture_log_probability([-3.0], [False]) == -3.0
    assert mixture_log_probability([math.log(0.2), math.log(0.4), -inf], [True] * 3) == pytest.approx(math.log(0.2))
    assert mixture_log_probability([-1000.0, -1000.0], both) == pytest.approx(-1000.0)
    assert mixture_log_probability([-inf, -inf], both) == -inf
    for other in (nan, -inf, 5.0):
        assert mixture_log_probability([other, -1.0], [False, True]) == -1.0
    # Real-valued members stand in for those without a parse.
    assert mixture_log_probability([-2.0, -inf], [False, True]) == -2.0
    assert mixture_log_probability([nan, -2.0], [False, False]) == -2.0
    assert math.isnan(mixture_log_probability([nan, -inf], [False, True]))


@examples(40)
@given(seeds)
def test_real_valued_members_take_no_probability_away(seed):
    """Sentences and trees have the probability that the other members give them, in one call and with a chart."""
    members, words, rng = make(seed, longest=4)
    flip = replace(
        members[0], tensors=members[0].tensors * rng.choice([-1.0, 1.0], len(members[0].tensors)), probabilistic=False
    )
    alone, mixed = (Parser(grammars, threshold=0, alternatives=3) for grammars in (members, [*members, flip]))
    expected, found = alone.parse_one(words), mixed.parse_one(words)
    if expected.log_probability is None or expected.status != "parsed" or found.status != "parsed":
        return
    assert found.log_probability == pytest.approx(expected.log_probability, rel=1e-9)
    assert Parser([*members, flip], threshold=0).parse_one(words).log_probability == pytest.approx(
        found.log_probability
    )
    assert [one.log_probability for one in found.alternatives] == pytest.approx(
        [one.log_probability for one in expected.alternatives], rel=1e-9
    )
    assert mixed.tree_log_probability(found.tree) == pytest.approx(alone.tree_log_probability(found.tree))


def test_flat_trees_have_the_tags_that_are_most_frequent_in_all_members():
    one = PCFG().fit(Corpus.from_trees(made_up_treebank(20)))
    often = one.occupancy.copy()
    first = one.state_offsets[one.n_interminals]
    rarest = int(first + np.argmin(often[first:]))
    often[rarest] = 10 * often.sum()
    members = [one, replace(one, occupancy=often)]
    expected = [one.symbols.tags[np.argmax(counts[first:]) + one.n_interminals] for counts in (one.occupancy, often)]
    assert expected[0] != expected[1]
    for grammars, tag in ((members[:1], expected[0]), (members, expected[1]), (members[::-1], expected[1])):
        ensemble = Ensemble(grammars, np.float64)
        nothing = ensemble.leaf([np.zeros(len(one.root) - first)] * len(grammars))
        assert str(ensemble.flat_tree(["what"], [nothing])) == f"(ROOT ({tag} what))"
