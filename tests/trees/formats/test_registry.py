"""Formats told apart and written; what was skipped, in words."""

from __future__ import annotations

import gzip
import io
from contextlib import nullcontext
from itertools import count

import pytest
from hypothesis import given

from helpers.strategies import any_trees
from sapwood.errors import InputError, TreeFormatError, UsageError
from sapwood.trees.formats import registry as formats
from sapwood.trees.formats.registry import (
    INPUT_FORMATS,
    OUTPUT_FORMATS,
    BadTrees,
    format_as,
    is_bracketed,
    read_tagged,
    read_tokens,
    read_trees,
    refuse_trees,
)
from sapwood.trees.search.table import read_table
from sapwood.trees.tree import Tree

TREE = Tree.parse("(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (-LRB- -LRB-)))")
EXPORT = """#BOS 1
the DT -- -- 500
dog NN -- -- 500
barks VBZ -- -- 501
( -LRB- -- -- 502
#500 NP -- -- 502
#501 VP -- -- 502
#502 S -- -- 0
#EOS 1
"""


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{TREE}\n", {}),
        (f"\n \n{TREE}\n", {}),
        (f"\ufeff{TREE}\n", {}),
        (f"# a remark\n{TREE}\n", {}),
        (f"# a remark\n{TREE}\n", {"format": "brackets"}),
        (TREE.pretty(width=20), {}),
        (EXPORT, {}),
        ("\n\n" + EXPORT, {}),
        ("%% a remark\n" + EXPORT, {}),
        ("#FORMAT 3\n" + EXPORT, {}),
        ("\ufeff" + EXPORT.replace("\n", "\r\n"), {}),
        (EXPORT, {"format": "export"}),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_reading_any_format(tmp_path, text, options, packed):
    path = tmp_path / ("trees.gz" if packed else "trees")
    raw = text.encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    assert list(read_trees(path, **options)) == [TREE]
    assert list(read_trees(str(path), **options)) == [TREE]


GAPS = "(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John))"


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("x.dbr", ""), ("x.DISCBRACKET", ""), ("x.dbr.gz", ""), ("x.txt", ""), ("x", "\n \n"), ("x.mrg.gz", "\ufeff"),
    ],
)  # fmt: skip
def test_discbracket_is_recognised(tmp_path, monkeypatch, name, before):
    raw = f"{before}{GAPS}\n{GAPS}\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    expected = [Tree.parse(GAPS, format="discbracket")] * 2
    assert list(read_trees(tmp_path / name)) == expected
    table = read_table(tmp_path / name)
    assert [table.tree(number) for number in range(2)] == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{GAPS}\n{GAPS}\n".encode())))
    assert list(read_trees("-")) == expected


def test_a_long_first_tree_in_discbracket_is_recognised(tmp_path):
    words = [f"{number}=word" for number in range(2000)]
    (tmp_path / "x").write_text("(S " + " ".join(f"(N {word})" for word in words) + ")\n")
    assert set(read_table(tmp_path / "x").tree(0).words()) == {"word"}


@pytest.mark.parametrize(
    "text",
    ["(S (A 0=a) (B b))", "(S (A a) (B 0=b))", "(S (A 0=a) (B 0=b))", "(S (A 1=a) (B 2=b))", "(S (A 0=a)\n(B 1=b))"],
)
def test_other_numbers_are_words_of_brackets(tmp_path, text):
    (tmp_path / "x").write_text(text)
    assert list(read_trees(tmp_path / "x")) == [Tree.parse(text)]


def test_other_trees_in_a_file_named_discbracket(tmp_path):
    (tmp_path / "x.dbr").write_text(f"{TREE}\n")
    with pytest.raises(TreeFormatError, match=r"x.dbr:1: .*a word is its place in the sentence"):
        list(read_trees(tmp_path / "x.dbr"))
    (tmp_path / "x.dbr").write_text(EXPORT)
    assert list(read_trees(tmp_path / "x.dbr")) == [TREE]


def test_empty_files(tmp_path):
    for text in ("", "\n \n"):
        (tmp_path / "empty").write_text(text)
        assert list(read_trees(tmp_path / "empty")) == []


def test_missing_files(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        list(read_trees(tmp_path / "none"))


def test_unknown_formats(tmp_path):
    (tmp_path / "x").write_text("(A a)")
    with pytest.raises(UsageError, match=r"no input format 'xml'; choose from auto, brackets, export"):
        read_trees(tmp_path / "x", format="xml")
    with pytest.raises(UsageError, match=r"no output format 'xml'; choose from brackets, pretty"):
        format_as(TREE, "xml")
    assert (len(INPUT_FORMATS), len(OUTPUT_FORMATS)) == (5, 12)


def test_trees_are_read_as_they_are_asked_for(monkeypatch):
    taken: list[int] = []

    def endless(path):
        for number in count(1):
            taken.append(number)
            yield number, "\n" if number == 1 else "(A a)\n"

    monkeypatch.setattr(formats, "read_lines", endless)
    reader = read_trees("somewhere")
    assert next(reader) == next(reader) == Tree.parse("(A a)")
    assert taken == [1, 2, 3]


def test_malformed_trees_in_files(tmp_path):
    path = tmp_path / "x.mrg"
    path.write_text("(A a)\n(B b c)\n(C c)\n")
    with pytest.raises(TreeFormatError) as caught:
        list(read_trees(path))
    assert str(caught.value) == f"{path}:2:6: two words below one label 'B': 'c'"
    bad = BadTrees()
    assert [str(tree) for tree in read_trees(path, on_bad=bad)] == ["(A a)", "(C c)"]
    assert bad.count == 1
    assert bad.report() == f"skipped 1 malformed tree(s):\n  {path}:2:6: two words below one label 'B': 'c'"
    path.write_text(EXPORT.replace("#501 VP -- -- 502", "#501 VP -- -- 7"))
    bad = BadTrees()
    assert list(read_trees(path, on_bad=bad)) == []
    assert bad.count == 1


def test_a_report_on_many():
    bad = BadTrees()
    for number in range(1, 13):
        bad(TreeFormatError("wrong", source="x", line=number, column=2, text="t"))
    assert (bad.count, len(bad.first)) == (12, 5)
    lines = bad.report().split("\n")
    assert lines[0] == "skipped 12 malformed tree(s):"
    assert lines[1:6] == [f"  x:{number}:2: wrong: 't'" for number in range(1, 6)]
    assert lines[6:] == ["  ... and 7 more"]


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("brackets", str(TREE)),
        ("pretty", str(TREE)),
        ("tokens", "the dog barks -LRB-"),
        ("tagged", "the/DT dog/NN barks/VBZ -LRB-/-LRB-"),
        ("draw", TREE.draw() + "\n"),
    ],
)
def test_writing(format, expected):
    assert format_as(TREE, format) == expected


def test_writing_export(tmp_path):
    text = format_as(TREE, "export", 7)
    assert text.split("\n")[0].split()[:2] == ["#BOS", "7"]
    assert not text.endswith("\n")
    (tmp_path / "x").write_text(text + "\n")
    assert list(read_trees(tmp_path / "x")) == [TREE]


@given(any_trees)
def test_whatever_is_written_is_read_back(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("trees") / "file"

    def written(format):
        path.write_bytes(format_as(tree, format).encode("utf-8"))
        return path

    for format in ("brackets", "pretty"):
        assert list(read_trees(written(format), format="brackets")) == [tree]
    whole = tree.word is None and tree.label in ("", "ROOT", "TOP", "VROOT")
    rooted = Tree("ROOT", tree.children) if whole else tree
    assert list(read_trees(written("export"))) == [rooted]
    header, footer = formats.file_header("tiger"), formats.file_footer("tiger")
    path.write_bytes((header + format_as(tree, "tiger") + footer).encode("utf-8"))
    assert list(read_trees(path)) == [rooted]
    # Where there is no label at the root, readers put one.
    named = tree if tree.label else Tree("ROOT", tree.children) if tree.word is None else Tree("ROOT", word=tree.word)
    assert list(read_trees(written("discbracket"), format="discbracket")) == [named]
    assert list(read_tokens(written("tokens"))) == [tree.words()]
    assert list(read_tagged(written("tagged"))) == [list(zip(tree.words(), tree.tags(), strict=True))]


def test_formats_of_other_packages(tmp_path, install_plugin):
    code = (
        "from sapwood.trees.tree import Tree\n"
        "class Words:\n"
        "    @staticmethod\n"
        "    def read(lines, source):\n"
        "        return (Tree('S', [Tree('X', word=word) for word in line.split()]) for _, line in lines)\n"
        "class Numbers:\n"
        "    @staticmethod\n"
        "    def write(tree, number):\n"
        "        return f'{number}: {len(tree)}'\n"
    )
    install_plugin(
        "shapes_of_trees", code, "sapwood.formats", words="shapes_of_trees:Words", numbers="shapes_of_trees:Numbers"
    )
    (tmp_path / "lines").write_text("a b\nc\n")
    assert [str(tree) for tree in read_trees(tmp_path / "lines", format="words")] == ["(S (X a) (X b))", "(S (X c))"]
    assert format_as(TREE, "numbers", 7) == f"7: {len(TREE)}"
    with pytest.raises(UsageError, match="the format 'numbers' has no `read`, so it is not an input format"):
        read_trees(tmp_path / "lines", format="numbers")
    with pytest.raises(UsageError, match=r"no output format 'number'; choose from brackets, .*, numbers, words"):
        format_as(TREE, "number")


def test_sentences_in_lines_are_read_as_they_are_written(tmp_path):
    tree = Tree.parse("(S (NN -LRB-) (NN a/b) (NN \u00a0x))")
    (tmp_path / "tokens").write_text(format_as(tree, "tokens") + "\n\n", encoding="utf-8")
    assert list(read_tokens(tmp_path / "tokens")) == [tree.words(), []]
    (tmp_path / "tagged").write_text(format_as(tree, "tagged") + "\n", encoding="utf-8")
    pairs = list(zip(tree.words(), tree.tags(), strict=True))
    assert list(read_tagged(tmp_path / "tagged")) == list(read_tagged(tmp_path / "tagged", {"NN"})) == [pairs]
    with pytest.raises(InputError, match=r"tagged:1: the model has no tag 'NN'; it has: VB"):
        list(read_tagged(tmp_path / "tagged", {"VB"}))


@pytest.mark.parametrize(
    ("text", "bracketed"),
    [
        ("(S (NP dogs) (VP sleep))\n", True),
        ("( (IP-MAT (NP-SBJ *con*)\n          (VBD came", True),
        ("\n(ROOT\n  (S\n    (NP (PRP She))\n", True),
        ("It rained .\n", False),
        ("(It rained .)\n", False),
        ("(see (page 9) for (N) reasons)\n", False),
        ("(a b)\n", False),
        ("( Why ? )\n( Why ? )\n", False),
        ("((()))\n", False),
        (")) (\n", False),
        ("", False),
    ],
)
def test_trees_are_told_from_text(tmp_path, text, bracketed):
    assert is_bracketed(text) == bracketed
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"convert .* --to tokens") if bracketed else nullcontext():
        refuse_trees(path)


def test_other_files_are_left_to_their_readers(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\0\xff(S (NP a))")
    for path in (None, "-", tmp_path / "nothing", tmp_path, tmp_path / "bytes"):
        refuse_trees(path)
