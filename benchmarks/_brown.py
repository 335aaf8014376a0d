"""The Brown corpus split as by Bengio et al. (2006) and section 8 of Cohen and Collins (2014).

The first 800,000 tokens are for training, and words seen once in them become `<unk>`; the next 200,000 are for
development, in two halves; the rest is the test set. Line ends mean nothing: the cuts fall within sentences.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sapwood.lm.counts.vocabulary import Vocabulary
from sapwood.storage.files import read_lines

TRAIN, DEV = 800_000, 200_000
_PARTS = ("train", "dev_first", "dev_second", "test")


@dataclass(frozen=True)
class Split:
    """Tokens and ids of the four parts.

    Attributes
    ----------
    vocabulary
        The words seen at least twice in the training part.
    train, dev_first, dev_second, test
        Ids `(n,)` int32, one long sequence each.
    tokens
        The same as words, by the name of the part.
    lines
        The same again as lists of lines, each a list of words; the lines at the cuts are cut.
    """

    vocabulary: Vocabulary
    train: np.ndarray
    dev_first: np.ndarray
    dev_second: np.ndarray
    test: np.ndarray
    tokens: dict[str, list[str]]
    lines: dict[str, list[list[str]]]

    def write(self, folder: str | Path, *, stream: bool = False) -> dict[str, Path]:
        """Write the parts as text files, a sentence a line (or all of a part in one line); return their paths."""
        paths = {name: Path(folder) / f"{name}.txt" for name in _PARTS}
        for name, path in paths.items():
            lines = [self.tokens[name]] if stream else self.lines[name]
            path.write_text("".join(" ".join(line) + "\n" for line in lines), "utf-8")
        return paths


def brown_split(path: str | Path, *, min_count: int = 2, train: int = TRAIN, dev: int = DEV) -> Split:
    """Read the corpus (one sentence a line) and split it."""
    bounds = np.cumsum([0, train, dev // 2, dev - dev // 2])
    lines: dict[str, list[list[str]]] = {name: [] for name in _PARTS}
    at = 0
    for _, line in read_lines(path):
        words = line.split()
        while words:
            part = int(np.searchsorted(bounds, at, "right")) - 1
            room = len(words) if part == len(_PARTS) - 1 else min(len(words), int(bounds[part + 1]) - at)
            lines[_PARTS[part]].append(words[:room])
            at += room
            words = words[room:]
    tokens = {name: [word for line in part for word in line] for name, part in lines.items()}
    words, counts = np.unique(np.array(tokens["train"]), return_counts=True)
    seen = dict(zip(words.tolist(), counts.tolist(), strict=True))
    vocabulary = Vocabulary.from_counts(seen, min_count=min_count)
    ids = [vocabulary.encode(tokens[name]) for name in _PARTS]
    return Split(vocabulary, *ids, tokens, lines)
