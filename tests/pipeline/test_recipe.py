"""What a training run learns: ensembles of several methods, and what is chosen where nobody says anything."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from helpers.made_up import made_up_treebank
from helpers.training_helpers import Interrupted, Notes, PullThePlug
from sapwood import Parser, train
from sapwood.errors import InputError, UsageError
from sapwood.learn import EM, PivotEM, Spectral, SplitMerge, StateClustering
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.model import ParserModel
from sapwood.pipeline import recipe as module
from sapwood.pipeline.recipe import FEW, LARGE, TINY, default_span_scorer, first_learner, make_recipe, recommended
from sapwood.pipeline.stages import fold_stages, member_stages
from sapwood.runtime.log import read_log

QUICK = {"states": 2, "min_support": 5, "iterations": 2}
MEMBERS = ["em", "cluster", "em"]


@pytest.fixture(scope="module")
def trees():
    return StateClustering.prepare(made_up_treebank(80))


def bytes_of(trained: ParserModel, path: Path) -> bytes:
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
    recipe = make_recipe(ensemble=["split-merge", StateClustering(states=5)], cycles=2)
    assert recipe.learners == (SplitMerge(cycles=2), StateClustering(states=5))
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
    assert Parser(whole).parse_one(made_up_treebank(1)[0].words()).tree is not None
    alone = train(trees, method="cluster", **QUICK)
    assert bytes_of(whole.replace(grammars=whole.grammars[1:2]), tmp_path / "a") == bytes_of(alone, tmp_path / "b")
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
        ensemble=[EM(states=1, iterations=1), StateClustering(states=40, min_support=30)],
        crf=ForestCRFTrainer(folds=2, epochs=1),
        progress=progress,
    )
    (few,) = (note for note in progress.texts if "no hidden states for" in note)
    folds = [f"for the CRF: trees without fold {fold} of 2" for fold in (1, 2)]
    assert progress.texts == ["grammar 1 of 2: em", "grammar 2 of 2: cluster", few, *folds]


def test_plain_text_is_recognised(tmp_path):
    notes = {}
    for name, stop in (("raw.txt", "."), ("cut.txt", " .")):
        (tmp_path / name).write_text(f"the balora kenild{stop}\na tomora dalild{stop}\nthe fenora melild{stop}\n" * 9)
        progress = Notes()
        with pytest.raises(InputError, match="too few to learn classes"):  # after the text was looked at
            train(made_up_treebank(60), method="pcfg", text=tmp_path / name, progress=progress)
        notes[name] = [text for text in progress.texts if "punctuation is attached to words" in text]
    (told,) = notes.pop("raw.txt")
    assert str(tmp_path / "raw.txt") in told
    assert "sapwood tokenise" in told
    assert notes == {"cut.txt": []}


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
    # As docs/default-methods.md says.
    assert few.learners == (PivotEM(states=8), Spectral(), StateClustering(states=8, iterations=10))
    assert many.learners == (SplitMerge(),)
    for recipe in (few, many):
        assert recipe.crf == ForestCRFTrainer()
        assert recipe.span_scorer == SpanScorerTrainer()
    tiny = recommended(TINY - 1)
    assert (tiny.crf, tiny.span_scorer) == (None, None)
    # Trees are prepared before their number is known.
    assert len({recommended(n).learners[0].preparation for n in (0, TINY, FEW)}) == 1


def test_what_is_learned_on_top_of_many_trees_is_bounded():
    for n in (FEW, 10_224, LARGE):  # as it always was
        assert (recommended(n).crf, recommended(n).span_scorer) == (ForestCRFTrainer(), SpanScorerTrainer())
    for n, held_out, epochs in (
        (LARGE + 1, 5000, 12), (40_000, 10_000, 9), (65_218, 16_304, 6), (100_000, LARGE, 4), (10**7, LARGE, 2),
    ):  # fmt: skip
        recipe = recommended(n)
        assert recipe.learners == (SplitMerge(),)
        assert recipe.crf == ForestCRFTrainer(held_out=held_out)
        assert recipe.span_scorer == SpanScorerTrainer(epochs=epochs)
        # The same for whoever names the method and asks for them, and for ensembles; but not for whoever says how.
        assert make_recipe(n_trees=n) == recipe
        assert make_recipe("split-merge", crf=True, span_scorer=True, n_trees=n) == recipe
        assert make_recipe(ensemble=2, n_trees=n).crf == ForestCRFTrainer(held_out=held_out, members=1)
        own = make_recipe(n_trees=n, crf=ForestCRFTrainer(), span_scorer=SpanScorerTrainer())
        assert (own.crf, own.span_scorer) == (ForestCRFTrainer(), SpanScorerTrainer())


@pytest.mark.parametrize("many", [True, False])
def test_many_trees_go_through_all_parts(trees, tmp_path, monkeypatch, many):
    monkeypatch.setattr(module, "FEW", 10)
    monkeypatch.setattr(module, "LARGE", 79 if many else 80)
    monkeypatch.setattr(module, "_SEEN", 160)
    options = {"cycles": 1, "iterations": 2, "smoothing_iterations": 1}
    model = train(trees, **options, output=tmp_path / "m")
    assert model.meta["layer"].get("held_out") == (20 if many else None)
    assert model.meta["network"]["epochs"] == (2 if many else 12)
    again = train(trees, **options, threads=3, output=tmp_path / "n")
    assert (tmp_path / "n").read_bytes() == (tmp_path / "m").read_bytes()
    assert Parser(again).parse_one(made_up_treebank(1)[0].words()).status == "parsed"


def test_an_ensemble_without_a_method_is_of_what_is_recommended():
    many = make_recipe(ensemble=3, n_trees=FEW)
    assert [one.method for one in many.learners] == ["split-merge"] * 3
    assert len({one.settings()["random_state"] for one in many.learners}) == 3
    assert many.learners[0] == recommended(FEW).learners[0]
    larger = SpanScorerTrainer(hidden=192, span_hidden=192, epochs=20)
    assert (many.crf, many.span_scorer) == (ForestCRFTrainer(members=1), larger)
    assert make_recipe("split-merge", ensemble=2, span_scorer=True, n_trees=FEW).span_scorer == larger
    # Alone, and where trees are few or more than enough, it is as usual.
    assert make_recipe(ensemble=1, n_trees=FEW).span_scorer == SpanScorerTrainer()
    assert make_recipe(ensemble=3, n_trees=FEW - 1).span_scorer == SpanScorerTrainer()
    assert make_recipe(ensemble=3, n_trees=LARGE + 1).span_scorer == default_span_scorer(LARGE + 1)
    few = make_recipe(ensemble=4, n_trees=FEW - 1)
    assert [one.method for one in few.learners] == ["pivot+em", "spectral", "cluster", "pivot+em"]
    assert few.learners[3] != few.learners[0]
    assert (few.crf, few.span_scorer) == (ForestCRFTrainer(), recommended(FEW - 1).span_scorer)
    assert make_recipe(ensemble=1, n_trees=FEW) == recommended(FEW)
    # Whoever names methods says what else there is to be.
    assert make_recipe("split-merge", ensemble=3).crf is None
    with pytest.raises(UsageError, match="at least 1"):
        make_recipe(ensemble=0)


@pytest.mark.parametrize("members", [1, None])
def test_the_layer_of_an_ensemble_may_be_learned_from_some_of_its_grammars(trees, tmp_path, members):
    given = {
        "crf": ForestCRFTrainer(folds=2, epochs=1, bits=12, members=members),
        "ensemble": ["em", "cluster"],
        **QUICK,
    }
    notes = Notes()
    whole = train(trees, **given, progress=notes)
    assert [note for note in notes.texts if "fold" in note] == [
        f"for the CRF: trees without fold {fold} of 2" for fold in (1, 2)
    ]
    recipe = make_recipe(**given)
    assert [stage.learner.method for stage in member_stages(recipe)] == ["em", "cluster"]
    folds = [[stage.learner.method for stage in fold] for fold in fold_stages(recipe)]
    assert folds == [["em", "cluster"][:members]] * 2
    assert len(whole.grammars) == 2
    assert len(whole.crf.places)
    # One grammar's forests say nothing of products.
    assert whole.crf.dense[4:8].any() == (members is None)
    assert Parser(whole).parse_one(made_up_treebank(1)[0].words()).tree is not None
    for plug in (7, 10):
        with pytest.raises(Interrupted):
            train(trees, **given, output=tmp_path / "m", resume=plug > 7, progress=PullThePlug(plug))
    train(trees, **given, output=tmp_path / "m", resume=True)
    assert (tmp_path / "m").read_bytes() == bytes_of(whole, tmp_path / "whole")


def test_parts_of_what_is_recommended_can_be_left_out():
    recipe = make_recipe(n_trees=FEW, crf=False, cycles=2)
    assert recipe.learners == (SplitMerge(cycles=2),)
    assert recipe.crf is None
    assert recipe.span_scorer == SpanScorerTrainer()
    own = ForestCRFTrainer(folds=2)
    assert make_recipe(n_trees=FEW, crf=own, span_scorer=False).crf is own
    assert make_recipe("em").crf is None
    assert make_recipe("em", crf=True).crf == ForestCRFTrainer()


@pytest.mark.parametrize("n", [1, 6, TINY])
def test_any_number_of_trees_will_do(n):
    """Nothing that is recommended needs more trees than it is recommended for."""
    trained = train(
        made_up_treebank(n),
        span_scorer=SpanScorerTrainer(epochs=1),
        crf=ForestCRFTrainer(epochs=1) if n >= TINY else None,
    )
    assert Parser(trained).parse_one(made_up_treebank(1)[0].words()).tree is not None


def test_what_is_recommended_is_saved_as_one_file(tmp_path):
    trees = made_up_treebank(TINY)
    trained = train(trees, span_scorer=SpanScorerTrainer(epochs=1), output=tmp_path / "m")
    found = ParserModel.load(tmp_path / "m")
    assert found == trained
    assert found.span_scorer is not None
    assert found.crf is not None


def test_settings_of_what_is_not_recommended_are_refused():
    with pytest.raises(UsageError, match=r"cycles: is not a setting of the default recipe for 60 trees"):
        make_recipe(n_trees=60, cycles=2)
    with pytest.raises(UsageError, match="depends on the number of trees"):
        make_recipe(cycles=2)


def test_a_recipe_is_made_once_and_for_the_number_of_trees(monkeypatch):
    made = []

    def watch(*given, **options):
        made.append(options["n_trees"])
        return make_recipe(*given, **options)

    monkeypatch.setattr("sapwood.pipeline.train.make_recipe", watch)
    for method in ("pcfg", None):
        train(made_up_treebank(8), method=method)
    assert made == [8, 8]


def test_trees_are_prepared_before_their_number_is_known():
    assert first_learner(cycles=2) == SplitMerge(cycles=2)
    for n_trees in (1, TINY, FEW, LARGE):
        first, chosen = first_learner(seed=7), make_recipe(n_trees=n_trees, seed=7)
        assert {learner.preparation for learner in chosen.learners} == {first.preparation}
        assert first.random_state == chosen.seed == 7
    for ensemble in ([], 0):
        with pytest.raises(UsageError, match="at least"):
            first_learner(ensemble=ensemble)
