"""What a whole training run is said to take beforehand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from training_helpers import Notes

from made_up import made_up_treebank
from sapwood import train
from sapwood.evaluate.held_out import HeldOut
from sapwood.learn import forecast as module
from sapwood.learn.em import EM
from sapwood.learn.layer import LayerLearner
from sapwood.learn.network import NetworkLearner
from sapwood.learn.recipe import Recipe, make_recipe
from sapwood.learn.run_forecast import forecast_run
from sapwood.trees.corpus import Corpus

CORPUS = Corpus.from_trees(made_up_treebank(200))
LEARNER = EM(states=8, iterations=10)
ALONE = Recipe((LEARNER,))
FOLDS = replace(ALONE, layer=LayerLearner(folds=4))


def seconds(recipe: Recipe, dev: HeldOut | None = None) -> float:
    found = forecast_run(recipe, CORPUS, dev)
    assert found is not None
    return found.seconds


def memory(recipe: Recipe) -> float:
    found = forecast_run(recipe, CORPUS)
    assert found is not None
    return found.memory


def test_one_grammar_is_what_its_learner_says():
    own = LEARNER.forecast(CORPUS)
    assert (seconds(ALONE), memory(ALONE)) == (own.seconds, own.memory)


def test_parts_take_time_in_proportion_to_what_they_do():
    grammar = seconds(ALONE)
    passes = [seconds(replace(ALONE, network=NetworkLearner(epochs=epochs))) - grammar for epochs in (1, 6)]
    assert passes[1] == pytest.approx(6 * passes[0])
    small, large = (replace(ALONE, network=NetworkLearner(half=half, epochs=6)) for half in (8, 512))
    assert seconds(small) - grammar < passes[1] / 4 < 4 * passes[1] < seconds(large) - grammar
    layers = [seconds(replace(ALONE, layer=LayerLearner(folds=folds))) - grammar for folds in (2, 4, 5)]
    # Two grammars of a half, four of three quarters, five of four fifths.
    assert layers[1] - layers[0] == pytest.approx(2 * grammar)
    assert layers[2] - layers[0] == pytest.approx(3 * grammar)
    # One of three quarters, and a quarter of the forests.
    some = seconds(replace(ALONE, layer=LayerLearner(held_out=50))) - grammar
    assert some == pytest.approx(layers[1] / 4)


def test_grammars_for_a_layer_are_not_measured():
    dev = HeldOut(made_up_treebank(20), CORPUS)
    own = LEARNER.forecast(CORPUS, dev)
    assert own.measuring > 0
    assert own.seconds - LEARNER.forecast(CORPUS).seconds == pytest.approx(own.measuring)
    assert seconds(FOLDS, dev) - seconds(FOLDS) == pytest.approx(own.measuring)


def test_grammars_wait_packed():
    own = LEARNER.forecast(CORPUS)
    four = make_recipe(LEARNER, ensemble=4)
    assert seconds(four) == pytest.approx(4 * own.seconds)
    assert own.memory < memory(four) < own.memory + 3 * own.grammar
    one = replace(four, layer=LayerLearner(members=1))
    assert seconds(four) < seconds(one) < seconds(replace(one, layer=LayerLearner()))
    assert memory(one) <= memory(replace(one, layer=LayerLearner()))


def test_problems_of_seeds_are_looked_at_once(monkeypatch):
    calls = []
    own = EM.forecast
    monkeypatch.setattr(EM, "forecast", lambda self, *given: calls.append(self) or own(self, *given))
    forecast_run(make_recipe(LEARNER, ensemble=4), CORPUS)
    assert calls == [LEARNER]
    forecast_run(make_recipe(ensemble=[LEARNER, LEARNER.replace(states=2)]), CORPUS)
    assert len(calls) == 3


def test_who_does_not_say_is_not_guessed_at():
    assert forecast_run(make_recipe("pcfg", layer=True), CORPUS) is None


def test_long_runs_are_announced_as_a_whole(monkeypatch):
    run = {"states": 2, "iterations": 1, "network": NetworkLearner(input=4, half=4, inner=4, layers=1, epochs=1)}
    quick, long, alone = Notes(), Notes(), Notes()
    train(CORPUS, method="em", **run, progress=quick)
    monkeypatch.setattr(module, "_WORTH_SAYING", 0.0)
    train(CORPUS, method="em", **run, progress=long)
    train(CORPUS, method="em", **{**run, "network": None}, progress=alone)
    assert not any("will take" in text for text in quick.texts)
    first, *_, own = (text for text in long.texts if "will take" in text)
    assert first.startswith("in all: will take about ")
    assert own.startswith("em: will take about ")
    assert [text for text in alone.texts if "will take" in text] == [own]
