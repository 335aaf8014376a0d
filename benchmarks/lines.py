"""How often line ends of plain text are misread: one sentence per line, titles, and wrapped paragraphs.

    python benchmarks/lines.py gum/dev.mrg icepahc/dev.mrg.gz

prints for each treebank the share of blocks of N lines that are taken for wrapped text, and the share of line ends of
wrapped paragraphs that are taken for sentence ends.
"""

from __future__ import annotations

import argparse
import random
import textwrap

import sapwood
from _requirements import require
from sapwood.trees.normalise import Normaliser
from sapwood.trees.tokenise.lines import text_blocks


def plain(words: list[str]) -> str:
    """Return words as plain text, roughly."""
    text = " ".join(words)
    for mark in ",.;:?!":
        text = text.replace(" " + mark, mark)
    return text.replace("`` ", '"').replace(" ''", '"').replace(" 's", "'s").replace(" n't", "n't")


def joined(sentences: list[str], lines: int, times: int = 200) -> float:
    """Return the share of blocks with one sentence per line that are taken for wrapped text."""
    wrong = 0
    for _ in range(times):
        start = random.randrange(len(sentences) - lines)
        wrong += len(list(text_blocks("\n".join(sentences[start : start + lines])))) != lines
    return wrong / times


def broken(sentences: list[str], width: int, paragraphs: int, times: int = 100) -> float:
    """Return the share of line ends inside of wrapped paragraphs that are taken for sentence ends."""
    wrong = total = 0
    for _ in range(times):
        texts = []
        for _ in range(paragraphs):
            start = random.randrange(len(sentences) - 6)
            texts.append(textwrap.fill(" ".join(sentences[start : start + random.randrange(1, 6)]), width))
        wrong += len(list(text_blocks("\n\n".join(texts)))) - paragraphs
        total += sum(text.count("\n") for text in texts)
    return wrong / max(total, 1)


def main() -> None:
    """Measure all treebanks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("treebanks", nargs="+")
    treebanks = parser.parse_args().treebanks
    require(files=treebanks)
    for path in treebanks:
        random.seed(0)
        clean = filter(None, map(Normaliser(), sapwood.read_trees(path)))
        sentences = [plain(tree.words()) for tree in clean]
        titles = [sentence.rstrip(".?!") for sentence in sentences]
        print(path)
        for name, found in (("sentences", sentences), ("titles", titles)):
            print(
                f"  {name:<10}", *(f"{lines} lines {joined(found, lines):.1%}" for lines in (2, 3, 5, 10, 50)), sep="  "
            )
        for paragraphs in (1, 5):
            shares = (f"{width} columns {broken(sentences, width, paragraphs):.1%}" for width in (30, 50, 72, 100))
            print(f"  {paragraphs} wrapped ", *shares, sep="  ")


if __name__ == "__main__":
    main()
