"""Taggers from tagged sequences."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood.errors import InputError
from sapwood.evaluate.tags import evaluate_tagger
from sapwood.inference import Parser
from sapwood.learn.lpcfg.lexical import LexicalSettings
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.registry import make_learner
from sapwood.learn.tagging import held_out_sequences, tagged_corpus
from sapwood.pipeline.train import train

TREES = made_up_treebank(150)
SEQUENCES = [list(zip(tree.words(), tree.tags(), strict=True)) for tree in TREES]
FEW, TEST = SEQUENCES[:100], SEQUENCES[100:]
SETTINGS = {
    "pcfg": {},
    "em": {"states": 4, "iterations": 5},
    "spectral": {"states": 4},
    "pivot": {"states": 4},
    "pivot+em": {"states": 4, "iterations": 3},
    "split-merge": {"cycles": 1, "iterations": 5, "smoothing_iterations": 2},
    "cluster": {"states": 4},
}


@pytest.mark.parametrize("method", list(SETTINGS))
def test_every_learner_learns_taggers(method):
    learner = make_learner(method, **SETTINGS[method])
    corpus = tagged_corpus(learner, FEW)
    dev = held_out_sequences(learner, TEST, corpus)
    trained = train(corpus, sequences=True, method=learner, dev=dev)
    result = evaluate_tagger(Parser(trained), TEST)
    assert result.accuracy == pytest.approx(dev.score(trained).tag_accuracy)
    # The most frequent tag of each word, and of all where it is not known, does worse.
    counts: dict[str, dict[str, int]] = {}
    for word, tag in (pair for pairs in FEW for pair in pairs):
        counts.setdefault(word, {}).setdefault(tag, 0)
        counts[word][tag] += 1
    best = {word: max(tags, key=lambda tag: tags[tag]) for word, tags in counts.items()}
    plain = [best.get(word, "N") == tag for pairs in TEST for word, tag in pairs]
    assert result.accuracy > 100 * np.mean(plain) - 0.5
    assert result.accuracy > 90


def test_without_hidden_states_it_is_the_hmm_of_tags():
    """Posteriors of tags against sums over all sequences of tags, with transitions from counts."""
    data = [[("a", "X"), ("b", "Y"), ("a", "Y")], [("b", "X"), ("a", "X")], [("a", "Y"), ("b", "Y"), ("b", "X")]] * 3
    learner = PCFG(lexical=LexicalSettings(rare=0))
    parser = Parser(learner.fit(tagged_corpus(learner, data)), threshold=0, decoder="recall")
    grammar = parser.grammar
    tags = {name: a for a, name in enumerate(grammar.symbols) if a >= grammar.n_interminals}
    first, steps, last = {}, {}, {}
    for pairs in data:
        names = [tag for _, tag in pairs]
        first[names[0]] = first.get(names[0], 0) + 1
        for place, tag in enumerate(names):
            if place + 2 < len(pairs):
                steps[tag, names[place + 1]] = steps.get((tag, names[place + 1]), 0) + 1
            elif place + 2 == len(pairs):
                last[tag, names[place + 1]] = last.get((tag, names[place + 1]), 0) + 1
    words = ["a", "b", "b", "a"]
    whole, sums = 0.0, np.zeros((4, 2))
    for names in product("XY", repeat=4):
        weight = first.get(names[0], 0) / len(data)
        for place, (tag, following) in enumerate(pairwise(names)):
            table = steps if place < 2 else last
            out = sum(counts for each in (steps, last) for (left, _), counts in each.items() if left == tag)
            weight *= table.get((tag, following), 0) / out
        for tag, word in zip(names, words, strict=True):
            weight *= float(grammar.lexical_vector(tags[tag], word)[0])
        whole += weight
        for place, tag in enumerate(names):
            sums[place, "XY".index(tag)] += weight
    chart = parser.chart(words)
    assert chart is not None
    found = chart.label_posteriors()
    assert np.exp(chart.log_probability) == pytest.approx(whole, rel=1e-6)
    for place, name in product(range(4), "XY"):
        assert found.get((place, place + 1, name), 0.0) == pytest.approx(
            sums[place, "XY".index(name)] / whole, abs=1e-6
        )


def test_taggers_learn_from_text_and_together():
    text = [[word for word, _ in pairs] for pairs in TEST]
    trained = train(
        FEW[:40],
        sequences=True,
        text=text,
        text_use="em",
        semi_supervised={"rounds": 1},
        ensemble=2,
        **SETTINGS["split-merge"],
    )
    assert len(trained.grammars) == 2
    assert evaluate_tagger(Parser(trained), TEST).accuracy > 90


def test_empty_sequences_are_left_out():
    learner = make_learner("em", states=2, iterations=1)
    assert tagged_corpus(learner, [[], *FEW[:3], []]).n_trees == 3
    with pytest.raises(InputError, match="no sequences"):
        held_out_sequences(learner, [[]], tagged_corpus(learner, FEW[:3]))
