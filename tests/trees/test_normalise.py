"""Cleaning: what goes, what stays, and that cleaning twice is cleaning once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import deep, trees
from sapwood.errors import InputError, UsageError
from sapwood.storage.schema import check_json
from sapwood.trees.normalise import (
    Normaliser,
    cut_function_tag,
    cut_indices,
    describe_empties,
    is_empty,
    parse_labels,
    read_labels,
    unknown_empties,
)
from sapwood.trees.tree import Tree

DEFAULT = Normaliser()


def clean(text: str, normaliser: Normaliser = DEFAULT) -> str | None:
    tree = normaliser(Tree.parse(text))
    return None if tree is None else str(tree)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NP", "NP"), ("NP-SBJ", "NP"), ("NP-SBJ-1", "NP"), ("NP=2", "NP"), ("NP-SBJ=2", "NP"), ("ADVP|PRT", "ADVP"),
        ("-LRB-", "-LRB-"), ("-NONE-", "-NONE-"), ("-X", "-X"), ("--", "--"), ("=", "="), ("|", "|"), ("", ""),
        ("N-", "N"), ("PRP$", "PRP$"), ("WP$-1", "WP$"), ("^a-b", "^a"),
    ],
)  # fmt: skip
def test_cutting_function_tags(label, expected):
    assert cut_function_tag(label) == expected


def test_function_tags_of_phrases_and_of_tags():
    text = "(IP-MAT (NP-SBJ (N-A stein)) (VP=2 (VBDI sá)) (PP|X (-LRB- -LRB-) (P-1 á)))"
    assert clean(text) == "(ROOT (IP (NP (N-A stein)) (VP (VBDI sá)) (PP (-LRB- -LRB-) (P-1 á))))"
    all_tags = replace(DEFAULT, function_tags="all")
    assert clean(text, all_tags) == "(ROOT (IP (NP (N stein)) (VP (VBDI sá)) (PP (-LRB- -LRB-) (P á))))"
    assert clean(text, replace(DEFAULT, function_tags="none")) == f"(ROOT {text})"


@pytest.mark.parametrize(
    ("tag", "word"),
    [
        ("-NONE-", "*T*-1"), ("-NONE-", "*"), ("-NONE-", "0"), ("-NONE-", "*U*"), ("-NONE-", "anything"),
        ("NP-SBJ", "*pro*"), ("NP-SBJ", "*con*"), ("NP", "*T*-1"), ("NP", "*ICH*-12"), ("NP-SBJ-2", "*-3"),
        ("NP", "*?*"), ("C", "0"), ("WNP-1", "0"), ("V", "*"), ("NP", "*T*"),
        ("sn.e-SUJ", "*0*"), ("NP", "*T1*"), ("NP", "*T1*-2"), ("NP-SBJ", "*hearer+pro*"),
        ("NP", "*PRO*"), ("X", "*OP*-3"),
    ],
)  # fmt: skip
def test_empty_elements(tag, word):
    assert is_empty(tag, word)
    assert clean(f"(S ({tag} {word}) (V x))") == "(ROOT (S (V x)))"
    assert clean(f"(S ({tag} {word}))") is None
    kept = clean(f"(S ({tag} {word}) (V x))", replace(DEFAULT, empties=False))
    assert kept == f"(ROOT (S ({tag} {word}) (V x)))"


@pytest.mark.parametrize(
    ("tag", "word"),
    [
        ("CD", "0"), ("NUM", "0"), ("NUM-N", "0"), ("LS", "0"), ("SYM", "*"), ("NFP", "*"), (":", "*"), (".", "0"),
        ("N", "00"), ("N", "0.5"), ("N", "**"), ("N", "***"), ("N", "*a"), ("N", "*a*b"), ("N", "a*"), ("N", "*1*"),
        ("N", "*-"), ("N", "*T*-x"), ("N", "1"), ("N", "-0"),
    ],
)  # fmt: skip
def test_what_only_looks_empty_stays(tag, word):
    assert not is_empty(tag, word)
    assert clean(f"(S ({tag} {word}) (V x))") == f"(ROOT (S ({tag} {word}) (V x)))"


def test_a_word_of_no_letters_is_not_empty():
    assert not is_empty("N", "")


def test_phrases_left_empty_go_too():
    assert clean("(S (NP (NP (-NONE- *)) (SBAR (C 0) (NP *T*-1))) (VP (V x)))") == "(ROOT (S (VP (V x))))"
    assert clean("(S (VP (V x) (NP (-NONE- *))))") == "(ROOT (S (VP (V x))))"
    assert clean("(S (NP (-NONE- *)) (VP (-NONE- 0)))") is None


def test_repeated_unaries():
    text = "(S (NP (NP (NP (DT a) (N b)))) (VP (V c)))"
    assert clean(text) == "(ROOT (S (NP (DT a) (N b)) (VP (V c))))"
    assert clean(text, replace(DEFAULT, repeated_unaries=False)) == f"(ROOT {text})"
    # Those that appear by cutting and by removing, and a phrase over a tag of its name.
    assert clean("(S (NP-SBJ (NP (N b)) (NP (-NONE- *))) (X (X x)))") == "(ROOT (S (NP (N b)) (X x)))"
    # Other unary chains stay.
    assert clean("(S (NP (QP (NP (N a)))) (V b))") == "(ROOT (S (NP (QP (NP (N a)))) (V b)))"


def test_editorial_nodes():
    text = "( (CODE <P_1>) (IP-MAT (NP (N a)) (CODE (X x) (Y y)) (V b)) (META (REF c)) (ID A,.1))"
    assert clean(text) == "(ROOT (IP (NP (N a)) (V b)))"
    assert clean("( (CODE <P_1>) (ID A,.1))") is None
    assert clean("(CODE x)") is None
    assert clean("(S (CODE-2 (X x)) (V b))") == "(ROOT (S (V b)))"
    kept = replace(DEFAULT, drop=())
    assert clean("( (S (N a) (V b)) (ID A,.1))", kept) == "(ROOT (S (N a) (V b)) (ID A,.1))"
    assert clean("(S (N a) (PUNC .))", replace(DEFAULT, drop=("PUNC",))) == "(ROOT (S (N a)))"


@pytest.mark.parametrize(
    "text",
    [
        "(S (N a) (V b))",
        "( (S (N a) (V b)))",
        "((S (N a) (V b)))",
        "(ROOT (S (N a) (V b)))",
        "(TOP (S (N a) (V b)))",
        "(S1 (S (N a) (V b)))",
        "(VROOT (S (N a) (V b)))",
        "(TOP-X (S (N a) (V b)))",
        "(ROOT (ROOT (S (N a) (V b))))",
        "( (TOP (ROOT (S1 (S (N a) (V b))))))",
        "( (S (N a) (V b)) (NP (-NONE- *)))",
        "( (TOP (S (N a) (V b))) (ID A,.1))",
    ],
)
@pytest.mark.parametrize("normaliser", [DEFAULT, Normaliser(repeated_unaries=False)])
def test_one_root(text, normaliser):
    assert clean(text, normaliser) == "(ROOT (S (N a) (V b)))"
    assert clean(text, replace(normaliser, root="TOP")) == "(TOP (S (N a) (V b)))"
    assert clean(text, replace(normaliser, root="Z")) == "(Z (S (N a) (V b)))"
    assert clean(text.replace("(S ", "(Z "), replace(normaliser, root="Z")) == "(Z (N a) (V b))"


def test_roots_over_several_nodes():
    assert clean("( (S (N a)) (. .))") == "(ROOT (S (N a)) (. .))"
    assert clean("(TOP (TOP (N a) (V b)) (. .))") == "(ROOT (TOP (N a) (V b)) (. .))"


def test_roots_over_single_words():
    assert clean("(N a)") == "(ROOT (N a))"
    assert clean("(ROOT (N a))") == "(ROOT (N a))"
    assert clean("(ROOT a)") == "(ROOT (ROOT a))"
    assert clean("(TOP a)") == "(ROOT (TOP a))"


normalisers = st.builds(
    Normaliser,
    function_tags=st.sampled_from(["phrases", "all", "none"]),
    empties=st.booleans(),
    repeated_unaries=st.booleans(),
    drop=st.sampled_from([("ID", "CODE", "META", "REF"), (), ("NP",)]),
    root=st.sampled_from(["ROOT", "TOP", "S", "@|^"]),
)


@given(trees(), normalisers)
def test_cleaning_twice_is_cleaning_once(tree, normaliser):
    once = normaliser(tree)
    if once is not None:
        assert normaliser(once) == once


@given(trees(), normalisers)
def test_what_holds_of_clean_trees(tree, normaliser):
    found = normaliser(tree)
    if found is None:
        # Every word was empty or below an editorial node.
        assert normaliser.empties or normaliser.drop
        return
    assert found.label == normaliser.root
    assert found.word is None
    words = iter(tree.words())
    assert all(word in words for word in found.words())  # a subsequence
    for node in found.nodes():
        assert node.label not in normaliser.drop
        if normaliser.empties and node.word is not None:
            assert not is_empty(node.label, node.word)
        if node is not found and (node.word is None or normaliser.function_tags == "all"):
            assert normaliser.function_tags == "none" or cut_function_tag(node.label) == node.label
        if normaliser.repeated_unaries and len(node.children) == 1 and node is not found:
            assert node.children[0].label != node.label


@given(trees(max_leaves=8))
def test_everything_off_changes_nothing_but_the_root(tree):
    off = Normaliser(function_tags="none", empties=False, repeated_unaries=False, drop=(), root="the root")
    if tree.word is None and tree.label in ("", "ROOT", "TOP", "S1", "VROOT"):
        tree = Tree("X", [tree])
    assert off(tree) == Tree("the root", [tree])


def test_deep_trees():
    for branching in ("right", "left"):
        tree = deep(5000, branching=branching)
        assert DEFAULT(tree) == Tree("ROOT", [tree])
    assert DEFAULT(deep(5000, branching="unary")) == Tree.parse("(ROOT (S (N x)))")


def test_settings_as_json():
    normaliser = Normaliser(function_tags="all", empties=False, repeated_unaries=False, drop=("A", "B"), root="TOP")
    assert Normaliser.from_dict(json.loads(json.dumps(normaliser.to_dict()))) == normaliser
    assert Normaliser.from_dict(json.loads(json.dumps(DEFAULT.to_dict()))) == DEFAULT


def test_wrong_settings():
    with pytest.raises(UsageError, match="phrases, all, indices or none, not 'some'"):
        Normaliser(function_tags="some")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="root label must not be empty"):
        Normaliser(root="")


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("IP-MAT", "IP-MAT"),
        ("IP-MAT-SPE-1", "IP-MAT"),
        ("IP-MATX", "IP"),
        ("IP-SUB", "IP"),
        ("NP-1-SBJ", "NP-SBJ"),
        ("NP-SBJ=2", "NP-SBJ"),
        ("NP-SBJX", "NP"),
        ("IP-MAT-SBJ", "IP-MAT"),
        ("-LRB-", "-LRB-"),
        ("NP", "NP"),
    ],
)
def test_function_tags_to_keep(label, expected):
    normaliser = Normaliser(keep=("IP-MAT", "-SBJ"))
    tree = Tree("ROOT", [Tree(label, [Tree("A", word="a"), Tree("N-A", word="b")])])
    assert normaliser(tree).children[0].label == expected
    assert Normaliser.from_dict(normaliser.to_dict()) == normaliser
    assert "keep" not in Normaliser().to_dict()


def test_what_cannot_be_kept():
    with pytest.raises(UsageError, match="'NP' has none"):
        Normaliser(keep=("NP",))
    with pytest.raises(UsageError, match="all function tags are kept"):
        Normaliser(keep=("NP-SBJ",), function_tags="none")


@pytest.mark.parametrize(
    ("label", "becomes"),
    [
        ("NP-SBJ-2", "NP-SBJ"),
        ("NP-SBJ=2", "NP-SBJ"),
        ("IP-MAT=1-2", "IP-MAT"),
        ("IP-INF-PRP-SPE", "IP-INF-PRP-SPE"),
        ("NP-OB1", "NP-OB1"),
        ("NP-1-SBJ", "NP-SBJ"),
        ("NP-2a", "NP-2a"),
        ("-1", "-1"),
        ("NP", "NP"),
    ],
)
def test_indices_alone_are_cut(label, becomes):
    assert cut_indices(label) == becomes
    tree = Tree(label, [Tree("N-A-3", word="a"), Tree("N", word="b")])
    clean = Normaliser(function_tags="indices")(tree)
    assert clean is not None
    assert str(clean) == f"(ROOT ({becomes} (N-A a) (N b)))"


TABLE = """
# clauses
IP-MAT*     IP-MAT
IP-MAT-SPE  SPEECH
IP*         IP
N-*         N
-LRB-       X
"""


@pytest.mark.parametrize(
    ("label", "becomes"),
    [("IP-MAT-1", "IP-MAT"), ("IP-MAT-SPE", "SPEECH"), ("IP-MAT-SPE=2", "SPEECH"), ("IP-MAT-SPE-PRN", "IP-MAT"),
     ("IP-SUB", "IP"), ("NP-SBJ", "NP"), ("IQ", "IQ")],
)  # fmt: skip
def test_labels_are_looked_up_in_a_table(label, becomes, tmp_path):
    path = tmp_path / "labels.txt"
    path.write_text(TABLE, encoding="utf-8")
    clean = Normaliser(labels=read_labels(path))
    assert clean.labels == parse_labels(TABLE)
    tree = clean(Tree(label, [Tree("N-A", word="a"), Tree("-LRB-", word="b")]))
    assert tree is not None
    assert str(tree) == f"(ROOT ({becomes} (N a) (X b)))"


def test_a_table_of_labels_is_stored():
    clean = Normaliser(labels=parse_labels(TABLE), keep=("NP-SBJ",))
    stored = json.loads(json.dumps(clean.to_dict()))
    assert Normaliser.from_dict(stored) == clean
    check_json(stored, Normaliser)
    assert "labels" not in Normaliser().to_dict()
    assert "keep" not in Normaliser().to_dict()
    for bad in ([["a"]], [["a", "b", "c"]], ["ab"], [[1, 2]], [["", "b"]]):
        with pytest.raises(UsageError, match="pairs of labels"):
            Normaliser.from_dict({**stored, "labels": bad})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NP", ":1: a line has a label and what it becomes"),
        ("\nNP A B", ":2: a line has"),
        ("NP A\nNP B", ":2: the label 'NP' occurs twice"),
        ("N*P A", ":1: a \\* stands only at the end"),
        ("NP A*", ":1: a \\* stands only at the end"),
        ("# nothing", "no labels in it"),
    ],
)
def test_malformed_tables_of_labels_are_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_labels(text)


def test_what_is_kept_whole_has_nothing_to_keep():
    for choice in ("none", "indices"):
        with pytest.raises(UsageError, match="all function tags are kept"):
            Normaliser(function_tags=choice, keep=("NP-SBJ",))


@pytest.mark.parametrize(
    ("tag", "word", "name"),
    [
        ("NP", "*T*_1", "*T*"), ("NP", "*1*", "*1*"), ("NP", "∅", "∅"), ("NP", "<e>", "<e>"), ("NP", "[t]_3", "[t]"),
        ("TRACE", "nobody", "TRACE"), ("NP", "*e-2", "*e"), ("NP", "*ellipsis-site*", "*ellipsis-site*"),
    ],
)  # fmt: skip
def test_unknown_empty_elements_are_found_and_removed_on_request(tag, word, name):
    assert not is_empty(tag, word)
    assert unknown_empties({(tag, word): 2, ("N", "dog"): 3}) == {name: 2}
    remark = describe_empties({name: 2})
    assert f"{name} (2)" in remark
    assert "--empty" in remark
    text = f"(S ({tag} {word}) (V x))"
    assert clean(text) == f"(ROOT {text})"
    normaliser = replace(DEFAULT, empty=(name,))
    assert clean(text, normaliser) == "(ROOT (S (V x)))"
    assert Normaliser.from_dict(normaliser.to_dict()) == normaliser


def test_words_are_not_taken_for_empty_elements():
    words = ["dog", "*", "**", "0", "a*", "5*", "C*", "[sic]", "<b>", "t", "e", "*-"]
    assert unknown_empties({("N", word): 1 for word in words}) == {}
    assert unknown_empties({("SYM", "∅"): 1, (":", "_"): 1, ("CD", "*1*"): 1}) == {}
    assert describe_empties({}) == ""
    with pytest.raises(UsageError, match="empties=False keeps them"):
        Normaliser(empties=False, empty=("∅",))
