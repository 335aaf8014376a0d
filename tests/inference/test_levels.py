"""Pruning with coarser versions of the states: the versions, what they prune, and how grammars keep them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.made_up import made_up_treebank
from sapwood.errors import GrammarError, ModelError
from sapwood.grammar.tensor_grammar import FORMAT_VERSION, TensorGrammar
from sapwood.inference import Parser
from sapwood.inference.chart import chart
from sapwood.inference.chart.chart import coarse_forest, fine_chart, refine_forest
from sapwood.inference.chart.compiled import compile_grammar
from sapwood.inference.chart.posteriors import Workspace
from sapwood.learn import Spectral, SplitMerge
from sapwood.trees import Corpus, TreeTransform


@pytest.fixture(scope="module", params=["explicit", "collapsed"])
def grammar(request):
    corpus = Corpus.from_trees(made_up_treebank(200), transform=TreeTransform(1, 0))
    return SplitMerge(cycles=4, merge=0.2, iterations=10, unaries=request.param, random_state=3).fit(corpus)


@pytest.fixture(scope="module")
def sentences():
    return [tree.words() for tree in made_up_treebank(30, seed=5)]


def test_levels_come_from_coarse_to_fine(grammar):
    assert [int(level.max()) + 1 for level in grammar.levels] == [2, 4, 8]
    for coarser, finer in zip(grammar.levels, grammar.levels[1:], strict=False):
        # States that are one at a finer level are one at a coarser level.
        symbol = np.repeat(np.arange(len(grammar.states)), grammar.states)
        groups: dict[tuple[int, int], set[int]] = {}
        for key in zip(symbol.tolist(), finer.tolist(), coarser.tolist(), strict=True):
            groups.setdefault(key[:2], set()).add(key[2])
        assert all(len(found) == 1 for found in groups.values())


def test_a_version_is_the_average_of_the_grammar(grammar):
    compiled = compile_grammar(grammar, np.float64)
    (level,) = compiled.levels
    (groups,) = (found for found in grammar.levels if found.max() == 3)
    parts = [slice(*grammar.state_offsets[symbol : symbol + 2]) for symbol in range(len(grammar.states))]
    membership = [np.eye(groups[part].max() + 1)[groups[part]] for part in parts]
    occupancy = [np.maximum(grammar.occupancy[part], 1e-300) for part in parts]
    share = [m * o[:, None] / (o @ m) for m, o in zip(membership, occupancy, strict=True)]
    for place, rule in enumerate(compiled.fine_rule.tolist()):
        a, b, c = grammar.rules[rule]
        expected = np.einsum("abc,ax,by,cz->xyz", grammar.tensor(rule), share[a], membership[b], membership[c])
        found = level.compiled.tensors[slice(*level.compiled.tensor_offsets[place : place + 2])]
        np.testing.assert_allclose(found, expected.ravel(), rtol=1e-9, atol=1e-15)
        assert level.compiled.fine_states[place].tolist() == list(expected.shape)
    # Lexical rows: averages, too. Coarse symbols are the symbols here, in another order.
    row = np.random.default_rng(0).random(int(grammar.emissions.states.sum()))
    leaf = compiled.leaf(row)
    inner = grammar.state_offsets[grammar.n_interminals]
    for symbol in range(grammar.n_interminals, len(grammar.states)):
        own = row[parts[symbol].start - inner : parts[symbol].stop - inner]
        np.testing.assert_allclose(leaf.vector(1, compiled.coarse_of[symbol]), own @ share[symbol])


def test_what_survives_is_what_a_tree_of_likely_edges_can_use(grammar, sentences, monkeypatch):
    monkeypatch.setattr(chart, "LEVEL_THRESHOLD_FACTOR", 3000.0)  # much, so that small trees lose something, too
    compiled = compile_grammar(grammar, np.float32)
    parser = Parser(grammar)
    threshold, tried = 1e-5, 0
    for sentence in sentences:
        _, leaves = parser._lookup.score(sentence)
        forest = coarse_forest(compiled, leaves, threshold, Workspace())
        assert forest is not None
        (level,) = compiled.levels
        posterior = fine_chart(level.compiled, leaves, forest, Workspace(), row=1).edge_posterior
        smaller = refine_forest(compiled, leaves, forest, threshold, Workspace())
        assert _named(smaller) == _surviving(forest, compiled, posterior, chart.LEVEL_THRESHOLD_FACTOR * threshold)
        tried += len(smaller.children) < len(forest.children)
    assert tried >= 3


def test_the_first_of_several_grammars_prunes_for_all(grammar, sentences, monkeypatch):
    monkeypatch.setattr(chart, "LEVEL_THRESHOLD_FACTOR", 3000.0)
    parser = Parser([grammar, replace(grammar, root=grammar.root[::-1].copy())])
    joint, (first, _) = parser._ensemble.joint, parser._ensemble.members
    tried = 0
    for sentence in sentences:
        _, leaves = parser._lookup.score(sentence)
        found = parser._ensemble.chart(leaves, threshold=1e-5)
        forest = coarse_forest(joint, leaves, 1e-5, Workspace())
        assert _named(found.forest) == _named(refine_forest(first, leaves, forest, 1e-5, Workspace(), members=2))
        tried += len(found.forest.children) < len(forest.children)
    assert tried >= 3


def _name(forest, node):
    return int(forest.node_cell[node]), int(forest.node_symbol[node])


def _edges(forest):
    for group, parent in enumerate(forest.group_parent):
        for edge in range(forest.group_offsets[group], forest.group_offsets[group + 1]):
            yield edge, int(parent), int(forest.group_rule[group]), *map(int, forest.children[edge])


def _named(forest):
    """Return nodes and edges by cell and symbol."""
    nodes = {_name(forest, node) for node in range(len(forest.node_symbol))}
    for cell in range(len(forest.node_offsets) - 1):
        for node in range(forest.node_offsets[cell], forest.node_offsets[cell + 1]):
            assert forest.node_cell[node] == cell
    edges = {(_name(forest, a), rule, _name(forest, b), _name(forest, c)) for _, a, rule, b, c in _edges(forest)}
    return nodes, edges


def _surviving(forest, compiled, posterior, threshold):
    """Return the same of the forest that pruning leaves, found by repeating until nothing changes."""
    likely = [edge for edge in _edges(forest) if posterior[edge[0]] >= threshold]
    is_leaf = forest.node_symbol >= compiled.coarse.n_interminals
    built = set(np.flatnonzero(is_leaf).tolist())
    while True:
        more = {a for _, a, _, b, c in likely if b in built and c in built} - built
        if not more:
            break
        built |= more
    top = forest.n * (forest.n - 1) // 2
    used = set(range(forest.node_offsets[top], forest.node_offsets[top + 1])) & built
    likely = [edge for edge in likely if edge[3] in built and edge[4] in built]
    while True:
        more = {node for _, a, _, b, c in likely if a in used for node in (b, c)} - used
        if not more:
            break
        used |= more
    edges = {(_name(forest, a), r, _name(forest, b), _name(forest, c)) for _, a, r, b, c in likely if a in used}
    return {_name(forest, node) for node in used}, edges


def test_results_hardly_change(grammar, sentences):
    without = Parser(replace(grammar, levels=()))
    within = Parser(grammar)
    same = 0
    for sentence in sentences:
        one, other = without.parse_one(sentence), within.parse_one(sentence)
        assert other.status == one.status
        assert other.log_probability == pytest.approx(one.log_probability, abs=0.05)
        same += one.tree == other.tree
    assert same >= len(sentences) - 1
    exact = [Parser(g, threshold=0).parse_one(sentences[0]).log_probability for g in (grammar, without.grammar)]
    assert exact[0] == exact[1]


def test_storage(grammar, tmp_path):
    grammar.save(tmp_path / "m")
    loaded = TensorGrammar.load(tmp_path / "m")
    assert loaded == grammar
    assert loaded.digest() == grammar.digest()
    assert len(loaded.levels) == 3
    assert loaded != replace(grammar, levels=grammar.levels[:2])


def sparse(grammar):
    """Return the grammar with hardly any rule weights left."""
    large = grammar.tensors >= np.quantile(grammar.tensors, 0.9)
    return replace(grammar, tensors=np.where(large, grammar.tensors, np.float32(0)), probabilistic=False)


def test_zeros_are_not_stored(grammar, tmp_path):
    grammar.save(tmp_path / "m")
    sparse(grammar).save(tmp_path / "sparse")
    assert TensorGrammar.load(tmp_path / "sparse") == sparse(grammar)
    saved = (tmp_path / "m").stat().st_size - (tmp_path / "sparse").stat().st_size
    assert saved > 0.7 * grammar.tensors.nbytes


def test_sparse_weights_that_do_not_fit(grammar, tmp_path):
    from sapwood.storage.arrays import read_arrays, write_arrays

    sparse(grammar).save(tmp_path / "m")
    arrays, metadata = read_arrays(tmp_path / "m", kind="model", version=FORMAT_VERSION)
    for wrong in (
        {"tensors.gaps": np.append(np.uint8(127), arrays["tensors.gaps"][1:])},
        {"tensors.gaps": np.append(arrays["tensors.gaps"][:-1], np.uint8(200))},
        {"tensors.gaps": arrays["tensors.gaps"][:-1]},
        {"tensors.places": np.arange(len(arrays["tensors.values"]), dtype=np.uint32)},
        {"tensors.half": arrays["tensors.values"].astype(np.float16)},
        {"tensors.values": arrays["tensors.values"][:-1]},
        {"level.0": arrays["level.0"][:-1]},
    ):
        write_arrays(tmp_path / "n", {**arrays, **wrong}, metadata, kind="model", version=FORMAT_VERSION)
        with pytest.raises(ModelError, match="not a complete model"):
            TensorGrammar.load(tmp_path / "n")


@pytest.mark.parametrize("change", ["shape", "start", "jump", "fall", "type"])
@pytest.mark.usefixtures("unchecked_shapes")
def test_levels_are_checked(grammar, change):
    level = grammar.levels[1].copy()
    wide = int(grammar.state_offsets[int(np.argmax(grammar.states))])
    if change == "shape":
        level = level[:-1]
    elif change == "start":
        level[wide] = 1
    elif change == "jump":
        level[wide + 1 : wide + int(grammar.states.max())] += 2
    elif change == "fall":
        level[wide + 1] = -1
    else:
        level = level.astype(float)
    with pytest.raises(GrammarError, match=r"a level's groups|level\.0: (has the shape|is of type)"):
        replace(grammar, levels=(level,)).validate(1e-3)


def test_a_level_of_first_states(sentences):
    """Real-valued grammars are pruned by their first states alone; what is left is a tensor's corner."""
    corpus = Corpus.from_trees(made_up_treebank(200), transform=TreeTransform(1, 0))
    grammar = Spectral(states=8, min_support=2).fit(corpus)
    (groups,) = grammar.levels
    for symbol, size in enumerate(grammar.states.tolist()):
        part = groups[slice(*grammar.state_offsets[symbol : symbol + 2])]
        assert part.tolist() == [*range(min(size, 4)), *[-1] * (size - 4)]
    compiled = compile_grammar(grammar, np.float64)
    (level,) = compiled.levels
    for place, rule in enumerate(compiled.fine_rule.tolist()):
        found = level.compiled.tensors[slice(*level.compiled.tensor_offsets[place : place + 2])]
        np.testing.assert_allclose(found, grammar.tensor(rule)[:4, :4, :4].ravel(), rtol=1e-6)
    row = np.random.default_rng(0).standard_normal(int(grammar.emissions.states.sum()))
    leaf = compiled.leaf(row)
    inner = grammar.state_offsets[grammar.n_interminals]
    for symbol in range(grammar.n_interminals, len(grammar.states)):
        begin = grammar.state_offsets[symbol] - inner
        expected = row[begin : begin + min(4, int(grammar.states[symbol]))]
        np.testing.assert_allclose(leaf.vector(1, compiled.coarse_of[symbol]), expected)
    within, without = Parser(grammar), Parser(replace(grammar, levels=()))
    same = [within.parse_one(words).tree == without.parse_one(words).tree for words in sentences]
    assert sum(same) >= len(sentences) - 1
