"""Trees with gaps in every format: written and read again, or refused with the remedy."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import slow
from helpers.gap_trees import gap_trees
from helpers.treebank_files import treebank
from sapwood.errors import InputError, UsageError
from sapwood.storage.files import read_lines
from sapwood.trees.formats.brackets import format_pretty, format_tree
from sapwood.trees.formats.discbracket import format_discbracket, parse_discbracket
from sapwood.trees.formats.discontinuous import close_gaps
from sapwood.trees.formats.export import parse_export, write_export
from sapwood.trees.formats.gaps import split_gaps
from sapwood.trees.formats.registry import OUTPUT_FORMATS, format_as, read_trees
from sapwood.trees.formats.tiger import TIGER_FOOTER, TIGER_HEADER, format_tiger, parse_tiger
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree

LINE = "(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))"


def written(trees: list[Tree], format: str) -> list[Tree]:
    """Return trees written in a format and read again."""
    if format == "discbracket":
        return list(parse_discbracket("\n".join(map(format_discbracket, trees)), source="x"))
    if format == "export":
        stream = io.StringIO()
        write_export(trees, stream)
        return list(parse_export(stream.getvalue(), source="x"))
    text = TIGER_HEADER + "".join(format_tiger(tree, number) for number, tree in enumerate(trees)) + TIGER_FOOTER
    return list(parse_tiger(text, source="x"))


@pytest.mark.parametrize("format", ["discbracket", "export", "tiger"])
@given(st.lists(gap_trees(), max_size=3))
def test_what_is_written_is_read_back(format: str, trees: list[Tree]) -> None:
    # Trees with the root of these formats, and with any other.
    for some in (trees, [Tree("ROOT", [tree]) for tree in trees]):
        assert written(some, format) == some
        assert list(map(str, written(some, format))) == list(map(str, some))


@pytest.mark.parametrize("format", ["discbracket", "export", "tiger"])
@pytest.mark.parametrize("part", ["dev", slow("train")])
def test_every_tree_of_alpino(format: str, part: str) -> None:
    lines = [line.rstrip("\n") for _, line in read_lines(treebank(f"alpino/{part}.dbr.gz"))]
    trees = list(read_trees(treebank(f"alpino/{part}.dbr.gz"), format="discbracket"))
    assert list(map(format_discbracket, written(trees, format))) == lines
    rooted = [Tree("ROOT", [tree]) for tree in trees]
    assert written(rooted, format) == rooted


@given(gap_trees())
def test_tables_keep_gaps(tree: Tree) -> None:
    plain = Tree.parse("(S (A a) (B b))")
    table = TreeTable.from_trees([plain, tree, plain])
    assert [table.tree(number) for number in range(3)] == [plain, tree, plain]
    assert table.part(1, 3).tree(0) == tree


def test_formats_without_gaps_refuse_them_and_name_the_remedy() -> None:
    tree = Tree.parse(LINE, format="discbracket")
    for write in (format_tree, format_pretty):
        with pytest.raises(InputError, match=r"export, tiger or discbracket, .* --gaps split"):
            write(tree)
    refused = [format for format in OUTPUT_FORMATS if not _writes(tree, format)]
    assert refused == ["brackets", "pretty", "qtree"]
    # The words of the others are in their order.
    assert format_as(tree, "tagged") == "is/VB John/NP rich/JJ"
    assert [row.split("\t")[:2] for row in format_as(tree, "conllu").splitlines()[2:]] == [
        ["1", "is"], ["2", "John"], ["3", "rich"],
    ]  # fmt: skip


def _writes(tree: Tree, format: str) -> bool:
    try:
        return bool(format_as(tree, format))
    except InputError:
        return False


@given(gap_trees())
def test_closing_a_tree_is_closing_its_file(tree: Tree) -> None:
    closed = list(parse_discbracket(format_discbracket(tree), source="x", gaps="close"))
    assert [close_gaps(tree)] == closed
    assert closed[0].words() == tree.words()
    assert not closed[0].is_placed


def test_readers_refuse_unknown_treatments() -> None:
    with pytest.raises(UsageError, match="keep, close, split"):
        list(parse_discbracket(LINE, source="x", gaps="open"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="keep, close, split"):
        list(parse_tiger("", source="x", gaps="open"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="keep, close, split"):
        read_trees("x", gaps="open")  # type: ignore[arg-type]


@given(gap_trees())
def test_split_trees_are_brackets(tree: Tree) -> None:
    parts = split_gaps(tree)
    assert Tree.parse(str(parts)) == parts
    assert json.loads(json.dumps(tree.words())) == tree.words()
