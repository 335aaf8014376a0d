"""Tree patterns: agreement with their definitions, with NLTK's tgrep, and bounded time."""

from __future__ import annotations

import pickle
import random
import re
import warnings
from itertools import islice

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.effort import examples, slow
from helpers.gap_trees import gap_trees, random_gap_tree
from helpers.strategies import deep, trees, wide
from helpers.treebank_files import treebank
from oracles.slow_search import slow_matches, slow_named
from sapwood.errors import TimedOut, UsageError
from sapwood.trees.formats.registry import read_trees
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.search import searcher as search_module
from sapwood.trees.search.patterns import parse_pattern
from sapwood.trees.search.regex import PatternError
from sapwood.trees.search.searcher import NodeRef, PatternMatch, Searcher
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree
from treebank_search import PATTERNS as TABLE_PATTERNS

HEADS = HeadRules.parse("A right B C\nB left A\n* right")
RELATIONS = [
    "<", ">", "<<", ">>", ".", ",", "..", ",,", "$", "$+", "$-", "$++", "$--", "$.", "$..", "$,", "$,,", "==",
    "<,", ">,", "<-", ">-", "<'", ">'", "<:", ">:", "<1", "<2", "<3", ">2", "<-1", "<-2", ">-2", "<#", ">#",
    "<<,", ">>,", "<<-", ">>-", "<<:", ">>:", "<<#", ">>#", "<=", "<`", "<<`",
    "<+(A|B)", ">+(A|B)", ".+(B|b)", ",+(B|/a/)", "<+(__ < A)", ".+(__ !< B)",
]  # fmt: skip
TESTS = ["A", "B", "C", "a", "b", "__", "A|B", "!A", "/[Aa]/", "/^b/i", "@A", "!@A|b", "A-X"]

tests = st.sampled_from(TESTS)
small_trees = trees(st.sampled_from(["A", "B", "C", "A-X"]), st.sampled_from(["a", "b"]), max_leaves=8)
small_gap_trees = gap_trees(labels=("A", "B", "C", "A-X"), words=("a", "b"))


def _clauses(nodes: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    item = st.builds("{}{} {}".format, st.sampled_from(["", "", "", "!", "?"]), st.sampled_from(RELATIONS), nodes)
    some = st.lists(item, min_size=1, max_size=2).map(" ".join)
    return (
        some
        | st.builds("{}[{} | {}]".format, st.sampled_from(["", "!"]), some, some)
        | st.builds("{} & {}".format, item, item)
    )


patterns = st.recursive(tests, lambda below: tests | st.builds("({} {})".format, below, _clauses(below)), max_leaves=5)


def matching_nodes(pattern: str, tree: Tree) -> set[int]:
    return set(Searcher(pattern, heads=HEADS).nodes(TreeTable.from_trees([tree])).tolist())


@examples(2000)
@given(patterns, st.lists(small_trees, min_size=1, max_size=3))
def test_patterns_mean_what_their_definitions_say(pattern, some):
    parsed = parse_pattern(pattern)
    table = TreeTable.from_trees(some)
    expected = [
        int(table.begins[number]) + node
        for number, tree in enumerate(some)
        for node in sorted(slow_matches(parsed, tree, HEADS))
    ]
    assert Searcher(parsed, heads=HEADS).nodes(table).tolist() == expected


@examples(1000)
@given(patterns, st.lists(small_trees | small_gap_trees, min_size=1, max_size=3))
def test_patterns_mean_the_same_in_trees_with_gaps(pattern, some):
    test_patterns_mean_what_their_definitions_say.hypothesis.inner_test(pattern, some)


def _random_pattern(rng: random.Random, size: int) -> str:
    """Return a pattern of at most `size` relations, in some of which names are referred to."""
    names: list[str] = []

    def node(size: int, positive: bool) -> str:
        text = rng.choice(TESTS)
        if names and rng.random() < 0.15:
            return rng.choice(["=", "~"]) + rng.choice(names)
        if positive and rng.random() < 0.25:
            names.append(f"n{len(names)}")
            text += f"={names[-1]}"
        for _ in range(min(size, rng.randint(0, 2))):
            text += f" {clause(size - 1, positive)}"
        return text

    def clause(size: int, positive: bool) -> str:
        kind = rng.random()
        if kind < 0.15 and size > 1:
            # An alternative sees no names of another one.
            known = len(names)
            one = clause(size // 2, False)
            del names[known:]
            other = clause(size // 2, False)
            del names[known:]
            return f"{rng.choice(['', '!'])}[{one} | {other}]"
        sign = "!" if kind < 0.35 else "?" if kind < 0.4 else ""
        return f"{sign}{rng.choice(RELATIONS)} ({node(size - 1, positive and not sign)})"

    return node(size, True)


@pytest.mark.parametrize("first", [0, *map(slow, range(200, 10_000, 200))])
def test_ten_thousand_random_patterns(first: int) -> None:
    differences = []
    for seed in range(first, first + 200):
        rng = random.Random(seed)
        pattern = parse_pattern(_random_pattern(rng, 4))
        some = [random_gap_tree(rng, rng.randint(2, 7), ("A", "B", "C", "A-X"), ("a", "b")) for _ in range(3)]
        table = TreeTable.from_trees(some)
        found = Searcher(pattern, heads=HEADS).nodes(table).tolist()
        expected = [
            int(table.begins[number]) + node
            for number, tree in enumerate(some)
            for node in sorted(slow_matches(pattern, tree, HEADS))
        ]
        if found != expected:
            differences.append((seed, str(pattern)))
    assert not differences


@pytest.mark.parametrize("pattern", TABLE_PATTERNS)
def test_patterns_of_the_table_give_the_counts_of_an_enumeration(pattern: str) -> None:
    trees = list(islice(read_trees(treebank("icepahc/dev.mrg.gz")), 150))
    trees = [tree for tree in trees if len(tree) <= 20]
    expected = sum(len(slow_matches(parse_pattern(pattern), tree, HEADS)) for tree in trees)
    assert Searcher(pattern, heads=HEADS).count(trees).matches == expected


@pytest.mark.parametrize("relation", RELATIONS)
@examples(40)
@given(small_trees | small_gap_trees)
def test_each_relation(relation, tree):
    pattern = f"__ {relation} A"
    assert matching_nodes(pattern, tree) == slow_matches(parse_pattern(pattern), tree, HEADS)


_JOINED = [
    "A=x < (B << =x)",
    "A=x << (B=y > =x) !<< (A > =y)",
    "__=x .. (__=y !>> =x) [ < =y | $.. B ]",
    "A=x !< =x",
    "B > (A=x !<< (C < =x))",
    "A [ < B=x >> =x | < C ]",
    "__ < (A=x $.. (B=y $.. (C > (__ < =x < =y))))",
    "A=x !== =x | == =x",
    "A < (B=x !.. =x) << =x",
    "C [ <1 A=x <2 (B $ =x) | > B=y !>> =y ]",
    "A ?< B=x < C",
    "__ ?<< (B=x $ =x) < ~y << __=y",
    "__ < ~x $.. __=x",
    "A < (__=x !< ~x) < ~x",
    "/^(.)/#1%l < /(.)$/#1%l",
    "/^(.)(-X)?/#1%l !<< /^(.)/#1%l",
    "@/(.)/#1%l $.. /(.)/#1%m >> /(.)/#1%l !<< /(.)/#1%m",
    "A=x : (B=y !>> =x)",
    "S : NP : A < B",
    "A <...{ B ; (C=x !< =x) }",
    "__=x <+(A|B) (C=y !$ =x) !<+(A) ~y",
    "A=x .+(__) (B=y !. =x)",
    "__=x , (__=y ,, (B=z !> =x)) !.. =y",
    "A=x ,+(!A) (__=y .+(B) =x)",
    "__=x << (__=y .. (__=z > =x))",
    "__=x << (__=y !> =x . (__=z > =x))",
    "__=x << (__=y !> =x , (__=z > =x !$ =y))",
    "__=x < (__=y ,, (__=z > =x))",
]


@pytest.mark.parametrize("pattern", _JOINED)
@examples(40)
@given(st.lists(small_trees | small_gap_trees, min_size=1, max_size=3))
def test_what_refers_to_names(pattern, some):
    parsed = parse_pattern(pattern)
    searcher = Searcher(parsed, heads=HEADS)
    table = TreeTable.from_trees(some)
    nodes = searcher.nodes(table).tolist()
    for number, tree in enumerate(some):
        begin, end = table.begins[number : number + 2].tolist()
        found = {node - begin for node in nodes if begin <= node < end}
        assert found == slow_matches(parsed, tree, HEADS)


@examples(500)
@given(patterns, tests, st.sampled_from(RELATIONS), st.sampled_from(RELATIONS), small_trees | small_gap_trees)
def test_names_stand_for_nodes_that_fit(inner, test, one, two, tree):
    pattern = parse_pattern(f"{test}=top {one} ({inner} {two} __=low) [ < B=left | << __=right ]")
    table = TreeTable.from_trees([tree])
    numbers = {}  # of nodes with words, by their number without
    for node in range(len(table.symbols)):
        is_word = bool(table.symbols[node] >= table.n_labels)
        numbers[(node - int(table.words_before[node]) - is_word, is_word)] = node
    for match in Searcher(pattern, heads=HEADS).matches([tree]):
        names = {name: numbers[place.node, place.is_word] for name, place in match.names.items()}
        assert names["top"] == numbers[match.place.node, match.place.is_word]
        assert "low" in names
        assert ("left" in names) != ("right" in names)
        assert slow_named(pattern, tree, HEADS, names["top"], names)


TREE = Tree.parse("(S (NP-SBJ (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP$ its) (NN dog))) (. .))")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("NN < dog", ["NN", "NN"]),
        ("@NP", ["NP-SBJ", "NP"]),
        ("NP", ["NP"]),
        ("PRP$ . NN", ["PRP$"]),
        ("PRP$=x", ["PRP$"]),
        ('"."', [".", "."]),
        ('"." < __', ["."]),
        ("/^NP/ !<< PRP$", ["NP-SBJ"]),
        ("(NP)", ["NP"]),
        ("VP|NP < NN", ["NP"]),
        ("NN , PRP$", ["NN"]),
        ("NP-SBJ $.. VP & < DT", ["NP-SBJ"]),
        ("__ !< __ !. __", ["."]),
        ("dog .. its", ["dog"]),
        ("/^DOG$/i > __", ["dog", "dog"]),
        ("S <2 VP <-2 VP <1 /NP/", ["S"]),
        ('"S" [ < X | < VP ] [ < NP-SBJ ]', ["S"]),
        ("S << (NP < (NN < dog))", ["S"]),
        ("!S !> __", []),
        ("S < (NP-SBJ=a < (NN < dog)) < (VP < (NP=b !== =a))", ["S"]),
        (r"/\//", []),
        (r'"\""', []),
    ],
)
def test_examples(pattern, expected):
    assert [match.place.label for match in Searcher(pattern).matches([TREE])] == expected


def test_places():
    (match,) = Searcher("VP=v < (NP=n < its=w|NN=t)" if False else "VP=v < (NP=n << its=w < NN=t)").matches(
        [TREE, TREE][:1]
    )
    nodes = list(TREE.nodes())
    assert match == PatternMatch(
        0,
        NodeRef(4, 2, 5, "VP", False),
        {
            "v": NodeRef(4, 2, 5, "VP", False),
            "n": NodeRef(6, 3, 5, "NP", False),
            "w": NodeRef(7, 3, 4, "its", True),
            "t": NodeRef(8, 4, 5, "NN", False),
        },
    )
    assert nodes[7].word == "its"
    assert nodes[8].label == "NN"


@pytest.mark.parametrize(
    ("pattern", "column", "problem"),
    [
        ("", 1, "empty"),
        ("NP <", 5, "the end where"),
        ("NP < (A", 6, "not closed"),
        ("NP )", 4, "where a relation"),
        ("NP [ < A", 4, "not closed"),
        ("A < =x", 5, "no node has the name"),
        ("A=x < B=x", 8, "twice"),
        ("A !< B=x", 7, "cannot have a name"),
        ("A ![ < B < C=x ]", 13, "cannot"),
        ("A < /[/", 6, "set ["),
        ("A < /b(/", 7, "parenthesis"),
        ("A < /a", 5, "second /"),
        ("A <0 B", 3, "counted from 1"),
        ("A <-0 B", 3, "counted from 1"),
        ("A [< B=x | < =x]", 14, "another alternative"),
        ("A ; B", 3, "double quotes"),
        ("A . .", 5, "double quotes"),
        ('A < "b', 5, "second"),
        ("A" + "(" * 5, 2, "where a relation"),
        ("A < " + "(" * 60, 55, "too many brackets"),
        ("A < B" * 500, 2001, "characters"),
        ("A" + " < B" * 100, 401, "nodes"),
        ("A <99999999999999 B", 3, "that many children"),
        ("A !", 4, "a relation"),
        ("A B", 3, "where a relation"),
    ],
)
def test_errors_name_the_column(pattern, column, problem):
    with pytest.raises(PatternError, match=re.escape(problem)) as caught:
        parse_pattern(pattern)
    assert caught.value.column == column
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    pointer = str(caught.value).split("\n")[-1]
    assert pointer.endswith("^")


@examples(1000)
@given(st.text('AB<>.,$!&|()[]=x@/"_:#-1 +', max_size=25))
def test_any_text_is_a_pattern_or_an_error_in_it(text):
    try:
        pattern = parse_pattern(text)
    except PatternError as error:
        assert 1 <= error.column <= len(text) + 1  # noqa: PT017
        return
    assert matching_nodes(text, TREE) == slow_matches(pattern, TREE, HEADS)


def test_deep_and_wide_trees():
    some = [
        deep(20_000, branching="right"),
        deep(20_000, branching="left"),
        deep(20_000, branching="unary"),
        wide(20_000),
    ]
    assert Searcher("S << (N . N)").count(some).matching_trees == 3
    assert Searcher("S <<: x").count(some).matches == 20_000
    assert Searcher("S <<, x !> S").count(some).matches == 4
    assert Searcher("N $.. (N=a $.. N)").count(some[3:]).matches == 19_998
    assert [match.names["a"].start for match in Searcher("S < (N=a . (N !.. N))").matches(some[3:])] == [19_998]


def test_too_many_choices_for_names_are_refused():
    with pytest.raises(UsageError, match="tree 1 has too many nodes that could be x"):
        Searcher("N=x $.. (N > (S < =x))").count([wide(20_000)])


def test_copies_in_pieces_are_the_same(monkeypatch):
    some = [TREE, wide(5), TREE, deep(6, branching="left")] * 3
    pattern = "__=x < (__=y $.. (__ > =x !< =y))"
    expected = list(Searcher(pattern).matches(some))
    assert expected
    monkeypatch.setattr(search_module, "_BLOCK", 16)
    monkeypatch.setattr(search_module, "_TREES", 5)
    assert list(Searcher(pattern).matches(some)) == expected


def test_a_search_stops_when_its_time_is_over():
    with pytest.raises(TimedOut, match="more than 1e-09 seconds"):
        Searcher("A < B", timeout=1e-9).count([TREE])
    assert Searcher("NP < NN", timeout=100).count([TREE]).matches == 1


def test_nothing_to_search():
    assert Searcher("NP").count([]) == (0, 0, 0)
    assert list(Searcher("NP=x < =x").matches([])) == []


# Relations of NLTK, in which words have nothing above or beside them; its `>>,` and `>>'` find other nodes.
_DOWN = ["<", "<<", "<,", "<-", "<'", "<1", "<2", "<-1", "<-2", "<:", "<<,", "<<'", "<<:"]
_OTHERS = [">", ">>", ">,", ">-", ">'", ">2", ">-2", ">:", ">>:", ".", ",", "..", ",,", "$", "$.", "$,", "$..", "$,,"]
phrases = st.sampled_from(["A", "B", "C", "A|B", "/^[AC]/"])


def _tgrep_clauses(nodes: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sign = st.sampled_from(["", "", "!"])
    item = st.builds("{}{} {}".format, sign, st.sampled_from(_DOWN + _OTHERS), nodes) | st.builds(
        "{}{} {}".format, sign, st.sampled_from(_DOWN), st.sampled_from(["a", "b", "__", "/b/"])
    )
    return item | st.builds("{} & {}".format, item, item) | st.builds("[{} | {}]".format, item, item)


tgrep_nodes = st.recursive(
    phrases, lambda below: st.builds("({} {})".format, phrases, _tgrep_clauses(below)), max_leaves=4
)


@examples(300)
@given(st.builds("{} {}".format, phrases, _tgrep_clauses(tgrep_nodes)), small_trees)
def test_tgrep_of_nltk_finds_the_same(pattern, tree):
    pytest.importorskip("pyparsing", reason="nltk.tgrep needs pyparsing")
    from nltk import tgrep
    from nltk.tree import ParentedTree

    assume("A-X" not in str(tree))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NLTK calls pyparsing by its old names
        (found,) = tgrep.tgrep_positions(pattern, [ParentedTree.convert(tree.to_nltk())])
    table = TreeTable.from_trees([tree])
    positions: list[tuple[int, ...]] = [()]
    for node in range(1, len(table.symbols)):
        parent = int(table.parents[node])
        positions.append((*positions[parent], int((table.parents[parent:node] == parent).sum())))
    ours = [positions[node] for node in Searcher(pattern).nodes(table).tolist()]
    assert sorted(set(found)) == ours
