"""Fine-tuning of components: training that continues from the weights of a model."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood import PCFG, kernels
from sapwood.inference import Parser
from sapwood.inference.forest_crf import native_crf
from sapwood.learn.components.fine_tuning import ForestCRFFineTuning, SpanScorerFineTuning
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.trees.tree import Tree

TREES = made_up_treebank(120)
OLD = PCFG.prepare(TREES[:80])
NEW = PCFG.prepare([*TREES[80:], *[Tree.parse("(ROOT (FRAG (UH oh) (NP (DT the) (N blanora))))")] * 20])
SMALL = SpanScorerTrainer(embedding=8, hidden=8, layers=2, span_hidden=8, epochs=3)
CRF = ForestCRFTrainer(folds=2, epochs=2, bits=12)


@pytest.fixture(scope="module")
def scorer():
    return SMALL.fit(OLD)


@pytest.fixture(scope="module")
def crf():
    return CRF.fit(OLD, [[PCFG().fit(OLD)]] * 2)


def test_old_weights_score_as_before(scorer):
    kept = SpanScorerFineTuning.of(scorer, share=0.0, epochs=1).fit(NEW)
    assert "FRAG" in kept.labels
    assert "UH" in kept.tags
    words = [[*TREES[0].words()], ["unheard", "things", "the"]]
    old, new = ([scorer.labels.index(one), kept.labels.index(one)] for one in ("NP", "VP"))
    for sentence in words:
        before, after = scorer.scores(sentence).spans, kept.scores(sentence).spans
        for first, second in (old, new):
            assert np.array_equal(before[:, first], after[:, second])
    # New labels begin as the rarest one.
    bias = kept.dims.views(kept.weights)["labels.bias"]
    assert bias[kept.labels.index("FRAG")] == bias.min()


def test_fine_tuning_learns_the_new_trees(scorer):
    tuned = SpanScorerFineTuning.of(scorer, epochs=20, learning_rate=0.03, share=1.0).fit(NEW)
    assert tuned.tags[int(tuned.scores(["oh", "the", "blanora"]).tags[0].argmax())] == "UH"
    half = SpanScorerFineTuning.of(scorer, epochs=20, learning_rate=0.03, share=0.5).fit(NEW)
    none = SpanScorerFineTuning.of(scorer, epochs=20, learning_rate=0.03, share=0.0).fit(NEW)
    assert np.allclose(half.weights, (tuned.weights + none.weights) / 2, atol=1e-6)


def test_settings_tell_what_training_begins_with(scorer, crf):
    other = SMALL.replace(epochs=1).fit(OLD)
    assert SpanScorerFineTuning.of(scorer).settings() != SpanScorerFineTuning.of(other).settings()
    first = ForestCRFFineTuning(start=crf, steps=3)
    assert first.settings() != ForestCRFFineTuning(start=crf.with_scorer_weight(0.7), steps=3).settings()


@pytest.mark.parametrize("lasso", [0.0, 1e-3])
def test_sums_of_gradients_give_the_weights_that_training_begins_with(crf, lasso):
    native = native_crf(crf, Parser(PCFG().fit(OLD), crf=False).compiled)
    before = np.array(native.weights)
    trainer = kernels.crf_trainer(native, 0.02, 0.02, lasso, 0.1, 50)
    assert trainer.steps == 50
    kernels.crf_finish(trainer, native)
    assert np.allclose(native.weights, before, rtol=1e-4, atol=1e-7)
    # Without steps the weights begin at zero.
    kernels.crf_finish(kernels.crf_trainer(native, 0.02, 0.02, lasso, 0.1), native)
    assert not native.weights.any()


def test_a_crf_of_many_steps_changes_little(crf):
    grammars = [[PCFG().fit(NEW)]] * 2

    def change(steps):
        tuned = ForestCRFFineTuning(start=crf, steps=steps, folds=2, epochs=2).fit(NEW, grammars)
        assert (tuned.frequent, tuned.groups, tuned.bits) == (crf.frequent, crf.groups, crf.bits)
        return float(np.abs(tuned.weights() - crf.weights()).sum())

    whole, half = (
        ForestCRFFineTuning(start=crf, steps=10, folds=2, epochs=2, share=share).fit(NEW, grammars).weights()
        for share in (1.0, 0.5)
    )
    assert np.allclose(half, (whole + crf.weights()) / 2, atol=1e-6)
    few, many = change(10), change(100_000)
    assert 0 < many < few / 100
