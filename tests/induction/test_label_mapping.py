"""Labelled scores of induced trees."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from sapwood import Tree, induce
from sapwood.induction.evaluation import Gold, report, score_induction
from sapwood.induction.induced_model import InducedModel
from sapwood.induction.label_mapping import LabelScorer, v_measure
from sapwood.induction.parser import InducedParser

TREES = [
    "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .))",
    "(S (NP (DT the) (JJ old) (NN cat)) (VP (VBZ sleeps)))",
    "(S (NP (PRP she)) (VP (VBZ sees) (NP (DT the) (JJ small) (NN bird))))",
]


def reference_labelled_f1(gold: list[dict], induced: list[dict]) -> float:
    """Return the largest labelled F1 over all mappings of induced labels to gold labels."""
    names = sorted({label for row in induced for label in row.values()})
    targets = sorted({label for row in gold for label in row.values()})
    total = sum(map(len, gold)) + sum(map(len, induced))
    best = 0
    for chosen in itertools.product(targets, repeat=len(names)):
        mapped = dict(zip(names, chosen, strict=True))
        pairs = zip(gold, induced, strict=True)
        best = max(best, sum(own.get(span) == mapped[label] for own, row in pairs for span, label in row.items()))
    return 200 * best / total


def reference_v_measure(pairs: list[tuple[str, str]]) -> list[float]:
    """Return homogeneity, completeness and V-measure by their definition: sums over pairs of labels."""

    def explained(side: int) -> float:
        joint, own, other = Counter(pairs), Counter(pair[side] for pair in pairs), Counter(p[1 - side] for p in pairs)
        entropy = -sum(n / len(pairs) * math.log(n / len(pairs)) for n in own.values())
        given = -sum(n / len(pairs) * math.log(n / other[pair[1 - side]]) for pair, n in joint.items())
        return 1 - given / entropy if entropy else 1.0

    both = [explained(0), explained(1)]
    return [*(100 * one for one in both), 200 * both[0] * both[1] / sum(both) if sum(both) else 0.0]


@pytest.mark.parametrize("seed", range(5))
def test_best_mapping_agrees_with_all_mappings(seed):
    rng = np.random.default_rng(seed)
    spans = [(begin, end) for begin in range(5) for end in range(begin + 2, 6) if (begin, end) != (0, 5)]

    def drawn(names: str) -> list[dict]:
        keep = rng.random((4, len(spans))) < 0.6
        return [{span: rng.choice(list(names)).item() for span, is_in in zip(spans, row, strict=True) if is_in}
                for row in keep]  # fmt: skip

    gold, induced = drawn("NVP"), drawn("abcd")
    scorer = LabelScorer()
    for own, found in zip(gold, induced, strict=True):
        scorer.add(5, {**own, (0, 5): "S"}, {**found, (0, 5): "e"})
    assert scorer.labelled_f1() == pytest.approx(reference_labelled_f1(gold, induced))
    pairs = [
        (own[span], found[span]) for own, found in zip(gold, induced, strict=True) for span in own if span in found
    ]
    assert list(scorer.labels()) == pytest.approx(reference_v_measure(pairs))


def test_v_measure_of_extremes():
    assert v_measure({("N", "1"): 3, ("V", "2"): 2}) == pytest.approx((100, 100, 100))
    assert v_measure({("N", "1"): 2, ("V", "1"): 2}) == pytest.approx((0, 100, 0))
    assert v_measure({("N", "1"): 2, ("N", "2"): 2}) == pytest.approx((100, 0, 0))
    empty = LabelScorer()
    assert (empty.labels(), empty.tags(), empty.labelled_f1(), empty.mapping()) == (None, None, 0.0, {})


def test_models_with_states_have_labels_and_all_have_tags():
    trees = [Tree.parse(line) for line in TREES * 4]
    gold = [Gold.of_tree(tree) for tree in trees]
    assert gold[0].labels == {(0, 5): "S", (0, 2): "NP", (2, 5): "VP", (3, 5): "NP"}
    rows = [one.tokens for one in gold]
    grammar = induce(rows, tags=True, model="pcfg", states=3, iterations=20).model
    scores = score_induction(grammar, gold, states=True)
    assert scores.labels.tags().v_measure == 100
    assert all(label.startswith("X-") for label in scores.labels.mapping())
    assert 1 < scores.perplexity < 20
    table = report(grammar, trees, tags=True)
    assert [line.split("  ")[0] for line in table.splitlines() if "branching" in line] == [
        "left-branching", "right-branching",
    ] * 2  # fmt: skip


def test_probability_of_words_under_a_dependency_model():
    rows = [Gold.of_tree(Tree.parse(line)).tokens for line in TREES * 4]
    model = induce(rows, tags=True, model="dmv").model
    assert isinstance(model, InducedModel)
    result = InducedParser(model).parse_one([("sees", "VBZ"), (".", ".")])
    terminal = model.terminal_numbers["VBZ"]
    alone = model.heads.root[terminal] * model.heads.stop[:, terminal, 0].prod()
    lexicon = model.emissions.lexicon
    word = model.emissions.row(lexicon.terminal("sees", True))[terminal]
    assert result.log_probability == pytest.approx(math.log(alone * word))
    spans = induce(rows, tags=True, model="ccm").model
    assert InducedParser(spans).parse_one(rows[0]).log_probability is None
    assert score_induction(spans, [Gold.of_tree(Tree.parse(TREES[0]))]).perplexity is None
