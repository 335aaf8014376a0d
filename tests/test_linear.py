"""Memory and time grow with the size of the input: four times as long a word, as deep a tree, as many lines.

Each case reads, writes or tokenises one kind of input at two sizes, the second four times the first. Linear work takes
four times as long, quadratic work sixteen times. The limit is between them, since the machine has other work to do, and
a case that is too slow is measured again. Peaks of memory do not depend on other work; their limit is lower.
"""

from __future__ import annotations

import contextlib
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sapwood.automata.wcfg.files import format_grammar, parse_grammar
from sapwood.errors import SapwoodError
from sapwood.evaluate import EvalbParameters, Scorer
from sapwood.evaluate.agreement import measure_agreement
from sapwood.evaluate.consistency import Source, check_consistency
from sapwood.evaluate.unlabelled import spans_of
from sapwood.grammar.io.berkeley import read_rules
from sapwood.grammar.io.unary_chains import single_steps
from sapwood.induction.text import _first
from sapwood.inference import Parser
from sapwood.interop.arrow import ColumnParser, parse_table
from sapwood.interop.csv_tables import parse_csv
from sapwood.lm import KneserNey, count_text, load_model
from sapwood.model.forest_crf import FeatureVocabulary
from sapwood.model.span_scorer import frequent_features, word_features
from sapwood.pipeline.train import train
from sapwood.runtime.log import read_log
from sapwood.testing.grammars import random_grammar
from sapwood.trees.corpus import Corpus
from sapwood.trees.formats.conllu import parse_conllu
from sapwood.trees.formats.discbracket import parse_discbracket
from sapwood.trees.formats.discontinuous import close_gaps
from sapwood.trees.formats.gaps import node_blocks
from sapwood.trees.formats.registry import (
    _READERS,
    OUTPUT_FORMATS,
    file_footer,
    file_header,
    format_as,
    parse_tagged,
    parse_tokens,
)
from sapwood.trees.heads.rules import HeadRules
from sapwood.trees.lexicon.signatures import BerkeleySignatures, SignatureModel
from sapwood.trees.normalise import Normaliser, parse_labels, read_labels
from sapwood.trees.partial import format_partial, parse_partial
from sapwood.trees.punctuation import without_punctuation
from sapwood.trees.search.searcher import Searcher
from sapwood.trees.search.table import TreeTable
from sapwood.trees.tokenise.registry import find_tokeniser
from sapwood.trees.transform import TreeTransform
from sapwood.trees.tree import Tree

# Of four times the input: the most memory and time, relative to those of the input.
MOST_MEMORY, MOST_TIME = 6.5, 12.0
Case = tuple[Callable[[int], Any], Callable[[Any], object], int]


def numbered(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.splitlines(keepends=True), 1))


# Trees of about `n` nodes.


def chain(n: int) -> Tree:
    tree = Tree("N", word="a")
    for number in range(n):
        tree = Tree("AB"[number % 2], [tree])
    return tree


def right(n: int) -> Tree:
    tree = Tree("N", word="a")
    for number in range(n):
        tree = Tree("AB"[number % 2], [Tree("N", word="b"), tree])
    return tree


def left(n: int) -> Tree:
    tree = Tree("N", word="a")
    for number in range(n):
        tree = Tree("AB"[number % 2], [tree, Tree("N", word=",")])
    return tree


def flat(n: int) -> Tree:
    return Tree("S", [Tree("N", word="a") for _ in range(n)])


def labelled(n: int) -> Tree:
    return Tree("S", [Tree(f"N{number}", word=f"w{number}") for number in range(n)])


# Trees with gaps, in discbracket.


def interleaved(n: int) -> str:
    """Return a tree in which each phrase has one block more than its child."""
    others = "".join(f" (X {2 * k + 1}=b)" for k in range(n))
    return "(S " + "".join(f"(V (W {2 * k}=a) " for k in range(n)) + f"(W {2 * n}=z)" + ")" * n + others + ")"


def crossing(n: int) -> str:
    return "(S" + "".join(f" (V (W {k}=a) (W {n + k}=b))" for k in range(n)) + ")"


def many_blocks(n: int) -> str:
    return "(S (V" + "".join(f" (W {2 * k}=a)" for k in range(n)) + ")" + "".join(
        f" (X {2 * k + 1}=b)" for k in range(n)
    ) + ")"  # fmt: skip


def loose_punctuation(n: int) -> str:
    """Return a tree with punctuation at the root, between words of the highest and of the lowest of many phrases."""
    low = "".join(f" (W {4 * k}=a)" for k in range(n))
    high = "".join(f" (W {4 * k + 2}=b)" for k in range(n))
    return (
        "(TOP (A" + high + " (B" * n + low + ")" * n + ")" + "".join(f" (. {2 * k + 1}=.)" for k in range(2 * n)) + ")"
    )


def kept(n: int, write: Callable[[int], str]) -> Tree:
    return read_gaps(write(n), "keep")


def read_gaps(text: str, gaps: Any) -> Tree:
    return next(parse_discbracket(text, source="x", gaps=gaps))


GAPS = {
    "interleaved": interleaved,
    "crossing": crossing,
    "blocks": many_blocks,
    "punctuation": loose_punctuation,
}
SHAPES = {"chain": chain, "right": right, "left": left, "flat": flat, "labels": labelled}


def written(tree: Tree, form: str) -> str:
    return file_header(form) + format_as(tree, form) + "\n" + file_footer(form)


def scored(tree: Tree) -> None:
    scorer = Scorer(EvalbParameters())
    scorer.add(tree, tree)
    scorer.result()


def checked(tree: Tree) -> None:
    report = check_consistency([(one, Source("x", 1, 1)) for one in (tree, flattened(tree))])
    report.format()
    report.to_dict()


def compared(tree: Tree) -> None:
    result = measure_agreement([(tree, flattened(tree), ("a", "b"))], agreed=True)
    result.format()
    result.to_dict()


def flattened(tree: Tree) -> Tree:
    return Tree("S", tree.preterminals())


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for name, make in SHAPES.items():
        for form in OUTPUT_FORMATS:
            # A drawing has as many rows as the tree has levels and as many columns as words, up to a limit.
            if form == "draw" and name in ("left", "right"):
                continue
            found[f"write-{form}-{name}"] = (
                make,
                lambda tree, form=form: refused(format_as, tree, form),
                200 if form in ("draw", "svg") else 8000 if form == "discbracket" else 2000,
            )
        for form in ("brackets", "export", "tiger", "discbracket"):
            found[f"read-{form}-{name}"] = (
                lambda n, make=make, form=form: numbered(written(make(n), form)),
                lambda lines, form=form: list(_READERS[form](lines, source="x")),
                1000,
            )
        for what, use in {
            "table": lambda tree: TreeTable.from_trees([tree], lines=[1]),
            "normalise": Normaliser(),
            "transform": lambda tree: TreeTransform().invert(TreeTransform()(tree)),
            "annotate": lambda tree: TreeTransform(vertical=2, horizontal=1)(tree),
            "head": lambda tree: TreeTransform(direction="head")(tree),
            "corpus": lambda tree: Corpus.from_trees([tree]),
            "equal": lambda tree: (hash(tree), tree == Tree.parse(str(tree)), tree.depth(), tree.words()),
            "score": scored,
            "spans": spans_of,
            "check": checked,
            "agree": compared,
            "partial": lambda tree: list(parse_partial([(1, format_partial(tree) + "\n")], source="x")),
            "punctuation": without_punctuation,
            "search": lambda tree: Searcher("A < B | << N").count([tree]),
        }.items():
            found[f"{what}-{name}"] = make, use, 1000
    for name, write in GAPS.items():
        for gaps in ("keep", "close", "split", "join"):
            found[f"gaps-{gaps}-{name}"] = write, lambda text, gaps=gaps: refused(read_gaps, text, gaps), 500
        for form in OUTPUT_FORMATS:
            if form != "draw":
                found[f"gaps-{form}-{name}"] = (
                    partial(kept, write=write),
                    lambda tree, form=form: refused(format_as, tree, form),
                    500,
                )
        for what, use in {
            "score": scored,
            "blocks": node_blocks,
            "close": close_gaps,
            "corpus": lambda tree: Corpus.from_trees([tree]),
            "check": checked,
            "agree": compared,
        }.items():
            found[f"gaps-{what}-{name}"] = partial(kept, write=write), lambda tree, use=use: refused(use, tree), 300
    long = {
        "letters": lambda n: "ab" * (n // 2),
        "capitals": lambda n: "A" * n,
        "digits": lambda n: "1," * (n // 2),
        "stops": lambda n: "." * n,
        "quotes": lambda n: "'\"" * (n // 2),
        "hyphens": lambda n: "a-" * (n // 2),
        "stops and letters": lambda n: "a." * (n // 2),
        "apostrophes": lambda n: "n't" * (n // 3),
        "address": lambda n: "http://a." + "b/" * (n // 2),
        "brackets": lambda n: "(" * (n // 2) + ")" * (n // 2),
        "blanks": lambda n: " " * n,
        "words": lambda n: "Mr. a " * (n // 6),
        "sentences": lambda n: "It is. " * (n // 7),
        "questions": lambda n: "Ok?! " * (n // 5),
        "paragraphs": lambda n: "a\n\n" * (n // 3),
        "codes": lambda n: "-U+0041-" * (n // 8),
    }
    for name, make in long.items():
        for tokeniser in ("penn", "blanks", "characters"):
            found[f"tokenise-{tokeniser}-{name}"] = (
                make,
                lambda text, tokeniser=tokeniser: sum(map(len, find_tokeniser(tokeniser)(text))),
                4000,
            )
        for what, use in {
            "signature": lambda word: SignatureModel(frozenset({word}), frozenset({word})).chain(word, True),
            "berkeley": lambda word: BerkeleySignatures().chain(word, True),
            "vocabulary": lambda word: FeatureVocabulary.count([[word] * 20]),
            "row": lambda word: FeatureVocabulary((word,), (word.lower(), word.lower()[1:])).row(word + "x", True),
            "features": lambda word: (word_features(word), frequent_features({word: 9}, 9)),
            "tokens": lambda text: list(parse_tokens([(1, text + "\n")])),
            "tagged": lambda text: list(parse_tagged([(1, f"{text.replace(' ', '')}/A\n")], source="x", on_bad=str)),
            "word in brackets": lambda text: str(Tree("S", [Tree("A", word=text), Tree(text, word="a")])),
        }.items():
            found[f"{what}-{name}"] = make, use, 12_000
    return found | LINES | RULES | PATTERNS


def read(form: str) -> Callable[[Any], object]:
    return lambda lines: list(_READERS[form](lines, source="x", on_bad=str))


def rewritten(text: str) -> str:
    return format_grammar(parse_grammar(text))


def one_line_of_tiger(n: int) -> list[tuple[int, str]]:
    sentence = format_as(flat(2), "tiger").replace("\n", "")
    return [(1, file_header("tiger").replace("\n", "") + sentence * n + "</body></corpus>")]


LINES: dict[str, Case] = {
    "lines-tokens": (lambda n: numbered("a b\n" * n), lambda lines: list(parse_tokens(lines)), 10_000),
    "lines-blank": (lambda n: numbered("\n" * n), lambda lines: _first(iter(lines)), 3000),
    "lines-conllu": (
        lambda n: numbered("1\ta\ta\tN\tN\t_\t0\troot\t_\t_\n\n" * n),
        lambda lines: list(parse_conllu(lines)),
        3000,
    ),
    "lines-brackets": (lambda n: numbered("(S (A a))\n" * n), read("auto"), 3000),
    "line-brackets": (lambda n: numbered("(S (A a)) " * n), read("auto"), 3000),
    "open-brackets": (lambda n: numbered("(S\n" * n), read("auto"), 500),
    "open-trees": (lambda n: numbered("(S (A a)\n" * n), read("auto"), 500),
    "closed-brackets": (lambda n: numbered(")" * n), read("auto"), 3000),
    "sentences-tiger": (one_line_of_tiger, read("tiger"), 1000),
}
RULES: dict[str, Case] = {
    "rules-plain": (
        lambda n: "1 -> A0\n" + "".join(f"1 A{k} -> A{k + 1} B\n" for k in range(n)) + f'1 A{n} -> "a"\n1 B -> "b"\n',
        rewritten,
        1000,
    ),
    "rule-plain": (lambda n: "1 -> S\n1 S -> " + "B " * n + '\n1 B -> "b"\n', rewritten, 1000),
    "rules-nltk": (lambda n: "S -> " + " | ".join(f"'a{k}' [{1 / n}]" for k in range(n)) + "\n", rewritten, 1000),
    "rules-heads": (lambda n: "".join(f"A{k} left B C\n" for k in range(n)), HeadRules.parse, 3000),
    "rules-labels": (lambda n: "".join(f"A{k}* B\n" for k in range(n)), parse_labels, 3000),
}


def mapped(n: int) -> tuple[Normaliser, Tree]:
    return Normaliser(labels=tuple((f"N{number}*", "N") for number in range(n))), labelled(n)


RULES["labels-mapped"] = mapped, lambda given: given[0](given[1]), 1000


def refused(use: Callable[..., object], *given: Any) -> None:
    """Use something that may be too large to draw or to search."""
    with contextlib.suppress(SapwoodError):
        use(*given)


def search(pattern: str) -> None:
    refused(lambda: Searcher(pattern).count([right(3)]))


PATTERNS: dict[str, Case] = {
    "pattern-relations": (lambda n: "A" + " < B" * n, search, 20),
    "pattern-choices": (lambda n: "|".join(f"A{k}" for k in range(n)), search, 80),
    "pattern-regex": (lambda n: "/" + "a?" * n + "/", search, 50),
    "pattern-nested": (lambda n: "A" + " < (B" * n + ")" * n, search, 20),
}


def in_file(name: str, content: Callable[[int], str]) -> Callable[[int], Path]:
    """Return a function that writes a text of some size to a file of the current folder and returns its path."""

    def make(n: int) -> Path:
        path = Path(f"{n}-{name}")
        path.write_text(content(n), encoding="utf-8")
        return path

    return make


EVENT = '{"event": "iteration", "step": 1, "seconds": 1.5, "log_likelihood": -2.5}\n'


def words(n: int) -> str:
    return "".join(f"w{number} w{number * 7 % n}\n" for number in range(n))


def arpa(n: int) -> str:
    pairs = [f"-1 w{number} w{number + 1}" for number in range(n)]
    head = f"\\data\\\nngram 1={n + 4}\nngram 2={n}\n\n\\1-grams:\n"
    single = [f"-1 {word} -0.5" for word in ("<unk>", "<s>", "</s>", *(f"w{number}" for number in range(n + 1)))]
    return head + "\n".join(single) + "\n\n\\2-grams:\n" + "\n".join(pairs) + "\n\n\\end\\\n"


def counted(path: Path) -> None:
    KneserNey(order=3).fit(count_text(path, order=3)).describe()


PARSER = Parser(random_grammar(np.random.default_rng(1), interminals=2, preterminals=2, states=(1, 2)))


def table_of_sentences(path: Path) -> None:
    parse_csv(ColumnParser(PARSER, "text", warn=False), path, path.with_suffix(".out.csv"))


def arrow_table(n: int) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    path = Path(f"{n}.arrow")
    table = pyarrow.table({"text": ["w0"] * n, "more": [["a", "b"]] * n})
    with pyarrow.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)
    return path


def arrow_of_sentences(path: Path) -> None:
    parse_table(ColumnParser(PARSER, "text", warn=False), path, path.with_suffix(".out.arrow"))


def treebank_with_a_long_word(n: int) -> list[Tree]:
    return [Tree("S", [Tree("A", word="ab" * (n // 2)), Tree("B", word="b")]), *[flat(2)] * 3]


def trained(trees: list[Tree]) -> None:
    model = train(trees, method="pcfg")
    Parser(model, max_memory=1 << 30).parse_one([trees[0].words()[0] + "x", "b"])


FILES: dict[str, Case] = {
    "counts-words": (in_file("words", words), counted, 2000),
    "counts-long-line": (in_file("line", lambda n: "a b " * n), counted, 5000),
    "arpa": (in_file("x.arpa", arpa), load_model, 2000),
    "csv-rows": (in_file("rows.csv", lambda n: "text\n" + "w0\n" * n), table_of_sentences, 300),
    "csv-columns": (
        in_file("columns.csv", lambda n: "text," + ",".join(f"c{k}" for k in range(n)) + "\nw0" + "," * n + "\n"),
        table_of_sentences,
        20_000,
    ),
    "csv-cell": (in_file("cell.csv", lambda n: 'text,b\n,"' + 'a""\n' * n + '"\n'), table_of_sentences, 20_000),
    "csv-blank": (in_file("blank.csv", lambda n: "text\n" + "\n" * n), table_of_sentences, 20_000),
    "arrow-rows": (arrow_table, arrow_of_sentences, 300),
    "log-lines": (in_file("log", lambda n: EVENT * n), read_log, 2000),
    "log-fields": (
        in_file("fields", lambda n: EVENT[:-2] + "".join(f', "f{k}": {k}' for k in range(n)) + "}\n"),
        read_log,
        5000,
    ),
    "heads-file": (
        in_file("heads", lambda n: "S left " + " ".join(f"A{k}" for k in range(n)) + "\n"),
        HeadRules.read,
        5000,
    ),
    "heads-candidate-twice": (
        in_file("heads3", lambda n: "S left " + " ".join(f"A{k}" for k in [*range(n), n - 1]) + "\n"),
        lambda path: refused(HeadRules.read, path),
        2000,
    ),
    "treebank-labels": (lambda n: [labelled(n), flat(2)], lambda trees: train(trees, method="pcfg"), 300),
    "heads-twice": (in_file("heads2", lambda n: "S left A\n" * n), lambda path: refused(HeadRules.read, path), 3000),
    "labels-file": (in_file("labels", lambda n: "A* B\n" * n), lambda path: refused(read_labels, path), 3000),
    "treebank-long-word": (treebank_with_a_long_word, trained, 20_000),
    "unary-chain": (
        lambda n: {(f"A{k}", f"A{k + 1}"): np.ones((1, 1)) for k in range(n)},
        single_steps,
        200,
    ),
    "unary-star": (
        lambda n: (
            {("A", f"B{k}"): np.ones((1, 1)) for k in range(n)} | {(f"B{k}", "C"): np.ones((1, 1)) for k in range(n)}
        ),
        single_steps,
        100,
    ),
    "rules-berkeley": (
        in_file("b.grammar", lambda n: "".join(f"A{k}_0 -> A{k + 1}_0 0.5\n" for k in range(n))),
        lambda path: read_rules(path, int),
        1000,
    ),
    "rules-berkeley-twice": (
        in_file("c.grammar", lambda n: "".join(f"A_{k % 30} -> B_{k // 30} 0.5\n" for k in [*range(n), n - 1])),
        lambda path: refused(read_rules, path, int),
        1000,
    ),
}
CASES = cases() | FILES


@pytest.fixture(scope="module", autouse=True)
def only_new_objects() -> Iterator[None]:
    """Keep objects of earlier tests out of garbage collections, which would take most of the time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def peak(use: Callable[[Any], object], given: Any) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        use(given)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def seconds(use: Callable[[Any], object], given: Any) -> float:
    begun = time.process_time()
    use(given)
    return time.process_time() - begun


def growth(make: Callable[[int], Any], use: Callable[[Any], object], size: int) -> tuple[float, float]:
    """Return how many times the memory and the time four times the input takes."""
    small, large = make(size), make(4 * size)
    use(small)  # caches
    slow, fast = seconds(use, large), seconds(use, small)
    for _ in range(4):
        if slow < max(MOST_TIME * fast, 0.02):
            break
        fast, slow = max(fast, seconds(use, small)), min(slow, seconds(use, large))
    # Tracing slows all down, and peaks vary less than times: half the size will do.
    small, large = make(size // 2), make(2 * size)
    memory = peak(use, large) / max(peak(use, small), 25_000)
    return memory, slow / max(fast, 0.02 / MOST_TIME)


@pytest.mark.parametrize("name", CASES)
def test_memory_and_time_are_linear(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    memory, slower = growth(*CASES[name])
    assert memory < MOST_MEMORY
    assert slower < MOST_TIME
