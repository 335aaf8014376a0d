"""What a training run learns: ensembles of several methods, and what is chosen where nobody says anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_helpers import Interrupted, PullThePlug

from made_up import made_up_treebank
from sapwood import Parser, train
from sapwood.errors import UsageError
from sapwood.grammar.bundle import load_models
from sapwood.learn import Cluster, SplitMerge
from sapwood.learn.layer import LayerLearner
from sapwood.learn.network import NetworkLearner
from sapwood.learn.recipe import FEW, TINY, make_recipe, recommended
from sapwood.learn.run import Trained

QUICK = {"states": 2, "support": 5, "iterations": 2}
MEMBERS = ["em", "cluster", "em"]


@pytest.fixture(scope="module")
def trees():
    return Cluster.prepare(made_up_treebank(80))


def bytes_of(trained: Trained, path: Path) -> bytes:
    trained.save(path)
    return path.read_bytes()


def test_members_of_several_methods_have_seeds_of_their_own():
    recipe = make_recipe(ensemble=MEMBERS, states=3, random_state=5)
    assert [one.method for one in recipe.learners] == MEMBERS
    assert recipe.method == "em, cluster"
    assert all(one.settings()["states"] == 3 for one in recipe.learners)
    seeds = [one.settings()["random_state"] for one in recipe.learners]
    assert seeds[:2] == [5, 5]  # as they would be alone
    assert seeds[2] != 5
    assert recipe.settings()["members"][1]["method"] == "cluster"


def test_settings_go_to_those_who_have_them():
    recipe = make_recipe(ensemble=["split-merge", Cluster(states=5)], cycles=2)
    assert recipe.learners == (SplitMerge(cycles=2), Cluster(states=5))
    with pytest.raises(UsageError, match="no member of the ensemble has a setting 'cycles'"):
        make_recipe(ensemble=MEMBERS, cycles=3)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(UsageError, match="names its methods itself"):
        make_recipe("em", ensemble=["em"])
    with pytest.raises(UsageError, match="at least one member"):
        make_recipe(ensemble=[])
    with pytest.raises(UsageError, match="same grammar from every seed"):
        make_recipe(ensemble=["pcfg", "pcfg"])


def test_mixed_ensembles_parse_and_go_on_to_the_same_bytes(trees, tmp_path):
    whole = train(trees, ensemble=MEMBERS, **QUICK)
    assert [grammar.info["method"] for grammar in whole.grammars] == MEMBERS
    assert Parser(whole.grammars).parse_one(made_up_treebank(1)[0].words()).tree is not None
    alone = train(trees, method="cluster", **QUICK)
    assert bytes_of(Trained([whole.grammars[1]]), tmp_path / "a") == bytes_of(alone, tmp_path / "b")
    output = tmp_path / "m"
    for plug in (3, 6):  # in one member, and in another
        with pytest.raises(Interrupted):
            train(trees, ensemble=MEMBERS, output=output, resume=plug > 3, progress=PullThePlug(plug), **QUICK)
    train(trees, ensemble=MEMBERS, output=output, resume=True, **QUICK)
    assert output.read_bytes() == bytes_of(whole, tmp_path / "whole")


def test_another_mixture_is_not_gone_on_with(trees, tmp_path):
    with pytest.raises(Interrupted):
        train(trees, ensemble=MEMBERS, output=tmp_path / "m", progress=PullThePlug(6), **QUICK)
    with pytest.raises(UsageError, match="other settings or trees"):
        train(trees, ensemble=["cluster", "em"], output=tmp_path / "m", resume=True, **QUICK)


def test_what_is_recommended_depends_on_the_number_of_trees():
    few, many = recommended(FEW - 1), recommended(FEW)
    assert few.method == "pivot+em, spectral, cluster"
    assert many.learners == (SplitMerge(),)
    for recipe in (few, many):
        assert recipe.layer == LayerLearner()
        assert recipe.network == NetworkLearner()
    tiny = recommended(TINY - 1)
    assert (tiny.layer, tiny.network) == (None, None)
    # Trees are prepared before their number is known.
    assert len({recommended(n).first.preparation for n in (0, TINY, FEW)}) == 1


def test_parts_of_what_is_recommended_can_be_left_out():
    recipe = make_recipe(n_trees=FEW, layer=False, cycles=2)
    assert recipe.learners == (SplitMerge(cycles=2),)
    assert recipe.layer is None
    assert recipe.network == NetworkLearner()
    own = LayerLearner(folds=2)
    assert make_recipe(n_trees=FEW, layer=own, network=False).layer is own
    assert make_recipe("em").layer is None
    assert make_recipe("em", layer=True).layer == LayerLearner()


@pytest.mark.parametrize("n", [1, 6, TINY])
def test_any_number_of_trees_will_do(n):
    """Nothing that is recommended needs more trees than it is recommended for."""
    trained = train(
        made_up_treebank(n), network=NetworkLearner(epochs=1), layer=LayerLearner(epochs=1) if n >= TINY else None
    )
    assert Parser(trained.grammars).parse_one(made_up_treebank(1)[0].words()).tree is not None


def test_what_is_recommended_is_saved_as_one_file(tmp_path):
    trees = made_up_treebank(TINY)
    trained = train(trees, network=NetworkLearner(epochs=1), output=tmp_path / "m")
    found = load_models(tmp_path / "m")
    assert found == trained.grammars
    assert found[0].network is not None
    assert found[0].layer is not None


def test_settings_of_what_is_not_recommended_are_refused():
    with pytest.raises(UsageError, match=r"cycles: is no setting of what is learned from 60 trees if no method is"):
        make_recipe(n_trees=60, cycles=2)
    assert make_recipe(cycles=2).learners == (SplitMerge(cycles=2),)  # of how many trees is not known yet
