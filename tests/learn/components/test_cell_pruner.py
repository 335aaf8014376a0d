"""Closed cells: features and losses against twins, what is learned, and what parsers do with it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import f1, made_up_treebank
from oracles.closing import cell_score, cell_slots
from sapwood import kernels
from sapwood.errors import InputError, ModelError, UsageError
from sapwood.grammar.emissions import offsets_of
from sapwood.grammar.tensor_grammar import TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.chart.chart import build_chart, coarse_forest
from sapwood.inference.chart.compiled import compile_grammar
from sapwood.inference.chart.posteriors import Workspace
from sapwood.inference.constraints import FORBIDDEN, FREE, Constraints, compile_constraints
from sapwood.learn.components.cell_pruner import CellData, cells_of, fit_cell_pruner
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.learn.lpcfg.split_merge import SplitMerge
from sapwood.model import ParserModel
from sapwood.model.cell_pruner import CellPruner
from sapwood.trees import Corpus

TREES = made_up_treebank(220)
OTHERS = made_up_treebank(40, seed=7)
BITS = 10


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus.from_trees(TREES)


@pytest.fixture(scope="module")
def grammar(corpus) -> TensorGrammar:
    return SplitMerge(cycles=1, iterations=3, smoothing_iterations=2).fit(corpus)


@pytest.fixture(scope="module")
def closing(grammar, corpus) -> CellPruner:
    return fit_cell_pruner(grammar, corpus, keep=0.97, bits=12)


@pytest.fixture(scope="module")
def closed(grammar, closing) -> ParserModel:
    return ParserModel.from_grammars(grammar).replace(cell_pruner=closing)


def random_cells(seed: int, lengths: tuple[int, ...] = (1, 2, 3, 8, 14, 33)) -> CellData:
    rng = np.random.default_rng(seed)
    sizes = np.array(lengths)
    counts = sizes * (sizes + 1) // 2
    return CellData(
        offsets_of(sizes),
        offsets_of(counts),
        rng.integers(6, size=sizes.sum()).astype(np.int32),
        rng.integers(40, size=sizes.sum()).astype(np.int32),
        rng.random(counts.sum()) < 0.3,
    )


def listed(cells: CellData):
    """Yield tags and kinds of each sentence, and of each cell that is not always open its ends and its number."""
    for s, (begin, end) in enumerate(zip(cells.offsets[:-1], cells.offsets[1:], strict=True)):
        tags, kinds, n = cells.tags[begin:end].tolist(), cells.kinds[begin:end].tolist(), int(end - begin)
        spans = [(i, j) for j in range(2, n + 1) for i in range(j - 1) if j - i < n]
        yield tags, kinds, [(i, j, int(cells.cell_offsets[s]) + j * (j - 1) // 2 + i) for i, j in spans]


def test_scores_are_sums_over_features():
    weights = np.random.default_rng(0).normal(size=1 << BITS).astype(np.float32)
    cells = random_cells(0)
    found = cells.scores(weights)
    expected = np.full(len(found), np.nan)
    for tags, kinds, spans in listed(cells):
        for i, j, at in spans:
            expected[at] = cell_score(weights, tags, kinds, i, j)
    assert np.isfinite(expected).sum() > 500
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_every_template_has_slots_of_its_own():
    """With a large table hardly two features of a cell meet: none is another one under a second name."""
    slots = cell_slots([1, 2, 3, 4, 5], [7, 8, 9, 10, 11], 1, 4, 32)
    assert len(slots) == len(set(slots)) == 21


def test_loss_and_gradient():
    rng = np.random.default_rng(1)
    cells, weights = random_cells(1, (3, 5, 9)), rng.normal(size=1 << BITS)
    loss, gradient = cells.loss(weights, penalty=0.7)
    expected = 0.7 * float(weights @ weights) / 2
    slope = 0.7 * weights
    for tags, kinds, spans in listed(cells):
        for i, j, at in spans:
            slots = cell_slots(tags, kinds, i, j, BITS)
            score = weights[slots].sum()
            expected += np.logaddexp(0, -score if cells.open[at] else score)
            np.add.at(slope, slots, 1 / (1 + np.exp(-score)) - cells.open[at])
    assert loss == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)


def test_parts_are_sentences():
    cells = random_cells(2)
    part = cells.part([1, 4])
    weights = np.random.default_rng(0).normal(size=1 << BITS).astype(np.float32)
    pieces = [slice(*cells.cell_offsets[s : s + 2]) for s in (1, 4)]
    np.testing.assert_array_equal(part.scores(weights), np.concatenate([cells.scores(weights)[one] for one in pieces]))
    np.testing.assert_array_equal(part.open, np.concatenate([cells.open[one] for one in pieces]))


def slow_tags(compiled, leaves) -> list[int]:
    """Return the most probable tag of each word, by all sequences of tags of the Markov model, forward and backward."""
    tables = compiled.boundary_model
    n_tags = len(tables.transitions) - 1
    words = np.zeros((len(leaves), n_tags))
    for word, leaf in zip(words, leaves, strict=True):
        np.add.at(word, tables.tag[leaf.symbols], tables.tag_share[leaf.symbols] * leaf.values)
    forward, backward = [np.eye(n_tags + 1)[n_tags]], [np.eye(n_tags + 1)[n_tags]]
    for word in words:
        forward.append((forward[-1] @ tables.transitions) * np.append(word, 0.0))
    for word in words[::-1]:
        backward.append(np.append(word, 0.0) * (tables.transitions @ backward[-1]))
    posterior = [
        (one * (tables.transitions @ other))[:n_tags] for one, other in zip(forward[1:], backward[-2::-1], strict=True)
    ]
    return [int(np.argmax(one)) for one in posterior]


def test_tags(grammar):
    compiled, workspace = compile_grammar(grammar, np.float32), Workspace()
    parser = Parser(grammar)
    for tree in OTHERS:
        leaves = parser._lookup.score(tree.words())[1]
        found = kernels.best_tags(compiled.native_coarse, leaves, workspace.native)
        assert found.tolist() == slow_tags(compiled, leaves)


def test_cells_are_those_of_the_trees(grammar, corpus, closing):
    cells = cells_of(grammar, corpus, closing)
    kept = [tree for tree in range(corpus.n_trees) if len(corpus.sentence(tree)) >= 3]
    assert len(cells.offsets) == len(kept) + 1
    for number, tree in enumerate(kept[:20]):
        words = corpus.sentence(tree)
        assert cells.offsets[number + 1] - cells.offsets[number] == len(words)
        own = slice(*corpus.offsets[tree : tree + 2])
        first = corpus.start[own].min()
        spans = set(zip((corpus.start[own] - first).tolist(), (corpus.end[own] - first).tolist(), strict=True))
        begin = int(cells.cell_offsets[number])
        for j in range(1, len(words) + 1):
            for i in range(j):
                assert cells.open[begin + j * (j - 1) // 2 + i] == ((i, j) in spans)


def test_kinds_of_words(grammar, closing):
    lexicon, kinds = grammar.lexicon, closing.word_ids(grammar.lexicon)
    assert 0 < len(closing.words) < lexicon.n_words
    for terminal in range(lexicon.n_terminals):
        if terminal in closing.words or terminal >= lexicon.n_words:
            assert kinds[terminal] == terminal
        else:
            assert kinds[terminal] == lexicon.n_words + lexicon.word_signature[terminal]
    frequent = {tree.words()[k] for tree in TREES for k in range(len(tree.words()))}
    assert {"the", "of"} <= {lexicon.words[word] for word in closing.words} <= frequent


def test_what_is_learned(grammar, corpus, closing):
    """Of other trees about as many nodes stay open as was asked for, and most other cells are closed."""
    others = cells_of(grammar, Corpus.from_trees(made_up_treebank(200, seed=7)), closing)
    scores = others.scores(closing.weights)
    counted = ~np.isnan(scores)
    kept = (scores >= closing.threshold)[counted & others.open].mean()
    left = (scores >= closing.threshold)[counted & ~others.open].mean()
    assert 0.95 < kept < 0.99, kept
    assert left < 0.25, left
    again = fit_cell_pruner(grammar, corpus, keep=0.97, bits=12)
    assert again.threshold == closing.threshold
    np.testing.assert_array_equal(again.weights, closing.weights)
    stricter = fit_cell_pruner(grammar, corpus, keep=0.9, bits=12)
    assert stricter.threshold > closing.threshold
    np.testing.assert_array_equal(stricter.weights, closing.weights)


def test_learning_refuses(grammar, corpus):
    for keep in (0.0, 1.0, -1.0):
        with pytest.raises(UsageError, match="keep must be"):
            fit_cell_pruner(grammar, corpus, keep=keep)
    with pytest.raises(UsageError, match="bits must be 8 to 22, not 30"):
        fit_cell_pruner(grammar, corpus, bits=30)
    with pytest.raises(InputError, match="at least 100 training trees"):
        fit_cell_pruner(grammar, Corpus.from_trees(TREES[:99]))


def closed_cells(parser: Parser, words: list[str]) -> np.ndarray:
    """Return which cells a parser closes, in the order of the chart."""
    compiled = parser.compiled
    leaves = parser._lookup.score(words)[1]
    n = len(words)
    tags = slow_tags(compiled, leaves)
    kinds = [int(compiled.word_ids[parser.grammar.lexicon.terminal(word, not k)]) for k, word in enumerate(words)]
    found = np.zeros(n * (n + 1) // 2, bool)
    closing = parser.model.cell_pruner
    for j in range(2, n + 1):
        for i in range(j - 1):
            if j - i < n:
                found[j * (j - 1) // 2 + i] = cell_score(closing.weights, tags, kinds, i, j) < closing.threshold
    return found


def test_charts_are_those_with_these_cells_forbidden(closed):
    """Nothing is in a closed cell; and what is elsewhere has the posteriors that it has if they are forbidden."""
    parser = Parser(closed)
    coarse = parser.compiled.coarse
    found = 0
    for tree in OTHERS:
        words, leaves = parser._lookup.score(tree.words())
        cells = closed_cells(parser, words)
        found += int(cells.sum())
        chart = build_chart(parser.compiled, leaves, threshold=1e-14)
        forbidden = Constraints(
            np.where(cells, FORBIDDEN, FREE).astype(np.int32), np.zeros((0, len(coarse.symbols)), bool)
        )
        native = kernels.coarse_forest(parser.compiled.native_coarse, leaves, 1e-14, *forbidden, Workspace().native)
        if chart is None:
            assert native is None
            continue
        assert not cells[chart.forest.node_cell].any()
        other = {(int(cell), int(symbol)) for symbol, cell in zip(native.arrays()[2], native.arrays()[3], strict=True)}
        ours = set(zip(chart.forest.node_cell.tolist(), chart.forest.node_symbol.tolist(), strict=True))
        assert ours == other
    assert found > 1000


def test_closing_is_asked_for(closed, grammar):
    """Without `prune_cells`, with phrases, and in exact parsing, charts are those of the grammar without a pruner."""
    with_cells, without = Parser(closed), Parser(grammar)
    for tree in OTHERS[:10]:
        _, leaves = with_cells._lookup.score(tree.words())
        plain = without._lookup.score(tree.words())[1]
        for threshold, phrases, prune_cells in ((2e-5, (), False), (2e-5, [(0, 2, None)], True), (0.0, (), True)):
            constraints = compile_constraints(phrases, len(leaves), with_cells.compiled.coarse, prune_cells=prune_cells)
            ours = coarse_forest(with_cells.compiled, leaves, threshold, Workspace(), constraints)
            theirs = coarse_forest(without.compiled, plain, threshold, Workspace(), constraints)
            assert (ours is None) == (theirs is None)
            if ours is not None:
                assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_parsers_close_cells(closed, grammar):
    """All kinds of results keep to open cells, and few sentences get another tree than before."""
    parser, charts = Parser(closed), Parser(closed, marginals=True, alternatives=3)
    work = [Parser(one) for one in (grammar, closed)]
    for tree in OTHERS:
        words = tree.words()
        cells = closed_cells(parser, words)
        result = parser.parse_one(words)
        assert not result.failed
        if result.status != "parsed":
            continue
        other = charts.parse_one(words)
        assert other.tree == result.tree
        assert other.log_probability == pytest.approx(result.log_probability, rel=1e-5)
        trees = [result.tree, *(one.tree for one in parser.k_best(words, 5)), *parser.sample(words, 5, random_state=0)]
        for one in trees:
            for i, j in spans_of(grammar.transform(one)):
                assert not cells[j * (j - 1) // 2 + i]
        for one in work:
            one.parse_one(words)
    applied = [one._workspace.native.rules_applied for one in work]
    assert applied[1] < 0.8 * applied[0]
    assert f1(closed, OTHERS) > f1(grammar, OTHERS) - 2


def spans_of(tree) -> list[tuple[int, int]]:
    """Return the spans of a binary tree's nodes of two words or more."""
    found: list[tuple[int, int]] = []

    def visit(node, start: int) -> int:
        if node.word is not None:
            return start + 1
        end = start
        for child in node.children:
            end = visit(child, end)
        found.append((start, end))
        return end

    visit(tree, 0)
    return found


def test_nothing_fails_where_all_is_closed(grammar, closing):
    """Sentences whose cells are all closed get the tree that they had before, and the status says so."""
    shut = Parser(ParserModel.from_grammars(grammar).replace(cell_pruner=replace(closing, threshold=1e9)))
    plain = Parser(grammar)
    for tree in OTHERS[:15]:
        words = tree.words()
        if len(words) < 3:
            continue
        result = shut.parse_one(words)
        assert result.status == "relaxed"
        assert result.tree == plain.parse_one(words).tree
        assert [one.tree for one in shut.k_best(words, 3)] == [one.tree for one in plain.k_best(words, 3)]
        tagged = list(zip(words, tree.tags(), strict=True))
        assert shut.parse_one(tagged).tree == plain.parse_one(tagged).tree
    assert shut.parse_one(["the", "balora"]).status == "parsed"


def test_several_grammars_close_as_the_first_does(closed, grammar, corpus):
    other = SplitMerge(cycles=1, iterations=3, smoothing_iterations=2, random_state=1).fit(corpus)
    joint = Parser([closed, other])
    for tree in OTHERS[:10]:
        words = tree.words()
        cells = closed_cells(joint, words)
        chart = joint._ensemble.chart(joint._lookup.score(words)[1], threshold=2e-5)
        assert cells.any()
        assert chart is None or not cells[chart.forest.node_cell].any()


def test_storage(closed, grammar, tmp_path):
    path = tmp_path / "m"
    closed.save(path)
    loaded = ParserModel.load(path)
    assert loaded == closed
    assert loaded != ParserModel.from_grammars(grammar)
    assert loaded.cell_pruner.threshold == closed.cell_pruner.threshold
    for name in ("weights", "words"):
        np.testing.assert_array_equal(getattr(loaded.cell_pruner, name), getattr(closed.cell_pruner, name))
    assert [str(one.parse_one(OTHERS[0].words()).tree) for one in (Parser(path), Parser(closed))]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, told: told.pop("closing"), "closing: incomplete"),
        (lambda arrays, told: told["closing"].update(bits=40), "invalid size or threshold"),
        (lambda arrays, told: told["closing"].update(bits=8), "closing.gaps: does not fit"),
        (lambda arrays, told: told["closing"].update(limit=float("nan")), "limit"),
        (lambda arrays, told: arrays.update({"closing.weights": arrays["closing.weights"][1:]}), "closing.gaps"),
        (lambda arrays, told: arrays.update({"closing.words": arrays["closing.words"][::-1].copy()}), "closing.words"),
        (lambda arrays, told: arrays["closing.words"].__setitem__(-1, 10**6), "closing.words"),
        (lambda arrays, told: arrays["closing.weights"].__setitem__(0, np.inf), "closing.weights"),
        (lambda arrays, told: arrays.pop("closing.words"), "closing.words"),
    ],
)
def test_damage_is_found(closed, change, message, tmp_path):
    from sapwood.model.file import MODEL
    from sapwood.storage.arrays import write_arrays

    arrays, told = closed.grammar._content()
    arrays = {name: array.copy() for name, array in {**arrays, **closed.cell_pruner.to_arrays()}.items()}
    told = {**told, "closing": closed.cell_pruner.metadata(), "info": {}}
    change(arrays, told)
    path = tmp_path / "m"
    write_arrays(path, arrays, told, kind=MODEL.kind, version=MODEL.version)
    with pytest.raises(ModelError, match=message):
        TensorGrammar.load(path)


def test_pcfg_can_close_cells(corpus):
    """Any grammar can: a PCFG with ancestors in its symbols, too."""
    grammar = PCFG().fit(PCFG.prepare(TREES))
    closing = fit_cell_pruner(grammar, PCFG.prepare(TREES), keep=0.97, bits=12)
    parser = Parser(ParserModel.from_grammars(grammar).replace(cell_pruner=closing))
    assert not any(parser.parse_one(tree.words()).failed for tree in OTHERS)
