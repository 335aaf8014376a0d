"""Training a layer: gradients against differences, steps against numpy, and whole runs."""

from __future__ import annotations

import math
import weakref
from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from helpers.training_helpers import Interrupted, Lines, Notes, PullThePlug
from sapwood import Parser, evaluate_parser, kernels, train
from sapwood.errors import InputError, UsageError
from sapwood.inference.chart.posteriors import Forest, Workspace
from sapwood.inference.forest_crf import native_crf
from sapwood.learn import PCFG
from sapwood.learn.components import forest_crf as module
from sapwood.learn.components.forest_crf import ForestCRFTrainer, _forest, _GoldNodes
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.model import ParserModel
from sapwood.model.file import CompressedGrammar
from sapwood.model.forest_crf import DENSE, FeatureVocabulary, ForestCRF
from sapwood.runtime.executor import Threads

BITS = 12
QUICK = ForestCRFTrainer(folds=2, epochs=2, bits=16, min_count=2)
SOME = replace(QUICK, held_out=30)
LEARNER = SplitMerge(cycles=1, iterations=3, smoothing_iterations=2, min_support=2)


@pytest.fixture(scope="module")
def trees():
    return made_up_treebank(80)


@pytest.fixture(scope="module")
def corpus(trees):
    return LEARNER.prepare(trees)


def layer_of(corpus, rng, **options) -> ForestCRF:
    sentences = [corpus.sentence(tree) for tree in range(corpus.n_trees)]
    return ForestCRF(
        bits=BITS,
        places=np.arange(1 << BITS, dtype=np.uint32),
        values=rng.normal(scale=0.1, size=1 << BITS).astype(np.float32),
        dense=np.array([1.0, -1.0, 0.1, 1.0, 0.2, -0.1, 0.1, 0.3, *np.zeros(DENSE - 8)]),
        frequent=FeatureVocabulary.count(sentences, least=2),
        **options,
    )


@pytest.mark.parametrize("members", [1, 2])
def test_gradients_are_those_of_the_loss(corpus, members):
    rng = np.random.default_rng(members)
    grammars = [LEARNER.replace(random_state=seed).fit(corpus) for seed in range(members)]
    parser, workspace = Parser(grammars), Workspace()
    layer = layer_of(corpus, rng)

    def loss(changed: ForestCRF, tree: int):
        native = native_crf(changed, parser.compiled)
        forest = _forest(_GoldNodes(corpus, parser), changed, native, workspace, tree)
        return kernels.crf_gradient(native, forest, workspace.native)

    tree = int(np.argmax(np.diff(corpus.offsets)))
    found = loss(layer, tree)
    assert found.loss > 0
    totals = np.bincount(found.places, weights=found.values.astype(float), minlength=1 << BITS)
    step = 1e-2
    for place in np.argsort(-np.abs(totals))[:15]:
        values = [layer.values.copy() for _ in range(2)]
        values[0][place] += step
        values[1][place] -= step
        up, down = (loss(replace(layer, values=one), tree).loss for one in values)
        width = float(values[0][place]) - float(values[1][place])
        assert (up - down) / width == pytest.approx(totals[place], abs=2e-3, rel=2e-3)
    for number in range(DENSE):
        up, down = (
            loss(replace(layer, dense=layer.dense + sign * 1e-5 * np.eye(DENSE)[number]), tree).loss for sign in (1, -1)
        )
        assert (up - down) / 2e-5 == pytest.approx(found.dense[number], abs=1e-4, rel=1e-4)


def test_the_tree_to_learn_is_the_right_one_where_the_forest_has_it(corpus):
    parser, workspace = Parser(LEARNER.fit(corpus)), Workspace()
    layer = layer_of(corpus, np.random.default_rng(0), threshold=0.0)
    gold, native, hits = _GoldNodes(corpus, parser), native_crf(layer, parser.compiled), 0
    for tree in range(20):
        forest = _forest(gold, layer, native, workspace, tree)
        arrays = Forest(*forest.forest.arrays())
        size = len(arrays.node_symbol)
        worth = gold.worth(tree, arrays)
        n_right = int((worth > 0).sum())
        if n_right == np.diff(corpus.offsets)[tree]:
            hits += 1
            assert np.array_equal(forest.gold[:size].astype(bool), worth > 0)
        # Whatever the forest has, the target is one tree: 2 n - 1 nodes, n - 1 edges.
        assert forest.gold[:size].sum() == 2 * arrays.n - 1
        assert forest.gold[size + len(arrays.group_rule) :].sum() == arrays.n - 1
    assert hits > 10


def test_steps_are_those_of_dual_averaging(corpus):
    parser, workspace = Parser(LEARNER.fit(corpus)), Workspace()
    layer = replace(
        layer_of(corpus, np.random.default_rng(1)), places=np.zeros(0, np.uint32), values=np.zeros(0, np.float32)
    )
    native, gold = native_crf(layer, parser.compiled), _GoldNodes(corpus, parser)
    forests = [_forest(gold, layer, native, workspace, tree) for tree in range(12)]
    rate, dense_rate, lasso, ridge = 0.3, 0.05, 0.02, 0.4
    trainer = kernels.crf_trainer(native, rate, dense_rate, lasso, ridge)
    total, squares = np.zeros(1 << BITS), np.zeros(1 << BITS)
    dense_total, dense_squares = np.zeros(DENSE), np.zeros(DENSE)
    for step in range(1, 4):
        batch = [kernels.crf_gradient(native, forest, workspace.native) for forest in forests[4 * step - 4 : 4 * step]]
        kernels.crf_update(trainer, native, batch)
        gradient = sum(np.bincount(one.places, weights=one.values.astype(float), minlength=1 << BITS) for one in batch)
        total, squares = total + gradient, squares + gradient**2
        dense = sum(one.dense for one in batch)
        dense_total, dense_squares = dense_total + dense, dense_squares + dense**2
    kernels.crf_finish(trainer, native)
    size = np.maximum(np.abs(total) - lasso * 3, 0)
    expected = -np.sign(total) * rate * size / (1e-6 + np.sqrt(squares) + rate * ridge * 3)
    np.testing.assert_allclose(native.weights, expected, atol=1e-4)
    assert (native.weights == 0).any()
    moved = dense_squares > 0
    np.testing.assert_allclose(
        native.dense[moved],
        (layer.dense - dense_rate * dense_total / np.sqrt(np.where(moved, dense_squares, 1)))[moved],
    )


def test_folds_are_of_trees_that_stand_together():
    folds = ForestCRFTrainer(folds=4).fold_of(1000)
    assert np.bincount(folds).min() >= 200
    assert np.count_nonzero(np.diff(folds)) == 19
    assert set(ForestCRFTrainer(folds=3).fold_of(3).tolist()) == {0, 1, 2}
    with pytest.raises(InputError, match="at least as many trees"):
        ForestCRFTrainer(folds=3).fold_of(2)


@pytest.mark.parametrize(
    ("n_trees", "held_out"), [(65_218, 16_304), (20_001, 5000), (100_000, 20_000), (80, 30), (5, 4)]
)
def test_some_trees_are_held_out_evenly(n_trees, held_out):
    learner = ForestCRFTrainer(held_out=held_out)
    out = learner.fold_of(n_trees) == 0
    assert learner.n_fits == 1
    assert set(learner.fold_of(n_trees).tolist()) == {0, -1}
    assert out.sum() == pytest.approx(held_out, rel=0.02, abs=10)
    for part in np.array_split(out, 4) if n_trees > 1000 else []:
        assert part.sum() == pytest.approx(held_out / 4, rel=0.05)
    # In groups, the last of which may be a smaller one.
    groups = np.diff(np.flatnonzero(np.diff(out, prepend=False, append=False)))[::2]
    assert set(groups[:-1] % min(50, max(1, n_trees // 16))) <= {0}


def test_something_must_be_held_out_and_something_left():
    assert (ForestCRFTrainer(held_out=1).fold_of(1000) == 0).sum() == 50
    assert (ForestCRFTrainer(held_out=999).fold_of(1000) == -1).sum() == 50
    with pytest.raises(InputError, match="needs more than these, not 1000 in all"):
        ForestCRFTrainer(held_out=1000).fold_of(1000)


def test_settings_name_what_was_asked_for():
    assert "held_out" not in QUICK.settings()
    assert QUICK.settings()["folds"] == 2
    assert "folds" not in SOME.settings()
    assert SOME.settings()["held_out"] == 30
    assert repr(ForestCRFTrainer(l2=0.5).replace(folds=3)) == "ForestCRFTrainer(folds=3, l2=0.5)"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"folds": 1}, "folds must be at least 2, not 1"),
        ({"held_out": 0}, "held_out must be at least 1, not 0"),
        ({"epochs": 0}, "epochs"),
        ({"feature_groups": ("magic",)}, "magic"),
        ({"bits": 27}, "bits must be at least 8 and at most 26, not 27"),
        ({"threshold": 1.0}, "threshold must be at least 0 and below 1"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(UsageError, match=message):
        ForestCRFTrainer(**settings)


def test_a_layer_makes_a_grammar_better_and_its_loss_falls(trees, tmp_path):
    log = Lines()
    learner = ForestCRFTrainer(folds=2, epochs=4, bits=18, min_count=2)
    corpus = PCFG.prepare(trees)
    fold_of = learner.fold_of(corpus.n_trees)
    folds = [[PCFG().fit(corpus.part(np.flatnonzero(fold_of != fold)))] for fold in range(2)]
    layer = learner.fit(corpus, folds, log=log)
    losses = [line["loss"] for line in log.of("layer")]
    assert len(losses) == 4
    assert losses[-1] < 0.5 * losses[0]
    model, more = ParserModel.from_grammars(PCFG().fit(corpus)), made_up_treebank(60, seed=1)
    plain, better = (evaluate_parser(Parser(one), more) for one in (model, model.replace(crf=layer)))
    assert better.f1 >= plain.f1 - 0.5
    assert better.failed == plain.failed


@pytest.mark.parametrize(("ensemble", "layer"), [(1, QUICK), (2, QUICK), (1, SOME), (2, replace(SOME, members=1))])
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads_interrupted_or_not(
    trees, tmp_path, ensemble, layer
):
    run = {"method": LEARNER, "crf": layer, "ensemble": ensemble}
    train(trees, **run, output=tmp_path / "one")
    train(trees, **{**run, "method": LEARNER.replace(threads=3)}, output=tmp_path / "three")
    one = (tmp_path / "one").read_bytes()
    assert one == (tmp_path / "three").read_bytes()
    assert ParserModel.load(tmp_path / "one").crf is not None
    assert len(ParserModel.load(tmp_path / "one").grammars) == ensemble
    stops = 0
    for at in (6, 12, 60, 150, 250):
        try:
            train(trees, **run, output=tmp_path / "torn", resume=stops > 0, progress=PullThePlug(at))
        except Interrupted:
            stops += 1
    assert stops > 1
    train(trees, **run, output=tmp_path / "torn", resume=True)
    assert one == (tmp_path / "torn").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "three", "torn"]


def test_a_run_with_another_layer_is_not_gone_on_with(trees, tmp_path):
    with pytest.raises(Interrupted):
        train(trees, method=LEARNER, crf=QUICK, output=tmp_path / "m", progress=PullThePlug(150))
    other = replace(QUICK, folds=3)
    with pytest.raises(UsageError, match="other settings or trees"):
        train(trees, method=LEARNER, crf=other, output=tmp_path / "m", resume=True)


def test_a_layer_learns_from_held_out_trees_and_the_grammar_from_the_others(trees, corpus, monkeypatch):
    seen, fitted = [], []
    monkeypatch.setattr(module, "_forest", lambda gold, *rest: seen.append(rest[-1]) or _forest(gold, *rest))
    fit = SplitMerge.fit
    monkeypatch.setattr(
        SplitMerge, "fit", lambda self, corpus, **options: fitted.append(corpus) or fit(self, corpus, **options)
    )
    notes = Notes()
    model = train(corpus, method=LEARNER, crf=SOME, progress=notes)
    out = np.flatnonzero(SOME.fold_of(corpus.n_trees) == 0)
    assert seen == out.tolist()
    assert [one.n_trees for one in fitted] == [80, 80 - len(out)]
    others = np.setdiff1d(np.arange(80), out)
    assert [fitted[1].sentence(tree) for tree in range(len(others))] == [corpus.sentence(tree) for tree in others]
    assert notes.texts == ["grammar 1 of 1: split-merge", f"for the CRF: trees without {len(out)} to learn from"]
    assert model.meta["layer"] == SOME.settings()
    assert len(model.crf.places)


def test_grammars_of_folds_are_taken_one_by_one_and_let_go(corpus, monkeypatch):
    """Of large ones there is room for one, and for its weights as the kernels have them."""
    grammars, words, looks = [], [], []

    def unpacked(packed: CompressedGrammar):
        grammar = packed.unpacked()
        grammars.append(weakref.ref(grammar))
        words.append(weakref.ref(grammar.emissions))
        return grammar

    def look(*given):
        looks.append(([one() is None for one in grammars], [one() is None for one in words]))
        return _forest(*given)

    monkeypatch.setattr(module, "_forest", look)
    packed = [CompressedGrammar(LEARNER.fit(corpus))] * 3
    forests = replace(QUICK, folds=3).forests(corpus, ([unpacked(one)] for one in packed))
    assert len(forests.forests) == len(looks) == corpus.n_trees
    assert [gone for n, gone in enumerate(looks) if gone not in looks[:n]] == [
        ([True] * fold, [True] * (fold - 1) + [False]) for fold in (1, 2, 3)
    ]
    assert words[-1]() is None
    assert not len(forests.symbols.tensors)


def test_every_fold_needs_its_grammars(corpus):
    with pytest.raises(UsageError, match="2 folds needs grammars for each, not for 1"):
        QUICK.fit(corpus, [[LEARNER.fit(corpus)]])


def test_workers_do_not_matter(corpus):
    folds = [[LEARNER.fit(corpus)]] * 2
    ways = [QUICK.fit(corpus, folds, workers=Threads(count)) for count in (1, 4)]
    assert np.array_equal(ways[0].places, ways[1].places)
    assert np.array_equal(ways[0].values, ways[1].values)
    assert math.isfinite(float(np.abs(ways[0].values).max()))


def test_the_log_tells_of_the_layer(trees, tmp_path):
    from sapwood.runtime.log import read_log

    train(trees, method=LEARNER, crf=QUICK, output=tmp_path / "m", log=tmp_path / "log")
    lines = read_log(tmp_path / "log")
    assert [line["epoch"] for line in lines if line["event"] == "layer"] == [1, 2]
    assert lines[0]["settings"]["layer"]["folds"] == 2


def test_forests_serve_learners_with_other_groups(corpus):
    fold_of = QUICK.fold_of(corpus.n_trees)
    grammars = [[LEARNER.fit(corpus.part(np.flatnonzero(fold_of != fold)))] for fold in range(QUICK.folds)]
    fewer = replace(QUICK, feature_groups=("words", "lengths"))
    forests = QUICK.forests(corpus, grammars)
    for learner in (QUICK, fewer):
        whole, again = learner.fit(corpus, grammars), learner.fit_forests(forests)
        assert again.groups == whole.groups
        for name in ("places", "values", "dense"):
            assert np.array_equal(getattr(again, name), getattr(whole, name))
    assert not np.array_equal(QUICK.fit_forests(forests).places, fewer.fit_forests(forests).places)
