"""Charts of a grammar, of an ensemble and of a CRF share one interface."""

import math
from collections import Counter

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood.errors import UsageError
from sapwood.inference import Parser
from sapwood.inference.decode import ParseDistribution
from sapwood.inference.ensemble import ProductChart
from sapwood.learn import PCFG
from sapwood.model import ParserModel
from sapwood.model.forest_crf import ForestCRF

TREES = made_up_treebank(60)
WORDS = TREES[0].words()


def parser(kind: str) -> Parser:
    grammar = PCFG().fit(PCFG.prepare(TREES))
    model = ParserModel.from_grammars([grammar] * (2 if kind == "product" else 1))
    return Parser(model.replace(crf=ForestCRF.identity()) if kind == "crf" else model)


@pytest.mark.parametrize("kind", ["grammar", "product", "crf"])
def test_charts_are_distributions(kind):
    chart = parser(kind).chart(WORDS)
    assert isinstance(chart, ParseDistribution)
    assert math.isfinite(chart.log_partition)
    assert (chart.log_partition == chart.log_probability) == (kind != "crf")
    marginals = chart.label_posteriors()
    drawn = chart.sample(WORDS, 300, np.random.default_rng(0))
    assert all(tree.words() == WORDS for tree in drawn)
    spans = Counter(pair for tree in drawn for pair in {span[:2] for span in tree.spans()})
    phrases = {(start, end): value for (start, end, _), value in marginals.items() if end - start > 1}
    for span, probability in phrases.items():
        assert spans[span] / 300 >= probability - 0.15
    if isinstance(chart, ProductChart):
        with pytest.raises(UsageError, match="viterbi takes one grammar"):
            chart.best(WORDS)
    else:
        assert chart.best(WORDS).words() == WORDS
