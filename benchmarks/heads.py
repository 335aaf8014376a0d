"""How far dependencies by head rules agree with those of another converter.

    python benchmarks/heads.py trees.mrg other.conllu --heads english

`other.conllu` has the dependencies of the same trees, in their order, as another program converts them: columns apart
by tabs as in CoNLL-X and CoNLL-U, the word in the second and its head in the seventh. Trees are cleaned as for
training. Printed is the share of words that have the same head in both (punctuation apart from the others), and which
tags below which heads differ most often.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from _requirements import require
from sapwood import HeadRules, Normaliser, read_trees
from sapwood.trees.formats.conllu import dependencies


def read_conll(path: str) -> Iterator[list[tuple[str, int]]]:
    """Yield word and head of the words of each sentence."""
    rows: list[tuple[str, int]] = []
    for line in [*Path(path).read_text(encoding="utf-8").splitlines(), ""]:
        if not line.strip():
            if rows:
                yield rows
            rows = []
        elif not line.startswith("#"):
            columns = line.split("\t")
            rows.append((columns[1], int(columns[6])))


def main() -> None:
    """Compare, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees")
    parser.add_argument("other")
    parser.add_argument("--heads", default="english")
    options = parser.parse_args()
    require(files=[options.trees, options.other])
    rules, clean = HeadRules.named(options.heads), Normaliser()
    ours = [tree for tree in map(clean, read_trees(options.trees)) if tree is not None]
    same: Counter[bool] = Counter()
    words: Counter[bool] = Counter()
    differ: Counter[tuple[str, str, str]] = Counter()
    for tree, other in zip(ours, read_conll(options.other), strict=True):
        tags = [*tree.tags(), "root"]
        if len(tags) != len(other) + 1:
            raise SystemExit(f"{len(other)} words in {options.other}, {len(tags) - 1} in: {' '.join(tree.words())}")
        for tag, found, (_, head) in zip(tags, dependencies(tree, rules), other, strict=False):
            sign = not any(map(str.isalnum, tag))
            words[sign] += 1
            same[sign] += found.head == head
            if found.head != head and not sign:
                differ[tag, tags[found.head - 1], tags[head - 1]] += 1
    every = words.total()
    print(f"{len(ours):,} trees, {every:,} words")
    print(f"same head: {same.total() / every:.1%} of all, {same[False] / max(words[False], 1):.1%} without punctuation")
    for (tag, here, there), count in differ.most_common(12):
        print(f"{count:6,}  {tag}: ours {here}, theirs {there}")


if __name__ == "__main__":
    main()
