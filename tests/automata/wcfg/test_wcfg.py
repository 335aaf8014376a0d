"""Weighted grammars: weights against enumeration and NLTK, both notations there and back, models as grammars."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import nltk
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from helpers.effort import examples
from helpers.made_up import made_up_treebank
from oracles.reference import inside_outside
from sapwood.automata.tensors import ProductTensor, SparseTensor
from sapwood.automata.wcfg.files import Format, format_grammar, parse_grammar, read_grammar, write_grammar
from sapwood.automata.wcfg.wcfg import Rule, Symbol, WeightedGrammar
from sapwood.errors import GrammarError, InputError, SapwoodError, UsageError
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus

X, Y = Symbol("x", True), Symbol("y", True)
CLOSE = 1e-12


def rule(text: str, weight: float = 1.0) -> Rule:
    """Return a rule of single characters: capitals are nonterminals, `S AbC` is `S -> A b C` and ` S` a root."""
    children = tuple(Symbol(name, name.islower()) for name in text[1:].lstrip())
    return Rule(None, children, weight) if text[0] == " " else Rule(text[0], children, weight)


def sentences(longest: int, words: str = "xy") -> list[tuple[str, ...]]:
    return [sentence for length in range(1, longest + 1) for sentence in product(words, repeat=length)]


def derivations(grammar: WeightedGrammar, sentence: tuple[str, ...]) -> Iterator[float]:
    """Yield the weight of each derivation, one by one."""
    binary, lexical = grammar.binary.dense(), grammar.lexical.toarray()
    n = len(grammar.nonterminals)

    def below(a: int, i: int, j: int) -> Iterator[float]:
        if j == i + 1:
            if sentence[i] in grammar.words:
                yield lexical[a, grammar.words.index(sentence[i])]
            return
        for b, c, k in product(range(n), range(n), range(i + 1, j)):
            if binary[a, b, c]:
                for left, right in product(below(b, i, k), below(c, k, j)):
                    yield binary[a, b, c] * left * right

    for a in range(n):
        for weight in below(a, 0, len(sentence)):
            yield grammar.root[a] * weight


def twin(rules: list[Rule], sentence: tuple[str, ...], rounds: int = 60) -> float:
    """Return the weight of a sentence by the rules as they are, whatever their shape.

    Each round allows for one more unary rule in a row, so that cycles are summed up term by term.
    """
    names = {rule.parent for rule in rules} | {child.name for rule in rules for child in rule.children}
    inside: dict[tuple[str | None, int, int], float] = {}

    def across(children: tuple[Symbol, ...], i: int, j: int) -> float:
        if not children:
            return float(i == j)
        first, rest = children[0], children[1:]
        if first.is_word:
            return across(rest, i + 1, j) if i < j and sentence[i] == first.name else 0.0
        ends = range(i + 1, j - len(rest) + 1)
        return sum(inside[first.name, i, k] * across(rest, k, j) for k in ends if inside[first.name, i, k])

    for width in range(1, len(sentence) + 1):
        for i in range(len(sentence) - width + 1):
            j = i + width
            inside |= {(name, i, j): 0.0 for name in names}
            for _ in range(rounds):
                now = {(name, i, j): 0.0 for name in names}
                for parent, children, weight, _ in rules:
                    now[parent, i, j] += weight * across(children, i, j)
                if all(inside[key] == value for key, value in now.items()):
                    break
                inside |= now
    return inside[None, 0, len(sentence)]


@st.composite
def normal_grammars(draw) -> WeightedGrammar:
    n = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parts = [rng.normal(size=shape) * (rng.random(shape) < 0.6) for shape in ((n,), (n, n, n), (n, 2))]
    return WeightedGrammar.from_parts(*parts, ["x", "y"])


@st.composite
def rule_lists(draw) -> list[Rule]:
    """Draw rules of all shapes, the cycles of unary ones light enough to converge fast."""
    symbols = st.sampled_from([Symbol(name) for name in "ABC"] + [X, Y])
    weights = st.floats(-1, 1).map(lambda weight: round(weight, 3))
    rules = [rule(" A", draw(weights)), rule(" B", draw(weights)), rule("A x"), rule("B y", 0.5)]
    for parent in draw(st.lists(st.sampled_from("ABC"), max_size=8)):
        children = tuple(draw(st.lists(symbols, min_size=1, max_size=4)))
        scale = 0.06 if len(children) == 1 and not children[0].is_word else 1.0
        rules.append(Rule(parent, children, scale * draw(weights)))
    return rules


def as_text(rules: list[Rule], format: Format) -> str:
    """Write rules of any shape; in NLTK's notation roots are rules of `TOP`."""
    lines = []
    for parent, children, weight, _ in rules:
        right = " ".join(repr(child.name) if child.is_word else child.name for child in children)
        if format == "plain":
            lines.append(f"{weight!r} {parent or ''} -> {right}")
        else:
            lines.append(f"{parent or 'TOP'} -> {right} [{weight!r}]")
    return "\n".join(lines)


# Weights of sentences


@examples(60)
@given(normal_grammars(), st.sampled_from(sentences(4)))
def test_weight_is_the_sum_over_derivations(grammar, sentence):
    each = list(derivations(grammar, sentence))
    assert grammar.weight(sentence) == pytest.approx(sum(each), rel=CLOSE, abs=CLOSE * sum(map(abs, each)))


def test_weight_of_many_derivations():
    """Words in a row under one rule: as many trees as Catalan's numbers say."""
    grammar = WeightedGrammar.from_rules([rule(" S", 3.0), rule("S SS", -0.5), rule("S x", 2.0)])
    catalan = [1, 1, 2, 5, 14, 42, 132]
    for length in range(1, 8):
        assert grammar.weight(["x"] * length) == 3.0 * (-0.5) ** (length - 1) * 2.0**length * catalan[length - 1]


def test_weight_of_other_sentences():
    grammar = WeightedGrammar.from_rules([rule(" S"), rule("S SS"), rule("S x")])
    assert grammar.weight([]) == grammar.weight(["z"]) == grammar.weight(["x", "z", "x"]) == 0.0
    with pytest.raises(UsageError, match="list of words"):
        grammar.weight("x")


# Chomsky normal form


@examples(200)
@given(rule_lists(), st.sampled_from(sentences(4)))
def test_normal_form_keeps_weights(rules, sentence):
    expected = twin(rules, sentence)
    bound = twin([rule._replace(weight=abs(rule.weight)) for rule in rules], sentence)
    close = pytest.approx(expected, rel=CLOSE, abs=CLOSE * bound)
    assert WeightedGrammar.from_rules(rules).weight(sentence) == close
    for format in ("plain", "nltk"):
        assert parse_grammar(as_text(rules, format)).weight(sentence) == close


def test_new_nonterminals():
    """They have speaking names that nobody has yet, and what stands in several rules is made once."""
    rules = [rule(" S"), rule("S ABC"), rule("S BBC", 0.5), rule("S xA"), rule("A yx"), Rule("@x", (Y,), 1.0)]
    grammar = WeightedGrammar.from_rules([*rules, rule("A x"), rule("B x"), rule("C y")])
    assert grammar.nonterminals == ["S", "A", "B", "C", "@x", "@B+C", "@x_2", "@y"]
    numbers = {name: number for number, name in enumerate(grammar.nonterminals)}
    entries = {
        tuple(grammar.nonterminals[number] for number in place): value
        for place, value in zip(grammar.binary.places.tolist(), grammar.binary.values.tolist(), strict=True)
    }
    assert entries == {
        ("S", "A", "@B+C"): 1.0, ("S", "B", "@B+C"): 0.5, ("@B+C", "B", "C"): 1.0, ("S", "@x_2", "A"): 1.0,
        ("A", "@y", "@x_2"): 1.0,
    }  # fmt: skip
    assert grammar.lexical.toarray()[numbers["@x_2"]].tolist() == [1.0, 0.0]
    assert grammar.words == ["x", "y"]


def test_very_long_rules():
    words = tuple(Symbol(f"w{number}", True) for number in range(3000))
    grammar = WeightedGrammar.from_rules([rule(" S"), Rule("S", words, 0.25)])
    assert len(grammar.nonterminals) == len(set(grammar.nonterminals)) == 1 + 3000 + 2998
    assert max(map(len, grammar.nonterminals)) < 80
    assert grammar.n_rules == 3000 + 2999


def test_unary_rules_without_cycles_are_exact():
    """Sums and products only: the weights are those one gets by hand, and nothing else is there."""
    rules = [rule(" S"), rule("S A", 0.1), rule("A B", 0.7), rule("S B", 0.3), rule("B x", 0.9), rule("B BB", 0.1)]
    grammar = WeightedGrammar.from_rules(rules)
    total = 0.1 * 0.7 + 0.3
    assert grammar.lexical.toarray()[:, 0].tolist() == [total * 0.9, 0.7 * 0.9, 0.9]
    assert grammar.binary.places.tolist() == [[0, 2, 2], [1, 2, 2], [2, 2, 2]]
    assert grammar.binary.values.tolist() == [total * 0.1, 0.7 * 0.1, 0.1]


def test_unary_cycles_are_closed():
    """`A -> A` with 1/2 doubles; two that lead to each other sum to a geometric series as well."""
    grammar = WeightedGrammar.from_rules([rule(" A"), rule("A A", 0.5), rule("A x", 0.25)])
    assert grammar.weight(["x"]) == pytest.approx(0.5, rel=CLOSE)
    rules = [rule(" A"), rule("A B", -0.9), rule("B A", 0.9), rule("B C", 3.0), rule("C x")]
    assert WeightedGrammar.from_rules(rules).weight(["x"]) == pytest.approx(-0.9 * 3 / (1 + 0.81), rel=CLOSE)


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ([("A A", 1.0)], "A"),
        ([("A A", -1.5)], "A"),
        ([("A B", 2.0), ("B A", 0.5)], "A, B"),
        ([("A A", 1 - 1e-12)], "A"),
        ([("A B", 1e200), ("B A", 1e-200)], "A, B"),
        ([("A B", 1e308), ("A B", 1e308), ("B A", 1.0)], "A, B"),
        # Terms whose signs change have a sum only if their absolute values have one.
        ([("A B", 1.0), ("B A", -1.0)], "A, B"),
        ([("A A", 0.6), ("A B", 0.6), ("B A", -0.6), ("B B", 0.6)], "A, B"),
        ([(f"{one} {other}", 1.0) for one, other in zip("ABCDEFG", "BCDEFGA", strict=True)], "A, B, C, D, E, ..."),
    ],
)
def test_unary_cycles_that_do_not_converge(rules, named):
    rules = [rule(*one) for one in rules]
    with pytest.raises(GrammarError, match=f"unary rules among {named} go round in cycles") as caught:
        WeightedGrammar.from_rules([rule(" A"), rule("A x"), *rules])
    assert "smaller weights" in str(caught.value)
    with pytest.raises(GrammarError, match=r"^here: the unary rules"):
        parse_grammar(as_text([rule(" A"), rule("A x"), *rules], "plain"), "here")


def test_unary_rules_of_no_weight():
    """They connect nothing, whether written so or adding up to it."""
    rules = [rule(" A"), rule("A x"), rule("B y", 0.5), rule("A A", 0.0), rule("A C", 0.25), rule("C z")]
    for nothing in ([rule("B A", 0.0)], [rule("A B", 0.0)], [rule("C B", 2.0), rule("C B", -2.0)], [rule("B C", 0.0)]):
        grammar = WeightedGrammar.from_rules([*rules, *nothing])
        assert grammar.lexical.toarray().tolist() == [[1.0, 0.0, 0.25], [0.0, 0.5, 0.0], [0.0, 0.0, 1.0]]


def test_messages_show_odd_names():
    with pytest.raises(GrammarError) as caught:
        WeightedGrammar.from_rules([Rule(None, (Symbol("A\n"),), 1.0), Rule("A\n", (Symbol("A\n"),), 1.0)])
    assert "the unary rules among 'A\\n' go" in str(caught.value)
    assert str(Rule("", (Symbol("a b"), X), 1.0)) == "'' -> a b 'x'"


def test_many_unary_rules_in_a_row():
    chain = [Rule(f"N{number}", (Symbol(f"N{number + 1}"),), 0.999) for number in range(600)]
    rules = [Rule(None, (Symbol("N0"),), 1.0), *chain, Rule("N600", (X,), 1.0)]
    assert WeightedGrammar.from_rules(rules).weight(["x"]) == pytest.approx(0.999**600, rel=1e-10)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], "no root"),
        ([rule("S x")], "no root: add a rule '-> S'"),
        ([rule(" S"), Rule("S", (), 1.0, "f:3")], "^f:3: S ->: empty right-hand sides are not read"),
        ([rule(" S"), Rule("S", (X,), float("nan"))], "^S -> 'x': its weight nan is not a finite number"),
        ([rule(" S", float("inf")), rule("S x")], "^-> S: its weight inf"),
        ([Rule(None, (X,), 1.0)], "^-> 'x': a root is one nonterminal"),
        ([rule(" ST"), rule("S x")], "^-> S T: a root is one nonterminal"),
        ([rule(" S"), rule("S x", 1e308), rule("S x", 1e308)], "lexical weights .* must be finite"),
        ([rule(" S"), rule("S A", 1e308), rule("A AA", 1e308), rule("A x")], "binary weights .* must be finite"),
    ],
)
def test_rules_that_are_refused(rules, message):
    with pytest.raises(GrammarError, match=message):
        WeightedGrammar.from_rules(rules)


# Against NLTK

NLTK_GRAMMARS = [
    """
    S -> NP VP [0.9] | VP [0.1]
    NP -> Det N [0.4] | NP PP [0.3] | 'we' [0.2] | N [0.1]
    VP -> V NP [0.5] | VP PP [0.3] | V [0.1] | V NP PP [0.1]
    PP -> P NP [1.0]
    Det -> 'a' [0.5] | "the" [0.5]
    N -> 'bird' [0.6] | 'branch' [0.4]
    V -> 'saw' [1.0]
    P -> 'on' [1.0]
    """,
    """
    # Words among other symbols, long right-hand sides, the start not first.
    %start Clause
    Thing -> 'bird' [0.5] | 'the' 'old' Thing [0.3] | Thing 'and' Thing [0.2]
    Clause -> Thing 'saw' Thing [0.7] \\
        | 'we' 'saw' Thing 'on' 'the' Place [0.2] | Thing [0.1]
    Place -> 'branch' [1.0]
    """,
]  # fmt: skip
NLTK_SENTENCES = [
    "we saw the bird", "we saw the bird on the branch", "saw", "bird saw bird on a branch on a branch on the bird",
    "bird and bird and the old bird", "the old bird and bird saw bird and bird", "we saw bird on the branch", "on on",
]  # fmt: skip


def nltk_weight(grammar: nltk.PCFG, sentence: list[str]) -> float:
    try:
        grammar.check_coverage(sentence)
    except ValueError:
        return 0.0
    return sum(tree.prob() for tree in nltk.InsideChartParser(grammar).parse(sentence))


@pytest.mark.parametrize("text", NLTK_GRAMMARS)
def test_same_weights_as_nltk(text):
    theirs, ours = nltk.PCFG.fromstring(text), parse_grammar(text)
    weights = [nltk_weight(theirs, sentence.split()) for sentence in NLTK_SENTENCES]
    assert sum(weight > 0 for weight in weights) >= 3
    assert [ours.weight(sentence.split()) for sentence in NLTK_SENTENCES] == pytest.approx(weights, rel=CLOSE)


@pytest.mark.parametrize("text", NLTK_GRAMMARS)
def test_nltk_reads_what_is_written(text):
    grammar = parse_grammar(text)
    # Names that NLTK could not read, and several roots.
    odd = ["PRP$", "a b", "A->B", ",", "PRP_", "-LRB-", "名"]
    grammar = replace(grammar, nonterminals=[*odd, *grammar.nonterminals[len(odd) :]])
    # NLTK wants probabilities, and normal form has made others of some: let words that nobody uses fill them up.
    grammar = WeightedGrammar.from_rules(
        [Rule(None, (Symbol(odd[0]),), 0.75), Rule(None, (Symbol(odd[1]),), 0.25), *all_rules(grammar)[1:]]
    )
    totals = grammar.binary.dense().sum(axis=(1, 2)) + grammar.lexical.sum(axis=1)
    filler = scipy.sparse.csr_array(np.maximum(1 - totals, 0)[:, None])
    lexical = scipy.sparse.hstack([grammar.lexical, filler], format="csr")
    grammar = replace(grammar, words=[*grammar.words, "filler's"], lexical=lexical)
    written = format_grammar(grammar, format="nltk")
    theirs, ours = nltk.PCFG.fromstring(written), parse_grammar(written)
    weights = [grammar.weight(sentence.split()) for sentence in NLTK_SENTENCES]
    assert sum(weight > 0 for weight in weights) >= 3
    assert [nltk_weight(theirs, sentence.split()) for sentence in NLTK_SENTENCES] == pytest.approx(weights, rel=CLOSE)
    assert [ours.weight(sentence.split()) for sentence in NLTK_SENTENCES] == pytest.approx(weights, rel=CLOSE)
    assert ours.n_rules == grammar.n_rules


def all_rules(grammar: WeightedGrammar) -> list[Rule]:
    """Return the rules of a grammar in normal form, roots first."""
    names, lexical = grammar.nonterminals, grammar.lexical.tocoo()
    rules = [Rule(None, (Symbol(names[at]),), float(grammar.root[at])) for at in np.flatnonzero(grammar.root)]
    for (a, b, c), value in zip(grammar.binary.places.tolist(), grammar.binary.values.tolist(), strict=True):
        rules.append(Rule(names[a], (Symbol(names[b]), Symbol(names[c])), value))
    for a, word, value in zip(*(x.tolist() for x in (*lexical.coords, lexical.data)), strict=True):
        rules.append(Rule(names[a], (Symbol(grammar.words[word], True),), value))
    return rules


# There and back

ODD = [
    "", " ", "a b", "'", '"', "`", "``", "''", "\\", "\\n", "a\\", "#", "a#b", "->", "A->B", "|", "[", "[0.5]",
    "%start", "1.0", "nan", "\n", "\r", "\t", "\x00", "\x85", "\u2028", "\ufeff", "\ud800", "\ud83d\ude00",
    "\U0001f600", "日本", "e\u0301", "é", "\u00a0", "it's", 'say "it\'s"', "-LRB-", "<UNK>", "@S", "\x1c", "\\u0041",
    "word\n0.5 S -> 'x'",
]  # fmt: skip
odd_names = st.sampled_from(ODD) | st.text(max_size=5) | st.text("'\"`\\#->| \n\tAu0", max_size=6)
odd_weights = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 5e-324, -1e308, 0.1])


@st.composite
def odd_grammars(draw, names=odd_names, weights=odd_weights) -> WeightedGrammar:
    nonterminals = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    words = draw(st.lists(names, max_size=4, unique=True))
    n = len(nonterminals)
    binary, lexical = np.zeros((n, n, n)), np.zeros((n, len(words)))
    for array in (binary, lexical):
        for _ in range(draw(st.integers(0, 5)) if array.size else 0):
            array[tuple(draw(st.integers(0, size - 1)) for size in array.shape)] = draw(weights)
    root = draw(st.lists(weights, min_size=n, max_size=n))
    return WeightedGrammar.from_parts(np.array(root), binary, lexical, words, nonterminals)


@examples(200)
@given(odd_grammars())
def test_plain_notation_there_and_back(grammar):
    text = format_grammar(grammar)
    back = parse_grammar(text)
    assert back == grammar
    assert [x.tobytes() for x in (back.root, back.binary.values, back.lexical.data)] == [
        x.tobytes() for x in (grammar.root, grammar.binary.values, grammar.lexical.data)
    ]
    text.encode()  # no lone surrogates
    assert all(line.isprintable() or "\u00a0" in line or not line.isascii() for line in text.split("\n"))


def test_every_odd_name_there_and_back(tmp_path):
    n = len(ODD)
    rng = np.random.default_rng(0)
    binary = rng.normal(size=(n, n, n)) * (rng.random((n, n, n)) < 0.02)
    grammar = WeightedGrammar.from_parts(rng.normal(size=n), binary, np.eye(n), ODD, ODD)
    for name in ("odd.wcfg", "odd.wcfg.gz"):
        write_grammar(grammar, tmp_path / name)
        assert read_grammar(tmp_path / name) == grammar
    assert gzip.decompress((tmp_path / "odd.wcfg.gz").read_bytes()) == (tmp_path / "odd.wcfg").read_bytes()


@examples(100)
@given(odd_grammars(weights=st.floats(-2, 2)))
def test_nltk_notation_there_and_back(grammar):
    """Names may change, but no weight of any sentence does, and rules stay what they are to the last bit."""
    bad = [word for word in grammar.words if set(word) & set("\n\r\0") or "\ud800" in word or "\ud83d" in word]
    if bad or any("'" in word and '"' in word for word in grammar.words):
        with pytest.raises(GrammarError, match="cannot be written in NLTK's notation"):
            format_grammar(grammar, format="nltk")
        return
    back = parse_grammar(format_grammar(grammar, format="nltk"), format="nltk")
    assert sorted(rule.weight for rule in all_rules(back)) == sorted(rule.weight for rule in all_rules(grammar))
    for sentence in product(grammar.words, repeat=2):
        assert back.weight(sentence) == pytest.approx(grammar.weight(sentence), rel=CLOSE, abs=1e-300)


def test_what_is_written():
    rules = [rule(" S", 0.5), rule("S NS", 1e-7), rule("N x", -2.0), Rule("N", (Symbol("it's", True),), 3.0)]
    grammar = WeightedGrammar.from_rules([*rules, Rule("S", (Symbol("y", True),), 0.0)])
    assert format_grammar(grammar).splitlines()[1:] == [
        "0.5 -> S", "0.0 -> N", "1e-07 S -> N S", "-2.0 N -> 'x'", "3.0 N -> 'it\\'s'", "0.0 S -> 'y'",
    ]  # fmt: skip
    assert format_grammar(grammar, format="nltk").splitlines() == [
        "%start ROOT", "ROOT -> S [0.5]", "S -> N S [0.0000001]", "N -> 'x' [-2.0]", 'N -> "it\'s" [3.0]',
    ]  # fmt: skip


def test_roots_in_nltk_notation():
    """One of weight 1 is the start; for others there is a new one, under a name that is free."""
    for below in ("S x", "S A A"):
        one = WeightedGrammar.from_rules([rule("A y"), rule(" S"), rule(below)])
        assert format_grammar(one, format="nltk").splitlines()[0] == "%start S"
    bare = WeightedGrammar.from_rules([rule("A y"), rule(" S")])
    several = WeightedGrammar.from_rules([Rule("ROOT", (X,), 0.5), Rule(None, (Symbol("ROOT"),), 2.0), rule(" S", 3.0)])
    for grammar, first in ((bare, "%start ROOT"), (several, "%start ROOT_2")):
        text = format_grammar(grammar, format="nltk")
        assert text.splitlines()[0] == first
        assert parse_grammar(text).weight(["x"]) == grammar.weight(["x"])
        assert sorted(parse_grammar(text).nonterminals) == sorted(set(grammar.nonterminals) | {"S"})


def test_writing_is_whole_or_not_at_all(tmp_path):
    good = WeightedGrammar.from_rules([rule(" S"), rule("S x")])
    bad = replace(good, words=["\n"])
    path = tmp_path / "grammar.txt"
    write_grammar(good, path, format="nltk")
    before = path.read_bytes()
    with pytest.raises(GrammarError, match="write the grammar in the plain one"):
        write_grammar(bad, path, format="nltk")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="no such file or directory"):
        write_grammar(good, tmp_path / "nowhere" / "grammar.txt")
    with pytest.raises(UsageError, match="plain or nltk, not 'other'"):
        write_grammar(good, path, format="other")


def test_standard_output(capsys):
    write_grammar(WeightedGrammar.from_rules([rule(" S"), rule("S x")]), "-")
    assert parse_grammar(capsys.readouterr().out).weight(["x"]) == 1.0


# Reading


def test_plain_notation():
    text = """\ufeff# A comment
        1 -> S      # another
        +.5e0 S -> `noun phrase` VP
        1E-2\tVP\t->\t'is' "asleep"\r
        .25 `noun phrase` -> 'the' Noun
        2 Noun -> "it's" # a word
        1 Noun -> "it's"
        0.5 Noun -> '\\u0041\\'\\\\\\t'
    """
    grammar = parse_grammar(text)
    assert grammar.nonterminals[:4] == ["S", "noun phrase", "VP", "Noun"]
    assert grammar.words == ["is", "asleep", "the", "it's", "A'\\\t"]
    assert grammar.weight(["the", "it's", "is", "asleep"]) == pytest.approx(0.5 * 0.01 * 0.25 * 3, rel=CLOSE)
    assert grammar.weight(["the", "A'\\\t", "is", "asleep"]) == pytest.approx(0.5 * 0.01 * 0.25 * 0.5, rel=CLOSE)


def test_nltk_notation():
    """As NLTK reads it, and what it prints itself: exponents, punctuation for names, no spaces around arrows."""
    text = """
        # roots come from TOP, which is used nowhere else
        TOP->S [.25]|NP [7.5e-1] | S
        S -> NP , VP . [ -2 ]
        NP -> PRP$ | 'x' [3]
        PRP$ -> "it's"   [0.5]
        , -> ','
        . -> "."
        VP -> 'runs' \\
            [0.125]
    """
    grammar = parse_grammar(text)
    assert "TOP" not in grammar.nonterminals
    assert grammar.root.tolist()[:2] == [1.25, 0.75]
    assert grammar.weight(["x", ",", "runs", "."]) == pytest.approx(1.25 * -2 * 3 * 0.125, rel=CLOSE)
    assert grammar.weight(["it's"]) == pytest.approx(0.75 * 0.5, rel=CLOSE)
    # A start that is used elsewhere, or has words, is an ordinary nonterminal.
    assert parse_grammar("S -> A [0.5]\nA -> 'x' | 'y' S").weight(["y", "x"]) == 0.25
    assert parse_grammar("S -> A [0.5] | 'x'\nA -> 'x'").weight(["x"]) == 1.5
    assert parse_grammar("A -> 'x'\n%start B\nB -> A [2]").weight(["x"]) == 2.0


def test_notation_is_told_by_the_first_line():
    assert parse_grammar("\n# S -> 'x' [2]\n1 -> S\n3 S -> 'x'").weight(["x"]) == 3.0
    assert parse_grammar("\n# 1 -> S\nS -> 'x' [2]").weight(["x"]) == 2.0
    assert parse_grammar("1 -> 'x' [2]", format="nltk").weight(["x"]) == 2.0
    with pytest.raises(UsageError, match="plain or nltk"):
        parse_grammar("1 -> S", format="other")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 0, "no rules; a grammar has lines like"),
        ("# nothing\n\n", 0, "no rules"),
        ("1 S -> 'x'", 0, "no root: add a rule '-> S'"),
        ("1 -> S\nS -> NP VP", 2, "'S' is not a finite number; a line of the plain notation begins with"),
        ("1 -> S\n1_0 S -> 'x'", 2, "'1_0' is not a finite number"),
        ("1 -> S\nnan S -> 'x'", 2, "'nan' is not a finite number"),
        ("1 -> S\n1e999 S -> 'x'", 2, "'1e999' is not a finite number"),
        ("1 -> S\n`1` S -> 'x'", 2, "'`1`' is not a finite number"),
        ("1 -> S\n1 S NP VP", 2, "a line is 'weight parent -> children' or 'weight -> root', not '1 S NP VP'"),
        ("1 -> S\n1", 2, "a line is 'weight parent"),
        ("1 -> S\n1 S NP -> VP", 2, "a line is 'weight parent"),
        ("1 -> S\n1 S->NP VP", 2, "put spaces around the arrow in 'S->NP', or backquotes around a name"),
        ("1 -> S\n1 S -> NP -> VP", 2, "a second '->'; put backquotes around it"),
        ("1 -> S\n1 'S' -> NP VP", 2, "the word 'S' where a nonterminal belongs, without quotes"),
        ("1 -> S\n1 -> 'S'", 2, "a root is one nonterminal"),
        ("1 -> S\n1 -> S S", 2, "a root is one nonterminal"),
        ("1 -> S\n1 ->", 2, "->: empty right-hand sides are not read"),
        ("1 -> S\n1 S -> # 'x'", 2, "S ->: empty right-hand sides are not read; write the rules it is used in"),
        ("1 -> S\n1 S -> 'x", 2, "cannot read \"'x\"; names and '->' need spaces"),
        ("1 -> S\n1 S -> NP#2 VP", 2, "cannot read 'NP#2 VP'"),
        ("1 -> S\n1 S -> dog's", 2, 'cannot read "dog\'s"'),
        ("1 -> S\n1 S -> 'x''y'", 2, "cannot read"),
        ("1 -> S\n1 S -> '\\x41'", 2, "\\x means nothing in '\\\\x41'; write a backslash as \\\\"),
        ("1 -> S\n1 S -> '\\u12'", 2, "\\u means nothing"),
        ("1 -> S\n1 S -> S\n1 S -> 'x'", 0, "the unary rules among S go round in cycles"),
        ("S -> 'x'\n1.0 -> S [2]\nS", 3, "a rule begins with a nonterminal and '->'"),
        ("'S' -> 'x'", 1, "a rule begins with a nonterminal and '->'"),
        ("S NP VP [0.5]", 1, "a rule begins with"),
        ("S -> 'x' [0.5\n", 1, "cannot read '[0.5'; quotes and brackets must be closed"),
        ("S -> 'x", 1, 'cannot read "\'x"'),
        ("S -> 'x' [0.5] # note", 1, "cannot read '# note'; quotes and brackets must be closed, and comments go on"),
        ("S -> NP[NUM=sg] VP", 1, "'NUM=sg' is not a finite number; brackets in NLTK's notation hold"),
        ("S -> 'x' [inf]", 1, "'inf' is not a finite number"),
        ("S -> 'x' [0.5] [0.5]", 1, "'0.5' after the weight or instead of it"),
        ("S -> [0.5] 'x'", 1, "'x' after the weight"),
        ("S -> A -> B", 1, "'->' after the weight or instead of it"),
        ("S -> 'x' [0.5] |", 1, "S ->: empty right-hand sides are not read"),
        ("S -> A [1]\nA -> [0.5]", 2, "A ->: empty right-hand sides"),
        ("%begin S\nS -> 'x'", 1, "the only line that begins with % is '%start S', once"),
        ("%start S\n%start S\nS -> 'x'", 2, "cannot read '%start S'"),
        ("%start 'S'\nS -> 'x'", 1, "cannot read"),
        ("%start S\n", 1, "no rules; add some like"),
        ("%start T\nS -> 'x'", 2, "there are no rules for 'T', the start"),
        ("S -> 'x' [1] \\\n | 'y' [2] \\\n | 'z' [z]", 1, "'z' is not a finite number"),
    ],
)
def test_errors_name_the_place(tmp_path, text, line, message):
    path = tmp_path / "bad.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises((InputError, GrammarError)) as caught:
        read_grammar(path)
    place = f"{path}:{line}: " if line else f"{path}: "
    assert str(caught.value).startswith(place)
    assert message in str(caught.value)
    with pytest.raises((InputError, GrammarError)) as again:
        parse_grammar(text, "my text")
    assert str(again.value) == str(caught.value).replace(str(path), "my text")


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_grammar(tmp_path / "none.txt")
    (tmp_path / "bytes.txt").write_bytes(b"1 -> S\n\xff")
    with pytest.raises(InputError, match=r"bytes\.txt:2:1: not valid UTF-8"):
        read_grammar(tmp_path / "bytes.txt")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"1 -> S\n1 S -> 'x'\n" * 99)[:-9])
    with pytest.raises(InputError, match="damaged or truncated gzip file"):
        read_grammar(tmp_path / "cut.gz")


_pieces = st.sampled_from(
    ["S", "NP", "->", "|", "'x'", '"y"', "`a b`", "[0.5]", "[", "]", "0.5", "-1", "1e308", "#", "%start", "\\", "'",
     "\\\n", "\n", "\n", "\n1 -> S\n", "\nS -> ", "'\\u0041'", "1", "inf", "\r", "\x85", "\0"]
)  # fmt: skip
texts = st.text(max_size=40) | st.lists(_pieces | st.text(max_size=2), max_size=25).map(" ".join)


def grammar_or_error(text: str, format: Format | None) -> WeightedGrammar | str:
    try:
        return parse_grammar(text, format=format)
    except SapwoodError as error:
        return str(error)


@examples(600)
@given(texts, st.sampled_from([None, "plain", "nltk"]))
def test_any_text_gives_a_grammar_or_an_explanation(text, format):
    grammar = grammar_or_error(text, format)
    if isinstance(grammar, WeightedGrammar):
        assert parse_grammar(format_grammar(grammar)) == grammar
    else:
        assert grammar.startswith("<text>:")
        assert "\n" not in grammar


@examples(100)
@given(st.data())
def test_damaged_grammars_are_explained(data):
    text = data.draw(st.sampled_from([*NLTK_GRAMMARS, format_grammar(parse_grammar(NLTK_GRAMMARS[1]))]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 6))
        text = text[:at] + data.draw(st.text("SNV->'\"|[]0.1#\\ \n%`", max_size=3)) + text[at + cut :]
    grammar = grammar_or_error(text, None)
    assert isinstance(grammar, WeightedGrammar) or grammar.startswith("<text>:")


# The object


def test_from_parts():
    root, binary = np.array([1.0, 0.0]), np.arange(8.0).reshape(2, 2, 2)
    grammar = WeightedGrammar.from_parts(root, binary, np.eye(2), ["x", "y"])
    assert grammar.nonterminals == ["Q0", "Q1"]
    assert grammar.binary.dense().tolist() == binary.tolist()
    assert grammar.weight(["x", "y"]) == 1.0
    assert grammar.weight(["y", "x"]) == 2.0
    assert repr(grammar) == "<WeightedGrammar: 2 nonterminals, 2 words, 9 rules>"
    sparse = WeightedGrammar.from_parts(root, SparseTensor.from_dense(binary), scipy.sparse.coo_array(np.eye(2)), "xy")
    assert sparse == grammar
    factors = ProductTensor(np.array([[1.0], [0]]), np.array([[2.0], [1]]), np.array([[0.0], [3]]))
    assert WeightedGrammar.from_parts(root, factors, np.eye(2), "xy").weight(["x", "y"]) == 6.0
    named = WeightedGrammar.from_parts(root, binary, np.eye(2), "xy", ["A", "B"])
    assert named.nonterminals == ["A", "B"]


def test_parts_of_an_automaton_without_states():
    grammar = WeightedGrammar.from_parts(np.zeros(0), np.zeros((0, 0, 0)), np.zeros((0, 2)), ["x", "y"])
    assert grammar.weight(["x", "y"]) == 0.0
    assert parse_grammar(format_grammar(grammar)) == grammar


def test_equality():
    grammar = WeightedGrammar.from_rules([rule(" S"), rule("S SS", 0.5), rule("S x", 0.25), rule("A y", 2.0)])
    assert grammar == parse_grammar(format_grammar(grammar))
    assert grammar != "S"
    up = np.nextafter
    for change in (
        {"root": up(grammar.root, 2)},
        {"nonterminals": ["S", "B"]},
        {"words": ["x", "z"]},
        {"binary": grammar.binary.transpose(0, 1, 2).scaled(1 + 1e-15)},
        {"lexical": grammar.lexical * (1 + 1e-15)},
        {"lexical": grammar.lexical[:, [1, 0]]},
    ):
        assert replace(grammar, **change) != grammar
    with pytest.raises(TypeError):
        hash(grammar)


def test_zeros_and_orders_make_no_difference():
    """Entries in another order, zeros that are stored and the sign of zeros are no content."""
    lexical = scipy.sparse.csr_array((np.array([0.0, 2.0, 1.0]), np.array([0, 2, 1]), np.array([0, 3])), (1, 3))
    tensor = SparseTensor((1, 1, 1), np.zeros((2, 3), np.int32), np.array([0.25, 0.25]))
    one = WeightedGrammar(["S"], ["x", "y", "z"], tensor, lexical, np.array([-0.0]))
    other = WeightedGrammar.from_parts([0.0], np.full((1, 1, 1), 0.5), [[0.0, 1.0, 2.0]], "xyz", "S")
    assert one == other
    assert lexical.nnz == 3  # what was given is left as it is
    assert not np.signbit(one.root).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nonterminals": ["S", "S"]}, "two nonterminals of a weighted grammar have the same name, 'S'"),
        ({"words": ["x", "x"]}, "two words of a weighted grammar have the same name, 'x'"),
        ({"nonterminals": ["S"]}, r"the root weights of 1 nonterminals and 2 words have the shape \(1,\), not \(2,\)"),
        ({"words": ["x"]}, r"the lexical weights .* have the shape \(2, 1\), not \(2, 2\)"),
        ({"root": np.zeros(3)}, r"the root weights .* not \(3,\)"),
        ({"binary": np.zeros((2, 2, 1))}, r"the binary weights .* not \(2, 2, 1\)"),
        ({"binary": np.zeros((2, 2))}, "the binary weights of a grammar have 3 axes, not 2"),
        ({"lexical": np.zeros(2)}, "the lexical weights of a grammar have 2 axes, not 1"),
        ({"lexical": np.array([[1, np.nan], [0, 0]])}, "the lexical weights of a weighted grammar must be finite"),
        ({"binary": np.full((2, 2, 2), np.inf)}, "the binary weights of a weighted grammar must be finite"),
        ({"root": np.array([0, -np.inf])}, "the root weights of a weighted grammar must be finite"),
    ],
)
def test_parts_that_do_not_fit(change, message):
    parts = {"root": np.zeros(2), "binary": np.zeros((2, 2, 2)), "lexical": np.zeros((2, 2)), "words": ["x", "y"]}
    WeightedGrammar.from_parts(**parts)
    with pytest.raises(GrammarError, match=message):
        WeightedGrammar.from_parts(**{**parts, "nonterminals": ["S", "T"], **change})


def test_a_grammar_needs_nonterminals():
    nothing = SparseTensor.from_dense(np.zeros((0, 0, 0)))
    with pytest.raises(GrammarError, match="at least one nonterminal"):
        WeightedGrammar([], [], nothing, scipy.sparse.csr_array((0, 0)), np.zeros(0))


# Models of sapwood


@examples(40)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_random_models(seed, real):
    rng = np.random.default_rng(seed)
    model = random_grammar(rng, interminals=2, preterminals=2, words=3, density=0.5, real=real)
    grammar = WeightedGrammar.from_tensor_grammar(model)
    assert len(grammar.nonterminals) == model.states.sum()
    for _ in range(3):
        sentence = [f"w{number}" for number in rng.integers(0, 3, size=rng.integers(1, 5))]
        expected = inside_outside(model, sentence).probability
        assert grammar.weight(sentence) == pytest.approx(expected, rel=1e-10, abs=1e-14)


def test_names_of_a_models_symbols():
    rng = np.random.default_rng(1)
    model = random_grammar(rng, interminals=2, preterminals=3, words=2, states=(1, 1))
    grammar = WeightedGrammar.from_tensor_grammar(replace(model, symbols=["NP", "VP", "NP", "NP_0", "NP/tag"]))
    assert grammar.nonterminals == ["NP", "VP", "NP/tag", "NP_0", "NP/tag_2"]
    assert grammar.words == ["w0", "w1", "<UNK>"]
    model = random_grammar(rng, interminals=2, preterminals=2, words=1, states=(2, 2))
    grammar = WeightedGrammar.from_tensor_grammar(replace(model, symbols=["NP", "NP_0", "NP", "N"]))
    assert grammar.nonterminals == ["NP_0", "NP_1", "NP_0_0", "NP_0_1", "NP/tag_0", "NP/tag_1", "N_0", "N_1"]


def test_words_that_look_like_signatures():
    model = random_grammar(np.random.default_rng(1), words=2)
    lexicon = replace(model.lexicon, words=["<UNK>", "w1"])
    model = replace(model, emissions=replace(model.emissions, lexicon=lexicon))
    assert WeightedGrammar.from_tensor_grammar(model).words == ["<UNK>", "w1", "<UNK>_2"]


def test_a_trained_model():
    """With unknown words, back-off and composite tags, the weights are the model's probabilities."""
    model = PCFG().fit(Corpus.from_trees(made_up_treebank(40)))
    grammar = WeightedGrammar.from_tensor_grammar(model)
    known = unknown = 0
    for tree in made_up_treebank(100, seed=1):
        sentence = list(tree.words())
        if len(sentence) <= 6:
            terminals = model.lexicon.terminals(sentence)
            weight = grammar.weight([grammar.words[terminal] for terminal in terminals])
            assert weight == pytest.approx(inside_outside(model, sentence).probability, rel=1e-10)
            if weight > 0:
                known += int((terminals < model.lexicon.n_words).sum())
                unknown += int((terminals >= model.lexicon.n_words).sum())
    assert known > 10
    assert unknown > 3
    assert parse_grammar(format_grammar(grammar)) == grammar
