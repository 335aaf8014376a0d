"""Slow twins: n-grams counted in dictionaries, and Kneser-Ney probabilities straight from the formula."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np

from sapwood.lm.counts.vocabulary import Vocabulary

MARKS = ("<s>", "</s>")


def sentences_of(texts, boundaries):
    """The sequences of words of some texts: sentences, or one stream."""
    if boundaries == "stream":
        return [[word for text in texts for word in _words(text)]]
    result = []
    for text in texts:
        for line in text.split("\n"):
            result.append([])
            for word in _words(line):
                if word in MARKS:
                    result.append([])
                else:
                    result[-1].append(word)
    return [sentence for sentence in result if sentence]


def _words(text):
    return [word for word in re.split("[\x01-\x20]+", text) if word]


def count_slowly(texts, *, order, min_count=1, max_words=None, boundaries="sentence"):
    """Vocabulary and a list of dictionaries from n-grams of ids to counts."""
    sequences = sentences_of(texts, boundaries)
    seen = Counter(word for words in sequences for word in words)
    number = len(sequences) if boundaries == "sentence" else 0
    kept = sorted(
        (w for w, n in seen.items() if n >= min_count and w not in ("<unk>", *MARKS)), key=lambda w: (-seen[w], w)
    )
    words = ["<unk>", *MARKS, *kept[:max_words]]
    index = {word: x for x, word in enumerate(words)}
    ids = [[index.get(word, 0) for word in sequence] for sequence in sequences]
    if boundaries == "sentence":
        ids = [[1, *sequence, 2] for sequence in ids]
    tables = [
        Counter(tuple(sequence[x : x + k]) for sequence in ids for x in range(len(sequence) - k + 1))
        for k in range(1, order + 1)
    ]
    counts = np.array([tables[0][(x,)] for x in range(len(words))])
    assert number == 0 or counts[1] == counts[2] == number
    return Vocabulary(words, counts), tables, ids


class SlowKneserNey:
    """p(w | h) by the formula, from dictionaries of counts and given discounts."""

    def __init__(self, vocabulary, tables, boundaries, discounts):
        self.order = len(tables)
        self.sentences = boundaries == "sentence"
        self.discounts = discounts
        self.adjusted = [Counter() for _ in tables]
        for k, table in enumerate(tables, 1):
            for ngram, count in table.items():
                if k == self.order or (self.sentences and ngram[0] == 1):
                    self.adjusted[k - 1][ngram] = count
                else:
                    before = {longer[0] for longer in tables[k] if longer[1:] == ngram}
                    self.adjusted[k - 1][ngram] = max(len(before), 1)
        if self.sentences:
            del self.adjusted[0][(1,)]
        self.targets = [x for x in range(len(vocabulary)) if x > 2 or self.adjusted[0].get((x,), 0) > 0]

    def discount(self, k, count):
        return 0.0 if count == 0 else self.discounts[k - 1][min(count, 3) - 1]

    def probability(self, word, context):
        context = tuple(context[max(0, len(context) - self.order + 1) :])
        k = len(context) + 1
        table = self.adjusted[k - 1]
        after = {ngram: count for ngram, count in table.items() if ngram[:-1] == context}
        total = sum(after.values())
        if k == 1:
            lower = 1 / len(self.targets) if word in self.targets else 0.0
        else:
            lower = self.probability(word, context[1:])
        if total == 0:
            return lower
        count = after.get((*context, word), 0)
        left = sum(self.discount(k, count) for count in after.values())
        return (count - self.discount(k, count)) / total + left / total * lower


def write(folder: Path, *texts: str) -> list[Path]:
    """Write texts to files and return their paths."""
    paths = [folder / f"{x}.txt" for x in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text.encode())
    return paths
