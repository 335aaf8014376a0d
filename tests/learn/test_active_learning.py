"""Which sentences to annotate next."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.made_up import made_up_treebank
from sapwood.errors import UsageError
from sapwood.inference import Parser
from sapwood.inference.constraints import requirements
from sapwood.inference.forest.packed import ParseRequest, parse_forests
from sapwood.learn.active_learning import Candidate, Proposal, choose, score_candidates, select
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.trees.partial import UNKNOWN, PartialTree
from sapwood.trees.tree import Tree

TREES = made_up_treebank(120)
FEW, MORE = TREES[:30], [tree.words() for tree in TREES[30:]]
PARSER = Parser(PCFG().fit(PCFG.prepare(FEW)))


def cosine(one: tuple[str, ...], other: tuple[str, ...], every: list[tuple[str, ...]]) -> float:
    """Return how alike two sentences are, by the definition."""

    def vector(words: tuple[str, ...]) -> dict[str, float]:
        counts = Counter(word.lower() for word in words)
        return {
            word: count * math.log(len(every) / sum(word in map(str.lower, each) for each in every))
            for word, count in counts.items()
        }

    a, b = vector(one), vector(other)
    norms = [math.sqrt(sum(value**2 for value in each.values())) or 1.0 for each in (a, b)]
    return sum(value * b.get(word, 0.0) for word, value in a.items()) / (norms[0] * norms[1])


def chosen_slowly(candidates: list[Candidate], count: int, outliers: float, diversity: float) -> list[Candidate]:
    order = sorted(candidates, key=lambda one: (-one.entropy, one.place))
    rest = order[min(int(outliers * len(order)), max(len(order) - count, 0)) :]
    every, chosen = [one.words for one in rest], []
    left = list(rest)
    while left and len(chosen) < count:

        def worth(one: Candidate) -> float:
            alike = max((cosine(one.words, other.words, every) for other in chosen), default=0.0)
            return one.entropy * (1 - diversity * alike)

        best = max(left, key=worth)
        chosen.append(best)
        left.remove(best)
    return chosen


@examples(40)
@given(st.integers(0, 2**31), st.integers(1, 12), st.sampled_from([0.0, 0.1, 0.5]), st.sampled_from([0.0, 0.5, 1.0]))
def test_choosing_by_the_definition(seed, count, outliers, diversity):
    rng = np.random.default_rng(seed)
    words = ["the", "The", "a", "b", "c", "d"]
    candidates = [
        Candidate(place, tuple(rng.choice(words, size=rng.integers(1, 6)).tolist()), float(rng.random()))
        for place in range(1, 11)
    ]
    found = choose(candidates, count, outliers=outliers, diversity=diversity)
    assert found == chosen_slowly(candidates, count, outliers, diversity)


def test_sentences_like_the_chosen_ones_come_later():
    alike = [Candidate(1, ("a", "b"), 1.0), Candidate(2, ("a", "b"), 0.9), Candidate(3, ("c", "d"), 0.6)]
    assert [one.place for one in choose(alike, 2, outliers=0, diversity=0.5)] == [1, 3]
    assert [one.place for one in choose(alike, 2, outliers=0, diversity=0)] == [1, 2]
    assert [one.place for one in choose(alike, 2, outliers=0.4, diversity=0)] == [2, 3]
    assert choose([], 3) == []


def test_what_is_rated():
    sentences = [*MORE, FEW[0].words(), MORE[0], ["the"], ["the", "of", "of"]]
    rated = score_candidates(PARSER, sentences, known=[tree.words() for tree in FEW], shortest=3, longest=12)
    places = {one.place for one in rated}
    assert all(3 <= len(one.words) <= 12 and one.entropy >= 0 for one in rated)
    assert [list(one.words) for one in rated] == [sentences[one.place - 1] for one in rated]
    # Neither what has a tree, nor what occurs twice, nor what is too short, nor what has no parse.
    assert places.isdisjoint(range(len(MORE) + 1, len(sentences) + 1))
    assert any(one.entropy > 0.01 for one in rated)


def test_the_same_wherever_work_is_done():
    found = select(PARSER, MORE, 5, shortest=5)
    again = select(Parser(PARSER.grammar, threads=3), MORE, 5, shortest=5)
    assert [(one.place, one.entropy, str(one.result.tree)) for one in found] == [
        (one.place, one.entropy, str(one.result.tree)) for one in again
    ]
    assert len({one.place for one in found}) == 5
    assert all(one.result.marginals for one in found)
    assert found[0].to_dict()["place"] == found[0].place


@pytest.mark.parametrize("sure", [0.3, 0.7, 0.9, 1.0])
def test_what_is_sure_is_left_and_nothing_else_is_claimed(sure):
    left_out = 0
    for proposal in select(PARSER, MORE, 30, shortest=2, outliers=0):
        partial = proposal.partial(sure)
        tree = proposal.result.tree
        assert tree is not None
        assert partial.tree.words() == tree.words()
        assert PartialTree.parse(str(partial)) == partial
        probable = {(one.start, one.end, one.label): one.probability for one in proposal.result.marginals or []}
        spans = {span for span in partial.tree.spans() if span[2] != UNKNOWN}
        assert spans == {span for span in tree.spans() if probable.get(span, 1.0) >= sure}
        sure_tags = {place for place, tag in enumerate(tree.tags()) if probable[place, place + 1, tag] >= sure}
        known_tags = {place for place, tag in enumerate(partial.tree.tags()) if tag != UNKNOWN}
        assert known_tags <= sure_tags
        gone = [span for span in tree.spans() if span not in spans]
        left_out += len(gone)
        # In each phrase that is left out, or may be missing, something is unknown: nothing is taken for whole there.
        gone += [(one.start, one.end, one.label) for one in proposal.missing if one.probability > 1 - sure]
        assert all(not known_tags.issuperset(range(start, end)) for start, end, _ in gone)
        assert {one[:3] for one in proposal.missing}.isdisjoint(tree.spans())
        if not gone and known_tags == set(range(len(tree))):
            assert partial.tree == tree
        # It agrees with what the grammar can make.
        reading = ParseRequest(*requirements(partial.tree, PARSER.grammar.transform.root))
        assert next(parse_forests(PARSER, [reading], min_posterior=0.0)) is not None
    assert left_out or sure < 0.5


def test_doubtful_phrases_come_first_where_they_are_least_probable():
    (proposal,) = select(PARSER, MORE, 1)
    assert isinstance(proposal, Proposal)
    doubtful = proposal.uncertain(0.9)
    there = {(one.label, one.probability) for one in proposal.result.marginals or []}
    sureness = [value if (label, value) in there else 1 - value for label, value, _ in doubtful]
    assert sureness == sorted(sureness)
    assert sureness[-1] < 0.9
    assert len(proposal.uncertain(1.1)) == len(proposal.result.marginals or []) + len(proposal.missing)


def test_a_phrase_that_may_be_missing_is_doubtful():
    """Where a prepositional phrase goes is open; the tree that has it high lacks a noun phrase that is probable."""
    low = "(S (NP (N we)) (VP (V saw) (NP (NP (N men)) (PP (P with) (NP (N dogs))))))"
    high = "(S (NP (N we)) (VP (V saw) (NP (N men)) (PP (P with) (NP (N dogs)))))"
    corpus = PCFG.prepare([Tree.parse(low)] * 2 + [Tree.parse(high)] * 3)
    parser = Parser(PCFG().fit(corpus), threshold=0)
    (proposal,) = select(parser, [["we", "saw", "men", "with", "dogs"]], 1, shortest=1)
    assert str(proposal.result.tree) == f"(ROOT {high})"
    (missing,) = proposal.missing
    assert missing[:3] == (2, 5, "NP")
    assert proposal.uncertain(0.9) == [("NP", missing.probability, "men with dogs")]
    assert proposal.uncertain() == proposal.uncertain(0.9)
    even = replace(proposal, missing=(missing._replace(probability=0.25),))
    assert [("NP", 0.25, "men with dogs") in even.uncertain(sure) for sure in (0.74, 0.75, 0.76)] == [
        False,
        False,
        True,
    ]
    partial = proposal.partial(0.9)
    assert not partial.is_whole
    reading = ParseRequest(*requirements(partial.tree, "ROOT"))
    (forest,) = parse_forests(parser, [reading], min_posterior=0.0)
    assert forest is not None
    assert (2, 5) in zip(forest.start.tolist(), forest.end.tolist(), strict=True)
    assert proposal.partial(0.5).is_whole


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({"count": 0}, "count must be"), ({"count": 1, "outliers": 2.0}, "outliers must be"),
     ({"count": 1, "diversity": -1.0}, "diversity must be")],
)  # fmt: skip
def test_settings_are_checked(settings, problem):
    with pytest.raises(UsageError, match=problem):
        choose([], **settings)
