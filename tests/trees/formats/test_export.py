import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.errors import TreeFormatError, UsageError
from sapwood.trees.formats.export import format_export, parse_export, read_export, write_export
from sapwood.trees.formats.registry import BadTrees
from sapwood.trees.tree import Tree

SIMPLE = """\
#FORMAT 3
#BOT ORIGIN
0 nowhere -- made up
#EOT ORIGIN
%% a remark
#BOS 7 1 1000000000 0 %% by hand
the\tDT\t--\tNK\t500
dog\t\tNN\tMasc\tHD\t500
barks VBZ -- HD 501 SBJ 500 %% loud
.\t.\t--\t--\t0
#500\tNP\t--\tSB\t501
#501\tS\t--\t--\t0
#EOS 7
"""


def parse(text: str, **options: object) -> list[Tree]:
    return list(parse_export(text, source="x.export", **options))  # type: ignore[arg-type]


def sentence(*rows: str, number: int = 1) -> str:
    return "\n".join([f"#BOS {number}", *rows, f"#EOS {number}", ""])


def error_of(text: str, **options: object) -> TreeFormatError:
    with pytest.raises(TreeFormatError) as caught:
        parse(text, **options)
    return caught.value


def test_version_3():
    assert list(map(str, parse(SIMPLE))) == ["(ROOT (S (NP (DT the) (NN dog)) (VBZ barks)) (. .))"]


def test_function_labels_of_phrases_and_tags():
    assert list(map(str, parse(SIMPLE, functions=True))) == [
        "(ROOT (S (NP-SB (DT-NK the) (NN-HD dog)) (VBZ-HD barks)) (. .))"
    ]


VERSION_4 = sentence("dogs dog NNS -- SB 500", "bark bark VBP -- HD 500 SB 500", "#500 -- S -- -- 0", number=3)


@pytest.mark.parametrize("header", ["#FORMAT 4\n", ""])
def test_version_4_with_and_without_its_header(header: str):
    assert list(map(str, parse(header + VERSION_4))) == ["(ROOT (S (NNS dogs) (VBP bark)))"]


def test_version_3_without_its_header():
    assert list(map(str, parse(sentence("hi UH -- -- 0")))) == ["(ROOT (UH hi))"]


def test_streams_from_a_file_with_carriage_returns_and_odd_words(tmp_path: Path):
    path = tmp_path / "a.export"
    path.write_bytes(
        sentence("#tag NN -- -- 0", "#99 CD -- -- 0", "a\u00a0b\u2028c NN -- -- 0").replace("\n", "\r\n").encode()
    )
    assert next(read_export(path)).words() == ["#tag", "#99", "a\u00a0b\u2028c"]


def test_words_may_follow_phrases_and_children_follow_word_order():
    text = sentence("#501 B -- -- 0", "#500 A -- -- 0", "x X -- -- 501", "y Y -- -- 500")
    assert str(parse(text)[0]) == "(ROOT (B (X x)) (A (Y y)))"


# Gaps


def test_gap_is_closed_by_keeping_the_block_of_the_head():
    # "what did you see": the VP holds "what" and "see"; the head stays, "what" goes up to S.
    text = sentence(
        "what W -- OA 500", "did V -- HD 501", "you P -- SB 501", "see I -- HD 500",
        "#500 VP -- OC 501", "#501 S -- -- 0",
    )  # fmt: skip
    assert str(parse(text, gaps="close")[0]) == "(ROOT (S (W what) (V did) (P you) (VP (I see))))"


def test_without_a_head_the_block_with_most_words_stays_and_the_leftmost_of_equals():
    text = sentence("a A -- -- 500", "b B -- -- 0", "c C -- -- 500", "d D -- -- 500", "#500 X -- -- 0")
    assert str(parse(text, gaps="close")[0]) == "(ROOT (A a) (B b) (X (C c) (D d)))"
    text = sentence("a A -- -- 500", "b B -- -- 0", "c C -- -- 500", "#500 X -- -- 0")
    assert str(parse(text, gaps="close")[0]) == "(ROOT (X (A a)) (B b) (C c))"


def test_a_raised_child_stops_at_the_closest_ancestor_without_a_gap():
    # "c" belongs to X, inside Y, inside Z; "b" sits in Z, so "c" fits below Z and goes no higher.
    text = sentence(
        "a A -- HD 500", "b B -- -- 502", "c C -- -- 500", "d D -- -- 0",
        "#500 X -- -- 501", "#501 Y -- -- 502", "#502 Z -- -- 0",
    )  # fmt: skip
    assert str(parse(text, gaps="close")[0]) == "(ROOT (Z (Y (X (A a))) (B b) (C c)) (D d))"


def test_a_raised_head_is_not_the_head_of_its_new_parent():
    # Both children of X are HD; the raised one must not decide which block of Y stays.
    text = sentence(
        "a A -- HD 500", "q Q -- -- 0", "b B -- -- 501", "c C -- -- 501", "q Q -- -- 0", "d D -- HD 500",
        "#500 X -- -- 501", "#501 Y -- -- 0",
    )  # fmt: skip
    assert str(parse(text, gaps="close")[0]) == "(ROOT (X (A a)) (Q q) (Y (B b) (C c)) (Q q) (D d))"


def test_punctuation_on_the_root_goes_down_into_the_phrase_around_it():
    text = sentence(
        '" $( -- -- 0', "dogs N -- -- 500", ", $, -- -- 0", "cats N -- -- 500", "sleep V -- HD 501",
        ". $. -- -- 0", "#500 NP -- SB 501", "#501 S -- -- 0",
    )  # fmt: skip
    tree = parse(text, gaps="close")[0]
    assert [(child.label, len(child)) for child in tree.children] == [("$(", 1), ("S", 4), ("$.", 1)]
    assert [child.word for child in tree.children[1].children[0].children] == ["dogs", ",", "cats"]


def test_punctuation_that_hangs_on_a_phrase_stays_there():
    text = sentence(
        "a A -- HD 500", "b B -- -- 0", "c C -- -- 500", ", , -- -- 501", "d D -- -- 502",
        "e E -- -- 502", "#500 X -- -- 0", "#501 Y -- -- 0", "#502 Z -- -- 501",
    )  # fmt: skip
    assert str(parse(text, gaps="close")[0]) == "(ROOT (X (A a)) (B b) (C c) (Y (, ,) (Z (D d) (E e))))"
    text = text.replace(", , -- -- 501\nd D -- -- 502", "d D -- -- 502\n, , -- -- 501")
    assert str(parse(text, gaps="close")[0]) == "(ROOT (X (A a)) (B b) (C c) (Y (Z (D d)) (, ,) (E e)))"


def test_gaps_can_be_refused_with_number_and_line():
    text = sentence("a A -- -- 500", "b B -- -- 0", "c C -- -- 500", "#500 X -- -- 0", number=12)
    error = error_of(text, gaps="error")
    assert error.line == 5
    assert "sentence 12" in str(error)
    assert "#500 (X)" in str(error)
    assert len(parse(SIMPLE, gaps="error")) == 1


def test_unknown_treatment_of_gaps():
    with pytest.raises(UsageError, match="keep, close, split"):
        parse_export("", source="x", gaps="sideways")  # type: ignore[arg-type]


# Errors


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (sentence("a A -- -- 500"), 2, "no node #500"),
        (sentence("a A -- -- 7"), 2, "no node #7"),
        (sentence("a A -- -- 500", "#500 X -- -- 501", "#501 Y -- -- 500"), 3, "#500 is its own ancestor"),
        (sentence("a A -- -- 0", "b B -- -- 500", "#500 X -- -- 500"), 4, "node #500 is its own ancestor"),
        ("#BOS 1\na A -- -- 0\n", 1, "file ends before its #EOS"),
        ("#BOS 1\na A -- -- 0\n#BOS 2\n", 3, "sentence 1: no #EOS before the next #BOS"),
        (sentence("a A -- --"), 2, "4 column"),
        ("#FORMAT 3\n" + sentence("a a A -- -- 0"), 3, "6 columns, format 3"),
        ("#FORMAT 4\n" + sentence("a A -- -- 0"), 3, "5 column"),
        (sentence("a A -- -- 0", "b b B -- -- 0"), 3, "6 columns"),
        (sentence("a A -- -- 0", "#500 X -- -- 0"), 3, r"node #500 \(X\) has no children"),
        (sentence("a A -- -- 500", "#500 X -- -- 0", "#500 Y -- -- 0"), 4, "#500 is already on line 3"),
        (sentence("a A -- -- x"), 2, "'x' is not a number"),
        (sentence("a A -- -- " + "9" * 5000), 2, "is not a number"),
        (sentence("a A -- -- 0 SB y"), 2, "'y' is not a number"),
        (sentence(), 1, "no words"),
        ("#BOS one\n#EOS 1\n", 1, "sentence number"),
        ("#BOS\n", 1, "sentence number"),
        ("#BOS 1\na A -- -- 0\n#EOS 2\n", 3, "expected #EOS 1"),
        ("#EOS 2\n", 1, "#EOS without #BOS"),
        ("hello there\n", 1, "text outside"),
        ("#BOT WORDTAG\n1 NN\n", 1, "#BOT without #EOT"),
        ("#BOT WORDTAG\n1 NN\n" + sentence("a A -- -- 0"), 1, "#BOT without #EOT"),
    ],
)  # fmt: skip
def test_errors_name_file_line_and_problem(text: str, line: int, message: str):
    error = error_of(text)
    assert error.line == line
    assert error.source == "x.export"
    with pytest.raises(TreeFormatError, match=message):
        raise error


def test_bad_sentences_are_handed_over_and_skipped():
    good = sentence("ok A -- -- 0", number=9)
    bad: list[TreeFormatError] = []
    text = (
        sentence("a A", "more B", "and more") + good + "#BOS 2\na A -- -- 0\n" + good + sentence() + good
        + "stray text\nand more\n" + good + "#BOS x\nword\n#EOS x\n" + good + "#BOS 5\n"
    )  # fmt: skip
    trees = parse(text, on_bad=bad.append)
    assert [tree.words() for tree in trees] == [["ok"]] * 5
    assert [error.line for error in bad] == [2, 11, 14, 19, 24, 30]


def test_an_error_raised_by_on_bad_itself_gets_out_once():
    seen: list[TreeFormatError] = []

    def refuse(error: TreeFormatError) -> None:
        seen.append(error)
        raise error

    for text in (sentence("a A"), sentence(), "#BOS 1\n#BOS 2\n"):
        seen.clear()
        with pytest.raises(TreeFormatError):
            parse(text, on_bad=refuse)
        assert len(seen) == 1


def test_other_format_versions_are_refused():
    with pytest.raises(TreeFormatError, match=r"x\.export:1: only the export formats 3 and 4"):
        parse("#FORMAT 5\n" + SIMPLE)


def test_a_bad_version_can_be_skipped():
    bad = BadTrees()
    assert parse("#FORMAT 5\n" + SIMPLE, on_bad=bad) == parse(SIMPLE)
    assert bad.count == 1


# Writing


def test_written_form():
    tree = Tree.parse("(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks))) (. .))")
    assert format_export(tree, 4).splitlines() == [
        "#BOS 4",
        "the\tDT\t--\t--\t500",
        "dog\tNN\t--\t--\t500",
        "barks\tVBZ\t--\t--\t501",
        ".\t.\t--\t--\t0",
        "#500\tNP\t--\t--\t502",
        "#501\tVP\t--\t--\t502",
        "#502\tS\t--\t--\t0",
        "#EOS 4",
    ]


def test_numbers_go_on_from_start_and_roots_stay_or_become_root():
    stream = io.StringIO()
    write_export(
        [Tree.parse("(TOP (A a))"), Tree.parse("( (A a))"), Tree.parse("(S (A a))"), Tree("A", word="a")],
        stream, start=3,
    )  # fmt: skip
    text = stream.getvalue()
    assert text.startswith("#FORMAT 3\n#BOS 3\n")
    assert "#EOS 6\n" in text
    assert list(map(str, parse(text))) == ["(ROOT (A a))", "(ROOT (A a))", "(S (A a))", "(A a)"]


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("a b", "a-U+0020-b"),
        ("", "-U+-"),
        ("#500", "-U+0023-500"),
        ("#499", "#499"),
        ("#BOS", "-U+0023-BOS"),
        ("%%x\n", "-U+0025-%x-U+000A-"),
        ("(", "("),
        ("-LRB-", "-LRB-"),
        ("-U+0020-", "-U+002D-U+0020-"),
    ],
)
def test_codes_of_what_a_column_cannot_hold(word: str, written: str):
    tree = Tree("ROOT", [Tree("A", word=word)])
    text = format_export(tree, 8)
    assert text.splitlines()[1].split("\t")[0] == written
    assert parse(text) == [tree]


@pytest.mark.parametrize("label", ["", "A B"])
def test_labels_come_back(label: str):
    tree = Tree("ROOT", [Tree(label, [Tree("A", word="a")])])
    assert parse(format_export(tree, 1)) == [tree]


def test_deep_trees():
    tree = Tree("A", word="a")
    for _ in range(5000):
        tree = Tree("X", [tree])
    tree = Tree("ROOT", [tree])
    assert parse(format_export(tree, 1)) == [tree]


columns = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" \t\r\n"), min_size=1, max_size=4)
words = (columns | st.sampled_from(["#", "#1", "#499", "%", "--", "#FORMAT", "0", "500"])).filter(
    lambda word: (
        not word.startswith("%%")
        and word not in ("#BOS", "#EOS")
        and not (word[0] == "#" and word[1:].isdigit() and len(word) > 3)
    )
)
subtrees = st.recursive(
    st.builds(lambda label, word: Tree(label, word=word), columns, words),
    lambda below: st.builds(Tree, columns, st.lists(below, min_size=1, max_size=4)),
    max_leaves=12,
)
trees = st.builds(lambda children: Tree("ROOT", children), st.lists(subtrees, min_size=1, max_size=4))


@given(st.lists(trees, max_size=4), st.integers(1, 10_000))
def test_what_is_written_is_read_back(written: list[Tree], start: int):
    stream = io.StringIO()
    write_export(written, stream, start=start)
    assert parse(stream.getvalue(), gaps="error") == written
    assert parse(stream.getvalue()) == written


@st.composite
def graphs(draw: st.DrawFn) -> list[str]:
    """Sentences whose words hang on any phrase, so most have gaps."""
    count = draw(st.integers(1, 5))
    parents = [0, *(draw(st.sampled_from([0, *range(500, 500 + i)])) for i in range(1, count))]
    edges = st.sampled_from(["--", "HD", "SB"])
    below = [draw(st.sampled_from([0, *range(500, 500 + count)])) for _ in range(draw(st.integers(0, 12)))]
    # Every phrase gets at least one word.
    below = draw(st.permutations(below + list(range(500, 500 + count))))
    rows = [f"w{i} W -- {draw(edges)} {p}" for i, p in enumerate(below)]
    return rows + [f"#{500 + i} P{i} -- {draw(edges)} {p}" for i, p in enumerate(parents)]


@given(graphs())
def test_closing_gaps_keeps_words_phrases_and_who_is_above_whom(rows: list[str]):
    tree = parse(sentence(*rows))[0]
    words = [row.split()[0] for row in rows if row[0] == "w"]
    assert tree.words() == words
    parent = {}
    for row in rows:
        first, label, _, _, above = row.split()
        parent[label if row[0] == "#" else first] = "ROOT" if above == "0" else f"P{int(above) - 500}"
    found = {}
    for node in tree.nodes():
        for child in node.children:
            found[child.word or child.label] = node.label
    assert set(found) == set(parent)
    for name, above in found.items():
        # The new parent is the old one or an ancestor of it.
        old = parent[name]
        while old != above:
            assert old != "ROOT"
            old = parent[old]
