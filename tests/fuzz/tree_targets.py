"""What is fuzzed: trees in all formats, and patterns to find in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.mutations import text
from sapwood.inference import Parser
from sapwood.inference.constraints import requirements
from sapwood.learn.lpcfg.pcfg import PCFG
from sapwood.treebank.rewriting.rewriter import rewrite
from sapwood.trees.corpus import Corpus
from sapwood.trees.formats.registry import file_footer, file_header, format_as, read_trees
from sapwood.trees.partial import PartialTree, read_partial
from sapwood.trees.search.regex import Regex
from sapwood.trees.search.searcher import Searcher
from sapwood.trees.search.table import read_table
from sapwood.trees.tree import Tree

TREES = [
    "(ROOT (S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat))) (. .)))",
    "(ROOT (S (NP (PRP it)) (VP (VBD rained) (ADVP (RB again)))))",
    "(ROOT (NP (NP (NN rain)) (CC and) (NP (JJ cold) (NN snow))))",
    "(ROOT (S (NP (NNS dogs)) (VP (VBP bark))))",
]
_PARTIAL = "# some\n(S (NP (DT the) (NN dog)) barks .)\n(_ the dog (VP (_ barks)))\n(S (_ a b) (NP c (NN d)))\n"


@dataclass(frozen=True)
class Target:
    """One thing to fuzz.

    Attributes
    ----------
    originals
        Makes what is to be changed.
    change
        Makes the bytes of a file of an original.
    use
        Reads the file and does with it what people do; may raise our errors.
    ending
        Of the file's name.
    share
        How many inputs it gets for each one of others: fewer if they take long.
    """

    originals: Callable[[], Sequence[Any]]
    change: Callable[[np.random.Generator, Any], bytes]
    use: Callable[[Path], object]
    ending: str = ""
    share: float = 1.0


def written(
    tokens: str, *originals: str | bytes, ending: str = "", use: Callable[[Path], object], share: float = 1.0
) -> Target:
    raw = [each.encode() if isinstance(each, str) else each for each in originals]
    odd = [*tokens.encode().split(), *[b"\n", b" ", b"\t"] * 3, b"\0", b"\xff", b"\xc2\xa0", b"\r\n"]
    return Target(lambda: raw, partial(text, tokens=odd), use, ending, share)


def _export() -> bytes:
    return (
        "#FORMAT 3\n" + "\n".join(format_as(Tree.parse(tree), "export", n) for n, tree in enumerate(TREES, 1))
    ).encode()


def _tiger() -> bytes:
    trees = "\n".join(format_as(Tree.parse(tree), "tiger", n) for n, tree in enumerate(TREES, 1))
    return (file_header("tiger") + trees + file_footer("tiger")).encode()


def _use_discbracket(path: Path) -> None:
    for tree in read_trees(path, format="discbracket"):
        format_as(tree, "discbracket")


def _use_trees(path: Path) -> None:
    trees = list(read_trees(path))
    table = read_table(path)
    assert [table.tree(number) for number in range(len(table))] == trees
    for tree in trees:
        for form in (
            "brackets",
            "pretty",
            "export",
            "tiger",
            "tokens",
            "tagged",
            "draw",
            "conllu",
            "svg",
            "latex",
            "qtree",
        ):
            format_as(tree, form)
    if trees:
        Corpus.from_trees(trees)


@cache
def _parser() -> Parser:
    return Parser(PCFG().fit(Corpus.from_trees(map(Tree.parse, TREES))))


def _use_partial(path: Path) -> None:
    found = list(read_partial(path))
    assert [PartialTree.parse(str(one)) for one in found] == found
    parser = _parser()
    for one in found:
        clean = one.normalised(parser.grammar.normaliser)
        if clean is not None and len(clean.tree) <= 20:
            words, required = requirements(clean.tree, "ROOT")
            known = [(word, tag if tag in parser.grammar.emissions.tags else None) for word, tag in words]
            parser.chart(known, phrases=required)
            clean.error("", 0, 1)


_GAPS = "(S (VP (NP 0=a) (PP (IN 3=b) (NP 5=c))) (NP=x 1=the) (VP (NP 2=N) (A 4=a)))"


def _use_pattern(path: Path) -> None:
    searcher = Searcher(path.read_text(encoding="utf-8", errors="replace"), timeout=5)
    # Without gaps, and with them.
    searcher.count(map(Tree.parse, TREES))
    searcher.count([*map(Tree.parse, TREES), Tree.parse(_GAPS, format="discbracket")])


def _use_rules(path: Path) -> None:
    rules = path.read_text(encoding="utf-8", errors="replace")
    trees = list(map(Tree.parse, TREES))
    for tree in rewrite(trees, rules, allow_word_changes=True):
        assert Tree.parse(str(tree)) == tree


def _use_regex(path: Path) -> None:
    """Search, find and replace; the first line is the expression, the rest is the text."""
    regex, _, rest = path.read_text(encoding="utf-8", errors="replace").partition("\n")
    expression = Regex(regex)
    found = expression.find(rest)
    assert expression.search(rest) == (found is not None)
    expression.replace(rest, lambda groups: groups[-1] or "")


TREE_TEXTS = {
    "rules": written(
        "% =x =y relabel delete prune excise insert move replace createSubtree adjoin adjoinF coindex split join "
        "$+ $- >1 >-1 >2 (A a) (B (C@)) /(.)(.*)/ ={x} %{v} #1%v ?< <+(NP) ~x : <...{ A ; }",
        "NP=x < (DT=y $+ __=z)\nrelabel x ={x}-1\ncreateSubtree NB y z\nmove y >-1 x\n",
        "% a comment\n/^V(.*)/#1%v=x > VP=y\nrelabel y /P$/P%{v}/\nexcise y x\n",
        "S=x ?< NP=y !< DONE\ninsert (DONE *) >1 x\nadjoin (Q (R@)) y\nprune y\n",
        "NN=x > NP=y\nsplit x /^(.)(.+)$/ A B\n\nA=x $+ B=y\njoin x y NN\nS=x < NP=y\ncoindex x y\nreplace y (A a) y\n",
        use=_use_rules,
    ),
    "regex": written(
        "( ) (?: | * + ? {2,3} ^ $ [^ ] [a-z] . \\ \\d a b",
        "^(a|b)*c{2,}(?:[^d]+e?)$\nabcccxe",
        "(a*)*b\n" + "a" * 3000,
        "((a?){20}a){20}\n" + "a" * 500,
        use=_use_regex,
        share=0.1,
    ),
    "pattern": written(
        'NP =x < << $.. . !< [ ] ( ) | & @ __ / ^ $ * {2} <2 <# == " \\',
        'NP=x < (PP !<< /^N(N|P){1,3}$/i) [ $.. @VP | .. "the" & > =x ]',
        "/^(.)(.*)$/#1%a#2%b=x <+(NP|VP) (__=y ?<# ~x) !.+(@NP) /(.*)/#1%a : =y <...{ A ; B=z } <= __",
        use=_use_pattern,
    ),
    "brackets": written("( ) (( )) (NP -LRB- /* */ # *x* ( ) -NONE- *T*-1 | @ ^ ~", "\n".join(TREES), use=_use_trees),
    "partial": written("( ) (_ _ (NP -LRB- a b /* */ # -NONE- *T*-1 -U+005F-", _PARTIAL, use=_use_partial),
    "export": written("#BOS #EOS #FORMAT #500 500 0 501 #501 -- %% $. 4 3", _export(), use=_use_trees),
    "tiger": written(
        '<t <nt <edge id="1" idref="s1_1" root="s1_500" cat=" word=" &amp; &#0; &x; <!ENTITY <!DOCTYPE <![CDATA[ ]]> '
        "</s> <s> />",
        _tiger(),
        use=_use_trees,
    ),
    "discbracket": written(
        "( ) 0= 1= 99999999999= = #LRB# -LRB- (NP",
        "\n".join(format_as(Tree.parse(tree), "discbracket") for tree in TREES) + "\n(S (A 0=a) (B (C 2=c)) (D 1=d))\n",
        use=_use_discbracket,
    ),
}
