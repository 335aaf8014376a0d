"""Train the Icelandic model on IcePaHC and make the package that `sapwood.load("is")` finds.

    python tools/treebanks.py fetch icepahc -o data
    python tools/icelandic.py data/icepahc -o dist

The labels say what kind of clause there is, `IP-MAT`, `IP-SUB` or `IP-INF`; other function tags are cut, and tags of
words keep their case. To keep the model small, it is trained on half of the trees (every second block of fifty) with
three cycles of split-merge, and its states are merged afterwards. The layer has 2^17 places for weights, the network
vectors of 64 numbers for 15,000 looks. The same trees give the same bytes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from sapwood import Bars, Normaliser, Parser, ParserModel, SplitMerge, Tree, evaluate_parser, read_trees, train
from sapwood.interop.packages import write_package
from sapwood.learn.components.forest_crf import ForestCRFTrainer
from sapwood.learn.components.span_scorer import SpanScorerTrainer
from sapwood.pipeline.compress import compress

CLAUSES = (("IP-MAT*", "IP-MAT"), ("IP-SUB*", "IP-SUB"), ("IP-INF*", "IP-INF"))
BLOCK = 50
ATTRIBUTION = """\
`is.sapwood` was learned from IcePaHC, the Icelandic Parsed Historical Corpus (texts of the 12th to the 21st century).

- Source: Joel C. Wallenberg, Anton Karl Ingason, Einar Freyr Sigurðsson and Eiríkur Rögnvaldsson (2011), *Icelandic
  Parsed Historical Corpus (IcePaHC)*, version 0.9.
- Licence of the corpus: Creative Commons Attribution 4.0 (CC BY 4.0). The model holds words and their weights, no
  sentences, and is distributed under the same licence.
- Changes: lemmas, sentence numbers, empty elements and most function tags were left out.
"""
ABOUT = """\
Icelandic prose of all centuries in modern spelling, tokenised as in the corpus: nouns stand apart from their article
(`tungur$ $nar`), which no tokeniser of ours does. On modern text, newspapers above all, expect less than the figures
say; it was not tested there. Labels are those of IcePaHC, with `IP-MAT`, `IP-SUB` and `IP-INF` for clauses.
"""


def half(trees: Iterator[Tree]) -> Iterator[Tree]:
    """Yield every second block of trees, so that every text has its share."""
    while block := list(islice(trees, BLOCK)):
        yield from block
        for _ in islice(trees, BLOCK):
            pass


def part(folder: Path, name: str) -> Path:
    """Return the path of a part, compressed or not."""
    plain, packed = folder / f"{name}.mrg", folder / f"{name}.mrg.gz"
    return plain if plain.exists() else packed


def learn(folder: Path, cycles: int, budget: float) -> ParserModel:
    """Return the model, its states merged."""
    trees = half(read_trees(part(folder, "train")))
    corpus = SplitMerge.prepare(trees, normaliser=Normaliser(labels=CLAUSES), progress=Bars())
    trained = train(
        corpus,
        method=SplitMerge(cycles=cycles),
        crf=ForestCRFTrainer(bits=17, held_out=corpus.n_trees // 4),
        span_scorer=SpanScorerTrainer(embedding=64, max_features=15_000, epochs=8),
        progress=Bars(),
    )
    return compress(trained, corpus, method="merging", budget=budget, progress=Bars())


def main(arguments: list[str] | None = None) -> None:
    """Train, evaluate, package."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("treebank", type=Path, help="folder with train.mrg and dev.mrg (or .mrg.gz) of IcePaHC")
    parser.add_argument("-o", "--output", type=Path, default=Path("dist"), help="folder for the wheel [dist]")
    parser.add_argument("--cycles", type=int, default=3)
    parser.add_argument("--budget", type=float, default=0.7, help="part of the states to keep [0.7]")
    parser.add_argument("--version", default="0.9.0", help="of the package: that of the corpus, and a number of ours")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    grammar = learn(options.treebank, options.cycles, options.budget)
    model = options.output / "is.sapwood"
    grammar.save(model)
    scores = evaluate_parser(Parser(grammar), read_trees(part(options.treebank, "dev")), progress=Bars())
    wheel = write_package(
        model,
        options.output,
        name="is",
        language="Icelandic",
        licence="CC-BY-4.0",
        attribution=ATTRIBUTION,
        about=ABOUT,
        figures={"icepahc/dev": scores.to_dict()},
        version=options.version,
    )
    print(
        json.dumps({"wheel": str(wheel), "model_bytes": model.stat().st_size, "f1": scores.f1, "exact": scores.exact})
    )


if __name__ == "__main__":
    main()
