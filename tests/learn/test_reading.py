"""A model that reads text, and another one that learns from what it has read."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_helpers import Interrupted, Notes, PullThePlug

from effort import examples
from made_up import made_up_treebank
from sapwood import Parser, train
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.grammar.bundle import load_models
from sapwood.learn import EM
from sapwood.learn.forecast import Forecast
from sapwood.learn.layer import LayerLearner
from sapwood.learn.network import NetworkLearner
from sapwood.learn.reading import Reader, learn_by_reading
from sapwood.learn.recipe import make_recipe
from sapwood.learn.run import TrainingRun
from sapwood.run.log import read_log
from sapwood.run.progress import Silent
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree

TREES = made_up_treebank(110)
GIVEN, TEXT = TREES[:40], [tree.words() for tree in TREES[40:]]
NETWORK = NetworkLearner(input=8, half=8, layers=1, inner=8, epochs=4)
QUICK = {
    "method": "em",
    "states": 2,
    "support": 5,
    "iterations": 2,
    "layer": LayerLearner(folds=2, epochs=1, bits=12),
    "network": NETWORK,
}


@examples(40)
@given(st.lists(st.integers(0, 6), max_size=30), st.integers(1, 12), st.integers(0, 5))
def test_sentences_are_drawn_in_their_order_and_each_once(lengths, most, seed):
    text = [[f"{place}"] * length for place, length in enumerate(lengths)]
    fitting = [sentence for sentence in text if 2 <= len(sentence) <= 5]
    reader = Reader(most=most, shortest=2, longest=5)
    drawn = reader.draw(iter(text), seed)
    assert len(drawn) == min(most, len(fitting))
    places = [fitting.index(sentence) for sentence in drawn]
    assert places == sorted(set(places))
    assert drawn == reader.draw(text, seed)


def test_each_sentence_is_as_likely_as_any_other():
    text = [[str(place)] * 3 for place in range(8)]
    times = np.zeros(8)
    for seed in range(2000):
        for sentence in Reader(most=3).draw(text, seed):
            times[int(sentence[0])] += 1
    # 750 of each are expected, with a standard deviation of 22.
    assert np.abs(times - 750).max() < 100


def made(**options):
    return train(GIVEN, **QUICK, read=TEXT, **options)


def readable(trained):
    """Return the trees of those sentences that a model has a parse for."""
    results = Parser(trained.grammars).parse([sentence for sentence in TEXT if 3 <= len(sentence) <= 40])
    return [result.tree for result in results if not result.failed]


def test_the_second_model_is_learned_from_what_the_first_has_read():
    first = train(GIVEN, **QUICK)
    second = made()
    found = readable(first)
    assert 50 < len(found) < len(TEXT)
    corpus = EM.prepare([*GIVEN, *found])
    alone = EM(states=2, support=5, iterations=2).fit(corpus)
    # The same grammar, but for the order of its symbols and words.
    assert sorted(second.grammar.symbols) == sorted(alone.symbols)
    assert sorted(second.grammar.lexicon.words) == sorted(alone.lexicon.words)
    assert set(second.grammar.lexicon.words) > set(first.grammar.lexicon.words)
    # Its layer is the first one's, its network its own: of a third of the passes, and so noted.
    assert np.array_equal(second.grammar.layer.values, first.grammar.layer.values)
    assert second.grammar.info["layer"] == first.grammar.info["layer"]
    assert second.grammar.info["network"] == replace(NETWORK, epochs=2).settings()
    assert len(second.grammar.network.looks) > len(first.grammar.network.looks)
    assert second.grammar.info["read"] == len(found)
    assert second.grammar.info["training"]["trees"] == len(GIVEN) + len(found)
    assert Parser(second.grammars).parse_one(TEXT[0]).status == "parsed"


def test_a_network_sees_given_trees_more_often(monkeypatch):
    seen = []
    fit = NetworkLearner.fit

    def watch(self, corpus, **options):
        seen.append(corpus)
        return fit(self, corpus, **options)

    monkeypatch.setattr(NetworkLearner, "fit", watch)
    read = train(GIVEN[:10], **QUICK, read=TEXT).grammar.info["read"]
    first, second = seen
    times = round(read / 20)
    assert times >= 3
    assert (first.n_trees, second.n_trees) == (10, 10 * times + read)
    sentences = [second.sentence(tree) for tree in range(second.n_trees)]
    for tree in GIVEN[:10]:
        assert sentences.count(tree.words()) >= times


class Plug(PullThePlug):
    """Counts only steps of learning."""

    @contextlib.contextmanager
    def stage(self, name, total=None, unit="it"):
        with Silent().stage(name, total, unit) as silent:
            yield silent if unit in ("trees", "sentences") else self


def test_whatever_is_interrupted_goes_on_to_the_same_bytes(tmp_path):
    made(output=tmp_path / "whole")
    output, left = tmp_path / "m", set()
    for turn in range(100):
        try:
            made(output=output, resume=turn > 0, progress=Plug(2 + turn % 4))
            break
        except Interrupted:
            left |= {path.name for path in tmp_path.iterdir()} - {"whole"}
    assert output.read_bytes() == (tmp_path / "whole").read_bytes()
    # In the first model, between its grammars and its end, and in the second.
    assert {"m.teacher.members", "m.teacher", "m.members"} <= left
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "whole"]


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """What a run has left that was interrupted behind its first model."""
    folder = tmp_path_factory.mktemp("left")
    for plug in range(5, 100, 3):
        with pytest.raises(Interrupted):
            made(output=folder / "m", resume=plug > 5, progress=Plug(plug))
        if (folder / "m.teacher").exists():
            return folder
    pytest.fail("was never interrupted behind the first model")


def test_what_was_interrupted_is_not_begun_anew_by_mistake(left):
    with pytest.raises(UsageError, match=r"m\.(members|teacher|checkpoint).*: training was interrupted here"):
        made(output=left / "m")


@pytest.mark.parametrize("other", [{"states": 3}, {"network": replace(NETWORK, rate=0.1)}, {"layer": None}])
def test_another_first_model_is_refused(left, tmp_path, other):
    shutil.copytree(left, tmp_path, dirs_exist_ok=True)
    with pytest.raises(UsageError, match="other settings or trees"):
        train(GIVEN, **(QUICK | other), read=TEXT, output=tmp_path / "m", resume=True)


def test_parts_may_be_missing():
    trained = train(GIVEN, method="pcfg", read=TEXT)
    assert (trained.grammar.layer, trained.grammar.network) == (None, None)
    assert trained.grammar.info["read"] > 0
    info = train(GIVEN, **(QUICK | {"layer": None}), read=TEXT).grammar.info
    assert ("layer" in info, "network" in info) == (False, True)
    info = train(GIVEN, **(QUICK | {"network": None}), read=TEXT).grammar.info
    assert ("layer" in info, "network" in info) == (True, False)


@pytest.mark.parametrize("kept", [True, False])
def test_forecasts_say_of_which_model_they_are(monkeypatch, tmp_path, kept):
    monkeypatch.setattr("sapwood.learn.run.forecast_run", lambda *_: Forecast(2e9, 60))
    notes = Notes()
    made(progress=notes, output=tmp_path / "m" if kept else None)
    said = [note.partition(":")[0] for note in notes.texts if "will take" in note]
    assert said == ["the first model", "the second model"]


def test_what_it_says():
    notes = Notes()
    made(progress=notes)
    count = sum(3 <= len(sentence) <= 40 for sentence in TEXT)
    first, *_, second = (note for note in notes.texts if " model, " in note)
    assert first == f"a first model, which is to read {count} sentences of the text"
    read = len(readable(train(GIVEN, **QUICK)))
    lost = f"({count - read} sentence(s) have no tree)"
    assert second == f"a second model, from 40 trees and {read} of what was read {lost}"


def test_without_a_method_both_models_are_what_is_recommended(monkeypatch, tmp_path):
    recipes, grammars = [], train(GIVEN, method="pcfg").grammars

    def call(self, recipe, corpus, dev=None, progress=None, **_):
        recipes.append((recipe, corpus.n_trees))
        return grammars

    monkeypatch.setattr(TrainingRun, "__call__", call)

    def make(n_trees):
        return make_recipe(n_trees=n_trees)

    monkeypatch.setattr("sapwood.learn.recipe.FEW", 60)
    learn_by_reading(TrainingRun(), make, EM.prepare(GIVEN), TEXT, None, Silent())
    (first, given), (second, also_given) = recipes
    assert given == also_given == len(GIVEN)
    assert first == make(len(GIVEN))
    usual = make(len(TREES))
    assert second.learners == usual.learners
    assert (second.layer, second.network) == (None, replace(usual.network, epochs=4))


def test_what_does_not_go_together():
    for also in ({"text": TEXT}, {"sequences": True, "dev": None}):
        trees = [[("a", "A")]] if "sequences" in also else GIVEN
        with pytest.raises(UsageError, match="read: goes with trees alone"):
            train(trees, method="pcfg", read=TEXT, **also)
    # Settings that the second model does not take are refused before the first one is learned.
    with pytest.raises(UsageError, match="of the second model, which also learns from 2000 sentences: states: is no"):
        train(GIVEN, states=2, read=[["a", "b", "c"]] * 2000, progress=PullThePlug(len(GIVEN)))


def test_text_that_cannot_be_read():
    with pytest.raises(InputError, match="there is no sentence to read"):
        train(GIVEN, method="pcfg", read=[["a"]])


def test_a_model_that_cannot_read_is_still_a_model(tmp_path):
    trees = [Tree.parse("(S (A a) (B b))")] * 10
    notes = Notes()
    train(trees, method="pcfg", read=[["a", "b", "a"]] * 9, output=tmp_path / "m", progress=notes)
    train(trees, method="pcfg", output=tmp_path / "alone")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "alone").read_bytes()
    assert "no tree for any sentence" in notes.texts[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "m"]


def test_labels_are_mapped_once():
    normaliser = Normaliser(labels=(("NP", "PP"), ("PP", "NP"), ("VP", "VP-X")))
    corpus = Corpus.from_trees(GIVEN, normaliser=normaliser, transform=EM.preparation)
    trained = train(corpus, method="pcfg", read=TEXT)
    given = [corpus.symbols[number] for number in range(len(corpus.symbols))]
    assert sorted(trained.grammar.symbols) == sorted(given)
    assert any("VP-X" in symbol for symbol in given)
    counts = [
        Counter(node.label for tree in trees for node in tree.nodes())
        for trees in ([normaliser(tree) for tree in GIVEN], readable(trained))
    ]
    assert all(count["PP"] > 2 * count["NP"] for count in counts)  # as many as there are noun phrases


def test_a_run_that_reads_is_not_gone_on_with_without_a_text(left, tmp_path):
    shutil.copytree(left, tmp_path, dirs_exist_ok=True)
    with pytest.raises(UsageError, match=r"m\.teacher: of a run that reads text; give the text again"):
        train(GIVEN, **QUICK, output=tmp_path / "m", resume=True)
    assert (tmp_path / "m.teacher").exists()


def test_a_first_model_that_is_damaged_is_told_of(left, tmp_path):
    shutil.copytree(left, tmp_path, dirs_exist_ok=True)
    (tmp_path / "m.teacher").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="or remove this file to start anew"):
        made(output=tmp_path / "m", resume=True)


def test_the_log_of_an_earlier_run_is_not_gone_on_with(tmp_path):
    made(log=tmp_path / "log")
    expected = [line["event"] for line in read_log(tmp_path / "log")]
    (tmp_path / "old").write_bytes((tmp_path / "log").read_bytes())
    with pytest.raises(Interrupted):
        made(output=tmp_path / "m", log=tmp_path / "old", progress=Plug(2))
    assert (tmp_path / "old").read_bytes() == b""
    made(output=tmp_path / "m", log=tmp_path / "old", resume=True)
    assert [line["event"] for line in read_log(tmp_path / "old")] == expected
    assert read_log(tmp_path / "old")[0]["read"] > 0


def test_nothing_is_kept_beside_a_device(monkeypatch):
    with pytest.raises(Interrupted):
        made(output="/dev/null", progress=Plug(12))
    assert not list(Path("/dev").glob("null?*"))


def test_ensembles_read_together(tmp_path):
    train(GIVEN, **(QUICK | {"layer": None}), ensemble=2, read=TEXT, output=tmp_path / "m")
    models = load_models(tmp_path / "m")
    assert len(models) == 2
    assert all(model.info["read"] for model in models)
