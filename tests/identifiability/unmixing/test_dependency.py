"""Linear equations for dependency models."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from helpers.enumerate_topologies import projective_trees
from sapwood.identifiability.mixing import argument_paths
from sapwood.identifiability.models.zoo import DepIModel, make_model
from sapwood.identifiability.moments import Population, exact_joint
from sapwood.identifiability.unmixing.dependency import solve_arguments


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_every_tree_is_there_once(length: int) -> None:
    trees, words, pairs = argument_paths(length, ("l", "r"))
    assert trees == len(projective_trees(length))
    assert all(sum(row.values()) == trees for row in [*words, *pairs.values()])
    wanted: Counter[int] = Counter()
    for heads in projective_trees(length):
        depth, above = 0, heads[-1]
        while above >= 0:
            depth, above = depth + 1, heads[above]
        wanted[depth] += 1
    # The last word can only be to the right of what is above it.
    assert words[-1] == Counter({("r",) * depth: count for depth, count in wanted.items()})


def test_moments_are_mixtures_of_products() -> None:
    model = make_model("dep-i", 3)
    p = model.random(np.random.default_rng(0))

    def along(path: tuple[str, ...]) -> np.ndarray:
        found = np.eye(3)
        for step in path:
            found = p[step] @ found
        return found

    trees, words, pairs = argument_paths(4, ("Al", "Ar"))
    joint = exact_joint(model, p, 4, np.ones(3))
    for place, row in enumerate(words):
        mean = sum(count * along(path) @ p["pi"] for path, count in row.items()) / trees
        np.testing.assert_allclose(mean, joint((place,), None), atol=1e-14)
    for place, row in pairs.items():
        moment = sum(
            count * along(up) * (along(above) @ p["pi"]) @ along(down).T for (above, up, down), count in row.items()
        )
        np.testing.assert_allclose(moment / trees, joint(place, None), atol=1e-14)


@pytest.mark.parametrize(
    ("name", "words", "lengths", "determined"),
    [
        ("dep-ie", 4, [3, 4], True),
        ("dep-ie", 6, [2, 3, 4], True),
        ("dep-ie", 3, [4, 5], True),
        ("dep-ie", 4, [2, 3], False),
        ("dep-ie", 4, [4], False),
        ("dep-i", 2, [1, 2, 3], True),
        ("dep-i", 3, [1, 2, 3, 4], True),
        ("dep-i", 3, [1, 2, 3], False),
        ("dep-i", 3, [2, 3, 4], False),
    ],
)
def test_which_lengths_give_the_parameters_back(name: str, words: int, lengths: list[int], determined: bool) -> None:
    model = make_model(name, words)
    assert isinstance(model, DepIModel)
    truth = model.random(np.random.default_rng(0))
    found = solve_arguments(model, Population(model, truth, lengths), lengths)
    assert (found is not None) == determined
    if found is not None:
        for block, array in truth.items():
            np.testing.assert_allclose(found[block], array, atol=1e-8)
