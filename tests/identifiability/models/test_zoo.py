"""Parsing models: likelihoods, posteriors and samples, against enumeration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from helpers import shape_checks
from helpers.enumerate_topologies import binary_trees, joint, projective_trees, sentences_of
from sapwood.errors import UsageError
from sapwood.identifiability.algebra.autodiff import Tensor, constant
from sapwood.identifiability.algebra.fields import PrimeField
from sapwood.identifiability.algebra.simplices import Block, from_chart, to_tensors
from sapwood.identifiability.models.base import ConstituencyModel, ConstituencyWeights, different
from sapwood.identifiability.models.inside import IndependentChildren
from sapwood.identifiability.models.posterior import best_projective, is_projective
from sapwood.identifiability.models.zoo import MODELS, make_model

EXACT = 1e-12
every_model = pytest.mark.parametrize("name", MODELS)


def small(name: str, words: int = 3, states: int = 2):
    return make_model(name, words, None if name.startswith("dep") else states)


@every_model
class TestProbabilities:
    @pytest.mark.parametrize("length", [1, 2, 4])
    def test_likelihood(self, name: str, length: int) -> None:
        model = small(name)
        parameters = model.random(np.random.default_rng(length))
        wanted = sum(joint(name, parameters, length).values())
        sentences = list(sentences_of(3, length))
        found = np.exp(model.log_likelihood(parameters, sentences))
        np.testing.assert_allclose(found, wanted.reshape(-1), rtol=1e-11)
        assert found.sum() == pytest.approx(1, abs=EXACT)

    def test_lengths_together(self, name: str) -> None:
        model = small(name)
        parameters = model.random(np.random.default_rng(0))
        sentences = [[0, 1, 2], [2], [1, 1, 1], [0, 2]]
        found = model.log_likelihood(parameters, sentences)
        one_by_one = [model.log_likelihood(parameters, [sentence])[0] for sentence in sentences]
        np.testing.assert_allclose(found, one_by_one, rtol=1e-14)

    def test_long_sentences(self, name: str) -> None:
        model = small(name, words=40)
        found = model.log_likelihood(model.random(np.random.default_rng(0)), [list(range(40)) * 2])
        assert -800 < found[0] < -100

    def test_posterior(self, name: str) -> None:
        model, sentence = small(name), [2, 0, 1, 0]
        parameters = model.random(np.random.default_rng(1))
        by_tree = {tree: float(table[tuple(sentence)]) for tree, table in joint(name, parameters, 4).items()}
        total = sum(by_tree.values())
        posterior = model.posterior(parameters, sentence)
        assert posterior.log_likelihood == pytest.approx(np.log(total), abs=1e-11)
        for tree, probability in by_tree.items():
            assert posterior.probability(tree) == pytest.approx(probability / total, abs=EXACT)
        if name.startswith("dep"):
            wanted, roots = np.zeros((4, 4)), np.zeros(4)
            for heads, probability in by_tree.items():
                for word, head in enumerate(heads):
                    if head < 0:
                        roots[word] += probability / total
                    else:
                        wanted[head, word] += probability / total
            np.testing.assert_allclose(posterior.edges, wanted, rtol=0, atol=EXACT)
            np.testing.assert_allclose(posterior.roots, roots, rtol=0, atol=EXACT)

            def expected(heads: tuple[int, ...]) -> float:
                return sum(roots[m] if h < 0 else wanted[h, m] for m, h in enumerate(heads))
        else:
            wanted = np.zeros((5, 5))
            for spans, probability in by_tree.items():
                for i, j in [*spans, *((i, i + 1) for i in range(4))]:
                    wanted[i, j] += probability / total
            np.testing.assert_allclose(posterior.spans, wanted, rtol=0, atol=EXACT)

            def expected(spans: tuple[tuple[int, int], ...]) -> float:
                return sum(wanted[i, j] for i, j in spans)

        best = posterior.best()
        assert best in by_tree
        assert expected(best) == pytest.approx(max(expected(tree) for tree in by_tree))

    def test_posterior_of_one_word(self, name: str) -> None:
        model = small(name)
        parameters = model.random(np.random.default_rng(1))
        posterior = model.posterior(parameters, [2])
        assert posterior.log_likelihood == pytest.approx(model.log_likelihood(parameters, [[2]])[0])
        if name.startswith("dep"):
            assert posterior.roots == pytest.approx([1])
            assert posterior.best() == (-1,)
        else:
            assert posterior.spans[0, 1] == pytest.approx(1)
            assert posterior.best() == ()

    def test_trees_are_counted(self, name: str) -> None:
        model = small(name)
        for length in range(1, 6):
            trees = projective_trees(length) if name.startswith("dep") else binary_trees(0, length)
            assert model.trees(length) == len(trees)

    def test_samples_have_the_model_s_distribution(self, name: str) -> None:
        """Sentences together with their trees: 40,000 draws, all frequencies within five standard errors."""
        model, length, count = small(name, words=2), 4, 40_000
        parameters = model.random(np.random.default_rng(3))
        sample = model.sample(parameters, length, count, np.random.default_rng(4))
        drawn = Counter((sample.topology(i), tuple(sample.words[i])) for i in range(count))
        wanted = {
            (tree, sentence): table[sentence]
            for tree, table in joint(name, parameters, length).items()
            for sentence in sentences_of(2, length)
        }
        assert set(drawn) <= set(wanted)
        for key, probability in wanted.items():
            error = np.sqrt(probability * (1 - probability) / count)
            assert abs(drawn[key] / count - probability) < 5 * error + 1e-9

    def test_samples_come_from_the_seed(self, name: str) -> None:
        model = small(name)
        parameters = model.random(np.random.default_rng(3))
        one, other, third = (model.sample(parameters, 5, 50, np.random.default_rng(seed)).words for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, other)
        assert (one != third).any()

    def test_samples_of_one_word(self, name: str) -> None:
        model = small(name)
        sample = model.sample(model.random(np.random.default_rng(3)), 1, 10, np.random.default_rng(0))
        assert sample.words.shape == (10, 1)

    def test_chart(self, name: str) -> None:
        model = small(name)
        parameters = model.random(np.random.default_rng(5))
        chart = model.chart(parameters)
        assert chart.shape == (model.n_parameters,)
        for block, array in model.parameters(chart).items():
            np.testing.assert_allclose(array, parameters[block], rtol=0, atol=1e-15)
        with pytest.raises(UsageError, match="free coordinates"):
            model.parameters(chart[:-1])


def test_states_of_sampled_trees() -> None:
    """Children's states given their parent's: by the rules."""
    model = make_model("pcfg", 2, 2)
    parameters = model.random(np.random.default_rng(0))
    sample = model.sample(parameters, 3, 30_000, np.random.default_rng(1))
    counts = np.zeros((4, 2))
    for i in range(0, 30_000, 3):
        tree = sample.tree(i)
        for node in tree.nodes():
            if node.word is None:
                left, right = (int(child.label) for child in node.children)
                counts[2 * left + right, int(node.label)] += 1
    np.testing.assert_allclose(counts / counts.sum(0), parameters["B"], atol=0.02)
    assert sample.tree(0).words() == [str(word) for word in sample.words[0]]


@pytest.mark.parametrize(("words", "length"), [(3, 2), (40, 20)])
def test_different_sentences(words: int, length: int) -> None:
    rows = np.random.default_rng(0).integers(0, words, (30, length))
    rows[10:20] = rows[:10]
    found, counts = different(rows, words)
    wanted = Counter(map(tuple, rows.tolist()))
    assert dict(zip(map(tuple, found.tolist()), counts.tolist(), strict=True)) == wanted


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("pcfg", 35), ("pcfg-i", 23), ("pcfg-ie", 17), ("dep-i", 27), ("dep-ie", 15), ("dep-ies", 12), ("pcfg-ies", 20)],
)
def test_numbers_of_parameters(name: str, parameters: int) -> None:
    assert small(name, 4, 3).n_parameters == parameters


def test_stationary() -> None:
    model = make_model("dep-ies", 4)
    arguments = model.random(np.random.default_rng(0))["A"]
    pi = model.stationary(arguments)
    np.testing.assert_allclose(arguments @ pi, pi, rtol=0, atol=EXACT)
    assert pi.sum() == pytest.approx(1)


def test_projective_trees() -> None:
    from itertools import product

    for length in range(1, 5):
        wanted = set(projective_trees(length))
        for heads in product(range(-1, length), repeat=length):
            assert is_projective(heads) == (heads in wanted)


def test_best_projective_tree() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        edges, roots = rng.normal(size=(5, 5)), rng.normal(size=5)

        def score(heads: tuple[int, ...], edges: np.ndarray = edges, roots: np.ndarray = roots) -> float:
            return sum(roots[m] if h < 0 else edges[h, m] for m, h in enumerate(heads))

        assert score(best_projective(edges, roots)) == pytest.approx(max(map(score, projective_trees(5))))


class Backwards(ConstituencyModel):
    """A model of one's own: the right child is like its parent's left sibling would be."""

    name = "backwards"

    @property
    def blocks(self) -> tuple[Block, ...]:
        return Block("pi", self.states), Block("T", self.states, self.states), Block("O", self.words, self.states)

    def weights(self, parameters: Mapping[str, Tensor]) -> ConstituencyWeights:
        rule = IndependentChildren(parameters["T"], parameters["T"] @ parameters["T"])
        return ConstituencyWeights(parameters["pi"], rule, parameters["O"])


def test_a_model_is_one_small_class() -> None:
    mine, known = Backwards(3, 2), make_model("pcfg-i", 3, 2)
    parameters = mine.random(np.random.default_rng(0))
    twice = parameters["T"] @ parameters["T"]
    same = {"pi": parameters["pi"], "T1": parameters["T"], "T2": twice, "O": parameters["O"]}
    sentences = list(sentences_of(3, 3))
    np.testing.assert_allclose(mine.log_likelihood(parameters, sentences), known.log_likelihood(same, sentences))


class TestBadArguments:
    def test_models(self) -> None:
        for call, message in [
            (lambda: make_model("pcfgs", 3, 2), "the models are pcfg, "),
            (lambda: make_model("pcfg", 3), "has hidden states"),
            (lambda: make_model("pcfg", 3, 0), "at least 1"),
            (lambda: make_model("dep-i", 3, 2), "no hidden states"),
            (lambda: make_model("dep-i", 0), "at least one word"),
        ]:
            with pytest.raises(UsageError, match=message):
                call()

    @pytest.mark.parametrize("sentences", [[[0, 3]], [[]], [[-1]], [[0.5]]])
    def test_sentences(self, sentences: list[list[int]]) -> None:
        model = small("dep-ie")
        with pytest.raises(UsageError), shape_checks.switched_off():
            model.log_likelihood(model.random(np.random.default_rng(0)), sentences)

    def test_trees(self) -> None:
        rng = np.random.default_rng(0)
        model = small("dep-ie")
        posterior = model.posterior(model.random(rng), [0, 1, 2])
        for heads in ([-1, -1, 0], [1, 0, -1], [-1, 0], [-1, 0, 3]):
            with pytest.raises(UsageError, match="projective"):
                posterior.probability(heads)
        model = small("pcfg")
        posterior = model.posterior(model.random(rng), [0, 1, 2])
        for spans in ([(0, 3)], [(0, 3), (0, 1)], [(0, 3), (1, 4)]):
            with pytest.raises(UsageError, match="spans"):
                posterior.probability(spans)

    def test_impossible_sentences(self) -> None:
        model = make_model("dep-ie", 2)
        parameters = {"pi": np.array([1.0, 0.0]), "A": np.eye(2)}
        assert model.log_likelihood(parameters, [[0, 1]])[0] == -np.inf
        with pytest.raises(UsageError, match="probability zero"):
            model.posterior(parameters, [0, 1])

    def test_lengths(self) -> None:
        for name in ("pcfg", "dep-i"):
            model = small(name)
            with pytest.raises(UsageError, match="length must be"):
                model.sample(model.random(np.random.default_rng(0)), 0, 1, np.random.default_rng(0))


@pytest.mark.parametrize(("name", "choices"), [("pcfg-i", 11), ("pcfg-ie", 11), ("dep-i", 4), ("dep-ie", 4)])
def test_moments_are_polynomials_of_the_degree_that_is_said(name: str, choices: int) -> None:
    """Along a line their differences vanish beyond it: a root, two children of three nodes, and four words."""
    field, rng = PrimeField(), np.random.default_rng(0)
    model = make_model(name, 3, None if name.startswith("dep") else 2)
    assert model.degree(4) == choices
    begin, way = field.random(rng, (2, model.n_parameters))
    weights = constant(field, field.random(rng, (1, 1, 4, 3)))
    values = []
    for step in range(choices + 2):
        parameters = from_chart(model.blocks, field.reduce(begin + step * way), field)
        values.append(model.expectation(to_tensors(model.blocks, parameters, field), weights).value[0])
    differences = np.array(values)
    for _ in range(choices):
        differences = field.reduce(differences[1:] - differences[:-1])
    assert differences[0].all()
    assert not field.reduce(differences[1:] - differences[:-1]).any()
