"""A grammar keeps the features that its states were found by, whatever happened since."""

from __future__ import annotations

import pytest

from helpers.made_up import made_up_treebank
from sapwood.grammar.state_profiles import state_anchors
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.learn.pivot import Pivot
from sapwood.runtime.checkpoint import Checkpoint
from sapwood.trees.corpus import Corpus

MADE_UP = Corpus.from_trees(made_up_treebank(400))


@pytest.mark.parametrize("columns", ["align", "fit"])
@pytest.mark.parametrize("unaries", ["explicit", "collapsed"])
def test_they_are_those_of_the_learner(unaries, columns):
    learner = Pivot(states=4, min_support=20, unaries=unaries, columns=columns, iterations=1)
    grammar = learner.fit(MADE_UP)
    found = learner.anchors(MADE_UP)
    told = 0
    for number, symbol in enumerate(grammar.symbols):
        # A chain has the states of what is below its step.
        name = symbol if unaries == "collapsed" else symbol.chain[-1] if len(symbol.chain) > 1 else symbol
        expected = found.get(name, []) if grammar.states[number] > 1 else []
        assert state_anchors(grammar, number) == expected, symbol
        told += bool(expected)
    assert told > 3
    assert not any("EMPTY" in inside for pairs in found.values() for inside, _ in pairs)


def test_they_stay_in_files(tmp_path):
    grammar = Pivot(states=4, min_support=20).fit(MADE_UP)
    grammar.save(tmp_path / "model")
    assert TensorGrammar.load(tmp_path / "model").info["pivot"] == grammar.info["pivot"]
    assert "pivot" not in Pivot(states=1).fit(MADE_UP).info


def test_an_interrupted_run_remembers_them(tmp_path, monkeypatch):
    learner = Pivot(states=4, min_support=20, iterations=2)
    whole = learner.fit(MADE_UP)
    assert whole.info["pivot"]["anchors"]

    class Interrupted(Exception):
        pass

    def fail(state):
        raise Interrupted

    # Interrupted behind the first step, which is where they are found.
    keep, kept = Checkpoint.keep, []

    def keep_and_stop(self, state):
        keep(self, state)
        kept.append(state)
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "keep", keep_and_stop)
        with pytest.raises(Interrupted):
            learner.fit(MADE_UP, checkpoint=tmp_path / "run")
    assert len(kept) == 1
    with monkeypatch.context() as patch:
        patch.setattr(Pivot, "_counts", fail)  # they are not found again
        resumed = learner.fit(MADE_UP, checkpoint=tmp_path / "run")
    whole.save(tmp_path / "whole")
    resumed.save(tmp_path / "resumed")
    assert (tmp_path / "resumed").read_bytes() == (tmp_path / "whole").read_bytes()
