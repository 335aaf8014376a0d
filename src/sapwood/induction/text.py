"""Sentences to induce from: words, and the terminals that stand for them.

Models are defined over *terminals*: the tags of the words, if available and requested; distributional word classes
(`sapwood.lm.clusters.exchange`); or the words themselves, of which rare ones can be replaced by signatures. Punctuation
is removed (`sapwood.trees.punctuation`), but classes are learned with it, because it is context like any other word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from sapwood.errors import InputError, UsageError
from sapwood.lm.clusters.exchange import exchange_classes
from sapwood.runtime.progress import Progress, Silent, track
from sapwood.storage.arrays import content_digest
from sapwood.storage.files import name_of, read_lines
from sapwood.storage.shapes import Array, Bool, Int, Int32, Int64
from sapwood.trees.formats.conllu import parse_conllu
from sapwood.trees.formats.registry import detect_format, locate_trees, parse_tagged, parse_tokens
from sapwood.trees.lexicon.signatures import shape
from sapwood.trees.normalise import Normaliser
from sapwood.trees.punctuation import PUNCTUATION, Punctuation, Token, is_punctuation
from sapwood.trees.tokenise.attached import TOKENISE, AttachedPunctuation
from sapwood.trees.tree import Tree

Terminals = Literal["tags", "classes", "words"]
TextFormat = Literal["auto", "text", "tagged", "conllu", "brackets", "export", "discbracket"]
TEXT_FORMATS: tuple[TextFormat, ...] = ("auto", "text", "tagged", "conllu", "brackets", "export", "discbracket")
# An input sentence: a tree, of which only words and tags are used, words, or (word, tag) pairs.
Sentence: TypeAlias = Tree | Sequence[str | tuple[str, str]]
# Number of words of a text inspected to detect its format.
_FIRST_LINES = 50
CLASSES = 48
# Punctuation marks that divide a sentence into segments.
DIVIDING = frozenset(
    {",", ";", ":", "--", "—", "–", "...", "…", "(", ")", "-LRB-", "-RRB-", "、", "，", "；", "：", "،"}
)
# Tokens of rare words that a signature with an ending has at least.
_FREQUENT_SIGNATURE = 20
# How a line with a tree begins.
_TREE = re.compile(r"\s*\(\s*[^\s()]*\s*\(")


@dataclass(frozen=True, eq=False)
class Text:
    """Sentences as numbers, concatenated.

    Attributes
    ----------
    terminals
        The names of the terminals.
    terminal
        The terminal of each token.
    words, word
        The different words, and that of each token.
    offsets
        Where each sentence begins, and where the last one ends.
    kind
        Kind of the terminals.
    punctuation
        Whether punctuation was removed.
    divided
        Whether a dividing punctuation mark (`DIVIDING`) was removed between each token and the previous one.
    """

    terminals: tuple[str, ...]
    terminal: Int32[Array, "tokens"]
    words: tuple[str, ...]
    word: Int32[Array, "tokens"]
    offsets: Int64[Array, "sentence_bounds"]
    kind: Terminals
    punctuation: Punctuation = "drop"
    divided: Bool[Array, "tokens"] | None = None

    @property
    def n_sentences(self) -> int:
        """Number of sentences; some may be empty."""
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Int64[Array, "sentences"]:
        """Number of tokens of each sentence."""
        return np.diff(self.offsets)

    @cached_property
    def start(self) -> Int64[Array, "tokens"]:
        """The position of each token in its sentence."""
        return np.arange(len(self.word)) - np.repeat(self.offsets[:-1], self.lengths)

    def part(self, chosen: Int[Array, "chosen"] | Bool[Array, "sentences"]) -> Text:
        """Return some of the sentences, over the same terminals and words."""
        numbers = np.arange(self.n_sentences)[chosen]
        lengths = self.lengths[numbers]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        tokens = np.arange(offsets[-1]) + np.repeat(self.offsets[numbers] - offsets[:-1], lengths)
        divided = None if self.divided is None else self.divided[tokens]
        return replace(self, terminal=self.terminal[tokens], word=self.word[tokens], offsets=offsets, divided=divided)

    def trimmed(self) -> Text:
        """Return the same sentences without unused terminals and words."""
        terminals, terminal = _renumbered(self.terminals, self.terminal)
        words, word = _renumbered(self.words, self.word)
        return replace(self, terminals=terminals, terminal=terminal, words=words, word=word)

    def up_to(self, length: int, least: int = 1) -> Text:
        """Return the sentences of `least` to `length` words."""
        return self.part((self.lengths <= length) & (self.lengths >= least))

    def sentence(self, number: int) -> Int32[Array, "length"]:
        """Return the terminals of a sentence."""
        return self.terminal[self.offsets[number] : self.offsets[number + 1]]

    def digest(self) -> str:
        """Return a fingerprint of all sentences."""
        arrays = {name: getattr(self, name) for name in ("terminal", "word", "offsets")}
        names = {"terminals": list(self.terminals), "words": list(self.words)}
        return content_digest(arrays, {**names, "kind": self.kind, "punctuation": self.punctuation})

    def __repr__(self) -> str:
        return (
            f"<Text: {self.n_sentences:,} sentences, {len(self.word):,} words, {len(self.terminals):,} "
            f"{'different words' if self.kind == 'words' else self.kind}>"
        )


def make_text(
    sentences: Iterable[Sentence],
    *,
    tags: bool = False,
    classes: int | None = None,
    vocabulary: int | None = None,
    punctuation: Punctuation = "drop",
    progress: Progress | None = None,
) -> Text:
    """Return sentences as a text to learn from.

    Parameters
    ----------
    sentences
        Words, (word, tag) pairs, or trees. Empty sentences stay empty.
    tags
        Learn from tags, which all words must have.
    classes
        Otherwise the number of word classes; 0 learns from the words themselves. None is `CLASSES`.
    vocabulary
        Learn from the words themselves, this many of the most frequent ones that occur more than once; others are
        terminals by their shape and ending (`signature_names`).
    punctuation
        Whether to `drop` or to `keep` punctuation.
    progress
        Progress display.

    Examples
    --------
    >>> make_text([[("dogs", "NNS"), ("sleep", "VBP"), (".", ".")]] * 3, tags=True)
    <Text: 3 sentences, 6 words, 2 tags>
    """
    if punctuation not in PUNCTUATION:
        raise UsageError(f"punctuation must be {' or '.join(PUNCTUATION)}, not {punctuation!r}")
    if tags and classes is not None:
        raise UsageError("classes: are found for words, and tags are learned from here; leave one of them out")
    if vocabulary is not None and (tags or classes is not None):
        raise UsageError("vocabulary: learns from words; leave out tags and classes")
    progress = progress or Silent()
    numbers: dict[str, int] = {}
    names: dict[str, int] = {}
    word: list[int] = []
    terminal: list[int] = []
    kept: list[bool] = []
    lengths: list[int] = []
    note = progress.note
    plain = AttachedPunctuation(is_punctuation)
    sentences = plain.watched(sentences, lambda finding: note(f"text: {finding}; {TOKENISE}"))
    for count, sentence in enumerate(track(sentences, progress, "reading", None, "sentences"), 1):
        tokens = tokens_of(sentence)
        lengths.append(len(tokens))
        for token, tag in tokens:
            word.append(numbers.setdefault(token, len(numbers)))
            kept.append(punctuation == "keep" or not is_punctuation(token, tag))
            if tags:
                if tag is None:
                    raise InputError(f"sentence {count}: {token!r} has no tag, and tags are to be learned from")
                terminal.append(names.setdefault(tag, len(names)) if kept[-1] else -1)
    all_words, words = np.array(word, np.int32), list(numbers)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    keep = np.array(kept, bool)
    kind: Terminals = "tags" if tags else "words" if classes == 0 or vocabulary is not None else "classes"
    if kind == "classes":
        found = exchange_classes(
            words, all_words, offsets, classes=CLASSES if classes is None else classes, progress=progress
        )
        all_terminals, labels = found[all_words], [f"C{number}" for number in range(1, int(found.max()) + 2)]
    elif vocabulary is not None:
        labels = signature_names(words, np.bincount(all_words[keep], minlength=len(words)), vocabulary)
        labels, place = _distinct(labels)
        all_terminals = place[all_words]
    elif kind == "words":
        all_terminals, labels = all_words, words
    else:
        all_terminals, labels = np.array(terminal, np.int32), list(names)
    inside = np.repeat(np.arange(len(lengths)), lengths)[keep]
    # Drop words and classes that only punctuation had.
    return Text(
        *_renumbered(labels, all_terminals[keep]),
        *_renumbered(words, all_words[keep]),
        offsets=np.concatenate([[0], np.cumsum(np.bincount(inside, minlength=len(lengths)))]).astype(np.int64),
        kind=kind,
        punctuation=punctuation,
        divided=_divided(np.array([word in DIVIDING for word in words], bool)[all_words], keep, offsets),
    )


def signature_names(words: Sequence[str], counts: Int[Array, "words"], vocabulary: int) -> list[str]:
    """Return the terminal of each word: itself if it is one of the most frequent, else its signature.

    A signature has the shape of the word, and its last two letters if `_FREQUENT_SIGNATURE` tokens have the same.

    >>> signature_names(["the", "barking", "Lee"], np.array([5, 1, 1]), 10)
    ['the', 'UNK-a', 'UNK-Aa']
    """
    order = np.argsort(-counts, kind="stable")[:vocabulary]
    known = set(order[counts[order] > 1].tolist())
    shapes = [shape(word, False) for word in words]
    endings = [f"-{word[-2:].lower()}" if len(word) > 3 and word[-2:].isalpha() else "" for word in words]
    often: Counter[str] = Counter()
    for number, count in enumerate(counts.tolist()):
        if number not in known:
            often[shapes[number] + endings[number]] += count
    found = []
    for number, word in enumerate(words):
        fine = shapes[number] + endings[number]
        found.append(
            word if number in known else f"UNK-{fine if often[fine] >= _FREQUENT_SIGNATURE else shapes[number]}"
        )
    return found


def divided_tokens(words: Sequence[str], kept: Sequence[int]) -> list[bool]:
    """Return whether a dividing mark stands between each kept word of a sentence and the previous one.

    >>> divided_tokens(["well", ",", "she", "left"], [0, 2, 3])
    [False, True, False]
    """
    before = [-1, *kept[:-1]]
    return (
        [
            last >= 0 and any(word in DIVIDING for word in words[last + 1 : place])
            for last, place in zip(before, kept, strict=True)
        ]
        if kept
        else []
    )


def _divided(dividing: np.ndarray, keep: np.ndarray, offsets: np.ndarray) -> Bool[Array, "kept_tokens"]:
    """Return whether a dividing mark was removed between each kept token and the previous one of its sentence."""
    places = np.flatnonzero(keep)
    marks = np.concatenate([[0], np.cumsum(dividing & ~keep)])
    sentence = np.searchsorted(offsets, places, side="right")
    before = np.concatenate([[False], (marks[places[1:]] > marks[places[:-1]]) & (sentence[1:] == sentence[:-1])])
    return before[: len(places)]


def _distinct(labels: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return the different labels in order of appearance, and the place of each."""
    numbers: dict[str, int] = {}
    place = np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int32)
    return list(numbers), place


def _renumbered(names: Sequence[str], numbers: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the names that are used, and their new numbers."""
    used, found = np.unique(numbers, return_inverse=True)
    return tuple(names[number] for number in used), found.astype(np.int32)


def tokens_of(sentence: Sentence) -> list[Token]:
    """Return the words of a sentence with their tags, None if missing."""
    if isinstance(sentence, Tree):
        return list(zip(sentence.words(), sentence.tags(), strict=True))
    if isinstance(sentence, str):
        raise UsageError("a sentence is a sequence of words, not a string")
    found: list[Token] = []
    for token in sentence:
        pair = (token, None) if isinstance(token, str) else token
        if not (isinstance(pair, Sequence) and len(pair) == 2 and isinstance(pair[0], str)):
            raise UsageError(f"a token is a word or a (word, tag) pair, not {token!r}")
        found.append((pair[0], pair[1]))
    return found


def read_sentences(path: str | Path, format: TextFormat = "auto") -> Iterator[Sentence]:
    """Yield the sentences of a file: lines of tokens or of word/TAG, CoNLL-U, or a treebank, whose trees come cleaned.

    `auto` detects the format from the first lines: brackets, discbracket or `#FORMAT`, ten columns, or a slash in every
    token.
    """
    if format not in TEXT_FORMATS:
        raise UsageError(f"there is no format of text {format!r}; the formats are {', '.join(TEXT_FORMATS)}")
    lines = iter(read_lines(path))
    if format == "auto":
        first = _first(lines)
        format, lines = _told(first, name_of(path)), chain(first, lines)
    source = name_of(path)
    if format == "conllu":
        for one in parse_conllu(lines, source=source):
            yield list(zip(one.words, one.tags, strict=True))
    elif format in ("brackets", "export", "discbracket"):
        normaliser = Normaliser()
        for tree, _ in locate_trees(lines, source=source, format=format):
            clean = normaliser(tree)
            yield clean if clean is not None else []
    else:
        yield from parse_tagged(lines, source=source) if format == "tagged" else parse_tokens(lines)


def _first(lines: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    seen = 0
    for line in lines:
        found.append(line)
        seen += bool(line[1].strip())
        if seen >= _FIRST_LINES:
            break
    return found


def _told(first: Sequence[tuple[int, str]], source: str) -> TextFormat:
    """Return the format detected from a file's first lines."""
    texts = [text for _, text in first if text.strip()]
    if not texts:
        return "text"
    treebank = detect_format(first, source)
    if treebank in ("export", "discbracket"):
        return treebank
    if _TREE.match(texts[0]):
        return "brackets"
    words = [text for text in texts if not text.startswith("#")]
    if words and all(text.count("\t") == 9 for text in words):
        return "conllu"
    tokens = [token for text in texts for token in text.split()]
    return "tagged" if all("/" in token.strip("/") for token in tokens) else "text"
