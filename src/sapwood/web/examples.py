"""Examples that fit what is served: a sentence of a model's language, patterns of a treebank's labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import TypedDict

import numpy as np

from sapwood.errors import SapwoodError
from sapwood.grammar.coarsen import coarsen
from sapwood.grammar.sampling import Sampler
from sapwood.inference.parser import Parser
from sapwood.storage.shapes import Array, Int
from sapwood.trees.normalise import cut_function_tag
from sapwood.trees.search.patterns import parse_pattern
from sapwood.trees.search.searcher import Searcher
from sapwood.trees.search.table import TreeTable

# An ambiguous sentence in several languages, tokenised, and frequent words by which the language is recognised.
_LANGUAGES = [
    (sentence.split(), [*sentence.split(), *frequent.split()], frequent.split())
    for sentence, frequent in (
        ("She saw the man with the telescope .", "the of and to in a is that for was"),
        ("La mujer vio al hombre con el telescopio .", "el la de que y en los por con no"),
        ("La dona va veure l' home amb el telescopi .", "el la de que i en els per amb no"),
        ("Elle a vu l' homme avec le télescope .", "le la de et les des que dans pour est"),
        ("La donna ha visto l' uomo con il telescopio .", "il la di che e in per con non è"),
        ("A mulher viu o homem com o telescópio .", "o a de que e em do da não os"),
        ("Sie sah den Mann mit dem Fernglas .", "der die und in den von zu das mit nicht"),
        ("Zij zag de man met de verrekijker .", "de het een van en in is dat op te"),
        ("Hon såg mannen med kikaren .", "och i att det som på en är av för"),
        ("Hun så manden med kikkerten .", "og i at det som på en er af for"),
        ("Hun så mannen med kikkerten .", "og i å det som på en er av for"),
        ("Hún sá mann með sjónauka .", "og í að er sem á við um til var"),
    )
]
# Least share of the frequent words of its language that a model knows.
_LEAST_KNOWN = 0.8
# Sampled sentences: how many to draw and to compare, and their lengths in words.
_DRAWN, _COMPARED = 80, 12
_SHORTEST, _LONGEST = 4, 9
_ATTACHED = re.compile(r" (?=[.,;:?!]( |$))")
# Number of trees to count labels in, from the start of a treebank.
_COUNTED = 2000
_PLAIN_LABEL = re.compile(r"(?!__)[\w+*-]+")


class ExampleSentence(TypedDict):
    """A sentence as the page for parsing takes it: plain text, or tokens with spaces between them."""

    text: str
    input: str


class Patterns(TypedDict):
    """Search patterns that match trees of a treebank, and its most frequent labels, as patterns have them."""

    patterns: list[str]
    phrases: list[str]
    tags: list[str]


def example_sentence(parser: Parser) -> ExampleSentence:
    """Return a sentence of a model's language: one of ours, if the model knows its words, else one of its grammar."""
    words = _sentence_in(parser.grammar.lexicon.knows) or _sampled_sentence(parser)
    text = _ATTACHED.sub("", " ".join(words))
    try:
        pieces = [[token.word for token in sentence] for sentence in parser.tokenise(text)]
    except SapwoodError:
        pieces = []
    return {"text": text, "input": "text"} if pieces == [words] else {"text": " ".join(words), "input": "tokens"}


def _sentence_in(knows: Callable[[str], bool]) -> list[str]:
    """Return our sentence in the language that a vocabulary knows best; none if it knows none well."""

    def share(words: Sequence[str]) -> float:
        return sum(map(knows, words)) / len(words)

    known = [(share(words), sentence) for sentence, words, frequent in _LANGUAGES if share(frequent) >= _LEAST_KNOWN]
    return max(known, key=itemgetter(0), default=(0.0, list[str]()))[1]


def _sampled_sentence(parser: Parser) -> list[str]:
    """Return the most probable of some short sentences of the grammar, always the same; none if there is none."""
    drawn: list[tuple[str, ...]] = list(dict.fromkeys(map(tuple, _draw(parser))))
    if not drawn:
        return []
    better = [words for words in drawn if _reads_well(words)] or drawn
    # A model without probabilities ranks its own samples equally, so that the first of them is chosen.
    best: tuple[str, ...] = max(better[:_COMPARED], key=lambda words: _mean_log_probability(parser, words))
    return list(best)


def _draw(parser: Parser) -> Iterator[list[str]]:
    """Yield sampled sentences; a grammar that is no distribution is replaced by its coarse grammar."""
    grammar = parser.grammar
    try:
        sampler = Sampler(grammar if grammar.probabilistic else replace(coarsen(grammar)[0], probabilistic=True),
                          unknown=False)  # fmt: skip
        rng = np.random.default_rng(0)
        trees = (sampler.tree(rng, _LONGEST) for _ in range(_DRAWN))
        yield from (tree.words() for tree in trees if tree is not None)
    except (SapwoodError, ArithmeticError, IndexError):  # weights may come from anybody
        return


def _reads_well(words: Sequence[str]) -> bool:
    """Return whether a sentence is neither very short nor mostly punctuation, and repeats no word at once."""
    spelled = [word for word in words if word.isalpha()]
    return len(spelled) >= _SHORTEST - 1 and len(spelled) >= len(words) - 1 and all(a != b for a, b in pairwise(words))


def _mean_log_probability(parser: Parser, words: Sequence[str]) -> float:
    found = parser.parse_one(words, check_tokens=False)
    if found.status != "parsed" or found.log_probability is None:
        return float("-inf")
    return found.log_probability / len(words)


def example_patterns(table: TreeTable) -> Patterns:
    """Return patterns of a treebank's own labels, each of which matches some of its first trees."""
    counts = _LabelCounts(_first_trees(table))
    return {
        "patterns": list(counts.patterns()),
        "phrases": [counts.quoted(label) for (label,) in counts.most_frequent(counts.labels[counts.phrases][:, None])][
            :5
        ],
        "tags": [counts.quoted(label) for (label,) in counts.most_frequent(counts.labels[counts.tags][:, None])][:4],
    }


def _first_trees(table: TreeTable) -> TreeTable:
    """Return the table of the first trees, without the spellings of the others, which would slow searches down."""
    part = table.part(0, min(len(table), _COUNTED))
    used, symbols = np.unique(part.symbols, return_inverse=True)
    spellings = [table.spellings[number] for number in used.tolist()]
    n_labels = int(np.searchsorted(used, table.n_labels))
    return replace(part, spellings=spellings, n_labels=n_labels, symbols=symbols.astype(np.int32))


class _LabelCounts:
    """How often labels, without function tags, stand together in some trees."""

    def __init__(self, table: TreeTable) -> None:
        self.table = table
        spellings = table.spellings[: table.n_labels]
        self.names = [cut_function_tag(label) for label in spellings]
        self.functional = any(base != label for base, label in zip(self.names, spellings, strict=True))
        numbers = {base: number for number, base in enumerate(dict.fromkeys(self.names))}
        self.names_of = list(numbers)
        of_label = np.array([*(numbers[base] for base in self.names), -1], np.int64)
        is_word = table.symbols >= table.n_labels
        self.labels = of_label[np.where(is_word, table.n_labels, table.symbols)]
        is_tag = np.zeros(len(table.symbols), bool)
        is_tag[table.parents[is_word]] = True
        self.tags = np.flatnonzero(is_tag)
        # The top of a tree is a phrase if it has several children; else it is there in every tree.
        tops = table.begins[:-1]
        is_top = np.zeros(len(table.symbols), bool)
        is_top[tops] = table.ends[tops] == table.ends[np.minimum(tops + 1, len(table.ends) - 1)]
        self.phrases = np.flatnonzero(~is_word & ~is_tag & ~is_top)

    def most_frequent(self, rows: Int[Array, "places labels"]) -> list[tuple[str, ...]]:
        """Return the distinct rows of labels, most frequent first; labels without a letter are left out."""
        if not len(rows):
            return []
        found, counts = np.unique(rows, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        named = (tuple(self.names_of[label] for label in row) for row in found[order].tolist())
        return [row for row in named if all(any(c.isalpha() for c in label) for label in row)]

    def quoted(self, label: str) -> str:
        """Return a label as patterns have it: between quotes if it has other signs, with @ if there are functions."""
        at = "@" if self.functional else ""
        return at + (
            label if _PLAIN_LABEL.fullmatch(label) else '"' + label.replace("\\", "\\\\").replace('"', '\\"') + '"'
        )

    def patterns(self) -> Iterator[str]:
        """Yield the patterns."""
        for pattern in dict.fromkeys(self._made()):
            try:
                matched = len(Searcher(parse_pattern(pattern)).nodes(self.table)) > 0
            except SapwoodError:
                continue
            if matched:
                yield pattern

    def _made(self) -> Iterator[str]:
        labels, parents = self.labels, self.table.parents
        inner = self.phrases[np.isin(parents[self.phrases], self.phrases)]
        pairs = [
            pair
            for pair in self.most_frequent(np.stack([labels[parents[inner]], labels[inner]], 1))
            if len(set(pair)) == 2
        ]
        quoted = self.quoted
        for above, below in pairs[:1]:
            yield f"{quoted(above)} < {quoted(below)}"
        for above, one, other in self._distinct(self.phrases)[:1]:
            yield f"{quoted(above)} << ({quoted(one)} $.. {quoted(other)})"
        for above, one, other in self._distinct(self.tags)[:1]:
            yield f"{quoted(above)} < ({quoted(one)} . {quoted(other)})"
        for above, below in [pair for pair in pairs if pair[0] != pairs[0][0]][:1]:
            yield f"{quoted(above)} !<< {quoted(below)}"
        if self.functional:
            yield from self._with_functions()
        else:
            for above, below in pairs[1:2]:
                yield f"{quoted(below)} > {quoted(above)}"

    def _distinct(self, nodes: Int[Array, "places"]) -> list[tuple[str, ...]]:
        """Return parents with two neighbouring children among some nodes, of three different labels."""
        labels, parents, ends = self.labels, self.table.parents, self.table.ends
        neighbours = ends[nodes]
        near = neighbours < len(labels)
        nodes, neighbours = nodes[near], neighbours[near]
        sisters = (
            (parents[nodes] == parents[neighbours]) & np.isin(parents[nodes], self.phrases) & np.isin(neighbours, nodes)
        )
        one, other = nodes[sisters], neighbours[sisters]
        rows = np.stack([labels[parents[one]], labels[one], labels[other]], 1)
        return [row for row in self.most_frequent(rows) if len(set(row)) == 3]

    def _with_functions(self) -> Iterator[str]:
        table = self.table
        symbols = table.symbols[self.phrases]
        tagged = np.array([base != label for base, label in zip(self.names, table.spellings, strict=False)])
        found = self.most_frequent(self.labels[self.phrases][tagged[symbols]][:, None])
        for (label,) in found[:1]:
            yield f"/^{re.escape(label)}-/"
