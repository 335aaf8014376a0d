"""Rewriting: agreement with its definition, inverse rules, errors, threads, large trees."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sapwood
from helpers.effort import examples
from helpers.gap_trees import gap_trees
from helpers.strategies import deep, trees, wide
from oracles.slow_rewriting import MOST_REWRITES, Refused, slow_rewrite
from sapwood.errors import InputError, TimedOut, UsageError
from sapwood.runtime.executor import Threads
from sapwood.treebank.rewriting import rewriter as rewriter_module
from sapwood.treebank.rewriting.rewriter import Rewriter, rewrite
from sapwood.treebank.rewriting.rules import RewriteRules, RuleError
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tree import Tree

HEADS = HeadRules.parse("A right B C\nB left A\n* right")
TREE = Tree.parse("(S (NP-SBJ (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP$ its) (NN bone))) (. .))")

PATTERNS = [
    "A=x < B=y",
    "A=x < (B=y $.. C=z)",
    "__=x < (__=y < a=z)",
    "/^(.)-X/#1%v=x ?< C=y ?<< (B=z !< =x)",
    "__=x < (/^(.)/#1%v=y ?< B=z) < /^(.)/#1%v",
    "__=x $+ __=y ?> C=z",
    "A=x <# __=y << __=z",
    "B=x >> A=y ?, C=z",
    "C=x [ < A=y | < B=z ]",
    "/[ab]/=x > __=y ?.. /a/=z",
    "__=x !> __ <1 __=y <-1 __=z",
]
NAMES = st.sampled_from(["x", "y", "z"])
PLACES = st.builds("{} {}".format, st.sampled_from(["$+", "$-", ">1", ">-1", ">2", ">-2"]), NAMES)
LABELS = st.sampled_from(["A", "D", "={x}-E", "B-2", "%{v}F={y}", "A-X"])
LITERALS = st.sampled_from(["(D a)", "(C=n (A a) (B b))", "(={y} b)"])
EXPRESSIONS = st.sampled_from(["^(.)", "X", "[AB](.*)"])
PAIRS = st.sampled_from(["delete", "excise", "coindex", "createSubtree N", "join"])
AUXILIARY = st.sampled_from(["(D (E@))", "(C (A a) (D@) (A b))"])
OPERATIONS = st.one_of(
    st.builds("relabel {} {}".format, NAMES, LABELS),
    st.builds("relabel {} /{}/{}/".format, NAMES, EXPRESSIONS, st.sampled_from(["$1Z", "B", "-$1"])),
    st.builds("{} {}".format, st.sampled_from(["delete", "prune", "excise"]), NAMES),
    st.builds("{} {} {}".format, PAIRS, NAMES, NAMES),
    st.builds("insert {} {}".format, LITERALS | NAMES, PLACES),
    st.builds("move {} {}".format, NAMES, PLACES),
    st.builds("replace {} {} {}".format, NAMES, NAMES | LITERALS, NAMES | LITERALS),
    st.builds("replace {} {}".format, NAMES, NAMES | LITERALS),
    st.builds("{} {} {}".format, st.sampled_from(["adjoin", "adjoinH", "adjoinF"]), AUXILIARY, NAMES),
    st.builds("split {} /{}/ A {}".format, NAMES, st.sampled_from(["(a)(b)", "(.)(.+)"]), LABELS),
    st.builds("join {} {} A".format, NAMES, NAMES),
)  # fmt: skip
small_trees = trees(
    st.sampled_from(["A", "B", "C", "A-X", "D-1"]), st.sampled_from(["a", "b", "ab", "*-7"]), max_leaves=7
)

small_gap_trees = gap_trees(labels=("A", "B", "C", "A-X", "D-1"), words=("a", "b", "ab", "*-7"))


def usable(text: str, operations: list[str], once: bool) -> str:
    """Return a rule without what its pattern does not name; with `once`, a node is matched once."""
    known = set(re.findall(r"=(\w)|%(\w)", text))
    names = {one or two for one, two in known}
    kept = []
    for operation in operations:
        used = set(re.findall(r"\b([xyz])\b", operation)) | set(re.findall(r"%\{(\w)\}", operation))
        made = {"n"} if "=n" in operation else set()
        if used <= names and not (made & names):
            kept.append(operation)
            names |= made
    if once:
        return "\n".join([f"{text} !== /Q$/", *kept, "relabel x ={x}Q"])
    return "\n".join([text, *(kept or ["relabel x Q"])])


@examples(400)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(PATTERNS),
            st.lists(OPERATIONS, min_size=1, max_size=3),
            st.sampled_from([True, True, False]),
        ),
        min_size=1,
        max_size=2,
    ),
    small_trees,
    st.booleans(),
)
def test_rules_do_what_their_definitions_say(some, tree, allow):
    try:
        rules = RewriteRules.parse("\n".join(usable(*rule) for rule in some))
    except RuleError:
        assume(False)
    try:
        expected = slow_rewrite(tree, rules, HEADS, allow_word_changes=allow)
    except Refused as refused:
        expected = refused
    try:
        (found,) = rewrite([tree], rules, heads=HEADS, allow_word_changes=allow, max_rewrites=MOST_REWRITES)
    except RuleError as error:
        assert isinstance(expected, Refused), error  # noqa: PT017
        assert ("still matches" in str(error)) == (str(expected) == "endless")  # noqa: PT017
        assert ("changes the words" in str(error)) == (str(expected) == "words")  # noqa: PT017
        return
    assert found == expected


RULES = st.lists(
    st.tuples(
        st.sampled_from([*PATTERNS, "A=x .. (B=y !> =x)", "__=x , (B=y !. =x) ?>> C=z"]),
        st.lists(OPERATIONS, min_size=1, max_size=3),
        st.sampled_from([True, True, False]),
    ),
    min_size=1,
    max_size=2,
)


@examples(400)
@given(RULES, small_gap_trees, st.booleans())
def test_rules_do_the_same_in_trees_with_gaps(some, tree, allow):
    some = [(pattern, [one for one in made if not re.match("insert|replace|split|join|.*a\\)", one)], once)
            for pattern, made, once in some]  # fmt: skip
    test_rules_do_what_their_definitions_say.hypothesis.inner_test(some, tree, allow)


def test_words_of_trees_with_gaps_keep_their_places():
    tree = Tree.parse("(S (VP (VB 0=is) (JJ 2=rich)) (NP 1=John) (? 3=?))", format="discbracket")

    def rewritten(rules, **options):
        (found,) = rewrite([tree], rules, **options)
        return str(found)

    assert rewritten("VP=x\nrelabel x XP") == "(S (XP (VB 0=is) (JJ 2=rich)) (NP 1=John) (? 3=?))"
    assert rewritten("VP=x\nexcise x x") == "(S (VB is) (NP John) (JJ rich) (? ?))"
    # A phrase that moves closes a gap, or makes one.
    assert rewritten("NP=x $- VP=y\nmove x >1 y") == "(S (VP (VB is) (NP John) (JJ rich)) (? ?))"
    assert rewritten('"?"=x $-- VP=y\nmove x >1 y') == "(S (VP (VB 0=is) (JJ 2=rich) (? 3=?)) (NP 1=John))"
    assert rewritten("NP=x\nprune x", allow_word_changes=True) == "(S (VP (VB is) (JJ rich)) (? ?))"
    with pytest.raises(InputError, match=r"<rules>:2: 'insert .* can add words.*--gaps split"):
        rewritten("NP=x\ninsert (A a) $+ x")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("/^NP-(.*)/#1%f=x\nrelabel x %{f}", "(S (SBJ (D the) (N dog)) (V sees) (NP (N it)) (. .))"),
        ("@NP=x\nrelabel x /NP/N'/", "(S (N'-SBJ (D the) (N dog)) (V sees) (N' (N it)) (. .))"),
        ("N=n > (@NP < D !< NB)\ncreateSubtree NB n", "(S (NP-SBJ (D the) (NB (N dog))) (V sees) (NP (N it)) (. .))"),
        ("NP=n $+ /^[.]$/=p\nmove p >-1 n", "(S (NP-SBJ (D the) (N dog)) (V sees) (NP (N it) (. .)))"),
        ("S=x !> __\ncreateSubtree TOP x", "(TOP (S (NP-SBJ (D the) (N dog)) (V sees) (NP (N it)) (. .)))"),
        ("NP=n\nexcise n", "(S (NP-SBJ (D the) (N dog)) (V sees) (N it) (. .))"),
        ("V=v $- NP-SBJ=s\nmove v $+ s\nrelabel v X", "(S (X sees) (NP-SBJ (D the) (N dog)) (NP (N it)) (. .))"),
        ("V=v\ninsert (X x) $- v\nrelabel v Y", "(S (NP-SBJ (D the) (N dog)) (Y sees) (X x) (NP (N it)) (. .))"),
        ("S=s !< X\ninsert (X x) >2 s", "(S (NP-SBJ (D the) (N dog)) (X x) (V sees) (NP (N it)) (. .))"),
        ("S=s !< X\ninsert (X x) >-2 s", "(S (NP-SBJ (D the) (N dog)) (V sees) (NP (N it)) (X x) (. .))"),
        ("NP-SBJ=a .. NP=b\ncoindex a b", "(S (NP-SBJ-1 (D the) (N dog)) (V sees) (NP-1 (N it)) (. .))"),
    ],
)
def test_examples(rules, expected):
    tree = Tree.parse("(S (NP-SBJ (D the) (N dog)) (V sees) (NP (N it)) (. .))")
    assert [str(one) for one in sapwood.rewrite([tree], rules, allow_word_changes=True)] == [expected]


# Rules and their inverses, on trees without the labels that they make.
_INVERSES = [
    ("A=x\nrelabel x ={x}-NEW", "/-NEW$/=x\nrelabel x /-NEW$//"),
    ("A=x !> NEW\ncreateSubtree NEW x", "NEW=x\nexcise x"),
    ("B=x < C=y\nadjoinF (NEW (D@)) x\nrelabel x OLD", "NEW=x < OLD=y\nrelabel y B\nexcise x"),
    ("A=x <1 (B=y $+ __)\nmove y >-1 x\nrelabel x MOVED", "MOVED=x <-1 __=y\nmove y >1 x\nrelabel x A"),
    ("/^a+b$/=w > (A=x > __)\nsplit x /(a+)(b)/ A1 A2", "A1=x $+ A2=y\njoin x y A"),
]


@pytest.mark.parametrize(("there", "back"), _INVERSES)
@examples(60)
@given(st.lists(small_trees, min_size=1, max_size=3))
def test_a_rule_and_its_inverse_give_the_same_bytes(there, back, some):
    table = TreeTable.from_trees(some)
    (done,) = Rewriter(there, allow_word_changes=True).tables(table)
    (again,) = Rewriter(back, allow_word_changes=True).tables(done.after)
    assert again.after.to_brackets() == table.to_brackets()
    assert (done.uses > 0).any() == (done.after.to_brackets() != table.to_brackets())


@examples(100)
@given(st.lists(trees(st.sampled_from(["A", "", "-LRB-", "("]), st.sampled_from(["a", "(", "", "\ud800"])), min_size=1))
def test_brackets_of_tables_are_those_of_their_trees(some):
    assert TreeTable.from_trees(some).to_brackets() == "".join(f"{tree}\n" for tree in some).encode()


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("NP", "<rules>:1: a pattern without operations"),
        ("% nothing\n\n", "no rules in it"),
        ("NP < (\nrelabel x A", "<rules>:1: pattern, column 7"),
        ("NP=x\n\nrelabel y A", "<rules>:3: no node of the pattern has the name 'y'"),
        ("NP=x\nrelabel x", "<rules>:2:10: a label is missing here"),
        ("NP=x\nrelabel x %{v}", "no variable 'v'"),
        ("NP=x\nrelabel x A B", "text after the end"),
        ("NP=x\nrelabel x /(/A/", "<rules>:2: pattern, column 12"),
        ("NP=x\nrelabel x /a/$1/", "has 0 groups, not 1"),
        ("NP=x\nrelabel x /a", "a second / is missing"),
        ("NP=x\nmove x x", "a place is missing"),
        ("NP=x\nmove x >0 x", "counted from 1"),
        ("NP=x\ninsert (A) >1 x", "without a word or children"),
        ("NP=x\ninsert (A b c) >1 x", "alone below its tag"),
        ("NP=x\ninsert (A (B b) c) >1 x", "alone below its tag"),
        ("NP=x\ninsert (A b (C c)) >1 x", "alone below its tag"),
        ("NP=x\ninsert (A (B b)", "not closed"),
        ("NP=x\ninsert (A=x b) >1 x", "given twice"),
        ("NP=x\ninsert (A@) >1 x", "only trees to adjoin"),
        ("NP=x\nadjoin (A b) x", "one foot"),
        ("NP=x\nadjoin (A@) x", "one foot"),
        ("NP=x\nadjoin (A (B@ b)) x", "a foot has no children"),
        ("NP=x\nadjoin x x", "a tree is missing"),
        ("NP=x\nsplit x /(a)(b)/ A", "2 groups for 1 tags"),
        ("NP=x\nsplit x A B", "a regular expression is missing"),
        ("NP=x\ncoindex x", "two nodes or more"),
        ("NP=x\nprune x!", "not the name of a node"),
        ('NP=x\nrelabel x ""', "empty"),
        ("A=x\nrelabel x B\n" * 1001, "more than 1,000 rules"),
    ],
)
def test_malformed_rules(rules, problem):
    with pytest.raises(RuleError, match=re.escape(problem)):
        RewriteRules.parse(rules)


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("NP=x\nprune x", "<rules>:1: the rule changes the words of tree 1"),
        ("dog=x\nprune x", "<rules>:2: tree 1: 'dog' is a word"),
        ("S=x\nprune x", "'S' is the root"),
        ("NN=x\nexcise x", "'NN' is a tag"),
        ("VP=x <2 (NP=y <2 __=z <1 __=w)\ndelete z w", "'NP' would have no children left"),
        ("S=x < VP=y\nexcise y x", "'S' is not dominated"),
        ("VP=x < NP=y\nmove x >1 y", "'VP' would be moved into itself"),
        ("VP=x\nmove x >5 x", "no such child"),
        ("S=x < NP-SBJ=a < VP=b\ncreateSubtree Q b a", "not a later sister"),
        ("NP-SBJ=x\nrelabel x /.*//", "the new label is empty"),
        ("NN=x < dog\nsplit x /(d)(o)/ A B", "not the whole word 'dog'"),
        ("DT=x .. VBZ=y\njoin x y", "does not follow"),
        ("NP=x\nreplace x (A a)\nrelabel x B", "'NP' was deleted"),
        ("/^N/=x\nrelabel x " + 12 * "={x}", "the new label has more than 65,536 bytes"),
        ("/^N.*/=x\nrelabel x /^(.*)$/$1$1$1/", "the new label has more than 65,536 bytes"),
        ("/^(N.*)$/#1%v=x\nrelabel x %{v}%{v}", "the new label has more than 65,536 bytes"),
        ("NP=x\nrelabel x NP", "<rules>:1: the rule still matches tree 1 after too many rewrites"),
        ("NP=x\ninsert x $+ x\ninsert x $+ x", "still matches tree 1 after"),
    ],
)
def test_rules_that_cannot_be_applied(rules, problem):
    with pytest.raises(RuleError, match=re.escape(problem)):
        list(rewrite([TREE], rules))


def test_a_loop_is_found_early():
    with pytest.raises(RuleError, match=r"after 7 rewrites"):
        list(rewrite([TREE], "NP=x\nrelabel x NP", max_rewrites=7))
    with pytest.raises(UsageError, match="at least 1"):
        Rewriter("NP=x\nrelabel x A", max_rewrites=0)


def test_places_of_errors_name_the_file(tmp_path):
    path = tmp_path / "rules.txt"
    path.write_text("NP=x\nprune x\n", encoding="utf-8")
    rewriter = Rewriter(RewriteRules.read(path))
    with pytest.raises(
        InputError, match=rf"{re.escape(str(path))}:1: the rule changes the words of tree 2 \(t.mrg:0\)"
    ):
        list(rewriter.tables(TreeTable.from_trees([Tree.parse("(S (X x))"), TREE]), source="t.mrg"))


def test_threads_and_blocks_give_the_same_bytes(monkeypatch):
    monkeypatch.setattr(rewriter_module, "_BLOCK", 2)
    monkeypatch.setattr(rewriter_module, "_TREES", 3)
    some = [TREE, deep(30, branching="left"), wide(9), TREE] * 3
    rules = "NP|N=x\nrelabel x ={x}-NEW\nS=x > S\nexcise x"
    expected = list(rewrite(some, rules))
    table = TreeTable.from_trees(some)
    for threads in (1, 3):
        parts = Rewriter(rules).tables(table, workers=Threads(threads))
        found = b"".join(part.after.to_brackets() for part in parts)
        assert found == "".join(f"{tree}\n" for tree in expected).encode()
    assert {part.uses.tolist() == [0, 0] for part in Rewriter("Q=x\nexcise x\n" * 2).tables(table)} == {True}


def test_changed_trees():
    other = Tree.parse("(S (X x))")
    (part,) = Rewriter("NP=x\nrelabel x Q\nQ=x\nrelabel x NP").tables(TreeTable.from_trees([TREE, other]))
    assert part.rewrites.tolist() == [2, 0]
    assert part.changed() == []
    (part,) = Rewriter("NP=x\nrelabel x Q").tables(TreeTable.from_trees([other, TREE]))
    assert part.changed() == [1]


def test_large_trees_take_linear_time():
    some = [deep(20_000, branching=kind) for kind in ("left", "right", "unary")] + [wide(20_000)]
    done = list(rewrite(some, "N=x\nrelabel x M\nS=x > S\nrelabel x T\nM=x $+ M=y\nrelabel y N\nM=y > S\nrelabel y O"))
    assert [tree.words() for tree in done] == [tree.words() for tree in some]
    assert {node.label for node in done[3].nodes()} == {"S", "N", "O"}


def test_rewriting_stops_when_its_time_is_over():
    with pytest.raises(TimedOut, match="more than 1e-09 seconds"):
        list(Rewriter("A=x\nrelabel x B", timeout=1e-9).tables(TreeTable.from_trees([TREE])))
