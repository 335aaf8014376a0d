"""Self-training: a model that parses text, and another one that is trained on its parses."""

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

from helpers.effort import examples
from helpers.made_up import made_up_treebank
from helpers.training_helpers import Interrupted, Notes, PullThePlug
from sapwood import Parser, train
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.learn import EM
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.model.file import load_models
from sapwood.pipeline.recipe import make_recipe
from sapwood.pipeline.self_training import SentenceSampler, self_training_recipes
from sapwood.runtime.log import read_log
from sapwood.runtime.progress import Silent
from sapwood.trees.corpus import Corpus
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tree import Tree

TREES = made_up_treebank(110)
GIVEN, TEXT = TREES[:40], [tree.words() for tree in TREES[40:]]
NETWORK = SpanScorerTrainer(embedding=8, hidden=8, layers=1, span_hidden=8, epochs=4)
QUICK = {
    "method": "em",
    "states": 2,
    "min_support": 5,
    "iterations": 2,
    "crf": ForestCRFTrainer(folds=2, epochs=1, bits=12),
    "span_scorer": NETWORK,
}


@examples(40)
@given(st.lists(st.integers(0, 6), max_size=30), st.integers(1, 12), st.integers(0, 5))
def test_sentences_are_drawn_in_their_order_and_each_once(lengths, most, seed):
    text = [[f"{place}"] * length for place, length in enumerate(lengths)]
    fitting = [sentence for sentence in text if 2 <= len(sentence) <= 5]
    reader = SentenceSampler(max_sentences=most, min_words=2, max_words=5)
    drawn = reader.sample(iter(text), seed)
    assert len(drawn) == min(most, len(fitting))
    places = [fitting.index(sentence) for sentence in drawn]
    assert places == sorted(set(places))
    assert drawn == reader.sample(text, seed)


def test_each_sentence_is_as_likely_as_any_other():
    text = [[str(place)] * 3 for place in range(8)]
    times = np.zeros(8)
    for seed in range(2000):
        for sentence in SentenceSampler(max_sentences=3).sample(text, seed):
            times[int(sentence[0])] += 1
    # 750 of each are expected, with a standard deviation of 22.
    assert np.abs(times - 750).max() < 100


def made(**options):
    return train(GIVEN, **QUICK, self_train_on=TEXT, **options)


def readable(trained):
    """Return the trees of those sentences that a model has a parse for."""
    results = Parser(trained).parse([sentence for sentence in TEXT if 3 <= len(sentence) <= 40])
    return [result.tree for result in results if not result.failed]


def test_the_second_model_is_learned_from_what_the_first_has_read():
    first = train(GIVEN, **QUICK)
    second = made()
    found = readable(first)
    assert 50 < len(found) < len(TEXT)
    corpus = EM.prepare([*GIVEN, *found])
    alone = EM(states=2, min_support=5, iterations=2).fit(corpus)
    # The same grammar, but for the order of its symbols and words.
    assert sorted(second.grammar.symbols) == sorted(alone.symbols)
    assert sorted(second.grammar.lexicon.words) == sorted(alone.lexicon.words)
    assert set(second.grammar.lexicon.words) > set(first.grammar.lexicon.words)
    # Its layer is the first one's, its network its own: of a third of the passes, and so noted.
    assert np.array_equal(second.crf.values, first.crf.values)
    assert second.meta["layer"] == first.meta["layer"]
    assert second.meta["network"] == replace(NETWORK, epochs=2).settings()
    assert len(second.span_scorer.word_features) > len(first.span_scorer.word_features)
    assert second.grammar.info["read"] == len(found)
    assert second.grammar.info["training"]["trees"] == len(GIVEN) + len(found)
    assert Parser(second).parse_one(TEXT[0]).status == "parsed"


def test_a_network_sees_given_trees_more_often(monkeypatch):
    seen = []
    fit = SpanScorerTrainer.fit

    def watch(self, corpus, **options):
        seen.append(corpus)
        return fit(self, corpus, **options)

    monkeypatch.setattr(SpanScorerTrainer, "fit", watch)
    read = train(GIVEN[:10], **QUICK, self_train_on=TEXT).grammar.info["read"]
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
    assert {"m.teacher.stage-member-1", "m.teacher", "m.stage-member-1", "m.run", "m.teacher.run"} <= left
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
    with pytest.raises(UsageError, match=r"m\.(stage|teacher|checkpoint).*: training was interrupted"):
        made(output=left / "m")


@pytest.mark.parametrize("other", [{"states": 3}, {"span_scorer": replace(NETWORK, learning_rate=0.1)}, {"crf": None}])
def test_another_first_model_is_refused(left, tmp_path, other):
    shutil.copytree(left, tmp_path, dirs_exist_ok=True)
    with pytest.raises(UsageError, match="other settings or trees"):
        train(GIVEN, **(QUICK | other), self_train_on=TEXT, output=tmp_path / "m", resume=True)


def test_parts_may_be_missing():
    trained = train(GIVEN, method="pcfg", self_train_on=TEXT)
    assert (trained.crf, trained.span_scorer) == (None, None)
    assert trained.grammar.info["read"] > 0
    meta = train(GIVEN, **(QUICK | {"crf": None}), self_train_on=TEXT).meta
    assert ("layer" in meta, "network" in meta) == (False, True)
    meta = train(GIVEN, **(QUICK | {"span_scorer": None}), self_train_on=TEXT).meta
    assert ("layer" in meta, "network" in meta) == (True, False)


def test_what_it_says():
    notes = Notes()
    made(progress=notes)
    count = sum(3 <= len(sentence) <= 40 for sentence in TEXT)
    first, *_, second = (note for note in notes.texts if note.startswith("training the "))
    assert first == f"training the first model, to parse {count} sentences of the text"
    read = len(readable(train(GIVEN, **QUICK)))
    lost = f"({count - read} sentence(s) have no tree)"
    assert second == f"training the second model on 40 trees and {read} predicted trees {lost}"


def test_without_a_method_both_models_are_what_is_recommended(monkeypatch):
    monkeypatch.setattr("sapwood.pipeline.recipe.FEW", 60)
    first, second = self_training_recipes(make_recipe, len(GIVEN), len(TEXT))
    assert first == make_recipe(n_trees=len(GIVEN))
    usual = make_recipe(n_trees=len(TREES))
    assert second.learners == usual.learners
    assert (second.crf, second.span_scorer) == (None, replace(usual.span_scorer, epochs=4))


def test_what_does_not_go_together():
    for also in ({"text": TEXT}, {"sequences": True, "dev": None}):
        trees = [[("a", "A")]] if "sequences" in also else GIVEN
        with pytest.raises(UsageError, match="self_train_on requires trees"):
            train(trees, method="pcfg", self_train_on=TEXT, **also)
    # Settings that the second model does not take are refused before the first one is learned.
    with pytest.raises(UsageError, match="of the second model, which also learns from 2000 sentences: states: is no"):
        train(GIVEN, states=2, self_train_on=[["a", "b", "c"]] * 2000, progress=PullThePlug(len(GIVEN)))


def test_text_that_cannot_be_read():
    with pytest.raises(InputError, match="there is no sentence for self-training"):
        train(GIVEN, method="pcfg", self_train_on=[["a"]])


def test_a_model_that_cannot_read_is_still_a_model(tmp_path):
    trees = [Tree.parse("(S (A a) (B b))")] * 10
    notes = Notes()
    train(trees, method="pcfg", self_train_on=[["a", "b", "a"]] * 9, output=tmp_path / "m", progress=notes)
    train(trees, method="pcfg", output=tmp_path / "alone")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "alone").read_bytes()
    assert "no tree for any sentence" in notes.texts[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "m"]


def test_labels_are_mapped_once():
    normaliser = Normaliser(labels=(("NP", "PP"), ("PP", "NP"), ("VP", "VP-X")))
    corpus = Corpus.from_trees(GIVEN, normaliser=normaliser, transform=EM.preparation)
    trained = train(corpus, method="pcfg", self_train_on=TEXT)
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
    with pytest.raises(
        UsageError, match=r"of a training run with self-training; give the text again, or remove .*m\.teacher"
    ):
        train(GIVEN, **QUICK, output=tmp_path / "m", resume=True)
    assert (tmp_path / "m.teacher").exists()


def test_a_first_model_that_is_damaged_is_told_of(left, tmp_path):
    shutil.copytree(left, tmp_path, dirs_exist_ok=True)
    (tmp_path / "m.teacher").write_bytes(b"nothing")
    with pytest.raises(ModelError, match="or remove this file to start over"):
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
    train(GIVEN, **(QUICK | {"crf": None}), ensemble=2, self_train_on=TEXT, output=tmp_path / "m")
    models = load_models(tmp_path / "m")
    assert len(models) == 2
    assert all(model.info["read"] for model in models)
