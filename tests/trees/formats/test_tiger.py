"""TIGER XML: what is read, what is refused, and that no XML of strangers does harm."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from sapwood.errors import TreeFormatError
from sapwood.trees.formats.export import parse_export
from sapwood.trees.formats.registry import BadTrees, format_as, read_trees
from sapwood.trees.formats.tiger import TIGER_FOOTER, TIGER_HEADER, format_tiger, parse_tiger
from sapwood.trees.tree import Tree

CROSSING = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<corpus xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" id="TEST" version="1.0">
<head><meta><name>Test</name></meta><annotation><feature name="word" domain="T"/></annotation></head>
<body>
<!-- a remark -->
<s id="s1">
<graph root="s1_VROOT" discontinuous="true">
  <terminals>
    <t id="s1_1" word="Das" lemma="der" pos="PDS" morph="Nom.Sg.Neut" case="--"/>
    <t id="s1_2" word="hat" lemma="haben" pos="VAFIN" morph="3.Sg.Pres.Ind"/>
    <t id="s1_3" word="sie" pos="PPER"/>
    <t id="s1_4" word="nicht" pos="PTKNEG"/>
    <t id="s1_5" word="&lt;gesagt&gt; &amp; &#34;" pos="VVPP"><secedge idref="s1_1" label="OA"/></t>
    <t id="s1_6" word="." pos="$."/>
  </terminals>
  <nonterminals>
    <nt id="s1_500" cat="VP"><edge label="OA" idref="s1_1"/><edge label="HD" idref="s1_5"/></nt>
    <nt id="s1_501" cat="S">
      <edge label="OC" idref="s1_500"/><edge label="HD" idref="s1_2"/><edge label="SB" idref="s1_3"/>
      <edge label="NG" idref="s1_4"/>
    </nt>
    <nt id="s1_VROOT" cat="VROOT"><edge label="--" idref="s1_501"/><edge label="--" idref="s1_6"/></nt>
  </nonterminals>
</graph>
<matches><match subgraph="s1_500"/></matches>
</s>
<s id="s2"><graph root="s2_1"><terminals><t id="s2_1" word="Ja" pos="ITJ"/></terminals><nonterminals/></graph></s>
</body>
</corpus>
"""
EXPORT = """#FORMAT 3
#BOS 1
Das PDS -- OA 500
hat VAFIN -- HD 501
sie PPER -- SB 501
nicht PTKNEG -- NG 501
<gesagt>-U+0020-&-U+0020-" VVPP -- HD 500
. $. -- -- 0
#500 VP -- OC 501
#501 S -- -- 0
#EOS 1
#BOS 2
Ja ITJ -- -- 0
#EOS 2
"""


def parse(text: str, **options) -> list[Tree]:
    return list(parse_tiger(text, source="x.xml", **options))


def test_a_sentence_with_crossing_branches_becomes_what_it_becomes_from_export():
    for gaps, begins in [
        ("close", "(ROOT (S (PDS Das) (VAFIN hat) (PPER sie) (PTKNEG nicht) (VP (VVPP <gesagt>"),
        ("keep", "(ROOT (S (VP (PDS 0=Das) (VVPP 4=<gesagt>"),
        ("split", "(ROOT (S (VP* (PDS Das)) (VAFIN hat) (PPER sie) (PTKNEG nicht) (VP* (VVPP <gesagt>"),
    ]:
        found = parse(CROSSING, gaps=gaps)
        assert found == list(parse_export(EXPORT, source="x", gaps=gaps))
        assert str(found[0]).startswith(begins)
        assert parse(CROSSING, functions=True, gaps=gaps) == list(
            parse_export(EXPORT, source="x", functions=True, gaps=gaps)
        )
    with pytest.raises(TreeFormatError, match=r"x.xml:17: sentence s1: the words below node s1_500 \(VP\) are not adj"):
        parse(CROSSING, gaps="error")


def test_files_are_told_by_their_first_line(tmp_path):
    path = tmp_path / "x.xml"
    path.write_text("\n" + CROSSING.split("\n", 1)[1], encoding="utf-8")
    assert list(read_trees(path)) == parse(CROSSING)
    path.write_text(CROSSING, encoding="utf-8")
    assert list(read_trees(path)) == list(read_trees(path, format="tiger")) == parse(CROSSING)


def test_white_space_and_unusual_characters_come_back():
    words = ["a\tb", "\n", "  ", "\x01", "\ufffe", "a\r\nb", '"', "'", "<&>", "\x85", "\u2028", "-U+0041-", "😀", "\0"]
    tree = Tree("ROOT", [Tree(f"{word}X", word=word) for word in words])
    assert parse(TIGER_HEADER + format_tiger(tree, 3) + TIGER_FOOTER) == [tree]


def test_nodes_that_hang_nowhere_hang_on_the_root():
    text = TIGER_HEADER + (
        '<s id="a"><graph root="x"><terminals><t id="1" word="a" pos="A"/><t id="2" word="." pos="$."/></terminals>'
        '<nonterminals><nt id="x" cat="S"><edge idref="1"/></nt></nonterminals></graph></s>'
    )
    assert parse(text + TIGER_FOOTER) == [Tree.parse("(ROOT (S (A a)) ($. .))")]


SENTENCE = """<s id="s7"><graph root="r"><terminals>
<t id="1" word="a" pos="A"/>
<t id="2" word="b" pos="B"/></terminals><nonterminals>
<nt id="r" cat="VROOT"><edge idref="x"/></nt>
<nt id="x" cat="S"><edge idref="1"/><edge idref="2"/></nt></nonterminals></graph></s>
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ('<t id="2" ', '<t id="1" ', 7, "the node '1' occurs twice"),
        ('pos="B"', "", 7, "<t> without 'pos'"),
        ('word="b"', "", 7, "<t> without 'word'"),
        ('cat="S"', "", 9, "<nt> without 'cat'"),
        ('<edge idref="2"/>', "<edge/>", 9, "<edge> without 'idref'"),
        ('idref="2"', 'idref="9"', 5, "leads from 'x' to '9', which is not a node"),
        ('idref="2"', 'idref="1"', 9, "the node '1' has two parents"),
        ('<nonterminals>', '<nonterminals><edge idref="1"/>', 7, "<edge> outside <nt>"),
        ('<edge idref="1"/><edge idref="2"/>', '<edge idref="x"/>', 8, "two parents"),
        ('<edge idref="x"/>', '<edge idref="1"/>', 9, "the node '1' has two parents"),
        ('<edge idref="1"/><edge idref="2"/>', "", 9, "node x (S) has no children"),
        ('<t id="1" word="a" pos="A"/>\n<t id="2" word="b" pos="B"/>', "", 5, "which is not a node"),
    ],
)  # fmt: skip
def test_malformed_sentences_are_refused_with_their_place_or_skipped(old, new, line, problem):
    assert old in SENTENCE
    text = TIGER_HEADER + SENTENCE.replace(old, new, 1) + SENTENCE + TIGER_FOOTER
    with pytest.raises(TreeFormatError) as caught:
        parse(text)
    assert problem in str(caught.value)
    # A problem of the whole is that of the line where the sentence begins.
    assert caught.value.line in (line, line + 1, 5)
    bad = BadTrees()
    assert parse(text, on_bad=bad) == [Tree.parse("(ROOT (S (A a) (B b)))")]
    assert bad.count == 1


def test_circles_are_refused():
    circle = SENTENCE.replace('<edge idref="x"/>', '<edge idref="2"/>').replace(
        '<edge idref="2"/></nt></non', '<edge idref="x"/></nt></non'
    )
    with pytest.raises(TreeFormatError, match="is its own ancestor"):
        parse(TIGER_HEADER + circle + TIGER_FOOTER)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<corpus><body><s></body></corpus>", "mismatched tag"),
        ("<corpus><body>", "no element found"),
        ("", "no element found"),
        ("not XML", "syntax error"),
        ("<html></html>", "<html> where TIGER XML has <corpus>"),
        ('<corpus><subcorpus external="file:/etc/passwd"/></corpus>', "refers to another file"),
        ("<corpus><body>&unknown;</body></corpus>", "undefined entity"),
        ("<corpus a='1' a='2'/>", "duplicate attribute"),
        ("<corpus>\x01</corpus>", "invalid token"),
        ("<corpus>\ud800</corpus>", "half a character"),
    ],
)
def test_what_is_no_tiger_xml_is_refused_and_ends_the_file(text, problem):
    with pytest.raises(TreeFormatError, match=problem):
        parse(text)
    bad = BadTrees()
    whole = TIGER_HEADER + SENTENCE + text.removeprefix("<corpus>").removeprefix("<body>")
    assert len(parse(whole, on_bad=bad)) == 1
    assert bad.count == 1


LAUGHS = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha" * 100}">' for n in range(10))


@pytest.mark.parametrize(
    "declaration",
    [
        f"<!DOCTYPE corpus [{LAUGHS}]>",
        '<!DOCTYPE corpus [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE corpus [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]>',
        '<!DOCTYPE corpus [<!ENTITY x "y">]>',
        f'<!DOCTYPE corpus [<!ATTLIST t word CDATA "{"a" * 1000}">]>',
        "<!DOCTYPE corpus [<!ATTLIST s kind CDATA #IMPLIED>]>",
        "<!DOCTYPE corpus [<!ELEMENT s ANY>]>",
        "<!DOCTYPE corpus [%x;]>",
        '<!DOCTYPE corpus\n SYSTEM "x.dtd">',
        '<!DOCTYPE corpus PUBLIC "-//x" "x.dtd">\n',
    ],
)
def test_entities_are_never_expanded(declaration):
    text = f'<?xml version="1.0"?>{declaration}<corpus id="&e9;"><body>{SENTENCE}</body></corpus>'
    tracemalloc.start()
    with pytest.raises(TreeFormatError, match="entities of its own"):
        parse(text)
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("place", ['word="&x;"', 'word="a&b.c;"', 'word="a">&ä;<x'])
def test_entities_of_another_file_are_refused(place):
    sentence = SENTENCE.replace('word="a"', place)
    text = f'<!DOCTYPE corpus SYSTEM "x.dtd"><corpus><body>\n{sentence}</body></corpus>'
    with pytest.raises(TreeFormatError, match=r"x\.xml:3:.*entities of its own"):
        parse(text)
    kept = text.replace(place, 'word="&amp;&#97;&lt;"')
    assert parse(kept)[0].words() == ["&a<", "b"]


def test_a_plain_doctype_is_fine_and_no_file_is_opened(monkeypatch):
    monkeypatch.setattr("builtins.open", lambda *_, **__: pytest.fail("a file was opened"))
    text = f'<?xml version="1.0"?><!DOCTYPE corpus SYSTEM "TigerXML.dtd"><corpus><body>{SENTENCE}</body></corpus>'
    assert parse(text) == [Tree.parse("(ROOT (S (A a) (B b)))")]


def test_trees_arrive_as_lines_do():
    text = TIGER_HEADER + SENTENCE * 1000 + TIGER_FOOTER
    seen: list[int] = []

    def lines():
        for number, line in enumerate(text.splitlines(keepends=True), 1):
            seen.append(number)
            yield number, line

    trees = parse_tiger(lines(), source="x")
    next(trees)
    assert len(seen) < 2500


def test_deep_trees_and_other_roots():
    tree = Tree("A", word="a")
    for _ in range(3000):
        tree = Tree("X", [tree])
    assert parse(TIGER_HEADER + format_tiger(tree) + TIGER_FOOTER) == [tree]
    leaf = Tree("A", word="a")
    assert parse(TIGER_HEADER + format_tiger(leaf) + TIGER_FOOTER) == [leaf]


def test_the_same_random_graphs_give_the_same_trees_in_all_formats():
    """Gaps are closed in one place, whatever format they come from."""
    rng = random.Random(1)
    for _ in range(200):
        count, size = rng.randint(1, 5), rng.randint(5, 12)
        above = [0, *(rng.choice([0, *range(1, number)]) for number in range(2, count + 1))]
        words = [*range(1, count + 1), *(rng.randint(0, count) for _ in range(size - count))]
        rng.shuffle(words)
        export = [f"w{place} W -- -- {499 + parent if parent else 0}" for place, parent in enumerate(words)]
        export += [f"#{500 + n} P{n} -- -- {499 + parent if parent else 0}" for n, parent in enumerate(above)]
        (expected,) = parse_export("\n".join(["#BOS 1", *export, "#EOS 1"]), source="x")
        terminals = "".join(f'<t id="w{place}" word="w{place}" pos="W"/>' for place in range(size))
        phrases = ""
        for number in range(count + 1):
            children = [f"w{place}" for place, parent in enumerate(words) if parent == number]
            children += [f"p{n + 1}" for n, parent in enumerate(above) if parent == number]
            edges = "".join(f'<edge idref="{child}"/>' for child in children)
            phrases += f'<nt id="p{number}" cat="{f"P{number - 1}" if number else "VROOT"}">{edges}</nt>'
        text = f'<s id="1"><graph root="p0">{terminals}{phrases}</graph></s>'
        assert parse(TIGER_HEADER + text + TIGER_FOOTER) == [expected]

        def bracketed(number: int) -> str:
            inside = [f"(W {place}=w{place})" for place, parent in enumerate(words) if parent == number]  # noqa: B023
            inside += [bracketed(n + 1) for n, parent in enumerate(above) if parent == number]  # noqa: B023
            return f"({f'P{number - 1}' if number else 'ROOT'} {' '.join(inside)})"

        from sapwood.trees.formats.discbracket import parse_discbracket

        assert list(parse_discbracket(bracketed(0), source="x")) == [expected]
        assert format_as(expected, "discbracket").count("=") == size
