"""Mixing matrices, against all trees, and as what they are for: moments are mixtures of compound parameters."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from helpers.enumerate_topologies import Nested, binary_trees, projective_trees
from sapwood.errors import UsageError
from sapwood.identifiability.mixing import Mixing, constituency_mixing, dependency_mixing
from sapwood.identifiability.models.zoo import make_model
from sapwood.identifiability.moments import exact_joint


def path(tree: Nested, leaf: int) -> list[int]:
    """Return the turns from the root to a leaf."""
    if isinstance(tree, int):
        return []
    here = 0 if leaf in leaves(tree[0]) else 1
    return [here, *path(tree[here], leaf)]


def leaves(tree: Nested) -> set[int]:
    return {tree} if isinstance(tree, int) else leaves(tree[0]) | leaves(tree[1])


def shared(*paths: list[int]) -> int:
    """Return how long paths go the same way."""
    steps = 0
    while all(len(each) > steps for each in paths) and len({each[steps] for each in paths}) == 1:
        steps += 1
    return steps


def constituents_by_hand(length: int) -> dict[tuple[int, ...], Counter[tuple[int, ...]]]:
    found: dict[tuple[int, ...], Counter[tuple[int, ...]]] = {}
    for tree in binary_trees(0, length):
        for i, j in combinations(range(length), 2):
            for other in set(range(length)) - {i, j}:
                paths = [path(tree, leaf) for leaf in (i, j, other)]
                above = shared(*paths)
                pairs = {2: (0, 1), 1: (0, 2), 0: (1, 2)}
                lone = next(one for one, pair in pairs.items() if shared(*(paths[x] for x in pair)) > above)
                first, second = pairs[lone]
                low = shared(paths[first], paths[second])
                depths = [len(paths[lone]) - above, len(paths[first]) - low, len(paths[second]) - low]
                key = (lone, above, low - above, *depths)
                found.setdefault((length, i, j, other), Counter())[key] += 1
    return found


def dependencies_by_hand(length: int) -> dict[tuple[int, ...], Counter[tuple[int, ...]]]:
    found: dict[tuple[int, ...], Counter[tuple[int, ...]]] = {}
    for heads in projective_trees(length):
        ways = []
        for word in range(length):
            way, above = [word], heads[word]
            while above >= 0:
                way.append(above)
                above = heads[above]
            ways.append(way)
        for i, j in combinations(range(length), 2):
            common = next(word for word in ways[i] if word in ways[j])
            key = (ways[i].index(common), ways[j].index(common))
            found.setdefault((length, i, j), Counter())[key] += 1
    return found


@pytest.mark.parametrize(
    ("make", "by_hand", "trees", "lengths"),
    [
        (constituency_mixing, constituents_by_hand, {3: 2, 4: 5, 5: 14, 6: 42}, [3, 4, 5, 6]),
        (dependency_mixing, dependencies_by_hand, {2: 2, 3: 7, 4: 30, 5: 143}, [2, 3, 4, 5]),
    ],
)
def test_every_tree_is_counted(make, by_hand, trees: dict[int, int], lengths: list[int]) -> None:
    mixing = make(lengths)
    wanted = {observation: row for length in lengths for observation, row in by_hand(length).items()}
    assert set(mixing.observations) == set(wanted)
    assert set(mixing.compounds) == {compound for row in wanted.values() for compound in row}
    for observation, row in zip(mixing.observations, mixing.matrix, strict=True):
        for compound, value in zip(mixing.compounds, row, strict=True):
            count = wanted[observation][compound]
            assert value == pytest.approx(count / trees[observation[0]], abs=1e-15)


@pytest.mark.parametrize("make", [constituency_mixing, dependency_mixing])
@pytest.mark.parametrize("lengths", [[4], [3, 4], [4, 5]])
def test_only_what_is_determined_has_weights(make, lengths: list[int]) -> None:
    mixing = make(lengths)
    known = mixing.determined()
    assert len(known) < len(mixing.compounds)
    for compound in mixing.compounds:
        if compound in known:
            (weights,) = mixing.weights([{compound: 1.0}])
            expected = [float(compound == each) for each in mixing.compounds]
            assert weights @ mixing.matrix == pytest.approx(expected, abs=1e-8)
        else:
            with pytest.raises(UsageError, match="do not determine what is wanted; add other lengths"):
                mixing.weights([{compound: 1.0}])


def test_two_words_do_not_tell_which_is_the_head() -> None:
    mixing = dependency_mixing([2])
    assert mixing.weights([{(0, 1): 1.0, (1, 0): 1.0}]) @ mixing.matrix == pytest.approx(np.ones((1, 2)))
    with pytest.raises(UsageError, match="do not determine what is wanted; add other lengths"):
        mixing.weights([{(0, 1): 1.0, (1, 0): -1.0}])


def test_the_size_that_the_paper_gives() -> None:
    assert constituency_mixing(range(3, 11)).matrix.shape == (990, 2376)


def test_moments_of_constituents_are_mixtures() -> None:
    rng = np.random.default_rng(0)
    model = make_model("pcfg-ie", 3, 2)
    p, eta = model.random(rng), rng.normal(size=3)
    power = [p["O"] @ np.linalg.matrix_power(p["T"], n) for n in range(8)]

    def compound(key: tuple[int, ...]) -> np.ndarray:
        lone, above, between, alone, first, second = key
        top = np.linalg.matrix_power(p["T"], above) @ p["pi"]
        down = np.linalg.matrix_power(p["T"], between)
        # The words i, j, l in their order: one of them hangs from the upper node.
        if lone == 2:
            return power[first] * (down @ (top * (eta @ power[alone]))) @ power[second].T
        other = power[alone] * top @ down.T * (eta @ power[second]) @ power[first].T
        return other if lone == 0 else other.T

    mixing = constituency_mixing([3, 5])
    values = np.array([compound(key) for key in mixing.compounds])
    for (length, i, j, other), row in zip(mixing.observations, mixing.matrix, strict=True):
        moment = exact_joint(model, p, length, eta)((i, j), other)
        np.testing.assert_allclose(np.tensordot(row, values, 1), moment, rtol=0, atol=1e-14)


def test_moments_of_dependencies_are_mixtures() -> None:
    model = make_model("dep-ies", 3)
    p = model.random(np.random.default_rng(0))
    pi = model.stationary(p["A"])
    mixing = dependency_mixing([2, 3, 4])
    values = np.array(
        [
            np.linalg.matrix_power(p["A"], up) * pi @ np.linalg.matrix_power(p["A"], down).T
            for up, down in mixing.compounds
        ]
    )
    for (length, i, j), row in zip(mixing.observations, mixing.matrix, strict=True):
        moment = exact_joint(model, p, length, np.ones(3))((i, j), None)
        np.testing.assert_allclose(np.tensordot(row, values, 1), moment, rtol=0, atol=1e-14)


def test_mixing_matrix_of_three_words() -> None:
    """Section 5.2: each moment is half of one, half of another compound parameter."""
    mixing = constituency_mixing([3])
    assert mixing.compounds == ((0, 0, 1, 1, 1, 1), (1, 0, 1, 1, 1, 1), (2, 0, 1, 1, 1, 1))
    rows = dict(zip(mixing.observations, mixing.matrix.tolist(), strict=True))
    assert rows == {(3, 0, 1, 2): [0.5, 0, 0.5], (3, 0, 2, 1): [0.5, 0.5, 0], (3, 1, 2, 0): [0, 0.5, 0.5]}


class TestWeights:
    def test_without_precisions_they_are_rows_of_the_pseudo_inverse(self) -> None:
        mixing = dependency_mixing(range(2, 7))
        wanted = {(1, 0): 1.0, (2, 0): 0.5}
        inverse = np.linalg.pinv(mixing.matrix)
        row = inverse[mixing.compounds.index((1, 0))] + 0.5 * inverse[mixing.compounds.index((2, 0))]
        np.testing.assert_allclose(mixing.weights([wanted])[0], row, rtol=0, atol=1e-8)

    def test_what_is_not_in_the_row_space(self) -> None:
        """Section 5.3: lengths 2 and 3 give A^2 + A, but neither alone; lengths up to 5 give both."""
        few = dependency_mixing([2, 3])
        assert few.weights([{(1, 0): 1.0, (2, 0): 1.0}]).shape == (1, 4)
        for key in ((1, 0), (2, 0)):
            with pytest.raises(UsageError, match="add other lengths"):
                few.weights([{key: 1.0}])
        assert dependency_mixing([2, 3, 4, 5]).weights([{(1, 0): 1.0}, {(2, 0): 1.0}]).shape == (2, 20)
        with pytest.raises(UsageError, match="no tree"):
            few.weights([{(3, 0): 1.0}])

    def test_better_observations_count_more(self) -> None:
        mixing = Mixing(((1,), (2,)), ((0,),), np.ones((2, 1)))
        np.testing.assert_allclose(mixing.weights([{(0,): 1.0}]), [[0.5, 0.5]])
        np.testing.assert_allclose(mixing.weights([{(0,): 1.0}], np.array([3.0, 1.0])), [[0.75, 0.25]])

    @pytest.mark.parametrize(
        ("lengths", "depths"),
        [
            ([3], [1]),
            ([4], []),
            ([5], []),
            ([4, 5], [3]),
            ([3, 4, 5], [1, 3]),
            ([5, 6, 7], [5]),
            (range(3, 8), [1, 3, 5]),
        ],
    )
    def test_what_longer_sentences_determine(self, lengths: list[int], depths: list[int]) -> None:
        """With odd numbers of steps between the branchings, and no other steps: three compounds for each number."""
        keys = constituency_mixing(lengths).with_transposes().determined()
        assert sorted(keys) == sorted((lone, 0, depth, 1, 1, 1) for lone in range(3) for depth in depths)

    def test_longer_sentences_have_no_weight_in_compounds_of_length_three(self) -> None:
        mixing = constituency_mixing(range(3, 8))
        weights = mixing.weights([{(0, 0, 1, 1, 1, 1): 1.0}])[0]
        longer = [length > 3 for length, *_ in mixing.observations]
        np.testing.assert_allclose(weights[longer], 0, atol=1e-12)
        assert np.abs(weights).max() > 0.9

    @pytest.mark.parametrize("mixing", [constituency_mixing([3, 4]), dependency_mixing([2, 3, 4])])
    def test_transposes(self, mixing: Mixing) -> None:
        both = mixing.with_transposes()
        assert len(both.observations) == len(both.matrix) == 2 * len(mixing.observations)
        twice = both.with_transposes().matrix[len(mixing.observations) * 3 :]
        np.testing.assert_array_equal(twice, mixing.matrix)
