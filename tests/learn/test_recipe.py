"""What a training run learns: ensembles of several methods, and what is chosen where nobody says anything."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from training_helpers import Interrupted, Notes, PullThePlug

from made_up import made_up_treebank
from sapwood import Parser, train
from sapwood.errors import UsageError
from sapwood.grammar.bundle import load_models
from sapwood.learn import EM, Cluster, PivotEM, Spectral, SplitMerge
from sapwood.learn import recipe as module
from sapwood.learn.layer import LayerLearner
from sapwood.learn.network import NetworkLearner
from sapwood.learn.recipe import FEW, LARGE, TINY, make_recipe, recommended, usual_network
from sapwood.learn.run import Trained, TrainingRun
from sapwood.run.log import read_log

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


@pytest.mark.parametrize("ensemble", [None, 1, 2, 5])
def test_members_of_one_method_differ_by_their_seeds_alone(ensemble):
    members = make_recipe("em", ensemble=ensemble, states=3).learners
    assert len(members) == (ensemble or 1)
    assert {one.replace(random_state=0) for one in members} == {EM(states=3)}
    assert len({one.random_state for one in members}) == len(members)


def test_what_makes_no_sense_is_refused():
    for number in (0, -1):
        with pytest.raises(UsageError, match=f"ensemble must be at least 1, not {number}"):
            make_recipe("em", ensemble=number)
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


def test_what_is_said_of_a_run_names_methods_and_says_nothing_of_folds_but_their_number(trees):
    progress = Notes()
    train(
        trees,
        ensemble=[EM(states=1, iterations=1), Cluster(states=40, support=30)],
        layer=LayerLearner(folds=2, epochs=1),
        progress=progress,
    )
    (few,) = (note for note in progress.texts if "support only" in note)
    folds = [f"for the layer: trees without fold {fold} of 2" for fold in (1, 2)]
    assert progress.texts == ["grammar 1 of 2: em", "grammar 2 of 2: cluster", few, *folds]


def without_times(path: Path) -> list[dict[str, object]]:
    return [{name: value for name, value in line.items() if name != "seconds"} for line in read_log(path)]


@pytest.mark.parametrize("plug", [1, 4, 5, 8])
def test_the_log_of_an_ensemble_shows_no_interruption(trees, tmp_path, plug):
    """Whichever member it hits: steps count on from the members that are finished, and no line is lost or doubled."""
    run = partial(train, trees, ensemble=MEMBERS, **QUICK)
    run(log=tmp_path / "whole")
    expected = without_times(tmp_path / "whole")
    steps = [(line["member"], line["step"]) for line in expected if line["event"] == "iteration"]
    assert steps == [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)]
    kept = {"output": tmp_path / "m", "log": tmp_path / "log"}
    with pytest.raises(Interrupted):
        run(**kept, progress=PullThePlug(plug))
    run(**kept, resume=True)
    assert without_times(tmp_path / "log") == expected


def test_another_mixture_is_not_gone_on_with(trees, tmp_path):
    with pytest.raises(Interrupted):
        train(trees, ensemble=MEMBERS, output=tmp_path / "m", progress=PullThePlug(6), **QUICK)
    with pytest.raises(UsageError, match="other settings or trees"):
        train(trees, ensemble=["cluster", "em"], output=tmp_path / "m", resume=True, **QUICK)


def test_what_is_recommended_depends_on_the_number_of_trees():
    few, many = recommended(FEW - 1), recommended(FEW)
    assert few.learners == (PivotEM(states=8), Spectral(), Cluster(states=8, iterations=10))  # as docs/learning.md says
    assert many.learners == (SplitMerge(),)
    for recipe in (few, many):
        assert recipe.layer == LayerLearner()
        assert recipe.network == NetworkLearner()
    tiny = recommended(TINY - 1)
    assert (tiny.layer, tiny.network) == (None, None)
    # Trees are prepared before their number is known.
    assert len({recommended(n).first.preparation for n in (0, TINY, FEW)}) == 1


def test_what_is_learned_on_top_of_many_trees_is_bounded():
    for n in (FEW, 10_224, LARGE):  # as it always was
        assert (recommended(n).layer, recommended(n).network) == (LayerLearner(), NetworkLearner())
    for n, held_out, epochs in (
        (LARGE + 1, 5000, 12), (40_000, 10_000, 9), (65_218, 16_304, 6), (100_000, LARGE, 4), (10**7, LARGE, 2),
    ):  # fmt: skip
        recipe = recommended(n)
        assert recipe.learners == (SplitMerge(),)
        assert recipe.layer == LayerLearner(held_out=held_out)
        assert recipe.network == NetworkLearner(epochs=epochs)
        # The same for whoever names the method and asks for them, and for ensembles; but not for whoever says how.
        assert make_recipe(n_trees=n) == recipe
        assert make_recipe("split-merge", layer=True, network=True, n_trees=n) == recipe
        assert make_recipe(ensemble=2, n_trees=n).layer == LayerLearner(held_out=held_out, members=1)
        own = make_recipe(n_trees=n, layer=LayerLearner(), network=NetworkLearner())
        assert (own.layer, own.network) == (LayerLearner(), NetworkLearner())


@pytest.mark.parametrize("many", [True, False])
def test_many_trees_go_through_all_parts(trees, tmp_path, monkeypatch, many):
    monkeypatch.setattr(module, "FEW", 10)
    monkeypatch.setattr(module, "LARGE", 79 if many else 80)
    monkeypatch.setattr(module, "_SEEN", 160)
    options = {"cycles": 1, "iterations": 2, "settle": 1}
    grammar = train(trees, **options, output=tmp_path / "m").grammar
    assert grammar.info["layer"].get("held_out") == (20 if many else None)
    assert grammar.info["network"]["epochs"] == (2 if many else 12)
    again = train(trees, **options, threads=3, output=tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()
    assert Parser(again.grammar).parse_one(made_up_treebank(1)[0].words()).status == "parsed"


def test_an_ensemble_without_a_method_is_of_what_is_recommended():
    many = make_recipe(ensemble=3, n_trees=FEW)
    assert [one.method for one in many.learners] == ["split-merge"] * 3
    assert len({one.settings()["random_state"] for one in many.learners}) == 3
    assert many.first == recommended(FEW).first
    larger = NetworkLearner(half=192, inner=192, epochs=20)
    assert (many.layer, many.network) == (LayerLearner(members=1), larger)
    assert make_recipe("split-merge", ensemble=2, network=True, n_trees=FEW).network == larger
    # Alone, and where trees are few or more than enough, it is as usual.
    assert make_recipe(ensemble=1, n_trees=FEW).network == NetworkLearner()
    assert make_recipe(ensemble=3, n_trees=FEW - 1).network == NetworkLearner()
    assert make_recipe(ensemble=3, n_trees=LARGE + 1).network == usual_network(LARGE + 1)
    few = make_recipe(ensemble=4, n_trees=FEW - 1)
    assert [one.method for one in few.learners] == ["pivot+em", "spectral", "cluster", "pivot+em"]
    assert few.learners[3] != few.learners[0]
    assert (few.layer, few.network) == (LayerLearner(), recommended(FEW - 1).network)
    assert make_recipe(ensemble=1, n_trees=FEW) == recommended(FEW)
    # Whoever names methods says what else there is to be.
    assert make_recipe("split-merge", ensemble=3).layer is None
    with pytest.raises(UsageError, match="at least 1"):
        make_recipe(ensemble=0)


@pytest.mark.parametrize("members", [1, None])
def test_the_layer_of_an_ensemble_may_be_learned_from_some_of_its_grammars(trees, tmp_path, members):
    given = {"layer": LayerLearner(folds=2, epochs=1, bits=12, members=members), "ensemble": ["em", "cluster"], **QUICK}
    notes = Notes()
    whole = train(trees, **given, progress=notes)
    assert [note for note in notes.texts if "fold" in note] == [
        f"for the layer: trees without fold {fold} of 2" for fold in (1, 2)
    ]
    run = TrainingRun()
    run.recipe = make_recipe(**given)
    assert [job.learner.method for job in run._jobs(trees)] == ["em", "cluster"] + 2 * ["em", "cluster"][:members]
    assert len(whole.grammars) == 2
    assert len(whole.grammar.layer.places)
    # One grammar's forests say nothing of products.
    assert whole.grammar.layer.dense[4:8].any() == (members is None)
    assert Parser(whole.grammars).parse_one(made_up_treebank(1)[0].words()).tree is not None
    for plug in (7, 10):
        with pytest.raises(Interrupted):
            train(trees, **given, output=tmp_path / "m", resume=plug > 7, progress=PullThePlug(plug))
    train(trees, **given, output=tmp_path / "m", resume=True)
    assert (tmp_path / "m").read_bytes() == bytes_of(whole, tmp_path / "whole")


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
