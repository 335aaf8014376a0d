"""Tables of trees: the scanner and the reader of trees agree, and what is not well-formed goes to the latter."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.strategies import any_trees, deep
from helpers.treebank_files import treebank
from sapwood.errors import InputError, TreeFormatError
from sapwood.trees.formats.brackets import format_pretty, format_tree
from sapwood.trees.formats.registry import BadTrees, locate_trees, read_trees
from sapwood.trees.search.table import TreeTable, read_table, read_tables
from sapwood.trees.tree import Tree


def same(a: TreeTable, b: TreeTable) -> bool:
    spelled = [[table.spellings[symbol] for symbol in table.symbols] for table in (a, b)]
    words = [(table.symbols >= table.n_labels).tolist() for table in (a, b)]
    columns = all(
        getattr(a, name).tolist() == getattr(b, name).tolist() for name in ("parents", "ends", "begins", "lines")
    )
    return columns and spelled[0] == spelled[1] and words[0] == words[1]


def slow_table(text: str) -> TreeTable:
    lines = enumerate(text.split("\n"), 1)
    found = list(locate_trees(lines, source="x", format="brackets"))
    return TreeTable.from_trees([tree for tree, _ in found], lines=[line for _, line in found])


@examples(300)
@given(
    st.lists(any_trees, max_size=4),
    st.sampled_from(["\n", " ", "\n\n# a (comment\n", "\r\n", "\n *x* )\n"]),
    st.booleans(),
)
def test_scanned_is_what_is_read(trees, between, pretty):
    text = between.join(format_pretty(tree, width=10) if pretty else format_tree(tree) for tree in trees) + "\n"
    table = TreeTable.scan(text.encode())
    assert table is not None
    assert same(table, slow_table(text))
    assert [table.tree(number) for number in range(len(table))] == trees


@examples(1000)
@given(st.text("(((()))) A a\n\t#*x/", max_size=30))
def test_any_text(text):
    table = TreeTable.scan(text.encode())
    try:
        expected = slow_table(text)
    except TreeFormatError:
        assert table is None
        return
    # What has comments over several lines is left to the reader.
    assert (table is None and "/*" in text) or (table is not None and same(table, expected))


def test_every_node_has_its_subtree():
    tree = Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")
    table = TreeTable.from_trees([tree, tree])
    assert str(table.subtree(9)) == "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"
    assert [str(table.subtree(node)) for node in (1, 2, 3)] == ["(NP (DT the) (NN dog))", "(DT the)", "(DT the)"]
    part = table.part(1, 2)
    assert part.tree(0) == tree
    assert part.first == 1
    assert repr(table) == "<TreeTable: 2 trees, 18 nodes>"


def test_deep_trees():
    tree = deep(50_000, branching="right")
    table = TreeTable.scan(format_tree(tree).encode())
    assert table is not None
    assert table.tree(0) == tree


def test_files(tmp_path):
    trees = ["(A a)", "(B (C c) (D d))"]
    (tmp_path / "plain.mrg").write_text("\ufeff" + "\n".join(trees), encoding="utf-8")
    (tmp_path / "zipped.mrg.gz").write_bytes(gzip.compress("\n".join(trees).encode()))
    (tmp_path / "noted.mrg").write_text(trees[0] + "\n/* two\nlines */\n" + trees[1])
    for name, lines in (("plain.mrg", [1, 2]), ("zipped.mrg.gz", [1, 2]), ("noted.mrg", [1, 4])):
        table = read_table(tmp_path / name)
        assert [str(table.tree(number)) for number in range(2)] == trees
        assert table.lines.tolist() == lines
    (tmp_path / "bad.mrg").write_text("(A a)\n(B (C c)\n(D d)\n")
    with pytest.raises(TreeFormatError, match=r"bad.mrg:2:1: 1 bracket"):
        read_table(tmp_path / "bad.mrg")
    bad = BadTrees()
    assert len(read_table(tmp_path / "bad.mrg", on_bad=bad)) == 2
    assert bad.count == 1
    (tmp_path / "latin.mrg").write_bytes("(A á)\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin.mrg:1:4: not valid UTF-8"):
        read_table(tmp_path / "latin.mrg")
    (tmp_path / "zero.mrg").write_bytes(b"(A \0)\n")
    with pytest.raises(InputError, match="a zero byte"):
        read_table(tmp_path / "zero.mrg")
    (tmp_path / "empty.mrg").write_text("\n")
    assert len(read_table(tmp_path / "empty.mrg")) == 0


def test_other_formats_come_in_pieces(tmp_path, monkeypatch):
    from sapwood.trees.search import table as module

    monkeypatch.setattr(module, "_TREES", 7)
    path = treebank("ours/dev.export")
    expected = list(read_trees(path))
    tables = list(read_tables(path))
    assert [table.first for table in tables[:3]] == [0, 7, 14]
    assert [table.tree(number) for table in tables for number in range(len(table))] == expected
    whole = read_table(path)
    assert [whole.tree(number) for number in range(len(whole))] == expected
    assert np.array_equal(whole.lines, np.concatenate([table.lines for table in tables]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gum/dev.mrg", "wsj-sample/train.mrg", "icepahc/dev.mrg.gz"])
def test_treebanks(name):
    path = treebank(name)
    table = read_table(path)
    for number, tree in enumerate(read_trees(path)):
        assert table.tree(number) == tree
