"""Penn brackets: what is read, what is written, and what is said about malformed trees."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import any_trees
from sapwood.errors import TreeFormatError
from sapwood.trees.formats import brackets
from sapwood.trees.formats.brackets import TOKENS, format_tree, parse_trees, read_brackets
from sapwood.trees.formats.registry import BadTrees
from sapwood.trees.tree import Tree

A, B, C = (Tree(label, word=label.lower()) for label in "ABC")


def parse(text: str) -> list[Tree]:
    return list(parse_trees(text, source="x.mrg"))


def error_of(text: str) -> TreeFormatError:
    with pytest.raises(TreeFormatError) as caught:
        parse(text)
    return caught.value


def parse_skipping(text: str) -> tuple[list[str], list[TreeFormatError]]:
    """Return the trees and the errors, making sure that numbered lines and a string give the same."""
    errors: list[TreeFormatError] = []
    found = [str(tree) for tree in parse_trees(text, source="x.mrg", on_bad=errors.append)]
    lines = enumerate(text.splitlines(keepends=True), 1)
    assert [str(tree) for tree in parse_trees(lines, source="x.mrg", on_bad=lambda _: None)] == found
    return found, errors


# What is read.


@pytest.mark.parametrize(
    "text",
    [
        "(A a) (B b) (C c)",
        "(A a)(B b)(C c)",
        "(A a)\n(B b)\n(C c)\n",
        "(A a)\r\n(B b)\r\n(C c)\r\n",
        "\n\n  (A\n\n   a\n)\n \t\n(B b) (C\n  c) \n\n",
        "( A a )\t( B b )\f(  C  c  )",
        "(A a\n)(B\nb)(\nC c)",
    ],
)
def test_lines_do_not_matter(text):
    assert parse(text) == [A, B, C]


def test_trees_over_many_lines():
    text = """
    (S
        (NP (DT the)
            (NN dog))
        (VP
          (VBZ
            barks)) (. .) )
    """
    assert parse(text) == [Tree.parse("(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))")]


def test_nothing():
    assert parse("") == parse(" \n\t\r\n") == parse("# only\n/* remarks */") == []


def test_outer_pair_without_a_label():
    assert parse("( (A a))") == parse("((A a))") == parse("(\n(A a)\n)") == [Tree("", [A])]
    assert parse("( (A a) (B b))") == [Tree("", [A, B])]
    assert parse("((( (A a))))") == [Tree("", [Tree("", [Tree("", [A])])])]


@pytest.mark.parametrize("label", ["ROOT", "TOP", "S1", "VROOT"])
def test_root_labels_are_labels(label):
    assert parse(f"({label} (A a))") == [Tree(label, [A])]


def test_identifiers_as_in_psd_files():
    text = "( (IP-MAT (NP-SBJ (PRO-N hún))\n\t  (VBDI fór)\n\t  (. .))\n  (ID 1150.A,.1))\n\n"
    text += "( (CODE <P_2>)\n  (ID 1150.A,.2))\n"
    first, second = parse(text)
    assert first.label == second.label == ""
    assert first.children[0] == Tree.parse("(IP-MAT (NP-SBJ (PRO-N hún)) (VBDI fór) (. .))")
    assert first.children[1] == Tree("ID", word="1150.A,.1")
    assert second.children == (Tree("CODE", word="<P_2>"), Tree("ID", word="1150.A,.2"))


@pytest.mark.parametrize(
    "text",
    [
        "# a remark (X x)\n(A a)\n(B b)",
        "  # a remark (X x)\n(A a)\n(B b)",
        "*x* words (of) the corpus\n(A a)\n \t*x*\n(B b)",
        "/* a remark (X x) */\n(A a)\n(B b)",
        "/*\n(X x)\n# still\n\n*/\n(A a)\n/**/\n(B b)",
        "/* one */ (A a)\n  /* two */ /* three */ (B b)",
        "/* one */ # two\n(A a) (B b)",
        "(A a)\n/* one\n*/ /* two\n*/(B b)",
        "(A a)\r\n# remark\r\n/* (X x)\r\n */\r\n(B b)\r\n",
    ],
)
def test_comments_between_trees(text):
    assert parse(text) == [A, B]


def test_comment_signs_inside_trees_are_words():
    tree = Tree("S", [Tree("#", word="#"), Tree("X", word="/*"), Tree("Y", word="*x*"), Tree("Z", word="*/")])
    assert parse("(S\n(#\n#)\n(X\n/*)\n(Y\n*x*)\n(Z */))") == [tree]


def test_only_ascii_white_space_parts_tokens():
    assert parse("(CD 10\u00a0000)") == [Tree("CD", word="10\u00a0000")]
    assert parse("(X \u2028)\n(X \x85)") == [Tree("X", word="\u2028"), Tree("X", word="\x85")]
    assert error_of("(X \x85)\n(Y").line == 2  # lines are counted as in the file


def test_files(tmp_path):
    text = "(A a)\n( (B b))\n"
    wanted = [A, Tree("", [B])]
    plain, packed = tmp_path / "x.mrg", tmp_path / "x.mrg.gz"
    plain.write_bytes(text.encode())
    packed.write_bytes(gzip.compress(text.encode()))
    assert list(read_brackets(plain)) == list(read_brackets(str(packed))) == wanted
    plain.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert list(read_brackets(plain)) == wanted
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))
    assert list(read_brackets(packed)) == wanted
    plain.write_text("(A a)\n\n  (B b", encoding="utf-8")
    with pytest.raises(TreeFormatError) as caught:
        list(read_brackets(plain))
    assert str(caught.value).startswith(f"{plain}:3:3: 1 bracket(s) not closed before the end of the file")


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"(A a)\n(B b))")))
    reader = read_brackets("-")
    with pytest.raises(TreeFormatError, match=r"<stdin>:2:6: a closing bracket without an opening one: '\(B b\)\)'"):
        list(reader)


def test_trees_come_as_soon_as_they_are_complete():
    taken: list[int] = []

    def lines() -> Iterator[tuple[int, str]]:
        for number, line in enumerate(["(A a)", "(B", "b) (C c)", "# remark", "(A a)"], 1):
            taken.append(number)
            yield number, line
        raise AssertionError("read beyond what was asked for")

    reader = parse_trees(lines(), source="x.mrg")
    assert taken == []
    assert next(reader) == A
    assert taken == [1]
    assert next(reader) == B
    assert taken == [1, 2, 3]
    assert next(reader) == C
    assert taken == [1, 2, 3]
    assert next(reader) == A
    assert taken == [1, 2, 3, 4, 5]


def test_endless_input():
    reader = parse_trees(((number, "(A a)\n") for number in iter(int, 1)), source="x.mrg", on_bad=lambda _: None)
    assert [next(reader) for _ in range(1000)] == [A] * 1000


# What is written.


@pytest.mark.parametrize(
    ("word", "written"),
    [("(", "-LRB-"), (")", "-RRB-"), ("(a)", "-LRB-a-RRB-"), (":-)", ":--RRB-"), ("()", "-LRB--RRB-"), ("[", "[")],
)
def test_words_with_parentheses(word, written):
    assert TOKENS.write(word) == written
    assert TOKENS.read(written) == word
    tree = Tree("X", word=word)
    assert str(tree) == f"(X {written})"
    assert parse(str(tree)) == [tree]


def test_labels_with_parentheses():
    assert str(Tree("$(", word="(")) == "($-LRB- -LRB-)"
    assert parse("($-LRB- -LRB-)") == [Tree("$(", word="(")]
    assert parse("(-LRB- -LRB-)") == [Tree("-LRB-", word="(")]
    assert str(Tree("-LRB-", word="(")) == "(-LRB- -LRB-)"
    assert parse("(-RRB- (-RRB- -RRB-))") == [Tree("-RRB-", [Tree("-RRB-", word=")")])]
    assert str(Tree("(", [Tree(")", word=")")])) == "(-U+0028- (-U+0029- -RRB-))"
    assert parse("(-U+0028- (-U+0029- -RRB-))") == [Tree("(", [Tree(")", word=")")])]


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("New York", "New-U+0020-York"),
        ("", "-U+-"),
        ("\n\f", "-U+000A--U+000C-"),
        ("a\u00a0b", "a\u00a0b"),
        ("\ud800", "-U+D800-"),
        ("-LRB-", "-U+002D-LRB-"),
        ("-LRB(", "-U+002D-LRB-LRB-"),
        ("-U+0020-", "-U+002D-U+0020-"),
        ("-U+FFFFFF-", "-U+002D-U+FFFFFF-"),
        ("-x-", "-x-"),
    ],
)
def test_codes(word, written):
    assert str(Tree("X", word=word)) == f"(X {written})"
    assert parse(f"(X {written})") == [Tree("X", word=word)]


def test_a_code_of_no_character_is_text():
    assert parse("(X -U+FFFFFF-)") == [Tree("X", word="-U+FFFFFF-")]


@given(any_trees)
def test_what_is_written_reads_back(tree):
    assert parse(format_tree(tree)) == [tree]


@given(st.lists(any_trees, max_size=5), st.sampled_from(["", " ", "\n", "\r\n", "\n\n# remark\n", "\n/* x */"]))
def test_many_trees_read_back(some, between):
    assert parse(between.join(map(format_tree, some))) == some


# Malformed trees: the place to the column.


@pytest.mark.parametrize(
    ("text", "problem", "line", "column", "shown"),
    [
        ("(A a))", "a closing bracket without an opening one", 1, 6, "(A a))"),
        ("\n  ) (A a)", "a closing bracket without an opening one", 2, 3, ") (A a)"),
        ("(A a) b", "text outside any bracket", 1, 7, "(A a) b"),
        ("\nab (A a)", "text outside any bracket", 2, 1, "ab (A a)"),
        ("(A a)\n\n()", "an empty tree ()", 3, 1, "()"),
        ("(A a) (S (NP) (B b))", "the label 'NP' has no word or subtree below it", 1, 10, "(A a) (S (NP) (B b))"),
        ("(S\n  (NP\n  )\n  (B b))", "the label 'NP' has no word or subtree below it", 2, 3, ")"),
        ("(S (N a b))", "two words below one label 'N'", 1, 9, "b"),
        ("(S\n (N a\n  b))", "two words below one label 'N'", 3, 3, "b"),
        ("(S (N a (V b)))", "a word and a bracket side by side below one label", 1, 9, "("),
        ("(S (N a) b)", "a word and a bracket side by side below one label", 1, 10, "b"),
        ("(A a)\n(S (N\n a", "2 bracket(s) not closed before the end of the file, the first one here", 2, 1, "(S"),
        ("(A a) (", "1 bracket(s) not closed before the end of the file, the first one here", 1, 7, "("),
        ("(A a)\n/* (B b)\n", "a comment /* is never closed", 2, 0, ""),
    ],
)
def test_malformed_trees(text, problem, line, column, shown):
    error = error_of(text)
    assert (error.source, error.problem, error.line, error.column, error.text) == (
        "x.mrg",
        problem,
        line,
        column,
        shown,
    )
    place = f"x.mrg:{line}:{column}" if column else f"x.mrg:{line}"
    assert str(error) == f"{place}: {problem}" + (f": {shown!r}" if shown else "")
    assert error_of(text.replace("\n", "\r\n")).line == line
    _, errors = parse_skipping(text)
    assert [str(skipped) for skipped in errors] == [str(error)]


def test_long_lines_are_cut_in_messages():
    error = error_of("(A " + "a" * 100 + "))")
    assert error.column == 105
    assert error.text == "(A " + "a" * 54 + "..."
    assert str(error).endswith(repr(error.text))


# Skipping.


@pytest.mark.parametrize(
    ("text", "kept", "places"),
    [
        # One tree a line: only the bad line goes.
        ("(A a)\n(X x y)\n(B b)\n", "(A a) (B b)", [(2, 6)]),
        ("(X)\n(A a)\n()\n(B b)\nx\n", "(A a) (B b)", [(1, 1), (3, 1), (5, 1)]),
        # A bracket too few: the line after is a tree of its own.
        ("(A a)\n(S (X x)\n(B b)\n(C c)\n", "(A a) (B b) (C c)", [(2, 1)]),
        ("(S (X x\n(A a)\n(S (X\n(B b)\n(S\n(C c)", "(A a) (B b) (C c)", [(1, 1), (3, 1), (5, 1)]),
        ("(S (X x)\n(A a)\n(Y y z)\n(B b)", "(A a) (B b)", [(1, 1), (3, 6)]),
        ("(A a)\n(S (X x)\n", "(A a)", [(2, 1)]),
        # A bracket too many: the line's pieces go with it.
        ("(A a)\n(S (X x))) (Y y))\n(B b)", "(A a) (B b)", [(2, 10)]),
        ("(S (X x)) (Y y))\n(B b)", "(B b)", [(1, 16)]),
        # Whole trees before the bad one on its line stay, the rest of the line is skipped.
        ("(A a) (X x y) (Y y)\n(B b)", "(A a) (B b)", [(1, 12)]),
        # Indented trees: on to the next line that begins with a bracket.
        ("(S\n  (X x y)\n  (Y y))\n(S\n  (A a))\n", "(S (A a))", [(2, 8)]),
        ("( (S (X x)\n     (Y y)\n\n( (A a))\n", "( (A a))", [(1, 1)]),
        ("( (S (X x)))\n  )\n  (Y y)\n# remark\n(A a)\n", "( (S (X x))) (A a)", [(2, 3)]),
        # Comments do not begin trees.
        ("(X)\n/* (Y y)\n  (Z) */\n(A a)", "(A a)", [(1, 1)]),
        ("(A a)\n/* (B b)\n", "(A a)", [(2, 0)]),
    ],
)  # fmt: skip
def test_skipping(text, kept, places):
    found, errors = parse_skipping(text)
    assert " ".join(found) == kept
    assert [(error.line, error.column) for error in errors] == places
    assert all(error.source == "x.mrg" for error in errors)


@given(
    st.lists(st.tuples(st.sampled_from(["(X)", "(X x y)", "(S (X x)", "(S (X", "(S (X x) y)", "()"]), st.booleans()))
)
def test_each_bad_line_counts_once_and_costs_no_good_one(lines):
    """One tree a line, good and bad mixed."""
    text = "\n".join(f"(S (A a) (B b{number}))" if good else bad for number, (bad, good) in enumerate(lines, 1))
    found, errors = parse_skipping(text)
    assert found == [f"(S (A a) (B b{number}))" for number, (_, good) in enumerate(lines, 1) if good]
    assert [error.line for error in errors] == [number for number, (_, good) in enumerate(lines, 1) if not good]


def test_an_unclosed_tree_says_where_the_next_begins():
    _, (error,) = parse_skipping("(A a)\n(S (X x)\n\n(B b)\n")
    assert str(error) == "x.mrg:2:1: 1 bracket(s) not closed before line 4, the first one here: '(S'"


def test_unindented_lines_of_a_good_tree_are_no_new_trees():
    found, errors = parse_skipping("(S\n(A a)\n(B b)\n)\n(C c)")
    assert (found, errors) == (["(S (A a) (B b))", "(C c)"], [])


def test_unclosed_trees_in_a_long_file(monkeypatch):
    """What is held back to be read again is bounded, so that a long file costs neither memory nor time."""
    fed: list[int] = []
    plain = brackets.BracketReader._feed

    def counting(self, number: int, line: str) -> None:
        fed.append(number)
        assert len(self.held) <= brackets._MOST_LINES
        plain(self, number, line)

    monkeypatch.setattr(brackets.BracketReader, "_feed", counting)
    lines = ["(S (A a))\n"] * 20_000
    for bad in (100, 5000, 19_500):
        lines[bad] = "(S (A a)\n"
    errors = BadTrees()
    found = list(parse_trees(enumerate(lines, 1), source="x.mrg", on_bad=errors))
    assert len(found) == 20_000 - 3
    assert [error.line for error in errors.first] == [101, 5001, 19_501]
    assert len(fed) <= 20_000 + 3 * (brackets._MOST_LINES + 2)
